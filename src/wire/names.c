/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Names of topics and groups. Pure functions, any thread. */
#include "wire/names.h"

#include <string.h>

#include "base/err.h"

static bool allowed(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '%' ||
           c == '|' || c == '_' || c == '-';
}

static rmq_status check(struct rq_slice name, size_t most, const char *what, rmq_error **err)
{
    int shown = (int)(name.n < 160 ? name.n : 160);
    if (name.n == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "%s is empty", what);
    }
    if (name.n > most) {
        return rq_error_set(err, RMQ_ERR_INVALID, "%s \"%.*s\" has %zu characters, the limit is %zu", what,
                            shown, name.p, name.n, most);
    }
    for (size_t i = 0; i < name.n; i++) {
        if (!allowed(name.p[i])) {
            return rq_error_set(err, RMQ_ERR_INVALID,
                                "%s \"%.*s\": character %zu is not one of A-Z a-z 0-9 %% | _ -", what, shown,
                                name.p, i + 1);
        }
    }
    return RMQ_OK;
}

rmq_status rq_topic_check(struct rq_slice topic, rmq_error **err)
{
    return check(topic, RQ_TOPIC_MAX, "topic", err);
}

rmq_status rq_group_check(struct rq_slice group, rmq_error **err)
{
    if (rq_slice_eq_str(group, "DEFAULT_PRODUCER") || rq_slice_eq_str(group, "DEFAULT_CONSUMER")) {
        return rq_error_set(err, RMQ_ERR_INVALID, "group \"%.*s\" is reserved, choose a name of your own",
                            (int)group.n, group.p);
    }
    return check(group, RQ_GROUP_MAX, "group", err);
}

static bool in_list(struct rq_slice name, const char *const *list)
{
    for (; *list; list++) {
        if (rq_slice_eq_str(name, *list)) {
            return true;
        }
    }
    return false;
}

static bool starts(struct rq_slice name, const char *prefix)
{
    size_t n = strlen(prefix);
    return name.n >= n && memcmp(name.p, prefix, n) == 0;
}

bool rq_topic_is_system(struct rq_slice topic)
{
    static const char *const list[] = {RQ_TOPIC_DEFAULT,   RQ_TOPIC_SCHEDULE,     RQ_TOPIC_BENCHMARK,
                                       RQ_TOPIC_HALF,      RQ_TOPIC_OP_HALF,      RQ_TOPIC_CHECK_MAX,
                                       RQ_TOPIC_TRACE,     RQ_TOPIC_SELF_TEST,    RQ_TOPIC_OFFSET_MOVED,
                                       RQ_TOPIC_CHECKPOINT, NULL};
    return in_list(topic, list) || starts(topic, RQ_SYS_TOPIC_PREFIX);
}

bool rq_topic_is_forbidden(struct rq_slice topic)
{
    static const char *const list[] = {RQ_TOPIC_SCHEDULE,  RQ_TOPIC_HALF,      RQ_TOPIC_OP_HALF,
                                       RQ_TOPIC_CHECK_MAX, RQ_TOPIC_SELF_TEST, RQ_TOPIC_OFFSET_MOVED,
                                       NULL};
    return in_list(topic, list);
}

bool rq_topic_is_retry(struct rq_slice topic)
{
    return starts(topic, RQ_RETRY_PREFIX);
}

bool rq_topic_is_dlq(struct rq_slice topic)
{
    return starts(topic, RQ_DLQ_PREFIX);
}

bool rq_group_is_system(struct rq_slice group)
{
    return starts(group, RQ_SYS_GROUP_PREFIX);
}

static size_t join(const char *prefix, struct rq_slice group, char out[RQ_NAME_MAX])
{
    size_t n = strlen(prefix);
    if (n + group.n >= RQ_NAME_MAX) {
        out[0] = '\0';
        return 0;
    }
    memcpy(out, prefix, n);
    memcpy(out + n, group.p, group.n);
    out[n + group.n] = '\0';
    return n + group.n;
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
               : rq_topic_is_dlq(topic) ? strlen(RQ_DLQ_PREFIX)
                                        : 0;
    return rq_slice(topic.p + n, topic.n - n);
}
