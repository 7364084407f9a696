/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Reports by request (303, 308, 315, 317, 321, 345, 353). Loop thread. Counterpart:
 * AdminBrokerProcessor. */
#include "base/mem.h"
#include "base/time.h"
#include "broker/admin_write.h"
#include "broker/broker.h"
#include "broker/filter.h"

#define ENTRIES_MAX 10000 /* of one look at a consume queue */

static void answer_object(const struct rq_request *request, struct rq_buf *body)
{
    rq_answer_body(request->conn, &request->to, NULL, NULL, body);
}

static void refuse_topic(const struct rq_request *request, struct rq_slice topic)
{
    rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST, "topic[%.*s] not exist",
                   RQ_TEXT(topic));
}

/* ---- 303 ---- */

static void add_time_span(const struct rq_request *request, const struct rq_hdr_group *header,
                          int32_t queue_id, struct rq_buf *out)
{
    struct rmq_broker *broker = request->broker;
    struct rq_slice topic = header->topic;
    int64_t max = rq_store_max_offset(broker->store, topic, queue_id);
    int64_t offset = rq_offsets_query(&broker->offsets, header->group, topic, queue_id);
    int64_t min_ms = rq_store_earliest_time(broker->store, topic, queue_id);
    int64_t consume_ms =
        offset > 0 ? rq_store_time_of(broker->store, topic, queue_id, offset - 1) : min_ms;
    int64_t delay_ms = 0;
    if (offset < max) {
        delay_ms = rq_wall_ms() - rq_store_time_of(broker->store, topic, queue_id, offset);
    }
    rq_buf_addf(out,
                "%s{\"consumeTimeStamp\":%lld,\"delayTime\":%lld,\"maxTimeStamp\":%lld,"
                "\"messageQueue\":",
                queue_id ? "," : "", (long long)consume_ms, (long long)delay_ms,
                (long long)rq_store_time_of(broker->store, topic, queue_id, max - 1));
    rq_admin_add_queue(request->broker, topic, queue_id, out);
    rq_buf_addf(out, ",\"minTimeStamp\":%lld}", (long long)min_ms);
}

void rq_process_time_span(const struct rq_request *request)
{
    struct rq_hdr_group header;
    struct rq_topic_info topic;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_group, &header)) {
        return;
    }
    if (!rq_topics_get(&request->broker->topics, header.topic, &topic)) {
        refuse_topic(request, header.topic);
        return;
    }
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"consumeTimeSpanSet\":[");
    for (int32_t i = 0; i < topic.write_queue_nums; i++) {
        add_time_span(request, &header, i, &body);
    }
    rq_buf_add_str(&body, "]}");
    answer_object(request, &body);
}

/* ---- 308 ---- */

/* Names that a walk under a lock has found, each with a NUL. */
struct names {
    struct rq_buf text;
};

static void note_group(struct rq_slice topic, struct rq_slice group, void *user)
{
    struct names *names = user;
    (void)topic;
    rq_buf_add_slice(&names->text, group);
    rq_buf_add_char(&names->text, '\0');
}

static void note_topic(struct rq_slice topic, struct rq_slice group, void *user)
{
    struct names *names = user;
    (void)group;
    rq_buf_add_slice(&names->text, topic);
    rq_buf_add_char(&names->text, '\0');
}

static bool next_name(const struct names *names, size_t *at, struct rq_slice *out)
{
    if (rq_buf_status(&names->text) || *at >= names->text.len) {
        return false;
    }
    *out = rq_slice_str(names->text.data + *at);
    *at += out->n + 1;
    return true;
}

/* Whether a comma-separated list has a name. */
static bool has_name(struct rq_slice list, struct rq_slice name)
{
    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        struct rq_slice item = rq_slice(list.p, comma ? (size_t)(comma - list.p) : list.n);
        if (rq_slice_eq(item, name)) {
            return true;
        }
        list = comma ? rq_slice(comma + 1, list.n - item.n - 1) : rq_slice(NULL, 0);
    }
    return false;
}

/* The smallest offset of all groups but those filtered, not below the queue's beginning; INT64_MAX
 * when there is none. */
static int64_t smallest_offset(const struct rq_request *request, const struct names *groups,
                               const struct rq_hdr_correction_offset *header, int32_t queue_id)
{
    struct rmq_broker *broker = request->broker;
    int64_t begin = rq_store_min_offset(broker->store, header->topic, queue_id);
    int64_t smallest = INT64_MAX;
    struct rq_slice group;
    for (size_t at = 0; next_name(groups, &at, &group);) {
        int64_t offset = rq_offsets_query(&broker->offsets, group, header->topic, queue_id);
        if (!has_name(header->filter_groups, group) && offset >= begin && offset >= 0 &&
            offset < smallest) {
            smallest = offset;
        }
    }
    return smallest;
}

void rq_process_correction_offset(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_hdr_correction_offset header;
    struct rq_topic_info topic = {0};
    struct names groups;
    struct rq_buf body;
    bool first = true;
    if (!rq_request_decode(request, &rq_tab_correction_offset, &header)) {
        return;
    }
    (void)rq_topics_get(&broker->topics, header.topic, &topic);
    rq_buf_init(&groups.text, 0);
    rq_buf_init(&body, 0);
    rq_offsets_each(&broker->offsets, rq_slice(NULL, 0), header.topic, note_group, &groups);
    rq_buf_add_str(&body, "{\"correctionOffsets\":{");
    for (int32_t i = 0; i < topic.read_queue_nums; i++) {
        int64_t smallest = smallest_offset(request, &groups, &header, i);
        int64_t own = rq_offsets_query(&broker->offsets, header.compare_group, header.topic, i);
        if (smallest == INT64_MAX && own < 0) {
            continue;
        }
        rq_buf_addf(&body, "%s%d:%lld", first ? "" : ",", i,
                    (long long)(own >= 0 && smallest > own ? INT64_MAX : smallest));
        first = false;
    }
    rq_buf_add_str(&body, "}}");
    rq_buf_free(&groups.text);
    answer_object(request, &body);
}

/* ---- 315 ---- */

void rq_process_stats(const struct rq_request *request)
{
    struct rq_hdr_stats header;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_stats, &header)) {
        return;
    }
    rq_buf_init(&body, 0);
    if (rq_stats_write(&request->broker->stats, header.stats_name, header.stats_key, &body)) {
        answer_object(request, &body);
        return;
    }
    rq_buf_free(&body);
    rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                   "The stats <%.*s> <%.*s> not exist", RQ_TEXT(header.stats_name),
                   RQ_TEXT(header.stats_key));
}

/* ---- 317 ---- */

struct consume_report {
    const struct rq_request *request;
    bool order_only;
    int64_t diff;
    int64_t inflight;
    struct rq_buf out;
};

static void report_topic(struct consume_report *report, struct rq_slice group, struct rq_slice name,
                         bool *first)
{
    struct rmq_broker *broker = report->request->broker;
    struct rq_topic_info topic;
    char tps[RQ_FIXED_MAX];
    if (!rq_topics_get(&broker->topics, name, &topic) || (report->order_only && !topic.order) ||
        !rq_admin_is_subscribed(broker, group, name)) {
        return;
    }
    rq_buf_addf(&report->out, "%s{\"consumeTps\":%s,\"offsetTable\":{", *first ? "" : ",",
                rq_fixed_to_text(rq_admin_consume_tps(broker, group, name), 4, tps));
    for (int32_t i = 0; i < topic.write_queue_nums; i++) {
        int64_t max = rq_store_max_offset(broker->store, name, i);
        int64_t offset = rq_offsets_query(&broker->offsets, group, name, i);
        offset = offset < 0 ? 0 : offset;
        int64_t time_ms = offset > 0 ? rq_store_time_of(broker->store, name, i, offset - 1) : 0;
        rq_buf_add_str(&report->out, i ? "," : "");
        rq_admin_add_queue(broker, name, i, &report->out);
        rq_buf_addf(&report->out,
                    ":{\"brokerOffset\":%lld,\"consumerOffset\":%lld,\"lastTimestamp\":%lld,"
                    "\"pullOffset\":%lld}",
                    (long long)max, (long long)offset, (long long)(time_ms > 0 ? time_ms : 0),
                    (long long)offset);
        report->diff += max - offset;
    }
    rq_buf_add_str(&report->out, "}}");
    *first = false;
}

static void report_group(struct consume_report *report, struct rq_slice group, bool *first)
{
    struct names topics;
    struct rq_slice topic;
    bool first_topic = true;
    rq_buf_init(&topics.text, 0);
    rq_offsets_each(&report->request->broker->offsets, group, rq_slice(NULL, 0), note_topic,
                    &topics);
    rq_buf_add_str(&report->out, *first ? "{" : ",{");
    rq_json_add_string(&report->out, group);
    rq_buf_add_str(&report->out, ":[");
    for (size_t at = 0; next_name(&topics, &at, &topic);) {
        report_topic(report, group, topic, &first_topic);
    }
    rq_buf_add_str(&report->out, "]}");
    rq_buf_free(&topics.text);
    *first = false;
}

void rq_process_broker_consume_stats(const struct rq_request *request)
{
    struct rq_hdr_broker_consume_stats header;
    struct consume_report report = {.request = request};
    struct names groups;
    struct rq_slice group;
    bool first = true;
    if (!rq_request_decode(request, &rq_tab_broker_consume_stats, &header)) {
        return;
    }
    report.order_only = header.is_order;
    rq_buf_init(&groups.text, 0);
    rq_buf_init(&report.out, 0);
    rq_groups_each(&request->broker->groups, &groups.text);
    rq_buf_add_str(&report.out, "{\"brokerAddr\":");
    rq_json_add_string(&report.out, rq_slice_str(request->broker->addr));
    rq_buf_add_str(&report.out, ",\"consumeStatsList\":[");
    for (size_t at = 0; next_name(&groups, &at, &group);) {
        report_group(&report, group, &first);
    }
    rq_buf_addf(&report.out, "],\"totalDiff\":%lld,\"totalInflightDiff\":%lld}",
                (long long)report.diff, (long long)report.inflight);
    rq_buf_free(&groups.text);
    answer_object(request, &report.out);
}

/* ---- 321 ---- */

/* What a group's subscription says about an entry; by the code in the queue, as the Java broker's
 * own answer. */
static void add_subscription(const struct rq_request *request,
                             const struct rq_hdr_query_consume_queue *header, struct rq_buf *out)
{
    bool known = false;
    struct rq_shared_subscription *shared = rq_clients_subscription(
        &request->broker->clients, header->consumer_group, header->topic, &known);
    if (shared) {
        rq_buf_add_str(out, ",\"filterData\":\"null\",\"subscriptionData\":");
        rq_subscription_write(shared->sub, out);
    } else {
        struct rq_buf text;
        rq_buf_init(&text, 0);
        rq_buf_addf(&text, "%.*s@%.*s is not online!", RQ_TEXT(header->consumer_group),
                    RQ_TEXT(header->topic));
        rq_buf_add_str(out, ",\"filterData\":");
        rq_json_add_string(out, rq_slice(text.data, text.len));
        rq_buf_free(&text);
    }
    rq_shared_subscription_release(shared);
}

static void add_entries(const struct rq_request *request,
                        const struct rq_hdr_query_consume_queue *header, struct rq_buf *out)
{
    struct rq_store_entry entry;
    int32_t count = header->count < ENTRIES_MAX ? header->count : ENTRIES_MAX;
    for (int32_t i = 0; i < count; i++) {
        if (!rq_store_entry(request->broker->store, header->topic, header->queue_id,
                            header->index + i, &entry)) {
            return;
        }
        rq_buf_addf(out,
                    "%s{\"eval\":false,\"physicOffset\":%lld,\"physicSize\":%d,\"tagsCode\":%lld}",
                    i ? "," : "", (long long)entry.commit_log_offset, entry.size,
                    (long long)entry.tags_code);
    }
}

void rq_process_query_consume_queue(const struct rq_request *request)
{
    struct rq_store *store = request->broker->store;
    struct rq_hdr_query_consume_queue header;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_query_consume_queue, &header)) {
        return;
    }
    if (!rq_store_has_queue(store, header.topic, header.queue_id)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR, "%d@%.*s is not exist!",
                       header.queue_id, RQ_TEXT(header.topic));
        return;
    }
    rq_buf_init(&body, 0);
    rq_buf_addf(&body, "{\"maxQueueIndex\":%lld,\"minQueueIndex\":%lld",
                (long long)rq_store_max_offset(store, header.topic, header.queue_id),
                (long long)rq_store_min_offset(store, header.topic, header.queue_id));
    if (header.consumer_group.n) {
        add_subscription(request, &header, &body);
    }
    rq_buf_add_str(&body, ",\"queueData\":[");
    add_entries(request, &header, &body);
    rq_buf_add_str(&body, "]}");
    answer_object(request, &body);
}

/* ---- 345, 353 ---- */

void rq_process_subscription_of(const struct rq_request *request)
{
    struct rq_hdr_group header;
    struct rq_buf body;
    bool known = false;
    if (!rq_request_decode(request, &rq_tab_group, &header)) {
        return;
    }
    struct rq_shared_subscription *shared =
        rq_clients_subscription(&request->broker->clients, header.group, header.topic, &known);
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"group\":");
    rq_json_add_string(&body, header.group);
    if (shared) {
        rq_buf_add_str(&body, ",\"subscriptionData\":");
        rq_subscription_write(shared->sub, &body);
    }
    rq_buf_add_str(&body, ",\"topic\":");
    rq_json_add_string(&body, header.topic);
    rq_buf_add_char(&body, '}');
    rq_shared_subscription_release(shared);
    answer_object(request, &body);
}

void rq_process_group_forbidden(const struct rq_request *request)
{
    struct rq_groups *groups = &request->broker->groups;
    struct rq_hdr_group header;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_group, &header)) {
        return;
    }
    if (RQ_HAS(group, &header, readable)) {
        rmq_status st = rq_groups_forbid(groups, header.group, header.topic, !header.readable);
        if (st) {
            rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, rmq_status_text(st));
            return;
        }
        rq_broker_persist_now(request->broker);
    }
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"group\":");
    rq_json_add_string(&body, header.group);
    rq_buf_addf(&body, ",\"readable\":%s,\"topic\":",
                rq_groups_is_forbidden(groups, header.group, header.topic) ? "false" : "true");
    rq_json_add_string(&body, header.topic);
    rq_buf_add_char(&body, '}');
    answer_object(request, &body);
}
