/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The messages of one owned queue that were pulled and are not done yet, in the order of their
 * queue offsets. They stay grouped as they were pulled: a pull's answer is one piece of memory
 * (struct rq_pulled), put and freed as one, so that nothing is allocated or searched per message.
 * The smallest offset not done is what may be committed. The I/O thread puts, workers finish.
 * Counterpart: ProcessQueue.
 */
#ifndef RQ_CLIENT_PROCESS_QUEUE_H
#define RQ_CLIENT_PROCESS_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"
#include "client/message.h"

struct rq_popped; /* client/popped.h */
struct rq_process_queue;

/* Bits of rmq_message_view.state; guarded by the queue's lock, as is hands. */
#define RQ_VIEW_DONE     1U /* acknowledged, or its send-back confirmed */
#define RQ_VIEW_GREW     2U /* counted with its expanded size */
#define RQ_VIEW_BACK     4U /* a send-back is on its way: nobody else starts one */
#define RQ_VIEW_STRANDED 8U /* there was no memory to send it back */

struct rq_pulled;

/* Messages of one pull that wait for a listener: work to be shared by claiming
 * (pool.h). */
struct rq_run {
    struct rq_list node;      /* guarded by the pool's lock: in its list of work, else alone */
    struct rq_pulled *pulled; /* immutable */
    atomic_uint next;         /* atomic: relaxed: first message that nobody has claimed */
    uint32_t end;             /* immutable: claims from here on are void */
};

/* What one pull brought, without messages that were filtered out. */
struct rq_pulled {
    struct rq_list node;            /* guarded by the queue's lock: in queue->pulled, else alone */
    struct rq_run run;              /* all of it */
    struct rq_process_queue *queue; /* immutable; referenced, see its release */
    struct rq_views *owner;         /* immutable; the frame and all views; NULL in tests */
    /* immutable, referenced: handles; NULL = was pulled, not popped */
    struct rq_popped *popped;
    size_t memory;  /* immutable: bytes of the frame, charged to the consumer while in the queue */
    uint32_t count; /* immutable */
    atomic_uint refs; /* atomic: relaxed up, acq_rel down: the last one frees */
    uint32_t low;     /* guarded by the queue's lock: first message that is not done */
    uint32_t left;    /* guarded by the queue's lock: messages that are not done */
    struct rmq_message_view *views[];
};

struct rq_process_limits {
    int64_t count; /* messages */
    int64_t bytes; /* bodies, those expanded so far with that size */
    int64_t span;  /* between the smallest and the largest offset */
};

struct rq_process_queue {
    struct rq_mutex lock; /* rank 30 */

    /* guarded by lock */
    struct rq_list pulled; /* ascending offsets */
    int64_t count;
    int64_t bytes;
    int64_t grown; /* part of bytes: what expanded bodies have more than as they were pulled */
    int64_t next_offset; /* all before it were pulled or filtered out; -1 = not known */
    int64_t max_offset;  /* largest that was put; -1 = none */
    struct rq_process_limits limits;
    bool waiting;  /* a pull waits for room: who makes room says so */
    bool stranded; /* some message has the mark */
    bool dropped;  /* no longer ours: what is still in hands is ignored when it is done */

    /* immutable: gives up one pulled's reference. */
    void (*release)(struct rq_process_queue *queue);
};

#define RQ_ANY_ORDER (-1)

void rq_process_queue_init(struct rq_process_queue *queue, const struct rq_process_limits *limits);
void rq_process_queue_destroy(struct rq_process_queue *queue);

/* Where the first pull starts; committable at once, since it came from a broker. */
void rq_process_queue_start(struct rq_process_queue *queue, int64_t offset);

/* Groups those of views that are wanted (NULL keep = all) and whose offsets ascend from `from` on
 * (RQ_ANY_ORDER: whatever their offsets, since they were popped), all in one allocation. Takes over
 * the caller's reference of views on success. *out is NULL when nothing is left (views released).
 * Errors: RMQ_ERR_NOMEM (views stay the caller's). */
rmq_status rq_pulled_create(struct rq_views *views, int64_t from, size_t memory,
                            bool (*keep)(const struct rmq_message_view *view, void *user),
                            void *user, struct rq_pulled **out);
void rq_pulled_retain(struct rq_pulled *pulled);
void rq_pulled_release(struct rq_pulled *pulled);

/* Adds a pull's messages behind the others, with one reference of the caller's; all before
 * next_offset is known then. pulled NULL: nothing came, or nothing was left. false: the queue is
 * dropped, nothing was taken. */
bool rq_process_queue_put(struct rq_process_queue *queue, struct rq_pulled *pulled,
                          int64_t next_offset);

/* Whether another pull fits. When not, the queue counts as waiting until rq_process_queue_done
 * or _drop. */
bool rq_process_queue_has_room(struct rq_process_queue *queue);
/* The same, with the limit that is reached: "count", "size" or "span"; NULL = there is room. */
const char *rq_process_queue_full(struct rq_process_queue *queue);

struct rq_process_done {
    bool dropped;  /* the queue is gone: nothing was changed */
    bool emptied;  /* all of this pull is done: it left the queue, its reference is the caller's */
    bool has_room; /* the queue was waiting and has room again: pull */
    int64_t grown; /* bytes that expanded bodies had counted more than as they were pulled */
};

/* ---- ordered: who has the queue's turn. run.next is the first message that was not taken. ---- */

/* The next messages in order, up to most of one pull, with a reference of it. false: there are
 * none, or the next one is on its way back. */
bool rq_process_queue_take(struct rq_process_queue *queue, uint32_t most, struct rq_pulled **pulled,
                           uint32_t *from, uint32_t *count);
/* Messages that were taken are to be taken again: those of a pull from an index on, or all that are
 * not done. */
void rq_process_queue_put_back(struct rq_process_queue *queue, struct rq_pulled *pulled,
                               uint32_t from);
void rq_process_queue_put_all_back(struct rq_process_queue *queue);
/* Messages that were taken and are not done: those of the first such pull, with a reference of
 * it. */
bool rq_process_queue_taken(struct rq_process_queue *queue, struct rq_pulled **pulled,
                            uint32_t *from, uint32_t *to);

/* For people; the taken ones are those of an ordered queue that are in hands or not committed. */
struct rq_process_info {
    int64_t count;
    int64_t bytes;
    int64_t min_offset; /* 0 when there is none */
    int64_t max_offset;
    int64_t taken_count;
    int64_t taken_min;
    int64_t taken_max;
};
void rq_process_queue_info(struct rq_process_queue *queue, struct rq_process_info *out);

/* Messages from … to-1 of a pull are done. Any thread. */
void rq_process_queue_done(struct rq_process_queue *queue, struct rq_pulled *pulled, uint32_t from,
                           uint32_t to, struct rq_process_done *out);

/* A body was expanded: it counts with its size from now on. How much more that is; 0 when it
 * counted so before. Any thread. */
int64_t rq_process_queue_grew(struct rq_process_queue *queue, struct rmq_message_view *view);

/* Who is handed a message with a compressed body holds it before the body is looked at, and lets go
 * of it afterwards. One that is offered again may be in several hands: the expanded body goes with
 * the last of them. Any thread. */
void rq_process_queue_hold(struct rq_process_queue *queue, struct rmq_message_view *view);
void rq_process_queue_let_go(struct rq_process_queue *queue, struct rmq_message_view *view);

/* Marks the message as being sent back; false when it is done, on its way back already, or the
 * queue is dropped. */
bool rq_process_queue_begin_back(struct rq_process_queue *queue, struct rmq_message_view *view);
void rq_process_queue_end_back(struct rq_process_queue *queue, struct rmq_message_view *view);

/* Notes a message that could not be sent back for want of memory; and finds one such, whose mark
 * is cleared and whose pull is retained for the caller. NULL: there is none. */
void rq_process_queue_strand(struct rq_process_queue *queue, struct rmq_message_view *view);
struct rq_pulled *rq_process_queue_stranded(struct rq_process_queue *queue, uint32_t *index);

/* Whether a message is done; until then what is behind it in an ordered queue waits. */
bool rq_process_queue_is_done(struct rq_process_queue *queue, const struct rmq_message_view *view);

/* Whether a message of a pull is the queue's first that is not done. */
bool rq_process_queue_is_first(struct rq_process_queue *queue, const struct rq_pulled *pulled,
                               uint32_t index);

/* The offset to commit: the smallest one not done, or the next to pull when all are; -1 when
 * none was ever known. */
int64_t rq_process_queue_commit_offset(struct rq_process_queue *queue);
bool rq_process_queue_is_dropped(struct rq_process_queue *queue);
void rq_process_queue_set_limits(struct rq_process_queue *queue,
                                 const struct rq_process_limits *limits);

/* Drops the queue: what it holds moves to out (linked by node), one reference each for the
 * caller. Returns what expanded bodies had grown by. Harmless twice. */
int64_t rq_process_queue_drop(struct rq_process_queue *queue, struct rq_list *out);

#endif
