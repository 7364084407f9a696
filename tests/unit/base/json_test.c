/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* JSON as Java writes it, cut at every byte, and the writer. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

Suite *json_suite(void);

static cJSON *parse(const char *text)
{
    cJSON *json = NULL;
    rmq_error *err = NULL;
    rmq_status st = rq_json_parse(rq_slice_str(text), &json, &err);
    ck_assert_msg(st == RMQ_OK, "%s: %s", text, rmq_error_message(err));
    return json;
}

START_TEST(bare_and_quoted_integer_keys_read_the_same)
{
    static const char *const forms[] = {"{\"brokerAddrs\":{0:\"h:1\",1:\"h:2\"}}",
                                        "{\"brokerAddrs\":{\"0\":\"h:1\",\"1\":\"h:2\"}}",
                                        " { \"brokerAddrs\" : { 0 : \"h:1\" , 1 : \"h:2\" } } "};
    for (size_t i = 0; i < 3; i++) {
        cJSON *json = parse(forms[i]);
        const cJSON *addrs = rq_json_get(json, "brokerAddrs");
        ck_assert_str_eq(rq_json_str(addrs, "0", ""), "h:1");
        ck_assert_str_eq(rq_json_str(addrs, "1", ""), "h:2");
        rq_json_free(json);
    }
}
END_TEST

START_TEST(an_object_as_a_key_becomes_its_text)
{
    cJSON *json =
        parse("{\"offsetTable\":{{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}:5,"
              "{\"brokerName\":\"c\",\"queueId\":1,\"topic\":\"t\"}:6},\"z\":{\"y\":[{\"x\":1}]}}");
    const cJSON *table = rq_json_get(json, "offsetTable");
    ck_assert_int_eq(cJSON_GetArraySize(table), 2);
    cJSON *key = parse(table->child->string);
    ck_assert_str_eq(rq_json_str(key, "brokerName", ""), "b");
    ck_assert_int_eq(rq_json_i32(key, "queueId", -1), 0);
    int64_t v = 0;
    ck_assert(rq_json_value_i64(table->child, &v));
    ck_assert_int_eq(v, 5);
    ck_assert_int_eq(rq_json_i32(rq_json_get(rq_json_get(json, "z"), "y")->child, "x", 0), 1);
    rq_json_free(key);
    rq_json_free(json);
}
END_TEST

START_TEST(sixty_four_bit_numbers_keep_every_digit)
{
    cJSON *json =
        parse("{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":1234567890123456789,"
              "\"d\":\"77\",\"e\":99999999999999999999}");
    ck_assert(rq_json_i64(json, "a", 0) == INT64_MAX);
    ck_assert(rq_json_i64(json, "b", 0) == INT64_MIN);
    ck_assert(rq_json_i64(json, "c", 0) == INT64_C(1234567890123456789));
    ck_assert(rq_json_i64(json, "d", 0) == 77);
    ck_assert(rq_json_i64(json, "e", -5) == -5);
    rq_json_free(json);
}
END_TEST

START_TEST(a_text_cut_at_any_byte_is_an_error_and_never_a_crash)
{
    static const char *const forms[] = {
        "{\"brokerAddrs\":{0:\"h:1\",1:\"h:2\"}}",
        "{\"offsetTable\":{{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}:5}}",
        "[{\"a\":[1,2,{\"b\":null}],\"s\":\"x\\\"y\\u00e9\"},true,false,-1.5e3]"};
    for (size_t i = 0; i < 3; i++) {
        for (size_t n = 0; n < strlen(forms[i]); n++) {
            char *exact = malloc(n ? n : 1);
            memcpy(exact, forms[i], n);
            cJSON *json = NULL;
            rmq_error *err = NULL;
            ck_assert_int_eq(rq_json_parse(rq_slice(exact, n), &json, &err), RMQ_ERR_PROTOCOL);
            ck_assert_ptr_null(json);
            ck_assert(rmq_error_message(err)[0] != '\0');
            rmq_error_destroy(err);
            free(exact);
        }
    }
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    char text[400];
    memset(text, '[', 200);
    memset(text + 200, ']', 200);
    cJSON *json = NULL;
    ck_assert_int_eq(rq_json_parse(rq_slice(text, 400), &json, NULL), RMQ_ERR_PROTOCOL);
    ck_assert_int_eq(rq_json_parse(rq_slice(text + 140, 120), &json, NULL), RMQ_OK);
    rq_json_free(json);
}
END_TEST

/* It would grow by the power of its depth: 200 bytes became 64 MiB. */
START_TEST(an_object_within_the_key_of_an_object_is_no_key)
{
    char text[400] = "";
    for (int i = 0; i < 30; i++) {
        strcat(text, "{");
    }
    strcat(text, "\"a\":1}");
    for (int i = 1; i < 30; i++) {
        strcat(text, ":1}");
    }
    cJSON *json = NULL;
    ck_assert_int_eq(rq_json_parse(rq_slice_str(text), &json, NULL), RMQ_ERR_PROTOCOL);
    json = parse(
        "{{\"a\":[{\"b\":1}]}:5,{\"a\":2}:6}"); /* as a value inside it, and again behind it */
    ck_assert(rq_json_i64(json, "{\"a\":[{\"b\":1}]}", 0) == 5);
    ck_assert(rq_json_i64(json, "{\"a\":2}", 0) == 6);
    rq_json_free(json);
}
END_TEST

START_TEST(bytes_of_no_character_are_read_as_java_reads_them)
{
    cJSON *json = NULL;
    rmq_error *err = NULL;
    const char text[] = "{\"a\xFF\xE6\xB5\":\"\xC0\x80 \xE6\xB5\x8B\"}";
    ck_assert_int_eq(rq_json_parse(rq_slice(text, sizeof text - 1), &json, &err), RMQ_OK);
    ck_assert_str_eq(json->child->string, "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    ck_assert_str_eq(json->child->valuestring, "\xEF\xBF\xBD\xEF\xBF\xBD \xE6\xB5\x8B");
    rq_json_free(json);
}
END_TEST

START_TEST(strings_are_escaped_and_read_back)
{
    static const char raw[] = "quote\" back\\ tab\t nul-free é 😀 \x01 end";
    struct rq_buf out;
    rq_buf_init(&out, 0);
    rq_buf_add_char(&out, '[');
    rq_json_add_string(&out, rq_slice_str(raw));
    rq_buf_add_char(&out, ']');
    cJSON *json = parse(rq_buf_cstr(&out));
    ck_assert_str_eq(json->child->valuestring, raw);
    rq_json_free(json);
    rq_buf_clear(&out);
    rq_json_add_string(&out, rq_slice("a\xff\xc3", 3));
    ck_assert_str_eq(rq_buf_cstr(&out), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
    rq_buf_free(&out);
}
END_TEST

Suite *json_suite(void)
{
    Suite *suite = suite_create("json");
    TCase *tc = tcase_create("json");
    tcase_add_test(tc, bare_and_quoted_integer_keys_read_the_same);
    tcase_add_test(tc, an_object_as_a_key_becomes_its_text);
    tcase_add_test(tc, sixty_four_bit_numbers_keep_every_digit);
    tcase_add_test(tc, a_text_cut_at_any_byte_is_an_error_and_never_a_crash);
    tcase_add_test(tc, deep_nesting_is_refused);
    tcase_add_test(tc, an_object_within_the_key_of_an_object_is_no_key);
    tcase_add_test(tc, bytes_of_no_character_are_read_as_java_reads_them);
    tcase_add_test(tc, strings_are_escaped_and_read_back);
    suite_add_tcase(suite, tc);
    return suite;
}
