/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A queue of a consumer's share: its messages, its pull or pop, its offset, its order and its lock.
 * A state machine of the I/O thread ("loop" below), whose messages are consumed on any thread.
 * Counterparts: PullRequest, PopRequest, ProcessQueue.
 */
#ifndef RQ_CLIENT_OWNED_H
#define RQ_CLIENT_OWNED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/consumer.h>

#include "base/list.h"
#include "client/consumer_ask.h"
#include "client/pool.h"
#include "client/popped.h"
#include "client/process_queue.h"
#include "wire/mq.h"

struct rq_subscribed;

/* A queue of our share, with its pull. */
struct rq_owned {
    struct rq_process_queue process;
    /* atomic: relaxed up, acq_rel down: of the share, each pull's messages, requests, posted
     * tasks */
    atomic_int refs;
    struct rmq_consumer *consumer;
    struct rq_mq name;         /* immutable; texts behind the struct */
    bool is_retry;             /* immutable */
    bool pops;                 /* immutable: popped, not pulled; queue id -1: all of the broker's */
    atomic_bool resume_posted; /* atomic: acq_rel: who sets it posts resume */
    struct rq_task resume;

    /* loop */
    struct rq_list node;
    struct rq_subscribed *topic; /* NULL when no longer ours */
    struct rq_ask ask;           /* reads the start offset, then pulls */
    bool asking;
    bool located;    /* the start offset is known */
    bool starved;    /* waits for the consumer's bytes */
    bool paused;     /* the program wants no pulls of it */
    bool held;       /* by flow control, and it was told */
    int64_t held_ms; /* when a pull was last held */
    struct rq_timer timer;
    int64_t delay_ms; /* of the next retry */
    int damaged;      /* answers in a row that could not be read */
    int64_t asked_ms;
    int64_t started_at; /* where it began, by the broker's word or consumeFromWhere */
    int64_t next_offset;
    int64_t broker_id;    /* suggested by the broker */
    int64_t max_offset;   /* the queue's end, as the last pull told it; -1 = not known */
    int64_t committed;    /* confirmed by the broker; -1 = nothing */
    int64_t committed_ms; /* when a commit was last sent */
    bool committing;
    _Atomic int64_t given; /* atomic: relaxed: behind the last message that poll gave out; -1 */
    int64_t promised;      /* the program had all before it committed; -1 */
    int64_t last_offset;   /* to be committed when the commit under way has ended; -1 = none */
    int64_t floor;         /* it does not start below this: it was acknowledged before; -1 = none */

    /* popped; pop_end.c */
    struct rq_list acks;      /* struct rq_pop_end.node: to be acknowledged with the next request */
    struct rq_list acks_sent; /* the same, with the one under way */
    struct rq_ask acks_ask;

    /* ordered; order.c and queue_lock.c */
    struct rq_turn turn;
    /* atomic: seq_cst: messages may be handed out before this time; INT64_MAX without a lock */
    _Atomic int64_t open_until_ms;
    atomic_bool wants_hands; /* atomic: seq_cst: the loop waits for the hands to be empty */
    atomic_bool left_posted; /* atomic: seq_cst: who sets it posts left */
    _Atomic int64_t park_ms; /* atomic: seq_cst: the pause that left brings along */
    struct rq_task left;
    struct rq_timer park_timer; /* loop, like all below */
    bool lock_asking;
    bool locked;   /* by the broker's last word */
    bool may_hold; /* asked for, and neither refused nor given back since */
    bool had_lock; /* since it was taken up */
    bool anew;     /* the lock was lost meanwhile: starts anew when no hands hold it */
    bool leaving;  /* given up when no hands hold it */
    bool unlock;   /* given back when the last commit has ended */
    int64_t locked_until_ms;
    int64_t leaving_until_ms;
    int64_t reset_to; /* where it starts anew; -1 = where it was committed */

    /* numbers for people */
    _Atomic int64_t ok;          /* atomic: relaxed: messages consumed */
    _Atomic int64_t failed;      /* atomic: relaxed: messages sent back or put back */
    _Atomic int64_t consumed_ms; /* atomic: relaxed: when messages were last done; loop's clock */
    int64_t pulled;
    int64_t pulls;
    int64_t pull_ms;
    char text[];
};

/* ---- owned.c: loop unless said otherwise ---- */

/* NULL when out of memory. */
struct rq_owned *rq_owned_create(struct rq_subscribed *topic, const struct rq_mq *name);
struct rq_owned *rq_owned_find(struct rmq_consumer *consumer, const struct rq_mq *name);
void rq_owned_retain(struct rq_owned *owned);  /* any thread */
void rq_owned_release(struct rq_owned *owned); /* any thread */
void rq_owned_drop(struct rq_owned *owned, bool commit);
void rq_owned_set_limits(struct rq_owned *owned);
/* The start offset is known, or was stored by the broker: pulls. */
void rq_owned_start(struct rq_owned *owned, int64_t offset, bool stored);
void rq_owned_pause(struct rq_owned *owned, bool pause);
void rq_owned_retry(struct rq_owned *owned); /* after a failure, with back-off */

/* Any thread: messages were consumed; popped ones are acknowledged. */
void rq_owned_done(struct rq_pulled *pulled, uint32_t from, uint32_t to);
/* Any thread: expands the body of a message for hands that hold it from here on
 * (rq_process_queue_let_go). It counts with that size, for its queue and for the consumer, until the
 * message is done. On an error, those of rq_view_expand, it is not held. */
rmq_status rq_owned_expand(struct rq_pulled *pulled, struct rmq_message_view *view,
                           rmq_error **err);
/* Any thread: messages are done, however; frees, charges and resumes what follows from it. */
void rq_owned_leave(struct rq_pulled *pulled, uint32_t from, uint32_t to);

/* ---- flow_control.c: loop ---- */

/* Whether the caches have room for a pull; says so when that changes for longer than a moment. */
bool rq_flow_allows(struct rq_owned *owned);
void rq_flow_look(struct rmq_consumer *consumer); /* once in a while: tells what has ended */

/* ---- offset_store_remote.c: loop ---- */

void rq_offset_locate(struct rq_owned *owned); /* finds the start offset, then rq_owned_start */
void rq_offset_commit(struct rq_owned *owned, int64_t offset, int64_t timeout_ms);
void rq_offset_commit_eagerly(struct rq_owned *owned);
void rq_offset_commit_last(struct rq_owned *owned, int64_t timeout_ms); /* before giving it up */
void rq_offset_persist_all(struct rmq_consumer *consumer, bool last, int64_t timeout_ms);

/* Queues of ours whose offset has moved and was not confirmed by a broker. */
int rq_offset_count_unstored(struct rmq_consumer *consumer);

/* ---- pull.c: loop ---- */

void rq_pull(struct rq_owned *owned); /* when nothing hinders it; pops what is to be popped */
void rq_pull_after(struct rq_owned *owned, int64_t delay_ms);
void rq_pull_all(struct rmq_consumer *consumer);
/* Gives up a pull that waits at the broker: the next one asks for the same. A pop goes on, since
 * what it brings is hidden from everybody else for a while. */
void rq_pull_halt(struct rq_owned *owned);
/* The topic has a newer route than old (NULL: its first). Pulls of logical queues that wait at a
 * broker which leads them no more are asked of the new leader: what comes, comes there. */
void rq_pull_follow_leaders(struct rq_subscribed *topic, const struct rq_route *old);
void rq_pull_starved(struct rmq_consumer *consumer);

/* ---- pop.c: loop ---- */

/* NULL when out of memory. */
struct rq_owned *rq_owned_create_popped(struct rq_subscribed *topic, const struct rq_mq *name);
void rq_pop(struct rq_owned *owned); /* what rq_pull does for a queue that is popped */

/* ---- receive.c: loop ---- */

rmq_status rq_receive_decode(struct rq_owned *owned, struct rq_in *answer, struct rq_views **views,
                             rmq_error **err);
/* The topic that a message was sent to, when it is in one of the group's retry topics; else the
 * topic that it is in. */
const char *rq_receive_origin(const struct rmq_consumer *consumer,
                              const struct rmq_message_view *view);
/* By its tag; user: struct rq_subscription. */
bool rq_receive_wants(const struct rmq_message_view *view, void *user);
/* Messages came: into the process queue, whose next offset is next (-1 = it has none), and to the
 * pool. Takes over the reference. */
void rq_receive_hand_over(struct rq_owned *owned, struct rq_pulled *pulled, int64_t next);
/* Nothing came: asks again at once, if the broker did park the request. */
void rq_receive_nothing(struct rq_owned *owned);
/* An answer that is none of a pull or pop: asks again later. */
void rq_receive_refusal(struct rq_owned *owned, rmq_status status, const struct rq_in *answer);
/* A pull or pop has ended: take reads its answer, and the next one is asked for. Nothing of it for
 * a queue that was given up meanwhile. */
typedef void rq_receive_take(struct rq_owned *owned, struct rq_in *answer);
void rq_receive_ended(struct rq_owned *owned, rmq_status status, struct rq_in *answer,
                      rq_receive_take *take);

/* ---- pop_end.c: any thread ---- */

/* The end of popped messages: acknowledged, or to be seen again after a while that grows with their
 * reconsume times (delay_level > 0 chooses it, < 0: to the dead letters, as is one that came too
 * often). */
void rq_pop_ack(struct rq_pulled *pulled, uint32_t from, uint32_t to);
void rq_pop_later(struct rq_pulled *pulled, uint32_t from, uint32_t to, int delay_level);
/* Loop. The same for views that are in no process queue: those that were not wanted. */
void rq_pop_ack_unwanted(struct rq_owned *owned, struct rq_popped *popped, struct rq_views *views,
                         bool (*keep)(const struct rmq_message_view *view, void *user), void *user);
bool rq_pop_is_over(const struct rq_pulled *pulled); /* its messages may be others' by now */

/* ---- order.c ---- */

/* The pool's questions (pool.h): who has the turn. */
bool rq_order_take(struct rq_pool *pool, struct rq_turn *turn, uint32_t most,
                   struct rq_pulled **pulled, uint32_t *from, uint32_t *count);
int64_t rq_order_result(struct rq_pool *pool, struct rq_turn *turn, struct rq_pulled *pulled,
                        uint32_t from, uint32_t to, rmq_consume_result result,
                        const struct rmq_consume_context *context);
void rq_order_left(struct rq_pool *pool, struct rq_turn *turn, int64_t wait_ms);
/* A taker's turn has ended, and may be listed again until somebody polls: who waits for the hands
 * is told all the same. */
void rq_order_hands_off(struct rq_owned *owned);

/* Loop. The queue may have something for its handler. */
void rq_order_submit(struct rq_owned *owned);
void rq_order_init(struct rq_owned *owned);
void rq_order_drop(struct rq_owned *owned);
/* Whether no hands hold messages of the queue. If they do, rq_order_hands_empty follows. */
bool rq_order_hands_are_empty(struct rq_owned *owned);
/* Nothing more of the queue is handed out or pulled; whether no hands hold messages of it. */
bool rq_order_shut(struct rq_owned *owned);
/* Of a queue that was dropped: while hands hold its messages nobody takes it up again. */
void rq_order_linger(struct rq_owned *owned);
bool rq_order_lingers(struct rmq_consumer *consumer, const struct rq_mq *name);
void rq_order_linger_no_more(struct rmq_consumer *consumer); /* for destroy */

/* ---- queue_lock.c: loop ---- */

/* Any thread. Ordered and not broadcasting: brokers lock its queues. */
bool rq_consumer_locks(const struct rmq_consumer *consumer);
void rq_lock_init(struct rmq_consumer *consumer);
void rq_lock_start(struct rmq_consumer *consumer);
void rq_lock_stop(struct rmq_consumer *consumer);
/* Asks for the locks of queues that have none, and renews the others. */
void rq_lock_queues(struct rmq_consumer *consumer, bool renew);
void rq_lock_give_back(struct rq_owned *owned);
void rq_lock_give_back_all(struct rmq_consumer *consumer);
void rq_order_hands_empty(struct rq_owned *owned);
/* Commits and drops a queue that is no longer ours; an ordered one when no hands hold it. */
void rq_owned_give_up(struct rq_owned *owned);
/* The queue's messages count no more: it starts at the offset, an ordered one when no hands hold
 * it. */
void rq_owned_restart(struct rq_owned *owned, int64_t offset);
bool rq_owned_keep(struct rq_owned *owned); /* ours after all; true when it was being given up */

/* ---- consumer_stats.c: loop ---- */

void rq_consumer_stats_keep(struct rq_owned *owned); /* the queue is about to go */

static inline struct rq_owned *rq_owned_of(struct rq_process_queue *queue)
{
    return RQ_CONTAINER_OF(queue, struct rq_owned, process);
}

#endif
