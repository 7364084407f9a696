/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Two brokers with a static topic (see the header). */
#include "unit/broker/two.h"

struct two two;

void two_start(void)
{
    const char *const first[] = {"brokerName", "a", NULL};
    two.broker_a = start_broker(first);
    const char *const second[] = {"brokerName", "b", "namesrvAddr",
                                  rmq_broker_namesrv_addr(two.broker_a), NULL};
    two.broker_b = start_broker(second);
    two.a = raw_open(rmq_broker_addr(two.broker_a));
    two.b = raw_open(rmq_broker_addr(two.broker_b));
    raw_heartbeat(two.a, "client", GROUP, TOPIC, "*", 1);
    raw_heartbeat(two.b, "client", GROUP, TOPIC, "*", 1);
}

void two_stop(void)
{
    raw_close(two.a);
    raw_close(two.b);
    rmq_broker_stop(two.broker_b);
    rmq_broker_stop(two.broker_a);
}

struct raw_answer *two_put_static(struct raw *raw, const char *topic, const char *body)
{
    struct rq_hdr_create_topic header = {.topic = rq_slice_str(topic),
                                         .default_topic = rq_slice_str(RQ_TOPIC_DEFAULT),
                                         .read_queue_nums = 2,
                                         .write_queue_nums = 2,
                                         .perm = RQ_PERM_READ | RQ_PERM_WRITE,
                                         .topic_filter_type = rq_slice_str("SINGLE_TAG")};
    return raw_call(raw, RQ_REQ_UPDATE_AND_CREATE_STATIC_TOPIC, &rq_tab_create_topic, &header,
                    rq_slice_str(body));
}

int32_t two_map(struct raw *raw, int epoch, const char *queues)
{
    char body[2048];
    (void)snprintf(body, sizeof body,
                   "{\"bname\":\"%s\",\"dirty\":false,\"epoch\":%d,\"hostedQueues\":{%s},"
                   "\"scope\":\"__global__\",\"topic\":\"" TOPIC "\",\"totalQueues\":2}",
                   raw == two.a ? "a" : "b", epoch, queues);
    return two_put_static(raw, TOPIC, body)->header.code;
}

void two_map_to_a(void)
{
    ck_assert_int_eq(two_map(two.a, 1, "0:[" ITEM("a", 0, 1, 0) "],1:[" ITEM("a", 0, 0, 0) "]"),
                     RQ_RESP_SUCCESS);
}

void two_begin_move(void)
{
    ck_assert_int_eq(two_map(two.b, 2, "0:[" ITEM("a", 0, 1, 0) "," ITEM("b", 1, 0, -1) "]"),
                     RQ_RESP_SUCCESS);
    ck_assert_int_eq(
        two_map(two.a, 2,
                "0:[" ITEM("a", 0, 1, 0) "," ITEM("b", 1, 0, -1) "],"
                                                                 "1:[" ITEM("a", 0, 0, 0) "]"),
        RQ_RESP_SUCCESS);
}

void two_end_move(void)
{
    ck_assert_int_eq(two_map(two.b, 2, "0:[" ITEM("a", 0, 1, 0) "," ITEM("b", 1, 0, 10000) "]"),
                     RQ_RESP_SUCCESS);
}

void two_produce(struct raw *raw, int32_t queue_id, int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(raw_produce(raw, TOPIC, queue_id, NULL, "x")->header.code,
                         RQ_RESP_SUCCESS);
    }
}

struct raw_answer *two_ask_queue(struct raw *raw, int32_t code, int32_t queue_id)
{
    struct rq_hdr_queue header = {.topic = rq_slice_str(TOPIC), .queue_id = queue_id};
    return raw_call(raw, code, &rq_tab_queue, &header, rq_slice(NULL, 0));
}

struct raw_answer *two_ask_topic(struct raw *raw, int32_t code, bool lo)
{
    struct rq_hdr_topic header = {.topic = rq_slice_str(TOPIC)};
    RQ_SET(topic, &header, lo, lo);
    return raw_call(raw, code, &rq_tab_topic, &header, rq_slice(NULL, 0));
}

bool two_route_has(const char *text)
{
    struct raw *namesrv = raw_open(rmq_broker_namesrv_addr(two.broker_a));
    bool has = raw_has(raw_route(namesrv, TOPIC), text);
    raw_close(namesrv);
    return has;
}
