/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Numbers and settings by request (25, 26, 28, 202, 208, 306, 316, 329). Loop thread. Counterpart: AdminBrokerProcessor. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/names.h"

static void add_queue_key(const struct rq_request *request, struct rq_slice topic, int32_t queue_id,
                          bool first, struct rq_buf *out)
{
    rq_buf_add_str(out, first ? "{\"brokerName\":" : ",{\"brokerName\":");
    rq_json_add_string(out, rq_slice_str(request->broker->settings.broker.broker_name));
    rq_buf_addf(out, ",\"queueId\":%d,\"topic\":", queue_id);
    rq_json_add_string(out, topic);
    rq_buf_add_str(out, "}:");
}

void rq_process_topic_stats(const struct rq_request *request)
{
    struct rq_store *store = request->broker->store;
    struct rq_hdr_topic header;
    struct rq_topic_info topic;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_topic, &header)) {
        return;
    }
    if (!rq_topics_get(&request->broker->topics, header.topic, &topic)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST, "topic[%.*s] not exist",
                       RQ_TEXT(header.topic));
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
    rq_buf_add_str(&body, "},\"topicPutTps\":0.0}");
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
        offset = offset < 0 ? 0 : offset;
        int64_t time_ms = offset > 0 ? rq_store_time_of(broker->store, name, i, offset - 1) : 0;
        add_queue_key(request, name, i, *first, out);
        *first = false;
        rq_buf_addf(out, "{\"brokerOffset\":%lld,\"consumerOffset\":%lld,\"lastTimestamp\":%lld,"
                         "\"pullOffset\":%lld}",
                    (long long)max, (long long)offset, (long long)(time_ms > 0 ? time_ms : 0),
                    (long long)offset);
    }
}

static bool is_subscribed(struct rmq_broker *broker, struct rq_slice group, struct rq_slice topic)
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
    if (header.topic.n) {
        note_offset_topic(header.topic, header.consumer_group, &names);
    } else {
        rq_offsets_each(&request->broker->offsets, header.consumer_group, rq_slice(NULL, 0),
                        note_offset_topic, &names);
    }
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"consumeTps\":0.0,\"offsetTable\":{");
    for (size_t at = 0; rq_buf_status(&names.text) == RMQ_OK && at < names.text.len;) {
        struct rq_slice topic = rq_slice_str(names.text.data + at);
        if (is_subscribed(request->broker, header.consumer_group, topic)) {
            add_topic_stats(request, header.consumer_group, topic, &first, &body);
        }
        at += topic.n + 1;
    }
    rq_buf_add_str(&body, "}}");
    rq_buf_free(&names.text);
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

/* ---- runtime info: 28 ---- */

struct table {
    struct rq_buf out;
    bool first;
};

static void RMQ_PRINTF(3, 4) row(struct table *table, const char *name, const char *fmt, ...)
{
    char value[256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(value, sizeof value, fmt, args);
    va_end(args);
    rq_json_add_member(&table->out, &table->first, name);
    rq_json_add_string(&table->out, rq_slice_str(value));
}

static void add_rates(struct table *table, const struct rq_store_info *info, int64_t up_ms)
{
    double seconds = up_ms > 0 ? (double)up_ms / 1000.0 : 1.0;
    double put = (double)info->put_messages / seconds;
    double get = (double)info->get_messages / seconds;
    row(table, "putTps", "%.2f %.2f %.2f", put, put, put);
    row(table, "getTransferredTps", "%.2f %.2f %.2f", get, get, get);
    row(table, "getTransferedTps", "%.2f %.2f %.2f", get, get, get);
    row(table, "getFoundTps", "%.2f %.2f %.2f", get, get, get);
    row(table, "getMissTps", "0.0 0.0 0.0");
    row(table, "getTotalTps", "%.2f %.2f %.2f", get, get, get);
}

static void add_totals(struct table *table, const struct rq_store_info *info)
{
    static const char *const put_names[] = {"msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning"};
    static const char *const get_names[] = {"msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning"};
    for (size_t i = 0; i < 2; i++) {
        row(table, put_names[i], "0");
        row(table, get_names[i], "0");
    }
    row(table, "msgPutTotalTodayNow", "%llu", (unsigned long long)info->put_messages);
    row(table, "msgGetTotalTodayNow", "%llu", (unsigned long long)info->get_messages);
    row(table, "putMessageTimesTotal", "%llu", (unsigned long long)info->put_messages);
    row(table, "putMessageSizeTotal", "%llu", (unsigned long long)info->put_bytes);
    row(table, "putMessageAverageSize", "%.1f",
        info->put_messages ? (double)info->put_bytes / (double)info->put_messages : 0.0);
}

static void add_queues(struct table *table)
{
    static const char *const names[] = {"send", "pull", "litePull", "query", "ack"};
    char name[64];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(name, sizeof name, "%sThreadPoolQueueSize", names[i]);
        row(table, name, "0");
        (void)snprintf(name, sizeof name, "%sThreadPoolQueueHeadWaitTimeMills", names[i]);
        row(table, name, "0");
        (void)snprintf(name, sizeof name, "%sThreadPoolQueueCapacity", names[i]);
        row(table, name, "10000");
    }
}

static void add_schedule(struct table *table, struct rmq_broker *broker)
{
    char name[64];
    for (int level = 1; level <= broker->schedule.level_count; level++) {
        (void)snprintf(name, sizeof name, "scheduleMessageOffset_%d", level);
        row(table, name, "%lld,%lld", (long long)rq_schedule_offset(&broker->schedule, level),
            (long long)rq_store_max_offset(broker->store, rq_slice_str(RQ_TOPIC_SCHEDULE), level - 1));
    }
}

void rq_process_runtime_info(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_store_info info;
    struct table table = {.first = true};
    int64_t up_ms = rq_wall_ms() - broker->boot_ms;
    int64_t up_s = up_ms / 1000;
    rq_store_info(broker->store, &info);
    rq_buf_init(&table.out, 0);
    rq_buf_add_str(&table.out, "{\"table\":{");
    row(&table, "bootTimestamp", "%lld", (long long)broker->boot_ms);
    row(&table, "runtime", "[ %lld days, %lld hours, %lld minutes, %lld seconds ]",
        (long long)(up_s / 86400), (long long)(up_s / 3600 % 24), (long long)(up_s / 60 % 60),
        (long long)(up_s % 60));
    row(&table, "brokerActive", "true");
    row(&table, "brokerVersion", "%d", RQ_VERSION_OURS);
    row(&table, "brokerVersionDesc", "V5_3_3");
    row(&table, "commitLogMinOffset", "%lld", (long long)info.min_commit_log_offset);
    row(&table, "commitLogMaxOffset", "%lld", (long long)info.max_commit_log_offset);
    row(&table, "dispatchBehindBytes", "%lld",
        (long long)(info.max_commit_log_offset - info.dispatched_commit_log_offset));
    row(&table, "commitLogDiskRatio", "%.4f", info.disk_used_ratio);
    row(&table, "consumeQueueDiskRatio", "%.4f", info.disk_used_ratio);
    row(&table, "commitLogDirCapacity", "unknown");
    row(&table, "remainHowManyDataToFlush", "%lld B",
        (long long)(info.max_commit_log_offset - info.flushed_commit_log_offset));
    row(&table, "remainHowManyDataToCommit", "0 B");
    row(&table, "remainTransientStoreBufferNumbs", "0");
    row(&table, "earliestMessageTimeStamp", "%lld",
        (long long)rq_store_earliest_time_of_all(broker->store));
    row(&table, "startAcceptSendRequestTimeStamp", "%lld",
        (long long)broker->settings.broker.start_accept_send_request_time_stamp);
    row(&table, "pageCacheLockTimeMills", "0");
    row(&table, "timerReadBehind", "0");
    row(&table, "timerOffsetBehind", "0");
    row(&table, "timerCongestNum", "0");
    row(&table, "timerEnqueueTps", "0.0");
    row(&table, "timerDequeueTps", "0.0");
    add_rates(&table, &info, up_ms);
    add_totals(&table, &info);
    add_queues(&table);
    add_schedule(&table, broker);
    rq_buf_add_str(&table.out, "}}");
    rq_answer_body(request->conn, &request->to, NULL, NULL, &table.out);
}

/* ---- settings: 25, 26 ---- */

static void add_settings(const struct rq_table *options, const void *object, struct rq_buf *out)
{
    for (size_t i = 0; i < options->count; i++) {
        rq_buf_add_str(out, options->options[i].name);
        rq_buf_add_char(out, '=');
        rq_table_value_text(&options->options[i], object, out);
        rq_buf_add_char(out, '\n');
    }
}

void rq_process_get_config(const struct rq_request *request)
{
    const struct rq_broker_settings *settings = &request->broker->settings;
    struct rq_data_version version = {.timestamp_ms = request->broker->boot_ms};
    struct rq_buf text, body;
    rq_buf_init(&text, 0);
    rq_buf_init(&body, 0);
    rq_data_version_write(&version, &text);
    add_settings(&rq_broker_options_table, &settings->broker, &body);
    add_settings(&rq_store_table, &settings->store, &body);
    struct rq_hdr_broker_config_response fields = {.version = rq_slice(text.data, text.len)};
    rq_answer_body(request->conn, &request->to, &rq_tab_broker_config_response, &fields, &body);
    rq_buf_free(&text);
}

void rq_process_update_config(const struct rq_request *request)
{
    RQ_LOG(WARN, "a request to change settings was refused: they are read at start",
           "remote=%s", rq_conn_remote(request->conn));
    rq_request_answer(request, RQ_RESP_SYSTEM_ERROR,
                      "this broker reads its settings at start: change its file and restart it");
}

/* ---- upkeep: 306, 316, 329 ---- */

void rq_process_clean(const struct rq_request *request)
{
    if (request->in->header->code == RQ_REQ_DELETE_EXPIRED_COMMITLOG) {
        (void)rq_store_clean(request->broker->store, true);
    }
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
}
