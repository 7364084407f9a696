/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Requests to a name server, one function each, found by code in a table. Loop thread. Counterparts: DefaultRequestProcessor, ClientRequestProcessor. */
#include "base/crc.h"
#include "base/json.h"
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
    /* The Java broker 5.3.3 may send a zlib stream and say that it did not: JSON begins with a brace. */
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
    (void)rq_kv_write(&request->namesrv->kv, rq_slice_str(RQ_KV_ORDER_TOPIC_CONFIG), &body);
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

static void get_route(const struct request *request)
{
    struct rq_hdr_topic header;
    struct rq_buf body;
    if (!decode(request, &rq_tab_topic, &header)) {
        return;
    }
    bool bare = request->in->header->version < RQ_VERSION_V4_9_4 && !header.accept_standard_json_only;
    rq_buf_init(&body, 0);
    if (rq_route_info_write_route(&request->namesrv->info, header.topic, bare, NULL, &body)) {
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
    rq_answer_body(request->conn, &request->to, &rq_tab_query_data_version_response, &fields, &body);
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
