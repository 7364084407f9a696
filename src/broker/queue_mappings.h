/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The mappings of a broker's static topics: topicQueueMapping.json in memory. Any thread. Who gets
 * a mapping holds a reference and sees it as it was then; a change puts another one in its place.
 * A topic that has one is marked in the table of topics. Counterpart: TopicQueueMappingManager.
 */
#ifndef RQ_BROKER_QUEUE_MAPPINGS_H
#define RQ_BROKER_QUEUE_MAPPINGS_H

#include <stdatomic.h>
#include <stdbool.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/table_file.h"
#include "base/thread.h"
#include "broker/data_version.h"
#include "broker/queue_mapping.h"

struct rq_queue_mappings {
    _Atomic size_t count; /* atomic: relaxed, a broker without static topics asks no further */
    struct rq_mutex lock; /* rank: broker tables; guards all below */
    struct rq_map table;  /* topic -> struct rq_queue_mapping, a reference */
    struct rq_data_version version;
    struct rq_table_file file;
};

void rq_queue_mappings_init(struct rq_queue_mappings *mappings);
/* at start; NULL: nothing is written */
rmq_status rq_queue_mappings_set_path(struct rq_queue_mappings *mappings, const char *path);
void rq_queue_mappings_free(struct rq_queue_mappings *mappings);

/* Reads the file, or its .bak when it is missing or broken. No file is no error; a mapping that
 * cannot be is dropped with a warning. */
rmq_status rq_queue_mappings_load(struct rq_queue_mappings *mappings, rmq_error **err);
rmq_status rq_queue_mappings_persist(struct rq_queue_mappings *mappings,
                                     rmq_error **err); /* only when dirty */

/* A reference for the caller; NULL: the topic is no static one. */
struct rq_queue_mapping *rq_queue_mappings_get(struct rq_queue_mappings *mappings,
                                               struct rq_slice topic);
/* Whether that is still the mapping of its topic. */
bool rq_queue_mappings_is_current(struct rq_queue_mappings *mappings,
                                  const struct rq_queue_mapping *mapping);

/* Takes a mapping that nobody else has as that of its topic, after rq_queue_mapping_check and
 * _succeed; its reference goes to the table on RMQ_OK. RMQ_ERR_INVALID, RMQ_ERR_NOMEM. */
rmq_status rq_queue_mappings_put(struct rq_queue_mappings *mappings,
                                 struct rq_queue_mapping *mapping, bool force, rmq_error **err);

/* Puts next in the place of old, as upkeep does, unless that has been replaced meanwhile. The
 * reference of next goes to the table when it is true. */
bool rq_queue_mappings_replace(struct rq_queue_mappings *mappings,
                               const struct rq_queue_mapping *old, struct rq_queue_mapping *next);
bool rq_queue_mappings_remove(struct rq_queue_mappings *mappings, struct rq_slice topic);

/* Names of the static topics, each with a NUL. */
void rq_queue_mappings_names(struct rq_queue_mappings *mappings, struct rq_buf *out);

/* {"topic":…} of what name servers are told; of all there is. */
void rq_queue_mappings_write_infos(struct rq_queue_mappings *mappings, struct rq_buf *out);
void rq_queue_mappings_write_details(struct rq_queue_mappings *mappings, struct rq_buf *out);
struct rq_data_version rq_queue_mappings_version(struct rq_queue_mappings *mappings);

#endif
