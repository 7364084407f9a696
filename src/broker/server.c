/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Connections of a broker: sessions, loops, the one dispatch of a loop's turn. Counterpart:
 * BrokerController. */
#include "broker/server.h"

#include <stdio.h>

#include "base/mem.h"
#include "broker/address.h"
#include "broker/client_manage.h"
#include "wire/names.h"

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

static void dispatch(struct rq_task *task)
{
    struct rq_broker_loop *loop = RQ_CONTAINER_OF(task, struct rq_broker_loop, dispatch);
    loop->dispatch_posted = false;
    rq_broker_count_gathered(loop);
    rq_store_dispatch(loop->broker->store);
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
