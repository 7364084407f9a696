/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Unique ids (see the header). What is constant in a process, prefix and clock base, is made once and published by one atomic pointer; the
 * monotonic clock moves the time on, so a wall clock that is set back gives no id twice.
 */
#include "client/unique_id.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/fork_mark.h"
#include "client/local_addr.h"

struct origin {
    uint64_t mark;
    int64_t wall_minus_mono_ms;
    size_t prefix_len;
    char prefix[44]; /* hex of address, pid, process number */
};

static _Atomic(struct origin *) current_origin;
static atomic_uint_fast32_t counter;
static _Atomic int64_t month_start_ms; /* atomic: relaxed: threads that race compute the same value */
static _Atomic int64_t month_end_ms;   /* atomic: released after month_start_ms */

static const char hex_digits[] = "0123456789ABCDEF";

static char *put_hex(char *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *out++ = hex_digits[bytes[i] >> 4];
        *out++ = hex_digits[bytes[i] & 15];
    }
    return out;
}

static void fill_origin(struct origin *origin)
{
    uint8_t bytes[22];
    size_t n = rq_local_addr_bytes(bytes);
    rq_store_be16(bytes + n, (uint16_t)getpid());
    if (getrandom(bytes + n + 2, 4, GRND_NONBLOCK) != 4) {
        rq_store_be32(bytes + n + 2, (uint32_t)rq_mono_us());
    }
    n += 6;
    origin->prefix_len = (size_t)(put_hex(origin->prefix, bytes, n) - origin->prefix);
    origin->mark = rq_fork_mark();
    origin->wall_minus_mono_ms = rq_wall_ms() - rq_mono_ms();
}

/* Out of memory: the id is made from an origin on the stack; its random number keeps it unique. */
static const struct origin *find_origin(struct origin *spare)
{
    struct origin *origin = atomic_load_explicit(&current_origin, memory_order_acquire);
    if (origin && !rq_forked_since(origin->mark)) {
        return origin;
    }
    struct origin *made = rq_alloc(sizeof *made);
    if (!made) {
        fill_origin(spare);
        return spare;
    }
    fill_origin(made);
    if (!atomic_compare_exchange_strong_explicit(&current_origin, &origin, made,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        rq_free(made);
        return origin;
    }
    return made;
}

static int64_t local_month(int64_t now_ms, int months_on)
{
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm tm;
    if (!localtime_r(&seconds, &tm)) {
        return 0;
    }
    struct tm first = {.tm_year = tm.tm_year, .tm_mon = tm.tm_mon + months_on, .tm_mday = 1, .tm_isdst = -1};
    return (int64_t)mktime(&first) * 1000;
}

static uint32_t ms_of_month(int64_t now_ms)
{
    if (now_ms >= atomic_load_explicit(&month_end_ms, memory_order_acquire)) {
        atomic_store_explicit(&month_start_ms, local_month(now_ms, 0), memory_order_relaxed);
        atomic_store_explicit(&month_end_ms, local_month(now_ms, 1), memory_order_release);
    }
    return (uint32_t)(now_ms - atomic_load_explicit(&month_start_ms, memory_order_relaxed));
}

size_t rq_unique_id(char out[RQ_UNIQUE_ID_MAX + 1])
{
    struct origin spare;
    const struct origin *origin = find_origin(&spare);
    uint8_t tail[6];
    uint32_t ms = ms_of_month(rq_mono_ms() + origin->wall_minus_mono_ms);
    uint32_t n = (uint32_t)atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
    rq_store_be32(tail, ms);
    rq_store_be16(tail + 4, (uint16_t)n);
    memcpy(out, origin->prefix, origin->prefix_len);
    char *end = put_hex(out + origin->prefix_len, tail, sizeof tail);
    *end = '\0';
    return (size_t)(end - out);
}
