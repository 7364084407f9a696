/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Delayed messages: a message with a delay level is stored in the schedule topic, queue level - 1,
 * with its delivery time as tags code, and written to its real topic when that has come. One timer
 * per level on the background loop, set to the due time of the level's next message. Counterpart:
 * ScheduleMessageService.
 */
#ifndef RQ_BROKER_SCHEDULE_H
#define RQ_BROKER_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/table_file.h"
#include "base/thread.h"
#include "broker/data_version.h"
#include "net/loop.h"
#include "store/store.h"

#define RQ_DELAY_LEVELS_MAX 64

struct rmq_broker;
struct rq_schedule;

struct rq_delay_level {
    struct rq_schedule *schedule;
    int level;
    struct rq_timer timer; /* owned by the background loop */
    int64_t offset;        /* next one to deliver; guarded by the lock */
};

struct rq_schedule {
    struct rmq_broker *broker;
    struct rq_loop *loop; /* background; a reference */
    int level_count;      /* immutable */
    /* [0] is level 1; behind level_count only the offsets are used */
    struct rq_delay_level levels[RQ_DELAY_LEVELS_MAX];
    struct rq_task look_task;
    bool stopped; /* owned by the background loop */

    struct rq_mutex lock; /* rank: broker tables; guards offsets and all below */
    struct rq_data_version version;
    uint64_t arrived; /* bit of each level with news */
    bool clock_moved; /* timers are wrong */
    struct rq_table_file file;
};

rmq_status rq_schedule_init(struct rq_schedule *schedule, struct rmq_broker *broker,
                            struct rq_loop *background, const char *path, rmq_error **err);
rmq_status rq_schedule_load(struct rq_schedule *schedule, rmq_error **err);
/* Before it is started: a level whose queue has lost its end goes on there. Its first run would
 * find that out behind what has come meanwhile. */
void rq_schedule_fit(struct rq_schedule *schedule);
void rq_schedule_start(struct rq_schedule *schedule);
void rq_schedule_stop(struct rq_schedule *schedule); /* waits; not on the background loop */
void rq_schedule_free(struct rq_schedule *schedule);
rmq_status rq_schedule_persist(struct rq_schedule *schedule, rmq_error **err); /* only when dirty */

/* A message of the level has been dispatched. Any thread. */
void rq_schedule_arrived(struct rq_schedule *schedule, int32_t queue_id);

/* Every level looks again, as when the clock was moved. Any thread. */
void rq_schedule_look(struct rq_schedule *schedule);

/* The members of delayOffset.json and of body 45, without the braces around. */
void rq_schedule_write(struct rq_schedule *schedule, struct rq_buf *out);
int64_t rq_schedule_offset(struct rq_schedule *schedule, int level);

#endif
