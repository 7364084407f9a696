/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* See java_frame.h. */
#include "java_frame.h"

#include <limits.h>

#include "vectors.h"

#include "base/mem.h"

/* cJSON texts cannot hold a NUL: the vectors are read with U+E000 in its place, which is undone
 * here. */
static struct rq_buf expected_text(const char *text)
{
    struct rq_buf out;
    rq_buf_init(&out, 0);
    for (const char *p = text; *p; p++) {
        if (strncmp(p, "\xEE\x80\x80", 3) == 0) {
            rq_buf_add_char(&out, '\0');
            p += 2;
        } else {
            rq_buf_add_char(&out, *p);
        }
    }
    return out;
}

static void check_text(struct rq_slice got, const cJSON *expected, const char *what)
{
    if (!cJSON_IsString(expected)) {
        ck_assert_msg(got.p == NULL, "%s: %.*s where Java has null", what, (int)got.n, got.p);
        return;
    }
    struct rq_buf text = expected_text(expected->valuestring);
    ck_assert_msg(got.p && rq_slice_eq(got, rq_slice(text.data, text.len)),
                  "%s: \"%.*s\" where Java has %s", what, (int)got.n, got.p ? got.p : "",
                  expected->valuestring);
    rq_buf_free(&text);
}

static size_t distinct_names(const struct rq_header *header)
{
    size_t count = 0;
    for (size_t i = 0; i < header->ext_count; i++) {
        bool again = false;
        for (size_t k = i + 1; k < header->ext_count; k++) {
            again = again || rq_slice_eq(header->ext[i].name, header->ext[k].name);
        }
        count += !again;
    }
    return count;
}

void java_check_ext(const struct rq_header *header, const cJSON *expected, const char *what)
{
    ck_assert_msg(distinct_names(header) == (size_t)cJSON_GetArraySize(expected),
                  "%s: %u extFields", what, header->ext_count);
    const cJSON *item;
    cJSON_ArrayForEach(item, expected)
    {
        bool null_key = strcmp(item->string, "null") == 0; /* how the vectors show an empty key */
        check_text(rq_header_ext(header, null_key ? "" : item->string), item, what);
    }
}

void java_check_header(const struct rq_header *header, const cJSON *expected, const char *what)
{
    ck_assert_msg(header->code == rq_json_i32(expected, "code", INT_MIN), "%s: code %d", what,
                  header->code);
    ck_assert_msg(header->flag == rq_json_i32(expected, "flag", INT_MIN), "%s: flag %d", what,
                  header->flag);
    ck_assert_msg(header->opaque == rq_json_i32(expected, "opaque", INT_MIN), "%s: opaque %d", what,
                  header->opaque);
    ck_assert_msg(header->version == rq_json_i32(expected, "version", INT_MIN), "%s: version %d",
                  what, header->version);
    const char *language = rq_json_str(expected, "language", NULL);
    ck_assert_msg(language ? strcmp(rq_language_name(header->language), language) == 0
                           : header->language == RQ_LANGUAGE_UNKNOWN,
                  "%s: language %d", what, header->language);
    bool json = strcmp(rq_json_str(expected, "serialize", ""), "JSON") == 0;
    ck_assert_msg(header->serialize == (json ? RQ_SERIALIZE_JSON : RQ_SERIALIZE_BINARY), "%s: form",
                  what);
    check_text(header->remark, rq_json_get(expected, "remark"), what);
    java_check_ext(header, rq_json_get(expected, "extFields"), what);
}

void java_check_body(struct rq_slice body, const char *hex, const char *what)
{
    char *bytes = malloc(strlen(hex) / 2 + 1);
    ck_assert(rq_hex_parse(rq_slice_str(hex), bytes));
    ck_assert_msg(rq_slice_eq(body, rq_slice(bytes, strlen(hex) / 2)), "%s: body", what);
    free(bytes);
}

/* Equal in meaning: the binary form knows no empty text, and one side may be it. */
bool java_same_text(struct rq_slice a, struct rq_slice b)
{
    return rq_slice_eq(a, b) || (a.n == 0 && b.n == 0);
}

static void check_same(const struct rq_header *a, const struct rq_header *b, const char *what)
{
    ck_assert_msg(a->code == b->code && a->flag == b->flag && a->opaque == b->opaque &&
                      a->version == b->version && java_same_text(a->remark, b->remark),
                  "%s: written again it means something else", what);
    for (size_t i = 0; i < a->ext_count; i++) {
        char *name = rq_slice_dup(a->ext[i].name);
        ck_assert_msg(java_same_text(rq_header_ext(a, name), rq_header_ext(b, name)),
                      "%s: extField %s", what, name);
        rq_free(name);
    }
}

/* Writes a decoded frame again in one form, decodes that and compares. */
void java_check_written_again(const struct rq_frame *frame, enum rq_serialize serialize,
                              const char *what)
{
    struct rq_frame_spec spec = {.serialize = serialize,
                                 .code = frame->header.code,
                                 .flag = frame->header.flag,
                                 .opaque = frame->header.opaque,
                                 .version = frame->header.version,
                                 .language = frame->header.language,
                                 .remark = frame->header.remark,
                                 .extra = frame->header.ext,
                                 .extra_count = frame->header.ext_count};
    struct rq_buf out;
    rq_buf_init(&out, 0);
    rmq_error *err = NULL;
    rmq_status st = rq_frame_encode(&out, &spec, frame->body.n, &err);
    if (serialize == RQ_SERIALIZE_BINARY && frame->header.code > INT16_MAX) {
        ck_assert_int_eq(st, RMQ_ERR_INVALID);
        rmq_error_destroy(err);
        rq_buf_free(&out);
        return;
    }
    ck_assert_msg(st == RMQ_OK, "%s: %s", what, rmq_error_message(err));
    ck_assert_uint_eq(rq_frame_header_size(out.data), out.len);
    rq_buf_add_slice(&out, frame->body);
    struct rq_frame again;
    st = rq_frame_decode(out.data, out.len, &again, &err);
    ck_assert_msg(st == RMQ_OK, "%s: %s", what, rmq_error_message(err));
    check_same(&frame->header, &again.header, what);
    ck_assert(rq_slice_eq(frame->body, again.body));
    ck_assert_int_eq(again.header.serialize, serialize);
    rq_buf_free(&out);
}

cJSON *java_read_remoting(void)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    ck_assert_int_eq(
        rq_sys_read_file("tests/vectors/remoting.json", RQ_BUF_MAX_DEFAULT, &text, NULL), RMQ_OK);
    char *p = (char *)(uintptr_t)rq_buf_cstr(&text);
    while ((p = strstr(p, "\\u0000"))) {
        memcpy(p, "\\ue000", 6);
    }
    cJSON *json = NULL;
    ck_assert_int_eq(rq_json_parse(rq_slice(text.data, text.len), &json, NULL), RMQ_OK);
    rq_buf_free(&text);
    return json;
}
