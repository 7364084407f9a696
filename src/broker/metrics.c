/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Figures of a broker for Prometheus, and the page that says whether it is well. A row of the table
 * writes its samples. */
#include "broker/metrics.h"

#include <string.h>

#include <rmq/broker.h>

#include "base/err.h"
#include "base/log.h"
#include "base/table.h"
#include "base/time.h"
#include "broker/broker.h"
#include "net/http.h"
#include "wire/names.h"

/* What is looked up once for a page. */
struct page {
    struct rmq_broker *broker;
    struct rq_store_metrics store;
    struct rq_buf *out;
    const struct metric *metric;
};

struct metric {
    const char *name;
    const char *type;   /* counter, gauge, histogram */
    const char *labels; /* names, separated by commas; "" */
    const char *help;
    void (*write)(const struct page *page);
};

/* ---- samples ---- */

static void sample_i64(const struct page *page, int64_t value)
{
    rq_buf_addf(page->out, "%s %lld\n", page->metric->name, (long long)value);
}

static void sample_u64(const struct page *page, uint64_t value)
{
    rq_buf_addf(page->out, "%s %llu\n", page->metric->name, (unsigned long long)value);
}

static void sample_double(const struct page *page, double value)
{
    char text[RQ_FIXED_MAX];
    rq_buf_addf(page->out, "%s %s\n", page->metric->name, rq_fixed_to_text(value, 3, text));
}

/* Names of RocketMQ have nothing to escape but what somebody may yet allow. */
static void add_label(struct rq_buf *out, const char *name, struct rq_slice value, bool first)
{
    rq_buf_addf(out, "%s%s=\"", first ? "{" : ",", name);
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        rq_buf_add_str(out, c == '"' || c == '\\' ? "\\" : "");
        rq_buf_add_char(out, c == '\n' ? ' ' : c);
    }
    rq_buf_add_char(out, '"');
}

static uint64_t total(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* ---- rows ---- */

static const struct rq_totals *totals(const struct page *page)
{
    return &page->broker->stats.totals;
}

static void write_up(const struct page *page)
{
    sample_double(page, (double)(rq_wall_ms() - page->broker->boot_ms) / 1000.0);
}

static void write_puts(const struct page *page)
{
    sample_u64(page, total(&totals(page)->put_nums));
}

static void write_put_bytes(const struct page *page)
{
    sample_u64(page, total(&totals(page)->put_bytes));
}

static void write_put_failed(const struct page *page)
{
    sample_u64(page, total(&totals(page)->put_failed));
}

static void write_put_seconds(const struct page *page)
{
    uint64_t count = 0;
    char text[RQ_FIXED_MAX];
    const char *name = page->metric->name;
    for (size_t i = 0; i < RQ_PUT_BUCKETS - 1; i++) {
        count += total(&totals(page)->put_bucket[i]);
        rq_buf_addf(page->out, "%s_bucket{le=\"%s\"} %llu\n", name,
                    rq_fixed_to_text((double)rq_put_bucket_us[i] / 1e6, 6, text),
                    (unsigned long long)count);
    }
    count += total(&totals(page)->put_bucket[RQ_PUT_BUCKETS - 1]);
    rq_buf_addf(page->out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %s\n%s_count %llu\n", name,
                (unsigned long long)count, name,
                rq_fixed_to_text((double)total(&totals(page)->put_us) / 1e6, 6, text), name,
                (unsigned long long)count);
}

static void write_pulls(const struct page *page)
{
    rq_buf_addf(page->out, "%s{result=\"found\"} %llu\n%s{result=\"miss\"} %llu\n",
                page->metric->name, (unsigned long long)total(&totals(page)->get_found),
                page->metric->name, (unsigned long long)total(&totals(page)->get_miss));
}

static void write_gets(const struct page *page)
{
    sample_u64(page, total(&totals(page)->get_nums));
}

static void write_get_bytes(const struct page *page)
{
    sample_u64(page, total(&totals(page)->get_bytes));
}

static void write_parked(const struct page *page)
{
    sample_u64(page, atomic_load_explicit(&page->broker->hold.count, memory_order_relaxed));
}

static void write_connections(const struct page *page)
{
    sample_i64(page, rq_server_connections(page->broker->server));
}

static void write_topics(const struct page *page)
{
    sample_u64(page, rq_topics_count(&page->broker->topics));
}

static void write_lag_bytes(const struct page *page)
{
    sample_i64(page, page->store.dispatch_lag_bytes);
}

static void write_lag_seconds(const struct page *page)
{
    sample_double(page, (double)page->store.dispatch_lag_ms / 1000.0);
}

static void write_log_min(const struct page *page)
{
    sample_i64(page, page->store.info.min_commit_log_offset);
}

static void write_log_max(const struct page *page)
{
    sample_i64(page, page->store.info.max_commit_log_offset);
}

static void write_log_flushed(const struct page *page)
{
    sample_i64(page, page->store.info.flushed_commit_log_offset);
}

static void write_flush_bytes(const struct page *page)
{
    sample_u64(page, page->store.flush_bytes);
}

static void write_flush_failures(const struct page *page)
{
    sample_u64(page, page->store.flush_failures);
}

static void write_disk(const struct page *page)
{
    sample_double(page, page->store.info.disk_used_ratio);
}

static void write_writable(const struct page *page)
{
    sample_i64(page, page->store.info.writable);
}

static void write_delayed(const struct page *page)
{
    struct rq_schedule *schedule = &page->broker->schedule;
    for (int level = 1; level <= schedule->level_count; level++) {
        int64_t end =
            rq_store_max_offset(page->broker->store, rq_slice_str(RQ_TOPIC_SCHEDULE), level - 1);
        rq_buf_addf(page->out, "%s{level=\"%d\"} %lld\n", page->metric->name, level,
                    (long long)(end - rq_schedule_offset(schedule, level)));
    }
}

static void write_topic_total(struct rq_slice key, uint64_t value, void *user)
{
    const struct page *page = user;
    rq_buf_add_str(page->out, page->metric->name);
    add_label(page->out, "topic", key, true);
    rq_buf_addf(page->out, "} %llu\n", (unsigned long long)value);
}

static void write_topic_puts(const struct page *page)
{
    rq_stats_each(&page->broker->stats, RQ_STATS_TOPIC_PUT_NUMS, write_topic_total,
                  (void *)(uintptr_t)page);
}

/* The key is topic@group; neither has an '@'. */
static void write_group_total(struct rq_slice key, uint64_t value, void *user)
{
    const struct page *page = user;
    const char *at = memchr(key.p, '@', key.n);
    if (at) {
        size_t n = (size_t)(at - key.p);
        rq_buf_add_str(page->out, page->metric->name);
        add_label(page->out, "topic", rq_slice(key.p, n), true);
        add_label(page->out, "group", rq_slice(at + 1, key.n - n - 1), false);
        rq_buf_addf(page->out, "} %llu\n", (unsigned long long)value);
    }
}

static void write_group_gets(const struct page *page)
{
    rq_stats_each(&page->broker->stats, RQ_STATS_GROUP_GET_NUMS, write_group_total,
                  (void *)(uintptr_t)page);
}

static void note_pair(struct rq_slice topic, struct rq_slice group, void *user)
{
    struct rq_buf *names = user;
    rq_buf_add_slice(names, topic);
    rq_buf_add_char(names, '\0');
    rq_buf_add_slice(names, group);
    rq_buf_add_char(names, '\0');
}

static int64_t lag_of(struct rmq_broker *broker, struct rq_slice topic, struct rq_slice group)
{
    struct rq_topic_info info;
    int64_t lag = 0;
    if (!rq_topics_get(&broker->topics, topic, &info)) {
        return 0;
    }
    for (int32_t i = 0; i < info.read_queue_nums; i++) {
        int64_t offset = rq_offsets_query(&broker->offsets, group, topic, i);
        int64_t end = rq_store_max_offset(broker->store, topic, i);
        lag += offset >= 0 && end > offset ? end - offset : 0;
    }
    return lag;
}

static void write_lag(const struct page *page)
{
    struct rq_buf names;
    rq_buf_init(&names, 0);
    rq_offsets_each(&page->broker->offsets, rq_slice(NULL, 0), rq_slice(NULL, 0), note_pair,
                    &names);
    for (size_t at = 0; rq_buf_status(&names) == RMQ_OK && at < names.len;) {
        struct rq_slice topic = rq_slice_str(names.data + at);
        struct rq_slice group = rq_slice_str(names.data + at + topic.n + 1);
        rq_buf_add_str(page->out, page->metric->name);
        add_label(page->out, "topic", topic, true);
        add_label(page->out, "group", group, false);
        rq_buf_addf(page->out, "} %lld\n", (long long)lag_of(page->broker, topic, group));
        at += topic.n + group.n + 2;
    }
    rq_buf_free(&names);
}

static const struct metric metrics[] = {
    {"rmq_broker_uptime_seconds", "gauge", "", "Time since the start.", write_up},
    {"rmq_broker_connections", "gauge", "", "Open connections of clients.", write_connections},
    {"rmq_broker_topics", "gauge", "", "Topics, those of the system included.", write_topics},
    {"rmq_put_messages_total", "counter", "", "Messages stored since the start.", write_puts},
    {"rmq_put_bytes_total", "counter", "", "Bytes of the commit log that they took.",
     write_put_bytes},
    {"rmq_put_failed_total", "counter", "", "Sends that could not be stored.", write_put_failed},
    {"rmq_put_seconds", "histogram", "le", "Time that storing a message or batch took.",
     write_put_seconds},
    {"rmq_topic_put_messages_total", "counter", "topic", "Messages stored by topic.",
     write_topic_puts},
    {"rmq_pulls_total", "counter", "result",
     "Pulls answered: with messages (found), or looks that found none (miss).", write_pulls},
    {"rmq_get_messages_total", "counter", "", "Messages given to consumers.", write_gets},
    {"rmq_get_bytes_total", "counter", "", "Bytes given to consumers.", write_get_bytes},
    {"rmq_group_get_messages_total", "counter", "topic,group",
     "Messages given to consumers by topic and group.", write_group_gets},
    {"rmq_parked_pulls", "gauge", "", "Pulls that wait for messages.", write_parked},
    {"rmq_group_lag_messages", "gauge", "topic,group",
     "Messages behind the committed offsets of a group, over all queues that it has an offset for.",
     write_lag},
    {"rmq_delayed_messages", "gauge", "level", "Delayed messages that are not delivered yet.",
     write_delayed},
    {"rmq_dispatch_lag_bytes", "gauge", "", "Stored, and not yet shown to consumers.",
     write_lag_bytes},
    {"rmq_dispatch_lag_seconds", "gauge", "", "Age of the oldest message that is not yet shown.",
     write_lag_seconds},
    {"rmq_commit_log_min_offset", "gauge", "", "Beginning of the commit log.", write_log_min},
    {"rmq_commit_log_max_offset", "gauge", "", "End of the commit log.", write_log_max},
    {"rmq_commit_log_flushed_offset", "gauge", "", "Up to here it is on disk.", write_log_flushed},
    {"rmq_flush_bytes_total", "counter", "", "Bytes written back to disk.", write_flush_bytes},
    {"rmq_flush_failures_total", "counter", "", "Flushes that failed.", write_flush_failures},
    {"rmq_disk_used_ratio", "gauge", "",
     "Used part of the partition of the commit log, 0 to 1; -1 is unknown.", write_disk},
    {"rmq_store_writable", "gauge", "",
     "1 when messages are taken, 0 when the disk is full or failing.", write_writable},
};

bool rmq_broker_metric_at(size_t index, const char **name, const char **type, const char **labels,
                          const char **help)
{
    if (index >= sizeof metrics / sizeof metrics[0]) {
        return false;
    }
    rq_tell(name, metrics[index].name);
    rq_tell(type, metrics[index].type);
    rq_tell(labels, metrics[index].labels);
    rq_tell(help, metrics[index].help);
    return true;
}

/* All of it. Any thread. */
static void write_metrics(struct rmq_broker *broker, struct rq_buf *out)
{
    struct page page = {.broker = broker, .out = out};
    rq_store_metrics(broker->store, &page.store);
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        page.metric = &metrics[i];
        rq_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help,
                    metrics[i].name, metrics[i].type);
        metrics[i].write(&page);
    }
}

/* ---- pages ---- */

static void write_health(struct rmq_broker *broker, struct rq_http_page *page)
{
    struct rq_store_info info;
    rq_store_info(broker->store, &info);
    if (info.writable) {
        rq_buf_add_str(&page->body, "ok\n");
    } else {
        page->status = 503;
        rq_buf_addf(&page->body, "the store takes no messages: %s\n", info.reason);
    }
}

static void on_page(void *user, const char *path, struct rq_http_page *page)
{
    struct rmq_broker *broker = user;
    if (strcmp(path, "/metrics") == 0) {
        page->content_type = "text/plain; version=0.0.4; charset=utf-8";
        write_metrics(broker, &page->body);
    } else if (strcmp(path, "/health") == 0) {
        write_health(broker, page);
    } else {
        page->status = 404;
        rq_buf_add_str(&page->body, "/metrics and /health are here\n");
    }
}

rmq_status rq_metrics_start(struct rmq_broker *broker, rmq_error **err)
{
    const struct rq_broker_options *options = &broker->settings.broker;
    if (options->metrics_port < 0) {
        return RMQ_OK;
    }
    rmq_status st = rq_http_create(broker->background, options->metrics_address,
                                   options->metrics_port, on_page, broker, &broker->http, err);
    if (!st) {
        RQ_LOG(INFO, "metrics are served", "address=%s port=%d", options->metrics_address,
               rq_http_port(broker->http));
    }
    return st;
}

void rq_metrics_stop(struct rmq_broker *broker)
{
    rq_http_destroy(broker->http);
    broker->http = NULL;
}

int rmq_broker_metrics_port(const rmq_broker *broker)
{
    return broker && broker->http ? rq_http_port(broker->http) : -1;
}
