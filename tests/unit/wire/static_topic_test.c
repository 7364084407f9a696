/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Static topics: which broker leads which logical queue, by what a route tells. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "vectors.h"
#include "wire/route.h"

Suite *static_topic_suite(void);

#define GLOBAL "__syslo__global__"

#define MAPPING(broker, epoch, total, led)                                                         \
    "\"" broker "\":{\"bname\":\"" broker "\",\"currIdMap\":{" led                                 \
    "},\"dirty\":false,\"epoch\":" #epoch                                                          \
    ",\"scope\":\"__global__\",\"topic\":\"T\",\"totalQueues\":" #total "}"

struct queues {
    struct rq_route_data route;
    struct rq_static_queue *items;
    size_t count;
};

static rmq_status try_read(const char *mappings, struct queues *out)
{
    char json[4096];
    snprintf(json, sizeof json,
             "{\"brokerDatas\":[],\"queueDatas\":[],\"topicQueueMappingByBroker\":{%s}}", mappings);
    memset(out, 0, sizeof *out);
    ck_assert_int_eq(rq_route_data_parse(rq_slice_str(json), &out->route, NULL), RMQ_OK);
    return rq_static_queues(out->route.mappings, out->route.mapping_count, &out->items, &out->count,
                            NULL);
}

static void read_queues(const char *mappings, struct queues *out)
{
    ck_assert_int_eq(try_read(mappings, out), RMQ_OK);
}

static void clear(struct queues *queues)
{
    rq_free(queues->items);
    rq_route_data_clear(&queues->route);
}

static void check_host(const struct queues *queues, size_t i, const char *host)
{
    ck_assert_uint_lt(i, queues->count);
    ck_assert_str_eq(queues->items[i].scope, "__global__");
    ck_assert_int_eq(queues->items[i].id, (int)i);
    if (host) {
        ck_assert_str_eq(queues->items[i].host, host);
    } else {
        ck_assert_ptr_null(queues->items[i].host);
    }
}

START_TEST(each_queue_is_at_the_broker_that_leads_it)
{
    struct queues queues;
    read_queues(MAPPING("a", 100, 4, "0:0,2:1") "," MAPPING("b", 100, 4, "\"1\":0,\"3\":1"),
                &queues);
    ck_assert_uint_eq(queues.count, 4);
    check_host(&queues, 0, "a");
    check_host(&queues, 1, "b");
    check_host(&queues, 2, "a");
    check_host(&queues, 3, "b");
    ck_assert_int_eq(queues.items[2].own_id, 1);
    ck_assert_int_eq(queues.items[3].own_id, 1);
    clear(&queues);
}
END_TEST

START_TEST(of_two_that_say_they_lead_a_queue_the_higher_epoch_is_right)
{
    struct queues queues;
    read_queues(MAPPING("a", 101, 2, "0:0,1:1") "," MAPPING("b", 5000000000, 2, "1:0"), &queues);
    check_host(&queues, 0, "a");
    check_host(&queues, 1, "b");
    clear(&queues);
    read_queues(MAPPING("b", 5000000000, 2, "1:0") "," MAPPING("a", 101, 2, "0:0,1:1"), &queues);
    check_host(&queues, 1, "b");
    clear(&queues);
    read_queues(MAPPING("a", 7, 1, "0:0") "," MAPPING("b", 7, 1, "0:0"), &queues);
    check_host(&queues, 0, "b");
    clear(&queues);
}
END_TEST

START_TEST(a_queue_that_nobody_leads_keeps_its_place)
{
    struct queues queues;
    read_queues(MAPPING("a", 100, 2, "0:0") "," MAPPING("b", 101, 4, "3:0,9:1,-1:2,\"x\":3"),
                &queues);
    ck_assert_uint_eq(queues.count, 4);
    check_host(&queues, 0, "a");
    check_host(&queues, 1, NULL);
    check_host(&queues, 2, NULL);
    check_host(&queues, 3, "b");
    clear(&queues);
}
END_TEST

START_TEST(queues_of_each_scope_are_apart)
{
    struct queues queues;
    read_queues("\"z\":{\"bname\":\"z\",\"scope\":\"east\",\"totalQueues\":1,\"currIdMap\":{0:0}},"
                "\"y\":{\"bname\":\"y\",\"totalQueues\":1,\"currIdMap\":{0:0}},"
                "\"nobody\":{\"scope\":\"east\",\"totalQueues\":9,\"currIdMap\":{0:0}}",
                &queues);
    ck_assert_uint_eq(queues.count, 2);
    ck_assert_str_eq(queues.items[0].scope, "__global__");
    ck_assert_str_eq(queues.items[0].host, "y");
    ck_assert_str_eq(queues.items[1].scope, "east");
    ck_assert_str_eq(queues.items[1].host, "z");
    clear(&queues);
}
END_TEST

/* Moved to static-b, and on the way back half of it to static-a again. */
START_TEST(a_recorded_route_is_read_while_its_queues_move)
{
    static const char *const hosts[] = {"static-b", "static-b", "static-b",
                                        "static-a", "static-a", "static-a"};
    cJSON *json = vectors_read("route.json");
    struct queues queues = {0};
    for (const cJSON *item = rq_json_get(json, "cases")->child; item; item = item->next) {
        const char *text = rq_json_str(item, "json", "");
        if (strstr(text, "topicQueueMappingByBroker")) {
            ck_assert_int_eq(rq_route_data_parse(rq_slice_str(text), &queues.route, NULL), RMQ_OK);
        }
    }
    ck_assert_int_eq(rq_static_queues(queues.route.mappings, queues.route.mapping_count,
                                      &queues.items, &queues.count, NULL),
                     RMQ_OK);
    ck_assert_uint_eq(queues.count, 6);
    for (size_t i = 0; i < 6; i++) {
        check_host(&queues, i, hosts[i]);
    }
    ck_assert_int_eq(queues.items[5].own_id, 8);
    clear(&queues);
    rq_json_free(json);
}
END_TEST

START_TEST(more_queues_than_a_topic_can_have_are_damage)
{
    struct queues queues;
    ck_assert_int_eq(try_read(MAPPING("a", 1, 65537, "0:0"), &queues), RMQ_ERR_PROTOCOL);
    ck_assert_ptr_null(queues.items);
    clear(&queues);
    read_queues(MAPPING("a", 1, -3, "0:0"), &queues);
    ck_assert_uint_eq(queues.count, 0);
    clear(&queues);
    read_queues("", &queues);
    ck_assert_uint_eq(queues.route.mapping_count, 0);
    clear(&queues);
}
END_TEST

START_TEST(logical_names_are_told_from_brokers)
{
    ck_assert(rq_broker_name_is_logical(GLOBAL));
    ck_assert(rq_broker_name_is_logical(RQ_LOGICAL_NO_HOST));
    ck_assert(!rq_broker_name_is_logical("broker-a"));
    ck_assert(!rq_broker_name_is_logical("__syslo"));
    ck_assert(!rq_broker_name_is_logical(""));
    char *global = rq_logical_name_of("__global__");
    char *east = rq_logical_name_of("east");
    ck_assert_str_eq(global, GLOBAL);
    ck_assert_str_eq(east, "__syslo__east");
    ck_assert(rq_logical_name_is_of(GLOBAL, "__global__"));
    ck_assert(rq_logical_name_is_of(east, "east"));
    ck_assert(!rq_logical_name_is_of(east, "__global__"));
    ck_assert(!rq_logical_name_is_of("east", "east"));
    rq_free(global);
    rq_free(east);
}
END_TEST

Suite *static_topic_suite(void)
{
    Suite *suite = suite_create("static_topic");
    TCase *cases = tcase_create("static_topic");
    tcase_add_test(cases, each_queue_is_at_the_broker_that_leads_it);
    tcase_add_test(cases, of_two_that_say_they_lead_a_queue_the_higher_epoch_is_right);
    tcase_add_test(cases, a_queue_that_nobody_leads_keeps_its_place);
    tcase_add_test(cases, queues_of_each_scope_are_apart);
    tcase_add_test(cases, a_recorded_route_is_read_while_its_queues_move);
    tcase_add_test(cases, more_queues_than_a_topic_can_have_are_damage);
    tcase_add_test(cases, logical_names_are_told_from_brokers);
    suite_add_tcase(suite, cases);
    return suite;
}
