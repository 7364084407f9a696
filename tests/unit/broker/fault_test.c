/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Misbehaviour on request: by functions, and in words by a change of settings. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "broker/broker.h"
#include "store/disk.h"
#include "unit/broker/raw.h"

static rmq_broker *broker;
static struct raw *raw;

static void open_broker(const char *enabled)
{
    const char *const pairs[] = {"faultInjectionEnable",
                                 enabled,
                                 "messageDelayLevel",
                                 "1h",
                                 "osPageCacheBusyTimeOutMills",
                                 "300",
                                 NULL};
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
    raw_create_topic(raw, "T", 1);
}

static void setup(void)
{
    open_broker("true");
}

static void teardown(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

static struct raw_answer *say(const char *fault)
{
    char body[256];
    snprintf(body, sizeof body, "fault=%s\n", fault);
    return raw_call(raw, RQ_REQ_UPDATE_BROKER_CONFIG, NULL, NULL, rq_slice_str(body));
}

static int32_t max_offset_code(void)
{
    struct rq_hdr_queue header = {.topic = rq_slice_str("T")};
    return raw_call(raw, RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &header, rq_slice(NULL, 0))
        ->header.code;
}

static struct raw_answer *try_to_send(void)
{
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(NULL, 0));
    return raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("x"));
}

START_TEST(words_make_the_next_answers_what_a_test_wants)
{
    ck_assert_int_eq(say("answer 30 times=2 code=2 remark=too busy for this")->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SYSTEM_BUSY);
    ck_assert(rq_slice_eq_str(raw->answer.header.remark, "too busy for this"));
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SYSTEM_BUSY);
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(words_that_say_nothing_are_refused)
{
    static const char *const wrong[] = {"",
                                        "dance",
                                        "answer",
                                        "answer x",
                                        "refuse all",
                                        "clock soon",
                                        "answer 30 times=many",
                                        "answer 30 tims=7 code=13",
                                        "answer 30 times",
                                        "delay 30 code=2",
                                        "drop 30 ms=2",
                                        "refuse writes ms=5",
                                        "refuse nothing now",
                                        "pause dispatch now",
                                        "clock 1 s",
                                        "clear now"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_msg(say(wrong[i])->header.code == RQ_RESP_SYSTEM_ERROR, "%s", wrong[i]);
    }
    say("clock soon");
    ck_assert(rq_slice_eq_str(raw->answer.header.remark,
                              "fault: a number of milliseconds is expected after clock"));
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SUCCESS);
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(a_broker_that_was_not_started_for_it_does_not_misbehave)
{
    teardown();
    open_broker("false");
    ck_assert_int_eq(say("answer 30 code=2")->header.code, RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(writes_are_refused_until_they_are_not)
{
    ck_assert_int_eq(say("refuse writes")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SERVICE_NOT_AVAILABLE);
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SUCCESS);
    ck_assert_int_eq(say("refuse nothing")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(rmq_broker_fault_refuse_writes(broker, true, NULL), RMQ_OK);
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SERVICE_NOT_AVAILABLE);
    rmq_broker_fault_clear(broker);
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(a_disk_that_got_well_on_request_takes_the_next_message)
{
    ck_assert_int_eq(rmq_broker_fault_disk(broker, RMQ_DISK_MAP, 1, -1, EMFILE, NULL), RMQ_OK);
    ck_assert_int_ne(try_to_send()->header.code, RQ_RESP_SUCCESS); /* there is no file yet */
    ck_assert_int_eq(rmq_broker_fault_disk(broker, RMQ_DISK_MAP, 1, 0, 0, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_fault_disk(broker, RMQ_DISK_ALLOCATE, 1, -1, ENOSPC, NULL), RMQ_OK);
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SERVICE_NOT_AVAILABLE);
    struct rq_slice remark = raw->answer.header.remark; /* and not the refusal of before */
    ck_assert_ptr_nonnull(memmem(remark.p, remark.n, "disk full", strlen("disk full")));
    rmq_broker_fault_clear(broker);
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(connections_are_refused_and_the_open_ones_cut)
{
    ck_assert_int_eq(rmq_broker_fault_refuse_connections(broker, true, NULL), RMQ_OK);
    ck_assert(raw_is_closed(raw));
    struct raw *other = raw_open(rmq_broker_addr(broker));
    ck_assert(raw_is_closed(other));
    raw_close(other);
    ck_assert_int_eq(rmq_broker_fault_refuse_connections(broker, false, NULL), RMQ_OK);
    raw_close(raw);
    raw = raw_open(rmq_broker_addr(broker));
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(faults_in_words_can_be_taken_back)
{
    ck_assert_int_eq(say("answer -1 times=-1 code=2")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SYSTEM_BUSY);
    ck_assert_int_eq(say("clear")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SUCCESS);
    ck_assert_int_eq(say("cut 25")->header.code, RQ_RESP_SUCCESS); /* when it is meant */
    raw_send(raw, RQ_REQ_UPDATE_BROKER_CONFIG, 0, NULL, NULL, rq_slice(NULL, 0));
    ck_assert(raw_is_closed(raw));
    raw_close(raw);
    raw = raw_open(rmq_broker_addr(broker));
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SUCCESS);
}
END_TEST

static bool takes_connections(void)
{
    struct raw *one = raw_open(rmq_broker_addr(broker));
    struct raw_answer answer;
    struct rq_hdr_queue header = {.topic = rq_slice_str("T")};
    raw_send(one, RQ_REQ_GET_MAX_OFFSET, 0, &rq_tab_queue, &header, rq_slice(NULL, 0));
    bool answered = raw_next(one, &answer, RAW_WAIT_MS);
    raw_close(one);
    return answered;
}

START_TEST(connections_are_refused_in_words_for_a_time_only)
{
    ck_assert_int_eq(say("refuse connections ms=60000")->header.code, RQ_RESP_SUCCESS);
    ck_assert(!takes_connections());
    ck_assert_int_eq(say("refuse nothing")->header.code, RQ_RESP_SUCCESS); /* over an open one */
    ck_assert(takes_connections());
    ck_assert_int_eq(say("refuse connections ms=300")->header.code, RQ_RESP_SUCCESS);
    ck_eventually(takes_connections());
    ck_assert_int_eq(say("refuse connections ms=0")->header.code, RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(a_clock_that_jumps_delivers_what_was_delayed)
{
    struct rq_buf properties;
    struct rq_msg msg;
    rq_buf_init(&properties, 0);
    rq_props_add_str(&properties, 0, RQ_PROP_DELAY, rq_slice_str("1"));
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(properties.data, properties.len));
    raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("in an hour"));
    rq_buf_free(&properties);
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, "*")->header.code, RQ_RESP_PULL_NOT_FOUND);
    ck_assert_int_eq(say("clock 3600000")->header.code, RQ_RESP_SUCCESS);
    ck_eventually(raw_pull_now(raw, "G", "T", 0, 0, "*")->header.code == RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(&raw->answer, &msg, 1), 1);
    ck_assert(rq_slice_eq_str(msg.body, "in an hour"));
    ck_assert_int_gt(msg.store_timestamp_ms, rq_wall_ms() + 3000000);
}
END_TEST

/* What another connection's loop would be at. */
static void *append(void *arg)
{
    struct rq_store_put put;
    const struct rq_msg msg = {.topic = rq_slice_str("T"),
                               .born_host = {.addr = {127, 0, 0, 1}, .len = 4},
                               .store_host = {.addr = {127, 0, 0, 1}, .len = 4},
                               .body = rq_slice_str("x")};
    rq_store_append(broker->store, &msg, &put);
    return arg;
}

START_TEST(sends_are_turned_away_while_an_append_hangs)
{
    pthread_t thread;
    struct rq_disk *disk = rq_store_disk(broker->store);
    int64_t deadline = rq_mono_ms() + 20000;
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SUCCESS);
    rq_disk_hang(disk, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, append, NULL), 0);
    while (!rq_store_is_busy(broker->store)) {
        ck_assert_int_lt(rq_mono_ms(), deadline);
        usleep(1000);
    }
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SYSTEM_BUSY);
    ck_assert(rq_slice_eq_str(raw->answer.header.remark,
                              "[REJECTREQUEST]system busy, start flow control for a while"));
    ck_assert_int_eq(max_offset_code(), RQ_RESP_SUCCESS);
    rq_disk_hang(disk, false);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(try_to_send()->header.code, RQ_RESP_SUCCESS);
}
END_TEST

Suite *fault_suite(void);

Suite *fault_suite(void)
{
    Suite *suite = suite_create("fault");
    TCase *tc = tcase_create("fault");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, words_make_the_next_answers_what_a_test_wants);
    tcase_add_test(tc, faults_in_words_can_be_taken_back);
    tcase_add_test(tc, connections_are_refused_in_words_for_a_time_only);
    tcase_add_test(tc, words_that_say_nothing_are_refused);
    tcase_add_test(tc, a_broker_that_was_not_started_for_it_does_not_misbehave);
    tcase_add_test(tc, writes_are_refused_until_they_are_not);
    tcase_add_test(tc, a_disk_that_got_well_on_request_takes_the_next_message);
    tcase_add_test(tc, connections_are_refused_and_the_open_ones_cut);
    tcase_add_test(tc, a_clock_that_jumps_delivers_what_was_delayed);
    tcase_add_test(tc, sends_are_turned_away_while_an_append_hangs);
    suite_add_tcase(suite, tc);
    return suite;
}
