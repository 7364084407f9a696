/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Messages for any time. Each is stored in the topic rmq_sys_wheel_timer with its time as a
 * property, and written to its real topic when that has come. What waits is a heap in memory, made
 * anew from the topic at each start; which of its messages are done stands in the file timerDone,
 * so that none is delivered twice. A message that would wait longer than the log is kept is written
 * anew in time. Counterpart: TimerMessageStore, whose files are others.
 */
#ifndef RQ_BROKER_TIMERS_H
#define RQ_BROKER_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/thread.h"
#include "broker/window.h"
#include "net/loop.h"
#include "store/store.h"
#include "wire/bodies.h"
#include "wire/message.h"

struct rmq_broker;

struct rq_timed {
    int64_t due_ms; /* wall clock: to be delivered, or written anew */
    int64_t offset; /* in the timer topic's queue */
    uint64_t key;   /* hash of the unique key */
};

struct rq_timers {
    struct rmq_broker *broker;
    struct rq_loop *loop;  /* background; a reference; NULL = not initialised */
    struct rq_timer timer; /* owned by the background loop */
    bool stopped;          /* likewise */
    struct rq_task look_task;

    /* rank: broker tables; guards all below; held while a message is delivered */
    struct rq_mutex lock;
    struct rq_timed *heap;
    size_t count;
    size_t cap;
    int64_t next;            /* next message of the queue to take in */
    struct rq_window window; /* of the queue: done is delivered, recalled or written anew */
    int64_t foreign_ms;      /* a Java broker has delivered what was due before */
    int fd;                  /* of the file, -1 = none */
    size_t journal_bytes;    /* added to it since it was written anew */
    struct rq_map waiting;   /* real topic -> struct waiting */
    struct rq_data_version waiting_version;
    char *path;         /* NULL = nothing is written */
    char *foreign_path; /* of the Java broker's own checkpoint */
};

/* path and foreign_path may be NULL. */
rmq_status rq_timers_init(struct rq_timers *timers, struct rmq_broker *broker,
                          struct rq_loop *background, const char *path, const char *foreign_path,
                          rmq_error **err);
void rq_timers_start(struct rq_timers *timers);
void rq_timers_stop(struct rq_timers *timers); /* waits; not on the background loop */
void rq_timers_free(struct rq_timers *timers);

/* A message of the timer topic has been dispatched. Any thread. */
void rq_timers_arrived(struct rq_timers *timers);

enum rq_timers_kind {
    RQ_TIMED_NOT,     /* no time is asked for, or one that has passed */
    RQ_TIMED_YES,     /* msg is for the timer topic now */
    RQ_TIMED_ILLEGAL, /* too far away, or no number */
    RQ_TIMED_LARGE,   /* no room for the properties that it gets until it is delivered */
    RQ_TIMED_OFF      /* timerWheelEnable is false */
};

/* Looks whether the properties ask for a time, and makes the message one for the timer topic. props
 * is the caller's, to be freed after the append. Any thread. */
enum rq_timers_kind rq_timers_divert(struct rmq_broker *broker, struct rq_msg *msg,
                                     struct rq_buf *props);

/* Takes back a message that waits. false: it does not, or not any more. Any thread. */
bool rq_timers_recall(struct rq_timers *timers, struct rq_slice topic, struct rq_slice unique_key);

/* A message of a topic has begun to wait (1) or does not any more (-1). */
void rq_timers_count_locked(struct rq_timers *timers, struct rq_slice topic, int change);

/* What waits, for reports. Any thread. */
struct rq_timers_state {
    int64_t behind_ms;     /* age of the oldest that is due */
    int64_t behind_offset; /* messages stored and not yet taken in */
    int64_t waiting;
};
void rq_timers_state(struct rq_timers *timers, struct rq_timers_state *out);

/* Handle of a diverted message: base64 of "v1 topic broker time id". */
void rq_timers_write_handle(const struct rmq_broker *broker, const struct rq_msg *msg,
                            struct rq_buf *out);

#endif
