/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Names with and without their namespace, as Java's NamespaceUtil has them. */
#include <check.h>

#include <string.h>

#include "wire/namespace.h"

START_TEST(names_get_the_namespace_once)
{
    static const char *const rows[][3] = {
        {"ns", "topic", "ns%topic"},
        {"ns", "ns%topic", "ns%topic"},
        {"ns", "other%topic", "ns%other%topic"},
        {"ns", "nstopic", "ns%nstopic"},
        {"ns", "ns%", "ns%"},
        {"ns", "%RETRY%group", "%RETRY%ns%group"},
        {"ns", "%RETRY%ns%group", "%RETRY%ns%group"},
        {"ns", "%DLQ%group", "%DLQ%ns%group"},
        {"ns", "TBW102", "TBW102"},
        {"ns", "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"},
        {"ns", "rmq_sys_any", "rmq_sys_any"},
        {"ns", "CID_RMQ_SYS_any", "CID_RMQ_SYS_any"},
        {"ns", "", ""},
        {"", "topic", "topic"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char room[RQ_NAMESPACED_MAX];
        ck_assert_str_eq(rq_namespace_wrap(rows[i][0], rows[i][1], room), rows[i][2]);
    }
    char room[RQ_NAMESPACED_MAX];
    ck_assert_str_eq(rq_namespace_wrap(NULL, "topic", room), "topic");
    ck_assert_ptr_null(rq_namespace_wrap("ns", NULL, room));
}
END_TEST

START_TEST(the_longest_names_fit_and_longer_ones_stay)
{
    char ns[RQ_NAMESPACE_MAX + 1];
    char name[RQ_NAME_MAX + 1];
    char room[RQ_NAMESPACED_MAX];
    memset(ns, 'n', sizeof ns - 1);
    ns[sizeof ns - 1] = '\0';
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert_ptr_eq(rq_namespace_wrap(ns, name, room), name);
    name[RQ_NAME_MAX - 1] = '\0';
    ck_assert_uint_eq(strlen(rq_namespace_wrap(ns, name, room)), sizeof room - 1);
}
END_TEST

START_TEST(names_lose_only_their_own_namespace)
{
    static const char *const rows[][2] = {
        {"ns%topic", "topic"},
        {"other%topic", "other%topic"},
        {"topic", "topic"},
        {"ns%a%b", "a%b"},
        {"%RETRY%ns%group", "%RETRY%group"},
        {"%DLQ%ns%group", "%DLQ%group"},
        {"%DLQ%other%group", "%DLQ%other%group"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char memory[64];
        strcpy(memory, rows[i][0]);
        ck_assert_str_eq(rq_namespace_strip("ns", memory), rows[i][1]);
        bool prefixed = rows[i][0][0] == '%';
        ck_assert_str_eq(rq_namespace_plain("ns", rows[i][0]), rows[i][prefixed ? 0 : 1]);
        ck_assert_str_eq(rq_namespace_plain(NULL, rows[i][0]), rows[i][0]);
    }
}
END_TEST

START_TEST(an_endpoint_of_an_instance_names_its_namespace)
{
    static const char *const rows[][2] = {
        {"MQ_INST_123_abc.mq.example.com:80", "MQ_INST_123_abc"},
        {"http://MQ_INST_123_abc.mq.example.com:80", "MQ_INST_123_abc"},
        {"MQ_INST_a__b.host", "MQ_INST_a__b"},
        {"MQ_INST_a.host:80", ""},
        {"MQ_INST_a_.host:80", ""},
        {"MQ_INST__b.host:80", ""},
        {"MQ_INST_a_b:80", ""},
        {"localhost:9876", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rq_slice found = rq_namespace_of_endpoint(rows[i][0]);
        ck_assert_msg(rq_slice_eq_str(found, rows[i][1]), "%s", rows[i][0]);
    }
}
END_TEST

START_TEST(a_namespace_is_a_short_word)
{
    ck_assert_int_eq(rq_namespace_check(rq_slice_str("MQ_INST-1|a"), NULL), RMQ_OK);
    char long_one[66] = "";
    memset(long_one, 'n', sizeof long_one - 1);
    const char *const wrong[] = {"", "a%b", "a b", "\xc3\xa4", long_one};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rmq_error *err = NULL;
        ck_assert_int_eq(rq_namespace_check(rq_slice_str(wrong[i]), &err), RMQ_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "namespace"));
        rmq_error_destroy(err);
    }
}
END_TEST

Suite *namespace_suite(void)
{
    Suite *suite = suite_create("namespace");
    TCase *cases = tcase_create("names");
    tcase_add_test(cases, names_get_the_namespace_once);
    tcase_add_test(cases, the_longest_names_fit_and_longer_ones_stay);
    tcase_add_test(cases, names_lose_only_their_own_namespace);
    tcase_add_test(cases, an_endpoint_of_an_instance_names_its_namespace);
    tcase_add_test(cases, a_namespace_is_a_short_word);
    suite_add_tcase(suite, cases);
    return suite;
}
