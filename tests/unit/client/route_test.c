/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Route snapshots: which queues a route gives to producers and consumers. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "client/route.h"

Suite *route_suite(void);

static struct rq_broker_health healths[4];

static struct rq_broker_health *health_of(void *user, struct rq_slice name)
{
    (void)user;
    return &healths[(unsigned char)name.p[name.n - 1] % 4];
}

static const struct rq_route_env env = {.health = health_of};

static struct rq_route *parse(const char *json, int32_t default_queues)
{
    struct rq_route *route = NULL;
    rmq_error *err = NULL;
    rmq_status st = rq_route_create("T", rq_slice_str(json), default_queues, &env, &route, &err);
    ck_assert_msg(st == RMQ_OK, "%s", rmq_error_message(err));
    return route;
}

#define BROKER(name, addrs)                                                                        \
    "{\"cluster\":\"c\",\"brokerName\":\"" name "\",\"brokerAddrs\":{" addrs "}}"
#define QUEUE(name, reads, writes, perm)                                                           \
    "{\"brokerName\":\"" name "\",\"readQueueNums\":" #reads ",\"writeQueueNums\":" #writes        \
    ",\"perm\":" #perm ",\"topicSysFlag\":0}"
#define ROUTE(order, queues, brokers)                                                              \
    "{" order "\"queueDatas\":[" queues "],\"brokerDatas\":[" brokers "],\"filterServerTable\":{}" \
    "}"

START_TEST(queues_are_sorted_by_broker_and_id_whatever_the_order_of_the_answer)
{
    struct rq_route *route =
        parse(ROUTE("", QUEUE("b", 2, 1, 6) "," QUEUE("a", 1, 2, 6),
                    BROKER("b", "0:\"h:2\",1:\"h:3\"") "," BROKER("a", "\"0\":\"h:1\"")),
              0);
    ck_assert_uint_eq(route->publish_count, 3);
    ck_assert_str_eq(route->publish[0].broker->name, "a");
    ck_assert_int_eq(route->publish[1].id, 1);
    ck_assert_str_eq(route->publish[2].broker->name, "b");
    ck_assert_uint_eq(route->subscribe_count, 3);
    ck_assert_str_eq(route->subscribe[0].broker->name, "a");
    ck_assert_str_eq(rq_route_addr_of(route->subscribe[2].broker, 1), "h:3");
    ck_assert_ptr_null(rq_route_addr_of(route->subscribe[2].broker, 2));
    ck_assert_ptr_eq(rq_route_find_broker(route, rq_slice_str("b")), route->publish[2].broker);
    ck_assert_ptr_null(rq_route_find_broker(route, rq_slice_str("c")));
    rq_route_release(route);
}
END_TEST

START_TEST(permissions_and_a_missing_master_leave_queues_out)
{
    struct rq_route *route = parse(
        ROUTE("",
              QUEUE("a", 2, 2, 4) "," QUEUE("b", 2, 2, 2) "," QUEUE("c", 2, 2, 6) "," QUEUE("d", 2,
                                                                                            2, 6),
              BROKER("a", "0:\"h:1\"") "," BROKER("b", "0:\"h:2\"") "," BROKER("c", "1:\"h:3\"")),
        0);
    ck_assert_uint_eq(route->publish_count,
                      2); /* b alone: a is not writable, c has no master, d no address at all */
    ck_assert_str_eq(route->publish[0].broker->name, "b");
    ck_assert_uint_eq(route->subscribe_count, 4); /* a and c: a slave can be read */
    ck_assert_str_eq(route->subscribe[2].broker->name, "c");
    rq_route_release(route);
}
END_TEST

START_TEST(an_ordered_topic_has_the_queues_that_its_configuration_names)
{
    struct rq_route *route = parse(ROUTE("\"orderTopicConf\":\"b:2;a:1;nobody:3;broken\",",
                                         QUEUE("a", 8, 8, 6) "," QUEUE("b", 8, 8, 6),
                                         BROKER("a", "0:\"h:1\"") "," BROKER("b", "0:\"h:2\"")),
                                   0);
    ck_assert_uint_eq(route->publish_count, 3);
    ck_assert_str_eq(route->publish[0].broker->name, "b");
    ck_assert_str_eq(route->publish[2].broker->name, "a");
    ck_assert_uint_eq(route->subscribe_count, 16);
    rq_route_release(route);
}
END_TEST

START_TEST(a_topic_made_after_the_default_has_the_smaller_number_of_queues)
{
    struct rq_route *route = parse(ROUTE("", QUEUE("a", 8, 8, 7) "," QUEUE("b", 2, 2, 7),
                                         BROKER("a", "0:\"h:1\"") "," BROKER("b", "0:\"h:2\"")),
                                   4);
    ck_assert(route->from_default);
    ck_assert_uint_eq(route->publish_count, 6);
    ck_assert_uint_eq(route->subscribe_count, 0);
    rq_route_release(route);
}
END_TEST

START_TEST(routes_are_compared_by_content)
{
    const char *json = ROUTE("", QUEUE("a", 2, 2, 6), BROKER("a", "0:\"h:1\""));
    struct rq_route *a = parse(json, 0);
    struct rq_route *b = parse(json, 0);
    struct rq_route *other_addr =
        parse(ROUTE("", QUEUE("a", 2, 2, 6), BROKER("a", "0:\"h:9\"")), 0);
    struct rq_route *other_queues =
        parse(ROUTE("", QUEUE("a", 2, 3, 6), BROKER("a", "0:\"h:1\"")), 0);
    ck_assert(rq_route_equal(a, b));
    ck_assert(!rq_route_equal(a, other_addr));
    ck_assert(!rq_route_equal(a, other_queues));
    ck_assert(!rq_route_equal(a, NULL));
    rq_route_release(a);
    rq_route_release(b);
    rq_route_release(other_addr);
    rq_route_release(other_queues);
    rq_route_release(NULL);
}
END_TEST

static rmq_status refused(struct rq_buf *json)
{
    struct rq_route *route = NULL;
    rmq_status st = rq_route_create("T", rq_slice_str(rq_buf_cstr(json)), 0, &env, &route, NULL);
    rq_route_release(route);
    rq_buf_free(json);
    return st;
}

/* A few bytes of an answer each, and a megabyte of memory. */
START_TEST(an_answer_of_more_queues_or_brokers_than_a_topic_can_have_is_refused)
{
    struct rq_buf json;
    rq_buf_init(&json, 0);
    rq_buf_add_str(&json, "{\"queueDatas\":[");
    for (int i = 0; i < 5; i++) {
        rq_buf_addf(&json, "%s" QUEUE("a", 65536, 65536, 6), i > 0 ? "," : "");
    }
    rq_buf_add_str(&json, "],\"brokerDatas\":[" BROKER("a", "0:\"h:1\"") "]}");
    ck_assert_int_eq(refused(&json), RMQ_ERR_PROTOCOL);

    rq_buf_init(&json, 0);
    rq_buf_add_str(&json, "{\"orderTopicConf\":\"a:65536;a:65536;a:65536;a:65536;a:65536\",");
    rq_buf_add_str(&json, "\"queueDatas\":[],\"brokerDatas\":[" BROKER("a", "0:\"h:1\"") "]}");
    ck_assert_int_eq(refused(&json), RMQ_ERR_PROTOCOL);

    rq_buf_init(&json, 0);
    rq_buf_add_str(&json, "{\"queueDatas\":[],\"brokerDatas\":[");
    for (int i = 0; i < 5000; i++) {
        rq_buf_addf(&json, "%s{\"brokerName\":\"b%d\",\"brokerAddrs\":{}}", i > 0 ? "," : "", i);
    }
    rq_buf_add_str(&json, "]}");
    ck_assert_int_eq(refused(&json), RMQ_ERR_PROTOCOL);
}
END_TEST

START_TEST(every_broker_of_a_route_is_found_by_its_name)
{
    struct rq_buf json;
    char name[16];
    rq_buf_init(&json, 0);
    rq_buf_add_str(&json, "{\"queueDatas\":[],\"brokerDatas\":[");
    for (int i = 0; i < 200; i++) {
        rq_buf_addf(&json, "%s{\"brokerName\":\"b%d\",\"brokerAddrs\":{}}", i > 0 ? "," : "", i);
    }
    rq_buf_add_str(&json, "]}");
    struct rq_route *route = parse(rq_buf_cstr(&json), 0);
    rq_buf_free(&json);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "b%d", i);
        const struct rq_route_broker *broker = rq_route_find_broker(route, rq_slice_str(name));
        ck_assert_ptr_nonnull(broker);
        ck_assert_str_eq(broker->name, name);
    }
    ck_assert_ptr_null(rq_route_find_broker(route, rq_slice_str("b200")));
    ck_assert_ptr_null(rq_route_find_broker(route, rq_slice_str("")));
    rq_route_release(route);
}
END_TEST

#define MAPPING(broker, epoch, total, led)                                                         \
    "\"" broker "\":{\"bname\":\"" broker "\",\"currIdMap\":{" led "},\"epoch\":" #epoch           \
    ",\"scope\":\"__global__\",\"topic\":\"T\",\"totalQueues\":" #total "}"
#define STATIC_ROUTE(order, mappings)                                                              \
    ROUTE(order "\"topicQueueMappingByBroker\":{" mappings "},",                                   \
          QUEUE("a", 2, 2, 6) "," QUEUE("b", 2, 2, 6),                                             \
          BROKER("a", "0:\"h:1\"") "," BROKER("b", "0:\"h:2\""))
#define LOGICAL "__syslo__global__"

START_TEST(a_static_topic_has_logical_queues_wherever_they_are)
{
    struct rq_route *route =
        parse(STATIC_ROUTE("", MAPPING("a", 1, 4, "0:0,2:1") "," MAPPING("b", 2, 4, "2:0,3:1")), 0);
    ck_assert_uint_eq(route->publish_count, 4);
    ck_assert_uint_eq(route->subscribe_count, 4);
    static const char *const hosts[] = {"a", "__syslo__none__", "b", "b"};
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(route->publish[i].broker_name, LOGICAL);
        ck_assert_int_eq(route->publish[i].id, i);
        ck_assert_str_eq(route->publish[i].broker->name, hosts[i]);
        ck_assert_ptr_eq(rq_route_find_logical(route, LOGICAL, i), &route->subscribe[i]);
        ck_assert_ptr_eq(route->subscribe[i].broker, route->publish[i].broker);
    }
    ck_assert_ptr_null(route->publish[1].broker->sends);
    ck_assert_ptr_null(rq_route_find_logical(route, LOGICAL, 4));
    ck_assert_ptr_null(rq_route_find_logical(route, LOGICAL, -1));
    ck_assert_ptr_null(rq_route_find_logical(route, "a", 0));
    rq_route_release(route);
}
END_TEST

START_TEST(a_queue_that_is_mapped_anew_makes_another_route)
{
    struct rq_route *before =
        parse(STATIC_ROUTE("", MAPPING("a", 1, 1, "0:0") "," MAPPING("b", 1, 1, "")), 0);
    struct rq_route *same =
        parse(STATIC_ROUTE("", MAPPING("a", 2, 1, "0:1") "," MAPPING("b", 1, 1, "")), 0);
    struct rq_route *after =
        parse(STATIC_ROUTE("", MAPPING("a", 1, 1, "0:0") "," MAPPING("b", 2, 1, "0:0")), 0);
    ck_assert(rq_route_equal(before, same));
    ck_assert(!rq_route_equal(before, after));
    rq_route_release(before);
    rq_route_release(same);
    rq_route_release(after);
}
END_TEST

START_TEST(an_ordered_static_topic_is_sent_to_as_its_configuration_says)
{
    struct rq_route *route =
        parse(STATIC_ROUTE("\"orderTopicConf\":\"b:1\",", MAPPING("a", 1, 2, "0:0,1:1")), 0);
    ck_assert_uint_eq(route->publish_count, 1);
    ck_assert_str_eq(route->publish[0].broker_name, "b");
    ck_assert_uint_eq(route->subscribe_count, 2);
    ck_assert_str_eq(route->subscribe[1].broker_name, LOGICAL);
    rq_route_release(route);
}
END_TEST

START_TEST(bad_answers_are_errors)
{
    struct rq_route *route = NULL;
    const char *bad[] = {"", "[", "{\"queueDatas\":",
                         ROUTE("", QUEUE("a", 9999999, 9999999, 6), BROKER("a", "0:\"h:1\"")),
                         STATIC_ROUTE("", MAPPING("a", 1, 9999999, "0:0"))};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rmq_error *err = NULL;
        ck_assert_int_eq(rq_route_create("T", rq_slice_str(bad[i]), 0, &env, &route, &err),
                         RMQ_ERR_PROTOCOL);
        rmq_error_destroy(err);
    }
    route = parse("{}", 0);
    ck_assert_uint_eq(route->publish_count, 0);
    rq_route_release(route);
}
END_TEST

Suite *route_suite(void)
{
    Suite *suite = suite_create("route");
    TCase *cases = tcase_create("route");
    tcase_add_test(cases, queues_are_sorted_by_broker_and_id_whatever_the_order_of_the_answer);
    tcase_add_test(cases, permissions_and_a_missing_master_leave_queues_out);
    tcase_add_test(cases, an_ordered_topic_has_the_queues_that_its_configuration_names);
    tcase_add_test(cases, a_topic_made_after_the_default_has_the_smaller_number_of_queues);
    tcase_add_test(cases, routes_are_compared_by_content);
    tcase_add_test(cases, an_answer_of_more_queues_or_brokers_than_a_topic_can_have_is_refused);
    tcase_add_test(cases, every_broker_of_a_route_is_found_by_its_name);
    tcase_add_test(cases, a_static_topic_has_logical_queues_wherever_they_are);
    tcase_add_test(cases, a_queue_that_is_mapped_anew_makes_another_route);
    tcase_add_test(cases, an_ordered_static_topic_is_sent_to_as_its_configuration_says);
    tcase_add_test(cases, bad_answers_are_errors);
    suite_add_tcase(suite, cases);
    return suite;
}
