/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Peers and their connections: made at first need, kept up while somebody holds the peer, given up
 * when idle. All that connects runs on the loop; other threads only look at the connection, under
 * the peer's lock, or ask the loop to look at the peer. Counterpart: NettyRemotingClient's
 * channelTables.
 */
#include "net/client.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/client_priv.h"
#include "net/conn_priv.h"

#define CONNECT_TIMEOUT_MS 3000
#define IDLE_MS            120000
#define MAX_QUEUED         ((size_t)64 << 20)
#define MAX_IN_FLIGHT      65535
#define MAX_TIMEOUTS       3
#define BACKOFF_FIRST_MS   100
#define BACKOFF_GROWTH     4 /* the first tries are for a peer that restarts; then it is an outage */
#define BACKOFF_PRESENT_MS 200
#define BACKOFF_MOST_MS    4000
#define STEADY_MS          5000 /* a connection that lived so long was a good one */

static void look(struct rq_peer *peer);

void rq_peers_unref(struct rq_peers *peers)
{
    if (atomic_fetch_sub_explicit(&peers->refs, 1, memory_order_acq_rel) == 1) {
        struct rq_loop *loop = peers->loop;
        rq_map_free(&peers->peers, NULL);
        rq_mutex_destroy(&peers->lock);
        rq_free(peers);
        rq_loop_unhold(loop);
    }
}

static void ref(struct rq_peer *peer)
{
    atomic_fetch_add_explicit(&peer->refs, 1, memory_order_relaxed);
}

void rq_peer_unref(struct rq_peer *peer)
{
    if (atomic_fetch_sub_explicit(&peer->refs, 1, memory_order_acq_rel) == 1) {
        struct rq_peers *peers = peer->peers;
        rq_mutex_destroy(&peer->lock);
        rq_free(peer->reason);
        rq_free(peer->address);
        rq_free(peer);
        rq_peers_unref(peers);
    }
}

static bool is_held(struct rq_peer *peer)
{
    return atomic_load_explicit(&peer->holders, memory_order_acquire) > 0;
}

/* ---- loop: connecting ---- */

static int64_t jitter(struct rq_peer *peer, int64_t ms)
{
    peer->seed = peer->seed * 1664525U + 1013904223U;
    return ms / 2 + (int64_t)(peer->seed >> 16) % (ms / 2 + 1);
}

static int64_t next_backoff(struct rq_peer *peer)
{
    const struct rq_peers_options *options = &peer->peers->options;
    int64_t ms = peer->backoff_ms ? peer->backoff_ms * BACKOFF_GROWTH : options->backoff_first_ms;
    peer->backoff_ms = ms < options->backoff_most_ms ? ms : options->backoff_most_ms;
    return jitter(peer, peer->backoff_ms);
}

static void log_failure(struct rq_peer *peer, const char *reason)
{
    peer->attempts++;
    if (peer->outage_ms == 0) {
        peer->outage_ms = rq_loop_now(peer->peers->loop);
        RQ_LOG(WARN, "connect failed, trying on", "peer=%s reason=\"%s\"", peer->address, reason);
    }
}

static void log_recovery(struct rq_peer *peer)
{
    if (peer->outage_ms != 0) {
        RQ_LOG(INFO, "connected again", "peer=%s after_ms=%lld attempts=%d", peer->address,
               (long long)(rq_loop_now(peer->peers->loop) - peer->outage_ms), peer->attempts);
    }
    peer->outage_ms = 0;
    peer->attempts = 0;
}

static void attempt_failed(struct rq_peer *peer, rmq_status st, const char *reason)
{
    struct rq_list failed;
    rq_list_init(&failed);
    char *copy = rq_strdup(reason);
    log_failure(peer, reason);
    rq_mutex_lock(&peer->lock);
    peer->connecting = false;
    peer->failing = true;
    peer->failure = st;
    peer->next_attempt_ms = rq_loop_now(peer->peers->loop) + next_backoff(peer);
    rq_free(peer->reason);
    peer->reason = copy;
    rq_peer_take_waiting_locked(peer, false, &failed);
    rq_mutex_unlock(&peer->lock);
    rq_peer_fail_list(&failed, st);
    look(peer);
}

static void on_conn_request(struct rq_conn *conn, struct rq_in *in)
{
    struct rq_peer *peer = rq_conn_owner(conn);
    const struct rq_peers_options *options = &peer->peers->options;
    if (options->on_request) {
        options->on_request(options->user, peer, in);
    }
}

/* When to connect again: at once after a good connection, else with back-off, or a peer that
 * accepts and closes would keep us busy. One that answered before is there: it is not waited for as
 * long as one that is away. */
static void plan_after_close(struct rq_peer *peer, const struct rq_conn *conn)
{
    int64_t now = rq_loop_now(peer->peers->loop);
    if (conn->answer_size > 0 && peer->backoff_ms > BACKOFF_PRESENT_MS) {
        peer->backoff_ms = BACKOFF_PRESENT_MS;
    }
    if (now - peer->connected_ms >= STEADY_MS) {
        peer->backoff_ms = 0;
        peer->next_attempt_ms = now;
    } else {
        peer->next_attempt_ms = now + next_backoff(peer);
    }
}

static void on_conn_close(struct rq_conn *conn, rmq_status why)
{
    struct rq_peer *peer = rq_conn_owner(conn);
    struct rq_peers *peers = peer->peers;
    const struct rq_peers_options *options = &peers->options;
    rq_mutex_lock(&peer->lock);
    peer->conn = NULL;
    plan_after_close(peer, conn);
    rq_mutex_unlock(&peer->lock);
    if (options->on_disconnected) {
        options->on_disconnected(options->user, peer, why);
    }
    rq_conn_release(conn);
    peer->dormant = why == RMQ_ERR_TIMEOUT; /* idle */
    look(peer);
    struct rq_gate *ended = --peers->open == 0 ? peers->ended : NULL;
    rq_peer_unref(peer);
    if (ended) {
        rq_gate_open(ended); /* the last thing: peers may be gone after it */
    }
}

static const struct rq_conn_ops conn_ops = {.on_request = on_conn_request,
                                            .on_close = on_conn_close};

static rmq_status make_conn(struct rq_peer *peer, int fd, struct rq_conn **out)
{
    const struct rq_peers_options *options = &peer->peers->options;
    struct rq_conn_options conn_options = {.ops = &conn_ops,
                                           .owner = peer,
                                           .max_frame = options->max_frame,
                                           .max_queued = options->max_queued,
                                           .idle_ms = options->idle_ms,
                                           .max_timeouts = MAX_TIMEOUTS};
    if (options->transport) {
        conn_options.transport =
            options->transport(options->user, peer, &conn_options.transport_self);
        if (!conn_options.transport) {
            return RMQ_ERR_NOMEM;
        }
    }
    rmq_status st = rq_conn_create(peer->peers->loop, fd, &conn_options, out, NULL);
    if (st != RMQ_OK && options->transport && conn_options.transport->destroy) {
        conn_options.transport->destroy(conn_options.transport_self);
    }
    return st;
}

static void use_conn(struct rq_peer *peer, struct rq_conn *conn)
{
    const struct rq_peers_options *options = &peer->peers->options;
    struct rq_list failed;
    rq_list_init(&failed);
    ref(peer); /* until on_conn_close */
    peer->peers->open++;
    peer->connected_ms = rq_loop_now(peer->peers->loop);
    log_recovery(peer);
    rq_mutex_lock(&peer->lock);
    peer->connecting = false;
    peer->conn = conn;
    peer->failing = false;
    rq_free(peer->reason);
    peer->reason = NULL;
    rq_peer_flush_locked(peer, conn, &failed);
    rq_mutex_unlock(&peer->lock);
    rq_peer_fail_list(&failed, RMQ_ERR_DISCONNECTED);
    if (options->on_connected) {
        options->on_connected(options->user, peer);
    }
}

static void on_connect(void *user, rmq_status st, int fd, const char *reason)
{
    struct rq_peer *peer = user;
    struct rq_conn *conn = NULL;
    if (st == RMQ_OK) {
        st = make_conn(peer, fd, &conn);
        if (st != RMQ_OK) {
            close(fd);
            reason = "out of memory";
        }
    }
    if (st == RMQ_OK) {
        use_conn(peer, conn);
    } else {
        attempt_failed(peer, st, reason);
    }
    rq_peer_unref(peer);
}

static void begin_attempt(struct rq_peer *peer)
{
    struct rq_peers *peers = peer->peers;
    ref(peer);
    rq_mutex_lock(&peer->lock);
    peer->connecting = true;
    peer->attempt_ms = rq_loop_now(peers->loop);
    rq_mutex_unlock(&peer->lock);
    if (!rq_connect_start(&peer->connect, peers->loop, peer->host, peer->port,
                          peers->options.connect_timeout_ms, on_connect, peer)) {
        on_connect(peer, RMQ_ERR_NOMEM, -1, "out of memory");
    }
}

/* Nobody holds the peer and it has nothing to do: it leaves the map. */
static void forget(struct rq_peer *peer)
{
    struct rq_peers *peers = peer->peers;
    bool removed = false;
    rq_mutex_lock(&peers->lock);
    rq_mutex_lock(&peer->lock);
    if (!peers->closed && !peer->closed && !is_held(peer) && !peer->kick_posted &&
        rq_list_empty(&peer->waiting)) {
        rq_map_remove(&peers->peers, rq_slice_str(peer->address));
        peer->closed = true;
        removed = true;
    }
    rq_mutex_unlock(&peer->lock);
    rq_mutex_unlock(&peers->lock);
    if (removed) {
        rq_peer_unref(peer);
    }
}

/* Decides what the peer needs now: nothing, an attempt, a timer until the next may begin, or to
 * be forgotten. Who calls holds a reference. */
static void look(struct rq_peer *peer)
{
    struct rq_loop *loop = peer->peers->loop;
    rq_mutex_lock(&peer->lock);
    bool settled = peer->closed || peer->conn || peer->connecting;
    bool waiting = !rq_list_empty(&peer->waiting);
    bool held = is_held(peer);
    int64_t first = rq_peer_first_deadline_locked(peer);
    int64_t due = peer->next_attempt_ms;
    rq_mutex_unlock(&peer->lock);
    bool wanted = !settled && (waiting || (held && !peer->dormant));
    bool later = wanted && due > rq_loop_now(loop);
    rq_timer_start_at(loop, &peer->wait_timer, first);
    rq_timer_start_at(loop, &peer->retry_timer, later ? due : RQ_FOREVER);
    if (wanted && !later) {
        begin_attempt(peer);
    } else if (!settled && !wanted && !held) {
        forget(peer);
    }
}

static void on_retry(struct rq_timer *timer)
{
    struct rq_peer *peer = RQ_CONTAINER_OF(timer, struct rq_peer, retry_timer);
    ref(peer);
    look(peer);
    rq_peer_unref(peer);
}

static void on_kick(struct rq_task *task)
{
    struct rq_peer *peer = RQ_CONTAINER_OF(task, struct rq_peer, kick_task);
    rq_mutex_lock(&peer->lock);
    peer->kick_posted = false;
    rq_mutex_unlock(&peer->lock);
    peer->dormant = false;
    look(peer);
    rq_peer_unref(peer);
}

void rq_peer_kick_locked(struct rq_peer *peer)
{
    if (!peer->kick_posted) {
        peer->kick_posted = true;
        ref(peer);
        if (!rq_loop_post(peer->peers->loop, &peer->kick_task)) {
            rq_peer_unref(peer);
        }
    }
}

/* ---- peers ---- */

static void default_options(struct rq_peers_options *options)
{
    if (options->connect_timeout_ms <= 0) {
        options->connect_timeout_ms = CONNECT_TIMEOUT_MS;
    }
    if (options->idle_ms == 0) {
        options->idle_ms = IDLE_MS;
    }
    if (options->backoff_first_ms <= 0) {
        options->backoff_first_ms = BACKOFF_FIRST_MS;
    }
    if (options->backoff_most_ms <= 0) {
        options->backoff_most_ms = BACKOFF_MOST_MS;
    }
    if (options->max_queued == 0) {
        options->max_queued = MAX_QUEUED;
    }
    if (options->max_async <= 0) {
        options->max_async = MAX_IN_FLIGHT;
    }
    if (options->max_oneway <= 0) {
        options->max_oneway = MAX_IN_FLIGHT;
    }
}

rmq_status rq_peers_create(struct rq_loop *loop, const struct rq_peers_options *options,
                           struct rq_peers **out, rmq_error **err)
{
    if (rq_loop_forked(loop)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "event loop was inherited through fork");
    }
    struct rq_peers *peers = rq_calloc(1, sizeof *peers);
    if (!peers) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "peers: out of memory");
    }
    peers->options = *options;
    default_options(&peers->options);
    rq_loop_retain(loop);
    rq_loop_hold(loop);
    peers->loop = loop;
    atomic_init(&peers->refs, 1);
    atomic_init(&peers->async_calls, 0);
    atomic_init(&peers->oneways, 0);
    rq_mutex_init(&peers->lock);
    rq_map_init(&peers->peers);
    *out = peers;
    return RMQ_OK;
}

static void close_peer(struct rq_peer *peer)
{
    struct rq_list all;
    rq_list_init(&all);
    rq_mutex_lock(&peer->lock);
    peer->closed = true;
    bool connecting = peer->connecting;
    peer->connecting = false;
    rq_peer_take_waiting_locked(peer, true, &all);
    struct rq_conn *conn = peer->conn ? rq_conn_retain(peer->conn) : NULL;
    rq_mutex_unlock(&peer->lock);
    rq_timer_stop(&peer->retry_timer);
    rq_timer_stop(&peer->wait_timer);
    if (connecting) {
        rq_connect_cancel(&peer->connect);
        rq_peer_unref(peer);
    }
    rq_peer_fail_list(&all, RMQ_ERR_CLOSED);
    if (conn) {
        rq_conn_close(conn, RMQ_ERR_CLOSED);
        rq_conn_release(conn);
    }
}

struct closing {
    struct rq_peers *peers;
    struct rq_gate gate;
    bool wait;
};

static void close_all(void *arg)
{
    struct closing *closing = arg;
    struct rq_peers *peers = closing->peers;
    size_t i = 0;
    struct rq_map_entry *entry;
    /* The map does not change any more: peers->closed. */
    while ((entry = rq_map_next(&peers->peers, &i)) != NULL) {
        close_peer(entry->value);
    }
    if (peers->open == 0) {
        rq_gate_open(&closing->gate);
    } else if (closing->wait) {
        peers->ended = &closing->gate;
    }
}

void rq_peers_destroy(struct rq_peers *peers)
{
    if (!peers || rq_loop_forked(peers->loop)) {
        return;
    }
    struct closing closing = {.peers = peers, .wait = !rq_loop_in(peers->loop)};
    rq_gate_init(&closing.gate);
    rq_mutex_lock(&peers->lock);
    peers->closed = true;
    rq_mutex_unlock(&peers->lock);
    rq_loop_run(peers->loop, close_all, &closing);
    if (closing.wait) {
        rq_gate_wait(&closing.gate, RQ_FOREVER);
    }
    size_t i = 0;
    struct rq_map_entry *entry;
    while ((entry = rq_map_next(&peers->peers, &i)) != NULL) {
        rq_peer_unref(entry->value);
    }
    struct rq_loop *loop = peers->loop;
    rq_peers_unref(peers);
    rq_loop_put(loop);
}

static struct rq_peer *make_peer(struct rq_peers *peers, const char *address)
{
    struct rq_peer *peer = rq_calloc(1, sizeof *peer);
    char *copy = rq_strdup(address);
    if (!peer || !copy) {
        rq_free(peer);
        rq_free(copy);
        return NULL;
    }
    peer->peers = peers;
    peer->address = copy;
    peer->seed = (uint32_t)rq_mono_us() ^ (uint32_t)rq_hash_bytes(address, strlen(address));
    atomic_init(&peer->refs, 1);
    atomic_init(&peer->holders, 0);
    rq_mutex_init(&peer->lock);
    rq_list_init(&peer->waiting);
    peer->kick_task.run = on_kick;
    rq_timer_init(&peer->retry_timer, on_retry);
    rq_timer_init(&peer->wait_timer, rq_peer_expire);
    atomic_fetch_add_explicit(&peers->refs, 1, memory_order_relaxed);
    return peer;
}

static rmq_status find_or_make_locked(struct rq_peers *peers, const char *address,
                                      struct rq_peer **out, rmq_error **err)
{
    struct rq_slice key = rq_slice_str(address);
    struct rq_peer *found = rq_map_get(&peers->peers, key);
    if (found) {
        *out = found;
        return RMQ_OK;
    }
    struct rq_peer *peer = make_peer(peers, address);
    if (!peer) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "peer %s: out of memory", address);
    }
    rmq_status st = rq_address_split(address, peer->host, &peer->port, err);
    if (st == RMQ_OK && rq_map_put(&peers->peers, key, peer) != RMQ_OK) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "peer %s: out of memory", address);
    }
    if (st != RMQ_OK) {
        rq_peer_unref(peer);
        return st;
    }
    *out = peer;
    return RMQ_OK;
}

/* A new holder; the loop connects when there is no connection. */
static void hold_peer(struct rq_peer *peer)
{
    rq_peer_retain(peer);
    rq_mutex_lock(&peer->lock);
    if (!peer->conn) {
        rq_peer_kick_locked(peer);
    }
    rq_mutex_unlock(&peer->lock);
}

rmq_status rq_peer_get(struct rq_peers *peers, const char *address, struct rq_peer **out,
                       rmq_error **err)
{
    if (rq_loop_forked(peers->loop)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "connection to %s was inherited through fork",
                            address);
    }
    struct rq_peer *peer = NULL;
    rq_mutex_lock(&peers->lock);
    rmq_status st = peers->closed ? rq_error_set(err, RMQ_ERR_CLOSED, "client is shut down")
                                  : find_or_make_locked(peers, address, &peer, err);
    if (peer) {
        hold_peer(peer);
        *out = peer;
    }
    rq_mutex_unlock(&peers->lock);
    return st;
}

struct rq_peer *rq_peer_retain(struct rq_peer *peer)
{
    ref(peer);
    atomic_fetch_add_explicit(&peer->holders, 1, memory_order_relaxed);
    return peer;
}

void rq_peer_put(struct rq_peer *peer)
{
    if (!peer || rq_loop_forked(peer->peers->loop)) {
        return;
    }
    if (atomic_fetch_sub_explicit(&peer->holders, 1, memory_order_acq_rel) == 1) {
        rq_mutex_lock(&peer->lock);
        if (!peer->closed) {
            rq_peer_kick_locked(peer);
        }
        rq_mutex_unlock(&peer->lock);
    }
    rq_peer_unref(peer);
}

const char *rq_peer_address(const struct rq_peer *peer)
{
    return peer->address;
}

struct rq_conn *rq_peer_conn(struct rq_peer *peer)
{
    struct rq_conn *conn = NULL;
    if (rq_loop_forked(peer->peers->loop)) {
        return NULL;
    }
    rq_mutex_lock(&peer->lock);
    if (peer->conn && rq_conn_is_open(peer->conn)) {
        conn = rq_conn_retain(peer->conn);
    } else if (!peer->closed) {
        rq_peer_kick_locked(peer);
    }
    rq_mutex_unlock(&peer->lock);
    return conn;
}

bool rq_peer_connected(struct rq_peer *peer)
{
    if (rq_loop_forked(peer->peers->loop)) {
        return false;
    }
    rq_mutex_lock(&peer->lock);
    bool connected = peer->conn && rq_conn_is_open(peer->conn);
    rq_mutex_unlock(&peer->lock);
    return connected;
}

rmq_status rq_peer_error(struct rq_peer *peer, rmq_status st, rmq_error **err)
{
    if (rq_loop_forked(peer->peers->loop)) {
        return rq_error_set(err, st, "%s: inherited through fork", peer->address);
    }
    rq_mutex_lock(&peer->lock);
    const char *what = st == RMQ_ERR_RESOLVE ? "resolve" : "connect to";
    if (peer->reason) {
        rq_error_set(err, st, "%s %s: %s", what, peer->address, peer->reason);
    } else {
        rq_error_set(err, st, "%s: %s", peer->address, rmq_status_text(st));
    }
    rq_mutex_unlock(&peer->lock);
    if (err) {
        rq_error_set_broker(*err, peer->address);
    }
    return st;
}

void rq_peer_reset(struct rq_peer *peer)
{
    struct rq_conn *conn = rq_peer_conn(peer);
    if (conn) {
        rq_conn_close(conn, RMQ_ERR_DISCONNECTED);
        rq_conn_release(conn);
    }
}
