/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The sharing out of queues against what the Java strategies gave for the same input
 * (tests/vectors/allocate.json, hash.json).
 */
#include "wire/allocate.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sys.h"

Suite *allocate_suite(void);

#define MANY 64

static cJSON *read_vectors(const char *path)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file(path, 1 << 20, &text, NULL), RMQ_OK);
    cJSON *json = NULL;
    ck_assert_int_eq(rq_json_parse(rq_slice(text.data, text.len), &json, NULL), RMQ_OK);
    rq_buf_free(&text);
    return json;
}

/* Room of the vectors: the text before the first '-'. */
static struct rq_slice room_of(const char *name, void *user)
{
    return rq_slice(name, strcspn(name, "-"));
}

static enum rq_allocate_strategy read_strategy(const char *text, struct rq_allocate *in)
{
    char name[64];
    size_t n = strcspn(text, "/");
    ck_assert_uint_lt(n, sizeof name);
    memcpy(name, text, n);
    name[n] = '\0';
    enum rq_allocate_strategy strategy = RQ_ALLOCATE_AVG;
    ck_assert_msg(rq_allocate_strategy_find(name, &strategy), "%s", name);
    const char *argument = text[n] ? text + n + 1 : "";
    if (strategy == RQ_ALLOCATE_CONSISTENT_HASH) {
        in->virtual_nodes = (size_t)strtoul(argument, NULL, 10);
    } else if (strategy == RQ_ALLOCATE_MACHINE_ROOM_NEARBY) {
        in->room_of = room_of;
        ck_assert(rq_allocate_strategy_find(argument, &in->inner));
    }
    return strategy;
}

static size_t read_queues(const cJSON *list, const char *topic, struct rq_mq *queues)
{
    size_t n = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, list)
    {
        ck_assert_uint_lt(n, MANY);
        queues[n].topic = topic;
        queues[n].broker_name = cJSON_GetArrayItem(item, 0)->valuestring;
        queues[n++].queue_id = cJSON_GetArrayItem(item, 1)->valueint;
    }
    return n;
}

static size_t read_clients(const cJSON *list, const char **clients)
{
    size_t n = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, list)
    {
        ck_assert_uint_lt(n, MANY);
        clients[n++] = item->valuestring;
    }
    return n;
}

static int check_case(const cJSON *row)
{
    struct rq_mq queues[MANY];
    struct rq_mq expected[MANY];
    const char *clients[MANY];
    struct rq_allocate in = {.queues = queues, .clients = clients};
    const char *topic = rq_json_str(row, "topic", "");
    enum rq_allocate_strategy strategy = read_strategy(rq_json_str(row, "strategy", ""), &in);
    in.queue_count = read_queues(rq_json_get(row, "mqAll"), topic, queues);
    in.client_count = read_clients(rq_json_get(row, "cidAll"), clients);
    int checks = 0;
    const cJSON *result = NULL;
    cJSON_ArrayForEach(result, rq_json_get(row, "result"))
    {
        size_t picked[MANY];
        size_t count = 0;
        in.client_id = result->string;
        ck_assert_int_eq(rq_allocate(strategy, &in, picked, &count, NULL), RMQ_OK);
        ck_assert_uint_eq(count, read_queues(result, topic, expected));
        for (size_t i = 0; i < count; i++) {
            ck_assert_msg(rq_mq_equal(&queues[picked[i]], &expected[i]), "%s of %s", in.client_id,
                          rq_json_str(row, "strategy", ""));
        }
        checks++;
    }
    return checks;
}

START_TEST(shares_are_those_that_the_java_client_computes)
{
    cJSON *json = read_vectors("tests/vectors/allocate.json");
    int rows = 0;
    int checks = 0;
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rq_json_get(json, "cases"))
    {
        checks += check_case(row);
        rows++;
    }
    ck_assert_int_ge(rows, 40);
    ck_assert_int_ge(checks, 2 * rows);
    rq_json_free(json);
}
END_TEST

START_TEST(empty_lists_and_ids_are_refused_not_taken_as_an_empty_share)
{
    cJSON *json = read_vectors("tests/vectors/allocate.json");
    int rows = 0;
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rq_json_get(json, "illegal_inputs_AVG"))
    {
        struct rq_mq queues[MANY];
        const char *clients[MANY];
        size_t picked[MANY];
        size_t count = 7;
        struct rq_allocate in = {.queues = queues, .clients = clients};
        in.queue_count = read_queues(rq_json_get(row, "mqAll"), "T", queues);
        in.client_count = read_clients(rq_json_get(row, "cidAll"), clients);
        in.client_id = rq_json_str(row, "currentCID", NULL);
        rmq_error *err = NULL;
        ck_assert_int_eq(rq_allocate(RQ_ALLOCATE_AVG, &in, picked, &count, &err), RMQ_ERR_INVALID);
        ck_assert_uint_eq(count, 0);
        ck_assert_ptr_nonnull(err);
        rmq_error_destroy(err);
        rows++;
    }
    ck_assert_int_ge(rows, 4);
    rq_json_free(json);
}
END_TEST

START_TEST(ring_hashes_are_those_of_java)
{
    cJSON *json = read_vectors("tests/vectors/hash.json");
    const char *const lists[] = {"md5_ring_hash", "virtual_nodes"};
    const char *const keys[] = {"s", "virtual_node_key"};
    int rows = 0;
    for (size_t i = 0; i < 2; i++) {
        const cJSON *row = NULL;
        cJSON_ArrayForEach(row, rq_json_get(json, lists[i]))
        {
            struct rq_slice text = rq_slice_str(rq_json_str(row, keys[i], NULL));
            int64_t hash = rq_json_i64(row, "hash", -1);
            ck_assert_int_eq((int64_t)rq_allocate_ring_hash(text), hash);
            rows++;
        }
    }
    ck_assert_int_ge(rows, 10);
    rq_json_free(json);
    ck_assert_uint_eq(rq_allocate_ring_hash(rq_slice_str("c1-0")), 3886541579U);
    ck_assert_uint_eq(rq_allocate_ring_hash(rq_slice_str("c1-9")), 1522780571U);
}
END_TEST

START_TEST(every_queue_has_exactly_one_owner_however_many_members)
{
    static const enum rq_allocate_strategy shared[] = {RQ_ALLOCATE_AVG, RQ_ALLOCATE_AVG_BY_CIRCLE,
                                                       RQ_ALLOCATE_CONSISTENT_HASH};
    char names[20][16];
    const char *clients[20];
    struct rq_mq queues[16];
    for (int i = 0; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "c%02d", i);
        clients[i] = names[i];
    }
    for (int i = 0; i < 16; i++) {
        queues[i] = (struct rq_mq){.topic = "T", .broker_name = "b", .queue_id = i};
    }
    for (size_t s = 0; s < 3; s++) {
        for (size_t members = 1; members <= 20; members++) {
            int owners[16] = {0};
            for (size_t i = 0; i < members; i++) {
                struct rq_allocate in = {.client_id = clients[i],
                                         .queues = queues,
                                         .queue_count = 16,
                                         .clients = clients,
                                         .client_count = members,
                                         .virtual_nodes = RQ_ALLOCATE_VIRTUAL_NODES};
                size_t picked[16];
                size_t count = 0;
                ck_assert_int_eq(rq_allocate(shared[s], &in, picked, &count, NULL), RMQ_OK);
                for (size_t k = 0; k < count; k++) {
                    owners[picked[k]]++;
                }
            }
            for (int i = 0; i < 16; i++) {
                ck_assert_int_eq(owners[i], 1);
            }
        }
    }
}
END_TEST

START_TEST(machine_room_takes_only_queues_of_the_rooms_asked_for)
{
    const struct rq_mq queues[] = {{"T", "hz@a", 0}, {"T", "hz@a", 1}, {"T", "hz@b", 0},
                                   {"T", "none", 0}, {"T", "sh@a", 0}, {"T", "sh@a", 1}};
    const char *const clients[] = {"c0", "c1"};
    const char *const rooms[] = {"hz"};
    struct rq_allocate in = {.client_id = "c0",
                             .queues = queues,
                             .queue_count = 6,
                             .clients = clients,
                             .client_count = 2,
                             .rooms = rooms,
                             .room_count = 1};
    size_t picked[6];
    size_t count = 0;
    ck_assert_int_eq(rq_allocate(RQ_ALLOCATE_MACHINE_ROOM, &in, picked, &count, NULL), RMQ_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(picked[0], 0);
    ck_assert_uint_eq(picked[1], 2);
    in.client_id = "c1";
    ck_assert_int_eq(rq_allocate(RQ_ALLOCATE_MACHINE_ROOM, &in, picked, &count, NULL), RMQ_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(picked[0], 1);
}
END_TEST

START_TEST(config_gives_the_configured_queues_that_exist)
{
    const struct rq_mq queues[] = {{"T", "a", 0}, {"T", "a", 1}, {"T", "b", 0}};
    const struct rq_mq wanted[] = {{"T", "b", 0}, {"T", "a", 0}, {"T", "gone", 0}};
    const char *const clients[] = {"c0"};
    struct rq_allocate in = {.client_id = "c0",
                             .queues = queues,
                             .queue_count = 3,
                             .clients = clients,
                             .client_count = 1,
                             .configured = wanted,
                             .configured_count = 3};
    size_t picked[3];
    size_t count = 0;
    ck_assert_int_eq(rq_allocate(RQ_ALLOCATE_CONFIG, &in, picked, &count, NULL), RMQ_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(picked[0], 0);
    ck_assert_uint_eq(picked[1], 2);
}
END_TEST

START_TEST(queues_and_clients_are_sorted_by_utf16_units)
{
    /* U+FF5E is one unit above the surrogates with which U+1F600 begins, although its UTF-8
     * bytes are lower. */
    struct rq_mq queues[] = {{"T", "\xef\xbd\x9e", 0},
                             {"T", "\xf0\x9f\x98\x80", 1},
                             {"S", "z", 9},
                             {"T", "\xf0\x9f\x98\x80", 0}};
    rq_mq_sort(queues, 4);
    ck_assert_str_eq(queues[0].topic, "S");
    ck_assert_str_eq(queues[1].broker_name, "\xf0\x9f\x98\x80");
    ck_assert_int_eq(queues[1].queue_id, 0);
    ck_assert_int_eq(queues[2].queue_id, 1);
    ck_assert_str_eq(queues[3].broker_name, "\xef\xbd\x9e");
    const char *clients[] = {"b", "\xef\xbd\x9e", "\xf0\x9f\x98\x80", "a"};
    rq_mq_sort_clients(clients, 4);
    ck_assert_str_eq(clients[0], "a");
    ck_assert_str_eq(clients[2], "\xf0\x9f\x98\x80");
}
END_TEST

START_TEST(a_share_that_names_a_queue_twice_adds_it_once)
{
    const struct rq_mq owned[] = {{"T", "a", 0}, {"T", "a", 1}};
    const struct rq_mq share[] = {{"T", "a", 1}, {"T", "a", 2}, {"T", "a", 2}, {"T", "a", 1}};
    bool gone[2];
    bool added[4];
    rq_mq_diff(owned, 2, share, 4, gone, added);
    ck_assert(gone[0] && !gone[1]);
    ck_assert(!added[0] && added[1] && !added[2] && !added[3]);
}
END_TEST

Suite *allocate_suite(void)
{
    Suite *suite = suite_create("allocate");
    TCase *tcase = tcase_create("allocate");
    tcase_add_test(tcase, shares_are_those_that_the_java_client_computes);
    tcase_add_test(tcase, empty_lists_and_ids_are_refused_not_taken_as_an_empty_share);
    tcase_add_test(tcase, ring_hashes_are_those_of_java);
    tcase_add_test(tcase, every_queue_has_exactly_one_owner_however_many_members);
    tcase_add_test(tcase, machine_room_takes_only_queues_of_the_rooms_asked_for);
    tcase_add_test(tcase, config_gives_the_configured_queues_that_exist);
    tcase_add_test(tcase, queues_and_clients_are_sorted_by_utf16_units);
    tcase_add_test(tcase, a_share_that_names_a_queue_twice_adds_it_once);
    suite_add_tcase(suite, tcase);
    return suite;
}
