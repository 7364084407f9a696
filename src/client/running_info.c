/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What a consumer says of itself to an administrator, in Java's shape: options, subscriptions, each
 * queue's cache and lock, and rates of the last minute for each topic. I/O thread. Counterparts:
 * ConsumerRunningInfo, ProcessQueueInfo, PopProcessQueueInfo, ConsumerStatsManager.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "client/consumer_priv.h"
#include "client/namesrv.h"
#include "client/options.h"
#include "client/owned.h"
#include "client/subscribed.h"
#include "wire/bodies.h"
#include "wire/frame.h"

#define CLIENT_VERSION "V5_3_3" /* whose protocol we speak */

static void add_text(struct rq_buf *out, bool *first, const char *name, const char *value)
{
    rq_json_add_member(out, first, name);
    rq_json_add_string(out, rq_slice_str(value));
}

static void add_i64(struct rq_buf *out, bool *first, const char *name, int64_t value)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_i64(out, value);
}

static void add_bool(struct rq_buf *out, bool *first, const char *name, bool value)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_str(out, value ? "true" : "false");
}

/* ---- properties ---- */

static void write_options(const struct rmq_consumer *consumer, struct rq_buf *out, bool *first)
{
    struct rq_buf value;
    rq_buf_init(&value, 0);
    for (size_t i = 0; i < rq_consumer_table.count; i++) {
        rq_buf_clear(&value);
        rq_table_value_text(&rq_consumer_table.options[i], &consumer->options, &value);
        add_text(out, first, rq_consumer_table.options[i].name, rq_buf_cstr(&value));
    }
    rq_buf_free(&value);
}

static void write_properties(struct rmq_consumer *consumer, struct rq_buf *out)
{
    char number[24];
    bool first = true;
    rq_buf_add_char(out, '{');
    write_options(consumer, out, &first);
    add_text(out, &first, "PROP_CLIENT_VERSION", CLIENT_VERSION);
    add_text(out, &first, "PROP_CONSUME_TYPE", rq_consume_type_name(consumer->kind->type));
    add_text(out, &first, "PROP_CONSUMEORDERLY",
             consumer->options.consume_orderly ? "true" : "false");
    snprintf(number, sizeof number, "%lld", (long long)consumer->started_wall_ms);
    add_text(out, &first, "PROP_CONSUMER_START_TIMESTAMP", number);
    snprintf(number, sizeof number, "%d", (int)consumer->options.consume_thread_nums);
    add_text(out, &first, "PROP_THREADPOOL_CORE_SIZE", number);
    struct rq_buf servers;
    rq_buf_init(&servers, 0);
    rq_buf_addf(&servers, "%s;",
                consumer->options.namesrv_addr ? consumer->options.namesrv_addr : "");
    add_text(out, &first, "PROP_NAMESERVER_ADDR", rq_buf_cstr(&servers));
    rq_buf_free(&servers);
    rq_buf_add_char(out, '}');
}

/* ---- queues ---- */

/* Of a moment on the loop's clock; 0 when it never was. */
static int64_t wall_of(const struct rmq_consumer *consumer, int64_t mono_ms)
{
    return mono_ms > 0 ? rq_wall_ms() - (rq_loop_now(consumer->loop) - mono_ms) : 0;
}

static void write_queue(struct rq_owned *owned, struct rq_buf *out)
{
    struct rmq_consumer *consumer = owned->consumer;
    struct rq_process_info info;
    int64_t life = consumer->options.lock_interval_ms / 2 * 3;
    bool first = true;
    rq_process_queue_info(&owned->process, &info);
    rq_mq_write(&owned->name, out);
    rq_buf_add_str(out, ":{");
    add_i64(out, &first, "cachedMsgCount", info.count - info.taken_count);
    add_i64(out, &first, "cachedMsgMaxOffset", info.max_offset);
    add_i64(out, &first, "cachedMsgMinOffset", info.min_offset);
    add_i64(out, &first, "cachedMsgSizeInMiB", info.bytes >> 20);
    add_i64(out, &first, "commitOffset", rq_process_queue_commit_offset(&owned->process));
    add_bool(out, &first, "droped", owned->leaving);
    add_i64(out, &first, "lastConsumeTimestamp",
            wall_of(consumer, atomic_load_explicit(&owned->consumed_ms, memory_order_relaxed)));
    add_i64(out, &first, "lastLockTimestamp",
            wall_of(consumer, owned->had_lock ? owned->locked_until_ms - life : 0));
    add_i64(out, &first, "lastPullTimestamp", wall_of(consumer, owned->asked_ms));
    add_bool(out, &first, "locked", owned->locked);
    add_i64(out, &first, "transactionMsgCount", info.taken_count);
    add_i64(out, &first, "transactionMsgMaxOffset", info.taken_max);
    add_i64(out, &first, "transactionMsgMinOffset", info.taken_min);
    add_i64(out, &first, "tryUnlockTimes", 0);
    rq_buf_add_char(out, '}');
}

static void write_popped_queue(struct rq_owned *owned, struct rq_buf *out)
{
    struct rq_process_info info;
    bool first = true;
    rq_process_queue_info(&owned->process, &info);
    rq_mq_write(&owned->name, out);
    rq_buf_add_str(out, ":{");
    add_bool(out, &first, "droped", false);
    add_i64(out, &first, "lastPopTimestamp", wall_of(owned->consumer, owned->asked_ms));
    add_i64(out, &first, "waitAckCount", info.count);
    rq_buf_add_char(out, '}');
}

static void write_queues(struct rmq_consumer *consumer, bool popped, struct rq_buf *out)
{
    size_t count = 0;
    rq_buf_add_char(out, '{');
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            if (owned->pops != popped) {
                continue;
            }
            rq_buf_add_str(out, count++ > 0 ? "," : "");
            if (popped) {
                write_popped_queue(owned, out);
            } else {
                write_queue(owned, out);
            }
        }
    }
    rq_buf_add_char(out, '}');
}

/* ---- topics ---- */

static void write_subscriptions(struct rmq_consumer *consumer, struct rq_buf *out)
{
    size_t count = 0;
    rq_buf_add_char(out, '[');
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        rq_buf_add_str(out, count++ > 0 ? "," : "");
        rq_subscription_write(RQ_CONTAINER_OF(node, struct rq_subscribed, node)->sub, out);
    }
    rq_buf_add_char(out, ']');
}

static void add_rate(struct rq_buf *out, bool *first, const char *name, double value)
{
    char text[RQ_FIXED_MAX];
    rq_json_add_member(out, first, name);
    rq_buf_add_str(out, rq_fixed_to_text(value, 3, text));
}

static void write_statuses(struct rmq_consumer *consumer, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        struct rq_rates rates;
        bool inner = true;
        rq_consumer_stats_rates(topic, &rates);
        rq_json_add_member(out, &first, topic->topic);
        rq_buf_add_char(out, '{');
        add_i64(out, &inner, "consumeFailedMsgs", rates.failed);
        add_rate(out, &inner, "consumeFailedTPS", rates.failed_tps);
        add_rate(out, &inner, "consumeOKTPS", rates.ok_tps);
        add_rate(out, &inner, "consumeRT", rates.consume_ms);
        add_rate(out, &inner, "pullRT", rates.pull_ms);
        add_rate(out, &inner, "pullTPS", rates.pull_tps);
        rq_buf_add_char(out, '}');
    }
    rq_buf_add_char(out, '}');
}

void rq_running_info_write(struct rmq_consumer *consumer, struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"mqPopTable\":");
    write_queues(consumer, true, out);
    rq_buf_add_str(out, ",\"mqTable\":");
    write_queues(consumer, false, out);
    rq_buf_add_str(out, ",\"properties\":");
    write_properties(consumer, out);
    rq_buf_add_str(out, ",\"statusTable\":");
    write_statuses(consumer, out);
    rq_buf_add_str(out, ",\"subscriptionSet\":");
    write_subscriptions(consumer, out);
    rq_buf_add_str(out, ",\"userConsumerInfo\":{}}");
}
