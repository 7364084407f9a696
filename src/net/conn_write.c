/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The write side. Frames go into a list without a lock; the thread that made the list non-empty is
 * responsible for it: it becomes the writer when nobody is (then it writes for all who came
 * meanwhile), or knows that the present writer looks again before it is done. A full socket, and
 * what is more than a fair share of foreign frames, is left to the loop. Frames queued on the loop
 * thread wait for the end of its turn. Counterpart: NettyEncoder, ChannelOutboundBuffer.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/conn_priv.h"

#define WRITE_IOVECS 128 /* of one system call; below IOV_MAX */
/* system calls that a caller's thread makes before the loop goes on for it */
#define CALLER_ROUNDS 4
#define LOOP_ROUNDS   16 /* that the loop makes before others get their turn */
/* frames up to this size, as answers to sends, are gathered */
#define SMALL_BYTES ((size_t)1 << 10)
#define HELD_BYTES  ((size_t)16 << 10)

static ssize_t plain_read(void *self, int fd, const struct iovec *iov, int n)
{
    (void)self;
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
    return recvmsg(fd, &message, 0);
}

static ssize_t plain_writev(void *self, int fd, const struct iovec *iov, int n)
{
    (void)self;
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

const struct rq_transport rq_transport_plain = {.read = plain_read, .writev = plain_writev};

bool rq_conn_try_writer(struct rq_conn *conn)
{
    return atomic_exchange_explicit(&conn->writer, 1, memory_order_acq_rel) == 0;
}

static struct rq_out *next_out(const struct rq_out *out)
{
    return out->node.next ? RQ_CONTAINER_OF(out->node.next, struct rq_out, node) : NULL;
}

static void take_outbox(struct rq_conn *conn)
{
    struct rq_mpsc_node *node = rq_mpsc_take_all(&conn->outbox);
    if (!node) {
        return;
    }
    struct rq_out *first = RQ_CONTAINER_OF(node, struct rq_out, node);
    if (conn->pending) {
        conn->pending_last->node.next = node;
    } else {
        conn->pending = first;
    }
    while (node->next) {
        node = node->next;
    }
    conn->pending_last = RQ_CONTAINER_OF(node, struct rq_out, node);
}

static int add_iovec(struct iovec *iov, int n, const char *p, size_t len, size_t *skip)
{
    if (*skip >= len) {
        *skip -= len;
        return n;
    }
    iov[n] = (struct iovec){.iov_base = (void *)(uintptr_t)(p + *skip), .iov_len = len - *skip};
    *skip = 0;
    return n + 1;
}

/* The next bytes to write; *bytes is their sum. */
static int gather(struct rq_conn *conn, struct iovec *iov, size_t *bytes)
{
    int n = 0;
    size_t skip = conn->pending_done;
    for (struct rq_out *out = conn->pending; out && n < WRITE_IOVECS; out = next_out(out)) {
        n = add_iovec(iov, n, out->head.data, out->head.len, &skip);
        for (uint32_t i = 0; i < out->piece_count && n < WRITE_IOVECS; i++) {
            n = add_iovec(iov, n, out->pieces[i].p, out->pieces[i].n, &skip);
        }
    }
    *bytes = 0;
    for (int i = 0; i < n; i++) {
        *bytes += iov[i].iov_len;
    }
    return n;
}

static void pop_pending(struct rq_conn *conn)
{
    struct rq_out *out = conn->pending;
    conn->pending = next_out(out);
    rq_out_destroy(out);
}

static void advance(struct rq_conn *conn, size_t n)
{
    atomic_fetch_sub_explicit(&conn->queued, n, memory_order_seq_cst);
    atomic_store_explicit(&conn->written, 1, memory_order_relaxed);
    conn->pending_done += n;
    while (conn->pending && conn->pending_done >= rq_out_size(conn->pending)) {
        conn->pending_done -= rq_out_size(conn->pending);
        pop_pending(conn);
    }
}

enum progress {
    PROGRESS_EMPTY,   /* all is written */
    PROGRESS_MORE,    /* there is more, and the socket may take it */
    PROGRESS_BLOCKED, /* the socket is full */
    PROGRESS_FAILED
};

static enum progress write_once(struct rq_conn *conn)
{
    struct iovec iov[WRITE_IOVECS];
    take_outbox(conn);
    if (!conn->pending) {
        return PROGRESS_EMPTY;
    }
    size_t bytes;
    int n = gather(conn, iov, &bytes);
    ssize_t put;
    do {
        put = conn->transport->writev(conn->transport_self, conn->fd, iov, n);
    } while (put < 0 && errno == EINTR);
    if (put < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK ? PROGRESS_BLOCKED : PROGRESS_FAILED;
    }
    advance(conn, (size_t)put);
    if ((size_t)put < bytes) {
        return PROGRESS_BLOCKED;
    }
    return conn->pending || !rq_mpsc_empty(&conn->outbox) ? PROGRESS_MORE : PROGRESS_EMPTY;
}

/* The loop shall write at the end of its turn. */
static void post_flush(struct rq_conn *conn)
{
    if (!atomic_exchange_explicit(&conn->flush_posted, true, memory_order_acq_rel)) {
        rq_conn_retain(conn);
        if (!rq_loop_post(conn->loop, &conn->flush_task)) {
            rq_conn_release(conn);
        }
    }
}

static bool is_open(struct rq_conn *conn)
{
    return atomic_load_explicit(&conn->state, memory_order_acquire) == CONN_OPEN;
}

/* Leaves the held write side to the loop. */
static void hand_to_loop(struct rq_conn *conn)
{
    rq_conn_retain(conn);
    if (!rq_loop_post(conn->loop, &conn->resume_task)) {
        rq_conn_release(conn);
    }
}

/* Lets go of the write side, and takes it again when frames came meanwhile. true: it is held
 * again. */
static bool let_go(struct rq_conn *conn)
{
    atomic_exchange_explicit(&conn->writer, 0, memory_order_acq_rel);
    if (!is_open(conn)) {
        /* The closing loop may have found us as the writer: it must come again. */
        if (rq_conn_try_writer(conn)) {
            hand_to_loop(conn);
        }
        return false;
    }
    return !rq_mpsc_empty(&conn->outbox) && rq_conn_try_writer(conn);
}

/* A loop that stopped reading, because too much was queued, does not see how that becomes less. The
 * write side is held: the loop cannot end meanwhile. */
static void tell_reader(struct rq_conn *conn)
{
    if (!atomic_load_explicit(&conn->reading, memory_order_seq_cst)) {
        post_flush(conn);
    }
}

static void write_from_caller(struct rq_conn *conn)
{
    for (int i = 0; i < CALLER_ROUNDS; i++) {
        enum progress progress = write_once(conn);
        if (progress == PROGRESS_FAILED) {
            rq_conn_close(conn, RMQ_ERR_DISCONNECTED);
        }
        if (progress == PROGRESS_BLOCKED) {
            break;
        }
        if (progress != PROGRESS_MORE) {
            tell_reader(conn);
            if (!let_go(conn)) {
                return;
            }
        }
    }
    hand_to_loop(conn);
}

/* On the loop, holding writer. */
static void write_from_loop(struct rq_conn *conn)
{
    for (int i = 0; i < LOOP_ROUNDS; i++) {
        enum progress progress = write_once(conn);
        if (progress == PROGRESS_BLOCKED) {
            conn->blocked = true;
            event_add(conn->write_event, NULL);
            return;
        }
        if (progress == PROGRESS_FAILED) {
            rq_conn_close(conn, RMQ_ERR_DISCONNECTED);
        }
        if (progress != PROGRESS_MORE && !let_go(conn)) {
            rq_conn_resume_reading(conn);
            return;
        }
    }
    hand_to_loop(conn);
}

void rq_conn_on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct rq_conn *conn = arg;
    rq_loop_awake(conn->loop);
    if (!conn->handshake_done) {
        rq_conn_on_readable(fd, what, arg);
        return;
    }
    if (!conn->blocked) {
        return;
    }
    conn->blocked = false;
    rq_conn_retain(conn);
    write_from_loop(conn);
    rq_conn_release(conn);
}

/* ---- small frames of a turn ---- */

static void push_held(struct rq_conn *conn)
{
    struct rq_out *held = conn->held;
    conn->held = NULL;
    if (held) {
        (void)rq_mpsc_push(&conn->outbox, &held->node); /* the end of the turn looks */
    }
}

static bool is_small(const struct rq_out *out)
{
    return out->head.len <= SMALL_BYTES && out->piece_count == 0 && !out->is_call && !out->done &&
           !out->permit;
}

static bool append_held(struct rq_conn *conn, struct rq_out *out)
{
    struct rq_buf *head = conn->held ? &conn->held->head : NULL;
    if (!head || head->cap - head->len < out->head.len) {
        return false;
    }
    rq_buf_add(head, out->head.data, out->head.len);
    rq_out_destroy(out);
    return true;
}

/* Answers of one turn share memory and an entry of the system call: many small ones come when
 * requests come in a stream. The first of a turn is held as it is. */
static void hold(struct rq_conn *conn, struct rq_out *out)
{
    if (append_held(conn, out)) {
        return;
    }
    struct rq_out *room = conn->held ? rq_out_create(HELD_BYTES) : NULL;
    push_held(conn);
    conn->held = room ? room : out;
    if (room) {
        (void)append_held(conn, out);
    }
}

/* The end of the loop's turn. */
void rq_conn_flush(struct rq_flush *flush)
{
    struct rq_conn *conn = RQ_CONTAINER_OF(flush, struct rq_conn, flush);
    push_held(conn);
    if (!is_open(conn)) {
        if (atomic_load_explicit(&conn->state, memory_order_acquire) == CONN_CLOSED) {
            rq_conn_drop_outbox(conn);
        }
    } else if (conn->handshake_done && !rq_mpsc_empty(&conn->outbox) && rq_conn_try_writer(conn)) {
        write_from_loop(conn);
    }
    rq_conn_resume_reading(conn);
    rq_conn_release(conn);
}

void rq_conn_flush_soon(struct rq_conn *conn)
{
    if (rq_list_empty(&conn->flush.node)) {
        rq_conn_retain(conn);
        rq_loop_flush_later(conn->loop, &conn->flush);
    }
}

void rq_conn_flush_task(struct rq_task *task)
{
    struct rq_conn *conn = RQ_CONTAINER_OF(task, struct rq_conn, flush_task);
    atomic_exchange_explicit(&conn->flush_posted, false, memory_order_acq_rel);
    rq_conn_flush_soon(conn);
    rq_conn_release(conn);
}

/* A caller's thread left the write side to us: it is held. */
void rq_conn_resume_task(struct rq_task *task)
{
    struct rq_conn *conn = RQ_CONTAINER_OF(task, struct rq_conn, resume_task);
    if (is_open(conn)) {
        write_from_loop(conn);
    } else {
        rq_conn_finish(conn);
    }
    rq_conn_release(conn);
}

void rq_conn_write_last(struct rq_conn *conn)
{
    push_held(conn);
    if (conn->handshake_done) {
        while (write_once(conn) == PROGRESS_MORE) {
        }
    }
}

static void drop_list(struct rq_conn *conn, struct rq_out *out)
{
    while (out) {
        struct rq_out *next = next_out(out);
        atomic_fetch_sub_explicit(&conn->queued, rq_out_size(out), memory_order_relaxed);
        if (out->is_call) {
            rq_calls_mark_unsent(conn, out->opaque);
        }
        rq_out_destroy(out);
        out = next;
    }
}

void rq_conn_drop_outbox(struct rq_conn *conn)
{
    struct rq_mpsc_node *node = rq_mpsc_take_all(&conn->outbox);
    drop_list(conn, node ? RQ_CONTAINER_OF(node, struct rq_out, node) : NULL);
}

void rq_conn_drop_output(struct rq_conn *conn)
{
    if (conn->pending && conn->pending_done > 0) {
        atomic_fetch_add_explicit(&conn->queued, conn->pending_done, memory_order_relaxed);
        conn->pending_done = 0;
        conn->pending->is_call = false; /* a part of it may have arrived */
    }
    struct rq_out *pending = conn->pending;
    conn->pending = NULL;
    drop_list(conn, pending);
    rq_conn_drop_outbox(conn);
}

static rmq_status refuse(struct rq_out *out, rmq_status st)
{
    rq_out_destroy(out);
    return st;
}

static bool too_much(struct rq_conn *conn, size_t size)
{
    size_t max = conn->options.max_queued;
    return max && rq_conn_queued(conn) + size > max;
}

/* The list was empty before our frame. */
static void write_or_wake(struct rq_conn *conn, bool lazy)
{
    if (lazy || conn->transport->loop_only || !rq_loop_sleeps(conn->loop)) {
        post_flush(conn);
    } else if (rq_conn_try_writer(conn)) {
        write_from_caller(conn);
    }
    if (atomic_load_explicit(&conn->state, memory_order_acquire) == CONN_CLOSED) {
        rq_conn_drop_outbox(conn);
    }
}

static void send_from_loop(struct rq_conn *conn, struct rq_out *out)
{
    if (is_small(out)) {
        hold(conn, out);
    } else {
        push_held(conn);
        (void)rq_mpsc_push(&conn->outbox, &out->node);
    }
    rq_conn_flush_soon(conn);
}

rmq_status rq_conn_send(struct rq_conn *conn, struct rq_out *out)
{
    if (!is_open(conn)) {
        return refuse(out, RMQ_ERR_DISCONNECTED);
    }
    if (rq_loop_forked(conn->loop)) {
        return refuse(out, RMQ_ERR_FORKED);
    }
    if (rq_buf_status(&out->head) != RMQ_OK) {
        return refuse(out, rq_buf_status(&out->head));
    }
    size_t size = rq_out_size(out);
    if (too_much(conn, size)) {
        if (conn->options.overflow_closes) {
            rq_conn_close(conn, RMQ_ERR_TOO_LARGE);
        }
        return refuse(out, RMQ_ERR_BUSY);
    }
    bool lazy = out->lazy; /* the frame may be gone after the push */
    atomic_fetch_add_explicit(&conn->queued, size, memory_order_relaxed);
    if (rq_loop_in(conn->loop)) {
        send_from_loop(conn, out);
    } else if (rq_mpsc_push(&conn->outbox, &out->node)) {
        write_or_wake(conn, lazy);
    }
    return RMQ_OK;
}
