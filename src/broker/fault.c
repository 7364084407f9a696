/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Faults on request. A dropped answer is made by taking the request as one-way: it is carried out
 * and nobody hears of it. A delayed request is kept with its frame and goes to its processor when a
 * timer of its loop says so.
 */
#include "broker/fault.h"

#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"

struct rule {
    struct rq_list node;
    struct rq_fault_rule what;
    char remark[];
};

struct delayed {
    struct rq_list node;
    struct rq_timer timer;
    struct rq_frame_ref *ref;
    struct rq_session *session;
    struct rq_in in;
    struct rq_header header;
    struct rmq_broker *broker;
    void (*run)(const struct rq_request *request);
};

void rq_fault_init(struct rq_fault *fault)
{
    atomic_init(&fault->active, false);
    atomic_init(&fault->refused, 0);
    atomic_init(&fault->refused_until_ms, 0);
    rq_mutex_init(&fault->lock);
    rq_list_init(&fault->rules);
    rq_list_init(&fault->delayed);
}

static void remove_rules_locked(struct rq_fault *fault, int code, bool all)
{
    RQ_LIST_FOREACH_SAFE(node, next, &fault->rules)
    {
        struct rule *rule = RQ_CONTAINER_OF(node, struct rule, node);
        if (all || rule->what.code == code) {
            rq_list_remove(node);
            rq_free(rule);
        }
    }
}

static void update_active_locked(struct rq_fault *fault)
{
    atomic_store_explicit(&fault->active, !rq_list_empty(&fault->rules), memory_order_relaxed);
}

void rq_fault_clear(struct rq_fault *fault)
{
    rq_mutex_lock(&fault->lock);
    remove_rules_locked(fault, 0, true);
    update_active_locked(fault);
    rq_mutex_unlock(&fault->lock);
}

void rq_fault_refuse(struct rq_fault *fault, enum rq_refuse what, bool refuse)
{
    if (refuse) {
        atomic_fetch_or_explicit(&fault->refused, (unsigned)what, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&fault->refused, ~(unsigned)what, memory_order_relaxed);
    }
}

void rq_fault_refuse_connections_for(struct rq_fault *fault, int64_t ms)
{
    atomic_store_explicit(&fault->refused_until_ms, rq_deadline_ms(ms), memory_order_relaxed);
}

bool rq_fault_refuses_connections(const struct rq_fault *fault)
{
    return rq_fault_refuses(fault, RQ_REFUSE_CONNECTIONS) ||
           rq_mono_ms() < atomic_load_explicit(&fault->refused_until_ms, memory_order_relaxed);
}

void rq_fault_free(struct rq_fault *fault)
{
    rq_fault_clear(fault);
    rq_mutex_destroy(&fault->lock);
}

rmq_status rq_fault_add(struct rq_fault *fault, const struct rq_fault_rule *what)
{
    struct rule *rule = NULL;
    if (what->times != 0) {
        size_t n = what->remark ? strlen(what->remark) + 1 : 0;
        rule = rq_alloc(sizeof *rule + n);
        if (!rule) {
            return RMQ_ERR_NOMEM;
        }
        rule->what = *what;
        if (what->remark) {
            memcpy(rule->remark, what->remark, n);
            rule->what.remark = rule->remark;
        }
    }
    rq_mutex_lock(&fault->lock);
    if (rule) {
        rq_list_add_tail(&fault->rules, &rule->node);
    } else {
        remove_rules_locked(fault, what->code, what->code == -1);
    }
    update_active_locked(fault);
    rq_mutex_unlock(&fault->lock);
    return RMQ_OK;
}

static void free_delayed(struct delayed *delayed)
{
    rq_frame_ref_release(delayed->ref);
    rq_conn_release(delayed->in.conn);
    rq_free(delayed);
}

static void resume(struct rq_timer *timer)
{
    struct delayed *delayed = RQ_CONTAINER_OF(timer, struct delayed, timer);
    struct rq_fault *fault = &delayed->broker->fault;
    rq_mutex_lock(&fault->lock);
    rq_list_remove(&delayed->node);
    rq_mutex_unlock(&fault->lock);
    const struct rq_request request = {.broker = delayed->broker,
                                       .session = delayed->session,
                                       .conn = delayed->in.conn,
                                       .in = &delayed->in,
                                       .to = rq_reply_to(&delayed->header)};
    delayed->run(&request);
    free_delayed(delayed);
}

static bool delay(struct rq_fault *fault, const struct rq_request *request, int64_t delay_ms,
                  void (*run)(const struct rq_request *request))
{
    struct delayed *delayed = rq_calloc(1, sizeof *delayed);
    if (!delayed) {
        return false;
    }
    delayed->ref = rq_in_keep(request->in);
    if (!delayed->ref) {
        rq_free(delayed);
        return false;
    }
    delayed->broker = request->broker;
    delayed->session = request->session;
    delayed->run = run;
    delayed->header = *request->in->header;
    delayed->in = *request->in;
    delayed->in.header = &delayed->header;
    rq_conn_retain(request->conn);
    rq_mutex_lock(&fault->lock);
    rq_list_add_tail(&fault->delayed, &delayed->node);
    rq_mutex_unlock(&fault->lock);
    rq_timer_init(&delayed->timer, resume);
    rq_timer_start(rq_conn_loop(request->conn), &delayed->timer, delay_ms);
    return true;
}

/* What takes faults back is spared by rules for every code when it comes as a request. */
static bool is_spared(const struct rq_request *request)
{
    return request->in->header->code == RQ_REQ_UPDATE_BROKER_CONFIG &&
           request->broker->settings.broker.fault_injection_enable;
}

/* Takes the first rule that matches; one that is used up is freed, so the remark is copied. */
static bool take_rule(struct rq_fault *fault, const struct rq_request *request,
                      struct rq_fault_rule *out, char **remark)
{
    int code = request->in->header->code;
    bool spared = is_spared(request);
    bool found = false;
    rq_mutex_lock(&fault->lock);
    RQ_LIST_FOREACH_SAFE(node, next, &fault->rules)
    {
        struct rule *rule = RQ_CONTAINER_OF(node, struct rule, node);
        if ((rule->what.code != -1 || spared) && rule->what.code != code) {
            continue;
        }
        *out = rule->what;
        *remark = rule->what.remark ? rq_strdup(rule->what.remark) : NULL;
        found = true;
        if (rule->what.times > 0 && --rule->what.times == 0) {
            rq_list_remove(node);
            rq_free(rule);
            update_active_locked(fault);
        }
        break;
    }
    rq_mutex_unlock(&fault->lock);
    return found;
}

static bool stores(int32_t code)
{
    return code == RQ_REQ_SEND_MESSAGE || code == RQ_REQ_SEND_MESSAGE_V2 ||
           code == RQ_REQ_SEND_BATCH_MESSAGE || code == RQ_REQ_CONSUMER_SEND_MSG_BACK;
}

bool rq_fault_apply(struct rq_fault *fault, const struct rq_request *request,
                    void (*run)(const struct rq_request *request))
{
    struct rq_fault_rule rule;
    char *remark = NULL;
    if (rq_fault_refuses(fault, RQ_REFUSE_WRITES) && stores(request->in->header->code)) {
        rq_request_answer(
            request, RQ_RESP_SERVICE_NOT_AVAILABLE,
            "service not available now. It may be caused by one of the following reasons: "
            "a test has asked for it");
        return true;
    }
    if (!atomic_load_explicit(&fault->active, memory_order_relaxed) ||
        !take_rule(fault, request, &rule, &remark)) {
        return false;
    }
    bool handled = true;
    if (rule.kind == RQ_FAULT_ANSWER) {
        rq_request_answer(request, rule.response_code, remark);
    } else if (rule.kind == RQ_FAULT_CUT) {
        rq_conn_close(request->conn, RMQ_ERR_CLOSED);
    } else if (rule.kind == RQ_FAULT_DELAY) {
        handled = delay(fault, request, rule.delay_ms, run);
    } else {
        request->in->header->flag |= RQ_FLAG_ONEWAY;
        handled = false;
    }
    rq_free(remark);
    return handled;
}

void rq_fault_drop(struct rq_fault *fault, const struct rq_session *session)
{
    struct rq_list gone;
    rq_list_init(&gone);
    rq_mutex_lock(&fault->lock);
    RQ_LIST_FOREACH_SAFE(node, next, &fault->delayed)
    {
        if (RQ_CONTAINER_OF(node, struct delayed, node)->session == session) {
            rq_list_remove(node);
            rq_list_add_tail(&gone, node);
        }
    }
    rq_mutex_unlock(&fault->lock);
    struct rq_list *node;
    while ((node = rq_list_pop(&gone))) {
        struct delayed *delayed = RQ_CONTAINER_OF(node, struct delayed, node);
        rq_timer_stop(&delayed->timer);
        free_delayed(delayed);
    }
}
