/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Windows of done messages (see the header): a bitmap that grows at its end and is shifted at its
 * beginning. */
#include "broker/window.h"

#include <string.h>

#include "base/mem.h"

#define WINDOW_BYTES     ((size_t)64)
#define WINDOW_MAX_BYTES ((size_t)64 << 20) /* 512 million messages */

bool rq_window_init(struct rq_window *window, int64_t base)
{
    *window = (struct rq_window){.base = base, .bytes = WINDOW_BYTES};
    window->bits = rq_calloc(1, window->bytes);
    return window->bits != NULL;
}

void rq_window_free(struct rq_window *window)
{
    rq_free(window->bits);
    window->bits = NULL;
}

bool rq_window_has(const struct rq_window *window, int64_t offset)
{
    if (offset < window->base) {
        return true;
    }
    uint64_t bit = (uint64_t)(offset - window->base);
    return bit / 8 < window->bytes && (window->bits[bit / 8] >> (bit % 8) & 1) != 0;
}

static bool grow(struct rq_window *window, size_t need)
{
    size_t bytes = window->bytes;
    while (bytes < need) {
        bytes *= 2;
    }
    uint8_t *bits = bytes <= WINDOW_MAX_BYTES ? rq_realloc(window->bits, bytes) : NULL;
    if (!bits) {
        return false;
    }
    memset(bits + window->bytes, 0, bytes - window->bytes);
    window->bits = bits;
    window->bytes = bytes;
    return true;
}

bool rq_window_mark(struct rq_window *window, int64_t offset)
{
    if (offset < window->base) {
        return true;
    }
    uint64_t bit = (uint64_t)(offset - window->base);
    if (bit / 8 >= WINDOW_MAX_BYTES ||
        (bit / 8 >= window->bytes && !grow(window, (size_t)(bit / 8) + 1))) {
        return false;
    }
    window->bits[bit / 8] |= (uint8_t)(1u << (bit % 8));
    return true;
}

size_t rq_window_used(const struct rq_window *window)
{
    size_t used = window->bytes;
    while (used > 0 && window->bits[used - 1] == 0) {
        used--;
    }
    return used;
}

static void shift(struct rq_window *window, int64_t base)
{
    uint64_t by = (uint64_t)(base - window->base);
    size_t skip = by / 8 < window->bytes ? (size_t)(by / 8) : window->bytes;
    unsigned bits = (unsigned)(by % 8);
    for (size_t i = 0; i < window->bytes; i++) {
        unsigned low = i + skip < window->bytes ? window->bits[i + skip] : 0;
        unsigned high = i + skip + 1 < window->bytes ? window->bits[i + skip + 1] : 0;
        window->bits[i] = (uint8_t)((low | high << 8) >> bits);
    }
    window->base = base;
}

void rq_window_advance(struct rq_window *window, int64_t min, int64_t end)
{
    int64_t base = window->base < min ? min : window->base;
    while (base < end && rq_window_has(window, base)) {
        base++;
    }
    if (base != window->base) {
        shift(window, base);
    }
}
