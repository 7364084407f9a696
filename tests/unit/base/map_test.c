/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The hash map, against a plain array of what must be in it. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"

Suite *map_suite(void);

START_TEST(map_keeps_what_was_put_through_removals_and_growth)
{
    enum { KEYS = 5000 };
    static int values[KEYS];
    static bool present[KEYS];
    struct rq_map map;
    rq_map_init(&map);
    uint32_t seed = 12345;
    for (int round = 0; round < 40000; round++) {
        seed = seed * 1664525 + 1013904223;
        unsigned k = (seed >> 8) % KEYS;
        char key[16];
        int n = snprintf(key, sizeof key, "key%u", k);
        struct rq_slice name = rq_slice(key, (size_t)n);
        if (seed & 0x80000000u) {
            ck_assert_int_eq(rq_map_put(&map, name, &values[k]), RMQ_OK);
            present[k] = true;
        } else {
            ck_assert(rq_map_remove(&map, name) == (present[k] ? &values[k] : NULL));
            present[k] = false;
        }
    }
    size_t live = 0;
    for (unsigned k = 0; k < KEYS; k++) {
        char key[16];
        int n = snprintf(key, sizeof key, "key%u", k);
        ck_assert(rq_map_get(&map, rq_slice(key, (size_t)n)) == (present[k] ? &values[k] : NULL));
        live += present[k];
    }
    ck_assert_uint_eq(map.count, live);
    size_t walked = 0;
    size_t i = 0;
    while (rq_map_next(&map, &i)) {
        walked++;
    }
    ck_assert_uint_eq(walked, live);
    rq_map_free(&map, NULL);
}
END_TEST

START_TEST(map_takes_keys_with_zero_bytes_and_the_empty_key)
{
    struct rq_map map;
    rq_map_init(&map);
    int a = 1;
    int b = 2;
    int c = 3;
    ck_assert_int_eq(rq_map_put(&map, rq_slice("a\0b", 3), &a), RMQ_OK);
    ck_assert_int_eq(rq_map_put(&map, rq_slice("a\0c", 3), &b), RMQ_OK);
    ck_assert_int_eq(rq_map_put(&map, rq_slice("", 0), &c), RMQ_OK);
    ck_assert_ptr_eq(rq_map_get(&map, rq_slice("a\0b", 3)), &a);
    ck_assert_ptr_eq(rq_map_get(&map, rq_slice("a\0c", 3)), &b);
    ck_assert_ptr_eq(rq_map_get(&map, rq_slice("", 0)), &c);
    ck_assert_ptr_null(rq_map_get(&map, rq_slice("a", 1)));
    rq_map_free(&map, NULL);
}
END_TEST

/* How far keys lie behind their place, all together. */
static size_t displacement(const struct rq_map *map)
{
    size_t sum = 0;
    for (size_t i = 0; i < map->cap; i++) {
        if (map->entries[i].key) {
            sum += (i - (size_t)map->entries[i].hash) & (map->cap - 1);
        }
    }
    return sum;
}

START_TEST(keys_that_were_chosen_to_meet_do_not_meet_in_a_map)
{
    enum { KEYS = 400, CAPACITY = 1024 };
    struct rq_map map;
    char key[24];
    int value = 0;
    rq_map_init(&map);
    for (unsigned k = 0; map.count < KEYS; k++) {
        size_t n = (size_t)snprintf(key, sizeof key, "topic-%u", k);
        if (rq_hash_bytes(key, n) % CAPACITY == 0) { /* as in a map without a secret */
            ck_assert_int_eq(rq_map_put(&map, rq_slice(key, n), &value), RMQ_OK);
        }
    }
    ck_assert_uint_eq(map.cap, CAPACITY);
    /* Met, they would lie 80,000 places behind; at random it is less than one for each. */
    ck_assert_uint_lt(displacement(&map), KEYS * 10);
    rq_map_free(&map, NULL);
}
END_TEST

START_TEST(each_map_has_a_secret_of_its_own_and_keeps_it)
{
    struct rq_map maps[2];
    char key[16];
    int value = 0;
    for (int m = 0; m < 2; m++) {
        rq_map_init(&maps[m]);
        ck_assert_int_eq(rq_map_put(&maps[m], rq_slice("first", 5), &value), RMQ_OK);
    }
    ck_assert(maps[0].secret[0] != maps[1].secret[0] || maps[0].secret[1] != maps[1].secret[1]);
    uint64_t secret = maps[0].secret[0];
    for (int i = 0; i < 100; i++) {
        int n = snprintf(key, sizeof key, "key%d", i);
        ck_assert_int_eq(rq_map_put(&maps[0], rq_slice(key, (size_t)n), &value), RMQ_OK);
    }
    ck_assert_uint_eq(maps[0].secret[0], secret);
    ck_assert_ptr_eq(rq_map_get(&maps[0], rq_slice("first", 5)), &value);
    rq_map_free(&maps[0], NULL);
    rq_map_free(&maps[1], NULL);
}
END_TEST

/* Values of CPython's bytes hash under a secret of zeros, which is SipHash-1-3, too. */
START_TEST(the_hash_is_siphash_1_3)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {
        {"a", UINT64_C(0x407448d2b89b1813)},
        {"TopicTest", UINT64_C(0x3c7869a057ba6788)},
        {"12345678", UINT64_C(0x3489982430560a87)},
        {"%RETRY%group-of-consumers@0", UINT64_C(0x8a663867ee79795a)},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ck_assert_uint_eq(rq_hash_bytes(known[i].text, strlen(known[i].text)), known[i].hash);
    }
}
END_TEST

Suite *map_suite(void)
{
    Suite *suite = suite_create("map");
    TCase *tc = tcase_create("map");
    tcase_add_test(tc, map_keeps_what_was_put_through_removals_and_growth);
    tcase_add_test(tc, map_takes_keys_with_zero_bytes_and_the_empty_key);
    tcase_add_test(tc, keys_that_were_chosen_to_meet_do_not_meet_in_a_map);
    tcase_add_test(tc, each_map_has_a_secret_of_its_own_and_keeps_it);
    tcase_add_test(tc, the_hash_is_siphash_1_3);
    suite_add_tcase(suite, tc);
    return suite;
}
