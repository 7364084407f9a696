/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The hash map, against a plain array of what must be in it. */
#include <check.h>
#include <stdio.h>

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

Suite *map_suite(void)
{
    Suite *suite = suite_create("map");
    TCase *tc = tcase_create("map");
    tcase_add_test(tc, map_keeps_what_was_put_through_removals_and_growth);
    tcase_add_test(tc, map_takes_keys_with_zero_bytes_and_the_empty_key);
    suite_add_tcase(suite, tc);
    return suite;
}
