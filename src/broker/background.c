/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What a broker does by itself, on its background loop: writes its files, looks for silent clients
 * and locks that ran out, takes samples. Counterpart: BrokerController. */
#include "broker/server.h"

#include "base/log.h"
#include "base/time.h"

#define SCAN_MS 10000

static void note_failure(const char *what, rmq_status st, rmq_error *err)
{
    if (st) {
        RQ_LOG(WARN, "a file of the broker could not be written", "what=%s detail=%s", what,
               err ? rmq_error_message(err) : rmq_status_text(st));
    }
    rmq_error_destroy(err);
}

static void persist_tables(struct rmq_broker *broker)
{
    rmq_error *err = NULL;
    rmq_status st = rq_topics_persist(&broker->topics, &err);
    note_failure("topics", st, err);
    err = NULL;
    st = rq_queue_mappings_persist(&broker->mappings, &err);
    note_failure("mappings of static topics", st, err);
    err = NULL;
    st = rq_groups_persist(&broker->groups, &err);
    note_failure("groups", st, err);
    err = NULL;
    st = rq_request_modes_persist(&broker->request_modes, &err);
    note_failure("request modes", st, err);
}

static void persist_delays(struct rmq_broker *broker)
{
    rmq_error *err = NULL;
    rmq_status st = rq_schedule_persist(&broker->schedule, &err);
    note_failure("delay offsets", st, err);
}

static void persist_consumer_offsets(struct rmq_broker *broker)
{
    rmq_error *err = NULL;
    rmq_status st = rq_offsets_persist(&broker->offsets, &err);
    note_failure("consumer offsets", st, err);
}

static void persist_offsets(struct rmq_broker *broker)
{
    rmq_error *err = NULL;
    rq_pops_commit(&broker->pops);
    persist_consumer_offsets(broker);
    rmq_status st = rq_pop_orders_persist(&broker->pop_orders, &err);
    note_failure("what was popped in order", st, err);
}

void rq_broker_persist_now(struct rmq_broker *broker)
{
    persist_tables(broker);
    persist_consumer_offsets(broker);
}

void rq_broker_persist(struct rmq_broker *broker)
{
    persist_tables(broker);
    persist_offsets(broker);
    persist_delays(broker);
}

static void persist_posted(struct rq_task *task)
{
    persist_tables(RQ_CONTAINER_OF(task, struct rmq_broker, persist_task));
}

static void scan(struct rq_timer *timer)
{
    struct rmq_broker *broker = RQ_CONTAINER_OF(timer, struct rmq_broker, scan_timer);
    int64_t now_ms = rq_mono_ms();
    rq_clients_expire(&broker->clients, now_ms, broker->settings.broker.channel_expired_timeout);
    rq_queue_locks_expire(&broker->locks, now_ms);
    rq_timer_start(broker->background, &broker->scan_timer, broker->scan_ms);
}

static void sample(struct rq_timer *timer)
{
    struct rmq_broker *broker = RQ_CONTAINER_OF(timer, struct rmq_broker, stats_timer);
    rq_stats_sample(&broker->stats, rq_wall_ms());
    rq_timer_start(broker->background, &broker->stats_timer, RQ_STATS_SAMPLE_MS);
}

static void persist_again(struct rq_timer *timer)
{
    struct rmq_broker *broker = RQ_CONTAINER_OF(timer, struct rmq_broker, persist_timer);
    persist_tables(broker);
    persist_offsets(broker);
    rq_timer_start(broker->background, &broker->persist_timer,
                   broker->settings.broker.flush_consumer_offset_interval);
}

static void persist_delays_again(struct rq_timer *timer)
{
    struct rmq_broker *broker = RQ_CONTAINER_OF(timer, struct rmq_broker, delay_persist_timer);
    persist_delays(broker);
    rq_timer_start(broker->background, &broker->delay_persist_timer,
                   broker->settings.broker.flush_delay_offset_interval);
}

void rq_broker_init_background(struct rmq_broker *broker)
{
    int64_t expires_ms = broker->settings.broker.channel_expired_timeout;
    broker->scan_ms = expires_ms < SCAN_MS ? expires_ms : SCAN_MS;
    broker->persist_task.run = persist_posted;
    rq_timer_init(&broker->stats_timer, sample);
    rq_timer_init(&broker->scan_timer, scan);
    rq_timer_init(&broker->persist_timer, persist_again);
    rq_timer_init(&broker->delay_persist_timer, persist_delays_again);
}

static void start_timers(void *arg)
{
    struct rmq_broker *broker = arg;
    rq_timer_start(broker->background, &broker->scan_timer, broker->scan_ms);
    rq_timer_start(broker->background, &broker->stats_timer, RQ_STATS_SAMPLE_MS);
    if (!broker->temporary_store) {
        rq_timer_start(broker->background, &broker->persist_timer,
                       broker->settings.broker.flush_consumer_offset_interval);
        rq_timer_start(broker->background, &broker->delay_persist_timer,
                       broker->settings.broker.flush_delay_offset_interval);
    }
}

static void stop_timers(void *arg)
{
    struct rmq_broker *broker = arg;
    rq_timer_stop(&broker->stats_timer);
    rq_timer_stop(&broker->scan_timer);
    rq_timer_stop(&broker->persist_timer);
    rq_timer_stop(&broker->delay_persist_timer);
}

void rq_broker_start_background(struct rmq_broker *broker)
{
    (void)rq_loop_run(broker->background, start_timers, broker);
}

void rq_broker_stop_background(struct rmq_broker *broker)
{
    if (broker->background) {
        (void)rq_loop_run(broker->background, stop_timers, broker);
    }
}
