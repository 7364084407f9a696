/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What waits for its time, told by topic (61), as a whole, and as the place where the work has come
 * to (60). Loop thread but for what the header says. Counterparts: TimerMetrics, TimerCheckpoint.
 */
#include "base/bytes.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/data_version.h"
#include "wire/names.h"

#define CHECKPOINT_FIELDS 7

struct waiting {
    int64_t count;
    int64_t changed_ms; /* wall clock */
};

/* Without memory a count is lost, nothing else. */
void rq_timers_count_locked(struct rq_timers *timers, struct rq_slice topic, int change)
{
    struct waiting *waiting = rq_map_get(&timers->waiting, topic);
    if (!waiting) {
        waiting = rq_calloc(1, sizeof *waiting);
        if (!waiting || rq_map_put(&timers->waiting, topic, waiting)) {
            rq_free(waiting);
            return;
        }
    }
    waiting->count += change;
    waiting->changed_ms = rq_wall_ms();
    rq_data_version_next(&timers->waiting_version);
}

static int64_t stored(const struct rq_timers *timers)
{
    return rq_store_max_offset(timers->broker->store, rq_slice_str(RQ_TOPIC_TIMER), 0);
}

void rq_timers_state(struct rq_timers *timers, struct rq_timers_state *out)
{
    const struct rq_map_entry *entry;
    *out = (struct rq_timers_state){0};
    rq_mutex_lock(&timers->lock);
    int64_t behind_ms = timers->count ? rq_wall_ms() - timers->heap[0].due_ms : 0;
    int64_t behind_offset = stored(timers) - timers->next;
    for (size_t i = 0; (entry = rq_map_next(&timers->waiting, &i));) {
        out->waiting += ((const struct waiting *)entry->value)->count;
    }
    rq_mutex_unlock(&timers->lock);
    out->behind_ms = behind_ms > 0 ? behind_ms : 0;
    out->behind_offset = behind_offset > 0 ? behind_offset : 0;
}

static bool is_off(const struct rq_request *request, const char *remark)
{
    if (request->broker->settings.broker.timer_wheel_enable) {
        return false;
    }
    rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, remark);
    return true;
}

/* Seven numbers of 8 bytes: time up to which all is delivered, place in the wheel's own log (there
 * is none here), place in the timer topic, that of the master, version. */
void rq_process_timer_checkpoint(const struct rq_request *request)
{
    struct rq_timers *timers = &request->broker->timers;
    struct rq_timers_state state;
    struct rq_buf body;
    if (is_off(request, "The checkpoint is null")) {
        return;
    }
    rq_timers_state(timers, &state);
    rq_mutex_lock(&timers->lock);
    const int64_t fields[CHECKPOINT_FIELDS] = {rq_wall_ms() - state.behind_ms,
                                               0,
                                               timers->next,
                                               timers->next,
                                               timers->waiting_version.state_version,
                                               timers->waiting_version.timestamp_ms,
                                               timers->waiting_version.counter};
    rq_mutex_unlock(&timers->lock);
    rq_buf_init(&body, 0);
    for (size_t i = 0; i < CHECKPOINT_FIELDS; i++) {
        rq_buf_add_be64(&body, (uint64_t)fields[i]);
    }
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

void rq_process_timer_metrics(const struct rq_request *request)
{
    struct rq_timers *timers = &request->broker->timers;
    const struct rq_map_entry *entry;
    struct rq_buf body;
    bool first = true;
    if (is_off(request, "The timer message store is null")) {
        return;
    }
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"dataVersion\":");
    rq_mutex_lock(&timers->lock);
    rq_data_version_write(&timers->waiting_version, &body);
    rq_buf_add_str(&body, ",\"timingCount\":{");
    for (size_t i = 0; (entry = rq_map_next(&timers->waiting, &i));) {
        const struct waiting *waiting = entry->value;
        rq_json_add_member(&body, &first, entry->key);
        rq_buf_addf(&body, "{\"count\":%lld,\"timeStamp\":%lld}", (long long)waiting->count,
                    (long long)waiting->changed_ms);
    }
    rq_mutex_unlock(&timers->lock);
    rq_buf_add_str(&body, "}}");
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}
