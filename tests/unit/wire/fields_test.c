/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Fields of a command by their tables, and the names of codes. */
#include <check.h>
#include <string.h>

#include "wire/frame.h"

Suite *fields_suite(void);

static rmq_status decode_pull(const char *const *pairs, struct rq_hdr_pull *out, rmq_error **err)
{
    struct rq_header header = {.ext_count = 0};
    for (; pairs[0]; pairs += 2) {
        header.ext[header.ext_count++] =
            (struct rq_ext){rq_slice_str(pairs[0]), rq_slice_str(pairs[1])};
    }
    return rq_fields_decode(&rq_tab_pull, &header, out, err);
}

#define PULL_REST                                                                                  \
    "topic", "T", "queueOffset", "9223372036854775807", "maxMsgNums", "32", "sysFlag", "3",        \
        "commitOffset", "0", "suspendTimeoutMillis", "15000", "subVersion", "0"

START_TEST(fields_are_read_in_any_order_and_unknown_ones_are_passed_over)
{
    const char *pairs[] = {"zzz", "1", "subscription",  "",  "queueId",     "-3", PULL_REST,
                           "a",   "b", "consumerGroup", "g", "maxMsgBytes", "7",  NULL};
    struct rq_hdr_pull pull;
    ck_assert_int_eq(decode_pull(pairs, &pull, NULL), RMQ_OK);
    ck_assert_int_eq(pull.queue_id, -3);
    ck_assert(pull.queue_offset == INT64_MAX);
    ck_assert(rq_slice_eq_str(pull.consumer_group, "g"));
    ck_assert(pull.subscription.p && pull.subscription.n == 0);
    ck_assert(RQ_HAS(pull, &pull, max_msg_bytes));
    ck_assert(!RQ_HAS(pull, &pull, request_source));
    ck_assert(pull.expression_type.p == NULL);
}
END_TEST

START_TEST(a_missing_or_unreadable_field_is_named_in_the_error)
{
    static const char *const bad[] = {"", "x", "1x", "2147483648", "1.0", " 1", "--1"};
    struct rq_hdr_pull pull;
    rmq_error *err = NULL;
    const char *missing[] = {"consumerGroup", "g", PULL_REST, NULL};
    ck_assert_int_eq(decode_pull(missing, &pull, &err), RMQ_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "queueId"));
    rmq_error_destroy(err);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *pairs[] = {"consumerGroup", "g", "queueId", bad[i], PULL_REST, NULL};
        err = NULL;
        ck_assert_msg(decode_pull(pairs, &pull, &err) == RMQ_ERR_PROTOCOL, "%s", bad[i]);
        ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "queueId"));
        rmq_error_destroy(err);
    }
}
END_TEST

START_TEST(any_text_but_true_is_false)
{
    static const struct {
        const char *text;
        bool value;
    } cases[] = {{"true", true},   {"TRUE", true}, {"True", true},
                 {"false", false}, {"1", false},   {"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rq_header header = {.ext_count = 2};
        header.ext[0] = (struct rq_ext){rq_slice_str("topic"), rq_slice_str("T")};
        header.ext[1] = (struct rq_ext){rq_slice_str("lo"), rq_slice_str(cases[i].text)};
        struct rq_hdr_topic topic;
        ck_assert_int_eq(rq_fields_decode(&rq_tab_topic, &header, &topic, NULL), RMQ_OK);
        ck_assert_int_eq(topic.lo, cases[i].value);
        ck_assert(RQ_HAS(topic, &topic, lo));
    }
}
END_TEST

START_TEST(codes_have_names)
{
    ck_assert_str_eq(rq_request_name(310), "SEND_MESSAGE_V2");
    ck_assert_str_eq(rq_response_name(17), "TOPIC_NOT_EXIST");
    ck_assert_str_eq(rq_request_name(-5), "UNKNOWN");
    ck_assert_str_eq(rq_response_name(99999), "UNKNOWN");
    ck_assert_str_eq(rq_version_name(479), "V5_3_3");
    ck_assert_str_eq(rq_version_name(1), "");
    ck_assert_int_eq(rq_language_of(rq_slice_str("NODE_JS")), 13);
}
END_TEST

Suite *fields_suite(void)
{
    Suite *suite = suite_create("fields");
    TCase *tc = tcase_create("fields");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, fields_are_read_in_any_order_and_unknown_ones_are_passed_over);
    tcase_add_test(tc, a_missing_or_unreadable_field_is_named_in_the_error);
    tcase_add_test(tc, any_text_but_true_is_false);
    tcase_add_test(tc, codes_have_names);
    suite_add_tcase(suite, tc);
    return suite;
}
