/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Statistics by name and key ("TOPIC_PUT_NUMS" of a topic, …): totals, and what came in the last
 * minute, hour and day. The loops gather what their connections send and hand it over once a turn;
 * one timer samples. Counterparts: BrokerStatsManager, StatsItem, StoreStatsService.
 */
#ifndef RQ_BROKER_STATS_H
#define RQ_BROKER_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/thread.h"

enum rq_stats_name {
    RQ_STATS_TOPIC_PUT_NUMS, /* key: topic */
    RQ_STATS_TOPIC_PUT_SIZE,
    RQ_STATS_QUEUE_PUT_NUMS, /* topic@queueId, of delayed messages only */
    RQ_STATS_QUEUE_PUT_SIZE,
    RQ_STATS_GROUP_GET_NUMS, /* topic@group */
    RQ_STATS_GROUP_GET_SIZE,
    RQ_STATS_SNDBCK_PUT_NUMS,    /* topic@group */
    RQ_STATS_GROUP_ACK_NUMS,     /* topic@group */
    RQ_STATS_GROUP_CK_NUMS,      /* topic@group */
    RQ_STATS_BROKER_PUT_NUMS,    /* cluster */
    RQ_STATS_BROKER_GET_NUMS,    /* cluster */
    RQ_STATS_BROKER_ACK_NUMS,    /* cluster */
    RQ_STATS_BROKER_CK_NUMS,     /* cluster */
    RQ_STATS_TIMER_DEQUEUE_NUMS, /* topic of the timers; not in Java's list */
    RQ_STATS_NAMES
};

/* An upper bound of each bucket of the time that storing a message took; the last has none.
 * Microseconds. */
#define RQ_PUT_BUCKETS 14
extern const int64_t rq_put_bucket_us[RQ_PUT_BUCKETS - 1];

/* Totals of the broker since start. atomic: relaxed, only counted. */
struct rq_totals {
    _Atomic uint64_t put_nums;
    _Atomic uint64_t put_bytes;
    _Atomic uint64_t put_failed;
    _Atomic uint64_t put_us; /* in all */
    _Atomic uint64_t put_max_us;
    _Atomic uint64_t put_bucket[RQ_PUT_BUCKETS];
    _Atomic uint64_t get_found; /* pulls */
    _Atomic uint64_t get_miss;
    _Atomic uint64_t get_nums; /* messages */
    _Atomic uint64_t get_bytes;
    _Atomic uint64_t get_max_us;
};

/* What the broker has sampled: one every ten seconds, ten minutes and some back. */
#define RQ_RATE_SAMPLES 64

struct rq_rate_sample {
    int64_t at_ms;
    uint64_t put_nums;
    uint64_t found;
    uint64_t miss;
    uint64_t get_nums;
};

struct rq_stats {
    struct rq_totals totals;
    struct rq_mutex lock;                /* rank: stats; guards all below */
    struct rq_map items[RQ_STATS_NAMES]; /* key -> struct item */
    struct rq_rate_sample samples[RQ_RATE_SAMPLES];
    size_t sample_count;    /* ever taken; the newest is at (count - 1) % RQ_RATE_SAMPLES */
    int64_t next_minute_ms; /* wall clock of the next samples of these views */
    int64_t next_hour_ms;
    int64_t midnight_ms;
    uint64_t put_today_morning, put_yesterday_morning;
    uint64_t get_today_morning, get_yesterday_morning;
};

/* What a loop has gathered in this turn, of one queue; owned by its thread. */
struct rq_stats_gathered {
    char topic[256];
    size_t topic_n;
    int32_t queue_id;
    uint64_t nums;
    uint64_t bytes;
};

#define RQ_STATS_SAMPLE_MS 10000

void rq_stats_init(struct rq_stats *stats);
void rq_stats_free(struct rq_stats *stats);

/* Adds to one item, making it when it is new. Any thread. */
void rq_stats_add(struct rq_stats *stats, enum rq_stats_name name, struct rq_slice key,
                  uint64_t value, uint64_t times);

/* So many events of a group on a topic, under a name whose key is topic@group. Any thread. */
void rq_stats_add_group(struct rq_stats *stats, enum rq_stats_name name, struct rq_slice topic,
                        struct rq_slice group, uint64_t value);

/* Messages stored by the loop, and their hand-over. cluster is the key of the broker's own item. */
void rq_stats_put(struct rq_stats *stats, struct rq_stats_gathered *gathered,
                  struct rq_slice cluster, struct rq_slice topic, int32_t queue_id, uint64_t nums,
                  uint64_t bytes);
void rq_stats_flush(struct rq_stats *stats, struct rq_stats_gathered *gathered,
                    struct rq_slice cluster);

/* The time that storing took. */
void rq_stats_put_took(struct rq_stats *stats, int64_t us);

/* A pull has been answered with so many messages. */
void rq_stats_got(struct rq_stats *stats, struct rq_slice cluster, struct rq_slice topic,
                  struct rq_slice group, uint64_t nums, uint64_t bytes);

/* Takes a sample of everything that is due. Every RQ_STATS_SAMPLE_MS, background loop. */
void rq_stats_sample(struct rq_stats *stats, int64_t now_ms);

/* Body 315; false: there is no such item. */
bool rq_stats_write(struct rq_stats *stats, struct rq_slice name, struct rq_slice key,
                    struct rq_buf *out);

/* Messages per second in the last minute, 0 for what is unknown. */
double rq_stats_tps(struct rq_stats *stats, enum rq_stats_name name, struct rq_slice key);

/* Calls each for every item of a name with its total, with the lock held: each must not come back
 * here. */
void rq_stats_each(struct rq_stats *stats, enum rq_stats_name name,
                   void (*each)(struct rq_slice key, uint64_t value, void *user), void *user);

/* Rates over about 10, 60 and 600 seconds. */
struct rq_rates {
    double put[3], found[3], miss[3], get[3];
};
void rq_stats_rates(struct rq_stats *stats, int64_t now_ms, struct rq_rates *out);

/* Removes the items of a topic and of a group, as when they are deleted. p NULL: any. */
void rq_stats_forget(struct rq_stats *stats, struct rq_slice topic, struct rq_slice group);

#endif
