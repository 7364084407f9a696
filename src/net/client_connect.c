/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * How a peer gets its connection, and again after its end: attempts, back-off, the log of an outage
 * (see client.h). All on the loop; other threads ask the loop to look at a peer. Counterpart:
 * NettyRemotingClient's createChannel and connect handlers.
 */
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/client_priv.h"
#include "net/conn_priv.h"

#define MAX_TIMEOUTS 3
/* the first tries are for a peer that restarts; then it is an outage */
#define BACKOFF_GROWTH     4
#define BACKOFF_PRESENT_MS 200
#define STEADY_MS          5000 /* a connection that lived so long was a good one */
#define WANTED_MS          1100 /* while calls wait: an attempt a second, not more */
#define WANTED_JITTER_MS   200

static void look(struct rq_peer *peer);

static bool is_held(struct rq_peer *peer)
{
    return atomic_load_explicit(&peer->holders, memory_order_acquire) > 0;
}

static int64_t jitter(struct rq_peer *peer, int64_t ms)
{
    peer->seed = peer->seed * 1664525U + 1013904223U;
    return ms / 2 + (int64_t)(peer->seed >> 16) % (ms / 2 + 1);
}

static void back_off_locked(struct rq_peer *peer)
{
    const struct rq_peers_options *options = &peer->peers->options;
    int64_t now = rq_loop_now(peer->peers->loop);
    int64_t ms = peer->backoff_ms ? peer->backoff_ms * BACKOFF_GROWTH : options->backoff_first_ms;
    peer->backoff_ms = ms < options->backoff_most_ms ? ms : options->backoff_most_ms;
    peer->next_attempt_ms = now + jitter(peer, peer->backoff_ms);
    peer->wanted_attempt_ms = now + WANTED_MS + jitter(peer, WANTED_JITTER_MS);
}

static void log_failure(struct rq_peer *peer, const char *reason)
{
    peer->attempts++;
    if (peer->outage_ms == 0) {
        peer->outage_ms = rq_loop_now(peer->peers->loop);
        RQ_LOG(WARN, "connect failed, trying on", "%s=%s reason=\"%s\"", peer->role, peer->address,
               reason);
    }
}

static void log_recovery(struct rq_peer *peer)
{
    if (peer->outage_ms != 0) {
        RQ_LOG(WARN, "connected again", "%s=%s after_ms=%lld attempts=%d", peer->role,
               peer->address, (long long)(rq_loop_now(peer->peers->loop) - peer->outage_ms),
               peer->attempts);
    }
    peer->outage_ms = 0;
    peer->attempts = 0;
}

/* A reason begins with the address that was tried: said already, unless the peer has a name. */
static const char *without_address(const struct rq_peer *peer, const char *reason)
{
    size_t n = strlen(peer->address);
    return strncmp(reason, peer->address, n) == 0 && strncmp(reason + n, ": ", 2) == 0
               ? reason + n + 2
               : reason;
}

static void attempt_failed(struct rq_peer *peer, rmq_status st, const char *reason)
{
    struct rq_list failed;
    rq_list_init(&failed);
    reason = without_address(peer, reason);
    char *copy = rq_strdup(reason);
    log_failure(peer, reason);
    rq_mutex_lock(&peer->lock);
    peer->connecting = false;
    peer->failing = true;
    peer->failure = st;
    back_off_locked(peer);
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
static void plan_after_close_locked(struct rq_peer *peer, const struct rq_conn *conn)
{
    int64_t now = rq_loop_now(peer->peers->loop);
    if (conn->answer_size > 0 && peer->backoff_ms > BACKOFF_PRESENT_MS) {
        peer->backoff_ms = BACKOFF_PRESENT_MS;
    }
    if (now - peer->connected_ms >= STEADY_MS) {
        peer->backoff_ms = 0;
        peer->next_attempt_ms = now;
    } else {
        back_off_locked(peer);
    }
}

static void on_conn_close(struct rq_conn *conn, rmq_status why)
{
    struct rq_peer *peer = rq_conn_owner(conn);
    struct rq_peers *peers = peer->peers;
    const struct rq_peers_options *options = &peers->options;
    rq_mutex_lock(&peer->lock);
    peer->conn = NULL;
    plan_after_close_locked(peer, conn);
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
                                           .max_timeouts = MAX_TIMEOUTS,
                                           .hidden = options->hidden};
    void *self = NULL;
    const struct rq_transport *transport = NULL;
    if (options->transport) {
        transport = options->transport(options->user, peer, &self);
        if (!transport) {
            return RMQ_ERR_NOMEM;
        }
    }
    conn_options.transport = transport;
    conn_options.transport_self = self;
    rmq_status st = rq_conn_create(peer->peers->loop, fd, &conn_options, out, NULL);
    if (st != RMQ_OK && transport && transport->destroy) {
        transport->destroy(self);
    }
    return st;
}

static void use_conn(struct rq_peer *peer, struct rq_conn *conn)
{
    const struct rq_peers_options *options = &peer->peers->options;
    struct rq_list failed;
    rq_list_init(&failed);
    rq_peer_ref(peer); /* until on_conn_close */
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
    rq_peer_ref(peer);
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
    /* A call comes for its own reason, and perhaps its broker with it. */
    bool sooner = waiting && peer->wanted_attempt_ms < peer->next_attempt_ms;
    int64_t due = sooner ? peer->wanted_attempt_ms : peer->next_attempt_ms;
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
    rq_peer_ref(peer);
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
        rq_peer_ref(peer);
        if (!rq_loop_post(peer->peers->loop, &peer->kick_task)) {
            rq_peer_unref(peer);
        }
    }
}

void rq_peer_connect_init(struct rq_peer *peer)
{
    peer->kick_task.run = on_kick;
    rq_timer_init(&peer->retry_timer, on_retry);
}
