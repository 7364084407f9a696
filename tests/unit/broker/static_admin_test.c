/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Static topics on two brokers, over sockets: what tools and name servers see of them, what is
 * refused, what a broker keeps over its end, and the upkeep of mappings. */
#include <stdlib.h>

#include "base/sys.h"
#include "base/time.h"
#include "broker/broker.h"
#include "unit/broker/two.h"

START_TEST(a_static_topic_is_shown_to_tools_and_told_to_name_servers)
{
    two_map_to_a();
    ck_assert(raw_has(two_ask_topic(two.a, RQ_REQ_GET_TOPIC_CONFIG, true),
                      "\"mappingDetail\":{\"bname\":"));
    ck_assert(!raw_has(two_ask_topic(two.a, RQ_REQ_GET_TOPIC_CONFIG, false), "mappingDetail"));
    ck_assert(raw_has(two_ask_topic(two.a, RQ_REQ_GET_ALL_TOPIC_CONFIG, false),
                      "\"topicQueueMappingDetailMap\":{\"S\":{\"bname\":\"a\""));
    ck_assert(two_route_has("\"topicQueueMappingByBroker\":{\"a\":{\"bname\":\"a\","
                            "\"currIdMap\":{\"0\":1,\"1\":0},\"dirty\":false,\"epoch\":1,"));
    two_begin_move();
    ck_assert(two_route_has("\"currIdMap\":{\"1\":0},\"dirty\":false,\"epoch\":2"));
    ck_assert(two_route_has("\"b\":{\"bname\":\"b\",\"currIdMap\":{\"0\":0}"));
}
END_TEST

START_TEST(a_static_topic_that_was_deleted_can_be_an_ordinary_one)
{
    two_map_to_a();
    two_produce(two.a, 0, 1);
    two_ask_topic(two.a, RQ_REQ_DELETE_TOPIC_IN_BROKER, false);
    raw_create_topic(two.a, TOPIC, 2);
    ck_assert(!raw_has(two_ask_topic(two.a, RQ_REQ_GET_TOPIC_CONFIG, true), "mappingDetail"));
    ck_assert_int_eq(raw_i64(raw_produce(two.a, TOPIC, 1, NULL, "x"), "queueId"), 1);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.a, RQ_REQ_GET_MAX_OFFSET, 1), "offset"), 1);
}
END_TEST

START_TEST(an_ordinary_topic_becomes_static_and_stays_so_when_its_settings_change)
{
    raw_create_topic(two.a, TOPIC, 2);
    two_produce(two.a, 1, 2);
    two_map_to_a();
    raw_create_topic(two.a, TOPIC, 4);
    ck_assert_int_eq(raw_i64(two_ask_queue(two.a, RQ_REQ_GET_MAX_OFFSET, 0), "offset"), 2);
    ck_assert_int_eq(raw_i64(raw_produce(two.a, TOPIC, 0, NULL, "x"), "queueOffset"), 2);
}
END_TEST

START_TEST(mappings_that_cannot_be_are_refused_and_change_nothing)
{
    static const char *const bodies[] = {
        "no JSON",
        "{\"bname\":\"a\",\"topic\":\"Other\"}",
        "{\"bname\":\"b\",\"topic\":\"S\"}",
        "{\"bname\":\"a\",\"topic\":\"S\",\"epoch\":0}", /* before the one there is */
        "{\"bname\":\"a\",\"topic\":\"S\",\"epoch\":1}", /* queues are missing */
        ("{\"bname\":\"a\",\"topic\":\"S\",\"epoch\":9,\"hostedQueues\":{0:["
         "{\"bname\":\"a\",\"queueId\":-1}]}}"),
    };
    two_map_to_a();
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        ck_assert_msg(two_put_static(two.a, TOPIC, bodies[i])->header.code == RQ_RESP_SYSTEM_ERROR,
                      "%s", bodies[i]);
    }
    ck_assert_int_eq(two_put_static(two.a, RQ_TOPIC_DEFAULT, "{}")->header.code,
                     RQ_RESP_INVALID_PARAMETER);
    ck_assert_int_eq(two_put_static(two.a, "a b", "{}")->header.code, RQ_RESP_INVALID_PARAMETER);
    ck_assert(raw_has(two_ask_topic(two.a, RQ_REQ_GET_TOPIC_CONFIG, true), "\"epoch\":1,"));
    two_produce(two.a, 0, 1);
}
END_TEST

START_TEST(a_broker_that_starts_again_knows_its_static_topics)
{
    char dir[] = "/tmp/rmq-static-test-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(dir));
    const char *const pairs[] = {"brokerName",
                                 "b",
                                 "storePathRootDir",
                                 dir,
                                 "mappedFileSizeCommitLog",
                                 "1048576",
                                 "namesrvAddr",
                                 rmq_broker_namesrv_addr(two.broker_a),
                                 NULL};
    for (int again = 0; again < 2; again++) {
        raw_close(two.b);
        rmq_broker_stop(two.broker_b);
        two.broker_b = start_broker(pairs);
        two.b = raw_open(rmq_broker_addr(two.broker_b));
        if (!again) {
            two_map_to_a();
            two_begin_move();
            two_end_move();
        }
        two_produce(two.b, 0, 1);
        ck_assert_int_eq(raw_i64(two_ask_queue(two.b, RQ_REQ_GET_MAX_OFFSET, 0), "offset"),
                         10001 + again);
        ck_assert(two_route_has("\"b\":{\"bname\":\"b\",\"currIdMap\":{\"0\":0}"));
    }
    raw_close(two.b);
    rmq_broker_stop(two.broker_b);
    const char *const second[] = {"brokerName", "b", "namesrvAddr",
                                  rmq_broker_namesrv_addr(two.broker_a), NULL};
    two.broker_b = start_broker(second);
    two.b = raw_open(rmq_broker_addr(two.broker_b));
    (void)rq_sys_rmtree(dir);
}
END_TEST

/* ---- upkeep ---- */

START_TEST(the_first_part_of_a_queue_goes_when_it_has_no_messages)
{
    two_map_to_a();
    two_begin_move();
    two_end_move();
    rq_mapping_upkeep_run(&two.broker_b->mapping_upkeep);
    ck_eventually(!raw_has(two_ask_topic(two.b, RQ_REQ_GET_TOPIC_CONFIG, true), "\"bname\":\"a\""));
    ck_assert_int_eq(raw_i64(two_ask_queue(two.b, RQ_REQ_GET_MIN_OFFSET, 0), "offset"), 10000);
    ck_assert_int_eq(raw_i64(raw_produce(two.b, TOPIC, 0, NULL, "x"), "queueOffset"), 10000);
}
END_TEST

START_TEST(the_first_part_of_a_queue_stays_while_it_has_messages)
{
    two_map_to_a();
    two_produce(two.a, 0, 1);
    ck_assert_int_eq(
        two_map(two.b, 2,
                "0:[" ITEM("a", 0, 1, 0) "," ITEM(
                    "b", 1, 0, 10000) "],"
                                      "1:[" ITEM("a", 0, 0, 0) "," ITEM("b", 1, 1, 10000) "]"),
        RQ_RESP_SUCCESS);
    rq_mapping_upkeep_run(&two.broker_b->mapping_upkeep);
    /* queue 1 has lost its first part when queue 0 has been looked at, too */
    ck_eventually(
        raw_has(two_ask_topic(two.b, RQ_REQ_GET_TOPIC_CONFIG, true), "\"1\":[{\"bname\":\"b\""));
    ck_assert(
        raw_has(two_ask_topic(two.b, RQ_REQ_GET_TOPIC_CONFIG, true), "\"0\":[{\"bname\":\"a\""));
}
END_TEST

START_TEST(a_queue_that_was_handed_on_once_more_goes_where_it_was_first)
{
    ck_assert_int_eq(
        two_map(two.a, 3,
                "0:[" ITEM("a", 0, 1, 0) "," ITEM(
                    "c", 1, 0, 10000) "],"
                                      "1:[" ITEM("a", 0, 0, 0) "," ITEM("b", 1, 1, 10000) "]"),
        RQ_RESP_SUCCESS);
    ck_assert_int_eq(
        two_map(two.b, 3,
                "0:[" ITEM("c", 1, 0, 10000) "," ITEM(
                    "b", 2, 0, 20000) "],"
                                      "1:[" ITEM("a", 0, 0, 0) "," ITEM("b", 1, 1, 10000) "]"),
        RQ_RESP_SUCCESS);
    rq_mapping_upkeep_run(&two.broker_a->mapping_upkeep);
    ck_eventually(!raw_has(two_ask_topic(two.a, RQ_REQ_GET_TOPIC_CONFIG, true), "\"0\":["));
    ck_assert(raw_has(two_ask_topic(two.a, RQ_REQ_GET_TOPIC_CONFIG, true), "\"1\":["));
}
END_TEST

Suite *static_admin_suite(void);

Suite *static_admin_suite(void)
{
    Suite *suite = suite_create("static_admin");
    TCase *tc = tcase_create("static_admin");
    tcase_add_checked_fixture(tc, two_start, two_stop);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_static_topic_is_shown_to_tools_and_told_to_name_servers);
    tcase_add_test(tc, a_static_topic_that_was_deleted_can_be_an_ordinary_one);
    tcase_add_test(tc, an_ordinary_topic_becomes_static_and_stays_so_when_its_settings_change);
    tcase_add_test(tc, mappings_that_cannot_be_are_refused_and_change_nothing);
    tcase_add_test(tc, a_broker_that_starts_again_knows_its_static_topics);
    tcase_add_test(tc, the_first_part_of_a_queue_goes_when_it_has_no_messages);
    tcase_add_test(tc, the_first_part_of_a_queue_stays_while_it_has_messages);
    tcase_add_test(tc, a_queue_that_was_handed_on_once_more_goes_where_it_was_first);
    suite_add_tcase(suite, tc);
    return suite;
}
