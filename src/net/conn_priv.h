/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Inside of a connection, for net only: conn.c (life), conn_read.c, conn_write.c, call.c. */
#ifndef RQ_NET_CONN_PRIV_H
#define RQ_NET_CONN_PRIV_H

#include <stdatomic.h>

#include <event2/event.h>

#include "base/thread.h"
#include "net/call.h"
#include "net/conn.h"
#include "net/frame_ref.h"
#include "net/loop_priv.h"
#include "net/resolve.h"

/* Calls waiting for answers: slot = opaque & (cap - 1). */
struct rq_calls {
    struct rq_mutex lock; /* rank 95 */
    /* guarded by lock */
    struct rq_call **slots;
    uint32_t cap; /* power of two, or 0 */
    uint32_t count;
    uint32_t bulk; /* of them, those that nobody sleeps for */
    int mark;      /* bytes that the socket waits for; see conn_bulk.c */
    uint32_t next_opaque;
    bool closed;
    bool arm_posted;
    int64_t armed_ms; /* when the sweep is due, RQ_FOREVER for never */
    /* owned by the loop's thread */
    struct rq_timer sweep;
    int64_t last_sweep_ms;
    struct rq_task arm_task; /* posted at most once at a time: arm_posted */
};

/* State of a connection; a negative value is the rmq_status that it is being closed with. */
enum { CONN_OPEN = 0, CONN_CLOSED = 1 };

struct rq_conn {
    /* immutable after create */
    struct rq_loop *loop; /* held */
    const struct rq_conn_ops *ops;
    const struct rq_transport *transport;
    void *transport_self;
    struct rq_conn_options options;
    union rq_sockaddr remote_addr;
    char remote[RQ_NET_ADDRESS_MAX];

    _Atomic uint32_t refs;        /* atomic: as any count; the open connection holds one */
    _Atomic int state;            /* atomic: see above; acq_rel */
    _Atomic int timeouts;         /* atomic: relaxed; calls timed out since the last byte came */
    _Atomic int64_t last_read_ms; /* atomic: relaxed; written by the loop */
    _Atomic uint32_t written;     /* atomic: relaxed; set by writers, cleared by the idle check */
    /* atomic: bytes in outbox and pending; relaxed, but seq_cst with reading when it falls */
    _Atomic size_t queued;
    /* atomic: read_event is added; written by the loop. seq_cst with queued: of a writer that makes
     * room and a loop that stops reading, one sees the other */
    atomic_bool reading;

    /* The write side. Whoever holds writer may touch pending and the socket's output. */
    struct rq_mpsc outbox;
    _Atomic uint32_t writer; /* atomic: 1 = held; acq_rel exchanges pair with outbox and state */
    /* owned by the holder of writer */
    struct rq_out *pending; /* taken from the outbox, oldest first, chained by node */
    struct rq_out *pending_last;
    size_t pending_done;       /* bytes of the first that are written already */
    _Atomic bool flush_posted; /* atomic: flush_task is in the loop's list */
    struct rq_task flush_task;
    /* Posted by the holder of writer, who gives it to the loop with it. */
    struct rq_task resume_task;
    struct rq_task close_task;

    struct rq_calls calls;

    /* owned by the loop's thread */
    int fd; /* read by the holder of writer */
    void *user;
    struct event *read_event;
    struct event *write_event;
    struct rq_frame_ref *partial; /* the beginning of a frame, or NULL */
    size_t have;                  /* bytes of it */
    size_t need;                  /* its size, 0 while not known */
    bool in_pieces;               /* the peer writes less than a frame's lengths at a time */
    bool first_bytes_done;
    bool handshake_done;
    bool blocked; /* the loop holds writer and waits for the socket to take more */
    /* of this turn: small frames gather in it, and it goes to the outbox before any other */
    struct rq_out *held;
    struct rq_flush flush;
    struct rq_timer idle_timer;
    struct rq_timer bulk_timer;
    size_t answer_size; /* of the last answer */
    int64_t last_write_ms;
};

/* conn.c */
void rq_conn_resume_reading(struct rq_conn *conn);
void rq_conn_finish(struct rq_conn *conn); /* loop, holding writer, state negative: the end */
void rq_conn_count_timeouts(struct rq_conn *conn, int n); /* any thread */

/* conn_read.c */
void rq_conn_on_readable(evutil_socket_t fd, short what, void *arg);
void rq_conn_on_bulk_timer(struct rq_timer *timer);

/* conn_bulk.c */
void rq_conn_bulk_begin(struct rq_conn *conn);
void rq_conn_bulk_adjust(struct rq_conn *conn);           /* loop, after a read */
void rq_conn_bulk_interrupt_locked(struct rq_conn *conn); /* any thread, under the calls' lock */
void rq_conn_bulk_end(struct rq_conn *conn);              /* loop, before the socket is closed */

/* conn_write.c */
void rq_conn_on_writable(evutil_socket_t fd, short what, void *arg);
void rq_conn_flush(struct rq_flush *flush);
void rq_conn_flush_soon(struct rq_conn *conn); /* loop */
void rq_conn_flush_task(struct rq_task *task);
void rq_conn_resume_task(struct rq_task *task);
bool rq_conn_try_writer(struct rq_conn *conn);
void rq_conn_write_last(struct rq_conn *conn); /* holder, on the loop: one try before the end */
/* Holder: frees pending and outbox; unsent calls are marked. */
void rq_conn_drop_output(struct rq_conn *conn);
void rq_conn_drop_outbox(struct rq_conn *conn); /* anyone, after CONN_CLOSED */

/* call.c */
void rq_calls_init(struct rq_calls *calls);
void rq_calls_free(struct rq_calls *calls);
void rq_calls_answer(struct rq_conn *conn, struct rq_in *in);
void rq_calls_close(struct rq_conn *conn); /* loop: no call can be added any more */
void rq_calls_mark_unsent(struct rq_conn *conn, int32_t opaque);
void rq_calls_complete_all(struct rq_conn *conn, rmq_status st); /* loop, after close */

extern const struct rq_transport rq_transport_plain;

#endif
