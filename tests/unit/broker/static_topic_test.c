/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Logical queues of static topics on two brokers, over sockets: written, read and asked about where
 * they are led, and what they held before they went to another broker. */
#include "base/time.h"
#include "broker/broker.h"
#include "broker/logical_queue.h"
#include "unit/broker/two.h"

static struct raw_answer *query(struct raw *raw, int32_t queue_id)
{
    struct rq_hdr_query_consumer_offset header = {
        .consumer_group = rq_slice_str(GROUP), .topic = rq_slice_str(TOPIC), .queue_id = queue_id};
    return raw_call(raw, RQ_REQ_QUERY_CONSUMER_OFFSET, &rq_tab_query_consumer_offset, &header,
                    rq_slice(NULL, 0));
}

static int32_t commit(struct raw *raw, int32_t queue_id, int64_t offset)
{
    struct rq_hdr_update_consumer_offset header = {.consumer_group = rq_slice_str(GROUP),
                                                   .topic = rq_slice_str(TOPIC),
                                                   .queue_id = queue_id,
                                                   .commit_offset = offset};
    return raw_call(raw, RQ_REQ_UPDATE_CONSUMER_OFFSET, &rq_tab_update_consumer_offset, &header,
                    rq_slice(NULL, 0))
        ->header.code;
}

static struct raw_answer *search(struct raw *raw, int32_t queue_id, int64_t time_ms)
{
    struct rq_hdr_search_offset header = {
        .topic = rq_slice_str(TOPIC), .queue_id = queue_id, .timestamp = time_ms};
    return raw_call(raw, RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP, &rq_tab_search_offset, &header,
                    rq_slice(NULL, 0));
}

static struct raw_answer *pull(struct raw *raw, int32_t queue_id, int64_t offset)
{
    return raw_pull_now(raw, GROUP, TOPIC, queue_id, offset, "*");
}

/* ---- one broker ---- */

START_TEST(a_logical_queue_is_written_and_read_by_its_own_number)
{
    struct rq_msg msgs[4];
    two_map_to_a();
    two_produce(two.a, 0, 1);
    struct raw_answer *answer = raw_produce(two.a, TOPIC, 0, NULL, "second");
    ck_assert_int_eq(raw_i64(answer, "queueId"), 0);
    ck_assert_int_eq(raw_i64(answer, "queueOffset"), 1);
    answer = pull(two.a, 0, 0);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 4), 2);
    ck_assert_int_eq(msgs[1].queue_id, 1); /* the physical one */
    ck_assert_int_eq(raw_i64(answer, "offsetDelta"), 0);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 2);
    ck_assert_int_eq(pull(two.a, 1, 0)->header.code, RQ_RESP_PULL_NOT_FOUND);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.a, RQ_REQ_GET_MAX_OFFSET, 0), "offset"), 2);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.a, RQ_REQ_GET_MAX_OFFSET, 1), "offset"), 0);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.a, RQ_REQ_GET_MIN_OFFSET, 0), "offset"), 0);
}
END_TEST

START_TEST(a_message_for_any_queue_goes_to_the_first_one)
{
    two_map_to_a();
    ck_assert_int_eq(raw_i64(raw_produce(two.a, TOPIC, -1, NULL, "x"), "queueId"), 0);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.a, RQ_REQ_GET_MAX_OFFSET, 0), "offset"), 1);
}
END_TEST

START_TEST(a_batch_is_answered_with_the_logical_queue)
{
    struct rq_buf body;
    struct rq_hdr_send header = raw_send_header(TOPIC, 0, rq_slice("", 0));
    struct rq_batch_item item = {.body = rq_slice("one", 3), .properties = rq_slice("", 0)};
    RQ_SET(send, &header, batch, true);
    two_map_to_a();
    two_produce(two.a, 0, 1);
    rq_buf_init(&body, 0);
    rq_batch_add(&body, &item);
    rq_batch_add(&body, &item);
    struct raw_answer *answer = raw_call(two.a, RQ_REQ_SEND_BATCH_MESSAGE, &rq_tab_send_v2, &header,
                                         rq_slice(body.data, body.len));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(answer, "queueId"), 0);
    ck_assert_int_eq(raw_i64(answer, "queueOffset"), 1);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.a, RQ_REQ_GET_MAX_OFFSET, 0), "offset"), 3);
    rq_buf_free(&body);
}
END_TEST

START_TEST(a_request_that_says_so_means_the_physical_queue)
{
    struct raw_answer answer;
    struct rq_hdr_queue header = {.topic = rq_slice_str(TOPIC), .queue_id = 1};
    two_map_to_a();
    two_produce(two.a, 0, 3);
    struct rq_out *out = rq_logical_request(RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &header);
    raw_bytes(two.a, out->head.data, out->head.len);
    ck_assert(raw_next(two.a, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(raw_i64(&answer, "offset"), 3);
    rq_out_destroy(out);
}
END_TEST

START_TEST(a_queue_that_the_broker_does_not_lead_is_refused)
{
    two_map_to_a();
    two_begin_move();
    ck_assert_int_eq(raw_produce(two.a, TOPIC, 0, NULL, "x")->header.code,
                     RQ_RESP_NOT_LEADER_FOR_QUEUE);
    ck_assert_int_eq(raw_produce(two.a, TOPIC, 7, NULL, "x")->header.code,
                     RQ_RESP_NOT_LEADER_FOR_QUEUE);
    ck_assert_int_eq(pull(two.a, 0, 0)->header.code, RQ_RESP_NOT_LEADER_FOR_QUEUE);
    ck_assert_int_eq(query(two.a, 0)->header.code, RQ_RESP_NOT_LEADER_FOR_QUEUE);
    ck_assert_int_eq(commit(two.a, 0, 1), RQ_RESP_NOT_LEADER_FOR_QUEUE);
    ck_assert_int_eq(search(two.a, 0, 0)->header.code, RQ_RESP_NOT_LEADER_FOR_QUEUE);
    for (int32_t code = RQ_REQ_GET_MAX_OFFSET; code <= RQ_REQ_GET_EARLIEST_MSG_STORETIME; code++) {
        ck_assert_int_eq(two_ask_queue(two.a, code, 0)->header.code, RQ_RESP_NOT_LEADER_FOR_QUEUE);
    }
    ck_assert_int_eq(raw_produce(two.a, TOPIC, 1, NULL, "x")->header.code, RQ_RESP_SUCCESS);
}
END_TEST

/* ---- a queue that has moved ---- */

START_TEST(what_a_queue_held_before_it_moved_is_read_at_its_new_leader)
{
    struct rq_msg msgs[8];
    two_map_to_a();
    two_produce(two.a, 0, 5);
    two_begin_move();
    ck_assert_int_eq(raw_i64(raw_produce(two.b, TOPIC, 0, NULL, "early"), "queueOffset"), -1);
    two_end_move();
    ck_assert_int_eq(raw_i64(raw_produce(two.b, TOPIC, 0, NULL, "later"), "queueOffset"), 10001);

    struct raw_answer *answer = pull(two.b, 0, 2);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 8), 3);
    ck_assert_int_eq(raw_i64(answer, "offsetDelta"), 0);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 5);
    ck_assert_int_eq(raw_i64(answer, "minOffset"), 0);
    ck_assert_int_eq(raw_i64(answer, "maxOffset"), 10000); /* what the mapping knows */
    answer = pull(two.b, 0, 5);
    ck_assert_int_eq(answer->header.code, RQ_RESP_PULL_RETRY_IMMEDIATELY);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 10000);
    answer = pull(two.b, 0, 10000);
    ck_assert_uint_eq(raw_messages(answer, msgs, 8), 2);
    ck_assert(rq_slice_eq_str(msgs[0].body, "early"));
    ck_assert_int_eq(raw_i64(answer, "offsetDelta"), 10000);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 10002);
    ck_assert_int_eq(pull(two.b, 0, 10002)->header.code, RQ_RESP_PULL_NOT_FOUND);
}
END_TEST

START_TEST(while_nobody_knows_where_a_moved_queue_begins_its_old_messages_are_read)
{
    struct rq_msg msgs[8];
    two_map_to_a();
    two_produce(two.a, 0, 2);
    two_begin_move();
    ck_assert_uint_eq(raw_messages(pull(two.b, 0, 0), msgs, 8), 2);
    ck_assert_int_eq(pull(two.b, 0, 2)->header.code, RQ_RESP_PULL_NOT_FOUND);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.b, RQ_REQ_GET_MAX_OFFSET, 0), "offset"), 2);
}
END_TEST

START_TEST(offsets_of_a_moved_queue_are_asked_where_they_are)
{
    two_map_to_a();
    two_produce(two.a, 0, 5);
    int64_t between_ms = rq_wall_ms() + 1;
    ck_eventually(rq_wall_ms() > between_ms);
    two_begin_move();
    two_end_move();
    two_produce(two.b, 0, 3);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.b, RQ_REQ_GET_MIN_OFFSET, 0), "offset"), 0);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.b, RQ_REQ_GET_MAX_OFFSET, 0), "offset"), 10003);
    ck_assert_int_gt(
        raw_i64(two_ask_queue(two.b, RQ_REQ_GET_EARLIEST_MSG_STORETIME, 0), "timestamp"), 0);
    ck_assert_int_le(
        raw_i64(two_ask_queue(two.b, RQ_REQ_GET_EARLIEST_MSG_STORETIME, 0), "timestamp"),
        between_ms);
    ck_assert_int_eq(raw_i64(search(two.b, 0, 0), "offset"), 0);
    ck_assert_int_eq(raw_i64(search(two.b, 0, between_ms), "offset"),
                     5); /* then it goes on at 10000 */
    ck_assert_int_eq(raw_i64(search(two.b, 0, rq_wall_ms() + 60000), "offset"), 10003);
}
END_TEST

START_TEST(a_group_of_a_moved_queue_is_found_where_it_committed_last)
{
    two_map_to_a();
    two_produce(two.a, 0, 5);
    two_begin_move();
    two_end_move();
    two_produce(two.b, 0, 3);
    ck_assert_int_eq(query(two.b, 0)->header.code, RQ_RESP_QUERY_NOT_FOUND);
    ck_assert_int_eq(commit(two.b, 0, 3), RQ_RESP_SUCCESS); /* it is one of "a" */
    ck_assert_int_eq(
        rq_offsets_query(&two.broker_a->offsets, rq_slice_str(GROUP), rq_slice_str(TOPIC), 1), 3);
    ck_assert_int_eq(raw_i64(query(two.b, 0), "offset"), 3);
    ck_assert_int_eq(commit(two.b, 0, 10002), RQ_RESP_SUCCESS);
    ck_assert_int_eq(
        rq_offsets_query(&two.broker_b->offsets, rq_slice_str(GROUP), rq_slice_str(TOPIC), 0), 2);
    ck_assert_int_eq(raw_i64(query(two.b, 0), "offset"), 10002);
}
END_TEST

START_TEST(an_offset_that_comes_with_a_pull_is_that_of_the_logical_queue)
{
    struct rq_hdr_pull header = {.consumer_group = rq_slice_str(GROUP),
                                 .topic = rq_slice_str(TOPIC),
                                 .queue_offset = 10001,
                                 .max_msg_nums = 1,
                                 .sys_flag = RQ_PULL_SUBSCRIPTION | RQ_PULL_COMMIT_OFFSET,
                                 .commit_offset = 10001,
                                 .subscription = rq_slice_str("*")};
    two_map_to_a();
    two_begin_move();
    two_end_move();
    two_produce(two.b, 0, 3);
    raw_call(two.b, RQ_REQ_PULL_MESSAGE, &rq_tab_pull, &header, rq_slice(NULL, 0));
    ck_assert_int_eq(raw_i64(query(two.b, 0), "offset"), 10001);
}
END_TEST

START_TEST(an_old_leader_that_is_away_is_an_error_and_not_an_end)
{
    two_map_to_a();
    two_produce(two.a, 0, 1);
    two_begin_move();
    two_end_move();
    raw_close(two.a);
    rmq_broker_stop(two.broker_a); /* and with it the name server */
    struct raw_answer *answer = pull(two.b, 0, 0);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(two_ask_queue(two.b, RQ_REQ_GET_MIN_OFFSET, 0)->header.code,
                     RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.b, RQ_REQ_GET_MAX_OFFSET, 0), "offset"), 10000);
    const char *const first[] = {"brokerName", "a", NULL};
    two.broker_a = start_broker(first);
    two.a = raw_open(rmq_broker_addr(two.broker_a));
}
END_TEST

START_TEST(whoever_waits_at_a_queue_that_moves_is_told_to_ask_again)
{
    struct raw_answer answer;
    two_map_to_a();
    struct raw *waiting = raw_open(rmq_broker_addr(two.broker_a));
    raw_pull(waiting, GROUP, TOPIC, 0, 0, "*", 60000);
    ck_eventually(atomic_load(&two.broker_a->hold.count) == 1);
    two_begin_move();
    ck_assert(raw_next(waiting, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.code, RQ_RESP_PULL_RETRY_IMMEDIATELY);
    ck_assert_int_eq(raw_i64(&answer, "nextBeginOffset"), 0);
    raw_close(waiting);
}
END_TEST

START_TEST(a_parked_pull_gets_what_comes_to_its_logical_queue)
{
    struct raw_answer answer;
    two_map_to_a();
    two_begin_move();
    two_end_move();
    struct raw *waiting = raw_open(rmq_broker_addr(two.broker_b));
    raw_pull(waiting, GROUP, TOPIC, 0, 10000, "*", 60000);
    ck_eventually(atomic_load(&two.broker_b->hold.count) == 1);
    two_produce(two.b, 0, 1);
    ck_assert(raw_next(waiting, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(&answer, "nextBeginOffset"), 10001);
    ck_assert_int_eq(raw_i64(&answer, "offsetDelta"), 10000);
    raw_close(waiting);
}
END_TEST

Suite *static_topic_suite(void);

Suite *static_topic_suite(void)
{
    Suite *suite = suite_create("static_topic");
    TCase *tc = tcase_create("static_topic");
    tcase_add_checked_fixture(tc, two_start, two_stop);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_logical_queue_is_written_and_read_by_its_own_number);
    tcase_add_test(tc, a_message_for_any_queue_goes_to_the_first_one);
    tcase_add_test(tc, a_batch_is_answered_with_the_logical_queue);
    tcase_add_test(tc, a_request_that_says_so_means_the_physical_queue);
    tcase_add_test(tc, a_queue_that_the_broker_does_not_lead_is_refused);
    tcase_add_test(tc, what_a_queue_held_before_it_moved_is_read_at_its_new_leader);
    tcase_add_test(tc, while_nobody_knows_where_a_moved_queue_begins_its_old_messages_are_read);
    tcase_add_test(tc, offsets_of_a_moved_queue_are_asked_where_they_are);
    tcase_add_test(tc, a_group_of_a_moved_queue_is_found_where_it_committed_last);
    tcase_add_test(tc, an_offset_that_comes_with_a_pull_is_that_of_the_logical_queue);
    tcase_add_test(tc, an_old_leader_that_is_away_is_an_error_and_not_an_end);
    tcase_add_test(tc, whoever_waits_at_a_queue_that_moves_is_told_to_ask_again);
    tcase_add_test(tc, a_parked_pull_gets_what_comes_to_its_logical_queue);
    suite_add_tcase(suite, tc);
    return suite;
}
