/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Static topics by request (513): a topic together with the mapping of its queues, made anew or
 * changed, as when queues go to another broker. Loop thread. Counterpart:
 * AdminBrokerProcessor.updateAndCreateStaticTopic. */
#include "base/err.h"
#include "base/log.h"
#include "broker/admin_topics.h"
#include "broker/broker.h"

/* The mapping in the body; *out stays NULL when there is none. */
static rmq_status read_mapping(const struct rq_request *request, struct rq_slice topic,
                               struct rq_queue_mapping **out, rmq_error **err)
{
    const char *own = request->broker->settings.broker.broker_name;
    cJSON *json = NULL;
    *out = NULL;
    if (request->in->body.n == 0) {
        return RMQ_OK;
    }
    rmq_status st = rq_json_parse(request->in->body, &json, err);
    st = st ? st : rq_queue_mapping_parse(json, out, err);
    rq_json_free(json);
    if (!st && !rq_slice_eq_str(topic, (*out)->topic)) {
        st = rq_error_set(err, RMQ_ERR_PROTOCOL, "the mapping is one of topic %s", (*out)->topic);
    }
    if (!st && !rq_slice_eq_str(rq_slice_str(own), (*out)->broker_name)) {
        st = rq_error_set(err, RMQ_ERR_PROTOCOL, "the mapping is for broker %s, this is %s",
                          (*out)->broker_name, own);
    }
    return st;
}

/* Takes the mapping, which may be NULL. Whoever waits at one of the queues asks again. */
static rmq_status put(struct rmq_broker *broker, struct rq_slice topic,
                      const struct rq_topic_info *info, struct rq_queue_mapping *mapping,
                      bool force, rmq_error **err)
{
    bool changed = false;
    rmq_status st =
        mapping ? rq_queue_mappings_put(&broker->mappings, mapping, force, err) : RMQ_OK;
    if (st) {
        rq_queue_mapping_release(mapping);
        /* what the mapping is like is no question of the request's form */
        return st == RMQ_ERR_INVALID ? RMQ_ERR_STATE : st;
    }
    st = rq_admin_put_topic(broker, topic, info, rq_slice(NULL, 0), &changed, err);
    if (!st && mapping) {
        rq_topics_mark_static(&broker->topics, topic, true);
    }
    if (!st && !changed) {
        rq_topics_touch(&broker->topics); /* name servers go by the version of the topics */
    }
    rq_hold_wake_topic(&broker->hold, topic);
    return st;
}

void rq_process_create_static_topic(const struct rq_request *request)
{
    struct rq_hdr_create_topic header;
    struct rq_queue_mapping *mapping = NULL;
    rmq_error *err = NULL;
    if (!rq_request_decode(request, &rq_tab_create_topic, &header)) {
        return;
    }
    const struct rq_topic_info info = rq_admin_topic_info(&header);
    rmq_status st = rq_admin_check_topic(request->broker, header.topic, &info, &err);
    st = st ? st : read_mapping(request, header.topic, &mapping, &err);
    if (st) {
        rq_queue_mapping_release(mapping);
    } else {
        st = put(request->broker, header.topic, &info, mapping, header.force, &err);
    }
    RQ_LOG(INFO, "static topic created or changed by request", "topic=%.*s queues=%d status=%s",
           RQ_TEXT(header.topic), info.write_queue_nums, rmq_status_name(st));
    rq_admin_answer_put(request, st, err);
}
