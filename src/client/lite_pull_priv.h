/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The inside of a lite pull consumer, shared by lite_pull.c (life, poll), lite_pull_queues.c
 * (assign, seek, pause) and lite_pull_commit.c. Shares, pulls, cache and closing are those of a
 * polled consumer (client/consumer_priv.h); what differs is who says what is done. Counterpart:
 * DefaultLitePullConsumerImpl.
 */
#ifndef RQ_CLIENT_LITE_PULL_PRIV_H
#define RQ_CLIENT_LITE_PULL_PRIV_H

#include <rmq/lite_pull_consumer.h>

#include "base/list.h"
#include "client/callbacks.h"
#include "client/consumer_priv.h"

enum rq_lite_mode { RQ_LITE_NONE, RQ_LITE_SUBSCRIBE, RQ_LITE_ASSIGN };

/* Expression of a topic whose queues are or will be assigned. */
struct rq_lite_expression {
    struct rq_list node;
    char *topic;
    char *expression;
};

struct rmq_lite_pull_consumer {
    /* immutable after create */
    rmq_lite_pull_consumer_options options; /* own copy */
    struct rmq_consumer *inner;
    struct rq_instance *instance; /* inner's */
    struct rq_callbacks callbacks;

    /* loop */
    enum rq_lite_mode mode;
    struct rq_list expressions; /* struct rq_lite_expression.node */
    struct rq_list commits;     /* calls of commit that wait for brokers */
};

/* Checks a handle, what the call cannot do without, and (not NULL) a queue's name. what: the word
 * for needed, which may be the consumer once more. */
rmq_status rq_lite_check(struct rmq_lite_pull_consumer *consumer, const struct rq_mq *name,
                         const void *needed, const char *what, rmq_error **err);

/* ---- lite_pull_commit.c: loop ---- */

void rq_lite_committed(struct rq_owned *owned, rmq_status status, struct rq_in *answer);

/* ---- lite_pull_queues.c ---- */

void rq_lite_free_expressions(struct rmq_lite_pull_consumer *consumer);

/* A topic's full name, in room or topic itself; consumer and topic may be NULL. */
static inline const char *rq_lite_full(const struct rmq_lite_pull_consumer *consumer,
                                       const char *topic, char room[RQ_NAMESPACED_MAX])
{
    return rq_namespace_wrap(consumer ? consumer->options.namespace_name : NULL, topic, room);
}

#endif
