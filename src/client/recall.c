/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Taking back a message that waits for its time. Any thread that may block. Counterpart:
 * DefaultMQProducerImpl.recallMessage. */
#include <string.h>

#include <rmq/producer.h>

#include "base/err.h"
#include "base/time.h"
#include "client/ask.h"
#include "client/producer.h"
#include "client/producer_queue.h"
#include "wire/namespace.h"
#include "wire/recall.h"

static rmq_status ask(struct rmq_producer *producer, const char *topic, const char *handle,
                      struct rq_slice broker_name, const char *addr, int64_t deadline_ms,
                      rmq_error **err)
{
    struct rq_hdr_recall fields = {.producer_group = rq_slice_str(producer->options.producer_group),
                                   .topic = rq_slice_str(topic),
                                   .recall_handle = rq_slice_str(handle),
                                   .bname = broker_name};
    struct rq_frame_spec spec =
        rq_instance_frame(producer->instance, RQ_REQ_RECALL_MESSAGE, &rq_tab_recall, &fields);
    struct rq_reply reply;
    rmq_status st = rq_ask_broker(producer->instance, addr, &spec, rq_slice(NULL, 0), "recall", 0,
                                  deadline_ms, &reply, err);
    if (st == RMQ_OK) {
        rq_reply_free(&reply);
    }
    return st;
}

static rmq_status recall(struct rmq_producer *producer, const char *topic, const char *handle,
                         struct rq_slice broker_name, int64_t deadline_ms, rmq_error **err)
{
    struct rq_route *route = NULL;
    rmq_status st = rq_producer_route(producer, topic, strlen(topic), deadline_ms, &route, err);
    if (st != RMQ_OK) {
        return st;
    }
    const struct rq_route_broker *broker = rq_route_find_broker(route, broker_name);
    const char *addr = broker ? rq_route_addr_of(broker, RQ_MASTER_ID) : NULL;
    st = addr ? ask(producer, topic, handle, broker_name, addr, deadline_ms, err)
              : rq_error_set(err, RMQ_ERR_NO_BROKER,
                             "broker %.*s has no master in the route of topic %s",
                             (int)broker_name.n, broker_name.p, topic);
    rq_route_release(route);
    return st;
}

rmq_status rmq_producer_recall(rmq_producer *producer, const char *topic, const char *recall_handle,
                               int64_t timeout_ms, rmq_error **err)
{
    struct rq_recall_handle handle;
    struct rq_buf text;
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    rq_buf_init(&text, 0);
    char room[RQ_NAMESPACED_MAX];
    topic = rq_namespace_wrap(producer->options.namespace_name, topic, room);
    if (rq_loop_in(rq_instance_loop(producer->instance))) {
        st = rq_error_set(err, RMQ_ERR_STATE, "a recall on the I/O thread");
    } else if (!topic || rq_topic_check(rq_slice_str(topic), err) != RMQ_OK) {
        st = topic ? RMQ_ERR_INVALID : rq_error_set(err, RMQ_ERR_INVALID, "topic is NULL");
    } else if (!recall_handle ||
               !rq_recall_handle_read(rq_slice_str(recall_handle), &text, &handle)) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "recall handle is invalid");
    } else {
        st = recall(producer, topic, recall_handle, handle.broker_name,
                    rq_producer_deadline_ms(producer, rq_mono_ms(), timeout_ms), err);
    }
    rq_buf_free(&text);
    rq_producer_leave(producer);
    return st;
}
