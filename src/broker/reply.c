/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A reply (324, 325) on its way: pushed to the requester over its own connection (326), whose
 * answer decides what the replier is told. The frame of the reply is kept until then. Loop thread
 * of the replier; the answer comes on that of the requester. Counterpart: ReplyMessageProcessor.
 */
#include "broker/reply.h"

#include <stdio.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/put.h"
#include "wire/msgid.h"
#include "wire/properties.h"

#define ANSWER_WAIT_MS 10000

struct reply {
    struct rq_call call;
    struct rmq_broker *broker;
    struct rq_conn *replier; /* a reference */
    struct rq_reply_to to;
    struct rq_frame_ref *frame; /* owns what header and msg point to */
    struct rq_hdr_send header;
    struct rq_msg msg;
};

static void free_reply(struct reply *reply)
{
    rq_conn_release(reply->replier);
    rq_frame_ref_release(reply->frame);
    rq_free(reply);
}

/* The answer has the place of the stored message, if there is one. */
static void answer(struct reply *reply, const char *failure)
{
    const struct rmq_broker *broker = reply->broker;
    const struct rq_broker_options *options = &broker->settings.broker;
    char id[RQ_MSGID_MAX + 1] = "0";
    struct rq_store_put put = {.status = RQ_PUT_UNKNOWN_ERROR};
    if (options->store_reply_message_enable &&
        rq_store_append(broker->store, &reply->msg, &put) == RQ_PUT_OK) {
        rq_store_dispatch(broker->store);
        (void)rq_msgid_of_offset(&broker->store_host, put.commit_log_offset, id);
    } else if (options->store_reply_message_enable) {
        RQ_LOG(WARN, "a reply could not be stored", "status=%s reason=%s",
               rq_put_status_name(put.status), put.reason);
    }
    if (failure) {
        rq_answer_text(reply->replier, &reply->to, RQ_RESP_SYSTEM_ERROR, "%s", failure);
        return;
    }
    struct rq_hdr_send_response fields = {
        .msg_id = rq_slice_str(id),
        .queue_id = reply->msg.queue_id,
        .queue_offset = put.queue_offset,
        .transaction_id = rq_props_get(reply->header.properties, RQ_PROP_UNIQ_KEY),
        .msg_region = rq_slice_str(options->region_id),
        .trace_on = options->trace_on ? rq_slice("true", 4) : rq_slice("false", 5)};
    rq_answer_fields(reply->replier, &reply->to, &rq_tab_send_response, &fields);
}

static void pushed(struct rq_call *call, rmq_status status, struct rq_in *in)
{
    struct reply *reply = RQ_CONTAINER_OF(call, struct reply, call);
    bool good = status == RMQ_OK && in->header->code == RQ_RESP_SUCCESS;
    char failure[256];
    if (!good) {
        struct rq_slice client = rq_props_get(reply->header.properties, RQ_PROP_REPLY_TO_CLIENT);
        (void)snprintf(failure, sizeof failure, "push reply message to %.*s fail.",
                       RQ_TEXT(client));
    }
    answer(reply, good ? NULL : failure);
    free_reply(reply);
}

static struct rq_out *make_push(const struct reply *reply)
{
    const struct rq_hdr_send *header = &reply->header;
    char born[RQ_HOST_TEXT];
    char stored[RQ_HOST_TEXT];
    struct rq_buf props;
    (void)rq_host_text(&reply->msg.born_host, born);
    (void)rq_host_text(&reply->msg.store_host, stored);
    rq_buf_init(&props, 0);
    rq_buf_add_slice(&props, header->properties);
    rq_props_add_i64(&props, 0, RQ_PROP_PUSH_REPLY_TIME, rq_wall_ms());
    struct rq_hdr_reply fields = {.producer_group = header->producer_group,
                                  .topic = header->topic,
                                  .default_topic = header->default_topic,
                                  .default_topic_queue_nums = header->default_topic_queue_nums,
                                  .queue_id = header->queue_id,
                                  .sys_flag = header->sys_flag,
                                  .born_timestamp = header->born_timestamp,
                                  .flag = header->flag,
                                  .properties = rq_slice(props.data, props.len),
                                  .born_host = rq_slice_str(born),
                                  .store_host = rq_slice_str(stored),
                                  .store_timestamp = rq_wall_ms()};
    RQ_SET(reply, &fields, reconsume_times, header->reconsume_times);
    RQ_SET(reply, &fields, unit_mode, header->unit_mode);
    struct rq_frame_spec spec = rq_frame_request(
        RQ_SERIALIZE_JSON, RQ_REQ_PUSH_REPLY_MESSAGE_TO_CLIENT, &rq_tab_reply, &fields);
    struct rq_out *out = rq_buf_status(&props) ? NULL : rq_out_make(&spec, reply->msg.body);
    rq_buf_free(&props);
    return out;
}

/* The frame is kept, and with it moves what the header points to: it is decoded once more. */
static struct reply *keep(const struct rq_request *request, int32_t queue_id)
{
    const struct rq_fields *table =
        request->in->header->code == RQ_REQ_SEND_REPLY_MESSAGE ? &rq_tab_send : &rq_tab_send_v2;
    struct reply *reply = rq_calloc(1, sizeof *reply);
    struct rq_frame_ref *frame = reply ? rq_in_keep(request->in) : NULL;
    if (!frame || rq_fields_decode(table, request->in->header, &reply->header, NULL)) {
        rq_frame_ref_release(frame);
        rq_free(reply);
        return NULL;
    }
    struct rq_slice body = request->in->body;
    reply->broker = request->broker;
    reply->replier = rq_conn_retain(request->conn);
    reply->to = request->to;
    reply->frame = frame;
    reply->msg = (struct rq_msg){.topic = reply->header.topic,
                                 .queue_id = queue_id,
                                 .flag = reply->header.flag,
                                 .sys_flag = reply->header.sys_flag,
                                 .reconsume_times = reply->header.reconsume_times,
                                 .born_timestamp_ms = reply->header.born_timestamp,
                                 .born_host = request->session->born_host,
                                 .store_host = request->broker->store_host,
                                 .body = body.p ? body : rq_slice("", 0),
                                 .properties = reply->header.properties};
    return reply;
}

void rq_reply_pass_on(const struct rq_request *request, int32_t queue_id)
{
    struct reply *reply = keep(request, queue_id);
    if (!reply) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, "out of memory");
        return;
    }
    char failure[256] = "reply message properties[REPLY_TO_CLIENT] is null";
    struct rq_slice client = rq_props_get(reply->header.properties, RQ_PROP_REPLY_TO_CLIENT);
    struct rq_conn *conn =
        client.n ? rq_clients_producer_by_id(&request->broker->clients, client) : NULL;
    struct rq_out *out = conn ? make_push(reply) : NULL;
    if (client.n) {
        (void)snprintf(failure, sizeof failure,
                       conn ? "push reply message to %.*s fail."
                            : "push reply message fail, channel of <%.*s> not found.",
                       RQ_TEXT(client));
    }
    reply->call.done = pushed;
    if (!out || rq_call_start(conn, &reply->call, out, rq_deadline_ms(ANSWER_WAIT_MS))) {
        answer(reply, failure);
        free_reply(reply);
    }
    rq_conn_release(conn);
}
