/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Java's string hash and order, and CRC-32, against values that Java gives. */
#include <check.h>

#include "base/crc.h"
#include "base/jhash.h"

Suite *jhash_suite(void);

START_TEST(java_hashes_are_those_of_java)
{
    ck_assert_int_eq(rq_java_hash(rq_slice_str("")), 0);
    ck_assert_int_eq(rq_java_hash(rq_slice_str("TagA")), 2598919);
    ck_assert_int_eq(rq_java_hash(rq_slice_str("Aa")), rq_java_hash(rq_slice_str("BB")));
    ck_assert_int_eq(rq_java_hash(rq_slice_str("\xF0\x9F\x98\x80")), 1772899);
}
END_TEST

START_TEST(bytes_that_are_no_utf8_count_as_the_replacement_character)
{
    ck_assert_int_eq(rq_java_hash(rq_slice("\xff", 1)), 0xFFFD);
    ck_assert_int_eq(rq_java_hash(rq_slice("\xC3", 1)), 0xFFFD);
    ck_assert_int_eq(rq_java_hash(rq_slice("\xED\xA0\x80", 3)),
                     (0xFFFD * 31 + 0xFFFD) * 31 + 0xFFFD);
}
END_TEST

START_TEST(long_texts_hash_as_short_ones)
{
    char text[64];
    for (size_t n = 0; n < sizeof text; n++) {
        for (size_t odd = 0; odd <= n;
             odd++) { /* one byte that is no ASCII, at every place, or none */
            uint32_t expected = 0;
            for (size_t i = 0; i < n; i++) {
                text[i] = (char)(i == odd ? 0xff : 'a' + (int)(i * 7 % 20));
                expected = 31 * expected + (i == odd ? 0xFFFDu : (unsigned char)text[i]);
            }
            ck_assert_int_eq(rq_java_hash(rq_slice(text, n)), (int32_t)expected);
        }
    }
}
END_TEST

START_TEST(java_order_is_by_utf16_units)
{
    /* U+FF41 is one unit above the surrogates that stand for U+1F600. */
    ck_assert_int_gt(
        rq_java_compare(rq_slice_str("\xEF\xBD\x81"), rq_slice_str("\xF0\x9F\x98\x80")), 0);
    ck_assert_int_lt(rq_java_compare(rq_slice_str("a"), rq_slice_str("ab")), 0);
    ck_assert_int_eq(rq_java_compare(rq_slice_str("abc"), rq_slice_str("abc")), 0);
}
END_TEST

START_TEST(crc_of_hello_is_the_known_one_also_in_parts)
{
    ck_assert_uint_eq(rq_crc32(0, "hello", 5) & 0x7FFFFFFF, 907060870);
    ck_assert_uint_eq(rq_crc32(rq_crc32(0, "he", 2), "llo", 3), rq_crc32(0, "hello", 5));
}
END_TEST

Suite *jhash_suite(void)
{
    Suite *suite = suite_create("jhash");
    TCase *tc = tcase_create("jhash");
    tcase_add_test(tc, java_hashes_are_those_of_java);
    tcase_add_test(tc, bytes_that_are_no_utf8_count_as_the_replacement_character);
    tcase_add_test(tc, long_texts_hash_as_short_ones);
    tcase_add_test(tc, java_order_is_by_utf16_units);
    tcase_add_test(tc, crc_of_hello_is_the_known_one_also_in_parts);
    suite_add_tcase(suite, tc);
    return suite;
}
