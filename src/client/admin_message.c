/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Looking at single messages. Counterpart: MQAdminImpl.viewMessage, queryMessage.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/admin_priv.h"
#include "client/message.h"
#include "wire/msgid.h"
#include "wire/properties.h"

#define VIEW_BODY_MAX  ((size_t)64 << 20)
#define UNIQUE_ID_MOST 32 /* copies of one message that are looked for */

rmq_status rmq_admin_view_message(rmq_admin *admin, const char *offset_msg_id, int64_t timeout_ms,
                                  const rmq_message_view **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, offset_msg_id && out, "offset message id, out",
                                   timeout_ms, &deadline, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_host host;
    int64_t offset = 0;
    st = rq_msgid_parse_offset(rq_slice_str(offset_msg_id), &host, &offset, err);
    if (st != RMQ_OK) {
        return st;
    }
    char addr[RQ_HOST_TEXT];
    (void)rq_host_text(&host, addr);
    struct rq_hdr_view_message fields = {.offset = offset};
    char what[RQ_MSGID_MAX + 32];
    (void)snprintf(what, sizeof what, "message %.56s", offset_msg_id);
    const struct rq_admin_question ask = {.code = RQ_REQ_VIEW_MESSAGE_BY_ID,
                                          .table = &rq_tab_view_message,
                                          .fields = &fields,
                                          .what = what,
                                          .not_found = RQ_RESP_SYSTEM_ERROR};
    struct rq_reply reply;
    st = rq_admin_ask(admin, addr, &ask, deadline, &reply, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_views *views = NULL;
    st = rq_views_create(reply.ref, reply.body, "", &views, err);
    if (st != RMQ_OK) {
        rq_reply_free(&reply);
        return st;
    }
    if (views->count == 0) {
        st = rq_error_set(err, RMQ_ERR_NOT_FOUND, "%s: the broker's answer is empty", what);
    } else {
        st = rq_view_expand(&views->items[0], VIEW_BODY_MAX, err);
    }
    if (st != RMQ_OK) {
        rq_views_release(views);
        return st;
    }
    *out = &views->items[0];
    return RMQ_OK;
}

/* ---- by key ---- */

/* What is looked for, and what was found. */
struct search {
    const char *topic;
    const char *key;
    bool unique;
    int32_t max;
    int64_t begin_ms;
    int64_t end_ms;
    const rmq_message_view **list;
    size_t count;
};

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; *p; p += *p == ' ') {
        size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, word, n) == 0) {
            return true;
        }
        p += len;
    }
    return false;
}

/* The index knows hashes: what has an equal one but another key is not meant. */
static bool is_meant(const struct search *search, const rmq_message_view *view)
{
    return search->unique
               ? strcmp(rmq_message_view_property(view, RQ_PROP_UNIQ_KEY), search->key) == 0
               : has_word(rmq_message_view_keys(view), search->key) &&
                     strcmp(rmq_message_view_topic(view), search->topic) == 0;
}

static rmq_status keep_meant(struct search *search, struct rq_views *views, rmq_error **err)
{
    const rmq_message_view **grown =
        rq_realloc(search->list, (search->count + views->count) * sizeof *grown);
    if (!grown) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%zu messages", views->count);
    }
    search->list = grown;
    for (size_t i = 0; i < views->count; i++) {
        if (is_meant(search, &views->items[i])) {
            /* A body that cannot be expanded is shown as it is stored. */
            (void)rq_view_expand(&views->items[i], VIEW_BODY_MAX, NULL);
            grown[search->count++] = rmq_message_view_retain(&views->items[i]);
        }
    }
    return RMQ_OK;
}

static rmq_status search_broker(rmq_admin *admin, const char *broker_name, const char *addr,
                                struct search *search, int64_t deadline_ms, rmq_error **err)
{
    struct rq_hdr_query_message fields = {.topic = rq_slice_str(search->topic),
                                          .key = rq_slice_str(search->key),
                                          .max_num = search->max,
                                          .begin_timestamp = search->begin_ms,
                                          .end_timestamp = search->end_ms};
    RQ_SET(query_message, &fields, unique_key_query, search->unique);
    char what[2 * RQ_NAME_MAX];
    (void)snprintf(what, sizeof what, "messages of topic %.127s with key %.255s", search->topic,
                   search->key);
    const struct rq_admin_question ask = {.code = RQ_REQ_QUERY_MESSAGE,
                                          .table = &rq_tab_query_message,
                                          .fields = &fields,
                                          .what = what,
                                          .not_found = RQ_RESP_QUERY_NOT_FOUND};
    struct rq_reply reply;
    rmq_status st = rq_admin_ask(admin, addr, &ask, deadline_ms, &reply, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_views *views = NULL;
    st = rq_views_create(reply.ref, reply.body, broker_name, &views, err);
    if (st != RMQ_OK) {
        rq_reply_free(&reply);
        return st;
    }
    st = views->count > 0 ? keep_meant(search, views, err) : RMQ_OK;
    rq_views_release(views);
    return st;
}

/* All brokers of the topic in turn. What one of them could not tell counts only when nobody found
 * anything. */
static rmq_status search_all(rmq_admin *admin, const struct rq_route_data *route,
                             struct search *search, int64_t deadline_ms, rmq_error **err)
{
    rmq_error *why = NULL;
    rmq_status failed = RMQ_ERR_NOT_FOUND;
    for (size_t i = 0; i < route->broker_count; i++) {
        const struct rq_route_broker_data *broker = &route->brokers[i];
        const char *addr = rq_admin_master_of(broker);
        if (!addr && broker->addr_count > 0) {
            addr = broker->addrs[0].addr;
        }
        rmq_error *one = NULL;
        rmq_status st =
            addr ? search_broker(admin, broker->broker_name, addr, search, deadline_ms, &one)
                 : RMQ_OK;
        if (st != RMQ_OK && st != RMQ_ERR_NOT_FOUND) {
            rmq_error_destroy(why);
            why = one;
            failed = st;
        } else {
            rmq_error_destroy(one);
        }
    }
    if (search->count > 0 || failed == RMQ_ERR_NOT_FOUND) {
        rmq_error_destroy(why);
        return search->count > 0
                   ? RMQ_OK
                   : rq_error_set(err, RMQ_ERR_NOT_FOUND, "no message of topic %s has the %s %s",
                                  search->topic, search->unique ? "unique id" : "key", search->key);
    }
    if (err) {
        rmq_error_destroy(*err);
        *err = why;
    } else {
        rmq_error_destroy(why);
    }
    return failed;
}

static rmq_status run_search(rmq_admin *admin, struct search *search, int64_t timeout_ms,
                             const rmq_message_view ***out, size_t *count, rmq_error **err)
{
    int64_t deadline;
    bool complete = search->topic && search->key && *search->key && search->max > 0 && out && count;
    rmq_status st = rq_admin_begin(admin, complete, "topic, key, a most above 0, out, count",
                                   timeout_ms, &deadline, err);
    struct rq_route_data route = {0};
    if (st == RMQ_OK) {
        st = rq_admin_route(admin, search->topic, deadline, &route, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    st = search_all(admin, &route, search, deadline, err);
    rq_route_data_clear(&route);
    if (st != RMQ_OK) {
        rmq_admin_messages_free(search->list, search->count);
        return st;
    }
    *out = search->list;
    *count = search->count;
    return RMQ_OK;
}

rmq_status rmq_admin_query_message(rmq_admin *admin, const char *topic, const char *key,
                                   int32_t max, int64_t begin_ms, int64_t end_ms,
                                   int64_t timeout_ms, const rmq_message_view ***out, size_t *count,
                                   rmq_error **err)
{
    struct search search = {.topic = topic,
                            .key = key,
                            .max = max,
                            .begin_ms = begin_ms,
                            .end_ms = end_ms > 0 ? end_ms : INT64_MAX};
    return run_search(admin, &search, timeout_ms, out, count, err);
}

rmq_status rmq_admin_query_unique_id(rmq_admin *admin, const char *topic, const char *unique_id,
                                     int64_t timeout_ms, const rmq_message_view ***out,
                                     size_t *count, rmq_error **err)
{
    struct search search = {.topic = topic,
                            .key = unique_id,
                            .unique = true,
                            .max = UNIQUE_ID_MOST,
                            .end_ms = INT64_MAX};
    return run_search(admin, &search, timeout_ms, out, count, err);
}

void rmq_admin_messages_free(const rmq_message_view **list, size_t count)
{
    for (size_t i = 0; list && i < count; i++) {
        rmq_message_view_release(list[i]);
    }
    rq_free(list);
}
