/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Unique ids (see the header). What is constant for a month, prefix and clock base, is made once
 * and published by one atomic pointer; the monotonic clock moves the time on, so a wall clock that
 * is set back gives no id twice.
 */
#include "client/unique_id.h"

#include <sched.h>
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
#include "wire/msgid.h"

#define MONTH_MS             ((int64_t)28 * 86400000)
#define COUNTER_BITS         16
#define TAIL_BYTES           6                        /* behind the prefix: time 4, counter 2 */
#define LONGER_THAN_MONTH_MS ((int64_t)35 * 86400000) /* lies in the next month, and only there */

struct origin {
    uint64_t mark;
    int64_t wall_minus_mono_ms;
    int64_t month_start_ms;
    int64_t month_end_ms; /* then a new origin is made */
    size_t prefix_len;
    char prefix[44]; /* hex of address, pid, process number */
};

/* Origins are never freed while the process runs: another thread may be reading one. There is one a
 * month. */
static _Atomic(struct origin *) current_origin;
static _Atomic uint64_t
    /* atomic: fork mark of the process in which a thread makes an origin, 0 = nobody */
    current_maker;
static _Atomic uint64_t last_moment; /* atomic: see next_moment */

/* Start of the month that now_ms lies in, local time; 0 when libc cannot compute it. Not by mktime:
 * it reads the zone anew each time, and frees the old one behind a lock that the thread sanitizer
 * cannot see. */
static int64_t local_month(int64_t now_ms)
{
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm now;
    if (!localtime_r(&seconds, &now)) {
        return 0;
    }
    seconds -= (now.tm_mday - 1) * 86400 + now.tm_hour * 3600 + now.tm_min * 60 + now.tm_sec;
    struct tm first;
    if (!localtime_r(&seconds, &first)) {
        return 0;
    }
    seconds += now.tm_gmtoff - first.tm_gmtoff; /* summer time began or ended meanwhile */
    return (int64_t)seconds * 1000;
}

/* old: of the same process in the month before, or NULL. */
static void fill_origin(struct origin *origin, const struct origin *old)
{
    if (old) {
        *origin = *old;
    } else {
        uint8_t bytes[22];
        size_t n = rq_local_addr_bytes(bytes);
        rq_store_be16(bytes + n, (uint16_t)getpid());
        if (getrandom(bytes + n + 2, 4, GRND_NONBLOCK) != 4) {
            rq_store_be32(bytes + n + 2, (uint32_t)rq_mono_us());
        }
        n += 6;
        rq_hex_upper(bytes, n, origin->prefix);
        origin->prefix_len = 2 * n;
        origin->mark = rq_fork_mark();
        origin->wall_minus_mono_ms = rq_wall_ms() - rq_mono_ms();
    }
    int64_t now = rq_mono_ms() + origin->wall_minus_mono_ms;
    origin->month_start_ms = local_month(now);
    int64_t end = local_month(origin->month_start_ms + LONGER_THAN_MONTH_MS);
    /* Else libc cannot compute this calendar. */
    origin->month_end_ms = end > now ? end : now + MONTH_MS;
}

static bool is_current(const struct origin *origin, int64_t mono_ms)
{
    return origin && !rq_forked_since(origin->mark) &&
           mono_ms + origin->wall_minus_mono_ms < origin->month_end_ms;
}

/* One thread makes it, the others wait: libc's time zone is set up by one at a time. A maker that
 * was left behind by fork does not count. */
static void lock_making(void)
{
    uint64_t mark = rq_fork_mark();
    uint64_t seen = 0;
    while (!atomic_compare_exchange_weak_explicit(&current_maker, &seen, mark, memory_order_acquire,
                                                  memory_order_relaxed)) {
        if (seen == mark) {
            seen = 0;
            (void)sched_yield();
        }
    }
}

/* Out of memory: the id is made from an origin on the stack; its random number keeps it unique. */
static const struct origin *make_origin(struct origin *spare, int64_t mono_ms)
{
    lock_making();
    struct origin *origin = atomic_load_explicit(&current_origin, memory_order_acquire);
    if (!is_current(origin, mono_ms)) {
        bool same = origin && !rq_forked_since(origin->mark);
        struct origin *made = rq_alloc(sizeof *made);
        fill_origin(made ? made : spare, same ? origin : NULL);
        if (made) {
            atomic_store_explicit(&current_origin, made, memory_order_release);
        }
        origin = made ? made : spare;
    }
    atomic_store_explicit(&current_maker, 0, memory_order_release);
    return origin;
}

/*
 * The time of an id, in ms of the monotonic clock, and in the low 16 bits the counter, which goes
 * on: later than any before, so no two are equal. Who comes with an old time, since it had to wait
 * for a processor, gets the time of the last one, and a counter that runs over takes the time on by
 * a ms. The count - 1 moments that follow are the caller's, too.
 */
static uint64_t next_moment(int64_t mono_ms, size_t count)
{
    uint64_t now = (uint64_t)mono_ms << COUNTER_BITS;
    uint64_t before = atomic_load_explicit(&last_moment, memory_order_relaxed);
    uint64_t first;
    do {
        first = before < now ? now | (uint16_t)(before + 1) : before + 1;
    } while (!atomic_compare_exchange_weak_explicit(&last_moment, &before, first + count - 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return first;
}

/* The part of the text that time makes. */
static void write_time(struct rq_unique_ids *ids)
{
    uint8_t time[4];
    rq_store_be32(time, (uint32_t)((int64_t)(ids->moment >> COUNTER_BITS) + ids->offset_ms));
    rq_hex_upper(time, sizeof time, ids->text + ids->prefix_len);
}

void rq_unique_ids_take(struct rq_unique_ids *ids, int64_t mono_ms, size_t count)
{
    struct origin spare;
    const struct origin *origin = atomic_load_explicit(&current_origin, memory_order_acquire);
    if (!is_current(origin, mono_ms)) {
        origin = make_origin(&spare, mono_ms);
    }
    ids->moment = next_moment(mono_ms, count);
    ids->offset_ms = origin->wall_minus_mono_ms - origin->month_start_ms;
    ids->prefix_len = origin->prefix_len;
    memcpy(ids->text, origin->prefix, origin->prefix_len);
    ids->text[origin->prefix_len + 2 * TAIL_BYTES] = '\0';
    write_time(ids);
}

size_t rq_unique_ids_next(struct rq_unique_ids *ids)
{
    uint8_t counter[2];
    rq_store_be16(counter, (uint16_t)ids->moment);
    if ((uint16_t)ids->moment == 0) { /* it ran over */
        write_time(ids);
    }
    rq_hex_upper(counter, sizeof counter, ids->text + ids->prefix_len + 8);
    ids->moment++;
    return ids->prefix_len + 2 * TAIL_BYTES;
}

size_t rq_unique_id(int64_t mono_ms, char out[RQ_UNIQUE_ID_MAX + 1])
{
    struct rq_unique_ids ids;
    rq_unique_ids_take(&ids, mono_ms, 1);
    size_t n = rq_unique_ids_next(&ids);
    memcpy(out, ids.text, n + 1);
    return n;
}
