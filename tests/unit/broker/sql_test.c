/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* SQL92 filters against what the Java filter said, and the limits of ours. */
#include <check.h>

#include "base/err.h"
#include "broker/sql.h"
#include "unit/wire/vectors.h"
#include "wire/properties.h"

static char letter(const struct rq_sql *sql, struct rq_slice properties)
{
    static const char letters[] = {
        [RQ_SQL_FALSE] = 'F', [RQ_SQL_TRUE] = 'T', [RQ_SQL_NULL] = 'N', [RQ_SQL_ERROR] = 'E'};
    return letters[rq_sql_evaluate(sql, properties)];
}

static void properties_of(const cJSON *set, struct rq_buf *out)
{
    const cJSON *item;
    rq_buf_init(out, 0);
    cJSON_ArrayForEach(item, set)
    {
        rq_props_add(out, 0, rq_slice_str(item->string), rq_slice_str(item->valuestring));
    }
}

static void check_case(const char *expression, const char *expected, const cJSON *sets)
{
    struct rq_sql *sql = NULL;
    rmq_error *err = NULL;
    rmq_status st = rq_sql_compile(rq_slice_str(expression), &sql, &err);
    if (strcmp(expected, "!") == 0) {
        ck_assert_msg(st == RMQ_ERR_INVALID, "accepted: %s", expression);
        rmq_error_destroy(err);
        return;
    }
    ck_assert_msg(st == RMQ_OK, "%s: %s", expression, err ? rmq_error_message(err) : "");
    int i = 0;
    const cJSON *set;
    cJSON_ArrayForEach(set, sets)
    {
        struct rq_buf properties;
        properties_of(set, &properties);
        char got = letter(sql, rq_slice(properties.data, properties.len));
        ck_assert_msg(got == expected[i], "%s with set %d: %c, Java says %c", expression, i, got,
                      expected[i]);
        rq_buf_free(&properties);
        i++;
    }
    rq_sql_destroy(sql);
}

START_TEST(every_expression_gives_what_java_gives)
{
    cJSON *json = vectors_read("sql92.json");
    const cJSON *item;
    int count = 0;
    cJSON_ArrayForEach(item, rq_json_get(json, "cases"))
    {
        check_case(rq_json_str(item, "e", ""), rq_json_str(item, "r", ""),
                   rq_json_get(json, "sets"));
        count++;
    }
    ck_assert_int_gt(count, 300);
    rq_json_free(json);
}
END_TEST

static rmq_status compile_repeated(const char *head, int count, const char *tail)
{
    struct rq_buf text;
    struct rq_sql *sql = NULL;
    rmq_error *err = NULL;
    rq_buf_init(&text, 0);
    for (int i = 0; i < count; i++) {
        rq_buf_add_str(&text, head);
    }
    rq_buf_add_str(&text, tail);
    rmq_status st = rq_sql_compile(rq_slice(text.data, text.len), &sql, &err);
    rq_buf_free(&text);
    rmq_error_destroy(err);
    rq_sql_destroy(sql);
    return st;
}

START_TEST(deep_nesting_is_refused_and_long_chains_are_not)
{
    ck_assert_int_eq(compile_repeated("NOT ", RQ_SQL_MAX_DEPTH / 2, "a"), RMQ_OK);
    ck_assert_int_eq(compile_repeated("NOT ", 100000, "a"), RMQ_ERR_INVALID);
    ck_assert_int_eq(compile_repeated("(", 100000, "a"), RMQ_ERR_INVALID);
    ck_assert_int_eq(compile_repeated("- ", 100000, "a = 1"), RMQ_ERR_INVALID);
    ck_assert_int_eq(compile_repeated("a = ", 100000, "a"), RMQ_ERR_INVALID);
    ck_assert_int_eq(compile_repeated("a = 1 OR ", 20000, "a"), RMQ_OK);
    ck_assert_int_eq(compile_repeated("a = 1 AND ", 20000, "a"), RMQ_OK);
}
END_TEST

START_TEST(an_error_names_the_place)
{
    struct rq_sql *sql = NULL;
    rmq_error *err = NULL;
    ck_assert_int_eq(rq_sql_compile(rq_slice_str("a = 1 AND b != 2"), &sql, &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "At character 13"));
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "Invalid MessageSelector. "));
    rmq_error_destroy(err);
}
END_TEST

Suite *sql_suite(void);

Suite *sql_suite(void)
{
    Suite *suite = suite_create("sql");
    TCase *tcase = tcase_create("sql");
    tcase_add_test(tcase, every_expression_gives_what_java_gives);
    tcase_add_test(tcase, deep_nesting_is_refused_and_long_chains_are_not);
    tcase_add_test(tcase, an_error_names_the_place);
    suite_add_tcase(suite, tcase);
    return suite;
}
