/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Logical queues of static topics, from the mappings in a route (see the header). */
#include "wire/static_topic.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jhash.h"
#include "base/mem.h"

/* ---- names ---- */

/* The scope of all topics that mqadmin makes loses its first two characters: "__syslo__global__". */
static const char *behind_prefix(const char *scope)
{
    return strcmp(scope, RQ_MAPPING_SCOPE_GLOBAL) == 0 ? scope + 2 : scope;
}

char *rq_logical_name_of(const char *scope)
{
    struct rq_buf name;
    rq_buf_init(&name, 0);
    rq_buf_add_str(&name, RQ_LOGICAL_PREFIX);
    rq_buf_add_str(&name, behind_prefix(scope));
    char *text = rq_buf_status(&name) == RMQ_OK ? rq_buf_detach(&name) : NULL;
    rq_buf_free(&name);
    return text;
}

bool rq_logical_name_is_of(const char *name, const char *scope)
{
    return rq_broker_name_is_logical(name) &&
           strcmp(name + sizeof RQ_LOGICAL_PREFIX - 1, behind_prefix(scope)) == 0;
}

/* ---- the queues ---- */

static bool is_first_of_scope(const struct rq_queue_mapping_info *mappings, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(mappings[k].scope, mappings[i].scope) == 0) {
            return false;
        }
    }
    return true;
}

/* Brokers that have not been told of more queues yet count fewer. */
static int32_t most_queues(const struct rq_queue_mapping_info *mappings, size_t count,
                           const char *scope)
{
    int32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        if (mappings[i].total_queues > most && strcmp(mappings[i].scope, scope) == 0) {
            most = mappings[i].total_queues;
        }
    }
    return most;
}

/* A broker that lost a queue may not have told so yet: the newest word counts. */
static void set_hosts(const struct rq_queue_mapping_info *mapping, struct rq_static_queue *queues,
                      int32_t count)
{
    for (size_t i = 0; i < mapping->id_count; i++) {
        int32_t id = mapping->ids[i].logical;
        if (id >= 0 && id < count && (!queues[id].host || mapping->epoch >= queues[id].epoch)) {
            queues[id].host = mapping->broker_name;
            queues[id].own_id = mapping->ids[i].physical;
            queues[id].epoch = mapping->epoch;
        }
    }
}

static void fill_scope(const struct rq_queue_mapping_info *mappings, size_t mapping_count,
                       const char *scope, struct rq_static_queue *queues, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        queues[i] = (struct rq_static_queue){.scope = scope, .id = i};
    }
    for (size_t i = 0; i < mapping_count; i++) {
        if (strcmp(mappings[i].scope, scope) == 0) {
            set_hosts(&mappings[i], queues, count);
        }
    }
}

static int by_scope_and_id(const void *a, const void *b)
{
    const struct rq_static_queue *x = a;
    const struct rq_static_queue *y = b;
    int order = rq_java_compare(rq_slice_str(x->scope), rq_slice_str(y->scope));
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

struct queue_list {
    struct rq_static_queue *items;
    size_t count;
};

static rmq_status add_scope(const struct rq_queue_mapping_info *mappings, size_t mapping_count,
                            const char *scope, struct queue_list *list, rmq_error **err)
{
    int32_t n = most_queues(mappings, mapping_count, scope);
    if (n > RQ_STATIC_QUEUES_MAX - (int32_t)list->count) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "a static topic of %zu queues and %d more",
                            list->count, (int)n);
    }
    if (n == 0) {
        return RMQ_OK;
    }
    struct rq_static_queue *grown =
        rq_realloc(list->items, (list->count + (size_t)n) * sizeof *grown);
    if (!grown) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%d queues of a static topic", (int)n);
    }
    fill_scope(mappings, mapping_count, scope, grown + list->count, n);
    list->items = grown;
    list->count += (size_t)n;
    return RMQ_OK;
}

rmq_status rq_static_queues(const struct rq_queue_mapping_info *mappings, size_t mapping_count,
                            struct rq_static_queue **out, size_t *count, rmq_error **err)
{
    struct queue_list list = {0};
    rmq_status st = RMQ_OK;
    for (size_t i = 0; i < mapping_count && st == RMQ_OK; i++) {
        if (is_first_of_scope(mappings, i)) {
            st = add_scope(mappings, mapping_count, mappings[i].scope, &list, err);
        }
    }
    if (st != RMQ_OK) {
        rq_free(list.items);
        list = (struct queue_list){0};
    }
    if (list.count > 1) {
        qsort(list.items, list.count, sizeof *list.items, by_scope_and_id);
    }
    *out = list.items;
    *count = list.count;
    return st;
}
