/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The topics of a broker: topics.json in memory. Any thread. A change is written to disk by whoever
 * calls rq_topics_persist and announced to the name servers by the registration. Counterpart:
 * TopicConfigManager.
 */
#ifndef RQ_BROKER_TOPICS_H
#define RQ_BROKER_TOPICS_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/table_file.h"
#include "base/thread.h"
#include "broker/data_version.h"
#include "wire/command.h"

#define RQ_TOPIC_SYS_FLAG_UNIT     1
#define RQ_TOPIC_SYS_FLAG_UNIT_SUB 2

#define RQ_TOPIC_QUEUES_MAX 65536

struct rq_topic_info {
    int32_t read_queue_nums;
    int32_t write_queue_nums;
    int32_t perm;
    int32_t sys_flag;
    bool order;
    bool multi_tag;
    bool is_static; /* its queues are mapped: as rq_topics_mark_static says, else it is ignored */
};

struct rq_topics {
    struct rq_mutex lock; /* rank: broker tables; guards all below */
    struct rq_map table;  /* name -> struct topic */
    struct rq_data_version version;
    struct rq_table_file file;
};

void rq_topics_init(struct rq_topics *topics);
/* at start; NULL: nothing is written */
rmq_status rq_topics_set_path(struct rq_topics *topics, const char *path);
void rq_topics_free(struct rq_topics *topics);

/* Reads the file, or its .bak when it is missing or broken. No file is no error. */
rmq_status rq_topics_load(struct rq_topics *topics, rmq_error **err);
rmq_status rq_topics_persist(struct rq_topics *topics, rmq_error **err); /* only when dirty */

bool rq_topics_get(struct rq_topics *topics, struct rq_slice name, struct rq_topic_info *out);
/* Its attributes, JSON text of an object, with a NUL; false when there is no such topic. */
bool rq_topics_attributes(struct rq_topics *topics, struct rq_slice name, struct rq_buf *out);
size_t rq_topics_count(struct rq_topics *topics);

/* Creates or replaces. attributes is JSON text of an object; p NULL leaves them as they are.
 * *changed may be NULL. */
rmq_status rq_topics_put(struct rq_topics *topics, struct rq_slice name,
                         const struct rq_topic_info *info, struct rq_slice attributes,
                         bool *changed);

/* Creates a topic unless it is there; *created tells which. */
rmq_status rq_topics_add(struct rq_topics *topics, struct rq_slice name,
                         const struct rq_topic_info *info, bool *created);
bool rq_topics_remove(struct rq_topics *topics, struct rq_slice name);

/* Whether the topic, if it is there, has a mapping of its queues (queue_mappings.h). */
void rq_topics_mark_static(struct rq_topics *topics, struct rq_slice name, bool is_static);

/* {"dataVersion":…,"topicConfigTable":{…}} without the braces around; perm is masked with
 * perm_mask. only.p NULL = all topics. */
void rq_topics_write(struct rq_topics *topics, struct rq_buf *out, struct rq_slice only,
                     int32_t perm_mask);

/* One TopicConfig as JSON; false when there is no such topic. */
bool rq_topics_write_one(struct rq_topics *topics, struct rq_slice name, struct rq_buf *out);

/* Reads a TopicConfig; defaults where members are missing. */
void rq_topic_info_read(const cJSON *json, struct rq_topic_info *out);

/* What is told of the topics has changed though no topic has: the data version moves on. */
void rq_topics_touch(struct rq_topics *topics);

struct rq_data_version rq_topics_version(struct rq_topics *topics);

#endif
