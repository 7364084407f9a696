/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Delivery of delayed messages, on the background loop, and their file delayOffset.json.
 * Counterpart: ScheduleMessageService. */
#include "broker/schedule.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/names.h"
#include "wire/properties.h"

#define BATCH           256 /* deliveries of one turn, so that the loop does other work, too */
#define RETRY_MS        100
#define LOOK_AGAIN_MS   1
#define LONGEST_WAIT_MS 60000 /* the wall clock may be set: look at least so often */

static const struct rq_slice schedule_topic = {RQ_TOPIC_SCHEDULE, sizeof RQ_TOPIC_SCHEDULE - 1};

static void level_due(struct rq_timer *timer);
static void look(struct rq_task *task);

rmq_status rq_schedule_init(struct rq_schedule *schedule, struct rmq_broker *broker,
                            struct rq_loop *background, const char *path, rmq_error **err)
{
    int count = rq_store_delay_level_max(broker->store);
    memset(schedule, 0, sizeof *schedule);
    rq_mutex_init(&schedule->lock);
    rq_table_file_init(&schedule->file);
    schedule->broker = broker;
    schedule->loop = background;
    rq_loop_retain(background);
    schedule->look_task.run = look;
    if (count > RQ_DELAY_LEVELS_MAX) {
        return rq_error_set(err, RMQ_ERR_INVALID, "messageDelayLevel has %d levels, more than %d",
                            count, RQ_DELAY_LEVELS_MAX);
    }
    schedule->level_count = count;
    for (int i = 0; i < count; i++) {
        schedule->levels[i].schedule = schedule;
        schedule->levels[i].level = i + 1;
        rq_timer_init(&schedule->levels[i].timer, level_due);
    }
    return rq_table_file_set_path(&schedule->file, path)
               ? rq_error_set(err, RMQ_ERR_NOMEM, "out of memory")
               : RMQ_OK;
}

static int64_t get_offset(struct rq_schedule *schedule, const struct rq_delay_level *level)
{
    rq_mutex_lock(&schedule->lock);
    int64_t offset = level->offset;
    rq_mutex_unlock(&schedule->lock);
    return offset;
}

static void set_offset(struct rq_schedule *schedule, struct rq_delay_level *level, int64_t offset)
{
    rq_mutex_lock(&schedule->lock);
    level->offset = offset;
    if (!schedule->file.dirty) {
        schedule->file.dirty = true;
        rq_data_version_next(&schedule->version);
    }
    rq_mutex_unlock(&schedule->lock);
}

/* The message as its real topic gets it: only topic and queue differ from the record of the
 * schedule topic. */
static bool make_real(const struct rmq_broker *broker, struct rq_slice record, struct rq_msg *msg)
{
    struct rq_cursor cursor = rq_cursor(record.p, record.n);
    if (rq_msg_decode(&cursor, msg, NULL)) {
        return false;
    }
    struct rq_slice topic = rq_props_get(msg->properties, RQ_PROP_REAL_TOPIC);
    int64_t queue_id = rq_props_get_i64(msg->properties, RQ_PROP_REAL_QID, 0);
    if (topic.n == 0 || rq_slice_eq_str(topic, RQ_TOPIC_HALF) || queue_id < 0 ||
        queue_id > INT32_MAX) {
        return false;
    }
    msg->topic = topic;
    msg->queue_id = (int32_t)queue_id;
    msg->sys_flag &= ~RQ_SYS_TRANSACTION_MASK;
    msg->prepared_transaction_offset = 0;
    if (!msg->store_host.len) {
        msg->store_host = broker->store_host;
    }
    if (!msg->body.p) {
        msg->body.p = "";
    }
    return true;
}

/* RMQ_OK: the entry is done with. Anything else: try again later. */
static rmq_status deliver(struct rmq_broker *broker, const struct rq_store_entry *entry, int level)
{
    struct rq_store_ref ref;
    struct rq_msg msg;
    struct rq_store_put put;
    if (!rq_store_view(broker->store, entry->commit_log_offset, &ref)) {
        RQ_LOG(ERROR, "a delayed message is not readable and is dropped", "level=%d offset=%lld",
               level, (long long)entry->commit_log_offset);
        return RMQ_OK;
    }
    rmq_status st = RMQ_OK;
    if (!make_real(broker, rq_slice(ref.p, ref.n), &msg)) {
        RQ_LOG(ERROR, "a delayed message has no real topic and is dropped", "level=%d offset=%lld",
               level, (long long)entry->commit_log_offset);
    } else if (rq_store_append_own(broker->store, &msg, &put) != RQ_PUT_OK) {
        RQ_LOG(WARN, "a delayed message could not be delivered yet", "level=%d status=%s reason=%s",
               level, rq_put_status_name(put.status), put.reason);
        st = RMQ_ERR_BUSY;
    } else {
        rq_broker_count_own_put(broker, msg.topic, msg.queue_id, &put);
    }
    rq_store_ref_release(&ref);
    return st;
}

/* When a message is due: its tags code, but never later than its level allows, should the clock
 * have been set back. */
static int64_t wait_ms(struct rq_schedule *schedule, int level, const struct rq_store_entry *entry)
{
    int64_t now_ms = rq_broker_now_ms(schedule->broker);
    int64_t due_ms = entry->tags_code;
    if (due_ms > now_ms + rq_store_delay_ms(schedule->broker->store, level)) {
        return 0;
    }
    return due_ms > now_ms ? due_ms - now_ms : 0;
}

/* Their entries are blank, or cannot be read. */
static void tell_lost(const struct rq_delay_level *level, int64_t first, int count)
{
    if (count > 0) {
        RQ_LOG(ERROR, "delayed messages are lost", "level=%d first=%lld count=%d", level->level,
               (long long)first, count);
    }
}

/* Delivers what is due. Returns after how many ms to look again, RQ_FOREVER when the level is
 * empty. */
static int64_t run_level(struct rq_schedule *schedule, struct rq_delay_level *level)
{
    struct rmq_broker *broker = schedule->broker;
    int32_t queue_id = level->level - 1;
    int64_t offset = get_offset(schedule, level);
    int64_t min = rq_store_min_offset(broker->store, schedule_topic, queue_id);
    int64_t max = rq_store_max_offset(broker->store, schedule_topic, queue_id);
    int64_t again_ms = RQ_FOREVER;
    int done = 0;
    int lost = 0;
    int64_t first_lost = 0;
    int64_t start = offset;
    offset = offset < min ? min : offset > max ? max : offset;
    for (; offset < max; offset++) {
        struct rq_store_entry entry;
        if (done == BATCH) {
            again_ms = LOOK_AGAIN_MS;
            break;
        }
        if (!rq_store_entry(broker->store, schedule_topic, queue_id, offset, &entry)) {
            first_lost = lost++ ? first_lost : offset;
            done++;
            continue;
        }
        int64_t wait = wait_ms(schedule, level->level, &entry);
        if (wait > 0) {
            again_ms = wait < LONGEST_WAIT_MS ? wait : LONGEST_WAIT_MS;
            break;
        }
        if (deliver(broker, &entry, level->level)) {
            again_ms = RETRY_MS;
            break;
        }
        done++;
    }
    tell_lost(level, first_lost, lost);
    if (offset != start) {
        set_offset(schedule, level, offset);
    }
    if (done) {
        rq_store_dispatch(broker->store);
    }
    return again_ms;
}

static void run_and_arm(struct rq_schedule *schedule, struct rq_delay_level *level)
{
    int64_t again_ms = run_level(schedule, level);
    if (again_ms != RQ_FOREVER) {
        rq_timer_start(schedule->loop, &level->timer, again_ms);
    }
}

static void level_due(struct rq_timer *timer)
{
    struct rq_delay_level *level = RQ_CONTAINER_OF(timer, struct rq_delay_level, timer);
    run_and_arm(level->schedule, level);
}

/* News of some levels: those whose timer runs know their next message already. */
static void look(struct rq_task *task)
{
    struct rq_schedule *schedule = RQ_CONTAINER_OF(task, struct rq_schedule, look_task);
    rq_mutex_lock(&schedule->lock);
    uint64_t arrived = schedule->arrived;
    bool anew = schedule->clock_moved;
    schedule->arrived = 0;
    schedule->clock_moved = false;
    rq_mutex_unlock(&schedule->lock);
    for (int i = 0; i < schedule->level_count && !schedule->stopped; i++) {
        if (anew || ((arrived >> i & 1u) && !rq_timer_running(&schedule->levels[i].timer))) {
            run_and_arm(schedule, &schedule->levels[i]);
        }
    }
}

void rq_schedule_arrived(struct rq_schedule *schedule, int32_t queue_id)
{
    if (queue_id < 0 || queue_id >= schedule->level_count) {
        return;
    }
    rq_mutex_lock(&schedule->lock);
    schedule->arrived |= UINT64_C(1) << queue_id;
    (void)rq_loop_post(schedule->loop, &schedule->look_task);
    rq_mutex_unlock(&schedule->lock);
}

void rq_schedule_look(struct rq_schedule *schedule)
{
    rq_mutex_lock(&schedule->lock);
    schedule->clock_moved = true;
    (void)rq_loop_post(schedule->loop, &schedule->look_task);
    rq_mutex_unlock(&schedule->lock);
}

void rq_schedule_start(struct rq_schedule *schedule)
{
    rq_mutex_lock(&schedule->lock);
    schedule->arrived = ~UINT64_C(0);
    (void)rq_loop_post(schedule->loop, &schedule->look_task);
    rq_mutex_unlock(&schedule->lock);
}

static void stop_timers(void *arg)
{
    struct rq_schedule *schedule = arg;
    schedule->stopped = true;
    for (int i = 0; i < schedule->level_count; i++) {
        rq_timer_stop(&schedule->levels[i].timer);
    }
}

void rq_schedule_stop(struct rq_schedule *schedule)
{
    if (schedule->loop) {
        (void)rq_loop_run(schedule->loop, stop_timers, schedule);
    }
}

void rq_schedule_free(struct rq_schedule *schedule)
{
    if (!schedule->loop) {
        return;
    }
    rq_loop_put(schedule->loop);
    rq_mutex_destroy(&schedule->lock);
    rq_table_file_free(&schedule->file);
}

int64_t rq_schedule_offset(struct rq_schedule *schedule, int level)
{
    return get_offset(schedule, &schedule->levels[level - 1]);
}

/* Also of levels that the options do not name now: they may be named again. */
static void write_locked(struct rq_schedule *schedule, struct rq_buf *out, const char *line)
{
    bool first = true;
    rq_buf_add_str(out, "\"dataVersion\":");
    rq_data_version_write(&schedule->version, out);
    rq_buf_addf(out, ",%s\"offsetTable\":{", line);
    for (int i = 0; i < RQ_DELAY_LEVELS_MAX; i++) {
        if (schedule->levels[i].offset > 0) {
            rq_buf_addf(out, "%s%d:%lld", first ? "" : ",", i + 1,
                        (long long)schedule->levels[i].offset);
            first = false;
        }
    }
    rq_buf_addf(out, "%s}", line);
}

void rq_schedule_write(struct rq_schedule *schedule, struct rq_buf *out)
{
    rq_mutex_lock(&schedule->lock);
    write_locked(schedule, out, "");
    rq_mutex_unlock(&schedule->lock);
}

static rmq_status read_levels(void *user, const cJSON *root)
{
    struct rq_schedule *schedule = user;
    const cJSON *item;
    rq_data_version_parse(rq_json_get(root, "dataVersion"), &schedule->version);
    cJSON_ArrayForEach(item, rq_json_get(root, "offsetTable"))
    {
        int32_t level = 0;
        int64_t offset = 0;
        if (rq_slice_to_i32(rq_slice_str(item->string), &level) && level >= 1 &&
            level <= RQ_DELAY_LEVELS_MAX && rq_json_value_i64(item, &offset) && offset >= 0) {
            schedule->levels[level - 1].offset = offset;
        }
    }
    return RMQ_OK;
}

rmq_status rq_schedule_load(struct rq_schedule *schedule, rmq_error **err)
{
    return rq_table_file_load(&schedule->file, read_levels, schedule, err);
}

void rq_schedule_fit(struct rq_schedule *schedule)
{
    int named = rq_store_delay_level_max(schedule->broker->store);
    int64_t stuck = 0;
    int last = 0;
    for (int i = 0; i < RQ_DELAY_LEVELS_MAX; i++) {
        struct rq_delay_level *level = &schedule->levels[i];
        int64_t max = rq_store_max_offset(schedule->broker->store, schedule_topic, i);
        level->offset = level->offset < max ? level->offset : max;
        if (i >= named && level->offset < max) {
            stuck += max - level->offset;
            last = i + 1;
        }
    }
    if (stuck) { /* nobody may have meant that */
        RQ_LOG(WARN, "delayed messages stay in levels that messageDelayLevel does not name",
               "messages=%lld level=%d named=%d", (long long)stuck, last, named);
    }
}

static void write_file(void *table, struct rq_buf *out, const char *line)
{
    write_locked(table, out, line);
}

rmq_status rq_schedule_persist(struct rq_schedule *schedule, rmq_error **err)
{
    return rq_table_file_persist(&schedule->file, &schedule->lock, write_file, schedule, err);
}
