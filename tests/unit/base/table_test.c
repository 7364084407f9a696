/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Option tables: defaults, text, ranges, near names, and ownership of strings. */
#include <check.h>
#include <string.h>

#include "base/mem.h"
#include "base/table.h"

Suite *table_suite(void);

struct sample {
    size_t struct_size;
    const char *name;
    int32_t count;
    int64_t wait_ms;
    bool flag;
    int32_t color;
};

static const struct rq_option rows[] = {
    {.name = "name", .type = RQ_OPT_STRING, .offset = offsetof(struct sample, name), .def = "none"},
    {.name = "count",
     .type = RQ_OPT_I32,
     .offset = offsetof(struct sample, count),
     .def = "4",
     .min = 1,
     .max = 9},
    {.name = "waitMillis",
     .type = RQ_OPT_I64,
     .offset = offsetof(struct sample, wait_ms),
     .def = "3000",
     .min = -1,
     .max = INT64_MAX},
    {.name = "flag", .type = RQ_OPT_BOOL, .offset = offsetof(struct sample, flag), .def = "true"},
    {.name = "color",
     .type = RQ_OPT_ENUM,
     .offset = offsetof(struct sample, color),
     .def = "GREEN",
     .range = "RED|GREEN|BLUE"},
};

static const struct rq_table table = {
    .object = "sample", .options = rows, .count = 5, .struct_size = sizeof(struct sample)};

START_TEST(defaults_come_from_the_rows)
{
    struct sample s = {0};
    rq_table_defaults(&table, &s);
    ck_assert_str_eq(s.name, "none");
    ck_assert_int_eq(s.count, 4);
    ck_assert(s.wait_ms == 3000);
    ck_assert(s.flag);
    ck_assert_int_eq(s.color, 1);
    ck_assert_int_eq(rq_table_check(&table, &s, NULL), RMQ_OK);
}
END_TEST

START_TEST(values_are_checked_and_messages_name_the_range_and_the_nearest_key)
{
    struct sample defaults = {0};
    struct sample s = {0};
    rq_table_defaults(&table, &defaults);
    ck_assert_int_eq(rq_table_copy(&table, &s, &defaults), RMQ_OK);
    rmq_error *err = NULL;
    ck_assert_int_eq(rq_table_set(&table, &s, "count", "12", &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "1 … 9"));
    ck_assert_int_eq(rq_table_set(&table, &s, "waitMilis", "1", &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "waitMillis"));
    ck_assert_int_eq(rq_table_set(&table, &s, "flag", "maybe", &err), RMQ_ERR_INVALID);
    ck_assert_int_eq(rq_table_set(&table, &s, "color", "PINK", &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "RED|GREEN|BLUE"));
    rmq_error_destroy(err);
    ck_assert_int_eq(rq_table_set(&table, &s, "color", "blue", NULL), RMQ_OK);
    ck_assert_int_eq(rq_table_set(&table, &s, "name", "first", NULL), RMQ_OK);
    ck_assert_int_eq(rq_table_set(&table, &s, "name", "second", NULL), RMQ_OK);
    ck_assert_str_eq(s.name, "second");
    ck_assert_int_eq(s.color, 2);
    s.count = 77;
    ck_assert_int_eq(rq_table_check(&table, &s, NULL), RMQ_ERR_INVALID);
    rq_table_free(&table, &s);
}
END_TEST

START_TEST(a_copy_that_runs_out_of_memory_leaves_nothing_behind)
{
    struct sample defaults = {0};
    rq_table_defaults(&table, &defaults);
    struct sample s = {0};
    rq_mem_count(1);
    rq_mem_fail_at(1);
    ck_assert_int_eq(rq_table_copy(&table, &s, &defaults), RMQ_ERR_NOMEM);
    ck_assert_uint_eq(rq_mem_live(), 0);
    rq_mem_count(0);
    ck_assert_ptr_null(s.name);
}
END_TEST

Suite *table_suite(void)
{
    Suite *suite = suite_create("table");
    TCase *tc = tcase_create("table");
    tcase_add_test(tc, defaults_come_from_the_rows);
    tcase_add_test(tc, values_are_checked_and_messages_name_the_range_and_the_nearest_key);
    tcase_add_test(tc, a_copy_that_runs_out_of_memory_leaves_nothing_behind);
    suite_add_tcase(suite, tc);
    return suite;
}
