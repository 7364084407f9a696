/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Registration at name servers in rounds: one request to each, all at once. Counterpart:
 * BrokerOuterAPI. */
#include "broker/registration.h"

#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"

#define NAMESRVS_MAX       64
#define UNREGISTER_WAIT_MS 1000
#define FIRST_RETRY_MS     1000
#define LATE_MS            2000 /* a round waits no longer for a name server that is silent */

static void start_round(struct rq_task *task);
static void period_over(struct rq_timer *timer);
static void leave_late(struct rq_timer *timer);
static void answered(struct rq_call *call, rmq_status status, struct rq_in *answer);

/* A name server forgets a broker whose connection ends: at a new connection, register at once and
 * not only when the period is over. */
static void connected(void *user, struct rq_peer *peer)
{
    struct rq_registration *registration = user;
    for (int i = 0; i < registration->count; i++) {
        struct rq_registrar *registrar = &registration->registrars[i];
        if (registrar->peer == peer && !registrar->was_connected) {
            registrar->was_connected = true;
        } else if (registrar->peer == peer && !registration->stopped) {
            rq_registration_ask(registration, NULL);
        }
    }
}

static rmq_status add_registrar(struct rq_registration *registration, struct rq_slice address,
                                rmq_error **err)
{
    char *text = rq_slice_dup(address);
    struct rq_registrar *registrar = &registration->registrars[registration->count];
    if (!text) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
    }
    rmq_status st = rq_peer_get(registration->peers, text, &registrar->peer, err);
    rq_free(text);
    if (!st) {
        rq_peer_set_role(registrar->peer, "namesrv");
        registrar->registration = registration;
        registration->count++;
    }
    return st;
}

/* Addresses are separated by ';' or ','. */
static rmq_status add_registrars(struct rq_registration *registration, const char *addresses,
                                 rmq_error **err)
{
    rmq_status st = RMQ_OK;
    while (!st && *addresses) {
        size_t n = strcspn(addresses, ";, \t");
        if (n > 0) {
            st =
                registration->count < NAMESRVS_MAX
                    ? add_registrar(registration, rq_slice(addresses, n), err)
                    : rq_error_set(err, RMQ_ERR_INVALID, "more than %d name servers", NAMESRVS_MAX);
        }
        addresses += n + (addresses[n] != '\0');
    }
    return st;
}

/* On the loop, so that no peer is connected before it is in the list. */
struct adding {
    struct rq_registration *registration;
    const char *addresses;
    rmq_error **err;
    rmq_status st;
};

static void run_adding(void *arg)
{
    struct adding *adding = arg;
    adding->st = add_registrars(adding->registration, adding->addresses, adding->err);
}

rmq_status rq_registration_init(struct rq_registration *registration, struct rmq_broker *broker,
                                struct rq_loop *background, const char *addresses, rmq_error **err)
{
    const struct rq_peers_options options = {
        .on_connected = connected, .user = registration, .hidden = true};
    memset(registration, 0, sizeof *registration);
    registration->broker = broker;
    rq_mutex_init(&registration->lock);
    rq_list_init(&registration->current);
    rq_list_init(&registration->next);
    rq_list_init(&registration->asked);
    rq_timer_init(&registration->timer, period_over);
    rq_timer_init(&registration->late_timer, leave_late);
    registration->start_task.run = start_round;
    registration->loop = background;
    rq_loop_retain(background);
    registration->registrars = rq_calloc(NAMESRVS_MAX, sizeof *registration->registrars);
    if (!registration->registrars) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
    }
    rmq_status st = rq_peers_create(background, &options, &registration->peers, err);
    if (!st) {
        struct adding adding = {registration, addresses, err, RMQ_OK};
        (void)rq_loop_run(background, run_adding, &adding);
        st = adding.st;
    }
    return st;
}

/* ---- frames ---- */

static rmq_status add_body(const struct rq_registration *registration, struct rq_buf *body)
{
    struct rmq_broker *broker = registration->broker;
    const int32_t all = RQ_PERM_READ | RQ_PERM_WRITE;
    int32_t allowed = broker->settings.broker.broker_permission;
    int32_t perm_mask = (allowed & all) == all ? ~0 : allowed;
    rq_buf_add_str(body, "{\"filterServerList\":[],\"topicConfigSerializeWrapper\":{");
    rq_topics_write(&broker->topics, body, rq_slice(NULL, 0), perm_mask);
    rq_buf_add_str(body, ",\"topicQueueMappingInfoMap\":");
    rq_queue_mappings_write_infos(&broker->mappings, body);
    rq_buf_add_str(body, "}}");
    return rq_buf_status(body);
}

static struct rq_hdr_register_broker register_fields(const struct rmq_broker *broker,
                                                     const struct rq_buf *body)
{
    struct rq_hdr_register_broker fields = {
        .broker_name = rq_slice_str(broker->settings.broker.broker_name),
        .broker_addr = rq_slice_str(broker->addr),
        .cluster_name = rq_slice_str(broker->settings.broker.broker_cluster_name),
        .ha_server_addr = rq_slice_str(broker->ha_addr),
        .broker_id = broker->settings.broker.broker_id,
    };
    RQ_SET(register_broker, &fields, enable_acting_master, false);
    RQ_SET(register_broker, &fields, compressed, false);
    RQ_SET(register_broker, &fields, body_crc32,
           (int32_t)(rq_crc32(0, body->data, body->len) & 0x7FFFFFFFu));
    return fields;
}

/* ---- rounds, on the background loop ---- */

static void move_all(struct rq_list *to, struct rq_list *from)
{
    struct rq_list *node;
    while ((node = rq_list_pop(from))) {
        rq_list_add_tail(to, node);
    }
}

static void tell_waiters(struct rq_list *waiters)
{
    struct rq_list *node;
    while ((node = rq_list_pop(waiters))) {
        struct rq_registration_waiter *waiter =
            RQ_CONTAINER_OF(node, struct rq_registration_waiter, node);
        waiter->done(waiter);
    }
}

/* A name server that was away, as when it is started after its brokers, is asked again soon, and
 * ever more seldom up to the period. */
static void plan_retry(struct rq_registration *registration)
{
    int64_t period_ms = registration->broker->settings.broker.register_name_server_period;
    if (registration->succeeded == registration->count) {
        registration->retry_ms = 0;
        return;
    }
    registration->retry_ms = registration->retry_ms ? registration->retry_ms * 2 : FIRST_RETRY_MS;
    if (registration->retry_ms >= period_ms) {
        registration->retry_ms = period_ms;
    }
    rq_timer_start(registration->loop, &registration->timer, registration->retry_ms);
}

static void end_round(struct rq_registration *registration)
{
    rq_timer_stop(&registration->late_timer);
    tell_waiters(&registration->current);
    if (!registration->stopped) {
        plan_retry(registration);
    }
    if (registration->again && !registration->stopped) {
        registration->again = false;
        start_round(&registration->start_task);
    } else if (registration->stopped) {
        tell_waiters(&registration->next);
    }
}

/* A silent name server holds the others up no longer than this. When all are silent, there is
 * nobody to go on for. */
static void leave_late(struct rq_timer *timer)
{
    struct rq_registration *registration =
        RQ_CONTAINER_OF(timer, struct rq_registration, late_timer);
    int open = 0;
    for (int i = 0; i < registration->count; i++) {
        open += registration->registrars[i].open;
    }
    if (open == registration->count) {
        rq_timer_start(registration->loop, timer, LATE_MS);
        return;
    }
    for (int i = 0; i < registration->count; i++) {
        struct rq_registrar *registrar = &registration->registrars[i];
        registrar->late = registrar->open;
    }
    registration->running = 0;
    end_round(registration);
}

/* why NULL: it works; that it cannot be connected has been told by the connection. */
static void note_result(struct rq_registrar *registrar, rmq_status status, const char *why)
{
    bool failed = why != NULL;
    bool told = status == RMQ_ERR_CONNECT || status == RMQ_ERR_RESOLVE;
    if (failed && !registrar->failed && !told) {
        RQ_LOG(WARN, "registration at the name server failed", "namesrv=%s why=%s",
               rq_peer_address(registrar->peer), why);
    } else if (!failed && registrar->failed) {
        RQ_LOG(INFO, "registration at the name server works again", "namesrv=%s",
               rq_peer_address(registrar->peer));
    }
    registrar->failed = failed;
}

/* Its round is over. What it has missed since then it gets in the next one. */
static void late_answered(struct rq_registrar *registrar)
{
    struct rq_registration *registration = registrar->registration;
    bool missed = registrar->missed;
    registrar->late = false;
    registrar->missed = false;
    if (missed && !registration->stopped) {
        rq_registration_ask(registration, NULL);
    }
}

static void answered(struct rq_call *call, rmq_status status, struct rq_in *answer)
{
    struct rq_registrar *registrar = call->user;
    struct rq_registration *registration = registrar->registration;
    bool ok = status == RMQ_OK && answer->header->code == RQ_RESP_SUCCESS;
    char why[256];
    if (answer) {
        (void)snprintf(why, sizeof why, "code %d %.*s", answer->header->code,
                       RQ_TEXT(answer->header->remark));
    } else {
        (void)snprintf(why, sizeof why, "%s", rmq_status_text(status));
    }
    if (!registration->stopped) {
        note_result(registrar, status, ok ? NULL : why);
    }
    registrar->open = false;
    if (registrar->late) {
        late_answered(registrar);
        return;
    }
    registration->succeeded += ok;
    if (--registration->running == 0) {
        end_round(registration);
    }
}

static void call_one(struct rq_registration *registration, struct rq_registrar *registrar,
                     const struct rq_frame_spec *spec, const struct rq_buf *body)
{
    struct rq_out *out = rq_out_make(spec, rq_slice(body->data, body->len));
    rmq_status st = RMQ_ERR_NOMEM;
    memset(&registrar->call, 0, sizeof registrar->call);
    registrar->call.done = answered;
    registrar->call.user = registrar;
    registrar->open = true;
    if (out) {
        int64_t timeout_ms = registration->broker->settings.broker.register_broker_timeout_mills;
        st = rq_peer_call(registrar->peer, &registrar->call, out, rq_deadline_ms(timeout_ms),
                          RQ_WAIT);
    }
    if (st) {
        registrar->open = false;
        note_result(registrar, st, rmq_status_text(st));
        registration->running--;
    }
}

static void call_all(struct rq_registration *registration, const struct rq_buf *body)
{
    struct rq_hdr_register_broker fields = register_fields(registration->broker, body);
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_REGISTER_BROKER,
                                                 &rq_tab_register_broker, &fields);
    for (int i = 0; i < registration->count; i++) {
        struct rq_registrar *registrar = &registration->registrars[i];
        if (registrar->late) {
            registrar->missed = true;
            registration->running--;
        } else {
            call_one(registration, registrar, &spec, body);
        }
    }
}

static void send_round(struct rq_registration *registration)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    /* one more, so that no answer ends the round before all are sent */
    registration->running = registration->count + 1;
    registration->succeeded = 0;
    if (add_body(registration, &body) == RMQ_OK) {
        rq_timer_start(registration->loop, &registration->late_timer, LATE_MS);
        call_all(registration, &body);
    } else {
        registration->running = 1;
    }
    rq_buf_free(&body);
    if (--registration->running == 0) {
        end_round(registration);
    }
}

static void start_round(struct rq_task *task)
{
    struct rq_registration *registration =
        RQ_CONTAINER_OF(task, struct rq_registration, start_task);
    rq_mutex_lock(&registration->lock);
    move_all(&registration->next, &registration->asked);
    rq_mutex_unlock(&registration->lock);
    if (registration->stopped) {
        tell_waiters(&registration->next);
        return;
    }
    if (registration->running > 0) {
        registration->again = true;
        return;
    }
    move_all(&registration->current, &registration->next);
    rq_timer_start(registration->loop, &registration->timer,
                   registration->broker->settings.broker.register_name_server_period);
    send_round(registration);
}

static void period_over(struct rq_timer *timer)
{
    struct rq_registration *registration = RQ_CONTAINER_OF(timer, struct rq_registration, timer);
    start_round(&registration->start_task);
}

void rq_registration_ask(struct rq_registration *registration,
                         struct rq_registration_waiter *waiter)
{
    rq_mutex_lock(&registration->lock);
    if (waiter) {
        rq_list_add_tail(&registration->asked, &waiter->node);
    }
    (void)rq_loop_post(registration->loop, &registration->start_task);
    rq_mutex_unlock(&registration->lock);
}

/* ---- blocking callers ---- */

/* Counted by the caller and the round, because the caller may give up first. */
struct blocking {
    struct rq_registration_waiter waiter;
    struct rq_registration *registration;
    struct rq_mutex lock; /* guards all below */
    struct rq_cond cond;
    bool done;
    int succeeded;
    int refs;
};

static void put_blocking(struct blocking *blocking)
{
    rq_mutex_lock(&blocking->lock);
    bool last = --blocking->refs == 0;
    rq_mutex_unlock(&blocking->lock);
    if (last) {
        rq_cond_destroy(&blocking->cond);
        rq_mutex_destroy(&blocking->lock);
        rq_free(blocking);
    }
}

static void wake_blocking(struct rq_registration_waiter *waiter)
{
    struct blocking *blocking = RQ_CONTAINER_OF(waiter, struct blocking, waiter);
    rq_mutex_lock(&blocking->lock);
    blocking->done = true;
    blocking->succeeded = blocking->registration->succeeded;
    rq_cond_signal(&blocking->cond);
    rq_mutex_unlock(&blocking->lock);
    put_blocking(blocking);
}

int rq_registration_now(struct rq_registration *registration, int64_t timeout_ms)
{
    struct blocking *blocking = rq_calloc(1, sizeof *blocking);
    if (!blocking) {
        return 0;
    }
    rq_mutex_init(&blocking->lock);
    rq_cond_init(&blocking->cond);
    blocking->waiter.done = wake_blocking;
    blocking->registration = registration;
    blocking->refs = 2;
    rq_registration_ask(registration, &blocking->waiter);
    int64_t deadline_ms = rq_deadline_ms(timeout_ms);
    rq_mutex_lock(&blocking->lock);
    while (!blocking->done && rq_cond_wait_until(&blocking->cond, &blocking->lock, deadline_ms)) {
    }
    int succeeded = blocking->done ? blocking->succeeded : 0;
    rq_mutex_unlock(&blocking->lock);
    put_blocking(blocking);
    return succeeded;
}

/* ---- end ---- */

static void stop_rounds(void *arg)
{
    struct rq_registration *registration = arg;
    registration->stopped = true;
    rq_timer_stop(&registration->timer);
    rq_timer_stop(&registration->late_timer);
}

static void unregister(struct rq_registration *registration, struct rq_peer *peer)
{
    const struct rmq_broker *broker = registration->broker;
    struct rq_hdr_broker fields = {
        .broker_name = rq_slice_str(broker->settings.broker.broker_name),
        .broker_addr = rq_slice_str(broker->addr),
        .cluster_name = rq_slice_str(broker->settings.broker.broker_cluster_name),
        .broker_id = broker->settings.broker.broker_id,
    };
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_UNREGISTER_BROKER, &rq_tab_broker, &fields);
    struct rq_reply reply = {0};
    struct rq_out *out = rq_peer_connected(peer) ? rq_out_make(&spec, rq_slice(NULL, 0)) : NULL;
    if (out && rq_peer_call_reply(peer, out, rq_deadline_ms(UNREGISTER_WAIT_MS), RQ_FAIL_FAST,
                                  &reply) == RMQ_OK) {
        rq_reply_free(&reply);
    }
}

static void drop_peers(struct rq_registration *registration)
{
    rq_peers_destroy(registration->peers); /* from here on no callback looks at the list */
    registration->peers = NULL;
    for (int i = 0; i < registration->count; i++) {
        rq_peer_put(registration->registrars[i].peer);
        registration->registrars[i].peer = NULL;
    }
}

void rq_registration_stop(struct rq_registration *registration)
{
    if (!registration->loop || !registration->peers) {
        return;
    }
    (void)rq_loop_run(registration->loop, stop_rounds, registration);
    for (int i = 0; i < registration->count; i++) {
        unregister(registration, registration->registrars[i].peer);
    }
    drop_peers(registration);
}

/* What is on its way to the loop comes to its end there. */
static void drain(void *arg)
{
    struct rq_registration *registration = arg;
    start_round(&registration->start_task);
    tell_waiters(&registration->current);
}

void rq_registration_free(struct rq_registration *registration)
{
    if (!registration->loop) {
        return;
    }
    (void)rq_loop_run(registration->loop, stop_rounds, registration);
    drop_peers(registration);
    (void)rq_loop_run(registration->loop, drain, registration);
    rq_loop_put(registration->loop);
    rq_free(registration->registrars);
    rq_mutex_destroy(&registration->lock);
}
