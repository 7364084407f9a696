/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * MD5 after RFC 1321. Own code because base may not include OpenSSL, and the one user (consistent
 * hashing of queues) hashes a few short texts per rebalance. Any thread.
 */
#include "base/md5.h"

#include <string.h>

#define BLOCK 64

/* Integer part of |sin(i + 1)| * 2^32. */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static const uint8_t turns[4][4] = {
    {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

static uint32_t load_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void store_le32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
}

static void mix_block(uint32_t state[4], const uint8_t *block)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (unsigned i = 0; i < 64; i++) {
        unsigned round = i / 16;
        uint32_t f = round == 0   ? (b & c) | (~b & d)
                     : round == 1 ? (d & b) | (~d & c)
                     : round == 2 ? b ^ c ^ d
                                  : c ^ (b | ~d);
        unsigned word = round == 0 ? i : round == 1 ? 5 * i + 1 : round == 2 ? 3 * i + 5 : 7 * i;
        uint32_t sum = a + f + sines[i] + load_le32(block + 4 * (word % 16));
        unsigned turn = turns[round][i % 4];
        a = d;
        d = c;
        c = b;
        b += sum << turn | sum >> (32 - turn);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

void rq_md5(const void *p, size_t n, uint8_t out[RQ_MD5_SIZE])
{
    const uint8_t *bytes = p;
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    size_t left = n;
    for (; left >= BLOCK; left -= BLOCK, bytes += BLOCK) {
        mix_block(state, bytes);
    }
    uint8_t tail[2 * BLOCK] = {0};
    if (left > 0) {
        memcpy(tail, bytes, left);
    }
    tail[left] = 0x80;
    size_t size = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    uint64_t bits = (uint64_t)n * 8;
    store_le32(tail + size - 8, (uint32_t)bits);
    store_le32(tail + size - 4, (uint32_t)(bits >> 32));
    mix_block(state, tail);
    if (size > BLOCK) {
        mix_block(state, tail + BLOCK);
    }
    for (int i = 0; i < 4; i++) {
        store_le32(out + 4 * i, state[i]);
    }
}
