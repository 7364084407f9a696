/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* "Consume later" (36): a copy of the message goes to the group's retry topic with a delay, or to
 * its dead letters. Loop thread. Counterpart: AbstractSendMessageProcessor.consumerSendMsgBack. */
#include "broker/auto_topic.h"
#include "broker/broker.h"
#include "broker/put.h"
#include "broker/send_answer.h"
#include "wire/msgid.h"
#include "wire/names.h"
#include "wire/properties.h"

#define FIRST_RETRY_LEVEL 3 /* of the first retry, when the broker chooses the delay */
#define VERSION_V3_4_9    121

struct back {
    const struct rq_request *request;
    struct rq_hdr_send_back header;
    struct rq_group_info group;
    struct rq_msg msg;
    char topic[RQ_NAME_MAX];
    struct rq_buf props;
    int delay_level;
};

static bool refuse(const struct back *back, int32_t code, const char *remark)
{
    rq_request_answer(back->request, code, remark);
    return false;
}

static bool check(struct back *back)
{
    struct rmq_broker *broker = back->request->broker;
    if (!rq_groups_get(&broker->groups, back->header.group, &back->group)) {
        rq_answer_text(back->request->conn, &back->request->to,
                       RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group not exist, %.*s",
                       RQ_TEXT(back->header.group));
        return false;
    }
    if (!(broker->settings.broker.broker_permission & RQ_PERM_WRITE)) {
        return refuse(back, RQ_RESP_NO_PERMISSION, "the broker does not permit sending");
    }
    if (back->group.retry_queue_nums <= 0) {
        return refuse(back, RQ_RESP_SUCCESS, NULL);
    }
    return true;
}

/* One level more for each time; the put knows the highest. */
static int level_of(int32_t reconsume_times)
{
    return reconsume_times < INT32_MAX - FIRST_RETRY_LEVEL ? FIRST_RETRY_LEVEL + reconsume_times
                                                           : INT32_MAX;
}

/* The topic may have been made with fewer queues than the group has now. */
static int32_t choose_queue(struct back *back, const struct rq_topic_info *info)
{
    uint32_t next =
        atomic_fetch_add_explicit(&back->request->broker->unique_counter, 1, memory_order_relaxed);
    int32_t queues = back->group.retry_queue_nums;
    queues = info->read_queue_nums < queues ? info->read_queue_nums : queues;
    return queues > 0 ? (int32_t)(next % (uint32_t)queues) : 0;
}

static bool choose_retry_topic(struct back *back)
{
    struct rmq_broker *broker = back->request->broker;
    struct rq_topic_info info;
    size_t n = rq_topic_of_retry(back->header.group, back->topic);
    if (rq_retry_topic(broker, back->header.group, back->group.retry_queue_nums, &info)) {
        return refuse(back, RQ_RESP_SYSTEM_ERROR, "the retry topic cannot be made");
    }
    if (!(info.perm & RQ_PERM_WRITE)) {
        return refuse(back, RQ_RESP_NO_PERMISSION, "the retry topic does not permit sending");
    }
    back->msg.topic = rq_slice(back->topic, n);
    back->msg.queue_id = choose_queue(back, &info);
    back->delay_level = back->header.delay_level > 0 ? back->header.delay_level
                                                     : level_of(back->msg.reconsume_times);
    return true;
}

static bool choose_dead_letters(struct back *back)
{
    struct rmq_broker *broker = back->request->broker;
    struct rq_topic_info info;
    bool created = false;
    size_t n = rq_topic_of_dlq(back->header.group, back->topic);
    rq_dlq_topic_info(&info);
    if (n == 0 || rq_topics_add(&broker->topics, rq_slice(back->topic, n), &info, &created)) {
        return refuse(back, RQ_RESP_SYSTEM_ERROR, "the dead-letter topic cannot be made");
    }
    if (created) {
        rq_broker_topics_changed(broker);
    }
    back->msg.topic = rq_slice(back->topic, n);
    back->msg.queue_id = 0;
    back->delay_level = 0;
    return true;
}

static bool choose_topic(struct back *back)
{
    int32_t most = back->group.retry_max_times;
    if (RQ_HAS(send_back, &back->header, max_reconsume_times) &&
        back->request->in->header->version >= VERSION_V3_4_9) {
        most = back->header.max_reconsume_times;
    }
    bool dead = back->msg.reconsume_times >= most || back->header.delay_level < 0;
    return dead ? choose_dead_letters(back) : choose_retry_topic(back);
}

/* The message's own properties, with those of the retry. */
static rmq_status make_properties(struct back *back, struct rq_slice old, struct rq_slice old_topic)
{
    static const char *const replaced[] = {RQ_PROP_DELAY, RQ_PROP_WAIT, RQ_PROP_REAL_TOPIC,
                                           RQ_PROP_REAL_QID};
    char id[RQ_MSGID_MAX + 1];
    rq_props_copy_without(&back->props, 0, old, replaced, sizeof replaced / sizeof replaced[0]);
    if (!rq_props_get(old, RQ_PROP_RETRY_TOPIC).p) {
        rq_props_add_str(&back->props, 0, RQ_PROP_RETRY_TOPIC, old_topic);
    }
    if (!rq_props_get(old, RQ_PROP_ORIGIN_MESSAGE_ID).p) {
        size_t n = rq_msgid_of_offset(&back->msg.store_host, back->msg.commit_log_offset, id);
        rq_props_add_str(&back->props, 0, RQ_PROP_ORIGIN_MESSAGE_ID, rq_slice(id, n));
    }
    rq_props_add_str(&back->props, 0, RQ_PROP_WAIT, rq_slice("false", 5));
    rq_props_add_i64(&back->props, 0, RQ_PROP_DELAY, back->delay_level);
    return rq_buf_status(&back->props);
}

/* A message that came back before counts for the topic that it had at first. The put may have
 * diverted the message; its own properties are in props. */
static void count(const struct back *back, struct rq_slice old_topic,
                  const struct rq_store_put *put)
{
    struct rq_slice first =
        rq_props_get(rq_slice(back->props.data, back->props.len), RQ_PROP_RETRY_TOPIC);
    rq_broker_count_put(back->request, back->msg.topic, back->msg.queue_id, put, 1);
    rq_stats_add_group(&back->request->broker->stats, RQ_STATS_SNDBCK_PUT_NUMS,
                       first.n ? first : old_topic, back->header.group, 1);
}

static void store(struct back *back)
{
    struct rq_store_put put;
    struct rq_slice old_topic = back->msg.topic;
    struct rq_slice old_properties = back->msg.properties;
    if (!choose_topic(back)) {
        return;
    }
    if (make_properties(back, old_properties, old_topic)) {
        refuse(back, RQ_RESP_SYSTEM_ERROR, "out of memory");
        return;
    }
    back->msg.properties = rq_slice(back->props.data, back->props.len);
    back->msg.store_host = back->request->broker->store_host;
    back->msg.reconsume_times += back->msg.reconsume_times < INT32_MAX;
    back->msg.sys_flag &= ~RQ_SYS_TRANSACTION_MASK;
    back->msg.prepared_transaction_offset = 0;
    if (!back->msg.body.p) {
        back->msg.body.p = "";
    }
    if (rq_broker_put(back->request->broker, &back->msg, back->delay_level, &put) == RQ_PUT_OK) {
        count(back, old_topic, &put);
        rq_broker_dispatch_soon(back->request);
        rq_request_answer(back->request, RQ_RESP_SUCCESS, NULL);
    } else {
        rq_answer_text(back->request->conn, &back->request->to, RQ_RESP_SYSTEM_ERROR, "%s %s",
                       rq_put_status_name(put.status), put.reason);
    }
}

void rq_process_send_back(const struct rq_request *request)
{
    struct back back = {.request = request};
    struct rq_store_ref ref;
    if (!rq_request_decode(request, &rq_tab_send_back, &back.header) || !check(&back)) {
        return;
    }
    bool found = rq_store_view(request->broker->store, back.header.offset, &ref);
    struct rq_cursor cursor = rq_cursor(found ? ref.p : NULL, found ? ref.n : 0);
    if (!found || rq_msg_decode(&cursor, &back.msg, NULL)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                       "look message by offset failed, %lld", (long long)back.header.offset);
    } else {
        rq_buf_init(&back.props, 0);
        store(&back);
        rq_buf_free(&back.props);
    }
    if (found) {
        rq_store_ref_release(&ref);
    }
}
