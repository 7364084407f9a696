/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The growing buffer, slices and numbers. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/mem.h"

Suite *buf_suite(void);

START_TEST(buf_refuses_more_than_its_limit_and_keeps_what_it_has)
{
    struct rq_buf buf;
    rq_buf_init(&buf, 10);
    rq_buf_add_str(&buf, "12345678");
    rq_buf_add_str(&buf, "abc");
    ck_assert_int_eq(rq_buf_status(&buf), RMQ_ERR_TOO_LARGE);
    ck_assert_uint_eq(buf.len, 8);
    rq_buf_add_char(&buf, 'x');
    ck_assert_uint_eq(buf.len, 8);
    rq_buf_clear(&buf);
    rq_buf_add_str(&buf, "ok");
    ck_assert_str_eq(rq_buf_cstr(&buf), "ok");
    rq_buf_free(&buf);
}
END_TEST

START_TEST(buf_survives_a_failed_allocation)
{
    struct rq_buf buf;
    rq_buf_init(&buf, 0);
    rq_buf_add_str(&buf, "start");
    rq_mem_count(1);
    rq_mem_fail_at(1);
    char big[1000] = {0};
    rq_buf_add(&buf, big, sizeof big);
    rq_mem_count(0);
    ck_assert_int_eq(rq_buf_status(&buf), RMQ_ERR_NOMEM);
    ck_assert_uint_eq(buf.len, 5);
    rq_buf_clear(&buf);
    rq_buf_add(&buf, big, sizeof big);
    ck_assert_int_eq(rq_buf_status(&buf), RMQ_OK);
    rq_buf_free(&buf);
}
END_TEST

START_TEST(buf_over_memory_of_others_moves_out_when_it_grows)
{
    char memory[16] = "................";
    struct rq_buf buf;
    rq_buf_init_over(&buf, memory, sizeof memory, 100);
    rq_buf_add_str(&buf, "0123456789");
    ck_assert_ptr_eq(buf.data, memory);
    rq_buf_add_str(&buf, "abcdefghij");
    ck_assert_ptr_ne(buf.data, memory);
    ck_assert_str_eq(rq_buf_cstr(&buf), "0123456789abcdefghij");
    ck_assert(memcmp(memory, "0123456789......", 16) == 0);
    rq_buf_free(&buf);
    rq_buf_init_over(&buf, memory, sizeof memory, 100);
    rq_buf_add_str(&buf, "abc");
    char *text = rq_buf_detach(&buf);
    ck_assert_ptr_ne(text, memory);
    ck_assert_str_eq(text, "abc");
    rq_free(text);
    rq_buf_free(&buf); /* the memory is the test's own */
}
END_TEST

START_TEST(numbers_are_written_big_endian_and_read_back)
{
    struct rq_buf buf;
    rq_buf_init(&buf, 0);
    rq_buf_add_u8(&buf, 7);
    rq_buf_add_be16(&buf, 0x0102);
    rq_buf_add_be32(&buf, 0x03040506);
    rq_buf_add_be64(&buf, UINT64_C(0x0708090a0b0c0d0e));
    ck_assert_mem_eq(buf.data, "\x07\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e", 15);
    struct rq_cursor c = rq_cursor(buf.data, buf.len);
    ck_assert_uint_eq(rq_cursor_u8(&c), 7);
    ck_assert_uint_eq(rq_cursor_be16(&c), 0x0102);
    ck_assert_uint_eq(rq_cursor_be32(&c), 0x03040506);
    ck_assert_uint_eq(rq_cursor_be64(&c), UINT64_C(0x0708090a0b0c0d0e));
    ck_assert(rq_cursor_ok(&c));
    ck_assert_uint_eq(rq_cursor_be16(&c), 0);
    ck_assert(!rq_cursor_ok(&c));
    rq_buf_free(&buf);
}
END_TEST

START_TEST(decimal_text_covers_the_whole_range)
{
    static const int64_t values[] = {0, 1, -1, 42, INT64_MAX, INT64_MIN, 1000000, -999};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[24];
        size_t n = rq_i64_to_text(values[i], text);
        int64_t back = 0;
        ck_assert(rq_slice_to_i64(rq_slice(text, n), &back));
        ck_assert(back == values[i]);
        char want[32];
        snprintf(want, sizeof want, "%lld", (long long)values[i]);
        text[n] = '\0';
        ck_assert_str_eq(text, want);
    }
}
END_TEST

START_TEST(text_that_is_no_number_is_refused)
{
    static const char *const bad[] = {"",     "-",  "+", "1x", " 1", "9223372036854775808",
                                      "0x10", "1.5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t v = 0;
        ck_assert_msg(!rq_slice_to_i64(rq_slice_str(bad[i]), &v), "accepted %s", bad[i]);
    }
    int32_t v32 = 0;
    ck_assert(!rq_slice_to_i32(rq_slice_str("2147483648"), &v32));
    ck_assert(rq_slice_to_i32(rq_slice_str("-2147483648"), &v32));
    ck_assert_int_eq(v32, INT32_MIN);
}
END_TEST

Suite *buf_suite(void)
{
    Suite *suite = suite_create("buf");
    TCase *tc = tcase_create("buf");
    tcase_add_test(tc, buf_refuses_more_than_its_limit_and_keeps_what_it_has);
    tcase_add_test(tc, buf_survives_a_failed_allocation);
    tcase_add_test(tc, buf_over_memory_of_others_moves_out_when_it_grows);
    tcase_add_test(tc, numbers_are_written_big_endian_and_read_back);
    tcase_add_test(tc, decimal_text_covers_the_whole_range);
    tcase_add_test(tc, text_that_is_no_number_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
