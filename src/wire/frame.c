/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Frames: cutting, decoding, writing. Called by net's loop threads for every frame in, and by
 * whoever sends for every frame out. Counterparts: RemotingCommand.encode and decode, NettyDecoder.
 */
#include "wire/frame.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "wire/json_text.h"

#define HEADER_MAX 0xFFFFFF
/* Both forms have the opaque at a fixed place: JSON as the first member, 11 characters wide, the
 * longest int32_t. */
#define JSON_START    "{\"opaque\":           ,\"code\":"
#define OPAQUE_WIDTH  11
#define OPAQUE_JSON   (RQ_FRAME_PREFIX + 10)
#define OPAQUE_BINARY (RQ_FRAME_PREFIX + 5)

rmq_status rq_frame_size(const void *p, size_t n, size_t max, size_t *total, rmq_error **err)
{
    const unsigned char *bytes = p;
    *total = 0;
    if (n < 4) {
        return RMQ_OK;
    }
    uint32_t length = rq_load_be32(p);
    if (length < 4 || length > INT32_MAX) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "frame length %d", (int)length);
    }
    if ((size_t)length + 4 > max) {
        return rq_error_set(err, RMQ_ERR_TOO_LARGE, "frame of %zu bytes, the limit is %zu",
                            (size_t)length + 4, max);
    }
    if (n > 4 && bytes[4] > RQ_SERIALIZE_BINARY) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "frame with a header of unknown kind %d",
                            bytes[4]);
    }
    if (n < RQ_FRAME_PREFIX) {
        return RMQ_OK;
    }
    uint32_t header_len = rq_load_be32(bytes + 4) & HEADER_MAX;
    if (header_len > length - 4) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "header of %u bytes in a frame of %u",
                            header_len, length);
    }
    *total = (size_t)length + 4;
    return RMQ_OK;
}

rmq_status rq_frame_decode(char *frame, size_t n, struct rq_frame *out, rmq_error **err)
{
    size_t total;
    rmq_status st = rq_frame_size(frame, n, SIZE_MAX, &total, err);
    if (st) {
        return st;
    }
    if (total == 0 || total != n) { /* 0: too few bytes for a prefix */
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "frame of %zu bytes where %zu were given", total,
                            n);
    }
    size_t header_len = rq_load_be32(frame + 4) & HEADER_MAX;
    size_t body_at = RQ_FRAME_PREFIX + header_len;
    out->body = rq_slice(frame + body_at, n - body_at);
    return rq_header_decode((enum rq_serialize)(unsigned char)frame[4], frame + RQ_FRAME_PREFIX,
                            header_len, &out->header, err);
}

/* Eleven characters, blanks before the digits. */
static void put_opaque(char *at, int32_t opaque)
{
    char digits[21];
    size_t n = rq_i64_to_text(opaque, digits);
    memset(at, ' ', OPAQUE_WIDTH - n);
    memcpy(at + OPAQUE_WIDTH - n, digits, n);
}

static void add_ext(struct rq_buf *out, const struct rq_frame_spec *spec)
{
    bool first = true;
    if (spec->table) {
        rq_fields_encode(spec->table, spec->fields, spec->serialize, &first, out);
    }
    for (size_t i = 0; i < spec->extra_count; i++) {
        rq_ext_encode(spec->extra[i].name, spec->extra[i].value, spec->serialize, &first, out);
    }
    if (spec->signer) {
        rq_sign_ext(spec, &first, out);
    }
}

static void add_json(struct rq_buf *out, const struct rq_frame_spec *spec)
{
    rq_buf_add(out, JSON_START, sizeof JSON_START - 1);
    rq_buf_add_i64(out, spec->code);
    rq_buf_add(out, ",\"flag\":", 8);
    rq_buf_add_i64(out, spec->flag);
    rq_buf_add(out, ",\"language\":\"", 13);
    rq_buf_add_str(out, rq_language_name(spec->language));
    rq_buf_add(out, "\",\"version\":", 12);
    rq_buf_add_i64(out, spec->version);
    if (spec->remark.p) {
        rq_buf_add(out, ",\"remark\":", 10);
        rq_json_text_add(out, spec->remark);
    }
    rq_buf_add_str(out, ",\"serializeTypeCurrentRPC\":\"JSON\",\"extFields\":{");
    add_ext(out, spec);
    rq_buf_add(out, "}}", 2);
}

static void add_binary(struct rq_buf *out, const struct rq_frame_spec *spec)
{
    bool known = spec->language >= 0 && spec->language < RQ_LANGUAGE_COUNT;
    rq_buf_add_be16(out, (uint16_t)spec->code);
    rq_buf_add_u8(out, known ? (uint8_t)spec->language : (uint8_t)RQ_LANGUAGE_OTHER);
    rq_buf_add_be16(out, (uint16_t)spec->version);
    rq_buf_add_be32(out, (uint32_t)spec->opaque);
    rq_buf_add_be32(out, (uint32_t)spec->flag);
    rq_buf_add_be32(out, (uint32_t)spec->remark.n);
    rq_buf_add_slice(out, spec->remark);
    size_t ext_at = out->len;
    rq_buf_add_be32(out, 0);
    add_ext(out, spec);
    if (rq_buf_status(out) == RMQ_OK) {
        rq_store_be32(out->data + ext_at, (uint32_t)(out->len - ext_at - 4));
    }
}

static bool fits_binary(const struct rq_frame_spec *spec)
{
    return spec->code >= INT16_MIN && spec->code <= INT16_MAX && spec->version >= INT16_MIN &&
           spec->version <= INT16_MAX && spec->remark.n <= HEADER_MAX;
}

/* Room for a usual header at once, so that a send grows its buffer one time. */
static size_t expected_size(const struct rq_frame_spec *spec)
{
    return 384 + spec->remark.n + (spec->table ? 24 * (size_t)spec->table->count : 0);
}

static rmq_status finish(struct rq_buf *out, size_t start, const struct rq_frame_spec *spec,
                         size_t body_len, rmq_error **err)
{
    rmq_status st = rq_buf_status(out);
    size_t size = out->len - start;
    if (st) {
        out->len = start;
        return rq_error_set(err, st, "header of request or answer %d: %s", (int)spec->code,
                            rmq_status_text(st));
    }
    if (body_len > RQ_FRAME_MAX || size + body_len > RQ_FRAME_MAX) {
        out->len = start;
        return rq_error_set(err, RMQ_ERR_TOO_LARGE, "frame of %zu bytes, the limit is %d",
                            size + body_len, RQ_FRAME_MAX);
    }
    char *frame = out->data + start;
    size_t header_len = size - RQ_FRAME_PREFIX;
    rq_store_be32(frame, (uint32_t)(4 + header_len + body_len));
    rq_store_be32(frame + 4, (uint32_t)spec->serialize << 24 | (uint32_t)header_len);
    if (spec->serialize == RQ_SERIALIZE_JSON) {
        put_opaque(frame + OPAQUE_JSON, spec->opaque);
    }
    return RMQ_OK;
}

rmq_status rq_frame_encode(struct rq_buf *out, const struct rq_frame_spec *spec, size_t body_len,
                           rmq_error **err)
{
    if (spec->serialize == RQ_SERIALIZE_BINARY && !fits_binary(spec)) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "code %d or version %d does not fit a binary header", (int)spec->code,
                            (int)spec->version);
    }
    size_t start = out->len;
    if (rq_buf_reserve(out, expected_size(spec))) {
        out->len += RQ_FRAME_PREFIX;
        if (spec->serialize == RQ_SERIALIZE_JSON) {
            add_json(out, spec);
        } else {
            add_binary(out, spec);
        }
    }
    return finish(out, start, spec, body_len, err);
}

void rq_frame_patch_opaque(char *frame, int32_t opaque)
{
    if (frame[4] == RQ_SERIALIZE_JSON) {
        put_opaque(frame + OPAQUE_JSON, opaque);
    } else {
        rq_store_be32(frame + OPAQUE_BINARY, (uint32_t)opaque);
    }
}

size_t rq_frame_header_size(const char *frame)
{
    return RQ_FRAME_PREFIX + (rq_load_be32(frame + 4) & HEADER_MAX);
}

rmq_status rq_frame_patch_body_len(char *frame, size_t body_len, rmq_error **err)
{
    size_t header = rq_frame_header_size(frame);
    if (body_len > RQ_FRAME_MAX || header + body_len > RQ_FRAME_MAX) {
        return rq_error_set(err, RMQ_ERR_TOO_LARGE, "frame of %zu bytes, the limit is %d",
                            header + body_len, RQ_FRAME_MAX);
    }
    rq_store_be32(frame, (uint32_t)(header - 4 + body_len));
    return RMQ_OK;
}
