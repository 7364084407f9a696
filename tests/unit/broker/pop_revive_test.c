/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* POP against a running broker: messages that are hard to give back when their time is up. */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "base/time.h"
#include "unit/broker/popping.h"

static bool produce_with(const char *value)
{
    struct rq_buf props;
    rq_buf_init(&props, 0);
    rq_props_add_str(&props, 0, "full", rq_slice_str(value));
    struct rq_hdr_send header = raw_send_header(TOPIC, 0, rq_slice(props.data, props.len));
    const struct raw_answer *answer =
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("full"));
    rq_buf_free(&props);
    return answer->header.code == RQ_RESP_SUCCESS;
}

/* With as many bytes of properties as are accepted. */
static void produce_full(void)
{
    static char value[RQ_MSG_PROPERTIES_MAX + 1];
    size_t bytes = sizeof value - 1;
    memset(value, 'x', bytes);
    while (!produce_with(value)) {
        ck_assert_uint_gt(--bytes, 0);
        value[bytes] = '\0';
    }
}

START_TEST(a_message_without_room_for_more_properties_comes_back_until_it_is_acknowledged)
{
    struct rq_msg msg;
    produce_full();
    struct pop_wish wish = {.queue_id = -1, .poll_ms = 9000, .invisible_ms = 300};
    for (int times = 0; times <= 2; times++) {
        ck_assert_uint_eq(raw_messages(pop_now(wish), &msg, 1), 1);
        ck_assert_int_eq(msg.reconsume_times, times);
        ck_assert(rq_slice_eq_str(msg.body, "full"));
        ck_assert_ptr_null(rq_props_get(msg.properties, RQ_PROP_FIRST_POP_TIME).p);
    }
    wish.invisible_ms = 0;
    struct raw_answer *answer = pop_now(wish);
    ck_assert_uint_eq(raw_messages(answer, &msg, 1), 1);
    struct pop_handle handle = pop_handle_of(answer, &msg);
    ck_assert_int_eq(handle.parts.retry, '1');
    ck_assert_int_eq(pop_ack(&handle), RQ_RESP_SUCCESS);
}
END_TEST

/* With crc a full message cannot be stored, since that needs room, too. */
static void open_with(const char *path, const char *crc)
{
    const char *pairs[] = {"storePathRootDir", path, "enabledAppendPropCRC", crc, NULL};
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
}

/* How many messages have come back. */
static int64_t came_back(void)
{
    char name[RQ_POP_TOPIC_ROOM];
    struct rq_hdr_queue fields = {0};
    fields.topic =
        rq_slice(name, rq_pop_retry_topic(rq_slice_str(TOPIC), rq_slice_str(GROUP), name));
    return raw_i64(raw_call(raw, RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &fields, rq_slice(NULL, 0)),
                   "offset");
}

START_TEST(what_came_back_of_a_pop_does_not_come_again_with_the_rest_after_a_restart)
{
    char path[] = "/tmp/rmq-pop-XXXXXX";
    struct rq_msg msgs[2];
    ck_assert_ptr_nonnull(mkdtemp(path));
    open_with(path, "false");
    raw_create_topic(raw, TOPIC, 1);
    produce_full();
    pop_produce(0, "a", "small");
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = 0, .invisible_ms = 1500});
    ck_assert_uint_eq(raw_messages(answer, msgs, 2), 2);
    pop_close();
    open_with(path, "true");
    ck_eventually(came_back() > 0);
    pop_close();
    open_with(path, "false");
    ck_eventually(came_back() > 1);
    pop_close();
    open_with(path, "false"); /* what was stored together with the last one is seen, too */
    ck_assert_int_eq(came_back(), 2);
    pop_close();
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

Suite *pop_revive_suite(void)
{
    Suite *suite = suite_create("broker/pop_revive");
    TCase *tc = tcase_create("pop_revive");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, pop_open, pop_close);
    tcase_add_test(tc,
                   a_message_without_room_for_more_properties_comes_back_until_it_is_acknowledged);
    suite_add_tcase(suite, tc);
    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 60);
    tcase_add_test(life, what_came_back_of_a_pop_does_not_come_again_with_the_rest_after_a_restart);
    suite_add_tcase(suite, life);
    return suite;
}
