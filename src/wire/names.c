/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Rules for names of topics and groups. Called by client and broker before a name goes anywhere.
 * Counterparts: TopicValidator, Validators, MixAll, KeyBuilder.
 */
#include "wire/names.h"

#include <string.h>

#include "base/err.h"

static const char *const system_topics[] = {
    RQ_TOPIC_DEFAULT,      RQ_TOPIC_SCHEDULE,  RQ_TOPIC_BENCHMARK, RQ_TOPIC_HALF,
    RQ_TOPIC_OP_HALF,      RQ_TOPIC_CHECK_MAX, RQ_TOPIC_TRACE,     RQ_TOPIC_SELF_TEST,
    RQ_TOPIC_OFFSET_MOVED, RQ_TOPIC_CHECKPOINT};

static const char *const forbidden_topics[] = {RQ_TOPIC_SCHEDULE,  RQ_TOPIC_HALF,
                                               RQ_TOPIC_OP_HALF,   RQ_TOPIC_CHECK_MAX,
                                               RQ_TOPIC_SELF_TEST, RQ_TOPIC_OFFSET_MOVED};

static const char *const refused_groups[] = {"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool is_one_of(struct rq_slice name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rq_slice_eq_str(name, names[i])) {
            return true;
        }
    }
    return false;
}

static bool starts_with(struct rq_slice name, const char *prefix)
{
    size_t n = strlen(prefix);
    return name.n >= n && memcmp(name.p, prefix, n) == 0;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '%' ||
           c == '|' || c == '_' || c == '-';
}

static rmq_status check_name(const char *what, struct rq_slice name, size_t max, rmq_error **err)
{
    if (name.n == 0 || name.n > max) {
        return rq_error_set(err, RMQ_ERR_INVALID, "%s of %zu characters, 1 to %zu are allowed",
                            what, name.n, max);
    }
    for (size_t i = 0; i < name.n; i++) {
        if (!is_name_char(name.p[i])) {
            return rq_error_set(err, RMQ_ERR_INVALID,
                                "%s \"%.*s\": byte 0x%02x at %zu, allowed are A-Z a-z 0-9 %% | _ -",
                                what, (int)name.n, name.p, (unsigned char)name.p[i], i);
        }
    }
    return RMQ_OK;
}

rmq_status rq_server_name_check(const char *what, struct rq_slice name, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    /* the parts between dots, as host names have them */
    for (size_t at = 0; !st && at <= name.n;) {
        const char *dot = at < name.n ? memchr(name.p + at, '.', name.n - at) : NULL;
        size_t n = dot ? (size_t)(dot - name.p) - at : name.n - at;
        if (n == 0 && name.n > 0) {
            return rq_error_set(err, RMQ_ERR_INVALID, "%s \"%.*s\": nothing %s a dot", what,
                                (int)name.n, name.p, dot ? "before" : "behind");
        }
        st = check_name(what, rq_slice(name.p + at, n), RQ_TOPIC_MAX, err);
        at += n + 1;
    }
    if (!st && name.n > RQ_SERVER_NAME_MAX) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "%s of %zu characters, %d are allowed", what,
                          name.n, RQ_SERVER_NAME_MAX);
    }
    return st;
}

rmq_status rq_topic_check(struct rq_slice topic, rmq_error **err)
{
    return check_name("topic", topic, RQ_TOPIC_MAX, err);
}

rmq_status rq_group_check(struct rq_slice group, rmq_error **err)
{
    if (is_one_of(group, refused_groups, COUNT(refused_groups))) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "group %.*s is reserved: choose a name of your own", (int)group.n,
                            group.p);
    }
    return check_name("group", group, RQ_GROUP_MAX, err);
}

bool rq_topic_is_system(struct rq_slice topic)
{
    return is_one_of(topic, system_topics, COUNT(system_topics)) ||
           starts_with(topic, RQ_SYS_TOPIC_PREFIX);
}

bool rq_topic_is_forbidden(struct rq_slice topic)
{
    return is_one_of(topic, forbidden_topics, COUNT(forbidden_topics));
}

bool rq_topic_is_retry(struct rq_slice topic)
{
    return starts_with(topic, RQ_RETRY_PREFIX);
}

static bool is_dlq(struct rq_slice topic)
{
    return starts_with(topic, RQ_DLQ_PREFIX);
}

bool rq_group_is_system(struct rq_slice group)
{
    return starts_with(group, RQ_SYS_GROUP_PREFIX);
}

static size_t join(const char *prefix, struct rq_slice name, char out[RQ_NAME_MAX])
{
    size_t n = strlen(prefix);
    out[0] = '\0';
    if (name.n >= RQ_NAME_MAX - n) {
        return 0;
    }
    memcpy(out, prefix, n);
    if (name.n) {
        memcpy(out + n, name.p, name.n);
    }
    out[n + name.n] = '\0';
    return n + name.n;
}

size_t rq_topic_of_retry(struct rq_slice group, char out[RQ_NAME_MAX])
{
    return join(RQ_RETRY_PREFIX, group, out);
}

size_t rq_topic_of_dlq(struct rq_slice group, char out[RQ_NAME_MAX])
{
    return join(RQ_DLQ_PREFIX, group, out);
}

struct rq_slice rq_topic_without_prefix(struct rq_slice topic)
{
    size_t n = rq_topic_is_retry(topic) ? strlen(RQ_RETRY_PREFIX)
               : is_dlq(topic)          ? strlen(RQ_DLQ_PREFIX)
                                        : 0;
    return n ? rq_slice(topic.p + n, topic.n - n) : topic;
}
