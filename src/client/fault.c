/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Queue choice and broker health (see the header). */
#include "client/fault.h"

#include <stddef.h>

static const struct {
    int64_t latency_ms;
    int64_t pause_ms;
} pauses[] = {{15000, 30000}, {5000, 10000}, {3000, 6000}, {1800, 5000}, {550, 2000}};

int64_t rq_fault_pause_ms(int64_t latency_ms)
{
    for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
        if (latency_ms >= pauses[i].latency_ms) {
            return pauses[i].pause_ms;
        }
    }
    return 0;
}

/* An end time only moves later. */
static void pause_until(struct rq_broker_health *health, int64_t at_ms)
{
    int64_t old = atomic_load_explicit(&health->available_at_ms, memory_order_relaxed);
    while (old < at_ms &&
           !atomic_compare_exchange_weak_explicit(&health->available_at_ms, &old, at_ms,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

bool rq_fault_alive(struct rq_broker_health *health)
{
    if (!atomic_load_explicit(&health->suspect, memory_order_relaxed)) {
        return false;
    }
    atomic_store_explicit(&health->available_at_ms, 0, memory_order_relaxed);
    return atomic_exchange_explicit(&health->suspect, false, memory_order_relaxed);
}

void rq_fault_answered(struct rq_broker_health *health, int64_t now_ms, int64_t latency_ms)
{
    (void)rq_fault_alive(health);
    int64_t pause = rq_fault_pause_ms(latency_ms);
    if (pause > 0) {
        pause_until(health, now_ms + pause);
    }
}

void rq_fault_failed(struct rq_broker_health *health, int64_t now_ms)
{
    atomic_store_explicit(&health->suspect, true, memory_order_relaxed);
    pause_until(health, now_ms + rq_fault_pause_ms(RQ_FAULT_LATENCY_MS));
}

void rq_fault_refused(struct rq_broker_health *health, int64_t now_ms)
{
    pause_until(health, now_ms + rq_fault_pause_ms(RQ_FAULT_LATENCY_MS));
}

static bool is_suspect(const struct rq_broker_health *health)
{
    return atomic_load_explicit(&health->suspect, memory_order_relaxed);
}

bool rq_fault_usable(const struct rq_broker_health *health, int64_t now_ms)
{
    return !is_suspect(health) &&
           atomic_load_explicit(&health->available_at_ms, memory_order_relaxed) <= now_ms;
}

enum wish { WISH_USABLE, WISH_ALIVE, WISH_OTHER, WISH_ANY };

static bool fits(const struct rq_broker_health *broker, enum wish wish,
                 const struct rq_broker_health *avoid, int64_t now_ms)
{
    switch (wish) {
    case WISH_USABLE:
        return broker != avoid && rq_fault_usable(broker, now_ms);
    case WISH_ALIVE:
        return broker != avoid && !is_suspect(broker);
    case WISH_OTHER:
        return broker != avoid;
    default:
        return true;
    }
}

const struct rq_route_queue *rq_fault_pick(const struct rq_route *route, uint32_t index,
                                           const struct rq_broker_health *avoid, bool use_faults,
                                           int64_t now_ms)
{
    size_t n = route->publish_count;
    enum wish first = route->no_host.health ? WISH_ALIVE : WISH_OTHER;
    for (enum wish wish = use_faults ? WISH_USABLE : first; n > 0; wish++) {
        for (size_t i = 0; i < n; i++) {
            const struct rq_route_queue *queue = &route->publish[(index + i) % n];
            if (fits(queue->broker->health, wish, avoid, now_ms)) {
                return queue;
            }
        }
    }
    return NULL;
}

bool rq_fault_has_spare(const struct rq_route *route, const struct rq_broker_health *broker,
                        int64_t now_ms)
{
    for (size_t i = 0; i < route->publish_count; i++) {
        const struct rq_broker_health *other = route->publish[i].broker->health;
        if (other != broker && rq_fault_usable(other, now_ms)) {
            return true;
        }
    }
    return false;
}

int64_t rq_fault_share_ms(int64_t left_ms, int attempts_after, int64_t max_per_request_ms,
                          bool spare)
{
    int64_t share = left_ms;
    if (attempts_after > 0 && max_per_request_ms >= 0) {
        share = max_per_request_ms;
    } else if (attempts_after > 0 && spare) {
        share = left_ms / (attempts_after + 1);
    }
    return share < left_ms ? share : left_ms;
}
