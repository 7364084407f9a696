/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The inside of a consumer, shared by the files named below. Its topics are in subscribed.h, its
 * queues in owned.h. Routes, shares, pulls, offsets and send-backs are state machines of the I/O
 * thread ("loop" below); listeners run on the pool's workers. Counterpart:
 * DefaultMQPushConsumerImpl.
 */
#ifndef RQ_CLIENT_CONSUMER_PRIV_H
#define RQ_CLIENT_CONSUMER_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/consumer.h>

#include "base/list.h"
#include "base/thread.h"
#include "client/instance.h"
#include "client/offset_store_local.h"
#include "client/pool.h"
#include "wire/allocate.h"
#include "wire/heartbeat.h"
#include "wire/mq.h"
#include "wire/names.h"
#include "wire/namespace.h"

#define RQ_BACK_TIMEOUT_MS  5000 /* send-backs */
#define RQ_OFFER_AGAIN_MS   5000 /* a message whose send-back failed is offered again after this */
#define RQ_GUARD_MS         10   /* between two looks at workers that may not get on */
#define RQ_START_WAIT_MS    3000
#define RQ_WARN_EVERY_MS    30000 /* the same refusal is logged so often */
#define RQ_COMMIT_REPEAT_MS 60000 /* an unchanged offset is sent again: a broker may have lost it */

struct rmq_consumer;
struct rq_ask;        /* client/consumer_ask.h */
struct rq_owned;      /* client/owned.h */
struct rq_subscribed; /* client/subscribed.h */
struct rq_trace;      /* client/trace.h */

/* What sets the kinds of consumers apart that share these state machines. Static. */
struct rq_consumer_kind {
    enum rq_consume_type type;
    const struct rq_pool_ops *pool_ops;
    bool has_retry_topic;
    bool pulls;                /* its queues are pulled; else they are only shared out */
    bool may_pop;              /* its queues are popped when the broker says so */
    bool may_start_empty;      /* without a subscription */
    bool carries_subscription; /* each pull says what it wants; brokers need not know it */
    /* Loop; may be NULL. The share of a topic has changed. */
    void (*changed)(struct rmq_consumer *consumer, struct rq_subscribed *topic);
    /* Loop; may be NULL. A commit of the queue has ended; the next one may be under way already.
     * answer is NULL unless status is RMQ_OK. */
    void (*committed)(struct rq_owned *owned, rmq_status status, struct rq_in *answer);
};

enum rq_consumer_state {
    RQ_CONSUMER_CREATED,
    RQ_CONSUMER_STARTED,
    RQ_CONSUMER_CLOSING,
    RQ_CONSUMER_CLOSED
};

struct rmq_consumer {
    /* immutable after create */
    rmq_consumer_options options; /* own copy */
    const struct rq_consumer_kind *kind;
    void *handle;                 /* what the program knows: source of events */
    bool manual_commit;           /* offsets are committed only when the program says so */
    struct rq_instance *instance; /* NULL after destroy */
    struct rq_loop *loop;
    char retry_topic[RQ_NAME_MAX];
    struct rq_sharing {
        enum rq_allocate_strategy strategy;
        enum rq_allocate_strategy inner; /* MACHINE_ROOM_NEARBY */
        const char **rooms;
        size_t room_count;
        struct rq_mq *queues; /* CONFIG */
        size_t queue_count;
        char *rooms_text; /* owner of the texts */
        char *queues_text;
    } sharing;
    char *client_id;
    struct rq_local_offsets *local; /* broadcasting, set on the loop by the start; else NULL */

    /* atomic: release when made, acquire by readers; NULL until the trace is switched on for the
     * first time. */
    _Atomic(struct rq_trace *) trace;

    struct rq_pool pool;
    /* atomic: relaxed up, acq_rel down: the handle, each batch, and leaving the group */
    atomic_int refs;
    /* atomic: seq_cst with starving: bytes of frames in the queues, and of bodies that were expanded
     * and are not done */
    _Atomic int64_t cached;
    atomic_bool starving;              /* atomic: seq_cst: some pull waits for these bytes */
    atomic_bool feed_posted;           /* atomic: acq_rel: who sets it posts feed */
    atomic_bool told;                  /* atomic: acq_rel: an RMQ_EVENT_BATCH waits to be taken */
    atomic_bool untold;                /* atomic: acq_rel: there was no memory for one */
    _Atomic int64_t given_up_quiet_ms; /* atomic: seq_cst: not logged before this */
    struct rq_task feed;
    struct rq_task wake;  /* workers, at the end of the loop's turn */
    struct rq_task quiet; /* posted once, by the pool after a stop */

    struct rq_mutex lock; /* rank 10 */
    struct rq_cond change;

    /* guarded by lock */
    enum rq_consumer_state state;
    bool settled;   /* start waits no longer */
    bool timed_out; /* closed while a listener ran or a batch was in hands, and it still is so */
    rmq_error *refusal; /* of a subscription, for the start; owned */

    struct rq_mutex post_lock; /* rank 16: only the loop is posted to with it */
    bool destroyed;            /* guarded by post_lock */

    /* loop */
    bool running; /* started and not closing */
    bool suspended;
    bool wake_posted;
    bool added; /* a member of the instance */
    struct rq_member member;
    struct rq_list topics;
    struct rq_list asks;
    struct rq_list backs; /* struct rq_back.node: send-backs under way or waiting */
    /* commits of queues that have none yet: those under way, and those that wait for them */
    struct rq_list firsts;
    /* ordered: struct rq_owned.node of queues that were dropped while hands held their messages;
     * referenced */
    struct rq_list lingering;
    bool acks_alone;        /* a broker does not know acknowledgements of several messages */
    int64_t last_version;   /* subVersion only grows */
    int64_t quiet_until_ms; /* refused offsets are not logged before this */
    struct rq_timer rebalance_timer;
    struct rq_timer persist_timer;
    struct rq_timer expire_timer;
    struct rq_timer guard_timer;
    int64_t started_wall_ms;
    int64_t sampled_ms;
    struct rq_timer lock_timer;
    struct rq_timer lock_retry_timer;
    int lock_calls; /* under way */

    /* loop: closing */
    bool closing;
    bool quiet_came; /* nobody has messages in hands */
    bool overdue;    /* the deadline has passed: nothing is awaited any longer */
    int close_stage;
    int64_t close_deadline_ms;
    /* leaving waits so long for heartbeats and locks to be answered; 0 = not set */
    int64_t answers_until_ms;
    struct rq_timer close_timer;
    int commits;           /* under way; with acknowledgements of popped messages */
    int unstored;          /* queues whose offset no broker had in the end; read when closed */
    rmq_error *not_stored; /* why the last commit that failed did; owned */
};

/* ---- consumer.c ---- */

/* As rmq_consumer_create, for a kind; handle NULL: the consumer itself. */
rmq_status rq_consumer_create(const rmq_consumer_options *options,
                              const struct rq_consumer_kind *kind, void *handle,
                              struct rmq_consumer **out, rmq_error **err);
void rq_consumer_release(struct rmq_consumer *consumer); /* any thread */
/* Any thread, also with the pool's lock held. To the loop, which may have ended with its last
 * consumer when a batch outlives it: false, with nothing posted, once the consumer is destroyed. */
bool rq_consumer_post(struct rmq_consumer *consumer, struct rq_task *task);
/* Loop. There is work in the pool: who is awake may not get on with it, and others are woken. */
void rq_consumer_guard(struct rmq_consumer *consumer);
void rq_consumer_pool_quiet(struct rq_pool *pool); /* quiet of every kind's pool */

/* ---- consumer_ask.c ---- */

/* Any thread. Logs an error and posts it as an event; takes it over. what: "message could not be
 * read". */
void rq_consumer_report(struct rmq_consumer *consumer, const char *what, rmq_error *err);

/* Any thread. Logs something that a person may want to know and posts it as an event. */
void rq_consumer_note(struct rmq_consumer *consumer, rmq_event_type type, const char *format, ...)
    RMQ_PRINTF(3, 4);

/* Any thread. Posts RMQ_EVENT_BATCH when that is asked for. */
void rq_consumer_tell_taker(struct rmq_consumer *consumer);

/* Any thread. Posts the one for which there was no memory. */
void rq_consumer_tell_again(struct rmq_consumer *consumer);

/* Loop. Looks whether start may return. */
void rq_consumer_settle(struct rmq_consumer *consumer);

/* ---- consumer_trace.c ---- */

void rq_consumer_trace_close(struct rmq_consumer *consumer); /* no listener runs any more */
void rq_consumer_trace_free(struct rmq_consumer *consumer);

/* ---- consumer_member.c ---- */

void rq_consumer_init_member(struct rmq_consumer *consumer); /* before the start */

/* ---- consumer_request.c, consume_directly.c, running_info.c, consumer_stats.c: loop ---- */

bool rq_consumer_request(struct rq_member *member, struct rq_peer *peer,
                         const struct rq_header *header, struct rq_in *frame);
void rq_consume_directly(struct rmq_consumer *consumer, struct rq_peer *peer,
                         const struct rq_header *header, struct rq_in *frame);
void rq_running_info_write(struct rmq_consumer *consumer, struct rq_buf *out);
/* At any interval below ten seconds. */
void rq_consumer_stats_sample(struct rmq_consumer *consumer);

/* ---- consumer_allocate.c ---- */

rmq_status rq_sharing_init(struct rmq_consumer *consumer, rmq_error **err);
void rq_sharing_clear(struct rq_sharing *sharing);
/* Loop. queues and clients of in are set; picked and count as of rq_allocate. */
rmq_status rq_sharing_compute(struct rmq_consumer *consumer, struct rq_allocate *in, size_t *picked,
                              size_t *count);

/* ---- subscribe.c ---- */

/* An expression with its type as subscriptions name it; borrowed texts. */
struct rq_selector {
    const char *type;
    const char *expression;
};
rmq_status rq_selector_make(rmq_expression_type type, const char *expression,
                            struct rq_selector *out, rmq_error **err);

int64_t rq_consumer_next_version(struct rmq_consumer *consumer); /* loop: the next subVersion */

/* ---- send_back.c ---- */

bool rq_consumer_sends_back(const struct rmq_consumer *consumer); /* any thread */

/* Any thread: sends messages back to the broker (broadcasting: gives them up); their offsets are
 * held until it has confirmed. */
void rq_send_back(struct rq_pulled *pulled, uint32_t from, uint32_t to, int delay_level);
/* Any thread: the same for one message of an ordered queue, to the dead letters. */
void rq_send_dead(struct rq_pulled *pulled, uint32_t index);
/* Loop. The request for it: 36. */
void rq_send_back_ask(struct rmq_consumer *consumer, struct rq_ask *ask,
                      const struct rmq_message_view *view, int delay_level);
/* Loop. Those that wait to be offered again wait no longer. */
void rq_send_back_cancel_waiting(struct rmq_consumer *consumer);
/* Loop. Sends back what has been in hands for longer than consumeTimeout. */
void rq_send_back_expired(struct rmq_consumer *consumer);
/* maxReconsumeTimes, with Java's default. */
int32_t rq_consumer_most_reconsumes(const struct rmq_consumer *consumer);
void rq_note_dead_letter(struct rmq_consumer *consumer, const struct rmq_message_view *view);

/* ---- dead_letter.c: loop ---- */

void rq_dead_letter_send(struct rq_ask *ask, struct rmq_consumer *consumer, struct rq_peer *peer,
                         const struct rmq_message_view *view);
/* A message that a broker cannot send back by its place: others are in the same record. */
bool rq_is_sent_back_as_copy(const struct rmq_message_view *view);
void rq_send_back_copy(struct rq_ask *ask, struct rmq_consumer *consumer, struct rq_peer *peer,
                       const struct rmq_message_view *view, int delay_level);

/* ---- close.c ---- */

void rq_close_check(struct rmq_consumer *consumer);  /* loop: goes on when nothing is awaited */
void rq_close_finish(struct rmq_consumer *consumer); /* loop: gives up what is left, for destroy */
void rq_close_init(struct rmq_consumer *consumer);
/* For destroy: shuts down unless that was done. What is still in hands then was waited for. */
void rq_close_once(struct rmq_consumer *consumer);

/* A topic's name as the program knows it, borrowed from topic. */
static inline const char *rq_consumer_plain(const struct rmq_consumer *consumer, const char *topic)
{
    return rq_namespace_plain(consumer->options.namespace_name, topic);
}

#endif
