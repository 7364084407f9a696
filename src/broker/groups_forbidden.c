/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Topics that a group may not read, though it subscribes to them: the forbidden table of
 * subscriptionGroup.json, {"group":{"topic":bits}}. It is nearly always empty, so it is kept as
 * text. Any thread. Counterpart: SubscriptionGroupManager.getForbidden. */
#include <stdlib.h>

#include "base/mem.h"
#include "broker/groups.h"

#define READ_BIT 1 /* 1 << PermName.INDEX_PERM_READ */

/* The table, or NULL when it is empty. */
static cJSON *table_locked(const struct rq_groups *groups)
{
    cJSON *json = NULL;
    if (groups->forbidden) {
        (void)rq_json_parse(rq_slice_str(groups->forbidden), &json, NULL);
    }
    return json;
}

static bool is_set(const cJSON *table, const char *group, const char *topic)
{
    return (rq_json_i32(rq_json_get(table, group), topic, 0) & READ_BIT) != 0;
}

static bool ask(struct rq_groups *groups, const char *group, const char *topic)
{
    rq_mutex_lock(&groups->lock);
    cJSON *table = table_locked(groups);
    bool forbidden = is_set(table, group, topic);
    rq_json_free(table);
    rq_mutex_unlock(&groups->lock);
    return forbidden;
}

bool rq_groups_is_forbidden(struct rq_groups *groups, struct rq_slice group, struct rq_slice topic)
{
    char *group_text = rq_slice_dup(group);
    char *topic_text = rq_slice_dup(topic);
    bool forbidden = group_text && topic_text && ask(groups, group_text, topic_text);
    rq_free(group_text);
    rq_free(topic_text);
    return forbidden;
}

/* Sets or clears the bit in a table that may be NULL; an entry without bits goes. */
static void change(cJSON *table, const char *group, const char *topic, bool forbidden)
{
    cJSON *topics = cJSON_GetObjectItemCaseSensitive(table, group);
    int32_t bits = rq_json_i32(topics, topic, 0);
    bits = forbidden ? bits | READ_BIT : bits & ~READ_BIT;
    cJSON_DeleteItemFromObjectCaseSensitive(topics, topic);
    if (bits && !topics) {
        topics = cJSON_AddObjectToObject(table, group);
    }
    if (bits) {
        (void)cJSON_AddNumberToObject(topics, topic, bits);
    } else if (topics && !topics->child) {
        cJSON_DeleteItemFromObjectCaseSensitive(table, group);
    }
}

static rmq_status put_locked(struct rq_groups *groups, const char *group, const char *topic,
                             bool forbidden)
{
    cJSON *table = table_locked(groups);
    if (!table) {
        table = cJSON_CreateObject();
    }
    change(table, group, topic, forbidden);
    char *printed = cJSON_PrintUnformatted(table);
    char *text = printed ? rq_strdup(printed) : NULL;
    cJSON_free(printed);
    cJSON_Delete(table);
    if (!text) {
        return RMQ_ERR_NOMEM;
    }
    rq_free(groups->forbidden);
    groups->forbidden = text;
    groups->file.dirty = true;
    rq_data_version_next(&groups->version);
    return RMQ_OK;
}

rmq_status rq_groups_forbid(struct rq_groups *groups, struct rq_slice group, struct rq_slice topic,
                            bool forbidden)
{
    char *group_text = rq_slice_dup(group);
    char *topic_text = rq_slice_dup(topic);
    rmq_status st = RMQ_ERR_NOMEM;
    if (group_text && topic_text) {
        rq_mutex_lock(&groups->lock);
        st = put_locked(groups, group_text, topic_text, forbidden);
        rq_mutex_unlock(&groups->lock);
    }
    rq_free(group_text);
    rq_free(topic_text);
    return st;
}
