/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * CRC-32 and zlib streams with zlib itself and with libdeflate: the measurement behind the choice
 * in docs/dependencies.md.
 */
#include <libdeflate.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

enum { CRC_BYTES = 200000000, INFLATE_BYTES = 25000000, DEFLATE_BYTES = 5000000, LEVEL = 5 };

struct bench {
    unsigned char *plain, *packed, *back;
    size_t size, packed_size, room;
    struct libdeflate_compressor *compressor;
    struct libdeflate_decompressor *decompressor;
    volatile unsigned long sink;
};

static void zlib_crc(struct bench *b)
{
    b->sink += crc32(0, b->plain, (uInt)b->size);
}

static void deflate_crc(struct bench *b)
{
    b->sink += libdeflate_crc32(0, b->plain, b->size);
}

static void zlib_pack(struct bench *b)
{
    uLongf size = b->room;
    compress2(b->packed, &size, b->plain, b->size, LEVEL);
    b->packed_size = size;
}

static void deflate_pack(struct bench *b)
{
    b->packed_size = libdeflate_zlib_compress(b->compressor, b->plain, b->size, b->packed, b->room);
}

static void zlib_unpack(struct bench *b)
{
    uLongf size = b->size;
    uncompress(b->back, &size, b->packed, b->packed_size);
}

static void deflate_unpack(struct bench *b)
{
    size_t size = 0;
    libdeflate_zlib_decompress(b->decompressor, b->packed, b->packed_size, b->back, b->size, &size);
}

static double mb_per_s(void (*work)(struct bench *), struct bench *b, size_t bytes)
{
    struct timespec begin;
    struct timespec end;
    size_t rounds = bytes / b->size;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (size_t i = 0; i < rounds; i++) {
        work(b);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double s = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    return (double)(rounds * b->size) / s / 1e6;
}

/* Text-like: words with repeats. */
static void fill(unsigned char *p, size_t n)
{
    static const char letters[] = "order paid {\"id\":0123456789} customer ";
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525U + 1013904223U;
        p[i] = (unsigned char)letters[(state >> 24) % (sizeof letters - 1)];
    }
    for (size_t i = 128; i + 64 < n; i += 128) {
        memcpy(p + i, p, 64);
    }
}

static void run(size_t size)
{
    struct bench b = {.size = size, .room = size * 2 + 1000};
    b.plain = malloc(size);
    b.packed = malloc(b.room);
    b.back = malloc(size);
    b.compressor = libdeflate_alloc_compressor(LEVEL);
    b.decompressor = libdeflate_alloc_decompressor();
    fill(b.plain, size);
    printf("%7zu bytes, MB/s zlib -> libdeflate:  crc32 %.0f -> %.0f", size,
           mb_per_s(zlib_crc, &b, CRC_BYTES), mb_per_s(deflate_crc, &b, CRC_BYTES));
    double zlib_speed = mb_per_s(zlib_pack, &b, DEFLATE_BYTES);
    size_t zlib_size = b.packed_size;
    double unpack = mb_per_s(zlib_unpack, &b, INFLATE_BYTES);
    double fast_unpack = mb_per_s(deflate_unpack, &b, INFLATE_BYTES);
    double speed = mb_per_s(deflate_pack, &b, DEFLATE_BYTES);
    printf(",  inflate %.0f -> %.0f,  deflate %.0f -> %.0f (%zu -> %zu bytes)\n", unpack,
           fast_unpack, zlib_speed, speed, zlib_size, b.packed_size);
    libdeflate_free_compressor(b.compressor);
    libdeflate_free_decompressor(b.decompressor);
    free(b.plain);
    free(b.packed);
    free(b.back);
}

int main(void)
{
    run(1024);
    run(16384);
    run(262144);
    return 0;
}
