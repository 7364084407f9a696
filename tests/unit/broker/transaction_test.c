/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Transactional messages over sockets: prepare, end, questions, giving up, and what is left after a
 * restart. */
#include "unit/broker/raw.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "base/time.h"
#include "broker/broker.h"
#include "unit/broker/slow_disk.h"
#include "wire/msgid.h"

static rmq_broker *broker;
static struct raw *raw;    /* of the producer that is asked */
static struct raw *sender; /* where nobody is asked, so that no question comes before an answer */

static void start(const char *const *pairs)
{
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
    sender = raw_open(rmq_broker_addr(broker));
    raw_heartbeat(raw, "client", "CG", "T", "*", 1);
}

static void stop(void)
{
    raw_close(raw);
    raw_close(sender);
    rmq_broker_stop(broker);
}

/* Where a half message is, as the answer of its send says. */
struct half {
    int64_t queue_offset;
    int64_t commit_log_offset;
};

static struct raw_answer *send_half(const char *body, const char *name, const char *value)
{
    struct rq_buf props;
    rq_buf_init(&props, 0);
    rq_props_add_str(&props, 0, RQ_PROP_UNIQ_KEY, rq_slice_str(body));
    rq_props_add_str(&props, 0, RQ_PROP_TRAN_MSG, rq_slice_str("true"));
    rq_props_add_str(&props, 0, RQ_PROP_PGROUP, rq_slice_str("PG"));
    if (name) {
        rq_props_add_str(&props, 0, name, rq_slice_str(value));
    }
    struct rq_hdr_send header = raw_send_header("T", 2, rq_slice(props.data, props.len));
    header.sys_flag = RQ_SYS_TRANSACTION_PREPARED;
    struct raw_answer *answer =
        raw_call(sender, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str(body));
    rq_buf_free(&props);
    return answer;
}

static struct half prepare_with(const char *body, const char *name, const char *value)
{
    struct rq_host host;
    struct half half;
    struct raw_answer *answer = send_half(body, name, value);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert(rq_slice_eq_str(rq_header_ext(&answer->header, "transactionId"), body));
    ck_assert_int_eq(raw_i64(answer, "queueId"), 2);
    half.queue_offset = raw_i64(answer, "queueOffset");
    ck_assert_int_eq(rq_msgid_parse_offset(rq_header_ext(&answer->header, "msgId"), &host,
                                           &half.commit_log_offset, NULL),
                     RMQ_OK);
    return half;
}

static struct half prepare(const char *body)
{
    return prepare_with(body, NULL, NULL);
}

static struct rq_hdr_end_transaction end_header(struct half half, int32_t how)
{
    return (struct rq_hdr_end_transaction){.producer_group = rq_slice_str("PG"),
                                           .tran_state_table_offset = half.queue_offset,
                                           .commit_log_offset = half.commit_log_offset,
                                           .commit_or_rollback = how,
                                           .msg_id = rq_slice_str("id")};
}

static int32_t end_as(const struct rq_hdr_end_transaction *header)
{
    return raw_call(raw, RQ_REQ_END_TRANSACTION, &rq_tab_end_transaction, header, rq_slice(NULL, 0))
        ->header.code;
}

static int32_t end(struct half half, int32_t how)
{
    struct rq_hdr_end_transaction header = end_header(half, how);
    return end_as(&header);
}

/* Bodies of a queue, joined. */
static const char *bodies(const char *topic, int32_t queue_id)
{
    static char text[512];
    struct rq_msg msgs[32];
    const struct raw_answer *answer = raw_pull_now(raw, "CG", topic, queue_id, 0, "*");
    size_t count = answer->header.code == RQ_RESP_SUCCESS ? raw_messages(answer, msgs, 32) : 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        strncat(text, msgs[i].body.p, msgs[i].body.n);
        strcat(text, " ");
    }
    return text;
}

/* The next question of the broker: where the half message is now. */
static struct half next_question(struct rq_msg *msg)
{
    struct raw_answer asked;
    struct half half;
    do {
        ck_assert(raw_next(raw, &asked, RAW_WAIT_MS));
    } while (asked.header.code != RQ_REQ_CHECK_TRANSACTION_STATE);
    ck_assert(rq_header_is_oneway(&asked.header));
    half.queue_offset = raw_i64(&asked, "tranStateTableOffset");
    half.commit_log_offset = raw_i64(&asked, "commitLogOffset");
    ck_assert_uint_eq(raw_messages(&asked, msg, 1), 1);
    return half;
}

START_TEST(only_a_committed_message_is_seen_and_it_is_as_it_was_sent)
{
    struct rq_msg msg;
    start(NULL);
    struct half first = prepare("one");
    struct half second = prepare("two");
    prepare("three");
    ck_assert_str_eq(bodies("T", 2), "");
    ck_assert_int_eq(end(second, RQ_SYS_TRANSACTION_ROLLBACK), RQ_RESP_SUCCESS);
    ck_assert_int_eq(end(first, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies("T", 2), "one ") == 0);
    ck_assert_uint_eq(raw_messages(raw_pull_now(raw, "CG", "T", 2, 0, "*"), &msg, 1), 1);
    ck_assert_int_eq(msg.sys_flag & RQ_SYS_TRANSACTION_MASK, RQ_SYS_TRANSACTION_COMMIT);
    ck_assert_int_eq(msg.prepared_transaction_offset, first.commit_log_offset);
    ck_assert_int_eq(msg.queue_offset, 0);
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_TRANSACTION_ID), "one"));
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_REAL_TOPIC), "T"));
    ck_eventually(strcmp(bodies(RQ_TOPIC_OP_HALF, 0), "1, 0, ") == 0 ||
                  strcmp(bodies(RQ_TOPIC_OP_HALF, 0), "1,0, ") == 0);
    stop();
}
END_TEST

START_TEST(an_end_that_does_not_fit_its_message_is_refused)
{
    start(NULL);
    struct half half = prepare("one");
    struct rq_hdr_end_transaction header = end_header(half, RQ_SYS_TRANSACTION_COMMIT);
    header.producer_group = rq_slice_str("Other");
    ck_assert_int_eq(end_as(&header), RQ_RESP_SYSTEM_ERROR);
    header = end_header(half, RQ_SYS_TRANSACTION_COMMIT);
    header.tran_state_table_offset = 7;
    ck_assert_int_eq(end_as(&header), RQ_RESP_SYSTEM_ERROR);
    header = end_header(half, RQ_SYS_TRANSACTION_COMMIT);
    header.commit_log_offset += 1;
    ck_assert_int_eq(end_as(&header), RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(end(half, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_assert_int_eq(end(half, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SYSTEM_ERROR);
    ck_eventually(strcmp(bodies("T", 2), "one ") == 0);
    stop();
}
END_TEST

START_TEST(half_messages_are_refused_when_so_configured)
{
    const char *const pairs[] = {"rejectTransactionMessage", "true", NULL};
    start(pairs);
    struct rq_buf props;
    rq_buf_init(&props, 0);
    rq_props_add_str(&props, 0, RQ_PROP_TRAN_MSG, rq_slice_str("true"));
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(props.data, props.len));
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("x"))
            ->header.code,
        RQ_RESP_NO_PERMISSION);
    rq_buf_free(&props);
    stop();
}
END_TEST

START_TEST(a_producer_is_asked_until_it_knows)
{
    const char *const pairs[] = {"transactionTimeOut", "0", "transactionCheckInterval", "20", NULL};
    struct rq_msg msg;
    start(pairs);
    struct half half = prepare("one");
    struct half asked = next_question(&msg);
    ck_assert(rq_slice_eq_str(msg.topic, "T"));
    ck_assert_int_eq(msg.queue_id, 2);
    ck_assert(rq_slice_eq_str(msg.body, "one"));
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_TRANSACTION_CHECK_TIMES), "1"));
    ck_assert_int_gt(asked.queue_offset, half.queue_offset);
    asked = next_question(&msg);
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_TRANSACTION_CHECK_TIMES), "2"));
    struct rq_hdr_end_transaction header = end_header(asked, RQ_SYS_TRANSACTION_COMMIT);
    RQ_SET(end_transaction, &header, from_transaction_check, true);
    raw_send(raw, RQ_REQ_END_TRANSACTION, RQ_FLAG_ONEWAY, &rq_tab_end_transaction, &header,
             rq_slice(NULL, 0));
    ck_eventually(strcmp(bodies("T", 2), "one ") == 0);
    ck_assert_int_ne(end(half, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_assert_str_eq(bodies("T", 2), "one ");
    stop();
}
END_TEST

START_TEST(an_end_by_the_first_offsets_counts_for_the_copy_that_was_asked_about)
{
    const char *const pairs[] = {"transactionTimeOut", "0", "transactionCheckInterval", "20", NULL};
    struct rq_msg msg;
    start(pairs);
    struct half half = prepare("one");
    next_question(&msg);
    ck_assert_int_eq(end(half, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    struct half other = prepare("two");
    do { /* a question that was on its way may still come */
        next_question(&msg);
    } while (!rq_slice_eq_str(msg.body, "two"));
    next_question(&msg);
    ck_assert(rq_slice_eq_str(msg.body, "two"));
    ck_assert_int_eq(end(other, RQ_SYS_TRANSACTION_ROLLBACK), RQ_RESP_SUCCESS);
    ck_assert_str_eq(bodies("T", 2), "one ");
    stop();
}
END_TEST

START_TEST(a_question_is_answered_before_its_copy_is_on_disk)
{
    const char *const pairs[] = {"flushDiskType",
                                 "SYNC_FLUSH",
                                 "syncFlushTimeout",
                                 "60000",
                                 "transactionTimeOut",
                                 "0",
                                 "transactionCheckMax",
                                 "1000000",
                                 "transactionCheckInterval",
                                 "20",
                                 NULL};
    struct rq_hdr_queue queue = {.topic = rq_slice_str(RQ_TOPIC_HALF)};
    struct raw_answer answer;
    struct rq_msg msg;
    struct half asked;
    start(pairs);
    prepare("one");
    slow_disk_begin(broker->store);
    do {
        asked = next_question(&msg);
    } while (asked.commit_log_offset < slow_disk_has(broker->store));
    struct rq_hdr_end_transaction header = end_header(asked, RQ_SYS_TRANSACTION_COMMIT);
    RQ_SET(end_transaction, &header, from_transaction_check, true);
    int32_t opaque = raw_send(sender, RQ_REQ_END_TRANSACTION, 0, &rq_tab_end_transaction, &header,
                              rq_slice(NULL, 0));
    /* of the connection's next request, which shows that the end was looked at: not answered yet */
    raw_call(sender, RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &queue, rq_slice(NULL, 0));
    slow_disk_end(broker->store);
    ck_assert(raw_next(sender, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.opaque, opaque);
    ck_assert_int_eq(answer.header.code, RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies("T", 2), "one ") == 0);
    stop();
}
END_TEST

START_TEST(a_half_message_that_is_in_a_write_buffer_only_can_be_ended)
{
    static const char *const pairs[] = {RAW_IN_BUFFERS, NULL};
    start(pairs);
    ck_assert_int_eq(end(prepare("one"), RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_assert_int_eq(end(prepare("two"), RQ_SYS_TRANSACTION_ROLLBACK), RQ_RESP_SUCCESS);
    ck_assert_int_eq(rq_store_flush(broker->store, NULL), RMQ_OK);
    rq_store_dispatch(broker->store);
    ck_eventually(strcmp(bodies("T", 2), "one ") == 0);
    stop();
}
END_TEST

START_TEST(what_nobody_ends_is_given_up_after_the_last_question)
{
    const char *const pairs[] = {"transactionTimeOut",
                                 "0",
                                 "transactionCheckMax",
                                 "2",
                                 "transactionCheckInterval",
                                 "20",
                                 NULL};
    struct rq_msg msg;
    start(pairs);
    prepare("one");
    next_question(&msg);
    next_question(&msg);
    ck_eventually(strcmp(bodies(RQ_TOPIC_CHECK_MAX, 0), "one ") == 0);
    ck_assert_str_eq(bodies("T", 2), "");
    stop();
}
END_TEST

static int32_t resume(const char *id)
{
    struct rq_hdr_resume_check header = {.topic = rq_slice_str(RQ_TOPIC_CHECK_MAX),
                                         .msg_id = rq_slice_str(id)};
    return raw_call(raw, RQ_REQ_RESUME_CHECK_HALF_MESSAGE, &rq_tab_resume_check, &header,
                    rq_slice(NULL, 0))
        ->header.code;
}

START_TEST(what_was_given_up_is_asked_about_again_on_request)
{
    const char *const pairs[] = {"transactionTimeOut",
                                 "0",
                                 "transactionCheckMax",
                                 "2",
                                 "transactionCheckInterval",
                                 "20",
                                 NULL};
    struct rq_msg msg;
    char id[RQ_MSGID_MAX + 1];
    start(pairs);
    struct half half = prepare("one");
    ck_eventually(strcmp(bodies(RQ_TOPIC_CHECK_MAX, 0), "one ") == 0);
    ck_assert_int_ne(end(half, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    raw_messages(raw_pull_now(raw, "CG", RQ_TOPIC_CHECK_MAX, 0, 0, "*"), &msg, 1);
    rq_msgid_of_offset(&msg.store_host, msg.commit_log_offset, id);
    ck_assert_int_eq(resume(id), RQ_RESP_SUCCESS);
    /* asked, and given up again */
    ck_eventually(strcmp(bodies(RQ_TOPIC_CHECK_MAX, 0), "one one ") == 0);
    raw_messages(raw_pull_now(raw, "CG", RQ_TOPIC_CHECK_MAX, 0, 0, "*"), &msg, 1);
    rq_msgid_of_offset(&msg.store_host, half.commit_log_offset, id);
    ck_assert_int_eq(resume(id), RQ_RESP_SYSTEM_ERROR); /* a half message that was not given up */
    ck_assert_int_eq(resume("no id"), RQ_RESP_SYSTEM_ERROR);
    stop();
}
END_TEST

START_TEST(a_transaction_that_is_asked_about_again_can_be_committed)
{
    const char *const pairs[] = {"transactionTimeOut",
                                 "0",
                                 "transactionCheckMax",
                                 "1",
                                 "transactionCheckInterval",
                                 "20",
                                 NULL};
    struct rq_msg msg;
    char id[RQ_MSGID_MAX + 1];
    start(pairs);
    struct half half = prepare("one");
    ck_eventually(strcmp(bodies(RQ_TOPIC_CHECK_MAX, 0), "one ") == 0);
    raw_messages(raw_pull_now(raw, "CG", RQ_TOPIC_CHECK_MAX, 0, 0, "*"), &msg, 1);
    rq_msgid_of_offset(&msg.store_host, msg.commit_log_offset, id);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_UPDATE_BROKER_CONFIG, NULL, NULL,
                              rq_slice_str("transactionTimeOut=600000"))
                         ->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert_int_eq(resume(id), RQ_RESP_SUCCESS);
    ck_assert_int_eq(end(half, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies("T", 2), "one ") == 0);
    stop();
}
END_TEST

START_TEST(a_message_with_time_of_immunity_does_not_hold_up_the_others)
{
    const char *const pairs[] = {"transactionTimeOut", "0", "transactionCheckInterval", "20", NULL};
    struct rq_msg msg;
    start(pairs);
    struct half late = prepare_with("late", RQ_PROP_CHECK_IMMUNITY_TIME, "600");
    prepare("one");
    next_question(&msg);
    ck_assert(rq_slice_eq_str(msg.body, "one"));
    struct half asked = next_question(&msg);
    ck_assert(rq_slice_eq_str(msg.body, "one"));
    ck_assert_int_eq(end(asked, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_assert_int_eq(end(late, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies("T", 2), "one late ") == 0);
    stop();
}
END_TEST

/* With as many bytes of properties as are accepted. */
static void prepare_full(const char *body)
{
    static char value[RQ_MSG_PROPERTIES_MAX + 1];
    size_t bytes = sizeof value - 1;
    memset(value, 'x', bytes);
    while (send_half(body, "full", value)->header.code != RQ_RESP_SUCCESS) {
        ck_assert_uint_gt(--bytes, 0);
        value[bytes] = '\0';
    }
}

START_TEST(a_transaction_without_room_for_the_count_of_questions_is_asked_about)
{
    const char *const pairs[] = {"transactionTimeOut", "0", "transactionCheckInterval", "20", NULL};
    struct rq_msg msg;
    start(pairs);
    prepare_full("full");
    next_question(&msg);
    ck_assert(rq_slice_eq_str(msg.body, "full"));
    struct half asked = next_question(&msg);
    ck_assert_ptr_null(rq_props_get(msg.properties, RQ_PROP_TRANSACTION_CHECK_TIMES).p);
    ck_assert_int_eq(end(asked, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies("T", 2), "full ") == 0);
    stop();
}
END_TEST

/* A producer may answer before the check is done with the message. */
START_TEST(an_end_waits_for_the_check_that_has_its_message_in_hand)
{
    struct raw_answer answer;
    const char *const pairs[] = {"transactionCheckInterval", "3600000", NULL};
    start(pairs);
    for (int ended = 0; ended < 2; ended++) {
        struct half half = prepare(ended ? "given up" : "one");
        struct rq_hdr_end_transaction header = end_header(half, RQ_SYS_TRANSACTION_COMMIT);
        ck_assert(rq_transaction_look(&broker->transactions, half.queue_offset));
        raw_send(raw, RQ_REQ_END_TRANSACTION, 0, &rq_tab_end_transaction, &header,
                 rq_slice(NULL, 0));
        ck_assert(!raw_next(raw, &answer, 100));
        rq_transaction_looked(&broker->transactions, ended);
        ck_assert(raw_next(raw, &answer, RAW_WAIT_MS));
        ck_assert_int_eq(answer.header.code, ended ? RQ_RESP_SYSTEM_ERROR : RQ_RESP_SUCCESS);
    }
    ck_eventually(strcmp(bodies("T", 2), "one ") == 0);
    stop();
}
END_TEST

START_TEST(a_clock_that_was_set_back_does_not_put_off_the_questions)
{
    const char *const pairs[] = {"transactionTimeOut", "0", "transactionCheckInterval", "20", NULL};
    struct rq_msg msg;
    start(pairs);
    ck_assert_int_eq(rmq_broker_fault_clock_offset(broker, 3600000, NULL), RMQ_OK);
    ck_assert_int_eq(raw_produce(raw, "Other", 0, NULL, "x")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(rmq_broker_fault_clock_offset(broker, 0, NULL), RMQ_OK);
    prepare("one");
    next_question(&msg);
    ck_assert(rq_slice_eq_str(msg.body, "one"));
    ck_assert_int_gt(msg.store_timestamp_ms, rq_wall_ms() + 1800000); /* times do not go back */
    stop();
}
END_TEST

START_TEST(a_restarted_broker_asks_about_what_is_open_and_nothing_else)
{
    char path[] = "/tmp/rmq-unit-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    const char *const quiet[] = {"storePathRootDir", path, NULL};
    const char *const asking[] = {"storePathRootDir",
                                  path,
                                  "transactionTimeOut",
                                  "0",
                                  "transactionCheckInterval",
                                  "20",
                                  NULL};
    struct rq_msg msg;
    start(quiet);
    struct half done = prepare("done");
    prepare("open");
    struct half back = prepare("back");
    ck_assert_int_eq(end(done, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_assert_int_eq(end(back, RQ_SYS_TRANSACTION_ROLLBACK), RQ_RESP_SUCCESS);
    stop();
    start(asking);
    ck_assert_int_ne(end(done, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    next_question(&msg);
    ck_assert(rq_slice_eq_str(msg.body, "open"));
    struct half asked = next_question(&msg);
    ck_assert(rq_slice_eq_str(msg.body, "open"));
    ck_assert_int_eq(end(asked, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies("T", 2), "done open ") == 0);
    stop();
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

START_TEST(progress_beyond_a_log_that_has_lost_its_end_does_not_end_what_comes)
{
    char path[] = "/tmp/rmq-unit-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    const char *const asking[] = {"storePathRootDir",
                                  path,
                                  "transactionTimeOut",
                                  "0",
                                  "transactionCheckInterval",
                                  "20",
                                  NULL};
    struct rq_msg msg;
    write_config(path, "consumerOffset.json",
                 "{\"offsetTable\":{\"" RQ_TOPIC_HALF "@" RQ_GROUP_TRANSACTION
                 "\":{0:5},\"" RQ_TOPIC_OP_HALF "@" RQ_GROUP_TRANSACTION "\":{0:5}}}");
    start(asking);
    struct half first = prepare("one");
    next_question(&msg);
    ck_assert(rq_slice_eq_str(msg.body, "one"));
    ck_assert_int_eq(end(first, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies("T", 2), "one ") == 0);
    stop();
    start(asking); /* and the end was noted where it is read again */
    ck_assert_int_ne(end(first, RQ_SYS_TRANSACTION_COMMIT), RQ_RESP_SUCCESS);
    ck_assert_str_eq(bodies("T", 2), "one ");
    stop();
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

Suite *transaction_suite(void)
{
    Suite *suite = suite_create("transaction");
    TCase *tcase = tcase_create("broker");
    tcase_add_test(tcase, only_a_committed_message_is_seen_and_it_is_as_it_was_sent);
    tcase_add_test(tcase, an_end_that_does_not_fit_its_message_is_refused);
    tcase_add_test(tcase, half_messages_are_refused_when_so_configured);
    tcase_add_test(tcase, a_producer_is_asked_until_it_knows);
    tcase_add_test(tcase, an_end_by_the_first_offsets_counts_for_the_copy_that_was_asked_about);
    tcase_add_test(tcase, a_question_is_answered_before_its_copy_is_on_disk);
    tcase_add_test(tcase, a_half_message_that_is_in_a_write_buffer_only_can_be_ended);
    tcase_add_test(tcase, what_nobody_ends_is_given_up_after_the_last_question);
    tcase_add_test(tcase, what_was_given_up_is_asked_about_again_on_request);
    tcase_add_test(tcase, a_transaction_that_is_asked_about_again_can_be_committed);
    tcase_add_test(tcase, a_message_with_time_of_immunity_does_not_hold_up_the_others);
    tcase_add_test(tcase, a_transaction_without_room_for_the_count_of_questions_is_asked_about);
    tcase_add_test(tcase, an_end_waits_for_the_check_that_has_its_message_in_hand);
    tcase_add_test(tcase, a_clock_that_was_set_back_does_not_put_off_the_questions);
    tcase_add_test(tcase, a_restarted_broker_asks_about_what_is_open_and_nothing_else);
    tcase_add_test(tcase, progress_beyond_a_log_that_has_lost_its_end_does_not_end_what_comes);
    suite_add_tcase(suite, tcase);
    return suite;
}
