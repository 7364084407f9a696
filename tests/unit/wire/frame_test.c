/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Frames and headers that are malformed, and what the writer guarantees. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/frame.h"

Suite *frame_suite(void);

/* ---- malformed frames ---- */

START_TEST(hopeless_lengths_and_unknown_kinds_are_refused_as_soon_as_they_are_seen)
{
    static const uint32_t lengths[] = {
        0, 1, 3, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, RQ_FRAME_MAX - 3};
    size_t total;
    char bytes[RQ_FRAME_PREFIX] = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        rq_store_be32(bytes, lengths[i]);
        rmq_status st = rq_frame_size(bytes, 4, RQ_FRAME_MAX, &total, NULL);
        ck_assert_msg(st == RMQ_ERR_PROTOCOL || st == RMQ_ERR_TOO_LARGE, "length %u: %d",
                      lengths[i], st);
        ck_assert_uint_eq(total, 0);
    }
    rq_store_be32(bytes, RQ_FRAME_MAX - 4);
    ck_assert_int_eq(rq_frame_size(bytes, sizeof bytes, RQ_FRAME_MAX, &total, NULL), RMQ_OK);
    ck_assert_uint_eq(total, RQ_FRAME_MAX);
    rq_store_be32(bytes, 6);
    for (int kind = 0; kind < 256; kind++) {
        bytes[4] = (char)kind;
        rmq_status expected = kind <= RQ_SERIALIZE_BINARY ? RMQ_OK : RMQ_ERR_PROTOCOL;
        ck_assert_int_eq(rq_frame_size(bytes, 5, RQ_FRAME_MAX, &total, NULL), expected);
        ck_assert_int_eq(rq_frame_size(bytes, 8, RQ_FRAME_MAX, &total, NULL), expected);
    }
    bytes[4] = 0;
    bytes[7] = 2;
    ck_assert_int_eq(rq_frame_size(bytes, 8, RQ_FRAME_MAX, &total, NULL), RMQ_OK);
    bytes[7] = 3;
    ck_assert_int_eq(rq_frame_size(bytes, 8, RQ_FRAME_MAX, &total, NULL), RMQ_ERR_PROTOCOL);
}
END_TEST

static rmq_status decode_text(const char *text, struct rq_header *out)
{
    size_t n = strlen(text);
    char *copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    rmq_status st = rq_header_decode(RQ_SERIALIZE_JSON, copy, n, out, NULL);
    free(copy); /* the slices are not looked at */
    return st;
}

START_TEST(broken_json_headers_are_refused)
{
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[]",
        "null",
        "{}",
        "{\"code\":1",
        "{\"code\":1}}",
        "{\"code\":1,}",
        "{\"code\":x}",
        "{\"code\":}",
        "{\"code\":1.5}",
        "{\"code\":99999999999}",
        "{\"code\":null}",
        "{\"code\" 1}",
        "{\"code\":1 \"flag\":0}",
        "{code:1}",
        "{\"code\":1,\"flag\":1}",
        "{\"code\":1,\"remark\":\"\\x\"}",
        "{\"code\":1,\"remark\":\"\\u12g4\"}",
        "{\"code\":1,\"remark\":\"abc}",
        "{\"code\":1,\"x\":[}",
        "{\"code\":1,\"x\":[1,2}",
        "{\"code\":1,\"x\":{\"a\":[1,2}]}",
        "{\"code\":1,\"extFields\":[]}",
        "{\"code\":1,\"extFields\":{\"a\"}}",
        "{\"code\":1,\"extFields\":{\"a\":\"b\"}",
        "{\"code\":1,\"x\":\"\\",
        "{\"code\":1,\"x\":1a}",
        "{\"code\":1,\"x\":nul}",
        "{\"code\":1,\"x\":+1}",
        ("{\"code\":1,\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]"
         "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}")};
    struct rq_header out;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(decode_text(bad[i], &out) == RMQ_ERR_PROTOCOL, "accepted: %s", bad[i]);
    }
    ck_assert_int_eq(decode_text("{\"code\":1}", &out), RMQ_OK);
    ck_assert_int_eq(decode_text("{\"code\":1,\"flag\":1,\"opaque\":5}", &out), RMQ_OK);
    ck_assert_int_eq(
        decode_text("{\"code\":1,\"version\":null,\"language\":null,\"extFields\":null}", &out),
        RMQ_OK);
    ck_assert_int_eq(out.language, RQ_LANGUAGE_JAVA);
    ck_assert(!out.has_ext);
}
END_TEST

START_TEST(lone_surrogates_become_the_replacement_character)
{
    char text[] = "{\"code\":1,\"remark\":\"\\ud83d|\\ude00|\\ud83d\\u0041|\\ud83d\\ude00\"}";
    struct rq_header out;
    ck_assert_int_eq(rq_header_decode(RQ_SERIALIZE_JSON, text, strlen(text), &out, NULL), RMQ_OK);
    ck_assert(rq_slice_eq_str(out.remark, "\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD"
                                          "A|\xF0\x9F\x98\x80"));
}
END_TEST

static rmq_status decode_many(int count, enum rq_serialize serialize)
{
    struct rq_ext ext[RQ_HEADER_MAX_EXT + 1];
    char names[RQ_HEADER_MAX_EXT + 1][16];
    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        ext[i] = (struct rq_ext){rq_slice_str(names[i]), rq_slice_str("v")};
    }
    struct rq_frame_spec spec = rq_frame_request(serialize, 1, NULL, NULL);
    spec.extra = ext;
    spec.extra_count = (size_t)count;
    struct rq_buf out;
    rq_buf_init(&out, 0);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_OK);
    struct rq_frame frame;
    rmq_status st = rq_frame_decode(out.data, out.len, &frame, NULL);
    rq_buf_free(&out);
    return st;
}

static void check_text_comes_back(const char *text)
{
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, 1, NULL, NULL);
    struct rq_buf out;
    struct rq_frame frame;
    rq_buf_init(&out, 0);
    spec.remark = rq_slice_str(text);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_OK);
    ck_assert_int_eq(rq_frame_decode(out.data, out.len, &frame, NULL), RMQ_OK);
    ck_assert_msg(rq_slice_eq_str(frame.header.remark, text), "%s", text);
    rq_buf_free(&out);
}

/* Reader and writer look at eight bytes at once, the reader of a long text at more: each place in
 * them must count. */
START_TEST(a_text_with_an_escape_at_any_place_comes_back)
{
    static const char *const specials[] = {"\"", "\\", "\001", "\037", "\n", "\177", "\303\274"};
    static const char plain[] = "abcdefghijklmnopqrst";
    for (size_t i = 0; i < 20 * 20 * sizeof specials / sizeof specials[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "%.*s%s%.*s", (int)(i % 20), plain, specials[i / 400],
                 (int)(i / 20 % 20), "ABCDEFGHIJKLMNOPQRST");
        check_text_comes_back(text);
    }
    for (size_t i = 0; i < 200 * sizeof specials / sizeof specials[0]; i++) {
        char text[256];
        size_t n = i % 200;
        memset(text, 'a', n);
        snprintf(text + n, sizeof text - n, "%s%.*s", specials[i / 200], (int)(i % 7), plain);
        check_text_comes_back(text);
    }
}
END_TEST

START_TEST(sixty_four_ext_fields_are_read_and_more_are_refused)
{
    for (int serialize = RQ_SERIALIZE_JSON; serialize <= RQ_SERIALIZE_BINARY; serialize++) {
        ck_assert_int_eq(decode_many(RQ_HEADER_MAX_EXT, (enum rq_serialize)serialize), RMQ_OK);
        ck_assert_int_eq(decode_many(RQ_HEADER_MAX_EXT + 1, (enum rq_serialize)serialize),
                         RMQ_ERR_PROTOCOL);
    }
}
END_TEST

/* ---- the writer ---- */

START_TEST(the_opaque_and_the_body_length_can_be_set_after_writing)
{
    static const int32_t opaques[] = {0, 1, -1, INT32_MAX, INT32_MIN, 123456};
    for (int serialize = RQ_SERIALIZE_JSON; serialize <= RQ_SERIALIZE_BINARY; serialize++) {
        struct rq_hdr_topic fields = {.topic = rq_slice_str("T")};
        struct rq_frame_spec spec =
            rq_frame_request((enum rq_serialize)serialize, 105, &rq_tab_topic, &fields);
        struct rq_buf out;
        rq_buf_init(&out, 0);
        rq_buf_add_str(&out, "before");
        ck_assert_int_eq(rq_frame_encode(&out, &spec, 100, NULL), RMQ_OK);
        char *frame = out.data + 6;
        size_t header = rq_frame_header_size(frame);
        ck_assert_uint_eq(header, out.len - 6);
        ck_assert_uint_eq(rq_load_be32(frame), header - 4 + 100);
        ck_assert_int_eq(rq_frame_patch_body_len(frame, 0, NULL), RMQ_OK);
        ck_assert_int_eq(rq_frame_patch_body_len(frame, RQ_FRAME_MAX - header + 1, NULL),
                         RMQ_ERR_TOO_LARGE);
        for (size_t i = 0; i < sizeof opaques / sizeof opaques[0]; i++) {
            struct rq_frame decoded;
            rq_frame_patch_opaque(frame, opaques[i]);
            ck_assert_int_eq(rq_frame_decode(frame, header, &decoded, NULL), RMQ_OK);
            ck_assert_int_eq(decoded.header.opaque, opaques[i]);
            ck_assert(decoded.header.has_ext);
            ck_assert(rq_slice_eq_str(rq_header_ext(&decoded.header, "topic"), "T"));
        }
        rq_buf_free(&out);
    }
}
END_TEST

START_TEST(a_request_without_fields_has_an_empty_ext_fields_object)
{
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_HEART_BEAT, NULL, NULL);
    struct rq_buf out;
    rq_buf_init(&out, 0);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_OK);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&out) + RQ_FRAME_PREFIX, "\"extFields\":{}"));
    rq_buf_free(&out);
}
END_TEST

START_TEST(frames_beyond_the_limits_are_refused_and_leave_the_buffer_as_it_was)
{
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, 1, NULL, NULL);
    struct rq_buf out;
    rq_buf_init(&out, 1000);
    rq_buf_add_str(&out, "xyz");
    ck_assert_int_eq(rq_frame_encode(&out, &spec, RQ_FRAME_MAX, NULL), RMQ_ERR_TOO_LARGE);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, SIZE_MAX, NULL), RMQ_ERR_TOO_LARGE);
    ck_assert_uint_eq(out.len, 3);
    char *big = calloc(1, 2000);
    spec.remark = rq_slice(memset(big, 'r', 2000), 2000);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_ERR_TOO_LARGE);
    ck_assert_uint_eq(out.len, 3);
    free(big);
    spec = rq_frame_request(RQ_SERIALIZE_BINARY, RQ_REQ_POP_MESSAGE, NULL, NULL);
    rq_buf_clear(&out);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_ERR_INVALID);
    rq_buf_free(&out);
}
END_TEST

Suite *frame_suite(void)
{
    Suite *suite = suite_create("frame");
    TCase *tc = tcase_create("frame");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, hopeless_lengths_and_unknown_kinds_are_refused_as_soon_as_they_are_seen);
    tcase_add_test(tc, broken_json_headers_are_refused);
    tcase_add_test(tc, lone_surrogates_become_the_replacement_character);
    tcase_add_test(tc, a_text_with_an_escape_at_any_place_comes_back);
    tcase_add_test(tc, sixty_four_ext_fields_are_read_and_more_are_refused);
    tcase_add_test(tc, the_opaque_and_the_body_length_can_be_set_after_writing);
    tcase_add_test(tc, a_request_without_fields_has_an_empty_ext_fields_object);
    tcase_add_test(tc, frames_beyond_the_limits_are_refused_and_leave_the_buffer_as_it_was);
    suite_add_tcase(suite, tc);
    return suite;
}
