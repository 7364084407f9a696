/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * From pulled messages to the program: workers that run its listener, or takers that poll. Work is
 * a list of runs (one per pull); who works on a run claims its messages one after the other with an
 * atomic counter, so that the pool's lock is taken twice per run and not per message, and idle
 * workers can share a run whose listener is slow. The I/O thread submits. Counterpart:
 * ConsumeMessageConcurrentlyService.
 */
#ifndef RQ_CLIENT_POOL_H
#define RQ_CLIENT_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/consumer.h>

#include "base/list.h"
#include "base/thread.h"
#include "client/process_queue.h"

struct rq_pool;
struct rq_trace; /* client/trace.h */
struct rq_worker;

/* An ordered queue's turn: who has it in hands is the only one that hands out messages of the
 * queue. Embedded in the queue's owner; the pool holds one reference of the owner while it is
 * listed, in hands or parked. */
struct rq_turn {
    struct rq_list node; /* guarded by the pool's lock: in pool->turns, else alone */
    bool busy;           /* guarded by the pool's lock: in hands */
    bool again;          /* guarded by the pool's lock: submitted while it was in hands */
    bool parked;         /* guarded by the pool's lock: waits for its time */
};

#define RQ_TURN_OVER (-1) /* nothing to do, or nothing allowed, until it is submitted again */

/* Something else that a worker does once, before messages. run is false when the pool ended
 * first. */
struct rq_pool_job {
    struct rq_list node;
    void (*turn)(struct rq_pool_job *job, bool run);
};

/* The consumer's side; on worker threads and in finish, with no lock held. */
struct rq_pool_ops {
    /* Messages from … to-1 of a pull were consumed. */
    void (*done)(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t from, uint32_t to);
    /* They are to be delivered again later. */
    void (*later)(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t from, uint32_t to,
                  int delay_level);
    /* Of a message that is compressed or was popped: expands the body. false: it cannot be read,
     * was reported, or is not ours any more; it must not be handed out. */
    bool (*prepare)(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t index);
    /* After a stop: the last one that had messages in hands has come back. */
    void (*quiet)(struct rq_pool *pool);
    /* In submit: rq_pool_wake is to be called before this thread sleeps, once for all that is
     * submitted until then. NULL: submit itself wakes, each time. */
    void (*wake_soon)(struct rq_pool *pool);

    /* Ordered. The next messages of the queue, with a reference of their pull; false: none may be
     * handed out now. */
    bool (*turn_take)(struct rq_pool *pool, struct rq_turn *turn, uint32_t most,
                      struct rq_pulled **pulled, uint32_t *from, uint32_t *count);
    /* How they were consumed. Returns 0 to go on at once, ms to wait, or RQ_TURN_OVER. */
    int64_t (*turn_result)(struct rq_pool *pool, struct rq_turn *turn, struct rq_pulled *pulled,
                           uint32_t from, uint32_t to, rmq_consume_result result,
                           const struct rmq_consume_context *context);
    /* The turn left the hands. wait_ms > 0: it is parked, and rq_pool_unpark is to be called after
     * that time; the reference of the owner passes to who does. Else the reference is given up. */
    void (*turn_left)(struct rq_pool *pool, struct rq_turn *turn, int64_t wait_ms);
};

struct rq_pool_options {
    const struct rq_pool_ops *ops;
    rmq_listener_fn listener; /* NULL: takers poll */
    void *listener_user;
    _Atomic(struct rq_trace *) *trace; /* of the consumer; NULL: none */
    int32_t threads;                   /* workers at first, started when there is work for them */
    int32_t batch_max;                 /* most messages of a listener call or a take */
    int64_t turn_most_ms;              /* ordered: another queue may have the worker after this */
};

#define RQ_POOL_THREADS_MOST 1000

/* What a taker has in hands. Embedded in rmq_batch. */
struct rq_batch_node {
    struct rq_list node;      /* guarded by the pool's lock: in batches until given back */
    struct rq_pulled *pulled; /* one reference */
    struct rq_turn *turn;     /* ordered, else NULL */
    uint32_t from;
    uint32_t count;
    int64_t taken_ms;
};

struct rmq_consume_context {
    int32_t ack_index; /* index of the last message that is done */
    int delay_level;
    bool manual_commit; /* ordered */
    int64_t suspend_ms; /* ordered; -1 = suspendCurrentQueueTimeMillis */
};

#define RQ_CONTEXT_DEFAULT                                                                         \
    (struct rmq_consume_context)                                                                   \
    {                                                                                              \
        .ack_index = INT32_MAX, .suspend_ms = -1                                                   \
    }

struct rq_pool {
    struct rq_pool_options options; /* immutable */
    int fd;                         /* immutable; eventfd of takers, -1 with a listener */
    struct rq_worker **workers;     /* RQ_POOL_THREADS_MOST places; NULL until first started */

    atomic_bool stopping; /* atomic: release by the stop, acquire before each listener call */
    _Atomic int64_t listener_ns; /* atomic: relaxed: moving average of a call; -1 = not known */

    struct rq_mutex lock;  /* rank 15 */
    struct rq_cond work;   /* there is work, or a stop */
    struct rq_cond change; /* somebody came back */

    /* guarded by lock */
    struct rq_list ready;   /* rq_run.node; each holds a reference of its pull */
    struct rq_list again;   /* struct rq_again: single messages offered once more */
    struct rq_list jobs;    /* struct rq_pool_job */
    struct rq_list turns;   /* rq_turn.node: ordered queues that have something */
    struct rq_list batches; /* rq_batch_node: taken and neither finished nor destroyed */
    int32_t threads;        /* workers that are wanted at most */
    int32_t started;        /* workers with a thread */
    int32_t idle;           /* of these, asleep */
    int32_t surplus;  /* of these, more than are wanted: they wait for their end, not for work */
    int32_t waking;   /* of these, told to wake */
    int32_t owed;     /* signals that whoever holds lock gives when it has let go of it */
    int32_t arriving; /* started, but not at work yet */
    int32_t takers;   /* asleep in take */
    int32_t in_hands; /* workers at a run, and batches */
    int32_t leaving;  /* workers whose listener waits in shutdown */
    bool readable;    /* fd's state */
    uint64_t guard_calls;   /* listener calls at the last guard */
    int64_t quiet_until_ms; /* a worker that cannot be started is not logged before this */
};

rmq_status rq_pool_init(struct rq_pool *pool, const struct rq_pool_options *options,
                        rmq_error **err);
void rq_pool_destroy(struct rq_pool *pool); /* after join */

/* Offers a pull's messages, with one reference of the caller's. Returns whether there was no
 * work before (a taker's notice is due). */
bool rq_pool_submit(struct rq_pool *pool, struct rq_pulled *pulled);

void rq_pool_wake(struct rq_pool *pool); /* see wake_soon */

/* Offers one message once more, as when its send-back failed. Errors: RMQ_ERR_NOMEM. */
rmq_status rq_pool_submit_again(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t index);

/* Takes a run back: no further message of it is handed out. */
void rq_pool_withdraw(struct rq_pool *pool, struct rq_pulled *pulled);

/* false: the pool stops, or has no listener. */
bool rq_pool_submit_job(struct rq_pool *pool, struct rq_pool_job *job);

/* Ordered: the queue may have something. Takes over the caller's reference of the turn's owner
 * when it returns true. *first: there was no work before. */
bool rq_pool_submit_turn(struct rq_pool *pool, struct rq_turn *turn, bool *first);
/* Its wait is over, or shall be: true when it was parked; its reference is the caller's then. */
bool rq_pool_unpark(struct rq_pool *pool, struct rq_turn *turn);
/* Takes a turn off the list; true when it was there: its reference is the caller's then. */
bool rq_pool_withdraw_turn(struct rq_pool *pool, struct rq_turn *turn);
bool rq_pool_turn_is_busy(struct rq_pool *pool, const struct rq_turn *turn);

/* Another number of workers: those beyond it end when they have nothing in hands. */
void rq_pool_set_threads(struct rq_pool *pool, int32_t threads);

/* Called some ms after a submit: wakes more workers when those awake do not get on. Returns
 * whether it wants to be called again. */
bool rq_pool_guard(struct rq_pool *pool);

/* Messages that have been in the same hands for timeout_ms. fn runs with the pool's lock held.
 * I/O thread. */
void rq_pool_each_stuck(struct rq_pool *pool, int64_t now_ms, int64_t timeout_ms,
                        void (*fn)(void *user, struct rq_pulled *pulled, uint32_t from,
                                   uint32_t to),
                        void *user);

/* No listener call and no take begins after this. quiet is called once nobody has anything in
 * hands; maybe within this call. */
void rq_pool_stop(struct rq_pool *pool);
int32_t rq_pool_in_hands(struct rq_pool *pool);

/* Whether the caller is inside a listener of this pool. */
bool rq_pool_in(struct rq_pool *pool);

/* After a stop: waits until all are back, or, inside a listener, until all others are back or
 * only wait like this one. false: the deadline passed. */
bool rq_pool_wait_others(struct rq_pool *pool, int64_t deadline_ms);
void rq_pool_join(struct rq_pool *pool); /* not in a listener; waits for listeners that still run */

/* ---- for takers ---- */

/* Takes messages of one run; more tells whether there is more work. RMQ_ERR_TIMEOUT,
 * RMQ_ERR_CLOSED. */
rmq_status rq_pool_take(struct rq_pool *pool, int64_t deadline_ms, struct rq_batch_node *batch,
                        bool *more);

/* The first to give a batch back gets true, reports its messages and then calls rq_pool_leave. */
bool rq_pool_give_back(struct rq_pool *pool, struct rq_batch_node *batch);
void rq_pool_leave(struct rq_pool *pool);

/* The end of a batch's turn, between the two. wait_ms as of turn_result. Returns whether it is work
 * again where there was none (a taker's notice is due). */
bool rq_pool_end_turn(struct rq_pool *pool, struct rq_turn *turn, int64_t wait_ms);

#endif
