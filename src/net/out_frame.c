/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Making and freeing of outgoing frames. Any thread; one owner at a time.
 */
#include "net/out_frame.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define HEAD_BYTES 512

struct rq_out *rq_out_create(size_t size_hint)
{
    size_t room = size_hint ? size_hint : HEAD_BYTES;
    if (room > RQ_FRAME_MAX) {
        return NULL;
    }
    /* One piece of memory: a frame seldom needs more than it was made for. */
    struct rq_out *out = rq_alloc(sizeof *out + room);
    if (out) {
        *out = (struct rq_out){.pieces = out->inline_pieces, .piece_cap = RQ_OUT_INLINE_PIECES};
        rq_buf_init_over(&out->head, (char *)(out + 1), room, RQ_FRAME_MAX);
    }
    return out;
}

static bool grow_pieces(struct rq_out *out)
{
    uint32_t cap = out->piece_cap * 4;
    bool is_inline = out->pieces == out->inline_pieces;
    struct rq_out_piece *pieces = rq_realloc(is_inline ? NULL : out->pieces, cap * sizeof *pieces);
    if (!pieces) {
        return false;
    }
    if (is_inline) {
        memcpy(pieces, out->inline_pieces, sizeof out->inline_pieces);
    }
    out->pieces = pieces;
    out->piece_cap = cap;
    return true;
}

rmq_status rq_out_add(struct rq_out *out, const void *p, size_t n, void (*release)(void *user),
                      void *user)
{
    if (out->piece_count == out->piece_cap && !grow_pieces(out)) {
        return RMQ_ERR_NOMEM;
    }
    out->pieces[out->piece_count++] =
        (struct rq_out_piece){.p = p, .n = n, .release = release, .user = user};
    out->body_bytes += n;
    return RMQ_OK;
}

rmq_status rq_out_encode(struct rq_out *out, const struct rq_frame_spec *spec, struct rq_slice body,
                         rmq_error **err)
{
    struct rq_frame_spec whole = *spec;
    whole.signed_body = body;
    rmq_status st = rq_frame_encode(&out->head, &whole, body.n, err);
    if (st != RMQ_OK) {
        return st;
    }
    rq_buf_add_slice(&out->head, body);
    st = rq_buf_status(&out->head);
    return st == RMQ_OK ? st : rq_error_set(err, st, "frame of %zu body bytes", body.n);
}

struct rq_out *rq_out_make(const struct rq_frame_spec *spec, struct rq_slice body)
{
    struct rq_out *out = rq_out_create(body.n + 2 * HEAD_BYTES);
    if (out && rq_out_encode(out, spec, body, NULL) != RMQ_OK) {
        rq_out_destroy(out);
        return NULL;
    }
    return out;
}

void rq_out_destroy(struct rq_out *out)
{
    if (!out) {
        return;
    }
    for (uint32_t i = 0; i < out->piece_count; i++) {
        if (out->pieces[i].release) {
            out->pieces[i].release(out->pieces[i].user);
        }
    }
    if (out->done) {
        out->done(out->done_user);
    }
    if (out->permit) {
        out->permit(out->permit_user);
    }
    if (out->pieces != out->inline_pieces) {
        rq_free(out->pieces);
    }
    rq_buf_free(&out->head);
    rq_free(out);
}
