/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The read side: bytes come into the loop's scratch buffer, whole frames are handled where they
 * lie, and only the beginning of an incomplete one moves to memory of the connection, which grows
 * as its bytes arrive and never because a length says so. An idle connection has no buffer. Loop
 * thread. Counterpart: NettyDecoder.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/conn_priv.h"

#define READS_PER_EVENT  4 /* so that one busy connection does not starve the others */
#define PARTIAL_EXACT    ((size_t)64 << 10) /* frames up to this size get their memory at once */
#define PARTIAL_SMALLEST ((size_t)256)

static void move_slice(struct rq_slice *slice, const char *from, const char *to)
{
    if (slice->p) {
        slice->p = to + (slice->p - from);
    }
}

struct rq_frame_ref *rq_in_keep(struct rq_in *in)
{
    if (!in->ref) {
        struct rq_frame_ref *ref = rq_frame_ref_take(in->conn->loop, in->size);
        if (!ref) {
            return NULL;
        }
        memcpy(ref->bytes, in->frame, in->size);
        struct rq_header *header = in->header;
        move_slice(&header->remark, in->frame, ref->bytes);
        for (uint16_t i = 0; i < header->ext_count; i++) {
            move_slice(&header->ext[i].name, in->frame, ref->bytes);
            move_slice(&header->ext[i].value, in->frame, ref->bytes);
        }
        move_slice(&in->body, in->frame, ref->bytes);
        in->frame = ref->bytes;
        in->ref = ref;
    }
    return rq_frame_ref_retain(in->ref);
}

static void bad_bytes(struct rq_conn *conn, rmq_error *err)
{
    RQ_LOG(WARN, "connection closed: bad bytes", "peer=%s reason=\"%s\"", conn->remote,
           rmq_error_message(err));
    rmq_error_destroy(err);
    rq_conn_close(conn, RMQ_ERR_PROTOCOL);
}

static bool still_open(struct rq_conn *conn)
{
    return atomic_load_explicit(&conn->state, memory_order_relaxed) == CONN_OPEN;
}

/* One whole frame. ref is its counted memory when it has some. false: the connection is to be
 * closed. */
static bool handle_frame(struct rq_conn *conn, char *p, size_t size, struct rq_frame_ref *ref)
{
    struct rq_frame *frame = &conn->loop->frame;
    rmq_error *err = NULL;
    if (rq_frame_decode(p, size, frame, &err) != RMQ_OK) {
        bad_bytes(conn, err);
        return false;
    }
    struct rq_in in = {.conn = conn,
                       .header = &frame->header,
                       .body = frame->body,
                       .frame = p,
                       .size = size,
                       .ref = ref ? rq_frame_ref_retain(ref) : NULL};
    conn->loop->handled++;
    if (rq_header_is_response(in.header)) {
        conn->answer_size = size;
        rq_calls_answer(conn, &in);
    } else {
        conn->ops->on_request(conn, &in);
    }
    rq_frame_ref_release(in.ref);
    return still_open(conn);
}

/* Makes room for want bytes of the partial frame, up to its size. */
static bool grow_partial(struct rq_conn *conn, size_t want)
{
    size_t cap = PARTIAL_SMALLEST;
    if (conn->need && conn->need <= PARTIAL_EXACT) {
        cap = conn->need;
    } else {
        while (cap < want) {
            cap *= 2;
        }
        if (conn->need && cap > conn->need) {
            cap = conn->need;
        }
    }
    if (conn->partial && cap <= conn->partial->cap) {
        return true;
    }
    struct rq_frame_ref *ref =
        conn->partial ? rq_frame_ref_grow(conn->partial, cap) : rq_frame_ref_take(conn->loop, cap);
    if (!ref) {
        return false;
    }
    conn->partial = ref;
    return true;
}

static bool no_memory(struct rq_conn *conn)
{
    RQ_LOG(ERROR, "connection closed: out of memory", "peer=%s frame=%zu", conn->remote,
           conn->need);
    rq_conn_close(conn, RMQ_ERR_NOMEM);
    return false;
}

/* Looks at the beginning of a frame. *size 0: not known yet. */
static bool frame_size(struct rq_conn *conn, const char *p, size_t n, size_t *size)
{
    rmq_error *err = NULL;
    if (rq_frame_size(p, n, conn->options.max_frame, size, &err) != RMQ_OK) {
        bad_bytes(conn, err);
        return false;
    }
    return true;
}

static void drop_partial(struct rq_conn *conn)
{
    rq_frame_ref_release(conn->partial);
    conn->partial = NULL;
    conn->have = 0;
    conn->need = 0;
}

/* Cuts frames out of n bytes and keeps the rest. */
static bool cut(struct rq_conn *conn, char *p, size_t n)
{
    while (n > 0) {
        size_t size = 0;
        if (!frame_size(conn, p, n, &size)) {
            return false;
        }
        if (size == 0 || size > n) {
            conn->need = size;
            if (!grow_partial(conn, n)) {
                return no_memory(conn);
            }
            memcpy(conn->partial->bytes, p, n);
            conn->have = n;
            conn->in_pieces |= n <= RQ_FRAME_PREFIX && !conn->transport->pending;
            return true;
        }
        if (!handle_frame(conn, p, size, NULL)) {
            return false;
        }
        p += size;
        n -= size;
    }
    return true;
}

/* Moves bytes from scratch behind those of the partial frame; *used of them. */
static bool feed_partial(struct rq_conn *conn, const char *p, size_t n, size_t *used)
{
    size_t goal = conn->need ? conn->need : RQ_FRAME_PREFIX;
    size_t take = goal - conn->have < n ? goal - conn->have : n;
    if (!grow_partial(conn, conn->have + take)) {
        return no_memory(conn);
    }
    memcpy(conn->partial->bytes + conn->have, p, take);
    conn->have += take;
    *used = take;
    return true;
}

/* The partial frame got bytes: finds its size, handles it when whole. */
static bool advance_partial(struct rq_conn *conn)
{
    if (!conn->need && !frame_size(conn, conn->partial->bytes, conn->have, &conn->need)) {
        return false;
    }
    if (!conn->need || conn->have < conn->need) {
        return true;
    }
    struct rq_frame_ref *ref = conn->partial;
    size_t size = conn->need;
    conn->partial = NULL;
    conn->have = 0;
    conn->need = 0;
    bool ok = handle_frame(conn, ref->bytes, size, ref);
    rq_frame_ref_release(ref);
    return ok;
}

static bool take_bytes(struct rq_conn *conn, char *p, size_t n)
{
    while (conn->partial && n > 0) {
        size_t used = 0;
        if (!feed_partial(conn, p, n, &used) || !advance_partial(conn)) {
            return false;
        }
        p += used;
        n -= used;
    }
    return cut(conn, p, n);
}

/* Before any frame: a filter may take bytes off. What it leaves undecided waits in partial. */
static bool take_first_bytes(struct rq_conn *conn, char *p, size_t n)
{
    if (conn->first_bytes_done) {
        return take_bytes(conn, p, n);
    }
    if (!grow_partial(conn, conn->have + n)) {
        return no_memory(conn);
    }
    memcpy(conn->partial->bytes + conn->have, p, n);
    conn->have += n;
    size_t used = 0;
    rmq_status st =
        conn->ops->on_first_bytes(conn, rq_slice(conn->partial->bytes, conn->have), &used);
    if (st == RMQ_ERR_BUSY && conn->have <= PARTIAL_EXACT) {
        return true;
    }
    if (st != RMQ_OK || used > conn->have) {
        rq_conn_close(conn, RMQ_ERR_PROTOCOL);
        return false;
    }
    conn->first_bytes_done = true;
    struct rq_frame_ref *ref = conn->partial;
    size_t have = conn->have;
    conn->partial = NULL;
    conn->have = 0;
    bool ok = cut(conn, ref->bytes + used, have - used);
    rq_frame_ref_release(ref);
    return ok;
}

/* Reads into the partial frame's memory first, the rest into scratch. Returns bytes wanted in
 * *asked. */
static ssize_t read_some(struct rq_conn *conn, size_t *direct, size_t *asked)
{
    struct iovec iov[2];
    int n = 0;
    *direct = 0;
    if (conn->need && conn->first_bytes_done) {
        size_t room = conn->partial->cap - conn->have;
        size_t left = conn->need - conn->have;
        *direct = room < left ? room : left;
        if (*direct) {
            iov[n++] = (struct iovec){conn->partial->bytes + conn->have, *direct};
        }
    }
    iov[n++] = (struct iovec){conn->loop->scratch, RQ_LOOP_SCRATCH};
    *asked = *direct + RQ_LOOP_SCRATCH;
    ssize_t got;
    do {
        got = conn->transport->read(conn->transport_self, conn->fd, iov, n);
    } while (got < 0 && errno == EINTR);
    return got;
}

static bool take_read(struct rq_conn *conn, size_t got, size_t direct)
{
    size_t in_place = got < direct ? got : direct;
    if (in_place) {
        conn->have += in_place;
        if (!advance_partial(conn)) {
            return false;
        }
    }
    if (got == in_place) {
        return true;
    }
    return take_first_bytes(conn, conn->loop->scratch, got - in_place);
}

static void end_of_stream(struct rq_conn *conn, ssize_t got)
{
    if (got < 0) {
        RQ_LOG(DEBUG, "connection lost", "peer=%s cause=\"%s\"", conn->remote, strerror(errno));
    }
    rq_conn_close(conn, RMQ_ERR_DISCONNECTED);
}

static bool more_pending(struct rq_conn *conn)
{
    return conn->transport->pending && conn->transport->pending(conn->transport_self);
}

static void read_all(struct rq_conn *conn)
{
    for (int i = 0; i < READS_PER_EVENT || more_pending(conn); i++) {
        size_t direct;
        size_t asked;
        ssize_t got = read_some(conn, &direct, &asked);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        }
        if (got <= 0) {
            end_of_stream(conn, got);
            return;
        }
        atomic_store_explicit(&conn->last_read_ms, conn->loop->now_ms, memory_order_relaxed);
        atomic_store_explicit(&conn->timeouts, 0, memory_order_relaxed);
        if (!take_read(conn, (size_t)got, direct) || !still_open(conn)) {
            drop_partial(conn);
            return;
        }
        if ((size_t)got < asked && !more_pending(conn)) {
            return;
        }
    }
}

/* A peer that does not take its answers is not listened to until it does. */
static void check_high_water(struct rq_conn *conn)
{
    size_t high = conn->options.high_water;
    if (high && atomic_load_explicit(&conn->reading, memory_order_relaxed) &&
        rq_conn_queued(conn) > high) {
        event_del(conn->read_event);
        atomic_store_explicit(&conn->reading, false, memory_order_seq_cst);
        rq_conn_resume_reading(conn); /* a writer that was done just before has not seen it */
    }
}

static bool shake_hands(struct rq_conn *conn)
{
    if (conn->handshake_done) {
        return true;
    }
    bool want_write = false;
    rmq_status st = conn->transport->handshake(conn->transport_self, conn->fd, &want_write);
    if (st == RMQ_OK) {
        conn->handshake_done = true;
        rq_conn_flush_soon(conn);
        return true;
    }
    if (st != RMQ_ERR_BUSY) {
        rq_conn_close(conn, st);
    } else if (want_write) {
        event_add(conn->write_event, NULL);
    }
    return false;
}

static void read_now(struct rq_conn *conn)
{
    if (!still_open(conn)) {
        return;
    }
    rq_conn_retain(conn);
    if (shake_hands(conn)) {
        read_all(conn);
        check_high_water(conn);
    }
    if (still_open(conn)) {
        rq_conn_bulk_adjust(conn);
    }
    rq_conn_release(conn);
}

void rq_conn_on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct rq_conn *conn = arg;
    rq_loop_awake(conn->loop);
    read_now(conn);
}

void rq_conn_on_bulk_timer(struct rq_timer *timer)
{
    struct rq_conn *conn = RQ_CONTAINER_OF(timer, struct rq_conn, bulk_timer);
    if (atomic_load_explicit(&conn->reading, memory_order_relaxed)) {
        read_now(conn);
    }
}
