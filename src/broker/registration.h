/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Registration at the name servers: at start, at every change of topics, and every
 * registerNameServerPeriod, to all of them at once. On the background loop. Counterparts:
 * BrokerOuterAPI, BrokerController.registerBrokerAll.
 */
#ifndef RQ_BROKER_REGISTRATION_H
#define RQ_BROKER_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/list.h"
#include "base/thread.h"
#include "net/client.h"
#include "net/loop.h"

struct rmq_broker;
struct rq_registration;

struct rq_registrar {
    struct rq_registration *registration;
    struct rq_peer *peer;
    struct rq_call call;
    /* owned by the background loop, as call is */
    bool failed; /* the last time: logged when it starts and when it ends */
    bool was_connected;
    bool open;   /* call is not answered */
    bool late;   /* open, and its round went on without it */
    bool missed; /* late, and a round has been sent since */
};

/* Something that waits for a round which began after it was asked for. done runs on the background
 * loop. */
struct rq_registration_waiter {
    struct rq_list node;
    void (*done)(struct rq_registration_waiter *waiter);
};

struct rq_registration {
    struct rmq_broker *broker;
    struct rq_loop *loop; /* background; a reference */
    struct rq_peers *peers;
    struct rq_registrar *registrars; /* immutable after create */
    int count;

    /* owned by the background loop */
    struct rq_timer timer;
    struct rq_timer late_timer; /* while a round is running */
    struct rq_task start_task;
    int running; /* calls of the round that are not answered, without the late ones */
    int succeeded;
    int64_t retry_ms; /* until the next round, when not all accepted the last; 0 = the period */
    bool again;       /* asked for while a round was running */
    bool stopped;
    struct rq_list current; /* waiters of this round */
    struct rq_list next;    /* waiters of the next one */

    struct rq_mutex lock; /* rank: broker tables; guards all below */
    struct rq_list asked; /* waiters on their way to the loop */
};

/* addresses: "host:port;host:port". */
rmq_status rq_registration_init(struct rq_registration *registration, struct rmq_broker *broker,
                                struct rq_loop *background, const char *addresses, rmq_error **err);

/* Asks for a round soon. waiter may be NULL. Any thread. */
void rq_registration_ask(struct rq_registration *registration,
                         struct rq_registration_waiter *waiter);

/* Asks and waits until the round is done, or timeout. Returns how many name servers have accepted
 * it. Not on the background loop. */
int rq_registration_now(struct rq_registration *registration, int64_t timeout_ms);

/* Ends the rounds and takes the broker off the name servers. Not on the background loop. */
void rq_registration_stop(struct rq_registration *registration);
void rq_registration_free(struct rq_registration *registration);

#endif
