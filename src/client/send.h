/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A send from acceptance to completion. A send is an operation object from its producer's pool:
 * prepared and first tried on the caller's thread, tried again on the I/O thread, completed to a
 * waiting thread, to the callback thread or to an event queue. Two sides may end it, the machine
 * (answer or last failure) and the shutdown that cuts it off; one atomic word says who was first,
 * so that there is exactly one completion, and the object is used again only when both sides have
 * let go of it. Counterparts: DefaultMQProducerImpl.sendDefaultImpl, MQClientAPIImpl.
 */
#ifndef RQ_CLIENT_SEND_H
#define RQ_CLIENT_SEND_H

#include <stdatomic.h>

#include <rmq/producer.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/mpsc.h"
#include "base/thread.h"
#include "client/events.h"
#include "client/executor.h"
#include "client/instance.h"
#include "client/message.h"
#include "client/send_result.h"
#include "client/waiter.h"

struct rmq_producer; /* client/producer.h */

/* INNER is the library's own: done runs on the thread that ends the send, which is the I/O thread
 * or the sender's, and must not wait. */
enum rq_send_mode { RQ_SEND_SYNC, RQ_SEND_ASYNC, RQ_SEND_EVENT, RQ_SEND_ONEWAY, RQ_SEND_INNER };

/* Bits of rq_send_op.state. */
enum {
    RQ_SEND_DELIVERED = 1,    /* somebody has claimed the completion */
    RQ_SEND_MACHINE_DONE = 2, /* no call, look-up or retry is under way any more */
    RQ_SEND_CONSUMED = 4,     /* the completion was received */
    RQ_SEND_CUT = 8, /* the claim was the shutdown's: RMQ_ERR_CLOSED, whatever the machine wrote */
    RQ_SEND_STARTING = 16, /* the starter reads message and body: one cut off now waits for it */
    RQ_SEND_TRIED = 32     /* given to a broker's connection, or about to be: it may be stored */
};

struct rq_send_pool;

struct rq_send_op {
    struct rq_call call;
    struct rq_lookup lookup;
    struct rq_mpsc_node completed;
    struct rq_list node; /* guarded by the pool's lock: in its list of active or of free ones */
    struct rq_send_pool *pool;
    struct rmq_producer *producer; /* valid until RQ_SEND_DELIVERED is set */
    atomic_uint state;   /* atomic: acq_rel: who sets a bit publishes what it wrote before */
    bool in_window;      /* guarded by the pool's lock */
    size_t window_size;  /* bytes that it takes there */
    bool waited;         /* for room in it */
    uint32_t messages;   /* 0: a carrier of others, not counted */
    struct rq_list mate; /* in the open batch that it waits in; accumulate.c */

    /* Written by the caller before the first attempt. */
    enum rq_send_mode mode;
    bool batch;
    bool half;  /* a half message of a transaction */
    bool reply; /* to a request */
    bool fixed_queue;
    bool kept; /* one-way, without a connection: not counted with the operation */
    int32_t flag;
    int32_t sys_flag;
    int32_t reconsume_times;
    int32_t max_reconsume_times; /* -1 = not written */
    int64_t born_ms;             /* wall clock */
    int64_t started_ms;          /* monotonic */
    int64_t deadline_ms;         /* monotonic */
    struct rq_body *body;
    struct rq_buf text; /* topic NUL, properties; at the end the texts of the result */
    size_t topic_len;
    size_t properties_len;
    char *ids; /* of a batch: the messages' ids, joined; allocated */
    char unique_id[57];
    struct rq_slice more_pairs;      /* what hooks add to the properties; while it is prepared */
    struct rmq_send_context *hooked; /* of an asynchronous send; NULL without hooks */
    rmq_send_fn done;
    void *user;
    struct rq_waiter waiter;

    /* The machine's: the caller's thread until the first call is under way, then the I/O thread. */
    struct rq_route *route;
    bool route_ready; /* known at the start: started_ms is the time of the first attempt */
    struct rq_route_queue queue;
    struct rq_broker_health *last; /* broker of the last failed attempt */
    int attempt;                   /* number of the current one, from 1 */
    int attempts_max;
    int64_t attempt_us; /* monotonic start */
    bool maybe_stored;
    struct rq_timer pause;  /* before the next attempt; owned by the I/O thread */
    struct rq_list pausing; /* in the pool's list meanwhile */
    bool has_result;
    struct rq_buf history; /* what the failed attempts met with */
    rmq_status last_status;
    int32_t last_code; /* of the broker, 0 = none */

    /* Outcome; read after RQ_SEND_DELIVERED without RQ_SEND_CUT. error NULL: result. */
    struct rmq_send_result result;
    rmq_error *error;
    struct rmq_event event;
};

/* What a producer has done since it was made. */
struct rq_send_counts {
    uint64_t sends; /* accepted, those without an answer included */
    uint64_t messages;
    uint64_t bytes; /* of bodies */
    uint64_t stored;
    uint64_t failed;
    uint64_t maybe_stored; /* of the failed */
    uint64_t cut_off;      /* by shutdown */
    uint64_t oneway;       /* handed to a connection */
    uint64_t retries;
    uint64_t busy; /* refused: the window was full */
};

/* All sends of a producer: window, free objects, and what shutdown waits for. Counted: the
 * producer, each object that is not free, and the work from posting until it has run. */
struct rq_send_pool {
    struct rq_mpsc completed; /* asynchronous sends that wait for their callback */
    struct rq_work work;      /* posted when completed stops being empty */
    /* atomic: acq_rel: the work is the callback thread's from posting until it runs. */
    atomic_bool work_posted;
    /* of the instance, set before the first send; its completions of one turn share one wake-up
         * of the callback thread */
    struct rq_loop *loop;
    struct rq_task post_work; /* work_posted is its guard, too */
    /* owned by the I/O thread: sends that pause before their next attempt */
    struct rq_list paused;
    rmq_events *events;
    int32_t window_max;
    int64_t window_bytes_max;

    struct rq_mutex lock;  /* rank 10 */
    struct rq_cond room;   /* the window has room, or the pool closes */
    struct rq_cond change; /* an active send is gone while closing */

    /* guarded by lock */
    unsigned refs;
    bool closing;
    bool calling; /* callbacks run: their thread may have an event to post that is not active */
    struct rq_list active; /* accepted, completion not received yet */
    struct rq_list free;
    size_t free_count;
    int32_t window;
    int64_t window_bytes;
    unsigned room_waiters;
    struct rq_send_counts counts;
    bool dropping; /* the last one-way send that waited for a connection was dropped; logged */
    struct rq_executor *executor; /* from the first asynchronous send on */
};

/* ---- send_pool.c ---- */

/* NULL when out of memory. */
struct rq_send_pool *rq_send_pool_create(const rmq_producer_options *options);
void rq_send_pool_release(struct rq_send_pool *pool);

/* What must be known of a send before the shutdown can see it. */
struct rq_send_order {
    enum rq_send_mode mode;
    bool wait;   /* for room in the window, until deadline_ms */
    size_t size; /* bytes of the body */
    size_t messages;
    bool carrier; /* of sends that are counted themselves; also while the pool closes */
    int64_t deadline_ms;
    rmq_send_fn done;
    void *user;
    uint64_t token;
    void *source;
    struct rmq_send_context *hooked; /* NULL = none; the operation's once the send is accepted */
};

/* The counts, and what is in the window of asynchronous sends. */
void rq_send_pool_counts(struct rq_send_pool *pool, struct rq_send_counts *counts, int32_t *window,
                         int64_t *window_bytes);

/* An operation; asynchronous ones take a place in the window. Errors: RMQ_ERR_CLOSED, RMQ_ERR_BUSY,
 * RMQ_ERR_NOMEM, RMQ_ERR_IO. */
rmq_status rq_send_pool_take(struct rq_send_pool *pool, const struct rq_send_order *order,
                             struct rq_send_op **out, rmq_error **err);

/* Gives back an operation that was not started, or needs no completion. */
void rq_send_pool_untake(struct rq_send_op *op);

/* The starter has read what is the program's, which may have it back as soon as the send completes.
 * From here on the shutdown completes it at any moment. false: it has cut it off, and the starter
 * ends the machine or gives the operation back. Only the starter calls this; again is harmless. */
bool rq_send_started(struct rq_send_op *op);

/* The same before each attempt, whoever makes it: from here on the message may be stored. false: it
 * was cut off, and nothing may be sent any more. */
bool rq_send_try(struct rq_send_op *op);

/* An attempt that was not under way is taken back: it is as before the start, when this thread was
 * the only one to read message and body. false: it was cut off meanwhile. */
bool rq_send_untry(struct rq_send_op *op);

/* An attempt has ended that stored nothing for certain. */
void rq_send_not_stored(struct rq_send_op *op);

/* The machine has come to an end with outcome written into op: delivers it unless the shutdown was
 * first. The caller must not touch op afterwards, unless it is the blocking caller who waits for
 * it. */
void rq_send_deliver(struct rq_send_op *op);

/* The completion of a blocking send was received. */
void rq_send_consumed(struct rq_send_op *op);

/* Machine steps ask this first: true when the shutdown has taken the completion over; the machine
 * is then over and op must not be touched. */
bool rq_send_is_cut(struct rq_send_op *op);

/* Shutdown. close: no send is accepted any more, waiters for the window wake. drain: waits until no
 * send is active and no callback runs (on the callback thread: until none is undelivered); false at
 * the deadline. cut: claims all undelivered ones and returns their number. end_waits: on the loop,
 * takes back those that wait for a connection, which are not stored then. complete_cut: tells their
 * end, RMQ_ERR_CLOSED, when no step of a machine is under way any more; of those that are being
 * started the starters tell it. cut_error: that end, for who was not told but looks. */
void rq_send_pool_close(struct rq_send_pool *pool);
bool rq_send_pool_drain(struct rq_send_pool *pool, int64_t deadline_ms);
size_t rq_send_pool_cut(struct rq_send_pool *pool, struct rq_mpsc_node **claimed);
void rq_send_end_waits(struct rq_mpsc_node *claimed);
void rq_send_complete_cut(struct rq_mpsc_node *claimed);
rmq_error *rq_send_cut_error(const struct rq_send_op *op);
void rq_send_pool_end(struct rq_send_pool *pool); /* gives up the callback thread; not on it */

/* ---- send_prepare.c: checks and encodes a message into an operation. Any thread ---- */

rmq_status rq_send_check(const struct rmq_producer *producer, const rmq_message *message,
                         rmq_error **err);
rmq_status rq_send_check_batch(const struct rmq_producer *producer,
                               const rmq_message *const *messages, size_t count, size_t *bytes,
                               rmq_error **err);
rmq_status rq_send_prepare(struct rq_send_op *op, const rmq_message *message, rmq_error **err);
rmq_status rq_send_prepare_batch(struct rq_send_op *op, const rmq_message *const *messages,
                                 size_t count, rmq_error **err);

/* ---- send_batch.c: the same for several messages. Any thread ---- */

#define RQ_SEND_BATCH_MAX ((size_t)32 << 20)
/* What a record has beside body and properties, at most: fixed part 22, WAIT 12, UNIQ_KEY up to 66,
 * and some room. */
#define RQ_SEND_ITEM_OWN 128
/* What a broker stores with each message beside topic, properties and body, at most: fixed part 116
 * with hosts of IPv6, a CRC 20, WAIT 12, UNIQ_KEY up to 66, and some room for what hooks add. */
#define RQ_SEND_ITEM_STORED 256

/* Bytes of a message in the store, at most. Brokers of 4.x refuse a batch that has more than
 * maxMessageSize of them, later ones look at the bytes that travel. */
size_t rq_send_item_stored(const rmq_message *message);

/* Appends one record to a batch and its id to ids, with commas between. Nothing is appended on an
 * error but RMQ_ERR_NOMEM. */
rmq_status rq_send_add_item(const rmq_message *message, struct rq_slice more_pairs,
                            struct rq_slice id, struct rq_buf *out, struct rq_buf *ids,
                            rmq_error **err);

/* A batch whose records are there; takes body and ids over. envelope: a message with the topic and
 * the wait flag of all. */
rmq_status rq_send_prepare_carrier(struct rq_send_op *op, const rmq_message *envelope,
                                   struct rq_buf *body, struct rq_buf *ids, rmq_error **err);

/* How many messages from the first on fit into one batch; at least 1. */
size_t rq_send_batch_fits(const struct rmq_producer *producer, const rmq_message *const *messages,
                          size_t count);

/* ---- send.c: the machine ---- */

/* Begins: with op->route known an attempt is made at once, else the route is looked up first.
 * Completes through rq_send_deliver. */
void rq_send_begin(struct rq_send_op *op);

/* Loop, within the line of the instance: sends to a queue that wait for a broker which has another
 * address in this route wait there now, in their order. */
void rq_send_move_line(struct rq_send_pool *pool, struct rq_route *route);

/* Loop. Behind rq_send_pool_cut: machines that pause come to their end. */
void rq_send_release_paused(struct rq_send_pool *pool);

/* Without an answer: one attempt, result returned. op->route is known. */
rmq_status rq_send_oneway(struct rq_send_op *op, rmq_error **err);

#endif
