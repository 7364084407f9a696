/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Consumer groups as brokers know them: settings, names, members. Counterparts: MQClientAPIImpl,
 * DefaultMQAdminExtImpl.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "client/admin_priv.h"

#define WHAT_MAX (RQ_NAME_MAX + 40)

/* ---- settings ---- */

void rmq_group_options_init(rmq_group_options *options, size_t size)
{
    const struct rq_group_config def = rq_group_config_default("");
    const rmq_group_options all = {.struct_size = size,
                                   .consume_enable = def.consume_enable,
                                   .consume_from_min_enable = def.consume_from_min_enable,
                                   .consume_broadcast_enable = def.consume_broadcast_enable,
                                   .consume_message_orderly = def.consume_message_orderly,
                                   .retry_queue_nums = def.retry_queue_nums,
                                   .retry_max_times = def.retry_max_times,
                                   .notify_consumer_ids_changed_enable =
                                       def.notify_consumer_ids_changed_enable};
    if (options && size >= sizeof options->struct_size) {
        memset(options, 0, size);
        memcpy(options, &all, size < sizeof all ? size : sizeof all);
    }
}

static rmq_status config_of(const char *group, const rmq_group_options *given,
                            struct rq_group_config *config, rmq_error **err)
{
    rmq_group_options all;
    rmq_group_options_init(&all, sizeof all);
    if (given && given->struct_size < sizeof given->struct_size) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "group options were not made by rmq_group_options_init");
    }
    if (given) {
        memcpy(&all, given, given->struct_size < sizeof all ? given->struct_size : sizeof all);
    }
    if (all.retry_queue_nums < 0 || all.retry_max_times < -1) {
        return rq_error_set(err, RMQ_ERR_INVALID, "group %s: %d retry queues, %d retries", group,
                            (int)all.retry_queue_nums, (int)all.retry_max_times);
    }
    *config = rq_group_config_default(group);
    config->consume_enable = all.consume_enable;
    config->consume_from_min_enable = all.consume_from_min_enable;
    config->consume_broadcast_enable = all.consume_broadcast_enable;
    config->consume_message_orderly = all.consume_message_orderly;
    config->retry_queue_nums = all.retry_queue_nums;
    config->retry_max_times = all.retry_max_times;
    config->notify_consumer_ids_changed_enable = all.notify_consumer_ids_changed_enable;
    return RMQ_OK;
}

rmq_status rmq_admin_create_group(rmq_admin *admin, const char *cluster, const char *group,
                                  const rmq_group_options *options, int64_t timeout_ms,
                                  rmq_error **err)
{
    int64_t deadline;
    struct rq_group_config config;
    rmq_status st = rq_admin_begin(admin, group, "group", timeout_ms, &deadline, err);
    if (st == RMQ_OK) {
        st = rq_group_check(rq_slice_str(group), err);
    }
    if (st == RMQ_OK) {
        st = config_of(group, options, &config, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_group_config_write(&config, &body);
    char what[WHAT_MAX];
    (void)snprintf(what, sizeof what, "creation of group %s", group);
    const struct rq_admin_question ask = {.code = RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                                          .body = rq_slice(body.data, body.len),
                                          .what = what};
    st = rq_buf_status(&body) == RMQ_OK ? rq_admin_ask_cluster(admin, cluster, &ask, deadline, err)
                                        : rq_error_set(err, RMQ_ERR_NOMEM, "%s", what);
    rq_buf_free(&body);
    return st;
}

/* ---- names from several brokers, each once ---- */

struct name_set {
    struct rq_map seen;
    struct rq_buf lines;
};

static rmq_status add_name(struct name_set *set, const char *name, rmq_error **err)
{
    struct rq_slice key = rq_slice_str(name);
    if (rq_map_get(&set->seen, key)) {
        return RMQ_OK;
    }
    rq_buf_add_slice(&set->lines, key);
    rq_buf_add_char(&set->lines, '\n');
    return rq_map_put(&set->seen, key, set) == RMQ_OK ? RMQ_OK
                                                      : rq_error_set(err, RMQ_ERR_NOMEM, "names");
}

static rmq_status take_groups(void *user, const char *broker_name, const struct rq_reply *reply,
                              rmq_error **err)
{
    struct rq_group_table table;
    (void)broker_name;
    rmq_status st = rq_group_table_parse(reply->body, &table, err);
    if (st != RMQ_OK) {
        return st;
    }
    for (size_t i = 0; i < table.count && st == RMQ_OK; i++) {
        st = add_name(user, table.groups[i].name, err);
    }
    rq_group_table_clear(&table);
    return st;
}

static rmq_status take_topics(void *user, const char *broker_name, const struct rq_reply *reply,
                              rmq_error **err)
{
    struct rq_queue_table table = {0};
    (void)broker_name;
    rmq_status st = rq_queue_table_parse(reply->body, RQ_QUEUE_TABLE_CONSUME_STATS, &table, err);
    if (st != RMQ_OK) {
        return st;
    }
    for (size_t i = 0; i < table.count && st == RMQ_OK; i++) {
        st = add_name(user, table.rows[i].mq.topic, err);
    }
    rq_queue_table_clear(&table);
    return st;
}

/* Asks all masters; about has all but where the names go. */
static rmq_status collect_names(rmq_admin *admin, const struct rq_admin_question *about,
                                int64_t deadline_ms, char **out, rmq_error **err)
{
    struct name_set set;
    struct rq_admin_question ask = *about;
    rq_map_init(&set.seen);
    rq_buf_init(&set.lines, 0);
    ask.user = &set;
    rmq_status st = rq_admin_ask_cluster(admin, NULL, &ask, deadline_ms, err);
    rq_map_free(&set.seen, NULL);
    if (st != RMQ_OK) {
        rq_buf_free(&set.lines);
        return st;
    }
    return rq_admin_hand_out(&set.lines, out, ask.what, err);
}

rmq_status rmq_admin_group_list(rmq_admin *admin, int64_t timeout_ms, char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, out, "out", timeout_ms, &deadline, err);
    const struct rq_admin_question ask = {
        .code = RQ_REQ_GET_ALL_SUBSCRIPTIONGROUP_CONFIG, .what = "group list", .take = take_groups};
    return st == RMQ_OK ? collect_names(admin, &ask, deadline, out, err) : st;
}

rmq_status rmq_admin_group_topics(rmq_admin *admin, const char *group, int64_t timeout_ms,
                                  char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, group && out, "group, out", timeout_ms, &deadline, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_consume_stats fields = {.consumer_group = rq_slice_str(group)};
    char what[WHAT_MAX];
    (void)snprintf(what, sizeof what, "topics of group %s", group);
    /* There is a question for that (343), which brokers before 5.0 do not know. */
    const struct rq_admin_question ask = {.code = RQ_REQ_GET_CONSUME_STATS,
                                          .table = &rq_tab_consume_stats,
                                          .fields = &fields,
                                          .what = what,
                                          .take = take_topics};
    return collect_names(admin, &ask, deadline, out, err);
}

/* ---- what each broker says, as {"broker name": its words, …} ---- */

struct by_broker {
    const char *group;
    struct rq_buf json;
    size_t count;
    bool first;
};

static void add_object(struct by_broker *all, const char *broker_name, struct rq_slice text)
{
    rq_json_add_member(&all->json, &all->first, broker_name);
    rq_buf_add_slice(&all->json, text);
    all->count++;
}

/* The whole answer. */
static rmq_status take_object(void *user, const char *broker_name, const struct rq_reply *reply,
                              rmq_error **err)
{
    cJSON *json = NULL;
    rmq_status st = rq_json_parse(reply->body, &json, err);
    if (st == RMQ_OK) {
        add_object(user, broker_name, reply->body);
        rq_json_free(json);
    }
    return st;
}

/* What the table of all groups has of one. */
static rmq_status take_settings(void *user, const char *broker_name, const struct rq_reply *reply,
                                rmq_error **err)
{
    struct by_broker *all = user;
    cJSON *json = NULL;
    rmq_status st = rq_json_parse(reply->body, &json, err);
    const cJSON *settings = rq_json_get(rq_json_get(json, "subscriptionGroupTable"), all->group);
    char *text = settings ? cJSON_PrintUnformatted(settings) : NULL;
    if (text) {
        add_object(all, broker_name, rq_slice_str(text));
        cJSON_free(text);
    } else if (settings) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "settings of group %s", all->group);
    }
    rq_json_free(json);
    return st;
}

static rmq_status collect_objects(rmq_admin *admin, const char *group,
                                  const struct rq_admin_question *about, int64_t deadline_ms,
                                  char **out, rmq_error **err)
{
    struct by_broker all = {.group = group, .first = true};
    struct rq_admin_question ask = *about;
    rq_buf_init(&all.json, 0);
    rq_buf_add_char(&all.json, '{');
    ask.user = &all;
    rmq_status st = rq_admin_ask_cluster(admin, NULL, &ask, deadline_ms, err);
    if (st == RMQ_OK && all.count == 0) {
        st = rq_error_set(err, RMQ_ERR_NOT_FOUND, "%s: not known to any broker", ask.what);
    }
    if (st != RMQ_OK) {
        rq_buf_free(&all.json);
        return st;
    }
    rq_buf_add_char(&all.json, '}');
    return rq_admin_hand_out(&all.json, out, ask.what, err);
}

rmq_status rmq_admin_group_config(rmq_admin *admin, const char *group, int64_t timeout_ms,
                                  char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, group && out, "group, out", timeout_ms, &deadline, err);
    if (st != RMQ_OK) {
        return st;
    }
    char what[WHAT_MAX];
    (void)snprintf(what, sizeof what, "settings of group %s", group);
    /* Asked for this group alone (352), a Java broker would create it. */
    const struct rq_admin_question ask = {
        .code = RQ_REQ_GET_ALL_SUBSCRIPTIONGROUP_CONFIG, .what = what, .take = take_settings};
    return collect_objects(admin, group, &ask, deadline, out, err);
}

rmq_status rmq_admin_group_connections(rmq_admin *admin, const char *group, int64_t timeout_ms,
                                       char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, group && out, "group, out", timeout_ms, &deadline, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_consumer_group fields = {.consumer_group = rq_slice_str(group)};
    char what[WHAT_MAX];
    (void)snprintf(what, sizeof what, "connected members of group %s", group);
    const struct rq_admin_question ask = {.code = RQ_REQ_GET_CONSUMER_CONNECTION_LIST,
                                          .table = &rq_tab_consumer_group,
                                          .fields = &fields,
                                          .what = what,
                                          .not_found = RQ_RESP_CONSUMER_NOT_ONLINE,
                                          .take = take_object};
    return collect_objects(admin, group, &ask, deadline, out, err);
}

/* ---- removal ---- */

struct search {
    const char *group;
    bool found;
};

static rmq_status look_for(void *user, const char *broker_name, const struct rq_reply *reply,
                           rmq_error **err)
{
    struct search *search = user;
    struct rq_group_table table;
    (void)broker_name;
    rmq_status st = rq_group_table_parse(reply->body, &table, err);
    if (st == RMQ_OK) {
        for (size_t i = 0; i < table.count; i++) {
            search->found |= strcmp(table.groups[i].name, search->group) == 0;
        }
        rq_group_table_clear(&table);
    }
    return st;
}

/* A broker answers a removal with success whether it had the group or not. */
static rmq_status is_known(rmq_admin *admin, const char *cluster, const char *group,
                           int64_t deadline_ms, bool *known, rmq_error **err)
{
    struct search search = {.group = group};
    const struct rq_admin_question ask = {.code = RQ_REQ_GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
                                          .what = "group list",
                                          .take = look_for,
                                          .user = &search};
    rmq_status st = rq_admin_ask_cluster(admin, cluster, &ask, deadline_ms, err);
    *known = search.found;
    return st;
}

rmq_status rmq_admin_delete_group(rmq_admin *admin, const char *cluster, const char *group,
                                  bool remove_offsets, int64_t timeout_ms, rmq_error **err)
{
    int64_t deadline;
    bool known = false;
    rmq_status st = rq_admin_begin(admin, group, "group", timeout_ms, &deadline, err);
    if (st == RMQ_OK) {
        st = is_known(admin, cluster, group, deadline, &known, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_delete_group fields = {.group_name = rq_slice_str(group)};
    RQ_SET(delete_group, &fields, clean_offset, remove_offsets);
    char what[WHAT_MAX];
    (void)snprintf(what, sizeof what, "removal of group %s", group);
    const struct rq_admin_question ask = {.code = RQ_REQ_DELETE_SUBSCRIPTIONGROUP,
                                          .table = &rq_tab_delete_group,
                                          .fields = &fields,
                                          .what = what};
    st = rq_admin_ask_cluster(admin, cluster, &ask, deadline, err);
    if (st == RMQ_OK && !known) {
        st = rq_error_set(err, RMQ_ERR_NOT_FOUND, "%s: not known to any broker", what);
    }
    return st;
}
