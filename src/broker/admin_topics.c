/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Topics by request (17, 18, 21, 215, 305, 351). Loop thread. Counterparts:
 * AdminBrokerProcessor, TopicConfigManager. */
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "broker/admin_topics.h"
#include "broker/attributes.h"
#include "broker/auto_topic.h"
#include "broker/broker.h"
#include "wire/names.h"
#include "wire/pop.h"

/* An answer that waits until the name servers know. */
struct pending {
    struct rq_registration_waiter waiter;
    struct rq_conn *conn; /* a reference */
    struct rq_reply_to to;
};

static void registered(struct rq_registration_waiter *waiter)
{
    struct pending *pending = RQ_CONTAINER_OF(waiter, struct pending, waiter);
    rq_answer_code(pending->conn, &pending->to, RQ_RESP_SUCCESS, NULL);
    rq_conn_release(pending->conn);
    rq_free(pending);
}

/* Answers success after the next round of registration, so that whoever asks for the route then
 * gets it. */
static void answer_when_registered(const struct rq_request *request)
{
    struct pending *pending = rq_calloc(1, sizeof *pending);
    rq_broker_persist_soon(request->broker);
    if (!pending) {
        rq_registration_ask(&request->broker->registration, NULL);
        rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
        return;
    }
    pending->waiter.done = registered;
    pending->conn = rq_conn_retain(request->conn);
    pending->to = request->to;
    rq_registration_ask(&request->broker->registration, &pending->waiter);
}

static rmq_status check_name(const struct rmq_broker *broker, struct rq_slice name, rmq_error **err)
{
    rmq_status st = rq_topic_check(name, err);
    if (!st && rq_is_system_topic(broker, name)) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "The topic[%.*s] is conflict with system topic.",
                          RQ_TEXT(name));
    }
    return st;
}

static bool queues_ok(int32_t queues)
{
    return queues >= 0 && queues <= RQ_TOPIC_QUEUES_MAX;
}

rmq_status rq_admin_check_topic(struct rmq_broker *broker, struct rq_slice name,
                                const struct rq_topic_info *info, rmq_error **err)
{
    rmq_status st = check_name(broker, name, err);
    if (!st && (!queues_ok(info->read_queue_nums) || !queues_ok(info->write_queue_nums))) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "%d read and %d write queues are not in 0 … %d",
                          info->read_queue_nums, info->write_queue_nums, RQ_TOPIC_QUEUES_MAX);
    }
    return st;
}

rmq_status rq_admin_put_topic(struct rmq_broker *broker, struct rq_slice name,
                              const struct rq_topic_info *info, struct rq_slice attributes,
                              bool *changed, rmq_error **err)
{
    rmq_status st = rq_admin_check_topic(broker, name, info, err);
    if (st) {
        return st;
    }
    st = rq_topics_put(&broker->topics, name, info, attributes, changed);
    return st ? rq_error_set(err, st, "out of memory") : RMQ_OK;
}

static rmq_status check_mixed(const struct rmq_broker *broker, struct rq_slice changes,
                              rmq_error **err)
{
    struct rq_slice text;
    while (!broker->settings.broker.enable_mixed_message_type &&
           rq_slice_next(&changes, ',', &text)) {
        if (rq_slice_eq_str(text, "+message.type=MIXED")) {
            return rq_error_set(err, RMQ_ERR_INVALID, "MIXED message type is not supported.");
        }
    }
    return RMQ_OK;
}

/* What changes make of the topic's attributes; the caller frees the buffer. RMQ_ERR_STATE: they do
 * not fit the topic. */
static rmq_status alter_attributes(struct rmq_broker *broker, struct rq_slice topic,
                                   struct rq_slice changes, struct rq_buf *out, rmq_error **err)
{
    struct rq_buf current;
    rmq_status st = check_mixed(broker, changes, err);
    if (st) {
        return st;
    }
    rq_buf_init(&current, 0);
    bool known = rq_topics_attributes(&broker->topics, topic, &current);
    st = rq_attributes_alter(known ? rq_buf_cstr(&current) : NULL, changes, out, err);
    rq_buf_free(&current);
    return st ? RMQ_ERR_STATE : RMQ_OK;
}

void rq_admin_answer_put(const struct rq_request *request, rmq_status st, rmq_error *err)
{
    if (st) {
        rq_request_answer(request,
                          st == RMQ_ERR_INVALID ? RQ_RESP_INVALID_PARAMETER : RQ_RESP_SYSTEM_ERROR,
                          err ? rmq_error_message(err) : rmq_status_text(st));
    } else {
        answer_when_registered(request);
    }
    rmq_error_destroy(err);
}

struct rq_topic_info rq_admin_topic_info(const struct rq_hdr_create_topic *header)
{
    return (struct rq_topic_info){
        .read_queue_nums = header->read_queue_nums,
        .write_queue_nums = header->write_queue_nums,
        .perm = header->perm,
        .sys_flag = header->topic_sys_flag,
        .order = header->order,
        .multi_tag = rq_slice_eq_str(header->topic_filter_type, "MULTI_TAG"),
    };
}

void rq_process_create_topic(const struct rq_request *request)
{
    struct rq_hdr_create_topic header;
    struct rq_buf attributes;
    rmq_error *err = NULL;
    if (!rq_request_decode(request, &rq_tab_create_topic, &header)) {
        return;
    }
    const struct rq_topic_info info = rq_admin_topic_info(&header);
    rq_buf_init(&attributes, 0);
    rmq_status st =
        alter_attributes(request->broker, header.topic, header.attributes, &attributes, &err);
    if (st) {
        rq_buf_free(&attributes);
        rq_admin_answer_put(request, st, err);
        return;
    }
    struct rq_slice text = rq_slice(attributes.data, attributes.len);
    st = rq_admin_put_topic(request->broker, header.topic, &info, text, NULL, &err);
    RQ_LOG(INFO, "topic created or changed by request", "topic=%.*s queues=%d perm=%d status=%s",
           RQ_TEXT(header.topic), info.write_queue_nums, info.perm, rmq_status_name(st));
    rq_buf_free(&attributes);
    rq_admin_answer_put(request, st, err);
}

/* {"+key":"value","-key":""} as a header has it. */
static void write_changes(const cJSON *attributes, struct rq_buf *out)
{
    const cJSON *item = cJSON_IsObject(attributes) ? attributes->child : NULL;
    for (; item; item = item->next) {
        rq_buf_add_str(out, out->len > 0 ? "," : "");
        rq_buf_add_str(out, item->string);
        if (item->string[0] != '-' && cJSON_IsString(item)) {
            rq_buf_addf(out, "=%s", item->valuestring);
        }
    }
}

/* One TopicConfig of a list. */
static rmq_status put_topic(struct rmq_broker *broker, const cJSON *json, rmq_error **err)
{
    struct rq_topic_info info;
    struct rq_buf changes;
    struct rq_buf attributes;
    struct rq_slice name = rq_slice_str(rq_json_str(json, "topicName", ""));
    rq_topic_info_read(json, &info);
    rq_buf_init(&changes, 0);
    rq_buf_init(&attributes, 0);
    write_changes(rq_json_get(json, "attributes"), &changes);
    rmq_status st = rq_buf_status(&changes);
    if (!st) {
        st = alter_attributes(broker, name, rq_slice(changes.data, changes.len), &attributes, err);
    }
    if (!st) {
        st = rq_admin_put_topic(broker, name, &info, rq_slice(attributes.data, attributes.len),
                                NULL, err);
    }
    rq_buf_free(&changes);
    rq_buf_free(&attributes);
    return st;
}

void rq_process_create_topics(const struct rq_request *request)
{
    cJSON *json = NULL;
    const cJSON *item;
    rmq_error *err = NULL;
    rmq_status st = rq_json_parse(request->in->body, &json, &err);
    cJSON_ArrayForEach(item, rq_json_get(json, "topicConfigList"))
    {
        st = st ? st : put_topic(request->broker, item, &err);
    }
    rq_json_free(json);
    rq_admin_answer_put(request, st, err);
}

static void remove_topic(struct rmq_broker *broker, struct rq_slice name)
{
    (void)rq_topics_remove(&broker->topics, name);
    (void)rq_queue_mappings_remove(&broker->mappings, name);
    rq_offsets_remove_topic(&broker->offsets, name);
    rq_stats_forget(&broker->stats, name, rq_slice(NULL, 0));
    rq_store_delete_topic(broker->store, name);
}

/* Names, each with a NUL. */
static void note_group(struct rq_slice topic, struct rq_slice group, void *user)
{
    struct rq_buf *groups = user;
    (void)topic;
    rq_buf_add_slice(groups, group);
    rq_buf_add_char(groups, '\0');
}

/* Where the groups that pop the topic get what they did not acknowledge. */
static void remove_retry_topics(struct rmq_broker *broker, struct rq_slice topic)
{
    struct rq_buf groups;
    char name[RQ_POP_TOPIC_ROOM];
    rq_buf_init(&groups, 0);
    rq_offsets_each(&broker->offsets, rq_slice(NULL, 0), topic, note_group, &groups);
    for (size_t at = 0; !rq_buf_status(&groups) && at < groups.len;) {
        struct rq_slice group = rq_slice_str(groups.data + at);
        struct rq_topic_info info;
        size_t n = rq_pop_retry_topic(topic, group, name);
        if (n > 0 && rq_topics_get(&broker->topics, rq_slice(name, n), &info)) {
            remove_topic(broker, rq_slice(name, n));
        }
        at += group.n + 1;
    }
    rq_buf_free(&groups);
}

void rq_process_delete_topic(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_hdr_topic header;
    if (!rq_request_decode(request, &rq_tab_topic, &header)) {
        return;
    }
    if (header.topic.n == 0) {
        rq_request_answer(request, RQ_RESP_INVALID_PARAMETER, "The specified topic is blank.");
        return;
    }
    if (rq_is_system_topic(broker, header.topic)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_INVALID_PARAMETER,
                       "The topic[%.*s] is conflict with system topic.", RQ_TEXT(header.topic));
        return;
    }
    remove_retry_topics(broker, header.topic);
    remove_topic(broker, header.topic);
    rq_broker_persist_now(broker);
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
}

/* What a slave copies of the static topics. */
static void write_mappings(struct rq_queue_mappings *mappings, struct rq_buf *out)
{
    struct rq_data_version version = rq_queue_mappings_version(mappings);
    rq_buf_add_str(out, ",\"mappingDataVersion\":");
    rq_data_version_write(&version, out);
    rq_buf_add_str(out, ",\"topicQueueMappingDetailMap\":");
    rq_queue_mappings_write_details(mappings, out);
}

void rq_process_all_topics(const struct rq_request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_buf_add_char(&body, '{');
    rq_topics_write(&request->broker->topics, &body, rq_slice(NULL, 0), ~0);
    write_mappings(&request->broker->mappings, &body);
    rq_buf_add_char(&body, '}');
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

/* Adds the mapping of a static topic to its JSON, which ends with a brace. */
static void add_mapping(struct rmq_broker *broker, struct rq_slice topic, struct rq_buf *out)
{
    struct rq_queue_mapping *mapping = rq_queue_mappings_get(&broker->mappings, topic);
    if (mapping && rq_buf_status(out) == RMQ_OK) {
        out->len--;
        rq_buf_add_str(out, ",\"mappingDetail\":");
        rq_queue_mapping_write(mapping, out);
        rq_buf_add_char(out, '}');
    }
    rq_queue_mapping_release(mapping);
}

void rq_process_get_topic(const struct rq_request *request)
{
    struct rq_hdr_topic header;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_topic, &header)) {
        return;
    }
    rq_buf_init(&body, 0);
    if (rq_topics_write_one(&request->broker->topics, header.topic, &body)) {
        if (header.lo) {
            add_mapping(request->broker, header.topic, &body);
        }
        rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
        return;
    }
    rq_buf_free(&body);
    rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                   "No topic in this broker. topic: %.*s", RQ_TEXT(header.topic));
}

void rq_process_system_topics(const struct rq_request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"topicList\":");
    rq_system_topics_write(request->broker, &body);
    rq_buf_add_char(&body, '}');
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}
