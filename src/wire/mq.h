/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A message queue as a name: topic, broker and queue id. The strings are borrowed; who keeps one
 * longer copies it. Counterpart: MessageQueue. */
#ifndef RQ_WIRE_MQ_H
#define RQ_WIRE_MQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rq_mq {
    const char *topic;
    const char *broker_name;
    int32_t queue_id;
};

bool rq_mq_equal(const struct rq_mq *a, const struct rq_mq *b);
/* By Java's order: topic, broker name (both by UTF-16 units), queue id. All members of a group must
 * sort alike. */
void rq_mq_sort(struct rq_mq *queues, size_t count);
void rq_mq_sort_clients(const char **clients, size_t count);

/* What a new share changes: gone[i] for owned queues that are not in it, added[i] for its queues
 * that were not owned, once for each. */
void rq_mq_diff(const struct rq_mq *owned, size_t owned_count, const struct rq_mq *share,
                size_t share_count, bool *gone, bool *added);

#endif
