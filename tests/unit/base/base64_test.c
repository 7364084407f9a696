/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Base64: the vectors of RFC 4648, both alphabets, and what is none. */
#include "base/base64.h"

#include <check.h>
#include <string.h>

static const struct {
    const char *bytes;
    const char *text;
} vectors[] = {{"", ""},
               {"f", "Zg=="},
               {"fo", "Zm8="},
               {"foo", "Zm9v"},
               {"foob", "Zm9vYg=="},
               {"fooba", "Zm9vYmE="},
               {"foobar", "Zm9vYmFy"}};

static bool is(const struct rq_buf *buf, const char *bytes)
{
    return rq_slice_eq_str(rq_slice(buf->data, buf->len), bytes);
}

START_TEST(text_is_that_of_the_standard_and_is_read_back)
{
    struct rq_buf written, read;
    rq_buf_init(&written, 0);
    rq_buf_init(&read, 0);
    rq_base64_add(&written, rq_slice_str(vectors[_i].bytes), RQ_BASE64);
    ck_assert(is(&written, vectors[_i].text));
    ck_assert(rq_base64_read(rq_slice_str(vectors[_i].text), RQ_BASE64, &read));
    ck_assert(is(&read, vectors[_i].bytes));
    rq_buf_free(&written);
    rq_buf_free(&read);
}
END_TEST

START_TEST(the_two_alphabets_differ_in_their_last_two_letters)
{
    static const char bytes[] = "\xfb\xff\xfe";
    struct rq_buf plain, url;
    rq_buf_init(&plain, 0);
    rq_buf_init(&url, 0);
    rq_base64_add(&plain, rq_slice(bytes, 3), RQ_BASE64);
    rq_base64_add(&url, rq_slice(bytes, 3), RQ_BASE64_URL);
    ck_assert(is(&plain, "+//+"));
    ck_assert(is(&url, "-__-"));
    rq_buf_clear(&plain);
    ck_assert(!rq_base64_read(rq_slice_str("-__-"), RQ_BASE64, &plain));
    ck_assert(!rq_base64_read(rq_slice_str("+//+"), RQ_BASE64_URL, &plain));
    rq_buf_free(&plain);
    rq_buf_free(&url);
}
END_TEST

START_TEST(padding_may_be_missing_but_not_stand_inside)
{
    struct rq_buf out;
    rq_buf_init(&out, 0);
    ck_assert(rq_base64_read(rq_slice_str("Zg"), RQ_BASE64, &out));
    ck_assert(is(&out, "f"));
    ck_assert(!rq_base64_read(rq_slice_str("Zg==Zg=="), RQ_BASE64, &out));
    ck_assert(!rq_base64_read(rq_slice("Zm9\0", 4), RQ_BASE64, &out));
    ck_assert(!rq_base64_read(rq_slice_str("Zm 9"), RQ_BASE64, &out));
    rq_buf_free(&out);
}
END_TEST

START_TEST(more_than_the_buffer_takes_is_refused)
{
    char room[2];
    struct rq_buf out;
    rq_buf_init_over(&out, room, sizeof room, sizeof room);
    ck_assert(rq_base64_read(rq_slice_str("Zm8="), RQ_BASE64, &out));
    ck_assert_ptr_eq(out.data, room);
    rq_buf_clear(&out);
    ck_assert(!rq_base64_read(rq_slice_str("Zm9v"), RQ_BASE64, &out));
    rq_buf_free(&out);
}
END_TEST

Suite *base64_suite(void)
{
    Suite *suite = suite_create("base64");
    TCase *tcase = tcase_create("base");
    tcase_add_loop_test(tcase, text_is_that_of_the_standard_and_is_read_back, 0,
                        (int)(sizeof vectors / sizeof vectors[0]));
    tcase_add_test(tcase, the_two_alphabets_differ_in_their_last_two_letters);
    tcase_add_test(tcase, padding_may_be_missing_but_not_stand_inside);
    tcase_add_test(tcase, more_than_the_buffer_takes_is_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
