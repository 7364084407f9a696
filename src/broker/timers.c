/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Delivery of messages for any time (see the header), on the background loop. Counterparts:
 * TimerMessageStore, HookUtils.transformTimerMessage. */
#include "broker/timers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/fork.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/names.h"
#include "wire/properties.h"

#define BATCH           256 /* messages of one turn, so that the loop does other work, too */
#define RETRY_MS        100
#define LONGEST_WAIT_MS 60000 /* the wall clock may be set: look at least so often */
/* magic, first message of the window, length of its bits (all big endian), bits; then 8 bytes for
 * each one done since */
#define JOURNAL_MAGIC "rqtimer2"
#define JOURNAL_HEAD  24
/* an older one had neither bits nor their length */
#define JOURNAL_OLD      "rqtimer1"
#define JOURNAL_OLD_HEAD 16
#define JOURNAL_REWRITE  ((size_t)1 << 20)
#define JOURNAL_MAX      ((size_t)1 << 30)
#define HOUR_MS          INT64_C(3600000)

static const struct rq_slice timer_topic = {RQ_TOPIC_TIMER, sizeof RQ_TOPIC_TIMER - 1};

static void time_is_up(struct rq_timer *timer);
static void look(struct rq_task *task);

/* ---- the file of what is done ---- */

static void close_journal(struct rq_timers *timers)
{
    if (timers->fd >= 0) {
        rq_fork_close(timers->fd);
        timers->fd = -1;
    }
}

/* The whole file anew: the window's beginning, and what is done behind it. */
static rmq_status rewrite_journal_locked(struct rq_timers *timers, rmq_error **err)
{
    struct rq_buf text;
    if (!timers->path) {
        return RMQ_OK;
    }
    rq_window_advance(&timers->window, 0, timers->next);
    rq_buf_init(&text, JOURNAL_MAX);
    rq_buf_add(&text, JOURNAL_MAGIC, 8);
    rq_buf_add_be64(&text, (uint64_t)timers->window.base);
    rq_buf_add_be64(&text, rq_window_used(&timers->window));
    rq_buf_add(&text, timers->window.bits, rq_window_used(&timers->window));
    rmq_status st = rq_buf_status(&text);
    st = st ? rq_error_set(err, st, "%s: %s", timers->path, rmq_status_text(st))
            : rq_sys_write_file(timers->path, text.data, text.len, false, err);
    if (st == RMQ_OK) {
        close_journal(timers);
        timers->fd = rq_sys_open(timers->path, O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
        rq_fork_hide(timers->fd);
        timers->journal_bytes = 0;
        st = timers->fd >= 0
                 ? RMQ_OK
                 : rq_error_set(err, RMQ_ERR_IO, "%s: %s", timers->path, strerror(errno));
    }
    rq_buf_free(&text);
    return st;
}

static void note_done_locked(struct rq_timers *timers, int64_t offset)
{
    char bytes[8];
    rq_store_be64(bytes, (uint64_t)offset);
    if (!rq_window_mark(&timers->window, offset) ||
        (timers->fd >= 0 &&
         rq_sys_write(timers->fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes)) {
        RQ_LOG(ERROR, "a delivered message may be delivered again after a restart", "offset=%lld",
               (long long)offset);
    }
    timers->journal_bytes += sizeof bytes;
}

static void mark_below(struct rq_timers *timers, int64_t offset, int64_t max)
{
    if (offset >= 0 && offset < max) {
        (void)rq_window_mark(&timers->window, offset);
    }
}

/* Returns where the bits end. */
static size_t read_bits(struct rq_timers *timers, const struct rq_buf *text, int64_t base,
                        int64_t max)
{
    uint64_t told = rq_load_be64(text->data + JOURNAL_OLD_HEAD);
    size_t room = text->len - JOURNAL_HEAD;
    size_t bytes = told < room ? (size_t)told : room;
    for (size_t i = 0; i < bytes * 8 && base < max; i++) {
        if ((unsigned char)text->data[JOURNAL_HEAD + i / 8] >> i % 8 & 1) {
            mark_below(timers, base + (int64_t)i, max);
        }
    }
    return JOURNAL_HEAD + bytes;
}

static bool starts_with(const struct rq_buf *text, const char *magic, size_t head)
{
    return text->len >= head && memcmp(text->data, magic, 8) == 0;
}

/* What the file says; what a torn end or a log that lost its end makes meaningless is left out. */
static rmq_status read_journal(struct rq_timers *timers, int64_t max, bool *found, rmq_error **err)
{
    struct rq_buf text;
    rq_buf_init(&text, JOURNAL_MAX);
    rmq_status st =
        timers->path ? rq_sys_read_file(timers->path, JOURNAL_MAX, &text, err) : RMQ_ERR_NOT_FOUND;
    bool has_bits = st == RMQ_OK && starts_with(&text, JOURNAL_MAGIC, JOURNAL_HEAD);
    *found = has_bits || (st == RMQ_OK && starts_with(&text, JOURNAL_OLD, JOURNAL_OLD_HEAD));
    if (*found) {
        int64_t base = (int64_t)rq_load_be64(text.data + 8);
        rq_window_advance(&timers->window, base < max ? base : max, 0);
        size_t at = has_bits ? read_bits(timers, &text, base, max) : JOURNAL_OLD_HEAD;
        for (; at + 8 <= text.len; at += 8) {
            mark_below(timers, (int64_t)rq_load_be64(text.data + at), max);
        }
    }
    if (st == RMQ_OK && text.len > 0 && !*found) {
        RQ_LOG(WARN, "which messages for any time are done is not known, they come again",
               "file=%s bytes=%zu", timers->path, text.len);
    }
    rq_buf_free(&text);
    if (st == RMQ_ERR_NOT_FOUND && err && *err) {
        rmq_error_destroy(*err);
        *err = NULL;
    }
    return st == RMQ_ERR_NOT_FOUND ? RMQ_OK : st;
}

/* The first number of the Java broker's checkpoint: up to when it has delivered. */
static void read_foreign(struct rq_timers *timers)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    if (timers->foreign_path &&
        rq_sys_read_file(timers->foreign_path, 65536, &text, NULL) == RMQ_OK && text.len >= 8) {
        timers->foreign_ms = (int64_t)rq_load_be64(text.data);
    }
    rq_buf_free(&text);
}

/* ---- life ---- */

rmq_status rq_timers_init(struct rq_timers *timers, struct rmq_broker *broker,
                          struct rq_loop *background, const char *path, const char *foreign_path,
                          rmq_error **err)
{
    bool found = false;
    memset(timers, 0, sizeof *timers);
    timers->broker = broker;
    timers->loop = background;
    timers->fd = -1;
    rq_loop_retain(background);
    rq_mutex_init(&timers->lock);
    rq_timer_init(&timers->timer, time_is_up);
    timers->look_task.run = look;
    rq_map_init(&timers->waiting);
    timers->path = path ? rq_strdup(path) : NULL;
    timers->foreign_path = foreign_path ? rq_strdup(foreign_path) : NULL;
    int64_t max = rq_store_max_offset(broker->store, timer_topic, 0);
    if ((path && !timers->path) || (foreign_path && !timers->foreign_path) ||
        !rq_window_init(&timers->window, rq_store_min_offset(broker->store, timer_topic, 0))) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
    }
    rmq_status st = read_journal(timers, max, &found, err);
    if (!st && !found) {
        read_foreign(timers);
    }
    timers->next = max; /* for the file: so far the window may advance */
    st = st ? st : rewrite_journal_locked(timers, err);
    timers->next = timers->window.base;
    return st;
}

void rq_timers_arrived(struct rq_timers *timers)
{
    (void)rq_loop_post(timers->loop, &timers->look_task);
}

void rq_timers_start(struct rq_timers *timers)
{
    rq_timers_arrived(timers);
}

static void stop_timer(void *arg)
{
    struct rq_timers *timers = arg;
    timers->stopped = true;
    rq_timer_stop(&timers->timer);
}

void rq_timers_stop(struct rq_timers *timers)
{
    if (timers->loop) {
        (void)rq_loop_run(timers->loop, stop_timer, timers);
    }
}

void rq_timers_free(struct rq_timers *timers)
{
    if (!timers->loop) {
        return;
    }
    close_journal(timers);
    rq_loop_put(timers->loop);
    rq_window_free(&timers->window);
    rq_free(timers->heap);
    rq_map_free(&timers->waiting, rq_free);
    rq_free(timers->path);
    rq_free(timers->foreign_path);
    rq_mutex_destroy(&timers->lock);
}

/* ---- the heap: the earliest first ---- */

static bool push_locked(struct rq_timers *timers, struct rq_timed timed)
{
    if (timers->count == timers->cap) {
        size_t cap = timers->cap ? timers->cap * 2 : 64;
        struct rq_timed *heap = rq_realloc(timers->heap, cap * sizeof *heap);
        if (!heap) {
            return false;
        }
        timers->heap = heap;
        timers->cap = cap;
    }
    size_t at = timers->count++;
    for (; at > 0 && timers->heap[(at - 1) / 2].due_ms > timed.due_ms; at = (at - 1) / 2) {
        timers->heap[at] = timers->heap[(at - 1) / 2];
    }
    timers->heap[at] = timed;
    return true;
}

static void pop_locked(struct rq_timers *timers)
{
    struct rq_timed last = timers->heap[--timers->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < timers->count; at = child) {
        if (child + 1 < timers->count &&
            timers->heap[child + 1].due_ms < timers->heap[child].due_ms) {
            child++;
        }
        if (timers->heap[child].due_ms >= last.due_ms) {
            break;
        }
        timers->heap[at] = timers->heap[child];
    }
    timers->heap[at] = last;
}

/* ---- taking in ---- */

/* Of a log that is kept for no time at all there is nothing to be ahead of. */
static int64_t roll_ms(const struct rmq_broker *broker)
{
    int64_t window_ms = (int64_t)broker->settings.broker.timer_roll_window_slot * 1000;
    int64_t kept_ms = broker->settings.store.file_reserved_time_h * HOUR_MS * 3 / 4;
    return kept_ms <= 0 || window_ms < kept_ms ? window_ms : kept_ms;
}

static uint64_t key_of(struct rq_slice properties)
{
    struct rq_slice key = rq_props_get(properties, RQ_PROP_UNIQ_KEY);
    return rq_hash_bytes(key.n ? key.p : "", key.n);
}

static bool take_in_locked(struct rq_timers *timers, int64_t offset)
{
    struct rq_store_ref ref;
    struct rq_msg msg;
    if (rq_window_has(&timers->window, offset)) {
        return true;
    }
    if (!rq_transaction_record(timers->broker, RQ_TOPIC_TIMER, offset, &ref, &msg)) {
        RQ_LOG(ERROR, "a message for a later time is not readable and is dropped", "offset=%lld",
               (long long)offset);
        note_done_locked(timers, offset);
        return true;
    }
    int64_t out_ms = rq_props_get_i64(msg.properties, RQ_PROP_TIMER_OUT_MS, 0);
    int64_t roll_at_ms = msg.store_timestamp_ms + roll_ms(timers->broker);
    struct rq_timed timed = {.due_ms = out_ms < roll_at_ms ? out_ms : roll_at_ms,
                             .offset = offset,
                             .key = key_of(msg.properties)};
    bool taken = true;
    if (out_ms < timers->foreign_ms) {
        note_done_locked(timers, offset);
    } else if ((taken = push_locked(timers, timed))) {
        rq_timers_count_locked(timers, rq_props_get(msg.properties, RQ_PROP_REAL_TOPIC), 1);
    }
    rq_store_ref_release(&ref);
    return taken;
}

/* false: there is more to take in, or no memory for it. */
static bool take_in_new_locked(struct rq_timers *timers, int most)
{
    int64_t min = rq_store_min_offset(timers->broker->store, timer_topic, 0);
    int64_t max = rq_store_max_offset(timers->broker->store, timer_topic, 0);
    timers->next = timers->next < min ? min : timers->next;
    for (int i = 0; timers->next < max; i++) {
        if (i == most || !take_in_locked(timers, timers->next)) {
            return false;
        }
        timers->next++;
    }
    return true;
}

/* ---- delivery ---- */

/* The record as it goes on: to its real topic, or once more to the timer topic. What it was given
 * the last time is replaced: it must not grow, for there was room when it came. */
static bool make_next(struct rq_msg *msg, bool roll, struct rq_buf *props)
{
    static const char *const replaced[] = {RQ_PROP_TIMER_DEQUEUE_MS, RQ_PROP_TIMER_ROLL_TIMES};
    struct rq_slice topic = rq_props_get(msg->properties, RQ_PROP_REAL_TOPIC);
    int64_t queue_id = rq_props_get_i64(msg->properties, RQ_PROP_REAL_QID, -1);
    if (topic.n == 0 || rq_topic_is_forbidden(topic) || queue_id < 0 || queue_id > INT32_MAX) {
        return false;
    }
    rq_props_copy_without(props, 0, msg->properties, replaced, roll ? 2 : 1);
    rq_props_add_i64(props, 0, RQ_PROP_TIMER_DEQUEUE_MS, rq_wall_ms());
    if (roll) {
        int64_t times = rq_props_get_i64(msg->properties, RQ_PROP_TIMER_ROLL_TIMES, 0);
        rq_props_add_i64(props, 0, RQ_PROP_TIMER_ROLL_TIMES, times + 1);
    } else {
        msg->topic = topic;
        msg->queue_id = (int32_t)queue_id;
    }
    msg->properties = rq_slice(props->data, props->len);
    if (!msg->body.p) {
        msg->body.p = "";
    }
    return rq_buf_status(props) == RMQ_OK;
}

/* true: it is done with. */
static bool deliver_locked(struct rq_timers *timers, int64_t offset, int64_t now_ms)
{
    struct rmq_broker *broker = timers->broker;
    struct rq_store_ref ref;
    struct rq_msg msg;
    struct rq_store_put put = {.status = RQ_PUT_MESSAGE_ILLEGAL};
    struct rq_buf props;
    if (!rq_transaction_record(broker, RQ_TOPIC_TIMER, offset, &ref, &msg)) {
        RQ_LOG(ERROR, "a message for a later time is not readable and is dropped", "offset=%lld",
               (long long)offset);
        return true;
    }
    rq_buf_init(&props, 0);
    bool roll = rq_props_get_i64(msg.properties, RQ_PROP_TIMER_OUT_MS, 0) > now_ms;
    if (make_next(&msg, roll, &props)) {
        (void)rq_store_append_own(broker->store, &msg, &put);
    } else if (rq_buf_status(&props)) {
        put.status = RQ_PUT_UNKNOWN_ERROR;
    }
    bool hopeless =
        put.status == RQ_PUT_MESSAGE_ILLEGAL || put.status == RQ_PUT_PROPERTIES_SIZE_EXCEEDED;
    if (put.status == RQ_PUT_OK) {
        rq_broker_count_own_put(broker, msg.topic, msg.queue_id, &put);
        rq_stats_add(&broker->stats, RQ_STATS_TIMER_DEQUEUE_NUMS, timer_topic, 1, 1);
    } else {
        RQ_LOG(WARN,
               hopeless ? "a message for a later time cannot be delivered and is dropped"
                        : "a message for a later time cannot be delivered yet",
               "offset=%lld status=%s reason=%s", (long long)offset, rq_put_status_name(put.status),
               put.reason);
    }
    bool done = hopeless || put.status == RQ_PUT_OK;
    if (done) {
        rq_timers_count_locked(timers, rq_props_get(msg.properties, RQ_PROP_REAL_TOPIC), -1);
    }
    rq_buf_free(&props);
    rq_store_ref_release(&ref);
    return done;
}

/* Returns after how many ms to look again, RQ_FOREVER when nothing waits. */
static int64_t deliver_due_locked(struct rq_timers *timers, bool *any)
{
    int64_t now_ms = rq_wall_ms();
    for (int i = 0; timers->count; i++) {
        struct rq_timed first = timers->heap[0];
        if (first.due_ms > now_ms) {
            int64_t wait = first.due_ms - now_ms;
            return wait < LONGEST_WAIT_MS ? wait : LONGEST_WAIT_MS;
        }
        if (i == BATCH) {
            return 0;
        }
        if (!rq_window_has(&timers->window, first.offset)) {
            if (!deliver_locked(timers, first.offset, now_ms)) {
                return RETRY_MS;
            }
            note_done_locked(timers, first.offset);
            *any = true;
        }
        pop_locked(timers);
    }
    return RQ_FOREVER;
}

static void rewrite_when_long_locked(struct rq_timers *timers)
{
    rmq_error *err = NULL;
    if (timers->journal_bytes < JOURNAL_REWRITE || timers->fd < 0) {
        return;
    }
    if (rewrite_journal_locked(timers, &err)) {
        RQ_LOG(WARN, "the file of delivered messages could not be written anew", "detail=%s",
               rmq_error_message(err));
        rmq_error_destroy(err);
    }
    timers->journal_bytes = 0; /* the next look at it when it has grown by as much again */
}

static void run(struct rq_timers *timers)
{
    bool any = false;
    if (timers->stopped) {
        return;
    }
    rq_mutex_lock(&timers->lock);
    int64_t again_ms = take_in_new_locked(timers, BATCH) ? deliver_due_locked(timers, &any) : 1;
    rewrite_when_long_locked(timers);
    rq_mutex_unlock(&timers->lock);
    if (any) {
        rq_store_dispatch(timers->broker->store);
    }
    if (again_ms != RQ_FOREVER) {
        rq_timer_start(timers->loop, &timers->timer, again_ms);
    }
}

static void time_is_up(struct rq_timer *timer)
{
    run(RQ_CONTAINER_OF(timer, struct rq_timers, timer));
}

static void look(struct rq_task *task)
{
    run(RQ_CONTAINER_OF(task, struct rq_timers, look_task));
}

/* ---- recall ---- */

static bool is_it(struct rq_timers *timers, int64_t offset, struct rq_slice topic,
                  struct rq_slice key)
{
    struct rq_store_ref ref;
    struct rq_msg msg;
    if (!rq_transaction_record(timers->broker, RQ_TOPIC_TIMER, offset, &ref, &msg)) {
        return false;
    }
    bool is = rq_slice_eq(rq_props_get(msg.properties, RQ_PROP_REAL_TOPIC), topic) &&
              rq_slice_eq(rq_props_get(msg.properties, RQ_PROP_UNIQ_KEY), key);
    rq_store_ref_release(&ref);
    return is;
}

bool rq_timers_recall(struct rq_timers *timers, struct rq_slice topic, struct rq_slice unique_key)
{
    uint64_t key = rq_hash_bytes(unique_key.n ? unique_key.p : "", unique_key.n);
    bool found = false;
    rq_mutex_lock(&timers->lock);
    (void)take_in_new_locked(timers, INT32_MAX);
    for (size_t i = 0; i < timers->count && !found; i++) {
        const struct rq_timed *timed = &timers->heap[i];
        if (timed->key == key && !rq_window_has(&timers->window, timed->offset) &&
            is_it(timers, timed->offset, topic, unique_key)) {
            note_done_locked(timers, timed->offset);
            rq_timers_count_locked(timers, topic, -1);
            found = true;
        }
    }
    rq_mutex_unlock(&timers->lock);
    return found;
}
