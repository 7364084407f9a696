/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Subscriptions: a topic with a filter expression. For tags the expression is a list "A || B", from
 * which tags and their hashes are made; the broker filters by hash, the consumer compares the text
 * again. Immutable after creation, so any thread may read one. Counterparts: SubscriptionData,
 * FilterAPI.
 */
#ifndef RQ_WIRE_SUBSCRIPTION_H
#define RQ_WIRE_SUBSCRIPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"

#define RQ_EXPRESSION_TAG   "TAG"
#define RQ_EXPRESSION_SQL92 "SQL92"
#define RQ_SUBSCRIBE_ALL    "*"

/* Tags of one expression, of any peer: each is compared with every message and with the others. */
#define RQ_SUBSCRIPTION_TAGS_MAX 4096

/* All memory is one allocation, texts included. */
struct rq_subscription {
    const char *topic;
    const char *sub_string; /* the expression; "*" for everything */
    const char *expression_type;
    size_t tag_count;
    const char *const *tags; /* in order of first appearance, without duplicates */
    size_t code_count;
    const int32_t *codes; /* hashes of the tags, without duplicates */
    int64_t version;      /* subVersion: ms, the higher one is the newer */
    bool class_filter_mode;
};

/* From an expression; NULL and "" mean everything. type NULL = TAG. Errors: RMQ_ERR_INVALID ("||"
 * alone, too many tags), RMQ_ERR_NOMEM. */
rmq_status rq_subscription_create(const char *topic, const char *expression, const char *type,
                                  int64_t version, struct rq_subscription **out, rmq_error **err);
/* NULL when out of memory. */
struct rq_subscription *rq_subscription_copy(const struct rq_subscription *sub);
void rq_subscription_destroy(struct rq_subscription *sub); /* NULL is accepted */

/* From and to the JSON object of heartbeats. Tags and codes are read as they are. Errors:
 * RMQ_ERR_PROTOCOL (no topic, too many tags), RMQ_ERR_NOMEM. */
rmq_status rq_subscription_parse(const cJSON *json, struct rq_subscription **out, rmq_error **err);
void rq_subscription_write(const struct rq_subscription *sub, struct rq_buf *out);

bool rq_subscription_is_tag(const struct rq_subscription *sub); /* not SQL92 */

/* Whether a message with this consume-queue code may match: by hash only. Always true for SQL92. */
bool rq_subscription_match_code(const struct rq_subscription *sub, int64_t tags_code);

/* Whether a message with this tag (p == NULL or empty = none) matches, by text. Always true for
 * SQL92 and "*". */
bool rq_subscription_match_tag(const struct rq_subscription *sub, struct rq_slice tag);

/* Code of a tag in the consume queue: Java's hash, sign-extended; 0 for none. */
int64_t rq_tags_code(struct rq_slice tag);

#endif
