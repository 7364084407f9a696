/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Group table with its file subscriptionGroup.json. Any thread, one lock. Counterpart:
 * SubscriptionGroupManager. */
#include "broker/groups.h"

#include <string.h>

#include "base/mem.h"
#include "wire/names.h"

#define DEFAULT_RETRY_TIMES 16

struct group {
    struct rq_group_info info;
    /* members that we only keep: "groupRetryPolicy":…,"attributes":…,"subscriptionDataSet":… */
    char *rest;
};

static const char default_rest[] =
    "\"attributes\":{},\"groupRetryPolicy\":{\"type\":\"CUSTOMIZED\"}";

static void free_group(void *p)
{
    struct group *group = p;
    rq_free(group->rest);
    rq_free(group);
}

void rq_groups_init(struct rq_groups *groups)
{
    memset(groups, 0, sizeof *groups);
    rq_mutex_init(&groups->lock);
    rq_table_file_init(&groups->file);
    rq_map_init(&groups->table);
}

rmq_status rq_groups_set_path(struct rq_groups *groups, const char *path)
{
    return rq_table_file_set_path(&groups->file, path);
}

void rq_groups_free(struct rq_groups *groups)
{
    rq_map_free(&groups->table, free_group);
    rq_free(groups->forbidden);
    rq_mutex_destroy(&groups->lock);
    rq_table_file_free(&groups->file);
}

static void read_info(const cJSON *json, struct rq_group_info *out)
{
    out->consume_enable = rq_json_bool(json, "consumeEnable", true);
    out->consume_from_min_enable = rq_json_bool(json, "consumeFromMinEnable", true);
    out->consume_broadcast_enable = rq_json_bool(json, "consumeBroadcastEnable", true);
    out->consume_message_orderly = rq_json_bool(json, "consumeMessageOrderly", false);
    out->notify_consumer_ids_changed_enable =
        rq_json_bool(json, "notifyConsumerIdsChangedEnable", true);
    out->retry_queue_nums = rq_json_i32(json, "retryQueueNums", 1);
    out->retry_max_times = rq_json_i32(json, "retryMaxTimes", DEFAULT_RETRY_TIMES);
    out->broker_id = rq_json_i64(json, "brokerId", 0);
    out->which_broker_when_consume_slowly = rq_json_i64(json, "whichBrokerWhenConsumeSlowly", 1);
    out->group_sys_flag = rq_json_i32(json, "groupSysFlag", 0);
    out->consume_timeout_minute = rq_json_i32(json, "consumeTimeoutMinute", 15);
}

static void set_defaults(struct rq_group_info *info)
{
    read_info(NULL, info);
}

static void keep_member(struct rq_buf *out, const cJSON *json, const char *name, const char *def)
{
    const cJSON *item = rq_json_get(json, name);
    char *text = item ? cJSON_PrintUnformatted(item) : NULL;
    if (text || def) {
        rq_buf_addf(out, "%s\"%s\":%s", out->len ? "," : "", name, text ? text : def);
    }
    cJSON_free(text);
}

static char *rest_of(const cJSON *json)
{
    struct rq_buf out;
    rq_buf_init(&out, 0);
    keep_member(&out, json, "attributes", "{}");
    keep_member(&out, json, "groupRetryPolicy", "{\"type\":\"CUSTOMIZED\"}");
    keep_member(&out, json, "subscriptionDataSet", NULL);
    return rq_buf_detach(&out);
}

/* Takes rest. */
static rmq_status put_locked(struct rq_groups *groups, struct rq_slice name,
                             const struct rq_group_info *info, char *rest)
{
    struct group *group = rq_map_get(&groups->table, name);
    if (!rest) {
        return RMQ_ERR_NOMEM;
    }
    if (!group) {
        group = rq_calloc(1, sizeof *group);
        if (!group || rq_map_put(&groups->table, name, group)) {
            rq_free(group);
            rq_free(rest);
            return RMQ_ERR_NOMEM;
        }
    }
    group->info = *info;
    rq_free(group->rest);
    group->rest = rest;
    groups->file.dirty = true;
    return RMQ_OK;
}

bool rq_groups_get(struct rq_groups *groups, struct rq_slice name, struct rq_group_info *out)
{
    rq_mutex_lock(&groups->lock);
    const struct group *group = rq_map_get(&groups->table, name);
    if (!group && groups->auto_create && rq_group_check(name, NULL) == RMQ_OK) {
        struct rq_group_info info;
        set_defaults(&info);
        if (put_locked(groups, name, &info, rq_strdup(default_rest)) == RMQ_OK) {
            rq_data_version_next(&groups->version);
        }
        group = rq_map_get(&groups->table, name);
    }
    if (group) {
        *out = group->info;
        out->any_forbidden =
            groups->forbidden && groups->forbidden[0] && groups->forbidden[1] != '}';
    }
    rq_mutex_unlock(&groups->lock);
    return group != NULL;
}

bool rq_groups_exists(struct rq_groups *groups, struct rq_slice name)
{
    rq_mutex_lock(&groups->lock);
    bool found = rq_map_get(&groups->table, name) != NULL;
    rq_mutex_unlock(&groups->lock);
    return found;
}

static rmq_status put_json_locked(struct rq_groups *groups, const char *name, const cJSON *json)
{
    struct rq_group_info info;
    read_info(json, &info);
    return put_locked(groups, rq_slice_str(name), &info, rest_of(json));
}

rmq_status rq_groups_put_json(struct rq_groups *groups, const cJSON *json)
{
    const char *name = rq_json_str(json, "groupName", NULL);
    if (!name || rq_group_check(rq_slice_str(name), NULL)) {
        return RMQ_ERR_INVALID;
    }
    rq_mutex_lock(&groups->lock);
    rmq_status st = put_json_locked(groups, name, json);
    rq_data_version_next(&groups->version);
    rq_mutex_unlock(&groups->lock);
    return st;
}

rmq_status rq_groups_add_default(struct rq_groups *groups, const char *name)
{
    struct rq_group_info info;
    rmq_status st = RMQ_OK;
    set_defaults(&info);
    rq_mutex_lock(&groups->lock);
    if (!rq_map_get(&groups->table, rq_slice_str(name))) {
        st = put_locked(groups, rq_slice_str(name), &info, rq_strdup(default_rest));
    }
    rq_mutex_unlock(&groups->lock);
    return st;
}

bool rq_groups_remove(struct rq_groups *groups, struct rq_slice name)
{
    rq_mutex_lock(&groups->lock);
    struct group *group = rq_map_remove(&groups->table, name);
    if (group) {
        free_group(group);
        groups->file.dirty = true;
        rq_data_version_next(&groups->version);
    }
    rq_mutex_unlock(&groups->lock);
    return group != NULL;
}

void rq_groups_each(struct rq_groups *groups, struct rq_buf *names)
{
    const struct rq_map_entry *entry;
    rq_mutex_lock(&groups->lock);
    for (size_t i = 0; (entry = rq_map_next(&groups->table, &i));) {
        rq_buf_add(names, entry->key, entry->key_len + 1);
    }
    rq_mutex_unlock(&groups->lock);
}

static const char *flag_text(bool flag)
{
    return flag ? "true" : "false";
}

static void write_group(const struct rq_map_entry *entry, struct rq_buf *out)
{
    const struct group *group = entry->value;
    const struct rq_group_info *info = &group->info;
    rq_buf_addf(out, "{%s,\"brokerId\":%lld,\"consumeBroadcastEnable\":%s,\"consumeEnable\":%s,",
                group->rest, (long long)info->broker_id, flag_text(info->consume_broadcast_enable),
                flag_text(info->consume_enable));
    rq_buf_addf(out,
                "\"consumeFromMinEnable\":%s,\"consumeMessageOrderly\":%s,"
                "\"consumeTimeoutMinute\":%d,\"groupName\":",
                flag_text(info->consume_from_min_enable), flag_text(info->consume_message_orderly),
                info->consume_timeout_minute);
    rq_json_add_string(out, rq_slice(entry->key, entry->key_len));
    rq_buf_addf(out,
                ",\"groupSysFlag\":%d,\"notifyConsumerIdsChangedEnable\":%s,\"retryMaxTimes\":%d,"
                "\"retryQueueNums\":%d,\"whichBrokerWhenConsumeSlowly\":%lld}",
                info->group_sys_flag, flag_text(info->notify_consumer_ids_changed_enable),
                info->retry_max_times, info->retry_queue_nums,
                (long long)info->which_broker_when_consume_slowly);
}

static void write_locked(struct rq_groups *groups, struct rq_buf *out, const char *line)
{
    bool first = true;
    rq_buf_add_str(out, "\"dataVersion\":");
    rq_data_version_write(&groups->version, out);
    rq_buf_addf(out, ",%s\"forbiddenTable\":%s,%s\"subscriptionGroupTable\":{", line,
                groups->forbidden ? groups->forbidden : "{}", line);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&groups->table, &i));) {
        rq_buf_addf(out, "%s%s", first ? "" : ",", line);
        rq_json_add_string(out, rq_slice(entry->key, entry->key_len));
        rq_buf_add_char(out, ':');
        write_group(entry, out);
        first = false;
    }
    rq_buf_addf(out, "%s}", line);
}

void rq_groups_write(struct rq_groups *groups, struct rq_buf *out)
{
    rq_mutex_lock(&groups->lock);
    write_locked(groups, out, "");
    rq_mutex_unlock(&groups->lock);
}

bool rq_groups_write_one(struct rq_groups *groups, struct rq_slice name, struct rq_buf *out)
{
    bool found = false;
    rq_mutex_lock(&groups->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; !found && (entry = rq_map_next(&groups->table, &i));) {
        found = rq_slice_eq(name, rq_slice(entry->key, entry->key_len));
        if (found) {
            write_group(entry, out);
        }
    }
    rq_mutex_unlock(&groups->lock);
    return found;
}

static rmq_status read_groups(void *user, const cJSON *root)
{
    struct rq_groups *groups = user;
    const cJSON *json;
    rq_data_version_parse(rq_json_get(root, "dataVersion"), &groups->version);
    const cJSON *forbidden = rq_json_get(root, "forbiddenTable");
    if (cJSON_IsObject(forbidden)) {
        char *text = cJSON_PrintUnformatted(forbidden);
        rq_free(groups->forbidden);
        groups->forbidden = text ? rq_strdup(text) : NULL;
        cJSON_free(text);
    }
    cJSON_ArrayForEach(json, rq_json_get(root, "subscriptionGroupTable"))
    {
        rmq_status st = put_json_locked(groups, json->string, json);
        if (st) {
            return st;
        }
    }
    return RMQ_OK;
}

rmq_status rq_groups_load(struct rq_groups *groups, rmq_error **err)
{
    return rq_table_file_load(&groups->file, read_groups, groups, err);
}

static void write_file(void *table, struct rq_buf *out, const char *line)
{
    write_locked(table, out, line);
}

rmq_status rq_groups_persist(struct rq_groups *groups, rmq_error **err)
{
    return rq_table_file_persist(&groups->file, &groups->lock, write_file, groups, err);
}
