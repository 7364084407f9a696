/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Requests to a name server, one function each, found by code in a table. Loop thread.
 * Counterparts: DefaultRequestProcessor, ClientRequestProcessor. */
#include <string.h>
#include <strings.h>

#include "base/crc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/propfile.h"
#include "base/sys.h"
#include "namesrv/answer.h"
#include "namesrv/namesrv.h"

#define REGISTER_BODY_MAX ((size_t)64 << 20)

struct request {
    struct rmq_namesrv *namesrv;
    struct rq_conn *conn;
    struct rq_in *in;
    struct rq_reply_to to;
};

static bool decode(const struct request *request, const struct rq_fields *table, void *fields)
{
    return rq_answer_decode(request->conn, request->in->header, table, fields);
}

static void answer(const struct request *request, int32_t code, const char *remark)
{
    rq_answer_code(request->conn, &request->to, code, remark);
}

static void answer_body(const struct request *request, struct rq_buf *body)
{
    rq_answer_body(request->conn, &request->to, NULL, NULL, body);
}

static struct rq_slice body_of(const struct request *request)
{
    return request->in->body;
}

static bool crc_matches(const struct request *request, const struct rq_hdr_register_broker *header)
{
    struct rq_slice body = body_of(request);
    return !header->body_crc32 ||
           (int32_t)(rq_crc32(0, body.p, body.n) & 0x7FFFFFFFu) == header->body_crc32;
}

static rmq_status parse_register_body(const struct request *request,
                                      const struct rq_hdr_register_broker *header,
                                      struct rq_topic_table *topics, rmq_error **err)
{
    /* The Java broker 5.3.3 may send a zlib stream and say that it did not: JSON begins with a
     * brace. */
    struct rq_slice body = body_of(request);
    bool compressed = header->compressed || (body.n && body.p[0] != '{');
    if (body.n == 0) {
        *topics = (struct rq_topic_table){0};
        return RMQ_OK;
    }
    return rq_register_body_parse(body, compressed, request->in->header->version, REGISTER_BODY_MAX,
                                  topics, err);
}

static void answer_registered(const struct request *request, const struct rq_live_addr *master)
{
    struct rq_hdr_register_broker_response fields = {0};
    struct rq_buf body;
    if (master) {
        fields.master_addr = rq_slice_str(master->addr);
        fields.ha_server_addr = rq_slice_str(master->ha_addr);
    }
    rq_buf_init(&body, 0);
    if (request->namesrv->options.return_order_topic_config_to_broker) {
        (void)rq_kv_write(&request->namesrv->kv, rq_slice_str(RQ_KV_ORDER_TOPIC_CONFIG), &body);
    }
    rq_answer_body(request->conn, &request->to, &rq_tab_register_broker_response, &fields, &body);
}

static void register_broker(const struct request *request)
{
    struct rq_hdr_register_broker header;
    struct rq_topic_table topics;
    rmq_error *err = NULL;
    if (!decode(request, &rq_tab_register_broker, &header)) {
        return;
    }
    if (!crc_matches(request, &header)) {
        answer(request, RQ_RESP_SYSTEM_ERROR, "crc32 not match");
        return;
    }
    if (parse_register_body(request, &header, &topics, &err)) {
        answer(request, RQ_RESP_SYSTEM_ERROR, rmq_error_message(err));
        rmq_error_destroy(err);
        return;
    }
    const struct rq_live_addr *master = NULL;
    enum rq_register_result result =
        rq_route_info_register(&request->namesrv->info, &header, &topics, request->conn,
                               rq_loop_now(request->namesrv->loop), &master);
    rq_topic_table_clear(&topics);
    if (result == RQ_REGISTERED) {
        answer_registered(request, master);
    } else {
        answer(request, RQ_RESP_SYSTEM_ERROR,
               result == RQ_REGISTER_NOMEM ? "out of memory" : "register broker failed");
    }
}

static void unregister_broker(const struct request *request)
{
    struct rq_hdr_broker header;
    if (decode(request, &rq_tab_broker, &header)) {
        rq_route_info_unregister(&request->namesrv->info, header.broker_name, header.broker_addr);
        answer(request, RQ_RESP_SUCCESS, NULL);
    }
}

static bool is_sync_member_topic(struct rq_slice topic)
{
    static const char prefix[] = "rmq_sys_SYNC_BROKER_MEMBER_";
    return topic.n >= sizeof prefix - 1 && memcmp(topic.p, prefix, sizeof prefix - 1) == 0;
}

static bool is_true(struct rq_slice text)
{
    return text.n == 4 && strncasecmp(text.p, "true", 4) == 0;
}

/* Where a zone was asked for, Java writes the route anew, in the old form. */
static struct rq_route_form form_of(const struct request *request,
                                    const struct rq_hdr_topic *header)
{
    const struct rq_namesrv_options *options = &request->namesrv->options;
    struct rq_route_form form = {.acting_master = options->support_acting_master &&
                                                  !is_sync_member_topic(header->topic)};
    form.bare_keys =
        request->in->header->version < RQ_VERSION_V4_9_4 && !header->accept_standard_json_only;
    if (is_true(header->zone_mode) && header->zone_name.n) {
        form.zone = header->zone_name;
        form.bare_keys = true;
    }
    if (options->order_message_enable) {
        form.order_conf =
            rq_kv_get(&request->namesrv->kv, rq_slice_str(RQ_KV_ORDER_TOPIC_CONFIG), header->topic);
    }
    return form;
}

static void get_route(const struct request *request)
{
    struct rq_hdr_topic header;
    struct rq_buf body;
    if (!decode(request, &rq_tab_topic, &header)) {
        return;
    }
    if (rq_loop_now(request->namesrv->loop) < request->namesrv->ready_ms) {
        answer(request, RQ_RESP_SYSTEM_ERROR, "name server not ready");
        return;
    }
    const struct rq_route_form form = form_of(request, &header);
    rq_buf_init(&body, 0);
    if (rq_route_info_write_route(&request->namesrv->info, header.topic, &form, &body)) {
        answer_body(request, &body);
        return;
    }
    rq_buf_free(&body);
    rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                   "No topic route info in name server for the topic: %.*s", (int)header.topic.n,
                   header.topic.p);
}

static void get_clusters(const struct request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_route_info_write_clusters(&request->namesrv->info, &body);
    answer_body(request, &body);
}

static void get_member_group(const struct request *request)
{
    struct rq_hdr_broker_name header;
    struct rq_buf body;
    if (!decode(request, &rq_tab_broker_name, &header)) {
        return;
    }
    rq_buf_init(&body, 0);
    if (!rq_route_info_write_member_group(&request->namesrv->info, header.broker_name, &body)) {
        rq_buf_add_str(&body, "{}");
    }
    answer_body(request, &body);
}

static void list_topics(const struct request *request)
{
    static const enum rq_topic_list unit_lists[] = {RQ_LIST_UNIT, RQ_LIST_UNIT_SUB,
                                                    RQ_LIST_UNIT_SUB_UNUNIT};
    struct rq_hdr_cluster header = {0};
    enum rq_topic_list which = RQ_LIST_ALL;
    int32_t code = request->in->header->code;
    const struct rq_namesrv_options *options = &request->namesrv->options;
    if (code == RQ_REQ_GET_ALL_TOPIC_LIST_FROM_NAMESERVER ? !options->enable_all_topic_list
                                                          : !options->enable_topic_list) {
        answer(request, RQ_RESP_SYSTEM_ERROR, "disable");
        return;
    }
    if (code == RQ_REQ_GET_TOPICS_BY_CLUSTER) {
        which = RQ_LIST_CLUSTER;
        if (!decode(request, &rq_tab_cluster, &header)) {
            return;
        }
    } else if (code == RQ_REQ_GET_SYSTEM_TOPIC_LIST_FROM_NS) {
        which = RQ_LIST_SYSTEM;
    } else if (code >= RQ_REQ_GET_UNIT_TOPIC_LIST) {
        which = unit_lists[code - RQ_REQ_GET_UNIT_TOPIC_LIST];
    }
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_route_info_write_topics(&request->namesrv->info, which, header.cluster, &body);
    answer_body(request, &body);
}

static void delete_topic(const struct request *request)
{
    struct rq_hdr_topic header;
    if (decode(request, &rq_tab_topic, &header)) {
        rq_route_info_remove_topic(&request->namesrv->info, header.topic, header.cluster_name);
        answer(request, RQ_RESP_SUCCESS, NULL);
    }
}

static void query_data_version(const struct request *request)
{
    struct rq_hdr_broker header;
    struct rq_data_version version = {0};
    struct rq_buf body;
    cJSON *json = NULL;
    if (!decode(request, &rq_tab_broker, &header)) {
        return;
    }
    if (rq_json_parse(body_of(request), &json, NULL) == RMQ_OK) {
        rq_data_version_parse(json, &version);
    }
    rq_json_free(json);
    const struct rq_data_version *known =
        rq_route_info_touch(&request->namesrv->info, header.broker_name, header.broker_addr,
                            rq_loop_now(request->namesrv->loop));
    struct rq_hdr_query_data_version_response fields = {
        .changed = !known || !rq_data_version_equal(known, &version)};
    rq_buf_init(&body, 0);
    if (known) {
        rq_data_version_write(known, &body);
    }
    rq_answer_body(request->conn, &request->to, &rq_tab_query_data_version_response, &fields,
                   &body);
}

static void broker_heartbeat(const struct request *request)
{
    struct rq_hdr_broker_heartbeat header;
    if (decode(request, &rq_tab_broker_heartbeat, &header)) {
        (void)rq_route_info_touch(&request->namesrv->info, header.broker_name, header.broker_addr,
                                  rq_loop_now(request->namesrv->loop));
        answer(request, RQ_RESP_SUCCESS, NULL);
    }
}

static void put_kv(const struct request *request)
{
    struct rq_hdr_kv header;
    if (!decode(request, &rq_tab_kv, &header)) {
        return;
    }
    if (!header.key.p || !header.value.p) {
        answer(request, RQ_RESP_SYSTEM_ERROR, "namespace, key and value must be given");
    } else if (rq_kv_put(&request->namesrv->kv, header.namespace, header.key, header.value)) {
        answer(request, RQ_RESP_SYSTEM_ERROR, "out of memory");
    } else {
        answer(request, RQ_RESP_SUCCESS, NULL);
    }
}

static void get_kv(const struct request *request)
{
    struct rq_hdr_kv header;
    if (!decode(request, &rq_tab_kv, &header)) {
        return;
    }
    const char *value = rq_kv_get(&request->namesrv->kv, header.namespace, header.key);
    if (value) {
        struct rq_hdr_kv_response fields = {.value = rq_slice_str(value)};
        rq_answer_fields(request->conn, &request->to, &rq_tab_kv_response, &fields);
        return;
    }
    rq_answer_text(request->conn, &request->to, RQ_RESP_QUERY_NOT_FOUND,
                   "No config item, Namespace: %.*s Key: %.*s", (int)header.namespace.n,
                   header.namespace.p, (int)header.key.n, header.key.p ? header.key.p : "");
}

static void delete_kv(const struct request *request)
{
    struct rq_hdr_kv header;
    if (decode(request, &rq_tab_kv, &header)) {
        rq_kv_remove(&request->namesrv->kv, header.namespace, header.key);
        answer(request, RQ_RESP_SUCCESS, NULL);
    }
}

static void list_kv(const struct request *request)
{
    struct rq_hdr_kv header;
    struct rq_buf body;
    if (!decode(request, &rq_tab_kv, &header)) {
        return;
    }
    rq_buf_init(&body, 0);
    if (rq_kv_write(&request->namesrv->kv, header.namespace, &body)) {
        answer_body(request, &body);
        return;
    }
    rq_buf_free(&body);
    rq_answer_text(request->conn, &request->to, RQ_RESP_QUERY_NOT_FOUND,
                   "No config item, Namespace: %.*s", (int)header.namespace.n, header.namespace.p);
}

static void set_write_perm(const struct request *request)
{
    struct rq_hdr_broker_name header;
    struct rq_hdr_topic_count_response fields = {0};
    if (!decode(request, &rq_tab_broker_name, &header)) {
        return;
    }
    bool add = request->in->header->code == RQ_REQ_ADD_WRITE_PERM_OF_BROKER;
    int count = rq_route_info_set_write(&request->namesrv->info, header.broker_name, add);
    if (add) {
        RQ_SET(topic_count_response, &fields, add_topic_count, count);
    } else {
        RQ_SET(topic_count_response, &fields, wipe_topic_count, count);
    }
    rq_answer_fields(request->conn, &request->to, &rq_tab_topic_count_response, &fields);
}

static void register_topic(const struct request *request)
{
    struct rq_hdr_topic header;
    cJSON *json = NULL;
    rmq_status st = RMQ_OK;
    const cJSON *item;
    if (!decode(request, &rq_tab_topic, &header)) {
        return;
    }
    char *name = rq_slice_dup(header.topic);
    (void)rq_json_parse(body_of(request), &json, NULL);
    cJSON_ArrayForEach(item, rq_json_get(json, "queueDatas"))
    {
        const struct rq_topic_config topic = {
            .name = name,
            .read_queue_nums = rq_json_i32(item, "readQueueNums", 0),
            .write_queue_nums = rq_json_i32(item, "writeQueueNums", 0),
            .perm = rq_json_i32(item, "perm", 0),
            .topic_sys_flag = rq_json_i32(item, "topicSysFlag", 0)};
        st = st || !name ? RMQ_ERR_NOMEM
                         : rq_route_info_put_queues(&request->namesrv->info,
                                                    rq_json_str(item, "brokerName", ""), &topic);
    }
    rq_json_free(json);
    rq_free(name);
    answer(request, st ? RQ_RESP_SYSTEM_ERROR : RQ_RESP_SUCCESS, st ? "out of memory" : NULL);
}

/* ---- options: 318, 319 ---- */

static void get_config(const struct request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_namesrv_options_write(&request->namesrv->options, &body);
    answer_body(request, &body);
}

static void store_config(const struct rmq_namesrv *namesrv, struct rq_buf *pairs)
{
    const char *path = namesrv->options.config_store_path;
    rmq_error *err = NULL;
    if (!path || !*path || pairs->len == 0) {
        return;
    }
    if (rq_buf_status(pairs) || rq_propfile_change(path, rq_slice(pairs->data, pairs->len), &err)) {
        RQ_LOG(WARN, "the name server's options could not be written", "file=%s detail=%s", path,
               err ? rmq_error_message(err) : "out of memory");
    }
    rmq_error_destroy(err);
}

static void update_config(const struct request *request)
{
    struct rmq_namesrv *namesrv = request->namesrv;
    rmq_error *err = NULL;
    struct rq_buf pairs;
    rq_buf_init(&pairs, 0);
    switch (rq_namesrv_options_set(&namesrv->options, body_of(request),
                                   namesrv->options.config_black_list, &pairs, &err)) {
    case RQ_PROPERTIES_SET:
        namesrv->info.drop_missing = namesrv->options.delete_topic_with_broker_registration;
        namesrv->info.scan_ms = namesrv->options.scan_not_active_broker_interval;
        store_config(namesrv, &pairs);
        answer(request, RQ_RESP_SUCCESS, NULL);
        break;
    case RQ_PROPERTIES_FORBIDDEN:
        answer(request, RQ_RESP_NO_PERMISSION, "Can not update config in black list.");
        break;
    default:
        answer(request, RQ_RESP_SYSTEM_ERROR, err ? rmq_error_message(err) : "a property is wrong");
        break;
    }
    rmq_error_destroy(err);
    rq_buf_free(&pairs);
}

static const struct {
    int32_t code;
    void (*run)(const struct request *request);
} processors[] = {
    {RQ_REQ_GET_ROUTEINFO_BY_TOPIC, get_route},
    {RQ_REQ_REGISTER_BROKER, register_broker},
    {RQ_REQ_UNREGISTER_BROKER, unregister_broker},
    {RQ_REQ_QUERY_DATA_VERSION, query_data_version},
    {RQ_REQ_BROKER_HEARTBEAT, broker_heartbeat},
    {RQ_REQ_GET_BROKER_CLUSTER_INFO, get_clusters},
    {RQ_REQ_GET_BROKER_MEMBER_GROUP, get_member_group},
    {RQ_REQ_GET_ALL_TOPIC_LIST_FROM_NAMESERVER, list_topics},
    {RQ_REQ_GET_TOPICS_BY_CLUSTER, list_topics},
    {RQ_REQ_GET_SYSTEM_TOPIC_LIST_FROM_NS, list_topics},
    {RQ_REQ_GET_UNIT_TOPIC_LIST, list_topics},
    {RQ_REQ_GET_HAS_UNIT_SUB_TOPIC_LIST, list_topics},
    {RQ_REQ_GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, list_topics},
    {RQ_REQ_DELETE_TOPIC_IN_NAMESRV, delete_topic},
    {RQ_REQ_REGISTER_TOPIC_IN_NAMESRV, register_topic},
    {RQ_REQ_UPDATE_NAMESRV_CONFIG, update_config},
    {RQ_REQ_GET_NAMESRV_CONFIG, get_config},
    {RQ_REQ_PUT_KV_CONFIG, put_kv},
    {RQ_REQ_GET_KV_CONFIG, get_kv},
    {RQ_REQ_DELETE_KV_CONFIG, delete_kv},
    {RQ_REQ_GET_KVLIST_BY_NAMESPACE, list_kv},
    {RQ_REQ_WIPE_WRITE_PERM_OF_BROKER, set_write_perm},
    {RQ_REQ_ADD_WRITE_PERM_OF_BROKER, set_write_perm},
};

void rq_namesrv_process(struct rmq_namesrv *namesrv, struct rq_conn *conn, struct rq_in *in)
{
    const struct request request = {
        .namesrv = namesrv, .conn = conn, .in = in, .to = rq_reply_to(in->header)};
    for (size_t i = 0; i < sizeof processors / sizeof processors[0]; i++) {
        if (processors[i].code == in->header->code) {
            processors[i].run(&request);
            return;
        }
    }
    rq_answer_unsupported(conn, &request.to, in->header->code);
}
