/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Misbehaviour that a test asked for: a filter in front of the processors. Any thread may set
 * rules; they are applied on loop threads. */
#ifndef RQ_BROKER_FAULT_H
#define RQ_BROKER_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/list.h"
#include "base/thread.h"

struct rq_request;
struct rq_session;
struct rmq_broker;

enum rq_fault_kind { RQ_FAULT_ANSWER, RQ_FAULT_DELAY, RQ_FAULT_DROP, RQ_FAULT_CUT };

struct rq_fault {
    /* atomic: relaxed hint that there are rules, so that the usual request takes no lock */
    _Atomic bool active;
    _Atomic unsigned refused; /* atomic: relaxed; bits of enum rq_refuse */
    /* atomic: relaxed; monotonic, until when connections are refused */
    _Atomic int64_t refused_until_ms;
    struct rq_mutex lock; /* rank: broker tables; guards the lists */
    struct rq_list rules;
    struct rq_list delayed; /* requests that wait */
};

struct rq_fault_rule {
    enum rq_fault_kind kind;
    int code;  /* -1 = any */
    int times; /* -1 = for ever */
    int response_code;
    int64_t delay_ms;
    const char *remark;
};

enum rq_refuse { RQ_REFUSE_CONNECTIONS = 1, RQ_REFUSE_WRITES = 2 };

void rq_fault_refuse(struct rq_fault *fault, enum rq_refuse what, bool refuse);

/* Refuses connections for a time only: whoever asked over one cannot take it back. */
void rq_fault_refuse_connections_for(struct rq_fault *fault, int64_t ms);
bool rq_fault_refuses_connections(const struct rq_fault *fault);
static inline bool rq_fault_refuses(const struct rq_fault *fault, enum rq_refuse what)
{
    return (atomic_load_explicit(&fault->refused, memory_order_relaxed) & (unsigned)what) != 0;
}

/* A fault in words (fault_text.c). RMQ_ERR_INVALID, RMQ_ERR_NOMEM. */
rmq_status rq_fault_run_text(struct rmq_broker *broker, const char *text, rmq_error **err);

void rq_fault_init(struct rq_fault *fault);
void rq_fault_free(struct rq_fault *fault); /* when all connections are closed */

/* times 0 clears the rules of the code. The remark is copied. */
rmq_status rq_fault_add(struct rq_fault *fault, const struct rq_fault_rule *rule);
void rq_fault_clear(struct rq_fault *fault);

/* Applies the first rule that matches. false: the request goes on to its processor (perhaps as
 * one-way). run: what a delayed request goes to when its time has come. */
bool rq_fault_apply(struct rq_fault *fault, const struct rq_request *request,
                    void (*run)(const struct rq_request *request));

/* Forgets the requests of a connection that has closed. Loop thread. */
void rq_fault_drop(struct rq_fault *fault, const struct rq_session *session);

#endif
