/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * An administrator's questions to one consumer (307, 309): passed on over the consumer's own
 * connection, and its answer back. Loop thread of the administrator; the answer comes on that of
 * the consumer. Counterpart: AdminBrokerProcessor.callConsumer.
 */
#include "base/list.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/msgid.h"

#define ANSWER_WAIT_MS 10000

struct relay {
    struct rq_call call;
    struct rq_conn *asker; /* a reference */
    struct rq_reply_to to;
};

static void free_relay(struct relay *relay)
{
    rq_conn_release(relay->asker);
    rq_free(relay);
}

static void pass_back(struct rq_call *call, rmq_status status, struct rq_in *answer)
{
    struct relay *relay = RQ_CONTAINER_OF(call, struct relay, call);
    if (status == RMQ_ERR_TIMEOUT) {
        rq_answer_code(relay->asker, &relay->to, RQ_RESP_CONSUME_MSG_TIMEOUT,
                       "the consumer did not answer in time");
    } else if (status) {
        rq_answer_code(relay->asker, &relay->to, RQ_RESP_SYSTEM_ERROR, rmq_status_text(status));
    } else if (answer->header->code != RQ_RESP_SUCCESS) {
        rq_answer_text(relay->asker, &relay->to, answer->header->code, "%.*s",
                       RQ_TEXT(answer->header->remark));
    } else {
        struct rq_buf body;
        rq_buf_init(&body, 0);
        rq_buf_add_slice(&body, answer->body);
        rq_answer_body(relay->asker, &relay->to, NULL, NULL, &body);
    }
    free_relay(relay);
}

static struct rq_out *make_request(int32_t code, const struct rq_fields *table, const void *fields,
                                   struct rq_slice body)
{
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, code, table, fields);
    return rq_out_make(&spec, body);
}

/* Takes conn. */
static void ask(const struct rq_request *request, struct rq_conn *conn,
                const struct rq_fields *table, const void *fields, struct rq_slice body)
{
    struct relay *relay = rq_calloc(1, sizeof *relay);
    struct rq_out *out = make_request(request->in->header->code, table, fields, body);
    rmq_status st = RMQ_ERR_NOMEM;
    if (relay && out) {
        relay->asker = rq_conn_retain(request->conn);
        relay->to = request->to;
        relay->call.done = pass_back;
        st = rq_call_start(conn, &relay->call, out, rq_deadline_ms(ANSWER_WAIT_MS));
        out = NULL;
    }
    rq_out_destroy(out);
    if (st) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, rmq_status_text(st));
        if (relay) {
            free_relay(relay);
        }
    }
    rq_conn_release(conn);
}

static struct rq_conn *find_consumer(const struct rq_request *request, struct rq_slice group,
                                     struct rq_slice client_id)
{
    struct rq_conn *conn = rq_clients_find(&request->broker->clients, group, client_id);
    if (!conn) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                       "The Consumer <%.*s> <%.*s> not online", RQ_TEXT(group), RQ_TEXT(client_id));
    }
    return conn;
}

void rq_process_running_info(const struct rq_request *request)
{
    struct rq_hdr_running_info header;
    if (!rq_request_decode(request, &rq_tab_running_info, &header)) {
        return;
    }
    struct rq_conn *conn = find_consumer(request, header.consumer_group, header.client_id);
    if (conn) {
        ask(request, conn, &rq_tab_running_info, &header, request->in->body);
    }
}

void rq_process_consume_directly(const struct rq_request *request)
{
    struct rq_hdr_consume_directly header;
    struct rq_host host;
    struct rq_store_ref ref;
    int64_t offset = 0;
    if (!rq_request_decode(request, &rq_tab_consume_directly, &header)) {
        return;
    }
    header.broker_name = rq_slice_str(request->broker->settings.broker.broker_name);
    if (rq_msgid_parse_offset(header.msg_id, &host, &offset, NULL) ||
        !rq_store_view(request->broker->store, offset, &ref)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                       "there is no message with the id %.*s here", RQ_TEXT(header.msg_id));
        return;
    }
    struct rq_conn *conn = find_consumer(request, header.consumer_group, header.client_id);
    if (conn) {
        ask(request, conn, &rq_tab_consume_directly, &header, rq_slice(ref.p, ref.n));
    }
    rq_store_ref_release(&ref);
}
