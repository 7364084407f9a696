/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Body compression. zlib streams go through libdeflate where it is built in: the output size is not in the stream, so the buffer grows by
 * doubling up to the limit. LZ4 and zstd stream into a growing buffer of the same limit. Pure functions, any thread.
 */
#include "wire/compress.h"

#include <string.h>
#include <strings.h>

#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#ifdef RQ_HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "base/err.h"
#include "base/mem.h"
#include "wire/message.h"

/* Most memory that a zstd frame may ask for as its window: 32 MiB, above what any level uses for the largest message. */
#define WINDOW_LOG_MAX 25

rmq_status rq_compression_of_sys_flag(int32_t sys_flag, enum rq_compression *out, rmq_error **err)
{
    int type = (sys_flag >> 8) & 7;
    if (type > 3) {
        return rq_error_set(err, RMQ_ERR_UNSUPPORTED, "compression type %d of sysFlag 0x%x is unknown", type,
                            (unsigned)sys_flag);
    }
    *out = type == 0 ? RQ_COMPRESSION_ZLIB : (enum rq_compression)type;
    return RMQ_OK;
}

int32_t rq_compression_sys_flag(enum rq_compression type)
{
    return 1 | ((int32_t)type << 8);
}

bool rq_compression_find(struct rq_slice name, enum rq_compression *out)
{
    static const struct {
        const char *name;
        enum rq_compression type;
    } rows[] = {{"ZLIB", RQ_COMPRESSION_ZLIB}, {"LZ4", RQ_COMPRESSION_LZ4}, {"ZSTD", RQ_COMPRESSION_ZSTD}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (name.n == strlen(rows[i].name) && strncasecmp(name.p, rows[i].name, name.n) == 0) {
            *out = rows[i].type;
            return true;
        }
    }
    return false;
}

static size_t bound_of(enum rq_compression type, size_t n)
{
    switch (type) {
    case RQ_COMPRESSION_LZ4:
        return LZ4F_compressFrameBound(n, NULL);
    case RQ_COMPRESSION_ZSTD:
        return ZSTD_compressBound(n);
    case RQ_COMPRESSION_ZLIB:
        break;
    }
    return compressBound((uLong)n) + 64; /* libdeflate's bound is not above zlib's by more */
}

/* Bytes written to out, 0 on failure. */
static size_t deflate_zlib(int level, struct rq_slice in, char *out, size_t room)
{
    level = level < 0 || level > 9 ? RQ_COMPRESS_LEVEL_DEFAULT : level;
#ifdef RQ_HAVE_LIBDEFLATE
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(level);
    size_t n = c ? libdeflate_zlib_compress(c, in.p, in.n, out, room) : 0;
    libdeflate_free_compressor(c);
    return n;
#else
    uLongf n = (uLongf)room;
    return compress2((Bytef *)out, &n, (const Bytef *)in.p, (uLong)in.n, level) == Z_OK ? n : 0;
#endif
}

static size_t compress_into(enum rq_compression type, int level, struct rq_slice in, char *out, size_t room)
{
    size_t n = 0;
    switch (type) {
    case RQ_COMPRESSION_LZ4:
        n = LZ4F_compressFrame(out, room, in.p, in.n, NULL);
        return LZ4F_isError(n) ? 0 : n;
    case RQ_COMPRESSION_ZSTD:
        n = ZSTD_compress(out, room, in.p, in.n, level < 1 || level > 22 ? RQ_COMPRESS_LEVEL_DEFAULT : level);
        return ZSTD_isError(n) ? 0 : n;
    case RQ_COMPRESSION_ZLIB:
        break;
    }
    return deflate_zlib(level, in, out, room);
}

rmq_status rq_compress(enum rq_compression type, int level, struct rq_slice in, struct rq_buf *out,
                       rmq_error **err)
{
    size_t room = bound_of(type, in.n);
    if (!rq_buf_reserve(out, room)) {
        return rq_error_set(err, rq_buf_status(out), "compress %zu bytes: %s", in.n,
                            rmq_status_text(rq_buf_status(out)));
    }
    size_t n = compress_into(type, level, in, out->data + out->len, room);
    if (n == 0) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "compress %zu bytes: the compressor failed", in.n);
    }
    out->len += n;
    return RMQ_OK;
}

/* First guess of the output's size; it doubles from there. */
static size_t first_room(size_t n, size_t max_out)
{
    size_t room = n > SIZE_MAX / 8 ? max_out : n * 4 + 256;
    return room < max_out ? room : max_out;
}

enum step {
    STEP_DONE,
    STEP_MORE_ROOM,
    STEP_BAD,
    STEP_NOMEM
};

#ifdef RQ_HAVE_LIBDEFLATE
/* Starts anew at each size: the sizes double, so all tries together cost at most twice the last. */
static enum step inflate_zlib(const void *in, size_t n, char **out, size_t *len, size_t max_out)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    enum step step = d ? STEP_MORE_ROOM : STEP_NOMEM;
    for (size_t room = first_room(n, max_out); step == STEP_MORE_ROOM;) {
        char *grown = rq_realloc(*out, room + 1);
        if (!grown) {
            step = STEP_NOMEM;
            break;
        }
        *out = grown;
        size_t used = 0;
        enum libdeflate_result rc = libdeflate_zlib_decompress_ex(d, in, n, grown, room, &used, len);
        if (rc != LIBDEFLATE_INSUFFICIENT_SPACE) {
            step = rc == LIBDEFLATE_SUCCESS ? STEP_DONE : STEP_BAD;
        } else if (room == max_out) {
            break;
        } else {
            room = room > max_out / 2 ? max_out : room * 2;
        }
    }
    libdeflate_free_decompressor(d);
    return step;
}
#endif

/* A streaming decompressor: takes from *in, gives to out, says what it wants next. */
struct stream {
    enum rq_compression type;
    z_stream z;
    LZ4F_dctx *lz4;
    ZSTD_DStream *zstd;
};

static bool stream_open(struct stream *s, enum rq_compression type)
{
    *s = (struct stream){.type = type};
    switch (type) {
    case RQ_COMPRESSION_LZ4:
        return !LZ4F_isError(LZ4F_createDecompressionContext(&s->lz4, LZ4F_VERSION));
    case RQ_COMPRESSION_ZSTD:
        s->zstd = ZSTD_createDStream();
        return s->zstd &&
               !ZSTD_isError(ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX));
    case RQ_COMPRESSION_ZLIB:
        break;
    }
    return inflateInit(&s->z) == Z_OK;
}

static void stream_close(struct stream *s)
{
    switch (s->type) {
    case RQ_COMPRESSION_LZ4:
        LZ4F_freeDecompressionContext(s->lz4);
        break;
    case RQ_COMPRESSION_ZSTD:
        ZSTD_freeDStream(s->zstd);
        break;
    case RQ_COMPRESSION_ZLIB:
        inflateEnd(&s->z);
        break;
    }
}

static enum step lz4_step(struct stream *s, struct rq_slice *in, char *out, size_t *room)
{
    size_t used = in->n;
    size_t rc = LZ4F_decompress(s->lz4, out, room, in->p, &used, NULL);
    *in = rq_slice(in->p + used, in->n - used);
    if (LZ4F_isError(rc)) {
        return STEP_BAD;
    }
    return rc == 0 ? STEP_DONE : in->n == 0 && *room == 0 ? STEP_BAD : STEP_MORE_ROOM;
}

static enum step zstd_step(struct stream *s, struct rq_slice *in, char *out, size_t *room)
{
    ZSTD_inBuffer src = {.src = in->p, .size = in->n};
    ZSTD_outBuffer dst = {.dst = out, .size = *room};
    size_t rc = ZSTD_decompressStream(s->zstd, &dst, &src);
    *in = rq_slice(in->p + src.pos, in->n - src.pos);
    bool full = dst.pos == dst.size;
    *room = dst.pos;
    if (ZSTD_isError(rc)) {
        return STEP_BAD;
    }
    return rc == 0 ? STEP_DONE : in->n == 0 && !full ? STEP_BAD : STEP_MORE_ROOM;
}

static enum step zlib_step(struct stream *s, struct rq_slice *in, char *out, size_t *room)
{
    union {
        const char *in;
        Bytef *out;
    } cast = {.in = in->p};
    uInt most = in->n > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)in->n;
    s->z.next_in = cast.out;
    s->z.avail_in = most;
    s->z.next_out = (Bytef *)out;
    s->z.avail_out = *room > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)*room;
    uInt given = s->z.avail_out;
    int rc = inflate(&s->z, Z_NO_FLUSH);
    size_t used = most - s->z.avail_in;
    *in = rq_slice(in->p + used, in->n - used);
    *room = given - s->z.avail_out;
    if (rc == Z_STREAM_END) {
        return STEP_DONE;
    }
    bool stuck = rc == Z_OK && in->n == 0 && s->z.avail_out > 0;
    return stuck || (rc != Z_OK && rc != Z_BUF_ERROR) || (rc == Z_BUF_ERROR && s->z.avail_out > 0)
               ? STEP_BAD
               : STEP_MORE_ROOM;
}

static enum step stream_step(struct stream *s, struct rq_slice *in, char *out, size_t *room)
{
    switch (s->type) {
    case RQ_COMPRESSION_LZ4:
        return lz4_step(s, in, out, room);
    case RQ_COMPRESSION_ZSTD:
        return zstd_step(s, in, out, room);
    case RQ_COMPRESSION_ZLIB:
        break;
    }
    return zlib_step(s, in, out, room);
}

/* One byte beyond the limit is asked for, which tells "just at the limit" from "more". */
static enum step inflate_stream(enum rq_compression type, struct rq_slice in, char **out, size_t *len,
                                size_t max_out)
{
    struct stream s;
    if (!stream_open(&s, type)) {
        return STEP_NOMEM;
    }
    enum step step = STEP_MORE_ROOM;
    size_t cap = 0;
    while (step == STEP_MORE_ROOM && *len <= max_out) {
        if (*len == cap) {
            size_t most = max_out + 1;
            cap = cap == 0 ? first_room(in.n, most) : cap > most / 2 ? most : cap * 2;
            char *grown = rq_realloc(*out, cap + 1);
            if (!grown) {
                step = STEP_NOMEM;
                break;
            }
            *out = grown;
        }
        size_t room = cap - *len;
        step = stream_step(&s, &in, *out + *len, &room);
        *len += room;
    }
    stream_close(&s);
    return step == STEP_DONE && *len > max_out ? STEP_MORE_ROOM : step;
}

rmq_status rq_decompress(enum rq_compression type, const void *in, size_t n, size_t max_out, char **out,
                         size_t *out_len, rmq_error **err)
{
    char *made = NULL;
    size_t len = 0;
    enum step step = STEP_BAD;
    max_out = max_out < SIZE_MAX / 4 ? max_out : SIZE_MAX / 4;
#ifdef RQ_HAVE_LIBDEFLATE
    if (type == RQ_COMPRESSION_ZLIB) {
        step = inflate_zlib(in, n, &made, &len, max_out);
    } else
#endif
    {
        step = inflate_stream(type, rq_slice(in, n), &made, &len, max_out);
    }
    if (step == STEP_DONE) {
        made[len] = '\0';
        *out = made;
        *out_len = len;
        return RMQ_OK;
    }
    rq_free(made);
    *out = NULL;
    *out_len = 0;
    if (step == STEP_MORE_ROOM) {
        return rq_error_set(err, RMQ_ERR_TOO_LARGE, "body of %zu compressed bytes expands beyond %zu bytes", n,
                            max_out);
    }
    if (step == STEP_NOMEM) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "decompress %zu bytes: out of memory", n);
    }
    return rq_error_set(err, RMQ_ERR_PROTOCOL, "body of %zu compressed bytes is damaged", n);
}
