/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sharing out queues at the broker: QUERY_ASSIGNMENT, and the request mode of groups (401, 402).
 * The queues are those of all brokers, so a name server is asked for the topic's route, and the
 * answer goes out when it has told; when none does, it is by the route that was told last. Loop
 * thread, then background loop. Counterpart: QueryAssignmentProcessor.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/allocate.h"
#include "wire/bodies.h"
#include "wire/route.h"

struct query {
    struct rq_remote_call call;
    struct rmq_broker *broker;
    struct rq_conn *conn; /* a reference */
    struct rq_reply_to to;
    cJSON *body;
    const char *topic; /* these point into body */
    const char *group;
    const char *client_id;
    enum rq_allocate_strategy strategy;
    bool knows_strategy;
    bool broadcasts;
    struct rq_request_mode mode;
};

struct queues {
    struct rq_mq *items;
    size_t count;
};

/* ---- which queues ---- */

/* Readable queues of the topic, in Java's order; names point into the route. */
static rmq_status list_queues(const struct rq_route_data *route, const char *topic,
                              struct queues *out)
{
    size_t count = 0;
    for (size_t i = 0; i < route->queue_count; i++) {
        int32_t n = route->queues[i].read_queue_nums;
        count += (route->queues[i].perm & RQ_PERM_READ) && n > 0 ? (size_t)n : 0;
    }
    out->count = 0;
    out->items = rq_calloc(count + 1, sizeof *out->items);
    if (!out->items) {
        return RMQ_ERR_NOMEM;
    }
    for (size_t i = 0; i < route->queue_count; i++) {
        const struct rq_route_queue_data *data = &route->queues[i];
        for (int32_t id = 0; (data->perm & RQ_PERM_READ) && id < data->read_queue_nums; id++) {
            out->items[out->count++] =
                (struct rq_mq){.topic = topic, .broker_name = data->broker_name, .queue_id = id};
        }
    }
    rq_mq_sort(out->items, out->count);
    return RMQ_OK;
}

static size_t find_client(const struct rq_names *ids, const char *client_id)
{
    size_t i = 0;
    while (i < ids->count && strcmp(ids->items[i], client_id) != 0) {
        i++;
    }
    return i;
}

/* Appends one member's share to picked. */
static rmq_status add_share(const struct query *query, const struct queues *all,
                            const struct rq_names *ids, const char *client_id, size_t *picked,
                            size_t *count)
{
    const struct rq_allocate in = {.client_id = client_id,
                                   .queues = all->items,
                                   .queue_count = all->count,
                                   .clients = (const char *const *)ids->items,
                                   .client_count = ids->count,
                                   .virtual_nodes = RQ_ALLOCATE_VIRTUAL_NODES};
    size_t n = 0;
    rmq_status st = rq_allocate(query->strategy, &in, picked + *count, &n, NULL);
    *count += st == RMQ_OK ? n : 0;
    return st;
}

/* Each member pops its own queues and those of the next ones; more members than queues: one queue
 * each, so that nobody has none. */
static rmq_status share_for_pop(const struct query *query, const struct queues *all,
                                const struct rq_names *ids, size_t *picked, size_t *count)
{
    size_t at = find_client(ids, query->client_id);
    if (at == ids->count) {
        return RMQ_OK;
    }
    if (ids->count > all->count) {
        picked[(*count)++] = at % all->count;
        return RMQ_OK;
    }
    rmq_status st = RMQ_OK;
    for (int32_t i = 0; st == RMQ_OK && i <= query->mode.share_queues; i++) {
        st = add_share(query, all, ids, ids->items[(at + (size_t)i) % ids->count], picked, count);
    }
    return st;
}

/* ---- the answer ---- */

static void add_assignment(struct rq_buf *out, bool *any, const struct rq_mq *queue, bool pop)
{
    rq_buf_add_str(out, *any ? "," : "");
    *any = true;
    rq_buf_add_str(out, "{\"messageQueue\":{\"brokerName\":");
    rq_json_add_string(out, rq_slice_str(queue->broker_name));
    rq_buf_addf(out, ",\"queueId\":%d,\"topic\":", (int)queue->queue_id);
    rq_json_add_string(out, rq_slice_str(queue->topic));
    rq_buf_addf(out, "},\"mode\":\"%s\"}", pop ? "POP" : "PULL");
}

/* Every broker with all of its queues, as -1. */
static void add_brokers(struct rq_buf *out, const struct queues *all)
{
    bool any = false;
    for (size_t i = 0; i < all->count; i++) {
        struct rq_mq queue = all->items[i];
        if (i == 0 || strcmp(queue.broker_name, all->items[i - 1].broker_name) != 0) {
            queue.queue_id = -1;
            add_assignment(out, &any, &queue, true);
        }
    }
}

static rmq_status add_shares(const struct query *query, const struct queues *all,
                             const struct rq_names *ids, struct rq_buf *out)
{
    size_t share = query->mode.pop ? (size_t)query->mode.share_queues + 1 : 1;
    size_t *picked = rq_calloc(all->count * share + 1, sizeof *picked);
    size_t count = 0;
    bool any = false;
    if (!picked) {
        return RMQ_ERR_NOMEM;
    }
    rmq_status st = query->mode.pop ? share_for_pop(query, all, ids, picked, &count)
                                    : add_share(query, all, ids, query->client_id, picked, &count);
    for (size_t i = 0; st == RMQ_OK && i < count; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++) {
            seen = seen || picked[k] == picked[i];
        }
        if (!seen) {
            add_assignment(out, &any, &all->items[picked[i]], query->mode.pop);
        }
    }
    rq_free(picked);
    return st;
}

static rmq_status members_of(const struct query *query, struct rq_names *ids)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rmq_status st = rq_clients_write_ids(&query->broker->clients, rq_slice_str(query->group), &text)
                        ? rq_buf_status(&text)
                        : RMQ_ERR_NOT_FOUND;
    if (st == RMQ_OK) {
        st = rq_names_parse(rq_slice(text.data, text.len), RQ_LIST_CONSUMER_IDS, ids, NULL);
    }
    if (st == RMQ_OK) {
        rq_mq_sort_clients((const char **)ids->items, ids->count);
    }
    rq_buf_free(&text);
    return st;
}

/* RMQ_ERR_NOT_FOUND: there is nothing to go by, the client keeps what it has. */
static rmq_status add_list(const struct query *query, const struct queues *all, struct rq_buf *out)
{
    struct rq_names ids = {0};
    bool any = false;
    if (query->broadcasts) {
        for (size_t i = 0; i < all->count; i++) {
            add_assignment(out, &any, &all->items[i], query->mode.pop);
        }
        return RMQ_OK;
    }
    if (all->count == 0) {
        return RMQ_OK;
    }
    rmq_status st = query->knows_strategy ? members_of(query, &ids) : RMQ_ERR_NOT_FOUND;
    if (st == RMQ_OK && ids.count == 0) {
        st = RMQ_ERR_NOT_FOUND;
    }
    bool everybody_all = query->mode.pop && (query->mode.share_queues <= 0 ||
                                             (size_t)query->mode.share_queues + 1 >= ids.count);
    if (st == RMQ_OK && everybody_all) {
        add_brokers(out, all);
    } else if (st == RMQ_OK) {
        st = add_shares(query, all, &ids, out);
    }
    rq_names_clear(&ids);
    return st;
}

static void answer(const struct query *query, const struct queues *all)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"messageQueueAssignments\":[");
    if (all && add_list(query, all, &body) == RMQ_OK) {
        rq_buf_add_str(&body, "]}");
    } else {
        rq_buf_clear(&body);
        rq_buf_add_str(&body, "{}");
    }
    rq_answer_body(query->conn, &query->to, NULL, NULL, &body);
}

static void free_query(struct query *query)
{
    rq_conn_release(query->conn);
    rq_json_free(query->body);
    rq_free(query);
}

/* As the name server tells it; when none does, as one told it last. */
static bool find_route(const struct query *query, rmq_status status, const struct rq_in *in,
                       struct rq_route_data *out)
{
    struct rq_route_cache *cache = &query->broker->route_cache;
    struct rq_slice topic = rq_slice_str(query->topic);
    int32_t code = status == RMQ_OK ? in->header->code : RQ_RESP_SYSTEM_ERROR;
    if (code == RQ_RESP_SUCCESS && rq_route_data_parse(in->body, out, NULL) == RMQ_OK) {
        rq_route_cache_put(cache, topic, in->body);
        return true;
    }
    if (code == RQ_RESP_TOPIC_NOT_EXIST && !rq_topic_is_retry(topic)) {
        rq_route_cache_remove(cache, topic);
        return false;
    }
    char *last = rq_route_cache_get(cache, topic);
    bool known = last && rq_route_data_parse(rq_slice_str(last), out, NULL) == RMQ_OK;
    rq_free(last);
    return known;
}

static void on_route(struct rq_remote_call *call, rmq_status status, struct rq_in *in)
{
    struct query *query = RQ_CONTAINER_OF(call, struct query, call);
    struct rq_route_data route = {0};
    struct queues all = {0};
    bool known =
        find_route(query, status, in, &route) && list_queues(&route, query->topic, &all) == RMQ_OK;
    answer(query, known ? &all : NULL);
    rq_free(all.items);
    rq_route_data_clear(&route);
    free_query(query);
}

/* ---- 400 ---- */

static struct query *read_query(const struct rq_request *request)
{
    struct query *query = rq_calloc(1, sizeof *query);
    if (!query || rq_json_parse(request->in->body, &query->body, NULL) != RMQ_OK) {
        rq_free(query);
        return NULL;
    }
    query->broker = request->broker;
    query->to = request->to;
    query->topic = rq_json_str(query->body, "topic", NULL);
    query->group = rq_json_str(query->body, "consumerGroup", NULL);
    query->client_id = rq_json_str(query->body, "clientId", "");
    query->broadcasts =
        strcmp(rq_json_str(query->body, "messageModel", "CLUSTERING"), "BROADCASTING") == 0;
    query->knows_strategy =
        rq_allocate_strategy_find(rq_json_str(query->body, "strategyName", "AVG"),
                                  &query->strategy) &&
        query->strategy <= RQ_ALLOCATE_CONSISTENT_HASH;
    query->conn = rq_conn_retain(request->conn);
    if (!query->topic || !query->group) {
        free_query(query);
        return NULL;
    }
    (void)rq_request_modes_get(&request->broker->request_modes, rq_slice_str(query->topic),
                               rq_slice_str(query->group), &query->mode);
    return query;
}

static void ask_route(struct query *query)
{
    struct rq_hdr_topic fields = {.topic = rq_slice_str(query->topic)};
    RQ_SET(topic, &fields, accept_standard_json_only, true);
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_GET_ROUTEINFO_BY_TOPIC, &rq_tab_topic, &fields);
    query->call.done = on_route;
    rq_remotes_ask_namesrv(&query->broker->remotes, &query->call,
                           rq_out_make(&spec, rq_slice(NULL, 0)));
}

void rq_process_query_assignment(const struct rq_request *request)
{
    struct query *query = read_query(request);
    if (!query) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR,
                          "the body is no question for an assignment");
        return;
    }
    ask_route(query);
}

/* ---- 401, 402 ---- */

static bool check_mode(const struct rq_request *request, const char *topic, const char *group)
{
    struct rq_topic_info info;
    struct rq_group_info group_info;
    if (!topic || !group) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, "topic and consumerGroup are required");
        return false;
    }
    if (strncmp(topic, RQ_RETRY_PREFIX, sizeof RQ_RETRY_PREFIX - 1) == 0) {
        rq_request_answer(request, RQ_RESP_NO_PERMISSION, "retry topic is not allowed to set mode");
        return false;
    }
    if (!rq_topics_get(&request->broker->topics, rq_slice_str(topic), &info)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST, "topic[%s] not exist",
                       topic);
        return false;
    }
    if (!rq_groups_get(&request->broker->groups, rq_slice_str(group), &group_info)) {
        rq_request_answer(request, RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST,
                          "subscription group does not exist");
        return false;
    }
    return true;
}

void rq_process_set_request_mode(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    cJSON *json = NULL;
    if (rq_json_parse(request->in->body, &json, NULL) != RMQ_OK) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, "the body is no request mode");
        return;
    }
    const char *topic = rq_json_str(json, "topic", NULL);
    const char *group = rq_json_str(json, "consumerGroup", NULL);
    const struct rq_request_mode mode = {.pop =
                                             strcmp(rq_json_str(json, "mode", "PULL"), "POP") == 0,
                                         .share_queues = rq_json_i32(json, "popShareQueueNum", 0)};
    if (check_mode(request, topic, group)) {
        rmq_status st = rq_request_modes_put(&broker->request_modes, rq_slice_str(topic),
                                             rq_slice_str(group), &mode);
        rq_broker_persist_now(broker);
        rq_request_answer(request, st == RMQ_OK ? RQ_RESP_SUCCESS : RQ_RESP_SYSTEM_ERROR,
                          st == RMQ_OK ? NULL : rmq_status_text(st));
    }
    rq_json_free(json);
}

void rq_process_all_request_modes(const struct rq_request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_request_modes_write(&request->broker->request_modes, &body);
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}
