/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Groups and their members by request (200, 201, 203, 204, 207, 225, 300, 328, 343, 352). Loop
 * thread. Counterpart: AdminBrokerProcessor. */
#include "base/err.h"
#include "broker/broker.h"

static void answer_object(const struct rq_request *request, struct rq_buf *body)
{
    rq_answer_body(request->conn, &request->to, NULL, NULL, body);
}

/* No group has any attribute. */
static rmq_status put_group(struct rmq_broker *broker, const cJSON *json, rmq_error **err)
{
    const cJSON *attributes = rq_json_get(json, "attributes");
    if (cJSON_IsObject(attributes) && attributes->child) {
        return rq_error_set(err, RMQ_ERR_INVALID, "there is no attribute \"%s\" of a group",
                            attributes->child->string);
    }
    return rq_groups_put_json(&broker->groups, json);
}

static void put_groups(const struct rq_request *request, const char *list)
{
    cJSON *json = NULL;
    rmq_error *err = NULL;
    rmq_status st = rq_json_parse(request->in->body, &json, &err);
    if (!st && !list) {
        st = put_group(request->broker, json, &err);
    } else if (!st) {
        const cJSON *item;
        cJSON_ArrayForEach(item, rq_json_get(json, list))
        {
            st = st ? st : put_group(request->broker, item, &err);
        }
    }
    rq_json_free(json);
    rq_broker_persist_now(request->broker);
    rq_request_answer(request, st ? RQ_RESP_SYSTEM_ERROR : RQ_RESP_SUCCESS,
                      err  ? rmq_error_message(err)
                      : st ? "the group's name is missing or not allowed"
                           : NULL);
    rmq_error_destroy(err);
}

void rq_process_put_group(const struct rq_request *request)
{
    put_groups(request, NULL);
}

void rq_process_put_groups(const struct rq_request *request)
{
    put_groups(request, "groupConfigList");
}

void rq_process_all_groups(const struct rq_request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_buf_add_char(&body, '{');
    rq_groups_write(&request->broker->groups, &body);
    rq_buf_add_char(&body, '}');
    answer_object(request, &body);
}

void rq_process_get_group(const struct rq_request *request)
{
    struct rq_hdr_group header;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_group, &header)) {
        return;
    }
    rq_buf_init(&body, 0);
    if (rq_groups_write_one(&request->broker->groups, header.group, &body)) {
        answer_object(request, &body);
        return;
    }
    rq_buf_free(&body);
    rq_answer_text(request->conn, &request->to, RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST,
                   "No group in this broker. group: %.*s", RQ_TEXT(header.group));
}

void rq_process_delete_group(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_hdr_delete_group header;
    if (!rq_request_decode(request, &rq_tab_delete_group, &header)) {
        return;
    }
    (void)rq_groups_remove(&broker->groups, header.group_name);
    rq_stats_forget(&broker->stats, rq_slice(NULL, 0), header.group_name);
    if (header.clean_offset) {
        rq_offsets_remove_group(&broker->offsets, header.group_name);
    }
    rq_broker_persist_now(broker);
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
}

void rq_process_consumer_connections(const struct rq_request *request)
{
    struct rq_hdr_consumer_group header;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_consumer_group, &header)) {
        return;
    }
    rq_buf_init(&body, 0);
    if (rq_clients_write_consumers(&request->broker->clients, header.consumer_group, &body)) {
        answer_object(request, &body);
        return;
    }
    rq_buf_free(&body);
    rq_answer_text(request->conn, &request->to, RQ_RESP_CONSUMER_NOT_ONLINE,
                   "the consumer group[%.*s] not online", RQ_TEXT(header.consumer_group));
}

void rq_process_producer_connections(const struct rq_request *request)
{
    struct rq_hdr_producer_group header;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_producer_group, &header)) {
        return;
    }
    rq_buf_init(&body, 0);
    if (rq_clients_write_producers(&request->broker->clients, header.producer_group, &body)) {
        answer_object(request, &body);
        return;
    }
    rq_buf_free(&body);
    rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                   "the producer group[%.*s] not exist", RQ_TEXT(header.producer_group));
}

void rq_process_all_producers(const struct rq_request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_clients_write_all_producers(&request->broker->clients, &body);
    answer_object(request, &body);
}

/* ---- lists without repetition ---- */

struct list {
    struct rq_map seen;
    struct rq_buf out;
};

static void list_init(struct list *list, const char *member)
{
    rq_map_init(&list->seen);
    rq_buf_init(&list->out, 0);
    rq_buf_addf(&list->out, "{\"%s\":[", member);
}

static void list_add(void *user, struct rq_slice name)
{
    struct list *list = user;
    if (rq_map_get(&list->seen, name) || rq_map_put(&list->seen, name, list)) {
        return;
    }
    rq_buf_add_str(&list->out, list->seen.count > 1 ? "," : "");
    rq_json_add_string(&list->out, name);
}

static void list_answer(const struct rq_request *request, struct list *list)
{
    rq_buf_add_str(&list->out, "]}");
    rq_map_free(&list->seen, NULL);
    answer_object(request, &list->out);
}

static void add_group(struct rq_slice topic, struct rq_slice group, void *user)
{
    (void)topic;
    list_add(user, group);
}

static void add_topic(struct rq_slice topic, struct rq_slice group, void *user)
{
    (void)group;
    list_add(user, topic);
}

void rq_process_consumed_by(const struct rq_request *request)
{
    struct rq_hdr_topic header;
    struct list list;
    if (!rq_request_decode(request, &rq_tab_topic, &header)) {
        return;
    }
    list_init(&list, "groupList");
    rq_clients_each_group_of(&request->broker->clients, header.topic, list_add, &list);
    rq_offsets_each(&request->broker->offsets, rq_slice(NULL, 0), header.topic, add_group, &list);
    list_answer(request, &list);
}

void rq_process_topics_of_group(const struct rq_request *request)
{
    struct rq_hdr_group header;
    struct list list;
    if (!rq_request_decode(request, &rq_tab_group, &header)) {
        return;
    }
    list_init(&list, "topicList");
    rq_offsets_each(&request->broker->offsets, header.group, rq_slice(NULL, 0), add_topic, &list);
    list_answer(request, &list);
}
