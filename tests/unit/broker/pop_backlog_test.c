/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* POP of a queue that holds much that is not wanted. */
#include "broker/broker.h"
#include "unit/broker/popping.h"

static void produce_many(const char *tag, int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(raw_produce(raw, TOPIC, 0, tag, "x")->header.code, RQ_RESP_SUCCESS);
    }
}

START_TEST(many_messages_that_are_not_wanted_are_passed_over_in_several_looks)
{
    const char *const pairs[] = {"maxFilterMessageSize", "640", NULL};
    struct rq_msg msg;
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
    raw_create_topic(raw, TOPIC, 1);
    produce_many("A", 2000);
    pop_produce(0, "B", "wanted");
    struct pop_wish wish = {.queue_id = 0, .expression = "B"};
    ck_assert_int_eq(pop_now(wish)->header.code, RQ_RESP_POLLING_TIMEOUT);
    int64_t passed =
        rq_offsets_query(&broker->offsets, rq_slice_str(GROUP), rq_slice_str(TOPIC), 0);
    ck_assert_int_gt(passed, 0);
    ck_assert_int_lt(passed, 2000);
    wish.poll_ms = 9000; /* one that waits goes on by itself */
    struct raw_answer *answer = pop_now(wish);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, &msg, 1), 1);
    ck_assert(rq_slice_eq_str(msg.body, "wanted"));
    pop_close();
}
END_TEST

START_TEST(a_batch_acknowledges_what_was_found_far_behind_the_start)
{
    struct rq_msg msg;
    pop_open();
    produce_many("A", 200);
    pop_produce(0, "B", "far");
    struct raw_answer *answer =
        pop_now((struct pop_wish){.queue_id = 0, .invisible_ms = 500, .expression = "B"});
    ck_assert_uint_eq(raw_messages(answer, &msg, 1), 1);
    struct pop_handle handle = pop_handle_of(answer, &msg);
    ck_assert_int_eq(handle.parts.offset - handle.parts.start_offset, 200);
    pop_ack_as_batch(&handle.parts);
    answer = pop_now((struct pop_wish){.queue_id = 0, .poll_ms = 700});
    ck_assert_int_eq(answer->header.code, RQ_RESP_POLLING_TIMEOUT);
    pop_close();
}
END_TEST

Suite *pop_backlog_suite(void)
{
    Suite *suite = suite_create("broker/pop_backlog");
    TCase *tc = tcase_create("backlog");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, many_messages_that_are_not_wanted_are_passed_over_in_several_looks);
    tcase_add_test(tc, a_batch_acknowledges_what_was_found_far_behind_the_start);
    suite_add_tcase(suite, tc);
    return suite;
}
