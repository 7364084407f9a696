/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Filters of subscriptions: tags by their codes in the queue, SQL92 by the properties of the stored
 * message. */
#include "broker/filter.h"

#include "base/mem.h"
#include "broker/sql.h"
#include "wire/message.h"

struct rq_shared_subscription *rq_shared_subscription_create(struct rq_subscription *sub,
                                                             rmq_error **err)
{
    struct rq_shared_subscription *shared = rq_calloc(1, sizeof *shared);
    if (!shared) {
        rq_subscription_destroy(sub);
        return NULL;
    }
    atomic_init(&shared->refs, 1);
    shared->sub = sub;
    if (strcmp(sub->expression_type, RQ_EXPRESSION_SQL92) == 0) {
        (void)rq_sql_compile(rq_slice_str(sub->sub_string), &shared->sql, err);
    }
    return shared;
}

static bool match(struct rq_slice record, void *user)
{
    const struct rq_shared_subscription *shared = user;
    struct rq_cursor cursor = rq_cursor(record.p, record.n);
    struct rq_msg msg;
    return shared->sql && rq_msg_decode(&cursor, &msg, NULL) == RMQ_OK &&
           rq_sql_evaluate(shared->sql, msg.properties) == RQ_SQL_TRUE;
}

void rq_filter_of(const struct rq_shared_subscription *shared, struct rq_store_filter *out)
{
    *out = (struct rq_store_filter){0};
    if (rq_filter_reads_messages(shared)) {
        out->match = match;
        out->user = (void *)(uintptr_t)shared; /* only read */
    } else if (shared) {
        out->codes = shared->sub->codes;
        out->count = shared->sub->code_count;
    }
}
