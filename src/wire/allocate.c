/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The strategies that share a topic's queues out among the members of a group. Called by the
 * rebalance on the I/O thread; pure, so any thread may. Counterparts:
 * AllocateMessageQueueAveragely, …AveragelyByCircle, …ConsistentHash, …ByMachineRoom, …ByConfig,
 * AllocateMachineRoomNearby.
 */
#include "wire/allocate.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/md5.h"
#include "base/mem.h"

#define NOT_A_MEMBER SIZE_MAX

struct pick {
    size_t *out;
    size_t count;
};

static void take(struct pick *pick, size_t index)
{
    pick->out[pick->count++] = index;
}

static size_t member_index(const struct rq_allocate *in)
{
    for (size_t i = 0; i < in->client_count; i++) {
        if (strcmp(in->clients[i], in->client_id) == 0) {
            return i;
        }
    }
    return NOT_A_MEMBER;
}

/* Queues are taken in runs; the first n mod c members get one more. With more members than
 * queues the last ones get none. */
static rmq_status average(const struct rq_allocate *in, size_t self, struct pick *pick)
{
    size_t n = in->queue_count;
    size_t c = in->client_count;
    size_t rest = n % c;
    bool more = rest > 0 && self < rest;
    size_t size = n <= c ? 1 : n / c + (more ? 1 : 0);
    size_t start = more ? self * size : self * size + rest;
    for (size_t i = start; i < n && i < start + size; i++) {
        take(pick, i);
    }
    return RMQ_OK;
}

static rmq_status circle(const struct rq_allocate *in, size_t self, struct pick *pick)
{
    for (size_t i = self; i < in->queue_count; i += in->client_count) {
        take(pick, i);
    }
    return RMQ_OK;
}

/* ---- hash ring ---- */

struct ring_node {
    uint32_t hash;
    size_t client;
};

uint32_t rq_allocate_ring_hash(struct rq_slice text)
{
    uint8_t digest[RQ_MD5_SIZE];
    rq_md5(text.p, text.n, digest);
    return rq_load_be32(digest);
}

static int order_nodes(const void *a, const void *b)
{
    const struct ring_node *left = a;
    const struct ring_node *right = b;
    if (left->hash != right->hash) {
        return left->hash < right->hash ? -1 : 1;
    }
    /* Of equal hashes the later client overwrites in Java's map: it comes first here, where the
     * first one is found. */
    return (left->client < right->client) - (left->client > right->client);
}

static rmq_status ring_build(const struct rq_allocate *in, struct ring_node *nodes)
{
    struct rq_buf key;
    rq_buf_init(&key, 0);
    size_t n = 0;
    for (size_t client = 0; client < in->client_count; client++) {
        for (size_t i = 0; i < in->virtual_nodes; i++) {
            rq_buf_clear(&key);
            rq_buf_addf(&key, "%s-%zu", in->clients[client], i);
            nodes[n].client = client;
            nodes[n++].hash = rq_allocate_ring_hash(rq_slice(key.data, key.len));
        }
    }
    rmq_status st = rq_buf_status(&key);
    rq_buf_free(&key);
    if (st == RMQ_OK) {
        qsort(nodes, n, sizeof *nodes, order_nodes);
    }
    return st;
}

/* Owner of a hash: the first node at or after it, else the first of the ring. */
static size_t ring_owner(const struct ring_node *nodes, size_t count, uint32_t hash)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (nodes[middle].hash < hash) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return nodes[low < count ? low : 0].client;
}

static rmq_status ring_pick(const struct rq_allocate *in, size_t self,
                            const struct ring_node *nodes, size_t count, struct pick *pick)
{
    struct rq_buf key;
    rq_buf_init(&key, 0);
    for (size_t i = 0; i < in->queue_count; i++) {
        const struct rq_mq *queue = &in->queues[i];
        rq_buf_clear(&key);
        rq_buf_addf(&key, "MessageQueue [topic=%s, brokerName=%s, queueId=%d]", queue->topic,
                    queue->broker_name, (int)queue->queue_id);
        uint32_t hash = rq_allocate_ring_hash(rq_slice(key.data, key.len));
        if (ring_owner(nodes, count, hash) == self) {
            take(pick, i);
        }
    }
    rmq_status st = rq_buf_status(&key);
    rq_buf_free(&key);
    return st;
}

static rmq_status consistent_hash(const struct rq_allocate *in, size_t self, struct pick *pick)
{
    size_t count = in->client_count * in->virtual_nodes;
    if (count == 0) {
        return RMQ_OK;
    }
    struct ring_node *nodes = rq_calloc(count, sizeof *nodes);
    if (!nodes) {
        return RMQ_ERR_NOMEM;
    }
    rmq_status st = ring_build(in, nodes);
    if (st == RMQ_OK) {
        st = ring_pick(in, self, nodes, count, pick);
    }
    rq_free(nodes);
    return st;
}

/* ---- machine rooms ---- */

/* Broker names are "room@name" here; others have no room. */
static bool in_rooms(const struct rq_allocate *in, const char *broker_name)
{
    const char *at = strchr(broker_name, '@');
    if (!at || !at[1] || strchr(at + 1, '@')) {
        return false;
    }
    struct rq_slice room = rq_slice(broker_name, (size_t)(at - broker_name));
    for (size_t i = 0; i < in->room_count; i++) {
        if (rq_slice_eq_str(room, in->rooms[i])) {
            return true;
        }
    }
    return false;
}

/* A run of n / c queues each; the rest goes one by one to the first members, behind all runs. */
static rmq_status machine_room(const struct rq_allocate *in, size_t self, struct pick *pick)
{
    size_t *usable = rq_calloc(in->queue_count, sizeof *usable);
    if (!usable) {
        return RMQ_ERR_NOMEM;
    }
    size_t n = 0;
    for (size_t i = 0; i < in->queue_count; i++) {
        if (in_rooms(in, in->queues[i].broker_name)) {
            usable[n++] = i;
        }
    }
    size_t run = n / in->client_count;
    size_t rest = n % in->client_count;
    for (size_t i = run * self; i < run * (self + 1); i++) {
        take(pick, usable[i]);
    }
    if (self < rest) {
        take(pick, usable[self + run * in->client_count]);
    }
    rq_free(usable);
    return RMQ_OK;
}

struct nearby {
    struct rq_mq *queues; /* of one room */
    size_t *index;        /* their places in the whole list */
    const char **clients; /* of that room */
    size_t *picked;
};

static void nearby_free(struct nearby *room)
{
    rq_free(room->queues);
    rq_free(room->index);
    rq_free(room->clients);
    rq_free(room->picked);
}

static rmq_status nearby_init(struct nearby *room, const struct rq_allocate *in)
{
    room->queues = rq_calloc(in->queue_count, sizeof *room->queues);
    room->index = rq_calloc(in->queue_count, sizeof *room->index);
    room->clients = rq_calloc(in->client_count, sizeof *room->clients);
    room->picked = rq_calloc(in->queue_count, sizeof *room->picked);
    bool whole = room->queues && room->index && room->clients && room->picked;
    return whole ? RMQ_OK : RMQ_ERR_NOMEM;
}

/* Shares one room's queues among its own clients, or among all clients when it has none. */
static rmq_status nearby_room(const struct rq_allocate *in, struct nearby *room,
                              struct rq_slice name, bool own, struct pick *pick)
{
    struct rq_allocate part = *in;
    part.queues = room->queues;
    part.clients = room->clients;
    part.queue_count = 0;
    part.client_count = 0;
    for (size_t i = 0; i < in->queue_count; i++) {
        if (rq_slice_eq(in->room_of(in->queues[i].broker_name, in->room_user), name)) {
            room->index[part.queue_count] = i;
            room->queues[part.queue_count++] = in->queues[i];
        }
    }
    for (size_t i = 0; i < in->client_count; i++) {
        if (rq_slice_eq(in->room_of(in->clients[i], in->room_user), name)) {
            room->clients[part.client_count++] = in->clients[i];
        }
    }
    if (!own && part.client_count > 0) {
        return RMQ_OK;
    }
    if (!own) {
        part.clients = in->clients;
        part.client_count = in->client_count;
    }
    if (part.queue_count == 0 || part.client_count == 0) {
        return RMQ_OK;
    }
    size_t count = 0;
    rmq_status st = rq_allocate(in->inner, &part, room->picked, &count, NULL);
    for (size_t i = 0; st == RMQ_OK && i < count; i++) {
        take(pick, room->index[room->picked[i]]);
    }
    return st;
}

static bool room_seen(const struct rq_allocate *in, size_t at)
{
    struct rq_slice name = in->room_of(in->queues[at].broker_name, in->room_user);
    for (size_t i = 0; i < at; i++) {
        if (rq_slice_eq(in->room_of(in->queues[i].broker_name, in->room_user), name)) {
            return true;
        }
    }
    return false;
}

/* Queues are sorted by broker name, and a room is a prefix of it, so rooms come up in the order
 * of their names. */
static rmq_status machine_room_nearby(const struct rq_allocate *in, size_t self, struct pick *pick)
{
    if (self == NOT_A_MEMBER || !in->room_of || in->inner == RQ_ALLOCATE_MACHINE_ROOM_NEARBY) {
        return self == NOT_A_MEMBER ? RMQ_OK : RMQ_ERR_INVALID;
    }
    struct nearby room = {0};
    rmq_status st = nearby_init(&room, in);
    struct rq_slice own = in->room_of(in->client_id, in->room_user);
    if (st == RMQ_OK) {
        st = nearby_room(in, &room, own, true, pick);
    }
    for (size_t i = 0; st == RMQ_OK && i < in->queue_count; i++) {
        if (!room_seen(in, i)) {
            st = nearby_room(in, &room, in->room_of(in->queues[i].broker_name, in->room_user),
                             false, pick);
        }
    }
    nearby_free(&room);
    return st;
}

/* ---- a fixed list ---- */

static rmq_status config(const struct rq_allocate *in, size_t self, struct pick *pick)
{
    (void)self;
    for (size_t i = 0; i < in->queue_count; i++) {
        for (size_t k = 0; k < in->configured_count; k++) {
            if (rq_mq_equal(&in->queues[i], &in->configured[k])) {
                take(pick, i);
                break;
            }
        }
    }
    return RMQ_OK;
}

static const struct {
    const char *name;
    rmq_status (*pick)(const struct rq_allocate *in, size_t self, struct pick *pick);
    bool members_only;
} strategies[] = {
    [RQ_ALLOCATE_AVG] = {"AVG", average, true},
    [RQ_ALLOCATE_AVG_BY_CIRCLE] = {"AVG_BY_CIRCLE", circle, true},
    [RQ_ALLOCATE_CONSISTENT_HASH] = {"CONSISTENT_HASH", consistent_hash, true},
    [RQ_ALLOCATE_MACHINE_ROOM] = {"MACHINE_ROOM", machine_room, true},
    [RQ_ALLOCATE_MACHINE_ROOM_NEARBY] = {"MACHINE_ROOM_NEARBY", machine_room_nearby, true},
    [RQ_ALLOCATE_CONFIG] = {"CONFIG", config, false},
};

rmq_status rq_allocate(enum rq_allocate_strategy strategy, const struct rq_allocate *in,
                       size_t *picked, size_t *count, rmq_error **err)
{
    *count = 0;
    if (!in->client_id || !*in->client_id || in->queue_count == 0 || in->client_count == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "nothing to share: %zu queues, %zu clients, id '%s'", in->queue_count,
                            in->client_count, in->client_id ? in->client_id : "");
    }
    size_t self = member_index(in);
    if (self == NOT_A_MEMBER && strategies[strategy].members_only) {
        return RMQ_OK;
    }
    struct pick pick = {.out = picked, .count = 0};
    rmq_status st = strategies[strategy].pick(in, self, &pick);
    if (st != RMQ_OK) {
        return rq_error_set(err, st, "queues could not be shared out by %s",
                            strategies[strategy].name);
    }
    *count = pick.count;
    return RMQ_OK;
}

bool rq_allocate_strategy_find(const char *name, enum rq_allocate_strategy *out)
{
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        if (strcmp(strategies[i].name, name) == 0) {
            *out = (enum rq_allocate_strategy)i;
            return true;
        }
    }
    return false;
}
