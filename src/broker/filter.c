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

bool rq_filter_is_tag(struct rq_slice type)
{
    return type.n == 0 || rq_slice_eq_str(type, RQ_EXPRESSION_TAG);
}

struct rq_shared_subscription *rq_filter_make(struct rq_slice topic, struct rq_slice expression,
                                              struct rq_slice type, int64_t version,
                                              rmq_error **err)
{
    bool is_tag = rq_filter_is_tag(type);
    char *topic_text = rq_slice_dup(topic);
    char *expression_text = rq_slice_dup(expression);
    char *type_text = is_tag ? NULL : rq_slice_dup(type);
    struct rq_subscription *sub = NULL;
    if (topic_text && expression_text && (type_text || is_tag)) {
        (void)rq_subscription_create(topic_text, expression_text, type_text, version, &sub, err);
    }
    rq_free(topic_text);
    rq_free(expression_text);
    rq_free(type_text);
    struct rq_shared_subscription *shared = sub ? rq_shared_subscription_create(sub, err) : NULL;
    if (rq_filter_reads_messages(shared) && !shared->sql) {
        rq_shared_subscription_release(shared);
        return NULL;
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
