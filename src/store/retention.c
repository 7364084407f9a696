/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the cleaning of old files goes by (see the header). */
#include "store/retention.h"

#include <time.h>

#include "base/err.h"
#include "base/log.h"

#define HOUR_MS 3600000

rmq_status rq_store_check_hours(const char *hours, rmq_error **err)
{
    struct rq_slice rest = rq_slice_str(hours);
    struct rq_slice piece;
    while (rq_slice_next(&rest, ';', &piece)) {
        int32_t hour = 0;
        if (!rq_slice_to_i32(piece, &hour)) {
            return rq_error_set(err, RMQ_ERR_INVALID,
                                "deleteWhen: \"%.*s\" is no hour from 00 to 23", (int)piece.n,
                                piece.p);
        }
        if (hour < 0 || hour > 23) {
            RQ_LOG(WARN, "deleteWhen names an hour that never comes", "hour=%d", hour);
        }
    }
    return RMQ_OK;
}

static uint32_t read_hours(const char *text)
{
    struct rq_slice rest = rq_slice_str(text);
    struct rq_slice piece;
    uint32_t hours = 0;
    while (rq_slice_next(&rest, ';', &piece)) {
        int32_t hour = -1;
        if (rq_slice_to_i32(piece, &hour) && hour >= 0 && hour <= 23) {
            hours |= 1U << hour;
        }
    }
    return hours;
}

static int between(int percent, int min, int max)
{
    return percent < min ? min : percent > max ? max : percent;
}

void rq_retention_set(struct rq_retention *retention, const struct rq_store_options *options)
{
    atomic_store_explicit(&retention->reserved_ms, (int64_t)options->file_reserved_time_h * HOUR_MS,
                          memory_order_relaxed);
    atomic_store_explicit(&retention->hours, read_hours(options->delete_when),
                          memory_order_relaxed);
    atomic_store_explicit(&retention->max_used, options->disk_max_used_space_ratio,
                          memory_order_relaxed);
    atomic_store_explicit(&retention->warning,
                          between(options->disk_space_warning_level_ratio, 35, 90),
                          memory_order_relaxed);
    atomic_store_explicit(&retention->forcible,
                          between(options->disk_space_clean_forcibly_ratio, 30, 85),
                          memory_order_relaxed);
    atomic_store_explicit(&retention->forced, options->clean_file_forcibly_enable,
                          memory_order_relaxed);
}

bool rq_retention_is_hour(const struct rq_retention *retention, int64_t wall_ms)
{
    time_t now = (time_t)(wall_ms / 1000);
    struct tm local;
    return localtime_r(&now, &local) &&
           (atomic_load_explicit(&retention->hours, memory_order_relaxed) >> local.tm_hour & 1U);
}

double rq_retention_warning(const struct rq_retention *retention)
{
    return atomic_load_explicit(&retention->warning, memory_order_relaxed) / 100.0;
}

double rq_retention_forcible(const struct rq_retention *retention)
{
    return atomic_load_explicit(&retention->forcible, memory_order_relaxed) / 100.0;
}
