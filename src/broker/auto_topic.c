/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Automatic topics and those made at start. Counterpart: TopicConfigManager. */
#include "broker/auto_topic.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "broker/broker.h"
#include "wire/names.h"

#define BENCHMARK_QUEUES 1024
#define CLUSTER_QUEUES   16
#define REVIVE_QUEUES    8
#define READ_WRITE       (RQ_PERM_READ | RQ_PERM_WRITE)

static struct rq_topic_info info_of(int32_t queues, int32_t perm)
{
    return (struct rq_topic_info){
        .read_queue_nums = queues, .write_queue_nums = queues, .perm = perm};
}

void rq_dlq_topic_info(struct rq_topic_info *out)
{
    *out = info_of(1, READ_WRITE);
}

/* Adds a topic and tells the others when it is new. */
static bool add(struct rmq_broker *broker, struct rq_slice name, struct rq_topic_info *info)
{
    bool created = false;
    if (rq_topics_add(&broker->topics, name, info, &created)) {
        return false;
    }
    if (created) {
        RQ_LOG(INFO, "topic created", "topic=%.*s queues=%d perm=%d", RQ_TEXT(name),
               info->write_queue_nums, info->perm);
        rq_broker_topics_changed(broker);
        return true;
    }
    return rq_topics_get(&broker->topics, name, info); /* somebody else was first */
}

bool rq_auto_topic(struct rmq_broker *broker, const struct rq_hdr_send *header,
                   struct rq_topic_info *out)
{
    struct rq_topic_info template;
    /* switched off by request, it has its template still */
    bool off = !broker->settings.broker.auto_create_topic_enable &&
               rq_slice_eq_str(header->default_topic, RQ_TOPIC_DEFAULT);
    if (!off && rq_topics_get(&broker->topics, header->default_topic, &template) &&
        (template.perm & RQ_PERM_INHERIT)) {
        int32_t queues = header->default_topic_queue_nums;
        if (queues > template.write_queue_nums) {
            queues = template.write_queue_nums;
        }
        *out = info_of(queues < 0 ? 0 : queues, template.perm & ~RQ_PERM_INHERIT);
        out->multi_tag = template.multi_tag;
        if (header->unit_mode) {
            out->sys_flag = RQ_TOPIC_SYS_FLAG_UNIT;
        }
        return add(broker, header->topic, out);
    }
    if (rq_topic_is_retry(header->topic)) {
        *out = info_of(1, READ_WRITE);
        return add(broker, header->topic, out);
    }
    return false;
}

rmq_status rq_retry_topic(struct rmq_broker *broker, struct rq_slice group, int32_t queues,
                          struct rq_topic_info *out)
{
    char name[RQ_NAME_MAX];
    size_t n = rq_topic_of_retry(group, name);
    if (n == 0) {
        return RMQ_ERR_INVALID;
    }
    if (rq_topics_get(&broker->topics, rq_slice(name, n), out)) {
        return RMQ_OK;
    }
    *out = info_of(queues, READ_WRITE);
    return add(broker, rq_slice(name, n), out) ? RMQ_OK : RMQ_ERR_NOMEM;
}

/* A topic made at start; perm 0 = not on this broker. */
struct system_topic {
    char name[RQ_NAME_MAX];
    struct rq_topic_info info;
};

#define SYSTEM_TOPICS_MAX 20

static void put_system(struct system_topic *list, size_t *count, int32_t queues, int32_t perm,
                       const char *prefix, const char *name, const char *suffix)
{
    struct system_topic *topic = &list[(*count)++];
    (void)snprintf(topic->name, sizeof topic->name, "%s%s%s", prefix, name, suffix);
    topic->info = info_of(queues, perm);
}

static size_t list_system(const struct rmq_broker *broker, struct system_topic *list)
{
    const struct rq_broker_options *o = &broker->settings.broker;
    const int32_t all = READ_WRITE | RQ_PERM_INHERIT;
    size_t n = 0;
    put_system(list, &n, 1, READ_WRITE, "", RQ_TOPIC_SELF_TEST, "");
    if (o->auto_create_topic_enable) {
        put_system(list, &n, o->default_topic_queue_nums, all, "", RQ_TOPIC_DEFAULT, "");
    }
    put_system(list, &n, BENCHMARK_QUEUES, READ_WRITE, "", RQ_TOPIC_BENCHMARK, "");
    put_system(list, &n, CLUSTER_QUEUES, o->cluster_topic_enable ? all : RQ_PERM_INHERIT, "",
               o->broker_cluster_name, "");
    put_system(list, &n, 1, o->broker_topic_enable ? all : RQ_PERM_INHERIT, "", o->broker_name, "");
    put_system(list, &n, 1, READ_WRITE, "", RQ_TOPIC_OFFSET_MOVED, "");
    put_system(list, &n, broker->schedule.level_count, READ_WRITE, "", RQ_TOPIC_SCHEDULE, "");
    if (o->trace_topic_enable) {
        put_system(list, &n, 1, READ_WRITE, "", o->msg_trace_topic_name, "");
    }
    put_system(list, &n, 1, READ_WRITE, "", o->broker_cluster_name, RQ_REPLY_TOPIC_END);
    put_system(list, &n, 1, READ_WRITE, "", RQ_TOPIC_HALF, "");
    put_system(list, &n, 1, READ_WRITE, "", RQ_TOPIC_OP_HALF, "");
    put_system(list, &n, 1, READ_WRITE, "", RQ_TOPIC_TIMER, "");
    put_system(list, &n, REVIVE_QUEUES, READ_WRITE, "rmq_sys_REVIVE_LOG_", o->broker_cluster_name,
               "");
    put_system(list, &n, 1, RQ_PERM_INHERIT, "rmq_sys_SYNC_BROKER_MEMBER_", o->broker_name, "");
    return n;
}

rmq_status rq_system_topics(struct rmq_broker *broker, rmq_error **err)
{
    struct system_topic list[SYSTEM_TOPICS_MAX];
    size_t count = list_system(broker, list);
    for (size_t i = 0; i < count; i++) {
        bool created;
        struct rq_slice name = rq_slice_str(list[i].name);
        rmq_status st = RMQ_OK;
        if (rq_topics_add(&broker->topics, name, &list[i].info, &created)) {
            st = rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
        }
        if (st) {
            return st;
        }
    }
    return RMQ_OK;
}

bool rq_is_system_topic(const struct rmq_broker *broker, struct rq_slice topic)
{
    struct system_topic list[SYSTEM_TOPICS_MAX];
    size_t count = list_system(broker, list);
    bool found = rq_topic_is_system(topic);
    for (size_t i = 0; !found && i < count; i++) {
        found = rq_slice_eq_str(topic, list[i].name);
    }
    return found;
}

void rq_system_topics_write(struct rmq_broker *broker, struct rq_buf *out)
{
    struct system_topic list[SYSTEM_TOPICS_MAX];
    size_t count = list_system(broker, list);
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < count; i++) {
        rq_buf_add_str(out, i ? "," : "");
        rq_json_add_string(out, rq_slice_str(list[i].name));
    }
    rq_buf_add_char(out, ']');
}

rmq_status rq_system_groups(struct rmq_broker *broker, rmq_error **err)
{
    static const char *const names[] = {
        "TOOLS_CONSUMER",  "FILTERSRV_CONSUMER",    "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER",  RQ_GROUP_TRANSACTION,
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (rq_groups_add_default(&broker->groups, names[i])) {
            return rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
        }
    }
    return RMQ_OK;
}
