/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Numbers by request (202, 208), and cleaning (306, 316, 329). Loop thread. Counterpart:
 * AdminBrokerProcessor. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/admin_write.h"
#include "broker/broker.h"
#include "wire/names.h"

void rq_admin_add_queue(const struct rmq_broker *broker, struct rq_slice topic, int32_t queue_id,
                        struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"brokerName\":");
    rq_json_add_string(out, rq_slice_str(broker->settings.broker.broker_name));
    rq_buf_addf(out, ",\"queueId\":%d,\"topic\":", queue_id);
    rq_json_add_string(out, topic);
    rq_buf_add_char(out, '}');
}

static void add_queue_key(const struct rq_request *request, struct rq_slice topic, int32_t queue_id,
                          bool first, struct rq_buf *out)
{
    rq_buf_add_str(out, first ? "" : ",");
    rq_admin_add_queue(request->broker, topic, queue_id, out);
    rq_buf_add_char(out, ':');
}

void rq_process_topic_stats(const struct rq_request *request)
{
    struct rq_store *store = request->broker->store;
    struct rq_hdr_topic header;
    struct rq_topic_info topic;
    struct rq_buf body;
    char text[RQ_FIXED_MAX];
    if (!rq_request_decode(request, &rq_tab_topic, &header)) {
        return;
    }
    if (!rq_topics_get(&request->broker->topics, header.topic, &topic)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                       "topic[%.*s] not exist", RQ_TEXT(header.topic));
        return;
    }
    int32_t count = topic.read_queue_nums > topic.write_queue_nums ? topic.read_queue_nums
                                                                   : topic.write_queue_nums;
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"offsetTable\":{");
    for (int32_t i = 0; i < count; i++) {
        int64_t min = rq_store_min_offset(store, header.topic, i);
        int64_t max = rq_store_max_offset(store, header.topic, i);
        int64_t time_ms = max > min ? rq_store_time_of(store, header.topic, i, max - 1) : 0;
        add_queue_key(request, header.topic, i, i == 0, &body);
        rq_buf_addf(&body, "{\"lastUpdateTimestamp\":%lld,\"maxOffset\":%lld,\"minOffset\":%lld}",
                    (long long)(time_ms > 0 ? time_ms : 0), (long long)max, (long long)min);
    }
    double tps = rq_stats_tps(&request->broker->stats, RQ_STATS_TOPIC_PUT_NUMS, header.topic);
    rq_buf_addf(&body, "},\"topicPutTps\":%s}", rq_fixed_to_text(tps, 4, text));
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

/* ---- consume stats: 208 ---- */

struct names {
    struct rq_buf text; /* each with a NUL */
};

static void note_offset_topic(struct rq_slice topic, struct rq_slice group, void *user)
{
    struct names *names = user;
    (void)group;
    rq_buf_add_slice(&names->text, topic);
    rq_buf_add_char(&names->text, '\0');
}

static bool is_noted(const struct names *names, struct rq_slice topic)
{
    bool found = false;
    for (size_t at = 0; !found && at < names->text.len;) {
        struct rq_slice name = rq_slice_str(names->text.data + at);
        found = rq_slice_eq(name, topic);
        at += name.n + 1;
    }
    return found;
}

static void note_listed_topics(struct rq_slice list, struct names *names)
{
    struct rq_slice topic;
    while (rq_slice_next(&list, ';', &topic)) {
        if (topic.n && !is_noted(names, topic)) {
            note_offset_topic(topic, rq_slice(NULL, 0), names);
        }
    }
}

static void add_topic_stats(const struct rq_request *request, struct rq_slice group,
                            struct rq_slice name, bool *first, struct rq_buf *out)
{
    struct rmq_broker *broker = request->broker;
    struct rq_topic_info topic;
    if (!rq_topics_get(&broker->topics, name, &topic)) {
        return;
    }
    for (int32_t i = 0; i < topic.read_queue_nums; i++) {
        int64_t max = rq_store_max_offset(broker->store, name, i);
        int64_t offset = rq_offsets_query(&broker->offsets, group, name, i);
        if (offset < 0 && !topic.is_static) { /* there it may stand at another physical queue */
            offset = 0;
        }
        int64_t time_ms = offset > 0 ? rq_store_time_of(broker->store, name, i, offset - 1) : 0;
        add_queue_key(request, name, i, *first, out);
        *first = false;
        rq_buf_addf(out,
                    "{\"brokerOffset\":%lld,\"consumerOffset\":%lld,\"lastTimestamp\":%lld,"
                    "\"pullOffset\":%lld}",
                    (long long)max, (long long)offset, (long long)(time_ms > 0 ? time_ms : 0),
                    (long long)offset);
    }
}

double rq_admin_consume_tps(struct rmq_broker *broker, struct rq_slice group, struct rq_slice topic)
{
    struct rq_buf key;
    rq_buf_init(&key, 0);
    rq_buf_addf(&key, "%.*s@%.*s", RQ_TEXT(topic), RQ_TEXT(group));
    double tps = rq_stats_tps(&broker->stats, RQ_STATS_GROUP_GET_NUMS, rq_slice(key.data, key.len));
    rq_buf_free(&key);
    return tps;
}

bool rq_admin_is_subscribed(struct rmq_broker *broker, struct rq_slice group, struct rq_slice topic)
{
    bool online = false;
    struct rq_shared_subscription *sub =
        rq_clients_subscription(&broker->clients, group, topic, &online);
    rq_shared_subscription_release(sub);
    return sub != NULL || !online;
}

void rq_process_consume_stats(const struct rq_request *request)
{
    struct rq_hdr_consume_stats header;
    struct names names;
    struct rq_buf body;
    bool first = true;
    if (!rq_request_decode(request, &rq_tab_consume_stats, &header)) {
        return;
    }
    rq_buf_init(&names.text, 0);
    note_listed_topics(header.topic_list, &names);
    bool listed = names.text.len > 0; /* asked for by name, whatever the group subscribes to */
    if (listed) {
        /* and no other */
    } else if (header.topic.n) {
        note_offset_topic(header.topic, header.consumer_group, &names);
    } else {
        rq_offsets_each(&request->broker->offsets, header.consumer_group, rq_slice(NULL, 0),
                        note_offset_topic, &names);
    }
    double tps = 0;
    char text[RQ_FIXED_MAX];
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"offsetTable\":{");
    for (size_t at = 0; rq_buf_status(&names.text) == RMQ_OK && at < names.text.len;) {
        struct rq_slice topic = rq_slice_str(names.text.data + at);
        if (listed || rq_admin_is_subscribed(request->broker, header.consumer_group, topic)) {
            tps += rq_admin_consume_tps(request->broker, header.consumer_group, topic);
            add_topic_stats(request, header.consumer_group, topic, &first, &body);
        }
        at += topic.n + 1;
    }
    rq_buf_addf(&body, "},\"consumeTps\":%s}", rq_fixed_to_text(tps, 4, text));
    rq_buf_free(&names.text);
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

/* ---- upkeep: 306, 316, 329 ---- */

struct unused {
    struct rmq_broker *broker;
    struct rq_buf topics; /* each with a NUL */
};

static bool note_unused(struct rq_slice topic, int32_t queue_id, void *user)
{
    struct unused *unused = user;
    struct rq_topic_info info;
    (void)queue_id;
    if (!rq_topic_is_system(topic) && !rq_topics_get(&unused->broker->topics, topic, &info)) {
        rq_buf_add_slice(&unused->topics, topic);
        rq_buf_add_char(&unused->topics, '\0');
    }
    return true;
}

/* Queues of topics that are in no table any more, as a store may have that another broker wrote. */
static void clean_unused(struct rmq_broker *broker)
{
    struct unused unused = {.broker = broker};
    rq_buf_init(&unused.topics, 0);
    rq_store_each_queue(broker->store, note_unused, &unused);
    for (size_t at = 0; rq_buf_status(&unused.topics) == RMQ_OK && at < unused.topics.len;) {
        struct rq_slice topic = rq_slice_str(unused.topics.data + at);
        RQ_LOG(INFO, "queues of an unused topic are removed", "topic=%.*s", RQ_TEXT(topic));
        rq_store_delete_topic(broker->store, topic);
        at += topic.n + 1;
    }
    rq_buf_free(&unused.topics);
}

/* Expired entries of queues (306) go with each round of retention. */
void rq_process_clean(const struct rq_request *request)
{
    if (request->in->header->code == RQ_REQ_DELETE_EXPIRED_COMMITLOG) {
        (void)rq_store_clean(request->broker->store, true);
    } else if (request->in->header->code == RQ_REQ_CLEAN_UNUSED_TOPIC) {
        clean_unused(request->broker);
    } else {
        (void)rq_store_clean(request->broker->store, false);
    }
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
}
