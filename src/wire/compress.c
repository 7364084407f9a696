/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Compression of message bodies. The plain size is not known, or not to be trusted: zlib and zstd
 * are tried with a guess that grows up to the bound, LZ4 streams into a buffer that does. Called by
 * producers, consumers and the name server. Counterparts: ZlibCompressor, Lz4Compressor,
 * ZstdCompressor.
 *
 * zlib streams are done by libdeflate: tests/bench/codec_bench.c measures it beside zlib. Making its
 * compressor for each body costs 3 of 23 µs at 4 KiB, so none is kept. Trying with eight times the
 * compressed size, then four times more, meets most bodies at once.
 */
#include "wire/compress.h"

#include <string.h>
#include <strings.h>

#include <libdeflate.h>
#include <lz4frame.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/err.h"
#include "base/mem.h"
#include "wire/message.h"

#define FIRST_GUESS 8 /* times the compressed size: most bodies fit at once */
#define LEAST_GUESS 256
#define GROWTH      4

/* ---- names and flags ---- */

static const char *const names[] = {
    [RQ_COMPRESSION_LZ4] = "LZ4", [RQ_COMPRESSION_ZSTD] = "ZSTD", [RQ_COMPRESSION_ZLIB] = "ZLIB"};

rmq_status rq_compression_of_sys_flag(int32_t sys_flag, enum rq_compression *out, rmq_error **err)
{
    int type = (sys_flag & RQ_SYS_COMPRESSION_MASK) >> RQ_SYS_COMPRESSION_SHIFT;
    if (type > RQ_COMPRESSION_ZLIB) {
        return rq_error_set(err, RMQ_ERR_UNSUPPORTED, "compression type %d is unknown", type);
    }
    *out = type == 0 ? RQ_COMPRESSION_ZLIB : (enum rq_compression)type;
    return RMQ_OK;
}

int32_t rq_compression_sys_flag(enum rq_compression type)
{
    return RQ_SYS_COMPRESSED | (int32_t)type << RQ_SYS_COMPRESSION_SHIFT;
}

/* ---- compressing ---- */

static int clamp(int level, int least, int most)
{
    return level < least ? least : level > most ? most : level;
}

static size_t zlib_bound(size_t n)
{
    return libdeflate_zlib_compress_bound(NULL, n);
}

/* Each returns the bytes written to out, or 0 when out of memory. */
static size_t zlib_write(int level, struct rq_slice in, char *out, size_t room)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(clamp(level, 0, 9));
    size_t n = c ? libdeflate_zlib_compress(c, in.p, in.n, out, room) : 0;
    libdeflate_free_compressor(c);
    return n;
}

/* Java reads frames of independent blocks only. */
static const LZ4F_preferences_t lz4_preferences = {
    .frameInfo = {.blockSizeID = LZ4F_max4MB, .blockMode = LZ4F_blockIndependent}};

static size_t bound(enum rq_compression type, size_t n)
{
    return type == RQ_COMPRESSION_LZ4    ? LZ4F_compressFrameBound(n, &lz4_preferences)
           : type == RQ_COMPRESSION_ZSTD ? ZSTD_compressBound(n)
                                         : zlib_bound(n);
}

static size_t write_compressed(enum rq_compression type, int level, struct rq_slice in, char *out,
                               size_t room)
{
    size_t n;
    switch (type) {
    case RQ_COMPRESSION_LZ4:
        n = LZ4F_compressFrame(out, room, in.p, in.n, &lz4_preferences);
        return LZ4F_isError(n) ? 0 : n;
    case RQ_COMPRESSION_ZSTD:
        n = ZSTD_compress(out, room, in.p, in.n, clamp(level, 1, ZSTD_maxCLevel()));
        return ZSTD_isError(n) ? 0 : n;
    case RQ_COMPRESSION_ZLIB:
    default:
        return zlib_write(level, in, out, room);
    }
}

rmq_status rq_compress(enum rq_compression type, int level, struct rq_slice in, struct rq_buf *out,
                       rmq_error **err)
{
    if (!in.p) {
        in.p = "";
    }
    size_t room = bound(type, in.n);
    if (!rq_buf_reserve(out, room)) {
        return rq_error_set(err, rq_buf_status(out), "room for %zu compressed bytes: %s", room,
                            rmq_status_text(rq_buf_status(out)));
    }
    size_t n = write_compressed(type, level, in, out->data + out->len, room);
    if (n == 0) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory to compress %zu bytes", in.n);
    }
    out->len += n;
    return RMQ_OK;
}

/* ---- expanding ---- */

/* Output that grows up to max; one byte more is always there for the NUL. */
struct room {
    char *p;
    size_t cap;
    size_t len;
    size_t max;
};

static rmq_status room_grow(struct room *room, size_t cap, rmq_error **err)
{
    if (room->cap == room->max && room->p) {
        return rq_error_set(err, RMQ_ERR_TOO_LARGE, "body expands to more than %zu bytes",
                            room->max);
    }
    cap = cap > room->max ? room->max : cap;
    char *p = rq_realloc(room->p, cap + 1);
    if (!p) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory to expand a body to %zu bytes", cap);
    }
    room->p = p;
    room->cap = cap;
    return RMQ_OK;
}

static rmq_status damaged(enum rq_compression type, size_t n, rmq_error **err)
{
    return rq_error_set(err, RMQ_ERR_PROTOCOL, "%s body of %zu bytes is damaged", names[type], n);
}

/* What one attempt at expanding into the whole room gave. */
enum attempt { ATTEMPT_DONE, ATTEMPT_NO_ROOM, ATTEMPT_DAMAGED, ATTEMPT_NOMEM };

static enum attempt zlib_attempt(const void *in, size_t n, struct room *room)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    if (!d) {
        return ATTEMPT_NOMEM;
    }
    size_t used;
    enum libdeflate_result result =
        libdeflate_zlib_decompress_ex(d, in, n, room->p, room->cap, &used, &room->len);
    libdeflate_free_decompressor(d);
    return result == LIBDEFLATE_SUCCESS              ? ATTEMPT_DONE
           : result == LIBDEFLATE_INSUFFICIENT_SPACE ? ATTEMPT_NO_ROOM
                                                     : ATTEMPT_DAMAGED;
}

/* In one go: the output is then the decoder's window, whatever window size the frame asks for. */
static enum attempt zstd_attempt(const void *in, size_t n, struct room *room)
{
    size_t result = ZSTD_decompress(room->p, room->cap, in, n);
    if (!ZSTD_isError(result)) {
        room->len = result;
        return ATTEMPT_DONE;
    }
    ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
    return code == ZSTD_error_dstSize_tooSmall    ? ATTEMPT_NO_ROOM
           : code == ZSTD_error_memory_allocation ? ATTEMPT_NOMEM
                                                  : ATTEMPT_DAMAGED;
}

static rmq_status expand_by_attempts(enum rq_compression type, const void *in, size_t n,
                                     struct room *room, rmq_error **err)
{
    for (;;) {
        enum attempt attempt =
            type == RQ_COMPRESSION_ZSTD ? zstd_attempt(in, n, room) : zlib_attempt(in, n, room);
        if (attempt == ATTEMPT_DONE) {
            return RMQ_OK;
        }
        if (attempt == ATTEMPT_DAMAGED) {
            return damaged(type, n, err);
        }
        if (attempt == ATTEMPT_NOMEM) {
            return rq_error_set(err, RMQ_ERR_NOMEM, "no memory to expand a body of %zu bytes", n);
        }
        rmq_status st = room_grow(room, room->cap * GROWTH, err);
        if (st) {
            return st;
        }
    }
}

/* Frames one behind the other, as Java reads them. */
static rmq_status expand_lz4_with(LZ4F_dctx *context, const char *in, size_t n, struct room *room,
                                  rmq_error **err)
{
    size_t hint = 1; /* 0 = a frame has ended */
    for (size_t at = 0; at < n || hint;) {
        size_t in_len = n - at;
        size_t out_len = room->cap - room->len;
        hint = LZ4F_decompress(context, room->p + room->len, &out_len, in + at, &in_len, NULL);
        if (LZ4F_isError(hint)) {
            return damaged(RQ_COMPRESSION_LZ4, n, err);
        }
        at += in_len;
        room->len += out_len;
        if (hint && room->len == room->cap) {
            rmq_status st = room_grow(room, room->cap * GROWTH, err);
            if (st) {
                return st;
            }
        } else if (in_len == 0 && out_len == 0 && hint) {
            return damaged(RQ_COMPRESSION_LZ4, n, err); /* input ends within a frame */
        }
    }
    return RMQ_OK;
}

static rmq_status expand_lz4(const void *in, size_t n, struct room *room, rmq_error **err)
{
    LZ4F_dctx *context = NULL;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory to expand a body of %zu bytes", n);
    }
    rmq_status st = expand_lz4_with(context, in, n, room, err);
    LZ4F_freeDecompressionContext(context);
    return st;
}

static size_t first_guess(enum rq_compression type, const void *in, size_t n)
{
    if (type == RQ_COMPRESSION_ZSTD) {
        unsigned long long named = ZSTD_getFrameContentSize(in, n);
        if (named != ZSTD_CONTENTSIZE_UNKNOWN && named != ZSTD_CONTENTSIZE_ERROR) {
            return named < LEAST_GUESS ? LEAST_GUESS : (size_t)named;
        }
    }
    return n < LEAST_GUESS / FIRST_GUESS ? LEAST_GUESS : n * FIRST_GUESS;
}

rmq_status rq_decompress(enum rq_compression type, const void *in, size_t n, size_t max_out,
                         char **out, size_t *out_len, rmq_error **err)
{
    struct room room = {.max = max_out};
    *out = NULL;
    *out_len = 0;
    if (n == 0) {
        return damaged(type, n, err);
    }
    rmq_status st = room_grow(&room, first_guess(type, in, n), err);
    if (st == RMQ_OK) {
        st = type == RQ_COMPRESSION_LZ4 ? expand_lz4(in, n, &room, err)
                                        : expand_by_attempts(type, in, n, &room, err);
    }
    if (st) {
        rq_free(room.p);
        return st;
    }
    room.p[room.len] = '\0';
    *out = room.p;
    *out_len = room.len;
    return RMQ_OK;
}
