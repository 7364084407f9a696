/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Recall handles: as Java writes them, read back, and what is none. */
#include "wire/recall.h"

#include <check.h>

/* Base64.getUrlEncoder() of "v1 Topic broker-a 1795992246456 7F00000112345678ABCD000000000001". */
static const char java_handle[] =
    "djEgVG9waWMgYnJva2VyLWEgMTc5NTk5MjI0NjQ1NiA3RjAwMDAwMTEyMzQ1Njc4QUJDRDAwMDAwMDAwMDAwMQ==";

START_TEST(a_handle_is_written_as_java_writes_it_and_read_back)
{
    struct rq_recall_handle handle;
    struct rq_buf text, written;
    rq_buf_init(&text, 0);
    rq_buf_init(&written, 0);
    ck_assert(rq_recall_handle_read(rq_slice_str(java_handle), &text, &handle));
    ck_assert(rq_slice_eq_str(handle.topic, "Topic"));
    ck_assert(rq_slice_eq_str(handle.broker_name, "broker-a"));
    ck_assert_int_eq(handle.time_ms, INT64_C(1795992246456));
    ck_assert(rq_slice_eq_str(handle.message_id, "7F00000112345678ABCD000000000001"));
    rq_recall_handle_write(&handle, &written);
    ck_assert(rq_slice_eq_str(rq_slice(written.data, written.len), java_handle));
    rq_buf_free(&text);
    rq_buf_free(&written);
}
END_TEST

START_TEST(other_texts_are_no_handles)
{
    static const char *const texts[] = {"",
                                        "v1 Topic broker-a 1 id",
                                        "djEgVG9waWM=",
                                        "====",
                                        "*",
                                        "djIgVCBiIDEgaWQ=" /* v2 T b 1 id */,
                                        "djEgVCBiIHggaWQ=" /* v1 T b x id */};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct rq_recall_handle handle;
        struct rq_buf text;
        rq_buf_init(&text, 0);
        ck_assert_msg(!rq_recall_handle_read(rq_slice_str(texts[i]), &text, &handle), "%s",
                      texts[i]);
        rq_buf_free(&text);
    }
}
END_TEST

Suite *recall_suite(void)
{
    Suite *suite = suite_create("recall");
    TCase *tcase = tcase_create("wire");
    tcase_add_test(tcase, a_handle_is_written_as_java_writes_it_and_read_back);
    tcase_add_test(tcase, other_texts_are_no_handles);
    suite_add_tcase(suite, tcase);
    return suite;
}
