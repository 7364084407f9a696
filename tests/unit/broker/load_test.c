/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Many connections on several loops at once: everything sent is received, in the order of its
 * queue, by parked and unparked pulls. */
#include "unit/broker/raw.h"

#include <pthread.h>
#include <string.h>

#include "base/time.h"
#include "broker/broker.h"

#define QUEUES   4
#define MESSAGES 1500

static rmq_broker *broker;

struct worker {
    pthread_t thread;
    int32_t queue_id;
    int64_t seen;
};

static void *produce(void *arg)
{
    struct worker *worker = arg;
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    struct rq_hdr_send header = raw_send_header("Load", worker->queue_id, rq_slice(NULL, 0));
    struct raw_answer answer;
    char body[32];
    for (int i = 0; i < MESSAGES; i++) {
        snprintf(body, sizeof body, "%d", i);
        raw_send(raw, RQ_REQ_SEND_MESSAGE_V2, 0, &rq_tab_send_v2, &header, rq_slice_str(body));
    }
    for (int i = 0; i < MESSAGES; i++) {
        ck_assert(raw_next(raw, &answer, RAW_WAIT_MS));
        ck_assert_int_eq(answer.header.code, RQ_RESP_SUCCESS);
    }
    raw_close(raw);
    return NULL;
}

static void take(struct worker *worker, const struct raw_answer *answer)
{
    struct rq_msg msgs[64];
    char expected[32];
    size_t count = raw_messages(answer, msgs, 64);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(msgs[i].queue_offset, worker->seen);
        snprintf(expected, sizeof expected, "%d", (int)worker->seen);
        ck_assert(rq_slice_eq_str(msgs[i].body, expected));
        worker->seen++;
    }
}

static void *consume(void *arg)
{
    struct worker *worker = arg;
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    struct raw_answer answer;
    while (worker->seen < MESSAGES) {
        raw_pull(raw, "G", "Load", worker->queue_id, worker->seen, "*", 5000);
        ck_assert(raw_next(raw, &answer, RAW_WAIT_MS));
        if (answer.header.code == RQ_RESP_SUCCESS) {
            take(worker, &answer);
        } else {
            ck_assert_int_eq(answer.header.code, RQ_RESP_PULL_NOT_FOUND);
        }
    }
    raw_close(raw);
    return NULL;
}

START_TEST(all_that_many_connections_send_is_received_in_order)
{
    static const char *const loops[] = {"1", "3"};
    const char *const pairs[] = {"serverSelectorThreads", loops[_i], "mappedFileSizeCommitLog",
                                 "262144", NULL};
    struct worker producers[QUEUES] = {0};
    struct worker consumers[QUEUES] = {0};
    broker = start_broker(pairs);
    ck_assert_int_eq(rmq_broker_create_topic(broker, "Load", QUEUES, NULL), RMQ_OK);
    for (int32_t i = 0; i < QUEUES; i++) {
        producers[i].queue_id = consumers[i].queue_id = i;
        pthread_create(&consumers[i].thread, NULL, consume, &consumers[i]);
        pthread_create(&producers[i].thread, NULL, produce, &producers[i]);
    }
    for (int32_t i = 0; i < QUEUES; i++) {
        pthread_join(producers[i].thread, NULL);
        pthread_join(consumers[i].thread, NULL);
        ck_assert_int_eq(consumers[i].seen, MESSAGES);
    }
    rmq_broker_stop(broker);
}
END_TEST

static void *churn(void *arg)
{
    struct worker *worker = arg;
    char client[32];
    for (int i = 0; i < 20; i++) {
        struct raw *raw = raw_open(rmq_broker_addr(broker));
        snprintf(client, sizeof client, "c%d-%d", worker->queue_id, i);
        ck_assert_int_eq(raw_heartbeat(raw, client, "G", "T", "*", i)->header.code,
                         RQ_RESP_SUCCESS);
        raw_pull(raw, "G", "T", worker->queue_id, 1, NULL, 60000);
        raw_close(raw);
    }
    return NULL;
}

START_TEST(clients_that_come_and_go_leave_nothing_behind)
{
    const char *const pairs[] = {"serverSelectorThreads", "3", NULL};
    struct worker workers[QUEUES] = {0};
    struct rq_hdr_consumer_group header = {.consumer_group = rq_slice_str("G")};
    broker = start_broker(pairs);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    raw_produce(raw, "T", 0, NULL, "x");
    for (int32_t i = 0; i < QUEUES; i++) {
        workers[i].queue_id = i;
        pthread_create(&workers[i].thread, NULL, churn, &workers[i]);
    }
    for (int32_t i = 0; i < QUEUES; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    ck_eventually(raw_call(raw, RQ_REQ_GET_CONSUMER_LIST_BY_GROUP, &rq_tab_consumer_group, &header,
                           rq_slice(NULL, 0))
                      ->header.code == RQ_RESP_SYSTEM_ERROR);
    raw_close(raw);
    rmq_broker_stop(broker);
}
END_TEST

static uint64_t steps_so_far(void)
{
    rq_mutex_lock(&broker->hold.lock);
    uint64_t steps = broker->hold.by_time.steps;
    rq_mutex_unlock(&broker->hold.lock);
    return steps;
}

/* Each waits for less time than the one before, as a peer may choose: a sorted list would take half
 * a million steps for every thousand of them. */
START_TEST(pulls_that_wait_for_different_times_cost_a_few_steps_each)
{
    enum { PULLS = 2000, STEPS_EACH = 40 };
    broker = start_broker(NULL);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    raw_produce(raw, "T", 0, NULL, "x");
    for (int i = 0; i < PULLS; i++) {
        raw_pull(raw, "G", "T", 0, 1, "*", 10000000 - i * 1000);
    }
    ck_eventually(atomic_load(&broker->hold.count) == PULLS);
    raw_close(raw);
    ck_eventually(atomic_load(&broker->hold.count) == 0);
    ck_assert_uint_le(steps_so_far(), PULLS * STEPS_EACH);
    rmq_broker_stop(broker);
}
END_TEST

Suite *load_suite(void)
{
    Suite *suite = suite_create("broker/load");
    TCase *tc = tcase_create("load");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, all_that_many_connections_send_is_received_in_order, 0, 2);
    tcase_add_test(tc, clients_that_come_and_go_leave_nothing_behind);
    tcase_add_test(tc, pulls_that_wait_for_different_times_cost_a_few_steps_each);
    suite_add_tcase(suite, tc);
    return suite;
}
