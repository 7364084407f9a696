/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Replies (see the header). A pushed one has its parts in the header's fields: it is written down
 * as brokers store messages, so that it is read like any other. Any thread. Counterparts:
 * ClientRemotingProcessor.receiveReplyMessage, MessageUtil.createReplyMessage.
 */
#include "client/reply.h"

#include <string.h>

#include <rmq/producer.h>

#include "base/err.h"
#include "base/time.h"
#include "client/instance.h"
#include "client/producer.h"
#include "wire/command.h"
#include "wire/names.h"
#include "wire/properties.h"

static struct rq_host host_of(struct rq_slice text)
{
    struct rq_host host;
    if (rq_host_parse(text, &host, NULL) != RMQ_OK) {
        host = (struct rq_host){.len = 4};
    }
    return host;
}

static rmq_status write_down(const struct rq_msg *msg, struct rq_views **out, rmq_error **err)
{
    size_t size = rq_msg_encoded_size(msg);
    char *bytes = NULL;
    struct rq_frame_ref *ref = size ? rq_frame_ref_create(size, &bytes) : NULL;
    if (!ref) {
        return rq_error_set(err, size ? RMQ_ERR_NOMEM : RMQ_ERR_PROTOCOL, "reply of %zu bytes",
                            msg->body.n);
    }
    rq_msg_encode(msg, size, bytes);
    rmq_status st = rq_views_create(ref, rq_slice(bytes, size), "", out, err);
    if (st != RMQ_OK) {
        rq_frame_ref_release(ref);
    }
    return st;
}

rmq_status rq_reply_view(struct rq_in *in, size_t max, struct rq_views **out, rmq_error **err)
{
    struct rq_hdr_reply header;
    struct rq_buf arrived;
    rmq_status st = rq_fields_decode(&rq_tab_reply, in->header, &header, err);
    if (st != RMQ_OK) {
        return st;
    }
    rq_buf_init(&arrived, 0);
    rq_props_add_i64(&arrived, 0, RQ_PROP_ARRIVE_TIME, rq_wall_ms());
    struct rq_msg msg = {.topic = header.topic,
                         .queue_id = header.queue_id,
                         .flag = header.flag,
                         .sys_flag = header.sys_flag,
                         .reconsume_times = header.reconsume_times,
                         .born_timestamp_ms = header.born_timestamp,
                         .store_timestamp_ms = header.store_timestamp,
                         .born_host = host_of(header.born_host),
                         .store_host = host_of(header.store_host),
                         .body = in->body.p ? in->body : rq_slice("", 0),
                         .properties = header.properties,
                         .more_properties = rq_slice(arrived.data, arrived.len)};
    st = rq_buf_status(&arrived) ? rq_error_set(err, RMQ_ERR_NOMEM, "reply")
                                 : write_down(&msg, out, err);
    rq_buf_free(&arrived);
    if (st == RMQ_OK && (st = rq_view_expand(&(*out)->items[0], max, err)) != RMQ_OK) {
        rq_views_release(*out);
        *out = NULL;
    }
    return st;
}

/* ---- replying ---- */

static rmq_status copy_marks(const rmq_message_view *request, rmq_message *reply)
{
    static const char *const names[] = {RQ_PROP_CORRELATION_ID, RQ_PROP_REPLY_TO_CLIENT,
                                        RQ_PROP_TTL};
    rmq_status st = rq_message_put(reply, RQ_PROP_MSG_TYPE, "reply");
    for (size_t i = 0; st == RMQ_OK && i < sizeof names / sizeof names[0]; i++) {
        const char *value = rq_view_property(request, names[i]);
        st = value ? rq_message_put(reply, names[i], value) : RMQ_OK;
    }
    return st;
}

rmq_status rmq_message_create_reply(const rmq_message_view *request, rmq_message **out,
                                    rmq_error **err)
{
    if (!request || !out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "reply: request and out are required");
    }
    const char *cluster = rq_view_property(request, RQ_PROP_CLUSTER);
    const char *client = rq_view_property(request, RQ_PROP_REPLY_TO_CLIENT);
    if (!cluster || !client) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message %s is no request: it has no property %s",
                            request->unique_id,
                            cluster ? RQ_PROP_REPLY_TO_CLIENT : RQ_PROP_CLUSTER);
    }
    struct rq_buf topic;
    rq_buf_init(&topic, 0);
    rq_buf_addf(&topic, "%s%s", cluster, RQ_REPLY_TOPIC_END);
    rmq_message *reply = NULL;
    rmq_status st = rmq_message_create(rq_buf_cstr(&topic), &reply, err);
    rq_buf_free(&topic);
    if (st == RMQ_OK && (st = copy_marks(request, reply)) != RMQ_OK) {
        rmq_message_destroy(reply);
        return rq_error_set(err, st, "reply to %s: %s", request->unique_id, rmq_status_text(st));
    }
    if (st == RMQ_OK) {
        reply->reply = true;
        *out = reply;
    }
    return st;
}

/* Whether a broker other than this one takes replies, as far as is known. */
static bool has_other_broker(const rmq_producer *producer, const rmq_message *reply,
                             const char *broker_name)
{
    struct rq_route *route =
        rq_instance_route(producer->instance, rq_slice_str(rmq_message_topic(reply)));
    bool found = !route;
    for (size_t i = 0; route && !found && i < route->publish_count; i++) {
        found = strcmp(route->publish[i].broker_name, broker_name) != 0;
    }
    rq_route_release(route);
    return found;
}

/* broker_name NULL: to any. */
static rmq_status send_to(rmq_producer *producer, const rmq_message *reply, const char *broker_name,
                          int64_t timeout_ms, rmq_error **err)
{
    rmq_send_options options;
    rmq_send_options_init(&options, sizeof options);
    options.broker_name = broker_name;
    options.timeout_ms = timeout_ms;
    return rmq_producer_send_with(producer, reply, &options, NULL, err);
}

/* To the broker that had the request, since it knows the requester; to any of the cluster when that
 * fails, for which half of the time is kept. */
static rmq_status send_reply(rmq_producer *producer, const rmq_message_view *request,
                             const rmq_message *reply, int64_t timeout_ms, rmq_error **err)
{
    int64_t deadline = rq_producer_deadline_ms(producer, rq_mono_ms(), timeout_ms);
    const char *home = request->broker_name;
    if (home[0]) {
        int64_t left = rq_left_ms(deadline);
        bool halve = left > 1 && has_other_broker(producer, reply, home);
        rmq_status st = send_to(producer, reply, home, halve ? left / 2 : left, err);
        if (st == RMQ_OK || rq_mono_ms() >= deadline) {
            return st;
        }
        if (err) {
            rmq_error_destroy(*err);
            *err = NULL;
        }
    }
    return send_to(producer, reply, NULL, rq_left_ms(deadline), err);
}

rmq_status rmq_producer_reply(rmq_producer *producer, const rmq_message_view *request,
                              const void *body, size_t size, int64_t timeout_ms, rmq_error **err)
{
    rmq_message *reply = NULL;
    rmq_status st = rmq_message_create_reply(request, &reply, err);
    if (st == RMQ_OK && (st = rmq_message_copy_body(reply, body, size)) != RMQ_OK) {
        rq_error_set(err, st, "body of a reply: %s", rmq_status_text(st));
    }
    if (st == RMQ_OK && (st = rq_producer_enter(producer, err)) == RMQ_OK) {
        st = send_reply(producer, request, reply, timeout_ms, err);
        rq_producer_leave(producer);
    }
    rmq_message_destroy(reply);
    return st;
}
