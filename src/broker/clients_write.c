/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the registry of clients answers to questions. Any thread. Counterparts: ConsumerConnection,
 * ProducerConnection, ProducerTableInfo. */
#include "base/json.h"
#include "broker/clients_priv.h"

bool rq_clients_write_ids(struct rq_clients *clients, struct rq_slice group, struct rq_buf *out)
{
    rq_mutex_lock(&clients->lock);
    const struct rq_consumer_group *found = rq_map_get(&clients->consumers, group);
    if (found) {
        rq_buf_add_str(out, "{\"" RQ_LIST_CONSUMER_IDS "\":[");
        for (size_t i = 0; i < found->members.count; i++) {
            rq_buf_add_str(out, i ? "," : "");
            rq_json_add_string(out, rq_slice_str(found->members.items[i].client_id));
        }
        rq_buf_add_str(out, "]}");
    }
    rq_mutex_unlock(&clients->lock);
    return found != NULL;
}

static void write_connections(const struct rq_members *members, struct rq_buf *out)
{
    rq_buf_add_str(out, "\"connectionSet\":[");
    for (size_t i = 0; i < members->count; i++) {
        const struct rq_member *member = &members->items[i];
        rq_buf_add_str(out, i ? ",{\"clientAddr\":" : "{\"clientAddr\":");
        rq_json_add_string(out, rq_slice_str(rq_conn_remote(member->conn)));
        rq_buf_add_str(out, ",\"clientId\":");
        rq_json_add_string(out, rq_slice_str(member->client_id));
        rq_buf_addf(out, ",\"language\":\"%s\",\"version\":%d}", rq_language_name(member->language),
                    member->version);
    }
    rq_buf_add_char(out, ']');
}

bool rq_clients_write_consumers(struct rq_clients *clients, struct rq_slice group,
                                struct rq_buf *out)
{
    rq_mutex_lock(&clients->lock);
    const struct rq_consumer_group *found = rq_map_get(&clients->consumers, group);
    if (found) {
        rq_buf_add_char(out, '{');
        write_connections(&found->members, out);
        rq_buf_addf(out,
                    ",\"consumeFromWhere\":\"%s\",\"consumeType\":\"%s\",\"messageModel\":\"%s\","
                    "\"subscriptionTable\":{",
                    rq_consume_from_name(found->from), rq_consume_type_name(found->type),
                    rq_message_model_name(found->model));
        for (size_t i = 0; i < found->sub_count; i++) {
            rq_buf_add_str(out, i ? "," : "");
            rq_json_add_string(out, rq_slice_str(found->subs[i]->sub->topic));
            rq_buf_add_char(out, ':');
            rq_subscription_write(found->subs[i]->sub, out);
        }
        rq_buf_add_str(out, "}}");
    }
    rq_mutex_unlock(&clients->lock);
    return found != NULL;
}

bool rq_clients_write_producers(struct rq_clients *clients, struct rq_slice group,
                                struct rq_buf *out)
{
    rq_mutex_lock(&clients->lock);
    const struct rq_members *found = rq_map_get(&clients->producers, group);
    if (found) {
        rq_buf_add_char(out, '{');
        write_connections(found, out);
        rq_buf_add_char(out, '}');
    }
    rq_mutex_unlock(&clients->lock);
    return found != NULL;
}

static void write_producer(const struct rq_member *member, struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"clientId\":");
    rq_json_add_string(out, rq_slice_str(member->client_id));
    rq_buf_addf(out, ",\"language\":\"%s\",\"lastUpdateTimestamp\":%lld,\"remoteIP\":",
                rq_language_name(member->language), (long long)member->last_wall_ms);
    rq_buf_add_str(out, "\"/"); /* as Java prints a socket address */
    rq_buf_add_str(out, rq_conn_remote(member->conn));
    rq_buf_addf(out, "\",\"version\":%d}", member->version);
}

void rq_clients_write_all_producers(struct rq_clients *clients, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_str(out, "{\"data\":{");
    rq_mutex_lock(&clients->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&clients->producers, &i)); first = false) {
        const struct rq_members *members = entry->value;
        rq_buf_add_str(out, first ? "" : ",");
        rq_json_add_string(out, rq_slice(entry->key, entry->key_len));
        rq_buf_add_str(out, ":[");
        for (size_t at = 0; at < members->count; at++) {
            rq_buf_add_str(out, at ? "," : "");
            write_producer(&members->items[at], out);
        }
        rq_buf_add_char(out, ']');
    }
    rq_mutex_unlock(&clients->lock);
    rq_buf_add_str(out, "}}");
}

void rq_clients_each_group_of(struct rq_clients *clients, struct rq_slice topic,
                              void (*each)(void *user, struct rq_slice name), void *user)
{
    rq_mutex_lock(&clients->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&clients->consumers, &i));) {
        const struct rq_consumer_group *group = entry->value;
        for (size_t at = 0; at < group->sub_count; at++) {
            if (rq_slice_eq_str(topic, group->subs[at]->sub->topic)) {
                each(user, rq_slice(entry->key, entry->key_len));
                break;
            }
        }
    }
    rq_mutex_unlock(&clients->lock);
}
