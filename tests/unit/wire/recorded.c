/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* See recorded.h. */
#include "recorded.h"

#include "vectors.h"

/* Code of the request with an opaque on a connection and direction; the newest wins. */
struct asked {
    int conn;
    int32_t opaque;
    bool from_client;
    int32_t code;
};

static struct asked asked[2048];
static size_t asked_count;

static int32_t code_asked(int conn, int32_t opaque, bool from_client)
{
    for (size_t i = asked_count; i > 0; i--) {
        const struct asked *a = &asked[i - 1];
        if (a->conn == conn && a->opaque == opaque && a->from_client == from_client) {
            return a->code;
        }
    }
    return -1;
}

static int32_t request_of(const cJSON *line, const struct rq_header *header)
{
    int conn = rq_json_i32(line, "conn", 0);
    bool from_client = strcmp(rq_json_str(line, "dir", ""), "c2s") == 0;
    if (rq_header_is_response(header)) {
        return code_asked(conn, header->opaque, !from_client);
    }
    ck_assert_uint_lt(asked_count, sizeof asked / sizeof asked[0]);
    asked[asked_count++] = (struct asked){conn, header->opaque, from_client, header->code};
    return header->code;
}

static void each_frame(struct rq_slice text, const char *what,
                       void (*check)(const struct recorded *recorded))
{
    cJSON *line = NULL;
    ck_assert_int_eq(rq_json_parse(text, &line, NULL), RMQ_OK);
    struct recorded recorded = {.line = line, .what = what};
    size_t n;
    char *bytes = vectors_hex(line, "hex", &n);
    rmq_error *err = NULL;
    rmq_status st = rq_frame_decode(bytes, n, &recorded.frame, &err);
    ck_assert_msg(st == RMQ_OK, "%s: %s", what, rmq_error_message(err));
    recorded.bytes = rq_slice(bytes, n);
    recorded.request = request_of(line, &recorded.frame.header);
    check(&recorded);
    free(bytes);
    rq_json_free(line);
}

static void each_line(const char *path, void (*check)(const struct recorded *recorded))
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file(path, RQ_BUF_MAX_DEFAULT, &text, NULL), RMQ_OK);
    asked_count = 0;
    int number = 0;
    char *end;
    for (char *p = text.data; p < text.data + text.len; p = end + 1) {
        end = memchr(p, '\n', (size_t)(text.data + text.len - p));
        ck_assert_ptr_nonnull(end);
        char what[128];
        snprintf(what, sizeof what, "%s:%d", path, ++number);
        each_frame(rq_slice(p, (size_t)(end - p)), what, check);
    }
    ck_assert_int_gt(number, 200);
    rq_buf_free(&text);
}

void recorded_each(void (*check)(const struct recorded *recorded))
{
    each_line("tests/vectors/frames-5.3.3.jsonl", check);
    each_line("tests/vectors/frames-5.3.3-binary.jsonl", check);
    each_line("tests/vectors/frames-4.9.7.jsonl", check);
}
