/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Slices: trimming, cutting into pieces. */
#include <check.h>

#include "base/slice.h"

Suite *slice_suite(void);

START_TEST(trimming_takes_blanks_and_what_is_below_them_from_both_ends_only)
{
    ck_assert(rq_slice_eq_str(rq_slice_trim(rq_slice_str(" \t\r\n a b\x01\x1f ")), "a b"));
    ck_assert(rq_slice_eq_str(rq_slice_trim(rq_slice_str("a")), "a"));
    ck_assert_uint_eq(rq_slice_trim(rq_slice_str(" \t ")).n, 0);
    ck_assert_uint_eq(rq_slice_trim(rq_slice(NULL, 0)).n, 0);
    ck_assert(rq_slice_eq_str(rq_slice_trim(rq_slice_str("\xc3\xa4 ")), "\xc3\xa4"));
}
END_TEST

START_TEST(pieces_come_in_order_and_a_separator_at_the_end_brings_no_empty_one)
{
    static const char *const pieces[] = {"a", "", "bc"};
    struct rq_slice rest = rq_slice_str("a;;bc;");
    struct rq_slice piece;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        ck_assert(rq_slice_next(&rest, ';', &piece));
        ck_assert(rq_slice_eq_str(piece, pieces[i]));
    }
    ck_assert(!rq_slice_next(&rest, ';', &piece));
    rest = rq_slice_str("one");
    ck_assert(rq_slice_next(&rest, ';', &piece));
    ck_assert(rq_slice_eq_str(piece, "one"));
    ck_assert(!rq_slice_next(&rest, ';', &piece));
}
END_TEST

START_TEST(a_list_has_whole_words_only)
{
    ck_assert(rq_slice_is_listed(rq_slice_str("b"), "a;b;cd"));
    ck_assert(rq_slice_is_listed(rq_slice_str("cd"), "a;b;cd"));
    ck_assert(!rq_slice_is_listed(rq_slice_str("c"), "a;b;cd"));
    ck_assert(!rq_slice_is_listed(rq_slice_str("a;b"), "a;b;cd"));
    ck_assert(!rq_slice_is_listed(rq_slice_str("a"), ""));
    ck_assert(!rq_slice_is_listed(rq_slice_str("a"), NULL));
}
END_TEST

Suite *slice_suite(void)
{
    Suite *suite = suite_create("slice");
    TCase *tc = tcase_create("slice");
    tcase_add_test(tc, trimming_takes_blanks_and_what_is_below_them_from_both_ends_only);
    tcase_add_test(tc, pieces_come_in_order_and_a_separator_at_the_end_brings_no_empty_one);
    tcase_add_test(tc, a_list_has_whole_words_only);
    suite_add_tcase(suite, tc);
    return suite;
}
