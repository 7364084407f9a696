/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * An outgoing frame: length, header and small bodies in memory of its own, then pieces of body that
 * are referenced and not copied (a program's buffer, a mapped file), each with a function that is
 * called when the bytes are no longer needed. Made by any thread, given away with rq_conn_send,
 * rq_call_start or rq_peer_*; freed by whoever wrote it.
 */
#ifndef RQ_NET_OUT_FRAME_H
#define RQ_NET_OUT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/mpsc.h"
#include "base/slice.h"
#include "wire/frame.h"

#define RQ_OUT_INLINE_PIECES 2

struct rq_out_piece {
    const char *p;
    size_t n;
    /* May be NULL; called once, on any thread, without a lock of ours; must not block. */
    void (*release)(void *user);
    void *user;
};

struct rq_out {
    struct rq_mpsc_node node; /* owned by the connection after sending */
    struct rq_buf head; /* the maker writes prefix, header and copied body here (rq_frame_encode) */
    struct rq_out_piece inline_pieces[RQ_OUT_INLINE_PIECES];
    struct rq_out_piece *pieces; /* inline_pieces, or memory of its own when there are more */
    uint32_t piece_count;
    uint32_t piece_cap;
    size_t body_bytes; /* in pieces */
    int32_t opaque;    /* of a call, set by rq_call_start */
    bool is_call;
    /* Set by the maker: more will follow, so the loop shall write, which takes many at once. */
    bool lazy;
    /* May be NULL: called once when the frame was written or dropped, as piece release. */
    void (*done)(void *user);
    void *done_user;
    void (*permit)(void *user); /* private: returns a one-way permit */
    void *permit_user;
};

/* A frame with room for size_hint bytes of head (0 = 512). NULL when out of memory. */
struct rq_out *rq_out_create(size_t size_hint);

/* Adds body bytes by reference. On failure (out of memory) release is not called. */
rmq_status rq_out_add(struct rq_out *out, const void *p, size_t n, void (*release)(void *user),
                      void *user);

/* Encodes prefix and header into head and appends the body, copied. Bodies by reference:
 * rq_frame_encode into head with the body's length, then rq_out_add. Errors of rq_frame_encode. */
rmq_status rq_out_encode(struct rq_out *out, const struct rq_frame_spec *spec, struct rq_slice body,
                         rmq_error **err);

/* A frame of its own with all of that. NULL when it cannot be made: out of memory, or too large. */
struct rq_out *rq_out_make(const struct rq_frame_spec *spec, struct rq_slice body);

/* Frees the frame and releases its pieces. NULL is accepted. */
void rq_out_destroy(struct rq_out *out);

static inline size_t rq_out_size(const struct rq_out *out)
{
    return out->head.len + out->body_bytes;
}

#endif
