/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Which queues of a topic belong to which member of a group: pure arithmetic that every member, in
 * every language, must do alike. Queues and clients come sorted (rq_mq_sort, rq_mq_sort_clients).
 * Any thread. Counterparts: AllocateMessageQueueStrategy and its implementations.
 */
#ifndef RQ_WIRE_ALLOCATE_H
#define RQ_WIRE_ALLOCATE_H

#include <stdbool.h>
#include <stddef.h>

#include <rmq/error.h>

#include "base/slice.h"
#include "wire/mq.h"

enum rq_allocate_strategy {
    RQ_ALLOCATE_AVG,
    RQ_ALLOCATE_AVG_BY_CIRCLE,
    RQ_ALLOCATE_CONSISTENT_HASH,
    RQ_ALLOCATE_MACHINE_ROOM,
    RQ_ALLOCATE_MACHINE_ROOM_NEARBY,
    RQ_ALLOCATE_CONFIG
};

#define RQ_ALLOCATE_VIRTUAL_NODES 10

struct rq_allocate {
    const char *client_id; /* who asks */
    const struct rq_mq *queues;
    size_t queue_count;
    const char *const *clients;
    size_t client_count;

    size_t virtual_nodes; /* CONSISTENT_HASH: ring nodes per client */
    const char *const
        *rooms; /* MACHINE_ROOM: the rooms whose queues count (broker name "room@…") */
    size_t room_count;
    enum rq_allocate_strategy inner; /* MACHINE_ROOM_NEARBY: strategy within a room */
    /* MACHINE_ROOM_NEARBY: room of a broker name or client id. */
    struct rq_slice (*room_of)(const char *name, void *user);
    void *room_user;
    const struct rq_mq
        *configured; /* CONFIG: the list itself; those that the topic has are taken */
    size_t configured_count;
};

/* Writes the indexes into queues that are the client's, in Java's order, to picked (room for
 * queue_count) and their number to *count: 0 for a client that is not in the list. Errors:
 * RMQ_ERR_INVALID (no client id, no queues, no clients), RMQ_ERR_NOMEM. */
rmq_status rq_allocate(enum rq_allocate_strategy strategy, const struct rq_allocate *in,
                       size_t *picked, size_t *count, rmq_error **err);

/* "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY", "CONFIG";
 * false for another text. */
bool rq_allocate_strategy_find(const char *name, enum rq_allocate_strategy *out);

/* Position of a text on the hash ring: first four bytes of its MD5, as a big-endian number. */
uint32_t rq_allocate_ring_hash(struct rq_slice text);

#endif
