/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Peers by their address, and who holds them: made at first need, kept while somebody holds one,
 * closed together. Other threads only look at the connection, under the peer's lock;
 * client_connect.c makes it. Counterpart: NettyRemotingClient's channelTables.
 */
#include "net/client.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/client_priv.h"
#include "net/conn_priv.h"

#define CONNECT_TIMEOUT_MS 3000
#define IDLE_MS            120000
#define MAX_QUEUED         ((size_t)64 << 20)
#define MAX_IN_FLIGHT      65535
#define BACKOFF_FIRST_MS   100
#define BACKOFF_MOST_MS    4000

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

void rq_peer_ref(struct rq_peer *peer)
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
    atomic_init(&peers->oneway_bytes, 0);
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
    peer->role = "peer";
    peer->seed = (uint32_t)rq_mono_us() ^ (uint32_t)rq_hash_bytes(address, strlen(address));
    atomic_init(&peer->refs, 1);
    atomic_init(&peer->holders, 0);
    rq_mutex_init(&peer->lock);
    rq_list_init(&peer->waiting);
    rq_peer_connect_init(peer);
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
    rq_peer_ref(peer);
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

void rq_peer_set_role(struct rq_peer *peer, const char *role)
{
    peer->role = role;
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
    if (peer->reason || st == RMQ_ERR_CONNECT) {
        rq_error_set(err, st, "%s %s: %s", what, peer->address,
                     peer->reason ? peer->reason : "there was no connection in time");
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
