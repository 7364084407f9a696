/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The consumer groups of a broker: subscriptionGroup.json in memory. Any thread. Counterparts:
 * SubscriptionGroupManager, SubscriptionGroupConfig.
 */
#ifndef RQ_BROKER_GROUPS_H
#define RQ_BROKER_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/table_file.h"
#include "base/thread.h"
#include "broker/data_version.h"

struct rq_group_info {
    bool consume_enable;
    bool consume_from_min_enable;
    bool consume_broadcast_enable;
    bool consume_message_orderly;
    bool notify_consumer_ids_changed_enable;
    int32_t retry_queue_nums;
    int32_t retry_max_times;
    int64_t broker_id;
    int64_t which_broker_when_consume_slowly;
    int32_t group_sys_flag;
    int32_t consume_timeout_minute;
    bool any_forbidden; /* of the table, not of the group: some group may not read some topic */
};

struct rq_groups {
    struct rq_mutex lock; /* rank: broker tables; guards all below */
    struct rq_map table;  /* name -> struct group */
    struct rq_data_version version;
    char *forbidden; /* JSON text of the forbidden table, as read */
    struct rq_table_file file;
    bool auto_create;
};

void rq_groups_init(struct rq_groups *groups);
/* at start; NULL: nothing is written */
rmq_status rq_groups_set_path(struct rq_groups *groups, const char *path);
void rq_groups_free(struct rq_groups *groups);
rmq_status rq_groups_load(struct rq_groups *groups, rmq_error **err);
rmq_status rq_groups_persist(struct rq_groups *groups, rmq_error **err); /* only when dirty */

/* Looks a group up, and creates an unknown one with defaults when that is allowed and its name is
 * legal. */
bool rq_groups_get(struct rq_groups *groups, struct rq_slice name, struct rq_group_info *out);
bool rq_groups_exists(struct rq_groups *groups, struct rq_slice name); /* creates nothing */

/* Creates or replaces from a SubscriptionGroupConfig. RMQ_ERR_INVALID: no legal groupName. */
rmq_status rq_groups_put_json(struct rq_groups *groups, const cJSON *json);
rmq_status rq_groups_add_default(struct rq_groups *groups, const char *name);
bool rq_groups_remove(struct rq_groups *groups, struct rq_slice name);

/* Whether a group may not read a topic, and setting that. RMQ_ERR_NOMEM. */
bool rq_groups_is_forbidden(struct rq_groups *groups, struct rq_slice group, struct rq_slice topic);
rmq_status rq_groups_forbid(struct rq_groups *groups, struct rq_slice group, struct rq_slice topic,
                            bool forbidden);

/* All names, each followed by a NUL. */
void rq_groups_each(struct rq_groups *groups, struct rq_buf *names);

/* The members of the file and of body 201, without the braces around. */
void rq_groups_write(struct rq_groups *groups, struct rq_buf *out);
bool rq_groups_write_one(struct rq_groups *groups, struct rq_slice name, struct rq_buf *out);

#endif
