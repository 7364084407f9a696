/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Mappings of static topics: memory and JSON (see the header). */
#include "broker/queue_mapping.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "wire/queue_mapping.h"

static void free_queue(struct rq_mapped_queue *queue)
{
    for (size_t i = 0; queue->items && i < queue->count; i++) {
        rq_free(queue->items[i].broker_name);
    }
    rq_free(queue->items);
}

struct rq_queue_mapping *rq_queue_mapping_retain(struct rq_queue_mapping *mapping)
{
    if (mapping) {
        atomic_fetch_add_explicit(&mapping->refs, 1, memory_order_relaxed);
    }
    return mapping;
}

void rq_queue_mapping_release(struct rq_queue_mapping *mapping)
{
    if (!mapping || atomic_fetch_sub_explicit(&mapping->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < mapping->count; i++) {
        free_queue(&mapping->queues[i]);
    }
    rq_free(mapping->queues);
    rq_free(mapping->topic);
    rq_free(mapping->scope);
    rq_free(mapping->broker_name);
    rq_free(mapping);
}

static struct rq_queue_mapping *make_mapping(const char *topic, const char *scope,
                                             const char *broker_name)
{
    struct rq_queue_mapping *mapping = rq_calloc(1, sizeof *mapping);
    if (!mapping) {
        return NULL;
    }
    atomic_init(&mapping->refs, 1);
    mapping->topic = rq_strdup(topic);
    mapping->scope = rq_strdup(scope);
    mapping->broker_name = rq_strdup(broker_name);
    if (!mapping->topic || !mapping->scope || !mapping->broker_name) {
        rq_queue_mapping_release(mapping);
        return NULL;
    }
    return mapping;
}

struct rq_queue_mapping *rq_queue_mapping_like(const struct rq_queue_mapping *mapping)
{
    struct rq_queue_mapping *copy =
        make_mapping(mapping->topic, mapping->scope, mapping->broker_name);
    if (copy) {
        copy->total_queues = mapping->total_queues;
        copy->epoch = mapping->epoch;
        copy->dirty = mapping->dirty;
    }
    return copy;
}

/* ---- queues ---- */

static int compare_queues(const void *a, const void *b)
{
    const struct rq_mapped_queue *x = a;
    const struct rq_mapped_queue *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Among the first count, which are in order. */
static const struct rq_mapped_queue *find_among(const struct rq_queue_mapping *mapping,
                                                size_t count, int32_t id)
{
    const struct rq_mapped_queue key = {.id = id};
    return count ? bsearch(&key, mapping->queues, count, sizeof key, compare_queues) : NULL;
}

const struct rq_mapped_queue *rq_queue_mapping_find(const struct rq_queue_mapping *mapping,
                                                    int32_t id)
{
    return find_among(mapping, mapping->count, id);
}

static void sort_queues(struct rq_queue_mapping *mapping)
{
    if (mapping->count > 1) {
        qsort(mapping->queues, mapping->count, sizeof *mapping->queues, compare_queues);
    }
}

/* Takes the items of the queue on success. */
static rmq_status append_queue(struct rq_queue_mapping *mapping, struct rq_mapped_queue queue)
{
    struct rq_mapped_queue *queues =
        rq_realloc(mapping->queues, (mapping->count + 1) * sizeof *queues);
    if (!queues) {
        return RMQ_ERR_NOMEM;
    }
    mapping->queues = queues;
    queues[mapping->count++] = queue;
    return RMQ_OK;
}

rmq_status rq_queue_mapping_add(struct rq_queue_mapping *mapping,
                                const struct rq_mapped_queue *queue, size_t skip)
{
    struct rq_mapped_queue copy = {.id = queue->id,
                                   .items = rq_calloc(queue->count - skip, sizeof *copy.items)};
    rmq_status st = copy.items ? RMQ_OK : RMQ_ERR_NOMEM;
    for (size_t i = skip; !st && i < queue->count; i++) {
        struct rq_mapping_item *item = &copy.items[copy.count];
        *item = queue->items[i];
        item->broker_name = rq_strdup(queue->items[i].broker_name);
        st = item->broker_name ? RMQ_OK : RMQ_ERR_NOMEM;
        copy.count += st == RMQ_OK;
    }
    st = st ? st : append_queue(mapping, copy);
    if (st) {
        free_queue(&copy);
    }
    return st;
}

rmq_status rq_queue_mapping_complete(struct rq_queue_mapping *mapping,
                                     const struct rq_queue_mapping *from)
{
    size_t named = mapping->count;
    rmq_status st = RMQ_OK;
    for (size_t i = 0; !st && i < from->count; i++) {
        if (!find_among(mapping, named, from->queues[i].id)) {
            st = rq_queue_mapping_add(mapping, &from->queues[i], 0);
        }
    }
    sort_queues(mapping);
    return st;
}

/* ---- JSON ---- */

static rmq_status read_item(const cJSON *json, struct rq_mapping_item *out, rmq_error **err)
{
    const char *broker_name = rq_json_str(json, "bname", "");
    if (!*broker_name) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "a mapped queue without a broker name");
    }
    *out = (struct rq_mapping_item){.gen = rq_json_i32(json, "gen", 0),
                                    .queue_id = rq_json_i32(json, "queueId", 0),
                                    .broker_name = rq_strdup(broker_name),
                                    .logic_offset = rq_json_i64(json, "logicOffset", 0),
                                    .start_offset = rq_json_i64(json, "startOffset", 0),
                                    .end_offset = rq_json_i64(json, "endOffset", -1),
                                    .time_of_start = rq_json_i64(json, "timeOfStart", -1),
                                    .time_of_end = rq_json_i64(json, "timeOfEnd", -1)};
    return out->broker_name ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
}

/* A queue without items is one that the broker does not have. */
static rmq_status read_queue(const cJSON *json, struct rq_queue_mapping *mapping, rmq_error **err)
{
    struct rq_mapped_queue queue = {0};
    int count = cJSON_IsArray(json) ? cJSON_GetArraySize(json) : 0;
    if (count == 0) {
        return RMQ_OK;
    }
    if (!rq_slice_to_i32(rq_slice_str(json->string), &queue.id)) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "a mapped queue has no number but \"%s\"",
                            json->string);
    }
    queue.items = rq_calloc((size_t)count, sizeof *queue.items);
    rmq_status st =
        queue.items ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "%d mapped items", count);
    for (const cJSON *item = json->child; item && !st; item = item->next) {
        st = read_item(item, &queue.items[queue.count], err);
        queue.count += st == RMQ_OK;
    }
    if (!st && (st = append_queue(mapping, queue))) {
        st = rq_error_set(err, st, "mapped queue %d: %s", queue.id, rmq_status_text(st));
    }
    if (st) {
        free_queue(&queue);
    }
    return st;
}

/* In order, and each once. */
static rmq_status read_queues(const cJSON *json, struct rq_queue_mapping *mapping, rmq_error **err)
{
    const cJSON *item;
    rmq_status st = RMQ_OK;
    cJSON_ArrayForEach(item, json)
    {
        st = st ? st : read_queue(item, mapping, err);
    }
    sort_queues(mapping);
    for (size_t i = 1; !st && i < mapping->count; i++) {
        if (mapping->queues[i].id == mapping->queues[i - 1].id) {
            st = rq_error_set(err, RMQ_ERR_PROTOCOL, "mapped queue %d is there twice",
                              mapping->queues[i].id);
        }
    }
    return st;
}

rmq_status rq_queue_mapping_parse(const cJSON *json, struct rq_queue_mapping **out, rmq_error **err)
{
    const char *topic = rq_json_str(json, "topic", "");
    const char *broker_name = rq_json_str(json, "bname", "");
    *out = NULL;
    if (!*topic || !*broker_name) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL,
                            "a queue mapping must have a topic and a broker name");
    }
    struct rq_queue_mapping *mapping =
        make_mapping(topic, rq_json_str(json, "scope", RQ_MAPPING_SCOPE_GLOBAL), broker_name);
    if (!mapping) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
    }
    mapping->total_queues = rq_json_i32(json, "totalQueues", 0);
    mapping->epoch = rq_json_i64(json, "epoch", 0);
    mapping->dirty = rq_json_bool(json, "dirty", false);
    rmq_status st = read_queues(rq_json_get(json, "hostedQueues"), mapping, err);
    if (st) {
        rq_queue_mapping_release(mapping);
        return st;
    }
    *out = mapping;
    return RMQ_OK;
}

static void write_item(const struct rq_mapping_item *item, struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"bname\":");
    rq_json_add_string(out, rq_slice_str(item->broker_name));
    rq_buf_addf(out, ",\"endOffset\":%lld,\"gen\":%d,\"logicOffset\":%lld,\"queueId\":%d",
                (long long)item->end_offset, item->gen, (long long)item->logic_offset,
                item->queue_id);
    rq_buf_addf(out, ",\"startOffset\":%lld,\"timeOfEnd\":%lld,\"timeOfStart\":%lld}",
                (long long)item->start_offset, (long long)item->time_of_end,
                (long long)item->time_of_start);
}

void rq_queue_mapping_write(const struct rq_queue_mapping *mapping, struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"bname\":");
    rq_json_add_string(out, rq_slice_str(mapping->broker_name));
    rq_buf_addf(out, ",\"currIdMap\":{},\"dirty\":%s,\"epoch\":%lld,\"hostedQueues\":{",
                mapping->dirty ? "true" : "false", (long long)mapping->epoch);
    for (size_t i = 0; i < mapping->count; i++) {
        const struct rq_mapped_queue *queue = &mapping->queues[i];
        rq_buf_addf(out, "%s\"%d\":[", i ? "," : "", queue->id);
        for (size_t k = 0; k < queue->count; k++) {
            rq_buf_add_str(out, k ? "," : "");
            write_item(&queue->items[k], out);
        }
        rq_buf_add_char(out, ']');
    }
    rq_buf_add_str(out, "},\"scope\":");
    rq_json_add_string(out, rq_slice_str(mapping->scope));
    rq_buf_add_str(out, ",\"topic\":");
    rq_json_add_string(out, rq_slice_str(mapping->topic));
    rq_buf_addf(out, ",\"totalQueues\":%d}", mapping->total_queues);
}

void rq_queue_mapping_write_info(const struct rq_queue_mapping *mapping, struct rq_buf *out)
{
    struct rq_queue_mapping_info info = {
        .topic = mapping->topic,
        .scope = mapping->scope,
        .broker_name = mapping->broker_name,
        .total_queues = mapping->total_queues,
        .epoch = mapping->epoch,
        .dirty = mapping->dirty,
        .ids = mapping->count ? rq_calloc(mapping->count, sizeof *info.ids) : NULL};
    if (mapping->count && !info.ids) {
        out->status = RMQ_ERR_NOMEM;
        return;
    }
    for (size_t i = 0; i < mapping->count; i++) {
        const struct rq_mapped_queue *queue = &mapping->queues[i];
        if (rq_queue_mapping_leads(mapping, queue)) {
            info.ids[info.id_count++] = (struct rq_queue_mapping_id){
                .logical = queue->id, .physical = rq_mapped_leader(queue)->queue_id};
        }
    }
    rq_queue_mapping_info_write(&info, false, out);
    rq_queue_mapping_info_clear(&info);
}
