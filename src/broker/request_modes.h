/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * How a group takes the messages of a topic, pull or pop: what was set for it, in memory and in
 * messageRequestMode.json. Any thread. Counterpart: MessageRequestModeManager.
 */
#ifndef RQ_BROKER_REQUEST_MODES_H
#define RQ_BROKER_REQUEST_MODES_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/table_file.h"
#include "base/thread.h"

struct rq_request_mode {
    bool pop;
    /* popShareQueueNum: how many members' queues a member pops beside its own; 0 = all */
    int32_t share_queues;
};

struct rq_request_modes {
    struct rq_mutex lock; /* rank: broker tables; guards all below */
    struct rq_map table;  /* topic NUL group -> struct rq_request_mode */
    struct rq_table_file file;
};

void rq_request_modes_init(struct rq_request_modes *modes);
rmq_status rq_request_modes_set_path(struct rq_request_modes *modes, const char *path);
rmq_status rq_request_modes_load(struct rq_request_modes *modes, rmq_error **err);
rmq_status rq_request_modes_persist(struct rq_request_modes *modes, rmq_error **err);
void rq_request_modes_free(struct rq_request_modes *modes);

/* false: none was set. */
bool rq_request_modes_get(struct rq_request_modes *modes, struct rq_slice topic,
                          struct rq_slice group, struct rq_request_mode *out);
rmq_status rq_request_modes_put(struct rq_request_modes *modes, struct rq_slice topic,
                                struct rq_slice group, const struct rq_request_mode *mode);

/* {"messageRequestModeMap":{…}}, the body of 402. */
void rq_request_modes_write(struct rq_request_modes *modes, struct rq_buf *out);

#endif
