/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Connections of a broker: sessions, the one dispatch of a loop's turn, timers of the background
 * loop. Counterpart: BrokerController. */
#include "broker/server.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/address.h"
#include "broker/client_manage.h"
#include "store/disk.h"
#include "wire/names.h"

#define SCAN_MS 10000

/* ---- connections ---- */

static struct rq_broker_loop *loop_of(struct rmq_broker *broker, const struct rq_loop *loop)
{
    for (int i = 0; i < broker->loop_count; i++) {
        if (broker->loops[i].loop == loop) {
            return &broker->loops[i];
        }
    }
    return &broker->loops[0];
}

static void on_open(void *user, struct rq_conn *conn)
{
    struct rmq_broker *broker = user;
    struct rq_session *session =
        rq_fault_refuses_connections(&broker->fault) ? NULL : rq_calloc(1, sizeof *session);
    if (!session) {
        rq_conn_close(conn, RMQ_ERR_NOMEM);
        return;
    }
    session->conn = conn;
    session->loop = loop_of(broker, rq_conn_loop(conn));
    rq_list_init(&session->parked);
    rq_list_init(&session->popped);
    rq_address_of_peer(rq_conn_remote_addr(conn), &session->born_host);
    rq_conn_set_user(conn, session);
}

static void on_request(void *user, struct rq_conn *conn, struct rq_in *in)
{
    struct rq_session *session = rq_conn_user(conn);
    if (session) {
        rq_broker_process(user, session, in);
    }
}

static void on_close(void *user, struct rq_conn *conn, rmq_status why)
{
    struct rmq_broker *broker = user;
    struct rq_session *session = rq_conn_user(conn);
    (void)why;
    if (!session) {
        return;
    }
    rq_hold_drop(&broker->hold, session);
    rq_pop_hold_drop(&broker->pop_hold, session);
    rq_fault_drop(&broker->fault, session);
    if (session->is_client) {
        rq_client_closed(broker, conn);
    }
    rq_conn_set_user(conn, NULL);
    rq_free(session);
}

rmq_status rq_broker_listen(struct rmq_broker *broker, rmq_error **err)
{
    const struct rq_broker_options *options = &broker->settings.broker;
    struct rq_loop *loops[RQ_BROKER_LOOPS_MAX];
    for (int i = 0; i < broker->loop_count; i++) {
        loops[i] = broker->loops[i].loop;
    }
    int64_t idle_ms = (int64_t)options->server_channel_max_idle_time_seconds * 1000;
    const struct rq_server_options server = {.loops = loops,
                                             .loop_count = broker->loop_count,
                                             .address = rq_address_to_bind(options),
                                             .port = (uint16_t)options->listen_port,
                                             .on_request = on_request,
                                             .on_open = on_open,
                                             .on_close = on_close,
                                             .user = broker,
                                             .idle_ms = idle_ms > 0 ? idle_ms : -1};
    return rq_server_create(&server, &broker->server, err);
}

/* ---- dispatch ---- */

int64_t rq_broker_now_ms(const struct rmq_broker *broker)
{
    return rq_disk_now_ms(rq_store_disk(broker->store));
}

static struct rq_slice cluster_of(const struct rmq_broker *broker)
{
    return rq_slice_str(broker->settings.broker.broker_cluster_name);
}

void rq_broker_count_put(const struct rq_request *request, struct rq_slice topic, int32_t queue_id,
                         const struct rq_store_put *put, uint64_t nums)
{
    rq_stats_put(&request->broker->stats, &request->session->loop->gathered,
                 cluster_of(request->broker), topic, queue_id, nums,
                 (uint64_t)(put->next_commit_log_offset - put->commit_log_offset));
}

void rq_broker_count_own_put(struct rmq_broker *broker, struct rq_slice topic, int32_t queue_id,
                             const struct rq_store_put *put)
{
    struct rq_stats_gathered one = {0};
    rq_stats_put(&broker->stats, &one, cluster_of(broker), topic, queue_id, 1,
                 (uint64_t)(put->next_commit_log_offset - put->commit_log_offset));
    rq_stats_flush(&broker->stats, &one, cluster_of(broker));
}

void rq_broker_count_acks(struct rmq_broker *broker, struct rq_slice topic, struct rq_slice group,
                          uint64_t count)
{
    rq_stats_add_group(&broker->stats, RQ_STATS_GROUP_ACK_NUMS, topic, group, count);
    rq_stats_add(&broker->stats, RQ_STATS_BROKER_ACK_NUMS, cluster_of(broker), count, 1);
}

void rq_broker_count_checkpoint(struct rmq_broker *broker, struct rq_slice topic,
                                struct rq_slice group)
{
    rq_stats_add_group(&broker->stats, RQ_STATS_GROUP_CK_NUMS, topic, group, 1);
    rq_stats_add(&broker->stats, RQ_STATS_BROKER_CK_NUMS, cluster_of(broker), 1, 1);
}

static void dispatch(struct rq_task *task)
{
    struct rq_broker_loop *loop = RQ_CONTAINER_OF(task, struct rq_broker_loop, dispatch);
    loop->dispatch_posted = false;
    rq_stats_flush(&loop->broker->stats, &loop->gathered, cluster_of(loop->broker));
    rq_store_dispatch(loop->broker->store);
}

void rq_broker_dispatch_soon(const struct rq_request *request)
{
    struct rq_broker_loop *loop = request->session->loop;
    if (!loop->dispatch_posted) {
        loop->dispatch_posted = true;
        (void)rq_loop_post(loop->loop, &loop->dispatch);
    }
}

/* Whoever dispatches runs this for each queue that has news. */
static void arrived(const struct rq_store_arrival *arrival, void *user)
{
    struct rmq_broker *broker = user;
    if (rq_slice_eq_str(arrival->topic, RQ_TOPIC_SCHEDULE)) {
        rq_schedule_arrived(&broker->schedule, arrival->queue_id);
    } else if (rq_slice_eq_str(arrival->topic, RQ_TOPIC_TIMER)) {
        rq_timers_arrived(&broker->timers);
    }
    rq_hold_arrived(&broker->hold, arrival);
    rq_pop_hold_arrived(&broker->pop_hold, arrival);
}

rmq_status rq_broker_make_loops(struct rmq_broker *broker, rmq_error **err)
{
    char name[16];
    rmq_status st = rq_loop_create("rmq-broker-bg", &broker->background, err);
    int count = broker->settings.broker.server_selector_threads;
    for (int i = 0; !st && i < count; i++) {
        struct rq_broker_loop *loop = &broker->loops[i];
        (void)snprintf(name, sizeof name, "rmq-broker-%u", (unsigned)i % RQ_BROKER_LOOPS_MAX);
        loop->broker = broker;
        loop->dispatch.run = dispatch;
        st = rq_loop_create(name, &loop->loop, err);
        broker->loop_count += st == RMQ_OK;
    }
    return st;
}

void rq_broker_hear_arrivals(struct rmq_broker *broker)
{
    rq_store_set_listener(broker->store, arrived, broker);
}

/* ---- background ---- */

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

static void persist_offsets(struct rmq_broker *broker)
{
    rmq_error *err = NULL;
    rq_pops_commit(&broker->pops);
    rmq_status st = rq_offsets_persist(&broker->offsets, &err);
    note_failure("consumer offsets", st, err);
    err = NULL;
    st = rq_pop_orders_persist(&broker->pop_orders, &err);
    note_failure("what was popped in order", st, err);
}

void rq_broker_persist(struct rmq_broker *broker)
{
    persist_tables(broker);
    persist_offsets(broker);
    persist_delays(broker);
}

static void persist_posted(struct rq_task *task)
{
    struct rmq_broker *broker = RQ_CONTAINER_OF(task, struct rmq_broker, persist_task);
    atomic_flag_clear_explicit(&broker->persist_posted, memory_order_release);
    persist_tables(broker);
}

void rq_broker_persist_soon(struct rmq_broker *broker)
{
    if (!atomic_flag_test_and_set_explicit(&broker->persist_posted, memory_order_acq_rel)) {
        (void)rq_loop_post(broker->background, &broker->persist_task);
    }
}

void rq_broker_topics_changed(struct rmq_broker *broker)
{
    rq_broker_persist_soon(broker);
    rq_registration_ask(&broker->registration, NULL);
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
    atomic_flag_clear_explicit(&broker->persist_posted, memory_order_release);
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

static void nothing(void *arg)
{
    (void)arg;
}

void rq_broker_drain_loops(struct rmq_broker *broker)
{
    for (int i = 0; i < broker->loop_count; i++) {
        (void)rq_loop_run(broker->loops[i].loop, nothing, NULL);
    }
}
