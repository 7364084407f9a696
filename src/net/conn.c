/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Life of a connection: birth from a socket, idle watch, end. The end needs the write side: when a
 * caller's thread is just writing, the loop shuts the socket down, and that thread gives the write
 * side back to the loop when it notices. Counterpart: Channel.
 */
#include "net/conn.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/conn_priv.h"

/* Calls that time out while the connection is silent tear it down, but not before it has been
 * silent for so long. */
#define SILENCE_MS 3000

void rq_sockaddr_text(const struct sockaddr *addr, char *out)
{
    char host[INET6_ADDRSTRLEN] = "";
    if (addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)addr;
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
            inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof host);
            snprintf(out, RQ_NET_ADDRESS_MAX, "%s:%u", host, (unsigned)ntohs(v6->sin6_port));
            return;
        }
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(out, RQ_NET_ADDRESS_MAX, "[%s]:%u", host, (unsigned)ntohs(v6->sin6_port));
        return;
    }
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)addr;
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    snprintf(out, RQ_NET_ADDRESS_MAX, "%s:%u", host, (unsigned)ntohs(v4->sin_port));
}

/* An IPv4 client of an IPv6 socket is an IPv4 client. */
static void unmap(union rq_sockaddr *addr)
{
    if (addr->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr)) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = addr->v6.sin6_port};
        memcpy(&v4.sin_addr, &addr->v6.sin6_addr.s6_addr[12], sizeof v4.sin_addr);
        memset(addr, 0, sizeof *addr);
        addr->v4 = v4;
    }
}

static void find_peer(struct rq_conn *conn)
{
    socklen_t n = sizeof conn->remote_addr;
    if (getpeername(conn->fd, &conn->remote_addr.any, &n) != 0) {
        conn->remote_addr.any.sa_family = AF_INET;
    }
    unmap(&conn->remote_addr);
    rq_sockaddr_text(&conn->remote_addr.any, conn->remote);
}

static void free_conn(struct rq_conn *conn)
{
    rq_conn_drop_outbox(conn);
    rq_calls_free(&conn->calls);
    if (conn->read_event) {
        event_free(conn->read_event);
    }
    if (conn->write_event) {
        event_free(conn->write_event);
    }
    if (conn->transport->destroy) {
        conn->transport->destroy(conn->transport_self);
    }
    rq_loop_unhold(conn->loop);
    rq_free(conn);
}

struct rq_conn *rq_conn_retain(struct rq_conn *conn)
{
    atomic_fetch_add_explicit(&conn->refs, 1, memory_order_relaxed);
    return conn;
}

void rq_conn_release(struct rq_conn *conn)
{
    if (conn && atomic_fetch_sub_explicit(&conn->refs, 1, memory_order_acq_rel) == 1) {
        free_conn(conn);
    }
}

static void delete_events(struct rq_conn *conn)
{
    rq_timer_stop(&conn->idle_timer);
    event_free(conn->read_event);
    event_free(conn->write_event);
    conn->read_event = NULL;
    conn->write_event = NULL;
}

void rq_close_socket(int *fd)
{
    shutdown(*fd, SHUT_RDWR);
    rq_fork_close(*fd);
    *fd = -1;
}

void rq_conn_finish(struct rq_conn *conn)
{
    rmq_status why = (rmq_status)atomic_load_explicit(&conn->state, memory_order_acquire);
    rq_conn_write_last(conn);
    rq_conn_bulk_end(conn);
    delete_events(conn);
    rq_close_socket(&conn->fd);
    atomic_exchange_explicit(&conn->state, CONN_CLOSED, memory_order_acq_rel);
    /* Whoever pushes from here on finds the writer taken after us and so sees CONN_CLOSED. */
    atomic_exchange_explicit(&conn->writer, 1, memory_order_acq_rel);
    rq_frame_ref_release(conn->partial);
    conn->partial = NULL;
    rq_calls_close(conn);
    rq_conn_drop_output(conn);
    rq_calls_complete_all(conn, why == RMQ_ERR_CLOSED ? why : RMQ_ERR_DISCONNECTED);
    conn->ops->on_close(conn, why);
    conn->loop->busy--;
    rq_conn_release(conn);
}

static void close_task(struct rq_task *task)
{
    struct rq_conn *conn = RQ_CONTAINER_OF(task, struct rq_conn, close_task);
    if (atomic_load_explicit(&conn->state, memory_order_acquire) != CONN_CLOSED) {
        if (conn->blocked || rq_conn_try_writer(conn)) {
            rq_conn_finish(conn);
        } else {
            shutdown(conn->fd, SHUT_RDWR);
        }
    }
    rq_conn_release(conn);
}

void rq_conn_close(struct rq_conn *conn, rmq_status why)
{
    int open = CONN_OPEN;
    int state = why < 0 ? (int)why : (int)RMQ_ERR_CLOSED;
    if (!atomic_compare_exchange_strong_explicit(&conn->state, &open, state, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        return;
    }
    rq_conn_retain(conn);
    if (!rq_loop_post(conn->loop, &conn->close_task)) {
        rq_conn_release(conn);
    }
}

void rq_conn_resume_reading(struct rq_conn *conn)
{
    if (!atomic_load_explicit(&conn->reading, memory_order_relaxed) && rq_conn_is_open(conn) &&
        atomic_load_explicit(&conn->queued, memory_order_seq_cst) <= conn->options.high_water / 2) {
        atomic_store_explicit(&conn->reading, true, memory_order_relaxed);
        event_add(conn->read_event, NULL);
    }
}

void rq_conn_count_timeouts(struct rq_conn *conn, int n)
{
    int max = conn->options.max_timeouts;
    int count = atomic_fetch_add_explicit(&conn->timeouts, n, memory_order_relaxed) + n;
    int64_t silent = rq_mono_ms() - atomic_load_explicit(&conn->last_read_ms, memory_order_relaxed);
    if (max > 0 && count >= max && silent >= SILENCE_MS && rq_conn_is_open(conn)) {
        RQ_LOG(WARN, "connection closed: calls time out and nothing comes",
               "peer=%s timeouts=%d silent_ms=%lld", conn->remote, count, (long long)silent);
        rq_conn_close(conn, RMQ_ERR_DISCONNECTED);
    }
}

static void check_idle(struct rq_timer *timer)
{
    struct rq_conn *conn = RQ_CONTAINER_OF(timer, struct rq_conn, idle_timer);
    int64_t now = rq_loop_now(conn->loop);
    if (atomic_exchange_explicit(&conn->written, 0, memory_order_relaxed)) {
        conn->last_write_ms = now;
    }
    int64_t last = atomic_load_explicit(&conn->last_read_ms, memory_order_relaxed);
    if (conn->last_write_ms > last) {
        last = conn->last_write_ms;
    }
    if (now - last >= conn->options.idle_ms) {
        rq_conn_close(conn, RMQ_ERR_TIMEOUT);
        return;
    }
    /* A write is noticed here only, so half the time bounds the error. */
    int64_t half = conn->options.idle_ms / 2;
    int64_t left = last + conn->options.idle_ms - now;
    rq_timer_start(conn->loop, timer, left < half ? left : half > 0 ? half : 1);
}

static void init_parts(struct rq_conn *conn)
{
    atomic_init(&conn->refs, 2);
    atomic_init(&conn->state, CONN_OPEN);
    atomic_init(&conn->timeouts, 0);
    atomic_init(&conn->last_read_ms, conn->loop->now_ms);
    atomic_init(&conn->written, 0);
    atomic_init(&conn->queued, 0);
    atomic_init(&conn->reading, false);
    atomic_init(&conn->writer, 0);
    atomic_init(&conn->flush_posted, false);
    conn->last_write_ms = conn->loop->now_ms;
    rq_mpsc_init(&conn->outbox);
    conn->flush_task.run = rq_conn_flush_task;
    conn->resume_task.run = rq_conn_resume_task;
    conn->close_task.run = close_task;
    rq_list_init(&conn->flush.node);
    conn->flush.run = rq_conn_flush;
    rq_timer_init(&conn->idle_timer, check_idle);
    rq_timer_init(&conn->bulk_timer, rq_conn_on_bulk_timer);
    rq_calls_init(&conn->calls);
    rq_conn_bulk_begin(conn);
}

static void take_options(struct rq_conn *conn, const struct rq_conn_options *options)
{
    conn->options = *options;
    conn->ops = options->ops;
    conn->user = options->user;
    conn->transport = options->transport ? options->transport : &rq_transport_plain;
    conn->transport_self = options->transport_self;
    if (conn->options.max_frame == 0) {
        conn->options.max_frame = RQ_NET_MAX_FRAME;
    }
    conn->handshake_done = conn->transport->handshake == NULL;
    conn->first_bytes_done = conn->ops->on_first_bytes == NULL;
}

rmq_status rq_conn_create(struct rq_loop *loop, int fd, const struct rq_conn_options *options,
                          struct rq_conn **out, rmq_error **err)
{
    struct rq_conn *conn = rq_calloc(1, sizeof *conn);
    if (!conn) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "connection: out of memory");
    }
    conn->loop = loop;
    conn->fd = fd;
    rq_loop_hold(loop);
    take_options(conn, options);
    init_parts(conn);
    find_peer(conn);
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    conn->read_event = event_new(loop->base, fd, EV_READ | EV_PERSIST, rq_conn_on_readable, conn);
    conn->write_event = event_new(loop->base, fd, EV_WRITE, rq_conn_on_writable, conn);
    if (!conn->read_event || !conn->write_event || event_add(conn->read_event, NULL) != 0 ||
        (!conn->handshake_done && event_add(conn->write_event, NULL) != 0)) {
        /* The transport's self stays the caller's, as the socket does. */
        conn->transport = &rq_transport_plain;
        free_conn(conn);
        return rq_error_set(err, RMQ_ERR_NOMEM, "connection: out of memory");
    }
    atomic_store_explicit(&conn->reading, true, memory_order_relaxed);
    loop->busy++; /* until finish: the loop does not end before */
    if (options->idle_ms > 0) {
        rq_timer_start(loop, &conn->idle_timer, options->idle_ms);
    }
    if (options->hidden) {
        rq_fork_hide(fd);
    }
    *out = conn;
    return RMQ_OK;
}

bool rq_conn_is_open(struct rq_conn *conn)
{
    return atomic_load_explicit(&conn->state, memory_order_acquire) == CONN_OPEN;
}

struct rq_loop *rq_conn_loop(struct rq_conn *conn)
{
    return conn->loop;
}

void *rq_conn_user(struct rq_conn *conn)
{
    return conn->user;
}

void *rq_conn_owner(struct rq_conn *conn)
{
    return conn->options.owner;
}

void rq_conn_set_user(struct rq_conn *conn, void *user)
{
    conn->user = user;
}

const char *rq_conn_remote(const struct rq_conn *conn)
{
    return conn->remote;
}

const struct sockaddr *rq_conn_remote_addr(const struct rq_conn *conn)
{
    return &conn->remote_addr.any;
}

void rq_conn_set_remote_addr(struct rq_conn *conn, const struct sockaddr *addr, socklen_t n)
{
    memset(&conn->remote_addr, 0, sizeof conn->remote_addr);
    memcpy(&conn->remote_addr, addr, n < sizeof conn->remote_addr ? n : sizeof conn->remote_addr);
    unmap(&conn->remote_addr);
    rq_sockaddr_text(&conn->remote_addr.any, conn->remote);
}

size_t rq_conn_queued(struct rq_conn *conn)
{
    return atomic_load_explicit(&conn->queued, memory_order_relaxed);
}
