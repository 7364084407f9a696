/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* POP against a running broker: what is given out, acknowledged, given back, in order and while
 * waiting. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/thread.h"
#include "base/time.h"
#include "broker/broker.h"
#include "unit/broker/popping.h"

START_TEST(a_pop_tells_where_its_messages_are_and_nobody_else_gets_them)
{
    struct rq_msg msgs[32];
    for (int i = 0; i < 3; i++) {
        pop_produce(0, "a", "one");
    }
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1, .max = 2});
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    ck_assert(rq_slice_eq_str(pop_field(answer, "startOffsetInfo"), "0 0 0"));
    ck_assert(rq_slice_eq_str(pop_field(answer, "msgOffsetInfo"), "0 0 0,1"));
    ck_assert_int_eq(raw_i64(answer, "restNum"), 1);
    ck_assert_int_eq(raw_i64(answer, "invisibleTime"), 60000);
    struct pop_handle first = pop_handle_of(answer, &msgs[0]);
    ck_assert_int_eq(pop_ack(&first), RQ_RESP_SUCCESS);
    ck_assert_int_eq(pop_ack(&first), RQ_RESP_SUCCESS); /* harmless */
    answer = pop_now((struct pop_wish){.queue_id = 0});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    ck_assert_int_eq(msgs[0].queue_offset, 2);
    answer = pop_now((struct pop_wish){.queue_id = -1});
    ck_assert_int_eq(answer->header.code, RQ_RESP_POLLING_TIMEOUT);
}
END_TEST

static bool counted(const char *name, const char *key, const char *sum)
{
    struct rq_hdr_stats header = {.stats_name = rq_slice_str(name), .stats_key = rq_slice_str(key)};
    return raw_has(
        raw_call(raw, RQ_REQ_VIEW_BROKER_STATS_DATA, &rq_tab_stats, &header, rq_slice(NULL, 0)),
        sum);
}

START_TEST(pops_and_acknowledgements_are_counted_by_topic_and_group)
{
    struct rq_msg msgs[32];
    pop_produce(0, "a", "one");
    pop_produce(0, "a", "two");
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    struct pop_handle first = pop_handle_of(answer, &msgs[0]);
    struct pop_handle second = pop_handle_of(answer, &msgs[1]);
    ck_assert_int_eq(pop_ack(&first), RQ_RESP_SUCCESS);
    ck_assert_int_eq(pop_ack_call(RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &second, 60000)->header.code,
                     RQ_RESP_SUCCESS);
    rq_stats_sample(&broker->stats, rq_wall_ms());
    ck_assert(
        counted("GROUP_GET_NUMS", TOPIC "@" GROUP, "\"statsMinute\":{\"avgpt\":2.0000,\"sum\":2,"));
    ck_assert(
        counted("GROUP_CK_NUMS", TOPIC "@" GROUP, "\"statsMinute\":{\"avgpt\":1.0000,\"sum\":2,"));
    ck_assert(
        counted("GROUP_ACK_NUMS", TOPIC "@" GROUP, "\"statsMinute\":{\"avgpt\":1.0000,\"sum\":2,"));
    ck_assert(counted("BROKER_ACK_NUMS", "DefaultCluster", "\"sum\":2,"));
}
END_TEST

START_TEST(what_is_not_acknowledged_comes_back_from_the_retry_topic)
{
    struct rq_msg msgs[32];
    pop_produce(0, "a", "kept");
    pop_produce(0, "b", "done");
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1, .invisible_ms = 300});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    struct pop_handle second = pop_handle_of(answer, &msgs[1]);
    ck_assert_int_eq(pop_ack(&second), RQ_RESP_SUCCESS);
    for (int times = 1; times <= 3; times++) {
        answer = pop_now((struct pop_wish){.queue_id = -1, .invisible_ms = 300, .poll_ms = 8000});
        ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
        ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
        ck_assert(rq_slice_eq_str(msgs[0].body, "kept"));
        ck_assert(rq_slice_eq_str(msgs[0].topic, TOPIC));
        ck_assert_int_eq(msgs[0].reconsume_times, times);
        ck_assert(rq_props_get(msgs[0].properties, RQ_PROP_FIRST_POP_TIME).p != NULL);
    }
    struct pop_handle last = pop_handle_of(answer, &msgs[0]);
    ck_assert_int_eq(last.parts.retry, '1');
    ck_assert_int_eq(pop_ack(&last), RQ_RESP_SUCCESS);
    answer = pop_now((struct pop_wish){.queue_id = -1, .poll_ms = 700});
    ck_assert_int_eq(answer->header.code, RQ_RESP_POLLING_TIMEOUT);
}
END_TEST

START_TEST(a_changed_time_makes_a_new_handle_and_voids_the_old_one)
{
    struct rq_msg msgs[32];
    pop_produce(0, "a", "later");
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1, .invisible_ms = 400});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    struct pop_handle handle = pop_handle_of(answer, &msgs[0]);
    answer = pop_ack_call(RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &handle, 2000);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(answer, "invisibleTime"), 2000);
    ck_assert_int_gt(raw_i64(answer, "popTime"), handle.parts.pop_time_ms);
    ck_assert_int_eq(raw_i64(answer, "reviveQid"), handle.parts.revive_qid);
    int64_t changed = rq_mono_ms();
    ck_assert_int_eq(pop_ack(&handle), RQ_RESP_SUCCESS); /* of nothing */
    answer = pop_now((struct pop_wish){.queue_id = -1, .poll_ms = 9000});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    ck_assert_int_ge(rq_mono_ms() - changed, 1900);
}
END_TEST

START_TEST(a_handle_with_an_impossible_time_is_refused)
{
    static const char *const texts[] = {"0 9223372036854775807 60000 0 0 broker-a 0 0",
                                        "0 1 9223372036854775807 0 0 broker-a 0 0",
                                        "0 -1 60000 0 0 broker-a 0 0"};
    struct rq_msg msgs[32];
    pop_produce(0, "a", "x");
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    struct pop_handle handle = pop_handle_of(answer, &msgs[0]);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(handle.text, sizeof handle.text, "%s", texts[i]);
        answer = pop_ack_call(RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &handle, 1000);
        ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
        ck_assert_int_eq(pop_ack(&handle), RQ_RESP_SYSTEM_ERROR);
    }
}
END_TEST

START_TEST(a_batch_acknowledges_messages_of_several_queues)
{
    struct rq_msg msgs[32];
    struct rq_buf body;
    raw_create_topic(raw, TOPIC, 2);
    for (int i = 0; i < 6; i++) {
        pop_produce(i % 2, "a", "x");
    }
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1, .invisible_ms = 300});
    size_t count = raw_messages(answer, msgs, 32);
    ck_assert_uint_eq(count, 6);
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"acks\":[");
    for (int queue = 0; queue < 2; queue++) {
        const char bits[] = {queue ? 7 : 5}; /* one of queue 0 is left */
        const struct rq_pop_batch_ack piece = {.group = rq_slice_str(GROUP),
                                               .topic = rq_slice_str(TOPIC),
                                               .retry = '0',
                                               .queue_id = queue,
                                               .revive_qid = (int32_t)raw_i64(answer, "reviveQid"),
                                               .pop_time_ms = raw_i64(answer, "popTime"),
                                               .invisible_ms = 300,
                                               .bits = rq_slice(bits, sizeof bits)};
        rq_buf_add_str(&body, queue ? "," : "");
        rq_pop_batch_ack_write(&piece, &body);
    }
    rq_buf_add_str(&body, "],\"brokerName\":\"broker-a\"}");
    answer = raw_call(raw, RQ_REQ_BATCH_ACK_MESSAGE, NULL, NULL, rq_slice(body.data, body.len));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    rq_buf_free(&body);
    answer = pop_now((struct pop_wish){.queue_id = -1, .poll_ms = 8000});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    answer = pop_now((struct pop_wish){.queue_id = -1, .poll_ms = 500});
    ck_assert_int_eq(answer->header.code, RQ_RESP_POLLING_TIMEOUT);
    answer = raw_call(raw, RQ_REQ_BATCH_ACK_MESSAGE, NULL, NULL, rq_slice_str("{\"acks\":[]}"));
    ck_assert_int_eq(answer->header.code, RQ_RESP_NO_MESSAGE);
    answer = raw_call(raw, RQ_REQ_BATCH_ACK_MESSAGE, NULL, NULL, rq_slice_str("{\"acks\":[{}]}"));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(each_message_wakes_one_of_those_that_wait)
{
    struct raw *waiters[3];
    struct rq_msg msgs[32];
    int got = 0;
    for (int i = 0; i < 3; i++) {
        waiters[i] = raw_open(rmq_broker_addr(broker));
        pop_send(waiters[i], (struct pop_wish){.queue_id = -1, .poll_ms = 20000});
    }
    ck_eventually(pop_waiting(-1) == 3);
    pop_produce(0, "a", "first");
    ck_eventually(pop_waiting(-1) == 2);
    pop_produce(0, "a", "second");
    ck_eventually(pop_waiting(-1) == 1);
    for (int i = 0; i < 3 && got < 2; i++) { /* they were answered, the oldest first */
        if (raw_next(waiters[i], &waiters[i]->answer, RAW_WAIT_MS)) {
            got += (int)raw_messages(&waiters[i]->answer, msgs, 32);
        }
    }
    ck_assert_int_eq(got, 2);
    for (int i = 0; i < 3; i++) {
        raw_close(waiters[i]);
    }
    ck_eventually(pop_waiting(-1) == 0);
    pop_produce(0, "a", "third"); /* not for a connection that is gone */
    ck_assert_uint_eq(raw_messages(pop_now((struct pop_wish){.queue_id = -1}), msgs, 32), 1);
}
END_TEST

static void wake_one(void *arg)
{
    (void)arg;
    rq_pop_hold_wake(&broker->pop_hold, rq_slice_str(TOPIC), rq_slice_str(GROUP), -1);
}

static bool is_there(const char *group, const char *client_id)
{
    struct rq_conn *conn =
        rq_clients_find(&broker->clients, rq_slice_str(group), rq_slice_str(client_id));
    if (conn) {
        rq_conn_release(conn);
    }
    return conn != NULL;
}

/* The first of two is held up on its way from one queue to the other, and leaves. */
START_TEST(what_came_for_a_pop_whose_connection_closes_wakes_the_next_one)
{
    struct rq_slice topic = rq_slice_str(TOPIC);
    struct rq_slice group = rq_slice_str(GROUP);
    struct rq_mutex *passed =
        rq_pop_lock(broker, &(struct rq_pop_place){.topic = topic, .group = group, .queue_id = 1});
    struct rq_mutex *held =
        rq_pop_lock(broker, &(struct rq_pop_place){.topic = topic, .group = group, .queue_id = 0});
    struct raw *waiters[2];
    struct rq_thread thread = {0};
    struct rq_msg msg;
    raw_create_topic(raw, TOPIC, 2);
    for (int i = 0; i < 2; i++) {
        waiters[i] = raw_open(rmq_broker_addr(broker));
        pop_send(waiters[i], (struct pop_wish){.queue_id = -1, .poll_ms = 60000});
        ck_eventually(pop_waiting(-1) == i + 1);
    }
    raw_heartbeat(waiters[0], "leaver", "leavers", TOPIC, "*", 1);
    rq_mutex_lock(held);
    atomic_store(&broker->unique_counter, 1); /* the next look begins with queue 1 */
    ck_assert_int_eq(rq_offsets_reset(&broker->offsets, group, topic, 1, 0), RMQ_OK);
    ck_assert_int_eq(rq_thread_start(&thread, "wakes", wake_one, NULL), RMQ_OK);
    /* it takes the reset, and lets go of the queue when it has passed it */
    ck_eventually(rq_offsets_commit(&broker->offsets, group, topic, 1, 0, NULL));
    rq_mutex_lock(passed);
    rq_mutex_unlock(passed);
    pop_produce(1, "a", "x");
    raw_close(waiters[0]);
    ck_eventually(!is_there("leavers", "leaver"));
    rq_mutex_unlock(held);
    rq_thread_join(&thread);
    ck_assert(raw_next(waiters[1], &waiters[1]->answer, RAW_WAIT_MS));
    ck_assert_uint_eq(raw_messages(&waiters[1]->answer, &msg, 1), 1);
    raw_close(waiters[1]);
}
END_TEST

START_TEST(tags_choose_what_is_popped)
{
    struct rq_msg msgs[32];
    pop_produce(0, "no", "1");
    pop_produce(0, "yes", "2");
    pop_produce(0, "no", "3");
    pop_produce(0, "yes", "4");
    struct raw_answer *answer =
        pop_now((struct pop_wish){.queue_id = -1, .expression = "yes || other"});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    ck_assert(rq_slice_eq_str(pop_field(answer, "msgOffsetInfo"), "0 0 1,3"));
    answer = pop_now((struct pop_wish){.queue_id = -1, .expression = "||"});
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUBSCRIPTION_PARSE_FAILED);
}
END_TEST

START_TEST(in_order_what_was_not_popped_cannot_be_acknowledged)
{
    struct rq_msg msg;
    pop_produce(0, "a", "x");
    pop_produce(0, "a", "y");
    struct raw_answer *answer =
        pop_now((struct pop_wish){.queue_id = 0, .max = 1, .order = true, .attempt = "one"});
    ck_assert_uint_eq(raw_messages(answer, &msg, 1), 1);
    struct pop_handle popped = pop_handle_of(answer, &msg);
    struct pop_handle other = popped;
    other.parts.offset++;
    ck_assert_int_eq(pop_ack(&other), RQ_RESP_MESSAGE_ILLEGAL);
    struct pop_handle older = popped;
    struct rq_buf text;
    older.parts.pop_time_ms--;
    rq_buf_init(&text, 0);
    rq_pop_handle_write(&older.parts, &text);
    memcpy(older.text, text.data, text.len);
    rq_buf_free(&text);
    ck_assert_int_eq(pop_ack(&older), RQ_RESP_SUCCESS); /* popped again since then: harmless */
    ck_assert_int_eq(pop_ack(&popped), RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(in_order_nothing_follows_before_all_is_acknowledged)
{
    struct rq_msg msgs[32];
    struct pop_handle handles[2];
    for (int i = 0; i < 4; i++) {
        pop_produce(0, "a", "x");
    }
    struct pop_wish wish = {.queue_id = 0, .max = 2, .order = true, .attempt = "one"};
    struct raw_answer *answer = pop_now(wish);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    ck_assert_int_eq(raw_i64(answer, "reviveQid"), RQ_POP_ORDER_QUEUE);
    ck_assert(rq_slice_eq_str(pop_field(answer, "orderCountInfo"), "0 0 0"));
    handles[0] = pop_handle_of(answer, &msgs[0]);
    handles[1] = pop_handle_of(answer, &msgs[1]);
    wish.attempt = "two";
    ck_assert_int_eq(pop_now(wish)->header.code, RQ_RESP_POLLING_TIMEOUT);
    ck_assert_int_eq(pop_ack(&handles[1]), RQ_RESP_SUCCESS);
    ck_assert_int_eq(pop_now(wish)->header.code, RQ_RESP_POLLING_TIMEOUT);

    /* Who waits is woken by the last acknowledgement. */
    struct raw *waiter = raw_open(rmq_broker_addr(broker));
    wish.poll_ms = 20000;
    wish.invisible_ms = 500;
    pop_send(waiter, wish);
    ck_eventually(pop_waiting(0) == 1);
    ck_assert_int_eq(pop_ack(&handles[0]), RQ_RESP_SUCCESS);
    ck_assert(raw_next(waiter, &waiter->answer, RAW_WAIT_MS));
    ck_assert_uint_eq(raw_messages(&waiter->answer, msgs, 32), 2);
    ck_assert_int_eq(msgs[0].queue_offset, 2);
    raw_close(waiter);

    /* Its time passes: the same again, as the second time. */
    wish.attempt = "three";
    answer = pop_now(wish);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    ck_assert_int_eq(msgs[0].queue_offset, 2);
    ck_assert_int_eq(rq_pop_find_order_count(pop_field(answer, "orderCountInfo"), '0', 0, 2), 1);
    handles[0] = pop_handle_of(answer, &msgs[0]);
    ck_assert_int_eq(
        pop_ack_call(RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &handles[0], 60000)->header.code,
        RQ_RESP_SUCCESS);
    wish.attempt = "four";
    wish.poll_ms = 800;
    ck_assert_int_eq(pop_now(wish)->header.code, RQ_RESP_POLLING_TIMEOUT);
}
END_TEST

static struct raw_answer *ask(int32_t code, int64_t poll_ms)
{
    struct rq_hdr_notification fields = {
        .consumer_group = rq_slice_str(GROUP), .topic = rq_slice_str(TOPIC), .queue_id = -1};
    RQ_SET(notification, &fields, max_msg_nums, 10);
    RQ_SET(notification, &fields, poll_time, poll_ms);
    return raw_call(raw, code, &rq_tab_notification, &fields, rq_slice(NULL, 0));
}

START_TEST(a_notice_tells_that_there_is_something_and_a_peek_shows_it)
{
    struct rq_msg msgs[32];
    struct raw_answer *answer = ask(RQ_REQ_NOTIFICATION, 100);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert(rq_slice_eq_str(pop_field(answer, "hasMsg"), "false"));
    ck_assert_int_eq(ask(RQ_REQ_PEEK_MESSAGE, 0)->header.code, RQ_RESP_PULL_NOT_FOUND);
    pop_produce(0, "a", "x");
    ck_assert(rq_slice_eq_str(pop_field(ask(RQ_REQ_NOTIFICATION, 5000), "hasMsg"), "true"));
    for (int i = 0; i < 2; i++) {
        answer = ask(RQ_REQ_PEEK_MESSAGE, 0);
        ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
        ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    }
    ck_assert_uint_eq(raw_messages(pop_now((struct pop_wish){.queue_id = -1}), msgs, 32), 1);
}
END_TEST

START_TEST(checkpoints_and_blocks_survive_a_restart)
{
    char path[] = "/tmp/rmq-pop-XXXXXX";
    char command[64];
    struct rq_msg msgs[32];
    ck_assert_ptr_nonnull(mkdtemp(path));
    pop_open_with_store(path);
    raw_create_topic(raw, TOPIC, 1);
    for (int i = 0; i < 3; i++) {
        pop_produce(0, "a", i == 1 ? "middle" : "other");
    }
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1, .invisible_ms = 1500});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 3);
    struct pop_handle first = pop_handle_of(answer, &msgs[0]);
    struct pop_handle third = pop_handle_of(answer, &msgs[2]);
    ck_assert_int_eq(pop_ack(&first), RQ_RESP_SUCCESS);
    pop_ack_as_batch(&third.parts);
    pop_close();

    pop_open_with_store(path);
    answer = pop_now((struct pop_wish){.queue_id = -1, .poll_ms = 9000, .invisible_ms = 60000});
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    ck_assert(rq_slice_eq_str(msgs[0].body, "middle"));
    struct pop_handle again = pop_handle_of(answer, &msgs[0]);
    ck_assert_int_eq(pop_ack(&again), RQ_RESP_SUCCESS);
    pop_produce(0, "a", "in order");
    struct pop_wish order = {.queue_id = 0, .order = true, .attempt = "x"};
    ck_assert_uint_eq(raw_messages(pop_now(order), msgs, 32), 1);
    pop_close();

    pop_open_with_store(path);
    order.attempt = "y";
    ck_assert_int_eq(pop_now(order)->header.code, RQ_RESP_POLLING_TIMEOUT);
    order.attempt = "x";
    ck_assert_uint_eq(raw_messages(pop_now(order), msgs, 32), 1);
    pop_close();
    snprintf(command, sizeof command, "rm -rf %s", path);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(who_waits_is_answered_when_the_group_is_reset)
{
    struct rq_msg msgs[32];
    struct rq_hdr_reset_offset reset = {
        .topic = rq_slice_str(TOPIC), .group = rq_slice_str(GROUP), .timestamp = 0};
    pop_produce(0, "a", "again");
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    struct pop_handle handle = pop_handle_of(answer, &msgs[0]);
    ck_assert_int_eq(pop_ack(&handle), RQ_RESP_SUCCESS);
    struct raw *waiter = raw_open(rmq_broker_addr(broker));
    pop_send(waiter, (struct pop_wish){.queue_id = 0, .poll_ms = 20000});
    ck_eventually(pop_waiting(0) == 1);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_INVOKE_BROKER_TO_RESET_OFFSET, &rq_tab_reset_offset,
                              &reset, rq_slice(NULL, 0))
                         ->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert(raw_next(waiter, &waiter->answer, RAW_WAIT_MS));
    ck_assert_uint_eq(raw_messages(&waiter->answer, msgs, 32), 1);
    ck_assert(rq_slice_eq_str(msgs[0].body, "again"));
    raw_close(waiter);
}
END_TEST

static bool has_topic(const char *name)
{
    struct rq_hdr_topic fields = {.topic = rq_slice_str(name)};
    return raw_call(raw, RQ_REQ_GET_TOPIC_CONFIG, &rq_tab_topic, &fields, rq_slice(NULL, 0))
               ->header.code == RQ_RESP_SUCCESS;
}

START_TEST(a_deleted_topic_takes_its_retry_topic_along)
{
    char name[RQ_POP_TOPIC_ROOM];
    struct rq_hdr_topic fields = {.topic = rq_slice_str(TOPIC)};
    ck_assert_uint_gt(rq_pop_retry_topic(rq_slice_str(TOPIC), rq_slice_str(GROUP), name), 0);
    pop_produce(0, "a", "kept");
    pop_now((struct pop_wish){.queue_id = -1, .invisible_ms = 300});
    ck_eventually(has_topic(name));
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_DELETE_TOPIC_IN_BROKER, &rq_tab_topic, &fields, rq_slice(NULL, 0))
            ->header.code,
        RQ_RESP_SUCCESS);
    ck_assert(!has_topic(TOPIC));
    ck_assert(!has_topic(name));
    fields.topic = rq_slice_str("");
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_DELETE_TOPIC_IN_BROKER, &rq_tab_topic, &fields, rq_slice(NULL, 0))
            ->header.code,
        RQ_RESP_INVALID_PARAMETER);
}
END_TEST

START_TEST(what_was_popped_before_the_log_was_lost_does_not_hide_what_is_popped_now)
{
    char path[] = "/tmp/rmq-pop-XXXXXX";
    struct rq_msg msgs[32];
    ck_assert_ptr_nonnull(mkdtemp(path));
    write_config(path, "consumerOffset.json",
                 "{\"offsetTable\":{\"" RQ_POP_REVIVE_TOPIC "DefaultCluster@" RQ_POP_REVIVE_GROUP
                 "\":{0:9,1:9,2:9,3:9,4:9,5:9,6:9,7:9}}}");
    pop_open_with_store(path);
    raw_create_topic(raw, TOPIC, 1);
    pop_produce(0, "a", "kept");
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1, .invisible_ms = 1500});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    pop_close();
    pop_open_with_store(path);
    answer = pop_now((struct pop_wish){.queue_id = -1, .poll_ms = 9000});
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    ck_assert(rq_slice_eq_str(msgs[0].body, "kept"));
    pop_close();
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

/* Pops one message at a time, for long, until the revive queue is that. */
static struct pop_handle pop_into(int32_t revive_qid)
{
    struct rq_msg msg;
    for (int i = 0; i < 2 * RQ_POP_REVIVE_QUEUES; i++) {
        pop_produce(0, "a", "x");
        struct raw_answer *answer =
            pop_now((struct pop_wish){.queue_id = 0, .max = 1, .invisible_ms = 600000});
        ck_assert_uint_eq(raw_messages(answer, &msg, 1), 1);
        struct pop_handle handle = pop_handle_of(answer, &msg);
        if (revive_qid < 0 || handle.parts.revive_qid == revive_qid) {
            return handle;
        }
        ck_assert_int_eq(pop_ack(&handle), RQ_RESP_SUCCESS);
    }
    ck_abort_msg("no pop into revive queue %d", revive_qid);
}

START_TEST(what_came_back_does_not_come_again_after_a_restart_when_older_pops_are_open)
{
    char path[] = "/tmp/rmq-pop-XXXXXX";
    struct rq_msg msg;
    ck_assert_ptr_nonnull(mkdtemp(path));
    pop_open_with_store(path);
    raw_create_topic(raw, TOPIC, 1);
    struct pop_handle older = pop_into(-1);
    struct pop_handle younger = pop_into(older.parts.revive_qid);
    ck_assert_int_eq(pop_ack_call(RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &younger, 300)->header.code,
                     RQ_RESP_SUCCESS);
    struct raw_answer *answer = pop_now((struct pop_wish){.queue_id = -1, .poll_ms = 9000});
    ck_assert_uint_eq(raw_messages(answer, &msg, 1), 1);
    struct pop_handle again = pop_handle_of(answer, &msg);
    ck_assert_int_eq(again.parts.retry, '1');
    ck_assert_int_eq(pop_ack(&again), RQ_RESP_SUCCESS);
    pop_close();
    pop_open_with_store(path);
    answer = pop_now((struct pop_wish){.queue_id = -1, .poll_ms = 500});
    ck_assert_int_eq(answer->header.code, RQ_RESP_POLLING_TIMEOUT);
    pop_close();
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

Suite *pop_suite(void)
{
    Suite *suite = suite_create("broker/pop");
    TCase *tc = tcase_create("pop");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, pop_open, pop_close);
    tcase_add_test(tc, a_pop_tells_where_its_messages_are_and_nobody_else_gets_them);
    tcase_add_test(tc, pops_and_acknowledgements_are_counted_by_topic_and_group);
    tcase_add_test(tc, what_is_not_acknowledged_comes_back_from_the_retry_topic);
    tcase_add_test(tc, a_changed_time_makes_a_new_handle_and_voids_the_old_one);
    tcase_add_test(tc, a_handle_with_an_impossible_time_is_refused);
    tcase_add_test(tc, a_batch_acknowledges_messages_of_several_queues);
    tcase_add_test(tc, each_message_wakes_one_of_those_that_wait);
    tcase_add_test(tc, what_came_for_a_pop_whose_connection_closes_wakes_the_next_one);
    tcase_add_test(tc, tags_choose_what_is_popped);
    tcase_add_test(tc, who_waits_is_answered_when_the_group_is_reset);
    tcase_add_test(tc, a_deleted_topic_takes_its_retry_topic_along);
    tcase_add_test(tc, in_order_nothing_follows_before_all_is_acknowledged);
    tcase_add_test(tc, in_order_what_was_not_popped_cannot_be_acknowledged);
    tcase_add_test(tc, a_notice_tells_that_there_is_something_and_a_peek_shows_it);
    suite_add_tcase(suite, tc);
    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 60);
    tcase_add_test(life, checkpoints_and_blocks_survive_a_restart);
    tcase_add_test(life, what_was_popped_before_the_log_was_lost_does_not_hide_what_is_popped_now);
    tcase_add_test(life,
                   what_came_back_does_not_come_again_after_a_restart_when_older_pops_are_open);
    suite_add_tcase(suite, life);
    return suite;
}
