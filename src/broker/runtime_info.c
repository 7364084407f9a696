/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The broker's own numbers by request (28), under the names of the Java broker. Loop thread.
 * Counterparts: AdminBrokerProcessor.prepareRuntimeInfo, StoreStatsService. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/time.h"
#include "broker/broker.h"
#include "wire/names.h"

struct table {
    struct rq_buf out;
    bool first;
};

static void RMQ_PRINTF(3, 4) row(struct table *table, const char *name, const char *fmt, ...)
{
    char value[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(value, sizeof value, fmt, args);
    va_end(args);
    rq_json_add_member(&table->out, &table->first, name);
    rq_json_add_string(&table->out, rq_slice_str(value));
}

static void fixed(struct table *table, const char *name, double value, int decimals)
{
    char text[RQ_FIXED_MAX];
    row(table, name, "%s", rq_fixed_to_text(value, decimals, text));
}

static void number(struct table *table, const char *name, uint64_t value)
{
    row(table, name, "%llu", (unsigned long long)value);
}

static uint64_t total(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* "224.9 GiB", as MixAll.humanReadableByteCount writes it. */
static void human(uint64_t bytes, char out[32])
{
    static const char units[] = "KMGTPE";
    if (bytes < 1024) {
        (void)snprintf(out, 32, "%llu B", (unsigned long long)bytes);
        return;
    }
    double value = (double)bytes / 1024.0;
    size_t unit = 0;
    while (value >= 1024.0 && unit + 2 < sizeof units) {
        value /= 1024.0;
        unit++;
    }
    char text[RQ_FIXED_MAX];
    (void)snprintf(out, 32, "%.20s %ciB", rq_fixed_to_text(value, 1, text), units[unit]);
}

/* ---- parts ---- */

static void add_identity(struct table *table, const struct rmq_broker *broker)
{
    int64_t up_s = (rq_wall_ms() - broker->boot_ms) / 1000;
    number(table, "bootTimestamp", (uint64_t)broker->boot_ms);
    row(table, "runtime", "[ %lld days, %lld hours, %lld minutes, %lld seconds ]",
        (long long)(up_s / 86400), (long long)(up_s / 3600 % 24), (long long)(up_s / 60 % 60),
        (long long)(up_s % 60));
    row(table, "brokerActive", "true");
    row(table, "brokerVersion", "%d", RQ_VERSION_OURS);
    row(table, "brokerVersionDesc", "V5_3_3");
    row(table, "startAcceptSendRequestTimeStamp", "%lld",
        (long long)broker->settings.broker.start_accept_send_request_time_stamp);
}

static void add_disk(struct table *table, const struct rmq_broker *broker, double ratio)
{
    struct statvfs disk;
    char all[32];
    char left[32];
    char name[512];
    const char *log = broker->settings.store.store_path_commit_log;
    (void)snprintf(name, sizeof name, "commitLogDiskRatio_%s%s",
                   log && *log ? log : broker->store_path, log && *log ? "" : "/commitlog");
    fixed(table, "commitLogDiskRatio", ratio, 4);
    fixed(table, name, ratio, 4);
    fixed(table, "consumeQueueDiskRatio", ratio, 4);
    if (statvfs(broker->store_path, &disk) == 0) {
        human((uint64_t)disk.f_blocks * disk.f_frsize, all);
        human((uint64_t)disk.f_bfree * disk.f_frsize, left);
        row(table, "commitLogDirCapacity", "Total : %s, Free : %s.", all, left);
    }
}

static void add_store(struct table *table, const struct rmq_broker *broker)
{
    struct rq_store_info info;
    char unflushed[32];
    rq_store_info(broker->store, &info);
    human((uint64_t)(info.max_commit_log_offset - info.flushed_commit_log_offset), unflushed);
    number(table, "commitLogMinOffset", (uint64_t)info.min_commit_log_offset);
    number(table, "commitLogMaxOffset", (uint64_t)info.max_commit_log_offset);
    number(table, "dispatchBehindBytes",
           (uint64_t)(info.max_commit_log_offset - info.dispatched_commit_log_offset));
    row(table, "dispatchMaxBuffer", "0");
    row(table, "remainHowManyDataToFlush", "%s", unflushed);
    row(table, "remainHowManyDataToCommit", "0 B");
    row(table, "remainTransientStoreBufferNumbs", "%d", INT32_MAX);
    row(table, "pageCacheLockTimeMills", "0");
    row(table, "earliestMessageTimeStamp", "%lld",
        (long long)rq_store_earliest_time_of_all(broker->store));
    add_disk(table, broker, info.disk_used_ratio);
}

static void add_rate(struct table *table, const char *name, const double rates[3])
{
    char a[RQ_FIXED_MAX];
    char b[RQ_FIXED_MAX];
    char c[RQ_FIXED_MAX];
    row(table, name, "%s %s %s", rq_fixed_to_text(rates[0], 4, a), rq_fixed_to_text(rates[1], 4, b),
        rq_fixed_to_text(rates[2], 4, c));
}

static void add_rates(struct table *table, struct rmq_broker *broker)
{
    struct rq_rates rates;
    rq_stats_rates(&broker->stats, rq_wall_ms(), &rates);
    const double all[3] = {rates.found[0] + rates.miss[0], rates.found[1] + rates.miss[1],
                           rates.found[2] + rates.miss[2]};
    add_rate(table, "putTps", rates.put);
    add_rate(table, "getFoundTps", rates.found);
    add_rate(table, "getMissTps", rates.miss);
    add_rate(table, "getTotalTps", all);
    add_rate(table, "getTransferredTps", rates.get);
    add_rate(table, "getTransferedTps", rates.get); /* the name until 4.9 */
}

/* The upper bound, in milliseconds, of the bucket below which so large a part of the puts lies. */
static double percentile(const struct rq_totals *totals, uint64_t puts, double part)
{
    uint64_t seen = 0;
    for (size_t i = 0; puts && i < RQ_PUT_BUCKETS - 1; i++) {
        seen += total(&totals->put_bucket[i]);
        if ((double)seen >= part * (double)puts) {
            return (double)rq_put_bucket_us[i] / 1000.0;
        }
    }
    return puts ? (double)total(&totals->put_max_us) / 1000.0 : 0.0;
}

static void add_times(struct table *table, const struct rq_totals *totals)
{
    struct rq_buf text;
    uint64_t puts = 0;
    rq_buf_init(&text, 0);
    for (size_t i = 0; i < RQ_PUT_BUCKETS; i++) {
        uint64_t count = total(&totals->put_bucket[i]);
        puts += count;
        if (i < RQ_PUT_BUCKETS - 1) {
            rq_buf_addf(&text, "[<=%lldus]:%llu ", (long long)rq_put_bucket_us[i],
                        (unsigned long long)count);
        } else {
            rq_buf_addf(&text, "[more]:%llu", (unsigned long long)count);
        }
    }
    row(table, "putMessageDistributeTime", "%s", rq_buf_cstr(&text));
    rq_buf_free(&text);
    row(table, "putMessageEntireTimeMax", "%llu",
        (unsigned long long)(total(&totals->put_max_us) / 1000));
    row(table, "getMessageEntireTimeMax", "%llu",
        (unsigned long long)(total(&totals->get_max_us) / 1000));
    fixed(table, "putLatency99", percentile(totals, puts, 0.99), 2);
    fixed(table, "putLatency999", percentile(totals, puts, 0.999), 2);
}

static void add_totals(struct table *table, struct rmq_broker *broker)
{
    struct rq_stats *stats = &broker->stats;
    const struct rq_totals *totals = &stats->totals;
    uint64_t puts = total(&totals->put_nums);
    uint64_t bytes = total(&totals->put_bytes);
    rq_mutex_lock(&stats->lock);
    number(table, "msgPutTotalYesterdayMorning", stats->put_yesterday_morning);
    number(table, "msgPutTotalTodayMorning", stats->put_today_morning);
    number(table, "msgGetTotalYesterdayMorning", stats->get_yesterday_morning);
    number(table, "msgGetTotalTodayMorning", stats->get_today_morning);
    rq_mutex_unlock(&stats->lock);
    number(table, "msgPutTotalTodayNow", puts);
    number(table, "msgGetTotalTodayNow", total(&totals->get_nums));
    number(table, "putMessageTimesTotal", puts);
    number(table, "putMessageFailedTimes", total(&totals->put_failed));
    number(table, "putMessageSizeTotal", bytes);
    fixed(table, "putMessageAverageSize", puts ? (double)bytes / (double)puts : 0.0, 1);
    add_times(table, totals);
}

/* There are no queues in front of the processors: the loop that reads a request runs it. */
static void add_queues(struct table *table)
{
    static const struct {
        const char *name;
        int32_t capacity;
    } queues[] = {
        {"send", 10000}, {"pull", 100000}, {"litePull", 100000}, {"query", 20000}, {"ack", 100000}};
    char name[64];
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        (void)snprintf(name, sizeof name, "%sThreadPoolQueueSize", queues[i].name);
        row(table, name, "0");
        (void)snprintf(name, sizeof name, "%sThreadPoolQueueHeadWaitTimeMills", queues[i].name);
        row(table, name, "0");
        (void)snprintf(name, sizeof name, "%sThreadPoolQueueCapacity", queues[i].name);
        row(table, name, "%d", queues[i].capacity);
    }
    row(table, "EndTransactionQueueSize", "0");
    row(table, "EndTransactionThreadPoolQueueCapacity", "100000");
}

static void add_schedule(struct table *table, struct rmq_broker *broker)
{
    char name[64];
    for (int level = 1; level <= broker->schedule.level_count; level++) {
        int64_t end =
            rq_store_max_offset(broker->store, rq_slice_str(RQ_TOPIC_SCHEDULE), level - 1);
        (void)snprintf(name, sizeof name, "scheduleMessageOffset_%d", level);
        row(table, name, "%lld,%lld", (long long)rq_schedule_offset(&broker->schedule, level),
            (long long)end);
    }
}

static void add_timer(struct table *table, struct rmq_broker *broker)
{
    struct rq_timers_state state;
    rq_timers_state(&broker->timers, &state);
    number(table, "timerReadBehind", (uint64_t)state.behind_ms / 1000);
    number(table, "timerOffsetBehind", (uint64_t)state.behind_offset);
    number(table, "timerCongestNum", (uint64_t)state.waiting);
    struct rq_slice topic = rq_slice_str(RQ_TOPIC_TIMER);
    fixed(table, "timerEnqueueTps", rq_stats_tps(&broker->stats, RQ_STATS_TOPIC_PUT_NUMS, topic),
          1);
    fixed(table, "timerDequeueTps",
          rq_stats_tps(&broker->stats, RQ_STATS_TIMER_DEQUEUE_NUMS, topic), 1);
}

void rq_process_runtime_info(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct table table = {.first = true};
    rq_buf_init(&table.out, 0);
    rq_buf_add_str(&table.out, "{\"table\":{");
    add_identity(&table, broker);
    add_store(&table, broker);
    add_rates(&table, broker);
    add_totals(&table, broker);
    add_queues(&table);
    add_schedule(&table, broker);
    add_timer(&table, broker);
    rq_buf_add_str(&table.out, "}}");
    rq_answer_body(request->conn, &request->to, NULL, NULL, &table.out);
}
