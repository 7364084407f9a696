/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* POP and PEEK of a queue that holds much that is not wanted, or has lost its beginning. */
#include <string.h>
#include <sys/time.h>

#include "broker/broker.h"
#include "unit/broker/popping.h"

static void open_with(const char *const *pairs)
{
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
    raw_create_topic(raw, TOPIC, 1);
}

static void produce_many(const char *tag, const char *body, int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(raw_produce(raw, TOPIC, 0, tag, body)->header.code, RQ_RESP_SUCCESS);
    }
}

START_TEST(many_messages_that_are_not_wanted_are_passed_over_in_several_looks)
{
    const char *const pairs[] = {"maxFilterMessageSize", "640", NULL};
    struct rq_msg msg;
    open_with(pairs);
    produce_many("A", "x", 2000);
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
    produce_many("A", "x", 200);
    pop_produce(0, "B", "far");
    struct raw_answer *answer =
        pop_now((struct pop_wish){.queue_id = 0, .invisible_ms = 3000, .expression = "B"});
    ck_assert_uint_eq(raw_messages(answer, &msg, 1), 1);
    struct pop_handle handle = pop_handle_of(answer, &msg);
    ck_assert_int_eq(handle.parts.offset - handle.parts.start_offset, 200);
    pop_ack_as_batch(&handle.parts);
    answer = pop_now((struct pop_wish){.queue_id = 0, .poll_ms = 4000});
    ck_assert_int_eq(answer->header.code, RQ_RESP_POLLING_TIMEOUT);
    pop_close();
}
END_TEST

/* The first file of the commit log goes, as one that has expired. */
static void expire_first_file(void)
{
    char path[512];
    struct timeval times[2];
    gettimeofday(&times[0], NULL);
    times[0].tv_sec -= 73L * 3600;
    times[1] = times[0];
    snprintf(path, sizeof path, "%s/commitlog/%020d", rmq_broker_store_path(broker), 0);
    ck_assert_int_eq(utimes(path, times), 0);
    ck_assert_int_eq(rq_store_clean(broker->store, true), 1);
}

START_TEST(a_peek_begins_where_the_queue_begins_when_the_group_is_before_that)
{
    const char *const pairs[] = {"mappedFileSizeCommitLog", "65536", NULL};
    struct rq_slice topic = rq_slice_str(TOPIC);
    struct rq_slice group = rq_slice_str(GROUP);
    struct rq_msg msgs[32];
    char body[1001];
    memset(body, 'b', 1000);
    body[1000] = '\0';
    open_with(pairs);
    produce_many("A", body, 100);
    pop_produce(0, "A", "last");
    expire_first_file();
    int64_t least = rq_store_min_offset(broker->store, topic, 0);
    ck_assert_int_gt(least, 0);
    (void)rq_offsets_commit(&broker->offsets, group, topic, 0, 0, NULL);
    struct rq_hdr_notification fields = {.consumer_group = group, .topic = topic, .queue_id = 0};
    RQ_SET(notification, &fields, max_msg_nums, 10);
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_PEEK_MESSAGE, &rq_tab_notification, &fields, rq_slice(NULL, 0));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 10);
    ck_assert_int_eq(msgs[0].queue_offset, least);
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
    tcase_add_test(tc, a_peek_begins_where_the_queue_begins_when_the_group_is_before_that);
    suite_add_tcase(suite, tc);
    return suite;
}
