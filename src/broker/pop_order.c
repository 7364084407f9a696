/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Ordered POP (see the header). Any thread, one lock. */
#include "broker/pop_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/time.h"

#define KEY_ROOM       1400
#define OLD_MS         (24 * 3600 * 1000LL) /* nothing popped for so long: forgotten */
#define ATTEMPT_ID_MAX 256

struct order {
    struct rq_list node; /* in struct queues */
    int32_t queue_id;
    int64_t pop_time_ms;
    int64_t invisible_ms;
    int64_t last_ms;
    uint64_t acked; /* a bit per message */
    size_t count;
    int64_t offsets[RQ_POP_MAX];
    int64_t visible_ms[RQ_POP_MAX]; /* 0 = pop time + invisible time */
    int32_t consumed[RQ_POP_MAX];   /* how often it was popped before */
    char *attempt_id;               /* NULL = none */
};

struct queues {
    struct rq_list orders;
};

void rq_pop_orders_init(struct rq_pop_orders *orders)
{
    rq_mutex_init(&orders->lock);
    rq_map_init(&orders->table);
    rq_table_file_init(&orders->file);
}

rmq_status rq_pop_orders_set_path(struct rq_pop_orders *orders, const char *path)
{
    return rq_table_file_set_path(&orders->file, path);
}

static void free_order(struct order *order)
{
    rq_list_remove(&order->node);
    rq_free(order->attempt_id);
    rq_free(order);
}

static void free_queues(void *value)
{
    struct queues *queues = value;
    RQ_LIST_FOREACH_SAFE(node, next, &queues->orders)
    {
        free_order(RQ_CONTAINER_OF(node, struct order, node));
    }
    rq_free(queues);
}

void rq_pop_orders_free(struct rq_pop_orders *orders)
{
    rq_map_free(&orders->table, free_queues);
    rq_table_file_free(&orders->file);
    rq_mutex_destroy(&orders->lock);
}

/* ---- finding ---- */

static bool key_of(const struct rq_pop_place *place, char out[KEY_ROOM], struct rq_slice *key)
{
    int n = snprintf(out, KEY_ROOM, "%.*s@%.*s", (int)place->topic.n, place->topic.p,
                     (int)place->group.n, place->group.p);
    *key = rq_slice(out, n > 0 ? (size_t)n : 0);
    return n > 0 && n < KEY_ROOM;
}

static struct order *find_in(struct queues *queues, int32_t queue_id)
{
    for (struct rq_list *node = queues->orders.next; node != &queues->orders; node = node->next) {
        struct order *order = RQ_CONTAINER_OF(node, struct order, node);
        if (order->queue_id == queue_id) {
            return order;
        }
    }
    return NULL;
}

static struct order *find(struct rq_pop_orders *orders, const struct rq_pop_place *place)
{
    char text[KEY_ROOM];
    struct rq_slice key;
    struct queues *queues = key_of(place, text, &key) ? rq_map_get(&orders->table, key) : NULL;
    return queues ? find_in(queues, place->queue_id) : NULL;
}

static struct order *add_order(struct rq_pop_orders *orders, struct rq_slice key, int32_t queue_id)
{
    struct queues *queues = rq_map_get(&orders->table, key);
    if (!queues) {
        queues = rq_calloc(1, sizeof *queues);
        if (!queues || rq_map_put(&orders->table, key, queues) != RMQ_OK) {
            rq_free(queues);
            return NULL;
        }
        rq_list_init(&queues->orders);
    }
    struct order *order = rq_calloc(1, sizeof *order);
    if (order) {
        order->queue_id = queue_id;
        rq_list_add_tail(&queues->orders, &order->node);
    }
    return order;
}

static struct order *find_or_add(struct rq_pop_orders *orders, const struct rq_pop_place *place)
{
    char text[KEY_ROOM];
    struct rq_slice key;
    struct order *order = find(orders, place);
    return order || !key_of(place, text, &key) ? order : add_order(orders, key, place->queue_id);
}

/* ---- rules ---- */

static bool is_attempt(const struct order *order, struct rq_slice attempt_id)
{
    return order->attempt_id && attempt_id.p && rq_slice_eq_str(attempt_id, order->attempt_id);
}

int64_t rq_pop_order_blocked_until(struct rq_pop_orders *orders, const struct rq_pop_place *place,
                                   struct rq_slice attempt_id, int64_t invisible_ms, int64_t now_ms)
{
    int64_t until = 0;
    rq_mutex_lock(&orders->lock);
    struct order *order = find(orders, place);
    if (order && !is_attempt(order, attempt_id)) {
        order->invisible_ms = order->invisible_ms > 0 ? order->invisible_ms : invisible_ms;
        for (size_t i = 0; i < order->count; i++) {
            int64_t visible = order->visible_ms[i] ? order->visible_ms[i]
                                                   : order->pop_time_ms + order->invisible_ms;
            if (!(order->acked & UINT64_C(1) << i) && visible > now_ms && visible > until) {
                until = visible;
            }
        }
    }
    rq_mutex_unlock(&orders->lock);
    return until;
}

static int32_t times_before(const struct order *order, int64_t offset, bool same_attempt)
{
    for (size_t i = 0; i < order->count; i++) {
        if (order->offsets[i] == offset) {
            return order->consumed[i] + (same_attempt ? 0 : 1);
        }
    }
    return 0;
}

static void tell_counts(const struct order *order, char mark, struct rq_buf *counts)
{
    int32_t least = INT32_MAX;
    for (size_t i = 0; i < order->count; i++) {
        if (order->consumed[i] > 0) {
            rq_pop_add_order_count(counts, mark, order->queue_id, order->offsets[i],
                                   order->consumed[i]);
        }
        least = order->consumed[i] < least ? order->consumed[i] : least;
    }
    rq_pop_add_order_least(counts, mark, order->queue_id, least);
}

rmq_status rq_pop_order_update(struct rq_pop_orders *orders, const struct rq_pop_place *place,
                               struct rq_slice attempt_id, int64_t pop_time_ms,
                               int64_t invisible_ms, const int64_t *offsets, size_t count,
                               struct rq_buf *counts)
{
    char *attempt =
        attempt_id.n > 0 && attempt_id.n <= ATTEMPT_ID_MAX ? rq_slice_dup(attempt_id) : NULL;
    rq_mutex_lock(&orders->lock);
    struct order *order = count <= RQ_POP_MAX ? find_or_add(orders, place) : NULL;
    if (!order) {
        rq_mutex_unlock(&orders->lock);
        rq_free(attempt);
        return RMQ_ERR_NOMEM;
    }
    int32_t consumed[RQ_POP_MAX] = {0};
    bool same = is_attempt(order, attempt_id);
    for (size_t i = 0; i < count; i++) {
        consumed[i] = times_before(order, offsets[i], same);
    }
    memcpy(order->offsets, offsets, count * sizeof *offsets);
    memcpy(order->consumed, consumed, count * sizeof consumed[0]);
    memset(order->visible_ms, 0, sizeof order->visible_ms);
    rq_free(order->attempt_id);
    order->attempt_id = attempt;
    order->count = count;
    order->acked = 0;
    order->pop_time_ms = pop_time_ms;
    order->invisible_ms = invisible_ms;
    order->last_ms = rq_wall_ms();
    orders->file.dirty = true;
    tell_counts(order, rq_pop_retry_mark(place->topic), counts);
    rq_mutex_unlock(&orders->lock);
    return RMQ_OK;
}

static int64_t next_offset(const struct order *order)
{
    for (size_t i = 0; i < order->count; i++) {
        if (!(order->acked & UINT64_C(1) << i)) {
            return order->offsets[i];
        }
    }
    return order->offsets[order->count - 1] + 1;
}

int64_t rq_pop_order_commit(struct rq_pop_orders *orders, const struct rq_pop_place *place,
                            int64_t offset, int64_t pop_time_ms)
{
    int64_t next = -1;
    rq_mutex_lock(&orders->lock);
    struct order *order = find(orders, place);
    size_t count = 0;
    if (!order) {
        next = offset + 1;
    } else if (order->pop_time_ms != pop_time_ms) {
        next = RQ_POP_ORDER_STALE;
    } else {
        count = order->count;
    }
    for (size_t i = 0; next == -1 && i < count; i++) {
        if (order->offsets[i] == offset) {
            order->acked |= UINT64_C(1) << i;
            orders->file.dirty = true;
            next = next_offset(order);
        }
    }
    rq_mutex_unlock(&orders->lock);
    return next;
}

void rq_pop_order_set_visible(struct rq_pop_orders *orders, const struct rq_pop_place *place,
                              int64_t offset, int64_t pop_time_ms, int64_t visible_ms)
{
    rq_mutex_lock(&orders->lock);
    struct order *order = find(orders, place);
    for (size_t i = 0; order && order->pop_time_ms == pop_time_ms && i < order->count; i++) {
        if (order->offsets[i] == offset) {
            order->visible_ms[i] = visible_ms;
            orders->file.dirty = true;
        }
    }
    rq_mutex_unlock(&orders->lock);
}

void rq_pop_order_clear(struct rq_pop_orders *orders, const struct rq_pop_place *place)
{
    rq_mutex_lock(&orders->lock);
    struct order *order = find(orders, place);
    if (order) {
        free_order(order);
        orders->file.dirty = true;
    }
    rq_mutex_unlock(&orders->lock);
}

/* ---- the file: offsets are the first one and distances from it ---- */

static void write_offsets(const struct order *order, struct rq_buf *out)
{
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < order->count; i++) {
        if (i > 0) {
            rq_buf_add_char(out, ',');
        }
        rq_buf_add_i64(out, i ? order->offsets[i] - order->offsets[0] : order->offsets[0]);
    }
    rq_buf_add_char(out, ']');
}

static int64_t consumed_at(const struct order *order, size_t i)
{
    return order->consumed[i];
}

static int64_t visible_at(const struct order *order, size_t i)
{
    return order->visible_ms[i];
}

/* By offset, what there is of it. */
static void write_map(const struct order *order, int64_t (*value_at)(const struct order *, size_t),
                      struct rq_buf *out)
{
    bool any = false;
    rq_buf_add_char(out, '{');
    for (size_t i = 0; i < order->count; i++) {
        int64_t value = value_at(order, i);
        if (value > 0) {
            rq_buf_addf(out, "%s%lld:%lld", any ? "," : "", (long long)order->offsets[i],
                        (long long)value);
            any = true;
        }
    }
    rq_buf_add_char(out, '}');
}

static void write_number(struct rq_buf *out, bool *first, const char *name, int64_t value)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_i64(out, value);
}

static void write_order(const struct order *order, struct rq_buf *out)
{
    bool first = true;
    rq_buf_addf(out, "%d:{", (int)order->queue_id);
    if (order->attempt_id) {
        rq_json_add_member(out, &first, "a");
        rq_json_add_string(out, rq_slice_str(order->attempt_id));
    }
    write_number(out, &first, "cm", (int64_t)order->acked);
    write_number(out, &first, "i", order->invisible_ms);
    write_number(out, &first, "l", order->last_ms);
    rq_json_add_member(out, &first, "o");
    write_offsets(order, out);
    rq_json_add_member(out, &first, "oc");
    write_map(order, consumed_at, out);
    rq_json_add_member(out, &first, "ot");
    write_map(order, visible_at, out);
    write_number(out, &first, "popTime", order->pop_time_ms);
    rq_buf_add_char(out, '}');
}

static void write_queues(struct queues *queues, struct rq_buf *out)
{
    bool any = false;
    int64_t oldest = rq_wall_ms() - OLD_MS;
    RQ_LIST_FOREACH_SAFE(node, next, &queues->orders)
    {
        struct order *order = RQ_CONTAINER_OF(node, struct order, node);
        if (order->last_ms < oldest) {
            free_order(order);
            continue;
        }
        if (any) {
            rq_buf_add_char(out, ',');
        }
        any = true;
        write_order(order, out);
    }
}

static void write_locked(void *table, struct rq_buf *out, const char *line)
{
    struct rq_pop_orders *orders = table;
    struct rq_map_entry *entry;
    size_t i = 0;
    bool first = true;
    rq_buf_addf(out, "%s\"table\":{", line);
    while ((entry = rq_map_next(&orders->table, &i))) {
        if (!first) {
            rq_buf_add_char(out, ',');
        }
        first = false;
        rq_buf_add_str(out, line);
        rq_json_add_string(out, rq_slice(entry->key, entry->key_len));
        rq_buf_add_str(out, ":{");
        write_queues(entry->value, out);
        rq_buf_add_char(out, '}');
    }
    rq_buf_add_char(out, '}');
}

rmq_status rq_pop_orders_persist(struct rq_pop_orders *orders, rmq_error **err)
{
    return rq_table_file_persist(&orders->file, &orders->lock, write_locked, orders, err);
}

/* The number that a map of offsets has for one. */
static int64_t value_of(const cJSON *map, int64_t offset)
{
    char key[24];
    key[rq_i64_to_text(offset, key)] = '\0';
    return map ? rq_json_i64(map, key, 0) : 0;
}

static void read_order(struct rq_pop_orders *orders, struct rq_slice key, const cJSON *json)
{
    int32_t queue_id = 0;
    const cJSON *list = rq_json_get(json, "o");
    int count = list && cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    int64_t invisible_ms = rq_json_i64(json, "i", 0);
    int64_t pop_time_ms = rq_json_i64(json, "popTime", 0);
    if (!rq_slice_to_i32(rq_slice_str(json->string), &queue_id) || count < 1 ||
        count > RQ_POP_MAX || !rq_pop_number_ok(invisible_ms) || !rq_pop_number_ok(pop_time_ms)) {
        return;
    }
    struct order *order = add_order(orders, key, queue_id);
    if (!order) {
        return;
    }
    const char *attempt = rq_json_str(json, "a", NULL);
    order->attempt_id = attempt ? rq_strdup(attempt) : NULL;
    order->acked = (uint64_t)rq_json_i64(json, "cm", 0);
    order->invisible_ms = invisible_ms;
    order->last_ms = rq_json_i64(json, "l", 0);
    order->pop_time_ms = pop_time_ms;
    order->count = (size_t)count;
    for (int i = 0; i < count; i++) {
        int64_t value = 0;
        bool ok = rq_json_value_i64(cJSON_GetArrayItem(list, i), &value) && rq_pop_number_ok(value);
        value = ok ? value : 0;
        order->offsets[i] = i ? order->offsets[0] + value : value;
        order->consumed[i] = (int32_t)value_of(rq_json_get(json, "oc"), order->offsets[i]);
        order->visible_ms[i] = value_of(rq_json_get(json, "ot"), order->offsets[i]);
    }
}

static rmq_status read_table(void *table, const cJSON *root)
{
    const cJSON *all = rq_json_get(root, "table");
    for (const cJSON *pair = all ? all->child : NULL; pair; pair = pair->next) {
        for (const cJSON *item = pair->child; item; item = item->next) {
            read_order(table, rq_slice_str(pair->string), item);
        }
    }
    return RMQ_OK;
}

rmq_status rq_pop_orders_load(struct rq_pop_orders *orders, rmq_error **err)
{
    return rq_table_file_load(&orders->file, read_table, orders, err);
}
