/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The inside of a consumer, shared by the files named below. Routes, shares, pulls, offsets and
 * send-backs are state machines of the I/O thread ("loop" below); listeners run on the pool's
 * workers. Counterparts: DefaultMQPushConsumerImpl, RebalancePushImpl, PullRequest, PopRequest.
 */
#ifndef RQ_CLIENT_CONSUMER_PRIV_H
#define RQ_CLIENT_CONSUMER_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/consumer.h>

#include "base/list.h"
#include "base/thread.h"
#include "wire/allocate.h"
#include "client/pool.h"
#include "client/instance.h"
#include "wire/mq.h"
#include "client/offset_store_local.h"
#include "client/popped.h"
#include "client/process_queue.h"
#include "wire/bodies.h"
#include "wire/heartbeat.h"
#include "wire/names.h"
#include "wire/namespace.h"
#include "wire/subscription.h"

#define RQ_ASK_TIMEOUT_MS   3000 /* member lists, offsets */
#define RQ_BACK_TIMEOUT_MS  5000 /* send-backs */
#define RQ_RETRY_FIRST_MS   50   /* after the first failure of a kind, then doubling … */
#define RQ_RETRY_MOST_MS    1000 /* … to this */
#define RQ_OFFER_AGAIN_MS   5000 /* a message whose send-back failed is offered again after this */
#define RQ_GUARD_MS         10   /* between two looks at workers that may not get on */
#define RQ_START_WAIT_MS    3000
#define RQ_WARN_EVERY_MS    30000 /* the same refusal is logged so often */
#define RQ_COMMIT_REPEAT_MS 60000 /* an unchanged offset is sent again: a broker may have lost it */

struct rmq_consumer;
struct rq_trace; /* client/trace.h */
struct rq_owned;
struct rq_subscribed;

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

/* One request of a consumer. Has exactly one end: an answer, a failure, or RMQ_ERR_CLOSED by
 * cancelling. Loop. */
struct rq_ask {
    struct rq_request request;
    struct rq_list node; /* in consumer->asks while under way */
    struct rmq_consumer *consumer;
    void (*done)(struct rq_ask *ask, rmq_status status, struct rq_in *answer);
};

/* Counters of a topic's consumption up to a moment. */
struct rq_counts {
    int64_t at_ms;
    int64_t ok; /* messages */
    int64_t failed;
    int64_t pulled;
    int64_t pulls; /* answers with messages */
    int64_t pull_ms;
};

#define RQ_SAMPLES 6

struct rq_rates {
    double ok_tps; /* messages a second, over the last minute */
    double failed_tps;
    double pull_tps;
    double pull_ms;    /* of a pull that brought something */
    double consume_ms; /* of a listener call; all topics together */
    int64_t failed;    /* messages since the start */
};

/* A subscribed topic and its share of queues. Loop. */
struct rq_subscribed {
    struct rq_list node; /* in consumer->topics */
    struct rmq_consumer *consumer;
    struct rq_subscription *sub;
    int refs; /* of the list, and of a request under way */
    bool is_retry;
    bool assigned; /* the program chose the queues: nothing is shared out */
    bool gone;     /* unsubscribed, or the consumer closes */
    bool settled;  /* there is a share, or no such topic: a start waits no longer for it */
    bool watched;
    struct rq_watch watch;
    struct rq_route *route; /* retained; NULL = not known */
    struct rq_list queues;  /* struct rq_owned.node */
    size_t queue_count;
    struct rq_ask members; /* 38, or 400 when the broker shares out */
    bool shares_itself;    /* the broker does not know 400 */
    struct rq_ask check;   /* 46, for expressions that not every broker knows */
    bool checking;
    bool accepted; /* by a broker */
    bool refused;
    bool asking;
    bool again;             /* asked for once more meanwhile */
    bool failing;           /* the last member list failed: logged */
    int64_t quiet_until_ms; /* refused pulls and questions are not logged before this */
    /* a broker did not know the subscription: since when this goes on, and the last time */
    int64_t forgotten_since_ms;
    int64_t forgotten_ms;
    struct rq_timer retry;
    int64_t delay_ms;
    struct rq_counts counts; /* of queues that are gone */
    struct rq_counts samples[RQ_SAMPLES];
    unsigned sample_next;
    char topic[];
};

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
    struct rq_local_offsets *local; /* broadcasting, from the start on; else NULL */

    /* atomic: release when made, acquire by readers; NULL until the trace is switched on for the
     * first time. */
    _Atomic(struct rq_trace *) trace;

    struct rq_pool pool;
    atomic_int refs; /* atomic: relaxed up, acq_rel down: the handle, and each batch */
    /* atomic: seq_cst with starving: bytes of frames in the queues, and of bodies that were expanded
     * and are not done */
    _Atomic int64_t cached;
    atomic_bool starving;              /* atomic: seq_cst: some pull waits for these bytes */
    atomic_bool feed_posted;           /* atomic: acq_rel: who sets it posts feed */
    atomic_bool told;                  /* atomic: acq_rel: an RMQ_EVENT_BATCH waits to be taken */
    _Atomic int64_t given_up_quiet_ms; /* atomic: seq_cst: not logged before this */
    struct rq_task feed;
    struct rq_task wake;  /* workers, at the end of the loop's turn */
    struct rq_task quiet; /* posted once, by the pool after a stop */

    struct rq_mutex lock; /* rank 10 */
    struct rq_cond change;

    /* guarded by lock */
    enum rq_consumer_state state;
    bool settled;   /* start waits no longer */
    bool timed_out; /* closing did not wait for a listener any longer */
    bool destroyed;
    rmq_error *refusal; /* of a subscription, for the start; owned */

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

    /* loop: closing */
    bool closing;
    bool quiet_came; /* nobody has messages in hands */
    bool overdue;    /* the deadline has passed: nothing is awaited any longer */
    int close_stage;
    int64_t close_deadline_ms;
    int64_t beats_until_ms; /* leaving waits so long for heartbeats to be answered; 0 = not set */
    struct rq_timer close_timer;
    int commits; /* under way; with acknowledgements of popped messages */
};

/* ---- consumer_ask.c ---- */

/* As rmq_consumer_create, for a kind; handle NULL: the consumer itself. */
rmq_status rq_consumer_create(const rmq_consumer_options *options,
                              const struct rq_consumer_kind *kind, void *handle,
                              struct rmq_consumer **out, rmq_error **err);

/* Loop. Sends a request whose done is set; peer NULL ends in RMQ_ERR_NO_BROKER. */
void rq_consumer_ask(struct rmq_consumer *consumer, struct rq_ask *ask, struct rq_peer *peer,
                     int code, const struct rq_fields *table, const void *fields,
                     int64_t timeout_ms);
void rq_consumer_ask_with(struct rmq_consumer *consumer, struct rq_ask *ask, struct rq_peer *peer,
                          int code, const struct rq_fields *table, const void *fields,
                          struct rq_slice body, int64_t timeout_ms);
void rq_consumer_cancel(
    struct rq_ask *ask); /* loop; done is called with RMQ_ERR_CLOSED, now or soon */

/* Any thread. Logs an error and posts it as an event; takes it over. what: "message could not be
 * read". */
void rq_consumer_report(struct rmq_consumer *consumer, const char *what, rmq_error *err);

/* Any thread. Logs something that a person may want to know and posts it as an event. */
void rq_consumer_note(struct rmq_consumer *consumer, rmq_event_type type, const char *format, ...)
    RMQ_PRINTF(3, 4);

void rq_consumer_tell_taker(
    struct rmq_consumer *consumer); /* any thread: posts RMQ_EVENT_BATCH when that is asked for */
void rq_consumer_settle(struct rmq_consumer *consumer); /* loop: looks whether start may return */
int64_t rq_retry_delay(int64_t *delay_ms); /* the delay to wait now; doubles the next */

/* ---- consumer.c ---- */

void rq_consumer_release(struct rmq_consumer *consumer); /* any thread */

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
void rq_consumer_stats_rates(struct rq_subscribed *topic, struct rq_rates *out);
void rq_consumer_stats_sample(
    struct rmq_consumer *consumer);                  /* at any interval below ten seconds */
void rq_consumer_stats_keep(struct rq_owned *owned); /* the queue is about to go */

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

void rq_consumer_pool_quiet(struct rq_pool *pool);               /* quiet of every kind's pool */
int64_t rq_consumer_next_version(struct rmq_consumer *consumer); /* loop: the next subVersion */

/* ---- rebalance.c: loop ---- */

rmq_status rq_subscribed_create(struct rmq_consumer *consumer, struct rq_subscription *sub,
                                bool is_retry, struct rq_subscribed **out);
struct rq_subscribed *rq_subscribed_find(struct rmq_consumer *consumer, const char *topic);
rmq_status rq_subscribed_watch(struct rq_subscribed *topic);
void rq_subscribed_refresh(struct rq_subscribed *topic); /* asks for the route now */
void rq_subscribed_release(struct rq_subscribed *topic);
void rq_subscribed_remove(struct rq_subscribed *topic, bool commit);
void rq_rebalance(struct rq_subscribed *topic);
void rq_rebalance_all(struct rmq_consumer *consumer);

/* ---- assignment.c: loop ---- */

/* Whether the broker is asked for the share of a topic, 400, and not for the members, 38. */
bool rq_assignment_is_the_brokers(const struct rq_subscribed *topic);
void rq_assignment_ask(struct rq_subscribed *topic); /* topic->members, whose done is set */
/* Its answer. Subscribes the retry topic of popped messages while nothing is popped, so that a
 * group that popped before loses none. */
rmq_status rq_assignment_take(struct rq_subscribed *topic, struct rq_in *answer);
void rq_assignment_forget(struct rq_subscribed *topic); /* unsubscribed: so is its retry topic */

/* ---- rebalance.c, for assignment.c ---- */
rmq_status rq_rebalance_apply_assignments(struct rq_subscribed *topic,
                                          const struct rq_assignments *assignments);

/* ---- flow_control.c: loop ---- */

/* Whether the caches have room for a pull; says so when that changes for longer than a moment. */
bool rq_flow_allows(struct rq_owned *owned);
void rq_flow_look(struct rmq_consumer *consumer); /* once in a while: tells what has ended */

/* ---- subscription_check.c: loop ---- */

void rq_subscribed_check(struct rq_subscribed *topic); /* asks a broker, when that is needed */
bool rq_subscribed_may_pull(const struct rq_subscribed *topic);

/* ---- owned.c: loop unless said otherwise ---- */

struct rq_owned *rq_owned_create(struct rq_subscribed *topic,
                                 const struct rq_mq *name); /* NULL: no memory */
void rq_owned_retain(struct rq_owned *owned);               /* any thread */
void rq_owned_release(struct rq_owned *owned);              /* any thread */
void rq_owned_drop(struct rq_owned *owned, bool commit);
void rq_owned_set_limits(struct rq_owned *owned);
void rq_owned_start(struct rq_owned *owned, int64_t offset,
                    bool stored);            /* the start offset is known: pull */
void rq_owned_retry(struct rq_owned *owned); /* after a failure, with back-off */
struct rq_owned *rq_owned_find(struct rmq_consumer *consumer, const struct rq_mq *name);

/* Any thread: messages were consumed; popped ones are acknowledged. */
void rq_owned_done(struct rq_pulled *pulled, uint32_t from, uint32_t to);
/* Any thread: a body was expanded. It counts with that size, for its queue and for the consumer,
 * until the message is done. */
void rq_owned_grew(struct rq_pulled *pulled, struct rmq_message_view *view);
/* Any thread: messages are done, however; frees, charges and resumes what follows from it. */
void rq_owned_leave(struct rq_pulled *pulled, uint32_t from, uint32_t to);

/* ---- pop.c: loop ---- */

struct rq_owned *rq_owned_create_popped(struct rq_subscribed *topic,
                                        const struct rq_mq *name); /* NULL: no memory */
void rq_pop(struct rq_owned *owned);                               /* of rq_pull */

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

/* ---- pull.c: loop ---- */

void rq_pull(struct rq_owned *owned); /* when nothing hinders it; pops what is to be popped */
void rq_pull_after(struct rq_owned *owned, int64_t delay_ms);
void rq_pull_all(struct rmq_consumer *consumer);
void rq_pull_starved(struct rmq_consumer *consumer);

/* ---- offset_store_remote.c: loop ---- */

void rq_offset_locate(struct rq_owned *owned); /* finds the start offset, then rq_owned_start */
void rq_offset_commit(struct rq_owned *owned, int64_t offset, int64_t timeout_ms);
void rq_offset_commit_eagerly(struct rq_owned *owned);
void rq_offset_commit_last(struct rq_owned *owned, int64_t timeout_ms); /* before giving it up */
void rq_offset_persist_all(struct rmq_consumer *consumer, bool last, int64_t timeout_ms);

/* ---- send_back.c ---- */

bool rq_consumer_sends_back(const struct rmq_consumer *consumer); /* any thread */

/* Any thread: sends messages back to the broker (broadcasting: gives them up); their offsets are
 * held until it has confirmed. */
void rq_send_back(struct rq_pulled *pulled, uint32_t from, uint32_t to, int delay_level);
/* The request for it: 36. */
void rq_send_back_ask(struct rmq_consumer *consumer, struct rq_ask *ask,
                      const struct rmq_message_view *view, int delay_level);
/* maxReconsumeTimes, with Java's default. */
int32_t rq_consumer_most_reconsumes(const struct rmq_consumer *consumer);
void rq_note_dead_letter(struct rmq_consumer *consumer, const struct rmq_message_view *view);
/* The same for one message of an ordered queue, to the dead letters. */
void rq_send_dead(struct rq_pulled *pulled, uint32_t index);
void rq_send_back_cancel_waiting(
    struct rmq_consumer *consumer); /* loop: those that wait to be offered again */
void rq_send_back_expired(struct rmq_consumer *consumer); /* loop: consumeTimeout */

/* ---- dead_letter.c: loop ---- */

void rq_dead_letter_send(struct rq_ask *ask, struct rmq_consumer *consumer, struct rq_peer *peer,
                         const struct rmq_message_view *view);
/* A message that a broker cannot send back by its place: others are in the same record. */
bool rq_is_sent_back_as_copy(const struct rmq_message_view *view);
void rq_send_back_copy(struct rq_ask *ask, struct rmq_consumer *consumer, struct rq_peer *peer,
                       const struct rmq_message_view *view, int delay_level);

/* ---- order.c ---- */

/* The pool's questions (pool.h): who has the turn. */
bool rq_order_take(struct rq_pool *pool, struct rq_turn *turn, uint32_t most,
                   struct rq_pulled **pulled, uint32_t *from, uint32_t *count);
int64_t rq_order_result(struct rq_pool *pool, struct rq_turn *turn, struct rq_pulled *pulled,
                        uint32_t from, uint32_t to, rmq_consume_result result,
                        const struct rmq_consume_context *context);
void rq_order_left(struct rq_pool *pool, struct rq_turn *turn, int64_t wait_ms);

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

bool rq_consumer_locks(
    const struct rmq_consumer *consumer); /* any thread: ordered, not broadcast */
void rq_lock_init(struct rmq_consumer *consumer);
void rq_lock_start(struct rmq_consumer *consumer);
void rq_lock_stop(struct rmq_consumer *consumer);
/* Asks for the locks of queues that have none, and renews the others. */
void rq_lock_queues(struct rmq_consumer *consumer, bool renew);
void rq_lock_retry(struct rmq_consumer *consumer);
void rq_lock_give_back(struct rq_owned *owned);
void rq_lock_give_back_all(struct rmq_consumer *consumer);
void rq_order_hands_empty(struct rq_owned *owned);
/* Commits and drops a queue that is no longer ours; an ordered one when no hands hold it. */
void rq_owned_give_up(struct rq_owned *owned);
/* The queue's messages count no more: it starts at the offset, an ordered one when no hands hold
 * it. */
void rq_owned_restart(struct rq_owned *owned, int64_t offset);
bool rq_owned_keep(struct rq_owned *owned); /* ours after all; true when it was being given up */

/* ---- close.c ---- */

void rq_close_begin(struct rmq_consumer *consumer, int64_t deadline_ms); /* loop */
void rq_close_check(struct rmq_consumer *consumer);  /* loop: goes on when nothing is awaited */
void rq_close_finish(struct rmq_consumer *consumer); /* loop: gives up what is left, for destroy */
void rq_close_init(struct rmq_consumer *consumer);

/* A topic's name as the program knows it, borrowed from topic. */
static inline const char *rq_consumer_plain(const struct rmq_consumer *consumer, const char *topic)
{
    return rq_namespace_plain(consumer->options.namespace_name, topic);
}

static inline struct rq_owned *rq_owned_of(struct rq_process_queue *queue)
{
    return RQ_CONTAINER_OF(queue, struct rq_owned, process);
}

#endif
