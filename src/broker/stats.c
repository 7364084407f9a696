/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Statistics: counters by name and key, their samples, and the answers made of them. */
#include "broker/stats.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/time.h"
#include "wire/names.h"

#define MINUTE_SAMPLES 7  /* of ten seconds */
#define HOUR_SAMPLES   7  /* of ten minutes */
#define DAY_SAMPLES    25 /* of an hour */
#define TEN_MINUTES_MS (10 * 60 * 1000)
#define HOUR_MS        (60 * 60 * 1000)
#define DAY_MS         (24 * HOUR_MS)
#define KEY_ROOM       640

static const char *const names[RQ_STATS_NAMES] = {
    [RQ_STATS_TOPIC_PUT_NUMS] = "TOPIC_PUT_NUMS",
    [RQ_STATS_TOPIC_PUT_SIZE] = "TOPIC_PUT_SIZE",
    [RQ_STATS_QUEUE_PUT_NUMS] = "QUEUE_PUT_NUMS",
    [RQ_STATS_QUEUE_PUT_SIZE] = "QUEUE_PUT_SIZE",
    [RQ_STATS_GROUP_GET_NUMS] = "GROUP_GET_NUMS",
    [RQ_STATS_GROUP_GET_SIZE] = "GROUP_GET_SIZE",
    [RQ_STATS_SNDBCK_PUT_NUMS] = "SNDBCK_PUT_NUMS",
    [RQ_STATS_GROUP_ACK_NUMS] = "GROUP_ACK_NUMS",
    [RQ_STATS_GROUP_CK_NUMS] = "GROUP_CK_NUMS",
    [RQ_STATS_BROKER_PUT_NUMS] = "BROKER_PUT_NUMS",
    [RQ_STATS_BROKER_GET_NUMS] = "BROKER_GET_NUMS",
    [RQ_STATS_BROKER_ACK_NUMS] = "BROKER_ACK_NUMS",
    [RQ_STATS_BROKER_CK_NUMS] = "BROKER_CK_NUMS",
    [RQ_STATS_TIMER_DEQUEUE_NUMS] = "TIMER_DEQUEUE_NUMS",
};

const int64_t rq_put_bucket_us[RQ_PUT_BUCKETS - 1] = {
    10, 50, 100, 500, 1000, 10000, 50000, 100000, 200000, 500000, 1000000, 3000000, 10000000};

struct sample {
    int64_t at_ms;
    uint64_t value;
    uint64_t times;
};

/* How many were ever taken; they lie in a ring of the view. */
struct samples {
    uint32_t count; /* ever taken */
};

struct item {
    uint64_t value;
    uint64_t times;
    struct samples minute, hour, day;
    struct sample minute_at[MINUTE_SAMPLES];
    struct sample hour_at[HOUR_SAMPLES];
    struct sample day_at[DAY_SAMPLES];
};

/* ---- life ---- */

static int64_t next_midnight(int64_t now_ms)
{
    time_t now = (time_t)(now_ms / 1000);
    struct tm local;
    if (!localtime_r(&now, &local)) {
        return now_ms + DAY_MS;
    }
    int64_t since_ms =
        ((int64_t)local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec) * 1000 + now_ms % 1000;
    return now_ms - since_ms + DAY_MS;
}

void rq_stats_init(struct rq_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    rq_mutex_init(&stats->lock);
    for (int i = 0; i < RQ_STATS_NAMES; i++) {
        rq_map_init(&stats->items[i]);
    }
    stats->midnight_ms = next_midnight(rq_wall_ms());
    rq_stats_sample(stats, rq_wall_ms());
}

void rq_stats_free(struct rq_stats *stats)
{
    for (int i = 0; i < RQ_STATS_NAMES; i++) {
        rq_map_free(&stats->items[i], rq_free);
    }
    rq_mutex_destroy(&stats->lock);
}

/* ---- counting ---- */

/* Without memory a count is lost, nothing else. */
static void add_locked(struct rq_stats *stats, enum rq_stats_name name, struct rq_slice key,
                       uint64_t value, uint64_t times)
{
    struct item *item = rq_map_get(&stats->items[name], key);
    if (!item) {
        item = rq_calloc(1, sizeof *item);
        if (!item || rq_map_put(&stats->items[name], key, item)) {
            rq_free(item);
            return;
        }
    }
    item->value += value;
    item->times += times;
}

void rq_stats_add(struct rq_stats *stats, enum rq_stats_name name, struct rq_slice key,
                  uint64_t value, uint64_t times)
{
    rq_mutex_lock(&stats->lock);
    add_locked(stats, name, key, value, times);
    rq_mutex_unlock(&stats->lock);
}

static struct rq_slice group_key(char out[KEY_ROOM], struct rq_slice topic, struct rq_slice group)
{
    int n = snprintf(out, KEY_ROOM, "%.*s@%.*s", (int)topic.n, topic.p, (int)group.n, group.p);
    return rq_slice(out, n < KEY_ROOM ? (size_t)n : KEY_ROOM - 1);
}

void rq_stats_add_group(struct rq_stats *stats, enum rq_stats_name name, struct rq_slice topic,
                        struct rq_slice group, uint64_t value)
{
    char text[KEY_ROOM];
    rq_stats_add(stats, name, group_key(text, topic, group), value, 1);
}

void rq_stats_flush(struct rq_stats *stats, struct rq_stats_gathered *gathered,
                    struct rq_slice cluster)
{
    char text[KEY_ROOM];
    if (gathered->nums == 0) {
        return;
    }
    struct rq_slice topic = rq_slice(gathered->topic, gathered->topic_n);
    bool delayed = rq_slice_eq_str(topic, RQ_TOPIC_SCHEDULE);
    struct rq_slice queue = rq_slice(NULL, 0);
    if (delayed) {
        int n = snprintf(text, sizeof text, "%s@%d", RQ_TOPIC_SCHEDULE, gathered->queue_id);
        queue = rq_slice(text, (size_t)n);
    }
    atomic_fetch_add_explicit(&stats->totals.put_nums, gathered->nums, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->totals.put_bytes, gathered->bytes, memory_order_relaxed);
    rq_mutex_lock(&stats->lock);
    add_locked(stats, RQ_STATS_TOPIC_PUT_NUMS, topic, gathered->nums, gathered->nums);
    add_locked(stats, RQ_STATS_TOPIC_PUT_SIZE, topic, gathered->bytes, gathered->nums);
    if (delayed) {
        add_locked(stats, RQ_STATS_QUEUE_PUT_NUMS, queue, gathered->nums, gathered->nums);
        add_locked(stats, RQ_STATS_QUEUE_PUT_SIZE, queue, gathered->bytes, gathered->nums);
    }
    add_locked(stats, RQ_STATS_BROKER_PUT_NUMS, cluster, gathered->nums, gathered->nums);
    rq_mutex_unlock(&stats->lock);
    gathered->nums = 0;
    gathered->bytes = 0;
}

void rq_stats_put(struct rq_stats *stats, struct rq_stats_gathered *gathered,
                  struct rq_slice cluster, struct rq_slice topic, int32_t queue_id, uint64_t nums,
                  uint64_t bytes)
{
    if (gathered->nums && (gathered->queue_id != queue_id ||
                           !rq_slice_eq(topic, rq_slice(gathered->topic, gathered->topic_n)))) {
        rq_stats_flush(stats, gathered, cluster);
    }
    if (gathered->nums == 0) {
        gathered->topic_n = topic.n < sizeof gathered->topic ? topic.n : sizeof gathered->topic;
        memcpy(gathered->topic, topic.p, gathered->topic_n);
        gathered->queue_id = queue_id;
    }
    gathered->nums += nums;
    gathered->bytes += bytes;
}

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t now = atomic_load_explicit(most, memory_order_relaxed);
    while (value > now && !atomic_compare_exchange_weak_explicit(
                              most, &now, value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

void rq_stats_put_took(struct rq_stats *stats, int64_t us)
{
    size_t bucket = 0;
    while (bucket < RQ_PUT_BUCKETS - 1 && us > rq_put_bucket_us[bucket]) {
        bucket++;
    }
    atomic_fetch_add_explicit(&stats->totals.put_bucket[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->totals.put_us, (uint64_t)us, memory_order_relaxed);
    raise_to(&stats->totals.put_max_us, (uint64_t)us);
}

void rq_stats_got(struct rq_stats *stats, struct rq_slice cluster, struct rq_slice topic,
                  struct rq_slice group, uint64_t nums, uint64_t bytes)
{
    char group_text[KEY_ROOM];
    if (nums == 0) {
        atomic_fetch_add_explicit(&stats->totals.get_miss, 1, memory_order_relaxed);
        return;
    }
    struct rq_slice by_group = group_key(group_text, topic, group);
    atomic_fetch_add_explicit(&stats->totals.get_found, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->totals.get_nums, nums, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->totals.get_bytes, bytes, memory_order_relaxed);
    rq_mutex_lock(&stats->lock);
    add_locked(stats, RQ_STATS_GROUP_GET_NUMS, by_group, nums, 1);
    add_locked(stats, RQ_STATS_GROUP_GET_SIZE, by_group, bytes, 1);
    add_locked(stats, RQ_STATS_BROKER_GET_NUMS, cluster, nums, 1);
    rq_mutex_unlock(&stats->lock);
}

/* ---- samples ---- */

static void take(struct samples *samples, struct sample *room, uint32_t most,
                 const struct item *item, int64_t now_ms, int64_t period_ms)
{
    if (samples->count == 0) { /* it began with nothing */
        room[samples->count++ % most] = (struct sample){.at_ms = now_ms - period_ms};
    }
    room[samples->count++ % most] =
        (struct sample){.at_ms = now_ms, .value = item->value, .times = item->times};
}

static void sample_items_locked(struct rq_stats *stats, int64_t now_ms, bool hour, bool day)
{
    for (int i = 0; i < RQ_STATS_NAMES; i++) {
        const struct rq_map_entry *entry;
        for (size_t at = 0; (entry = rq_map_next(&stats->items[i], &at));) {
            struct item *item = entry->value;
            take(&item->minute, item->minute_at, MINUTE_SAMPLES, item, now_ms, RQ_STATS_SAMPLE_MS);
            if (hour) {
                take(&item->hour, item->hour_at, HOUR_SAMPLES, item, now_ms, TEN_MINUTES_MS);
            }
            if (day) {
                take(&item->day, item->day_at, DAY_SAMPLES, item, now_ms, HOUR_MS);
            }
        }
    }
}

static struct rq_rate_sample totals_now(const struct rq_stats *stats, int64_t now_ms)
{
    const struct rq_totals *totals = &stats->totals;
    return (struct rq_rate_sample){
        .at_ms = now_ms,
        .put_nums = atomic_load_explicit(&totals->put_nums, memory_order_relaxed),
        .found = atomic_load_explicit(&totals->get_found, memory_order_relaxed),
        .miss = atomic_load_explicit(&totals->get_miss, memory_order_relaxed),
        .get_nums = atomic_load_explicit(&totals->get_nums, memory_order_relaxed)};
}

void rq_stats_sample(struct rq_stats *stats, int64_t now_ms)
{
    rq_mutex_lock(&stats->lock);
    bool hour = now_ms >= stats->next_minute_ms;
    bool day = now_ms >= stats->next_hour_ms;
    struct rq_rate_sample now = totals_now(stats, now_ms);
    stats->next_minute_ms = hour ? now_ms + TEN_MINUTES_MS : stats->next_minute_ms;
    stats->next_hour_ms = day ? now_ms + HOUR_MS : stats->next_hour_ms;
    sample_items_locked(stats, now_ms, hour, day);
    stats->samples[stats->sample_count++ % RQ_RATE_SAMPLES] = now;
    if (now_ms >= stats->midnight_ms) {
        stats->midnight_ms = next_midnight(now_ms);
        stats->put_yesterday_morning = stats->put_today_morning;
        stats->get_yesterday_morning = stats->get_today_morning;
        stats->put_today_morning = now.put_nums;
        stats->get_today_morning = now.get_nums;
    }
    rq_mutex_unlock(&stats->lock);
}

/* ---- answers ---- */

struct view {
    uint64_t sum;
    double tps;
    double average;
};

static struct view view_of(const struct samples *samples, const struct sample *room, uint32_t most)
{
    struct view view = {0};
    if (samples->count < 2) {
        return view;
    }
    const struct sample *last = &room[(samples->count - 1) % most];
    const struct sample *first = samples->count > most ? &room[samples->count % most] : &room[0];
    uint64_t times = last->times - first->times;
    view.sum = last->value - first->value;
    view.tps = last->at_ms > first->at_ms
                   ? (double)view.sum * 1000.0 / (double)(last->at_ms - first->at_ms)
                   : 0.0;
    view.average = times ? (double)view.sum / (double)times : 0.0;
    return view;
}

static void write_view(const char *name, struct view view, struct rq_buf *out)
{
    char average[RQ_FIXED_MAX];
    char tps[RQ_FIXED_MAX];
    rq_buf_addf(out, "\"%s\":{\"avgpt\":%s,\"sum\":%llu,\"tps\":%s}", name,
                rq_fixed_to_text(view.average, 4, average), (unsigned long long)view.sum,
                rq_fixed_to_text(view.tps, 4, tps));
}

static int index_of(struct rq_slice name)
{
    for (int i = 0; i < RQ_STATS_NAMES; i++) {
        if (rq_slice_eq_str(name, names[i])) {
            return i;
        }
    }
    return -1;
}

bool rq_stats_write(struct rq_stats *stats, struct rq_slice name, struct rq_slice key,
                    struct rq_buf *out)
{
    int which = index_of(name);
    if (which < 0) {
        return false;
    }
    rq_mutex_lock(&stats->lock);
    const struct item *item = rq_map_get(&stats->items[which], key);
    if (item) {
        rq_buf_add_char(out, '{');
        write_view("statsDay", view_of(&item->day, item->day_at, DAY_SAMPLES), out);
        rq_buf_add_char(out, ',');
        write_view("statsHour", view_of(&item->hour, item->hour_at, HOUR_SAMPLES), out);
        rq_buf_add_char(out, ',');
        write_view("statsMinute", view_of(&item->minute, item->minute_at, MINUTE_SAMPLES), out);
        rq_buf_add_char(out, '}');
    }
    rq_mutex_unlock(&stats->lock);
    return item != NULL;
}

double rq_stats_tps(struct rq_stats *stats, enum rq_stats_name name, struct rq_slice key)
{
    double tps = 0;
    rq_mutex_lock(&stats->lock);
    const struct item *item = rq_map_get(&stats->items[name], key);
    if (item) {
        tps = view_of(&item->minute, item->minute_at, MINUTE_SAMPLES).tps;
    }
    rq_mutex_unlock(&stats->lock);
    return tps;
}

void rq_stats_each(struct rq_stats *stats, enum rq_stats_name name,
                   void (*each)(struct rq_slice key, uint64_t value, void *user), void *user)
{
    const struct rq_map_entry *entry;
    rq_mutex_lock(&stats->lock);
    for (size_t i = 0; (entry = rq_map_next(&stats->items[name], &i));) {
        const struct item *item = entry->value;
        each(rq_slice(entry->key, entry->key_len), item->value, user);
    }
    rq_mutex_unlock(&stats->lock);
}

/* The newest sample that is at least so old, else the oldest. */
static const struct rq_rate_sample *sample_before(const struct rq_stats *stats, int64_t at_ms)
{
    size_t kept = stats->sample_count < RQ_RATE_SAMPLES ? stats->sample_count : RQ_RATE_SAMPLES;
    const struct rq_rate_sample *found = NULL;
    for (size_t i = 1; i <= kept; i++) {
        found = &stats->samples[(stats->sample_count - i) % RQ_RATE_SAMPLES];
        if (found->at_ms <= at_ms) {
            break;
        }
    }
    return found;
}

static double rate(uint64_t now, uint64_t then, int64_t ms)
{
    return ms > 0 ? (double)(now - then) * 1000.0 / (double)ms : 0.0;
}

void rq_stats_rates(struct rq_stats *stats, int64_t now_ms, struct rq_rates *out)
{
    static const int64_t spans_ms[3] = {10000, 60000, 600000};
    struct rq_rate_sample now = totals_now(stats, now_ms);
    rq_mutex_lock(&stats->lock);
    for (int i = 0; i < 3; i++) {
        const struct rq_rate_sample *then = sample_before(stats, now_ms - spans_ms[i]);
        int64_t ms = now_ms - then->at_ms;
        out->put[i] = rate(now.put_nums, then->put_nums, ms);
        out->found[i] = rate(now.found, then->found, ms);
        out->miss[i] = rate(now.miss, then->miss, ms);
        out->get[i] = rate(now.get_nums, then->get_nums, ms);
    }
    rq_mutex_unlock(&stats->lock);
}

/* ---- forgetting ---- */

/* The parts of a key between '@': topic first; the group last, where there is one. */
static bool is_of(const struct rq_map_entry *entry, struct rq_slice topic, struct rq_slice group)
{
    struct rq_slice key = rq_slice(entry->key, entry->key_len);
    bool topic_fits = !topic.p || (key.n >= topic.n && memcmp(key.p, topic.p, topic.n) == 0 &&
                                   (key.n == topic.n || key.p[topic.n] == '@'));
    bool group_fits = !group.p || (key.n > group.n && key.p[key.n - group.n - 1] == '@' &&
                                   memcmp(key.p + key.n - group.n, group.p, group.n) == 0);
    return topic_fits && group_fits;
}

void rq_stats_forget(struct rq_stats *stats, struct rq_slice topic, struct rq_slice group)
{
    rq_mutex_lock(&stats->lock);
    for (int i = 0; i < RQ_STATS_BROKER_PUT_NUMS; i++) {
        const struct rq_map_entry *entry;
        for (size_t at = 0; (entry = rq_map_next(&stats->items[i], &at));) {
            if (is_of(entry, topic, group)) {
                rq_free(rq_map_remove(&stats->items[i], rq_slice(entry->key, entry->key_len)));
            }
        }
    }
    rq_mutex_unlock(&stats->lock);
}
