/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Registry of consumers and producers: how it changes and what is looked up in it. Any thread.
 * Counterparts: ConsumerManager, ConsumerGroupInfo, ProducerManager. */
#include "broker/clients.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "broker/clients_priv.h"
#include "broker/filter.h"
#include "broker/sql.h"

static void free_member(struct rq_member *member)
{
    rq_conn_release(member->conn);
    rq_free(member->client_id);
}

static void free_members(struct rq_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        free_member(&members->items[i]);
    }
    rq_free(members->items);
}

void rq_shared_subscription_release(struct rq_shared_subscription *shared)
{
    if (shared && atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) == 1) {
        rq_subscription_destroy(shared->sub);
        rq_sql_destroy(shared->sql);
        rq_free(shared);
    }
}

static void free_group(void *p)
{
    struct rq_consumer_group *group = p;
    free_members(&group->members);
    for (size_t i = 0; i < group->sub_count; i++) {
        rq_shared_subscription_release(group->subs[i]);
    }
    rq_free(group->subs);
    rq_free(group);
}

static void free_producers(void *p)
{
    free_members(p);
    rq_free(p);
}

void rq_clients_init(struct rq_clients *clients)
{
    rq_mutex_init(&clients->lock);
    rq_map_init(&clients->consumers);
    rq_map_init(&clients->producers);
}

void rq_clients_free(struct rq_clients *clients)
{
    rq_map_free(&clients->consumers, free_group);
    rq_map_free(&clients->producers, free_producers);
    rq_mutex_destroy(&clients->lock);
}

static struct rq_member *find_member(const struct rq_members *members, const struct rq_conn *conn)
{
    for (size_t i = 0; i < members->count; i++) {
        if (members->items[i].conn == conn) {
            return &members->items[i];
        }
    }
    return NULL;
}

/* Adds or renews; *added tells which. */
static rmq_status put_member(struct rq_members *members, const struct rq_client_info *client,
                             bool *added)
{
    struct rq_member *member = find_member(members, client->conn);
    *added = !member;
    if (!member) {
        struct rq_member *items = rq_realloc(members->items, (members->count + 1) * sizeof *items);
        char *client_id = rq_strdup(client->client_id);
        if (items) {
            members->items = items;
        }
        if (!items || !client_id) {
            rq_free(client_id);
            return RMQ_ERR_NOMEM;
        }
        member = &items[members->count++];
        *member = (struct rq_member){.conn = rq_conn_retain(client->conn), .client_id = client_id};
    }
    member->language = client->language;
    member->version = client->version;
    member->last_ms = client->now_ms;
    member->last_wall_ms = rq_wall_ms();
    return RMQ_OK;
}

static bool remove_member(struct rq_members *members, const struct rq_conn *conn)
{
    struct rq_member *member = find_member(members, conn);
    if (!member) {
        return false;
    }
    free_member(member);
    size_t at = (size_t)(member - members->items);
    members->count--;
    memmove(member, member + 1, (members->count - at) * sizeof *member);
    return true;
}

static struct rq_shared_subscription **find_sub(const struct rq_consumer_group *group,
                                                struct rq_slice topic)
{
    for (size_t i = 0; i < group->sub_count; i++) {
        if (rq_slice_eq_str(topic, group->subs[i]->sub->topic)) {
            return &group->subs[i];
        }
    }
    return NULL;
}

/* Takes sub in any case. */
static rmq_status put_sub(struct rq_consumer_group *group, struct rq_subscription *sub, bool *added)
{
    struct rq_shared_subscription **place = find_sub(group, rq_slice_str(sub->topic));
    if (place && (*place)->sub->version >= sub->version) {
        rq_subscription_destroy(sub);
        return RMQ_OK;
    }
    struct rq_shared_subscription *shared = rq_shared_subscription_create(sub, NULL);
    if (shared && !place) {
        struct rq_shared_subscription **subs =
            rq_realloc(group->subs, (group->sub_count + 1) * sizeof *subs);
        if (subs) {
            group->subs = subs;
            place = &subs[group->sub_count++];
            *place = NULL;
            *added = true;
        }
    }
    if (!shared || !place) {
        rq_shared_subscription_release(shared);
        return RMQ_ERR_NOMEM;
    }
    rq_shared_subscription_release(*place);
    *place = shared;
    return RMQ_OK;
}

static bool data_has_topic(const struct rq_consumer_data *data, const char *topic)
{
    for (size_t i = 0; i < data->subscription_count; i++) {
        if (data->subscriptions[i] && strcmp(data->subscriptions[i]->topic, topic) == 0) {
            return true;
        }
    }
    return false;
}

static void drop_sub(struct rq_consumer_group *group, size_t at)
{
    rq_shared_subscription_release(group->subs[at]);
    group->subs[at] = group->subs[--group->sub_count];
}

/* Topics that the heartbeat no longer names go; new and newer ones come. */
static rmq_status put_subs(struct rq_consumer_group *group, struct rq_consumer_data *data,
                           bool *changed)
{
    for (size_t i = group->sub_count; i-- > 0;) {
        if (!data_has_topic(data, group->subs[i]->sub->topic)) {
            drop_sub(group, i);
            *changed = true;
        }
    }
    for (size_t i = 0; i < data->subscription_count; i++) {
        struct rq_subscription *sub = rq_heartbeat_take_subscription(data, i);
        bool added = false;
        if (sub && put_sub(group, sub, &added)) {
            return RMQ_ERR_NOMEM;
        }
        *changed = *changed || added;
    }
    return RMQ_OK;
}

static struct rq_consumer_group *make_group(struct rq_clients *clients, const char *name)
{
    struct rq_consumer_group *group = rq_map_get(&clients->consumers, rq_slice_str(name));
    if (!group) {
        group = rq_calloc(1, sizeof *group);
        if (!group || rq_map_put(&clients->consumers, rq_slice_str(name), group)) {
            rq_free(group);
            return NULL;
        }
    }
    return group;
}

/* Members of a group that consume in different ways steal each other's messages: said once for a
 * group. */
static void compare_model(struct rq_consumer_group *group, const struct rq_client_info *client,
                          const struct rq_consumer_data *data, bool is_new)
{
    bool alone = group->members.count < 2 && is_new;
    if (alone || group->told_of_difference ||
        (group->type == data->type && group->model == data->model && group->from == data->from)) {
        return;
    }
    group->told_of_difference = true;
    RQ_LOG(
        WARN, "a member of a group consumes otherwise than the others",
        "group=%s client=%s remote=%s consumeType=%d/%d messageModel=%d/%d consumeFromWhere=%d/%d",
        data->group, client->client_id, rq_conn_remote(client->conn), (int)data->type,
        (int)group->type, (int)data->model, (int)group->model, (int)data->from, (int)group->from);
}

rmq_status rq_clients_put_consumer(struct rq_clients *clients, const struct rq_client_info *client,
                                   struct rq_consumer_data *data, bool without_sub, bool *changed)
{
    bool subs_changed = false;
    *changed = false;
    rq_mutex_lock(&clients->lock);
    struct rq_consumer_group *group = make_group(clients, data->group);
    rmq_status st = group ? put_member(&group->members, client, changed) : RMQ_ERR_NOMEM;
    if (!st) {
        compare_model(group, client, data, *changed);
        group->type = data->type;
        group->model = data->model;
        group->from = data->from;
        if (!without_sub) {
            st = put_subs(group, data, &subs_changed);
        }
        *changed = *changed || subs_changed;
    }
    rq_mutex_unlock(&clients->lock);
    return st;
}

bool rq_clients_other_fingerprint(struct rq_clients *clients, struct rq_slice group,
                                  int32_t fingerprint)
{
    bool other = false;
    rq_mutex_lock(&clients->lock);
    struct rq_consumer_group *found = rq_map_get(&clients->consumers, group);
    if (found) {
        other = found->has_fingerprint && found->fingerprint != fingerprint;
        found->has_fingerprint = true;
        found->fingerprint = fingerprint;
    }
    rq_mutex_unlock(&clients->lock);
    return other;
}

rmq_status rq_clients_put_producer(struct rq_clients *clients, const struct rq_client_info *client,
                                   const char *group)
{
    bool added;
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&clients->lock);
    struct rq_members *members = rq_map_get(&clients->producers, rq_slice_str(group));
    if (!members) {
        members = rq_calloc(1, sizeof *members);
        if (!members || rq_map_put(&clients->producers, rq_slice_str(group), members)) {
            rq_free(members);
            members = NULL;
        }
    }
    st = members ? put_member(members, client, &added) : RMQ_ERR_NOMEM;
    rq_mutex_unlock(&clients->lock);
    return st;
}

/* Removes a member, and the group with its last one. */
static bool leave_locked(struct rq_clients *clients, struct rq_slice name,
                         const struct rq_conn *conn)
{
    struct rq_consumer_group *group = rq_map_get(&clients->consumers, name);
    if (!group || !remove_member(&group->members, conn)) {
        return false;
    }
    if (group->members.count == 0) {
        (void)rq_map_remove(&clients->consumers, name);
        free_group(group);
    }
    return true;
}

void rq_clients_remove_consumer(struct rq_clients *clients, struct rq_slice group,
                                const struct rq_conn *conn, bool *changed)
{
    rq_mutex_lock(&clients->lock);
    bool was_member = leave_locked(clients, group, conn);
    rq_mutex_unlock(&clients->lock);
    if (changed) {
        *changed = was_member;
    }
}

static void leave_producers_locked(struct rq_clients *clients, struct rq_slice name,
                                   const struct rq_conn *conn)
{
    struct rq_members *members = rq_map_get(&clients->producers, name);
    if (members && remove_member(members, conn) && members->count == 0) {
        (void)rq_map_remove(&clients->producers, name);
        free_producers(members);
    }
}

void rq_clients_remove_producer(struct rq_clients *clients, struct rq_slice group,
                                const struct rq_conn *conn)
{
    rq_mutex_lock(&clients->lock);
    leave_producers_locked(clients, group, conn);
    rq_mutex_unlock(&clients->lock);
}

/* Takes the connection out of one consumer group, whose name is copied (NULL without memory: then
 * nobody is told). false: it is in none. */
static bool leave_one_group(struct rq_clients *clients, const struct rq_conn *conn, char **name)
{
    bool left = false;
    rq_mutex_lock(&clients->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; !left && (entry = rq_map_next(&clients->consumers, &i));) {
        const struct rq_consumer_group *group = entry->value;
        if (find_member(&group->members, conn)) {
            *name = rq_strndup(entry->key, entry->key_len);
            left = leave_locked(clients, rq_slice(entry->key, entry->key_len), conn);
        }
    }
    rq_mutex_unlock(&clients->lock);
    return left;
}

void rq_clients_conn_closed(struct rq_clients *clients, const struct rq_conn *conn,
                            void (*left)(void *user, struct rq_slice group), void *user)
{
    char *name = NULL;
    while (leave_one_group(clients, conn, &name)) {
        if (name) {
            left(user, rq_slice_str(name));
        }
        rq_free(name);
        name = NULL;
    }
    rq_mutex_lock(&clients->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&clients->producers, &i));) {
        leave_producers_locked(clients, rq_slice(entry->key, entry->key_len), conn);
    }
    rq_mutex_unlock(&clients->lock);
}

static void close_silent(const struct rq_members *members, int64_t oldest_ms)
{
    for (size_t i = 0; i < members->count; i++) {
        if (members->items[i].last_ms < oldest_ms) {
            RQ_LOG(INFO, "client is silent, its connection is closed", "client=%s remote=%s",
                   members->items[i].client_id, rq_conn_remote(members->items[i].conn));
            rq_conn_close(members->items[i].conn, RMQ_ERR_TIMEOUT);
        }
    }
}

void rq_clients_expire(struct rq_clients *clients, int64_t now_ms, int64_t expires_ms)
{
    rq_mutex_lock(&clients->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&clients->consumers, &i));) {
        const struct rq_consumer_group *group = entry->value;
        close_silent(&group->members, now_ms - expires_ms);
    }
    for (size_t i = 0; (entry = rq_map_next(&clients->producers, &i));) {
        close_silent(entry->value, now_ms - expires_ms);
    }
    rq_mutex_unlock(&clients->lock);
}

struct rq_shared_subscription *rq_clients_subscription(struct rq_clients *clients,
                                                       struct rq_slice group, struct rq_slice topic,
                                                       bool *known)
{
    struct rq_shared_subscription *shared = NULL;
    rq_mutex_lock(&clients->lock);
    const struct rq_consumer_group *found = rq_map_get(&clients->consumers, group);
    *known = found != NULL;
    struct rq_shared_subscription **place = found ? find_sub(found, topic) : NULL;
    if (place) {
        shared = *place;
        atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
    }
    rq_mutex_unlock(&clients->lock);
    return shared;
}

bool rq_clients_model(struct rq_clients *clients, struct rq_slice group, enum rq_message_model *out)
{
    rq_mutex_lock(&clients->lock);
    const struct rq_consumer_group *found = rq_map_get(&clients->consumers, group);
    if (found) {
        *out = found->model;
    }
    rq_mutex_unlock(&clients->lock);
    return found != NULL;
}

struct rq_conn **rq_clients_conns_and_ids(struct rq_clients *clients, struct rq_slice group,
                                          size_t *count, struct rq_buf *ids)
{
    struct rq_conn **conns = NULL;
    *count = 0;
    rq_mutex_lock(&clients->lock);
    const struct rq_consumer_group *found = rq_map_get(&clients->consumers, group);
    if (found && (conns = rq_calloc(found->members.count, sizeof(struct rq_conn *)))) {
        *count = found->members.count;
        for (size_t i = 0; i < *count; i++) {
            conns[i] = rq_conn_retain(found->members.items[i].conn);
            if (ids) {
                rq_buf_add(ids, found->members.items[i].client_id,
                           strlen(found->members.items[i].client_id) + 1);
            }
        }
    }
    rq_mutex_unlock(&clients->lock);
    return conns;
}

struct rq_conn **rq_clients_conns(struct rq_clients *clients, struct rq_slice group, size_t *count)
{
    return rq_clients_conns_and_ids(clients, group, count, NULL);
}

struct rq_conn *rq_clients_find(struct rq_clients *clients, struct rq_slice group,
                                struct rq_slice client_id)
{
    struct rq_conn *conn = NULL;
    rq_mutex_lock(&clients->lock);
    const struct rq_consumer_group *found = rq_map_get(&clients->consumers, group);
    for (size_t i = 0; found && !conn && i < found->members.count; i++) {
        if (rq_slice_eq_str(client_id, found->members.items[i].client_id)) {
            conn = rq_conn_retain(found->members.items[i].conn);
        }
    }
    rq_mutex_unlock(&clients->lock);
    return conn;
}

struct rq_conn *rq_clients_producer(struct rq_clients *clients, struct rq_slice group,
                                    uint32_t turn)
{
    struct rq_conn *conn = NULL;
    rq_mutex_lock(&clients->lock);
    const struct rq_members *found = rq_map_get(&clients->producers, group);
    for (size_t i = 0; found && !conn && i < found->count; i++) {
        const struct rq_member *member = &found->items[(turn + i) % found->count];
        conn = rq_conn_is_open(member->conn) ? rq_conn_retain(member->conn) : NULL;
    }
    rq_mutex_unlock(&clients->lock);
    return conn;
}

static struct rq_conn *find_open(const struct rq_members *members, struct rq_slice client_id)
{
    for (size_t i = 0; i < members->count; i++) {
        struct rq_conn *conn = members->items[i].conn;
        if (rq_slice_eq_str(client_id, members->items[i].client_id) && rq_conn_is_open(conn)) {
            return rq_conn_retain(conn);
        }
    }
    return NULL;
}

struct rq_conn *rq_clients_producer_by_id(struct rq_clients *clients, struct rq_slice client_id)
{
    struct rq_conn *conn = NULL;
    rq_mutex_lock(&clients->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; !conn && (entry = rq_map_next(&clients->producers, &i));) {
        conn = find_open(entry->value, client_id);
    }
    rq_mutex_unlock(&clients->lock);
    return conn;
}
