/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Which messages a subscription lets through, for everything that reads the store for a consumer.
 * Any thread. Counterpart: ExpressionMessageFilter. */
#ifndef RQ_BROKER_FILTER_H
#define RQ_BROKER_FILTER_H

#include "broker/clients.h"
#include "store/store.h"

/* Takes sub, also on failure (NULL, no memory). An SQL92 expression is compiled; when it is wrong,
 * sql stays NULL and *err (may be NULL) tells why. */
struct rq_shared_subscription *rq_shared_subscription_create(struct rq_subscription *sub,
                                                             rmq_error **err);

/* Tags, or a type that a request does not name. */
bool rq_filter_is_tag(struct rq_slice type);

/* The subscription that a request brings along. NULL: it is wrong, and *err (may be NULL) tells
 * why, or there is no memory or no such type. */
struct rq_shared_subscription *rq_filter_make(struct rq_slice topic, struct rq_slice expression,
                                              struct rq_slice type, int64_t version,
                                              rmq_error **err);

/* The store's filter; NULL = every message. Borrows the subscription. One whose expression is wrong
 * lets nothing through. */
void rq_filter_of(const struct rq_shared_subscription *shared, struct rq_store_filter *out);

/* Whether its messages must be looked at, not only their tags' codes. */
static inline bool rq_filter_reads_messages(const struct rq_shared_subscription *shared)
{
    return shared && !rq_subscription_is_tag(shared->sub);
}

#endif
