/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Assignments that the broker makes, and request modes of groups, over sockets. */
#include "unit/broker/raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/time.h"

static rmq_broker *broker;
static struct raw *raw;
static struct raw *members[3];

static void open_with(const char *const *pairs)
{
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
    raw_create_topic(raw, "T", 4);
}

static void open_all(void)
{
    open_with(NULL);
    for (int i = 0; i < 3; i++) {
        const char *const names[] = {"c0", "c1", "c2"};
        members[i] = raw_open(rmq_broker_addr(broker));
        raw_heartbeat(members[i], names[i], "G", "T", "*", 1);
    }
}

static void close_all(void)
{
    for (int i = 0; i < 3; i++) {
        raw_close(members[i]);
    }
    raw_close(raw);
    rmq_broker_stop(broker);
}

static void write_query(char *body, size_t room, const char *client, const char *strategy)
{
    snprintf(body, room,
             "{\"topic\":\"T\",\"consumerGroup\":\"G\",\"clientId\":\"%s\",\"strategyName\":\"%s\","
             "\"messageModel\":\"CLUSTERING\"}",
             client, strategy);
}

static struct raw_answer *query(const char *client, const char *strategy)
{
    char body[256];
    write_query(body, sizeof body, client, strategy);
    return raw_call(raw, RQ_REQ_QUERY_ASSIGNMENT, NULL, NULL, rq_slice_str(body));
}

static int count_of(const struct raw_answer *answer, const char *text)
{
    int count = 0;
    for (size_t i = 0; i + strlen(text) <= answer->body.n; i++) {
        count += memcmp(answer->body.p + i, text, strlen(text)) == 0;
    }
    return count;
}

static int32_t set_mode(const char *topic, const char *mode, int share)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"topic\":\"%s\",\"consumerGroup\":\"G\",\"mode\":\"%s\",\"popShareQueueNum\":%d}",
             topic, mode, share);
    return raw_call(raw, RQ_REQ_SET_MESSAGE_REQUEST_MODE, NULL, NULL, rq_slice_str(body))
        ->header.code;
}

START_TEST(queues_are_shared_by_the_strategy_that_is_named)
{
    ck_eventually(count_of(query("c0", "AVG"), "\"queueId\"") == 2);
    ck_assert(raw_has(query("c0", "AVG"), "{\"messageQueue\":{\"brokerName\":\"broker-a\","
                                          "\"queueId\":1,\"topic\":\"T\"},\"mode\":\"PULL\"}"));
    ck_assert_int_eq(count_of(query("c1", "AVG"), "\"queueId\":2"), 1);
    ck_assert_int_eq(count_of(query("c2", "AVG"), "\"queueId\":3"), 1);
    ck_assert_int_eq(count_of(query("c0", "AVG_BY_CIRCLE"), "\"queueId\":3"), 1);
    ck_assert(!raw_has(query("c0", "OTHER"), "messageQueueAssignments"));
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_QUERY_ASSIGNMENT, NULL, NULL, rq_slice_str("{"))->header.code,
        RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(a_group_that_pops_gets_brokers_or_shared_queues)
{
    ck_assert_int_eq(set_mode("T", "POP", 0), RQ_RESP_SUCCESS);
    ck_eventually(count_of(query("c1", "AVG"), "\"queueId\":-1") == 1);
    ck_assert(raw_has(query("c1", "AVG"), "\"mode\":\"POP\""));
    ck_assert_int_eq(set_mode("T", "POP", 1), RQ_RESP_SUCCESS);
    /* its two, and the next one's */
    ck_assert_int_eq(count_of(query("c0", "AVG"), "\"queueId\""), 3);
    /* its one, and the first one's */
    ck_assert_int_eq(count_of(query("c2", "AVG"), "\"queueId\""), 3);
    ck_assert_int_eq(set_mode("T", "PULL", 0), RQ_RESP_SUCCESS);
    ck_assert_int_eq(count_of(query("c0", "AVG"), "\"mode\":\"PULL\""), 2);
    ck_assert_int_eq(set_mode("%RETRY%G", "POP", 0), RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(set_mode("Nowhere", "POP", 0), RQ_RESP_TOPIC_NOT_EXIST);
}
END_TEST

START_TEST(request_modes_survive_a_restart)
{
    char path[] = "/tmp/rmq-modes-XXXXXX";
    char command[64];
    ck_assert_ptr_nonnull(mkdtemp(path));
    const char *pairs[] = {"storePathRootDir", path, NULL};
    open_with(pairs);
    ck_assert_int_eq(set_mode("T", "POP", 7), RQ_RESP_SUCCESS);
    raw_close(raw);
    rmq_broker_stop(broker);
    open_with(pairs);
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_GET_ALL_MESSAGE_REQUEST_MODE, NULL, NULL, rq_slice(NULL, 0));
    ck_assert(raw_has(
        answer,
        "{\"messageRequestModeMap\":{\"T\":{\"G\":{\"consumerGroup\":\"G\",\"mode\":\"POP\","
        "\"popShareQueueNum\":7,\"topic\":\"T\"}}}}"));
    raw_close(raw);
    rmq_broker_stop(broker);
    snprintf(command, sizeof command, "rm -rf %s", path);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* One question after the other until the connection closes; no call of Check, it is a thread. */
static void ask_on(void *arg)
{
    const struct rq_buf *frame = arg;
    char answer[4096];
    while (send(raw->fd, frame->data, frame->len, MSG_NOSIGNAL) == (ssize_t)frame->len &&
           recv(raw->fd, answer, sizeof answer, 0) > 0) {
    }
}

/* Its connections are served until the end, when name servers are not asked any more. */
START_TEST(a_broker_stops_while_it_is_asked)
{
    char body[256];
    struct rq_buf frame;
    write_query(body, sizeof body, "c0", "AVG");
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_QUERY_ASSIGNMENT, NULL, NULL);
    rq_buf_init(&frame, 0);
    ck_assert_int_eq(rq_frame_encode(&frame, &spec, strlen(body), NULL), RMQ_OK);
    rq_buf_add_str(&frame, body);
    for (int round = 0; round < 20; round++) {
        struct rq_thread thread;
        open_with(NULL);
        ck_assert_int_eq(rq_thread_start(&thread, "asks", ask_on, &frame), RMQ_OK);
        rmq_broker_stop(broker);
        rq_thread_join(&thread);
        raw_close(raw);
    }
    rq_buf_free(&frame);
}
END_TEST

/* An address of this machine that refuses connections while fd is open. */
static void hold_dead_addr(int *fd, char *out, size_t room)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t n = sizeof addr;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(*fd, (struct sockaddr *)&addr, n), 0);
    ck_assert_int_eq(getsockname(*fd, (struct sockaddr *)&addr, &n), 0);
    snprintf(out, room, "127.0.0.1:%u", (unsigned)ntohs(addr.sin_port));
}

START_TEST(a_dead_name_server_is_left_for_the_next_one)
{
    rmq_namesrv *namesrv = NULL;
    char dead[32];
    char both[128];
    int fd = -1;
    ck_assert_int_eq(rmq_namesrv_start(NULL, 0, &namesrv, NULL), RMQ_OK);
    hold_dead_addr(&fd, dead, sizeof dead);
    snprintf(both, sizeof both, "%s;%s", dead, rmq_namesrv_addr(namesrv));
    const char *pairs[] = {"namesrvAddr", both, NULL};
    open_with(pairs);
    raw_heartbeat(raw, "c0", "G", "T", "*", 1);
    ck_eventually(count_of(query("c0", "AVG"), "\"queueId\"") == 4);
    raw_close(raw);
    rmq_broker_stop(broker);
    rmq_namesrv_stop(namesrv);
    close(fd);
}
END_TEST

START_TEST(queues_are_shared_out_when_no_name_server_answers_any_more)
{
    rmq_namesrv *namesrv = NULL;
    ck_assert_int_eq(rmq_namesrv_start(NULL, 0, &namesrv, NULL), RMQ_OK);
    const char *pairs[] = {"namesrvAddr", rmq_namesrv_addr(namesrv), NULL};
    open_with(pairs);
    raw_heartbeat(raw, "c0", "G", "T", "*", 1);
    ck_eventually(count_of(query("c0", "AVG"), "\"queueId\"") == 4);
    rmq_namesrv_stop(namesrv);
    ck_assert_int_eq(count_of(query("c0", "AVG"), "\"queueId\""), 4);
    struct raw *other = raw_open(rmq_broker_addr(broker));
    raw_heartbeat(other, "c1", "G", "T", "*", 1);
    ck_assert_int_eq(count_of(query("c1", "AVG"), "\"queueId\""), 2);
    raw_close(other);
    raw_close(raw);
    rmq_broker_stop(broker);
}
END_TEST

Suite *assignment_suite(void)
{
    Suite *suite = suite_create("broker/assignment");
    TCase *tc = tcase_create("assignment");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, open_all, close_all);
    tcase_add_test(tc, queues_are_shared_by_the_strategy_that_is_named);
    tcase_add_test(tc, a_group_that_pops_gets_brokers_or_shared_queues);
    suite_add_tcase(suite, tc);
    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 30);
    tcase_add_test(life, request_modes_survive_a_restart);
    tcase_add_test(life, a_broker_stops_while_it_is_asked);
    tcase_add_test(life, a_dead_name_server_is_left_for_the_next_one);
    tcase_add_test(life, queues_are_shared_out_when_no_name_server_answers_any_more);
    suite_add_tcase(suite, life);
    return suite;
}
