/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Upkeep of static topics' mappings: the first item of a queue goes when its messages are gone, and
 * a queue that was handed to a broker which has handed it on goes altogether. In the hours of
 * deleteWhen, every five minutes, on the background loop: one question to another broker at a time.
 * Counterpart: TopicQueueMappingCleanService.
 */
#ifndef RQ_BROKER_MAPPING_UPKEEP_H
#define RQ_BROKER_MAPPING_UPKEEP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "broker/remotes.h"
#include "net/loop.h"

struct rmq_broker;

struct rq_mapping_upkeep {
    struct rmq_broker *broker;
    struct rq_loop *loop; /* background; a reference */
    struct rq_task round; /* begins one, whatever the hour is */

    /* owned by the background loop */
    struct rq_timer timer;
    struct rq_list jobs; /* struct job; the first is at work */
    struct rq_remote_call call;
    struct rq_task next; /* goes on to the next job */
    bool stopped;
};

void rq_mapping_upkeep_init(struct rq_mapping_upkeep *upkeep, struct rmq_broker *broker,
                            struct rq_loop *background);
void rq_mapping_upkeep_start(struct rq_mapping_upkeep *upkeep);

/* A round now, for tests. Any thread. */
void rq_mapping_upkeep_run(struct rq_mapping_upkeep *upkeep);

/* No more questions. Not on the background loop, as free, which is after rq_remotes_close. */
void rq_mapping_upkeep_stop(struct rq_mapping_upkeep *upkeep);
void rq_mapping_upkeep_free(struct rq_mapping_upkeep *upkeep);

#endif
