/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Unique ids made of the broker's address, process and a counter. Counterpart:
 * MessageClientIDSetter. */
#include "broker/unique_id.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "broker/broker.h"

/* Milliseconds since the start of the month, local time. */
static uint32_t month_ms(int64_t now_ms)
{
    struct tm tm;
    time_t now = (time_t)(now_ms / 1000);
    if (!localtime_r(&now, &tm)) {
        return 0;
    }
    int64_t seconds =
        (((int64_t)tm.tm_mday - 1) * 24 + tm.tm_hour) * 3600 + tm.tm_min * 60 + tm.tm_sec;
    return (uint32_t)(seconds * 1000 + now_ms % 1000);
}

size_t rq_broker_unique_id(struct rmq_broker *broker, char out[RQ_MSGID_MAX + 1])
{
    uint32_t count = atomic_fetch_add_explicit(&broker->unique_counter, 1, memory_order_relaxed);
    struct rq_unique_parts parts = {
        .ip_len = broker->store_host.len,
        .pid = (uint16_t)getpid(),
        .process = (uint32_t)broker->boot_ms,
        .month_ms = month_ms(rq_wall_ms()),
        .counter = (uint16_t)count,
    };
    memcpy(parts.ip, broker->store_host.addr, parts.ip_len);
    return rq_msgid_of_unique(&parts, out);
}
