/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Names, handles and header texts of POP consumption (see the header). Pure functions.
 * Counterparts: ExtraInfoUtil, KeyBuilder. */
#include "wire/pop.h"

#include <string.h>

#define SEPARATOR  ' '
#define PIECE_END  ';'
#define RETRY_V1   '_'
#define RETRY_V2   '+'
#define PREFIX_LEN (sizeof RQ_RETRY_PREFIX - 1)

/* ---- retry topics ---- */

static size_t join(struct rq_slice group, char between, struct rq_slice topic,
                   char out[RQ_POP_TOPIC_ROOM])
{
    size_t n = PREFIX_LEN + group.n + 1 + topic.n;
    if (n >= RQ_POP_TOPIC_ROOM) {
        return 0;
    }
    memcpy(out, RQ_RETRY_PREFIX, PREFIX_LEN);
    memcpy(out + PREFIX_LEN, group.p, group.n);
    out[PREFIX_LEN + group.n] = between;
    memcpy(out + PREFIX_LEN + group.n + 1, topic.p, topic.n);
    out[n] = '\0';
    return n;
}

size_t rq_pop_retry_topic(struct rq_slice topic, struct rq_slice group, char out[RQ_POP_TOPIC_ROOM])
{
    return join(group, RETRY_V1, topic, out);
}

static bool is_retry(struct rq_slice topic)
{
    return topic.n > PREFIX_LEN && memcmp(topic.p, RQ_RETRY_PREFIX, PREFIX_LEN) == 0;
}

bool rq_pop_normal_topic(struct rq_slice retry, struct rq_slice group, struct rq_slice *out)
{
    size_t head = PREFIX_LEN + group.n + 1;
    if (!is_retry(retry) || retry.n <= head ||
        memcmp(retry.p + PREFIX_LEN, group.p, group.n) != 0 ||
        (retry.p[head - 1] != RETRY_V1 && retry.p[head - 1] != RETRY_V2)) {
        return false;
    }
    *out = rq_slice(retry.p + head, retry.n - head);
    return true;
}

char rq_pop_retry_mark(struct rq_slice topic)
{
    if (!is_retry(topic)) {
        return '0';
    }
    return memchr(topic.p, RETRY_V2, topic.n) ? '2' : '1';
}

bool rq_pop_marked_topic(struct rq_slice topic, struct rq_slice group, char mark,
                         char room[RQ_POP_TOPIC_ROOM], struct rq_slice *out)
{
    if (mark == '0') {
        *out = topic;
        return true;
    }
    if (mark != '1' && mark != '2') {
        return false;
    }
    size_t n = join(group, mark == '1' ? RETRY_V1 : RETRY_V2, topic, room);
    *out = rq_slice(room, n);
    return n > 0;
}

/* ---- cutting texts ---- */

/* The next piece before a separator; false at the end. */
static bool next_piece(struct rq_slice *rest, char separator, struct rq_slice *out)
{
    if (!rest->p) {
        return false;
    }
    const char *end = rest->n ? memchr(rest->p, separator, rest->n) : NULL;
    size_t n = end ? (size_t)(end - rest->p) : rest->n;
    *out = rq_slice(rest->p, n);
    *rest = end ? rq_slice(end + 1, rest->n - n - 1) : rq_slice(NULL, 0);
    return true;
}

static bool next_i64(struct rq_slice *rest, int64_t *out)
{
    struct rq_slice piece;
    return next_piece(rest, SEPARATOR, &piece) && rq_slice_to_i64(piece, out);
}

static bool next_i32(struct rq_slice *rest, int32_t *out)
{
    struct rq_slice piece;
    return next_piece(rest, SEPARATOR, &piece) && rq_slice_to_i32(piece, out);
}

/* ---- handles ---- */

bool rq_pop_handle_parse(struct rq_slice text, struct rq_pop_handle *out)
{
    struct rq_slice rest = text;
    struct rq_slice mark;
    *out = (struct rq_pop_handle){.queue_id = -1, .offset = -1};
    if (!next_i64(&rest, &out->start_offset) || !next_i64(&rest, &out->pop_time_ms) ||
        !next_i64(&rest, &out->invisible_ms) || !next_i32(&rest, &out->revive_qid) ||
        !next_piece(&rest, SEPARATOR, &mark) || mark.n != 1 ||
        !next_piece(&rest, SEPARATOR, &out->broker_name)) {
        return false;
    }
    if (!rq_pop_number_ok(out->pop_time_ms) || !rq_pop_number_ok(out->invisible_ms)) {
        return false;
    }
    out->retry = mark.p[0];
    if (rest.p && !next_i32(&rest, &out->queue_id)) {
        return false;
    }
    return !rest.p || next_i64(&rest, &out->offset);
}

void rq_pop_handle_write(const struct rq_pop_handle *handle, struct rq_buf *out)
{
    rq_buf_addf(out, "%lld %lld %lld %d %c ", (long long)handle->start_offset,
                (long long)handle->pop_time_ms, (long long)handle->invisible_ms,
                (int)handle->revive_qid, handle->retry);
    rq_buf_add_slice(out, handle->broker_name);
    rq_buf_addf(out, " %d", (int)handle->queue_id);
    if (handle->offset >= 0) {
        rq_buf_addf(out, " %lld", (long long)handle->offset);
    }
}

/* ---- headers of an answer ---- */

static void begin_piece(struct rq_buf *out)
{
    if (out->len > 0) {
        rq_buf_add_char(out, PIECE_END);
    }
}

void rq_pop_add_start(struct rq_buf *out, char mark, int32_t queue_id, int64_t start_offset)
{
    begin_piece(out);
    rq_buf_addf(out, "%c %d %lld", mark, (int)queue_id, (long long)start_offset);
}

void rq_pop_add_offsets(struct rq_buf *out, char mark, int32_t queue_id, const int64_t *offsets,
                        size_t count)
{
    begin_piece(out);
    rq_buf_addf(out, "%c %d ", mark, (int)queue_id);
    for (size_t i = 0; i < count; i++) {
        rq_buf_addf(out, i ? ",%lld" : "%lld", (long long)offsets[i]);
    }
}

void rq_pop_add_order_count(struct rq_buf *out, char mark, int32_t queue_id, int64_t offset,
                            int32_t times)
{
    begin_piece(out);
    rq_buf_addf(out, "%c qo%d%%%lld %d", mark, (int)queue_id, (long long)offset, (int)times);
}

void rq_pop_add_order_least(struct rq_buf *out, char mark, int32_t queue_id, int32_t times)
{
    begin_piece(out);
    rq_buf_addf(out, "%c %d %d", mark, (int)queue_id, (int)times);
}

/* The value of the piece "mark key value". */
static bool find_value(struct rq_slice text, char mark, struct rq_slice key, struct rq_slice *out)
{
    struct rq_slice piece;
    while (next_piece(&text, PIECE_END, &piece)) {
        struct rq_slice first;
        struct rq_slice second;
        if (next_piece(&piece, SEPARATOR, &first) && next_piece(&piece, SEPARATOR, &second) &&
            next_piece(&piece, SEPARATOR, out) && first.n == 1 && first.p[0] == mark &&
            rq_slice_eq(second, key)) {
            return true;
        }
    }
    return false;
}

bool rq_pop_find_start(struct rq_slice text, char mark, int32_t queue_id, int64_t *out)
{
    char key[24];
    struct rq_slice value;
    size_t n = rq_i64_to_text(queue_id, key);
    return find_value(text, mark, rq_slice(key, n), &value) && rq_slice_to_i64(value, out);
}

int32_t rq_pop_find_order_count(struct rq_slice text, char mark, int32_t queue_id, int64_t offset)
{
    char key[64] = "qo";
    struct rq_slice value;
    int32_t times = 0;
    size_t n = 2 + rq_i64_to_text(queue_id, key + 2);
    key[n++] = '%';
    n += rq_i64_to_text(offset, key + n);
    if (!find_value(text, mark, rq_slice(key, n), &value) || !rq_slice_to_i32(value, &times)) {
        return 0;
    }
    return times;
}
