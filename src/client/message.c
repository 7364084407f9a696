/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * rmq_message: what a producer builds. Topic and properties are kept as NUL-terminated texts one
 * behind the other, so that getters return pointers into them and a send walks them once. The body
 * has its own owner count: a send in flight shares it. One thread at a time. Counterpart: Message.
 */
#include "client/message.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "wire/names.h"
#include "wire/properties.h"

/* twice what a broker takes: the send checks the exact limit */
#define MESSAGE_TEXT_MAX (64 * 1024)
#define DELAY_LEVEL_MAX  18

/* NULL when out of memory. */
static struct rq_body *copy_body(const void *data, size_t size)
{
    struct rq_body *body = size > SIZE_MAX - sizeof *body ? NULL : rq_alloc(sizeof *body + size);
    if (!body) {
        return NULL;
    }
    char *copy = (char *)(body + 1);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    *body = (struct rq_body){.data = copy, .size = size};
    atomic_init(&body->refs, 1);
    return body;
}

struct rq_body *rq_body_retain(struct rq_body *body)
{
    atomic_fetch_add_explicit(&body->refs, 1, memory_order_relaxed);
    return body;
}

void rq_body_release(struct rq_body *body)
{
    if (!body || atomic_fetch_sub_explicit(&body->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (body->free_fn) {
        union {
            const void *constant;
            void *data; /* taken as void *, kept as const: the owner's own pointer again */
        } pointer = {.constant = body->data};
        body->free_fn(pointer.data, body->user);
    }
    rq_free(body);
}

rmq_status rmq_message_create(const char *topic, rmq_message **out, rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message: out is NULL");
    }
    if (!topic) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message: topic is NULL");
    }
    rmq_status st = rq_topic_check(rq_slice_str(topic), err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rmq_message *message = rq_alloc(sizeof *message);
    if (!message) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "message of topic %s", topic);
    }
    size_t n = strlen(topic);
    *message = (struct rmq_message){.text_cap = RQ_MESSAGE_INLINE, .wait_store_ok = true};
    message->text = message->inline_text;
    message->topic_len = n;
    message->text_len = n + 1;
    memcpy(message->text, topic, n + 1); /* a topic has at most 127 characters */
    *out = message;
    return RMQ_OK;
}

static bool reserve_text(struct rmq_message *message, size_t more)
{
    size_t need = message->text_len + more;
    if (need <= message->text_cap) {
        return true;
    }
    if (need > MESSAGE_TEXT_MAX) {
        return false;
    }
    size_t cap = need * 2;
    bool is_inline = message->text == message->inline_text;
    char *text = is_inline ? rq_alloc(cap) : rq_realloc(message->text, cap);
    if (!text) {
        return false;
    }
    if (is_inline) {
        memcpy(text, message->text, message->text_len);
    }
    message->text = text;
    message->text_cap = cap;
    return true;
}

/* Start of the pair with this name; NULL when there is none. *value and *end (behind the value's
 * NUL) are set when found. */
static char *find_pair(const struct rmq_message *message, const char *name, char **value,
                       char **end)
{
    char *p = message->text + message->topic_len + 1;
    char *last = message->text + message->text_len;
    while (p < last) {
        char *v = p + strlen(p) + 1;
        char *next = v + strlen(v) + 1;
        if (strcmp(p, name) == 0) {
            *value = v;
            *end = next;
            return p;
        }
        p = next;
    }
    return NULL;
}

static void cut_out(struct rmq_message *message, char *start, const char *end)
{
    size_t behind = (size_t)(message->text + message->text_len - end);
    memmove(start, end, behind);
    message->text_len -= (size_t)(end - start);
}

static void remove_pair(struct rmq_message *message, const char *name)
{
    char *value, *end;
    char *start = find_pair(message, name, &value, &end);
    if (start) {
        cut_out(message, start, end);
    }
}

/* Where a text of the message itself begins, behind text_len when it is somebody else's. */
static size_t place_of(const struct rmq_message *message, const char *text)
{
    uintptr_t at = (uintptr_t)text - (uintptr_t)message->text;
    return at < message->text_len ? (size_t)at : SIZE_MAX;
}

static const char *text_at(const struct rmq_message *message, size_t place, const char *otherwise)
{
    return place != SIZE_MAX ? message->text + place : otherwise;
}

/* name and value may be texts of the message, as its getters return them: the new pair is written
 * before the old one goes. */
rmq_status rq_message_put(struct rmq_message *message, const char *name, const char *value)
{
    size_t name_size = strlen(name) + 1;
    size_t value_size = strlen(value) + 1;
    size_t name_place = place_of(message, name);
    size_t value_place = place_of(message, value);
    if (name_size + value_size > MESSAGE_TEXT_MAX) {
        return RMQ_ERR_TOO_LARGE;
    }
    if (!reserve_text(message, name_size + value_size)) {
        return message->text_len + name_size + value_size > MESSAGE_TEXT_MAX ? RMQ_ERR_TOO_LARGE
                                                                             : RMQ_ERR_NOMEM;
    }
    char *added = message->text + message->text_len;
    memcpy(added, text_at(message, name_place, name), name_size);
    memcpy(added + name_size, text_at(message, value_place, value), value_size);
    char *old_value, *old_end;
    char *old = find_pair(message, added, &old_value, &old_end);
    message->text_len += name_size + value_size;
    if (old) {
        cut_out(message, old, old_end);
    }
    return RMQ_OK;
}

static bool has_separator(const char *text)
{
    return strpbrk(text, "\001\002") != NULL;
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

rmq_status rmq_message_set_tag(rmq_message *message, const char *tag)
{
    if (!message || (tag && has_separator(tag))) {
        return RMQ_ERR_INVALID;
    }
    if (!tag || !*tag) {
        remove_pair(message, RQ_PROP_TAGS);
        return RMQ_OK;
    }
    return rq_message_put(message, RQ_PROP_TAGS, tag);
}

rmq_status rmq_message_add_key(rmq_message *message, const char *key)
{
    if (!message || !key || !*key || has_separator(key) || strchr(key, ' ')) {
        return RMQ_ERR_INVALID;
    }
    char *value, *end;
    if (!find_pair(message, RQ_PROP_KEYS, &value, &end)) {
        return rq_message_put(message, RQ_PROP_KEYS, key);
    }
    size_t old = strlen(value);
    size_t more = strlen(key);
    if (old + more + 2 > MESSAGE_TEXT_MAX) {
        return RMQ_ERR_TOO_LARGE;
    }
    char *joined = rq_alloc(old + more + 2);
    if (!joined) {
        return RMQ_ERR_NOMEM;
    }
    memcpy(joined, value, old);
    joined[old] = ' ';
    memcpy(joined + old + 1, key, more + 1);
    rmq_status st = rq_message_put(message, RQ_PROP_KEYS, joined);
    rq_free(joined);
    return st;
}

rmq_status rmq_message_set_property(rmq_message *message, const char *name, const char *value)
{
    if (!message || !name || !value || is_blank(name) || is_blank(value) || has_separator(name) ||
        has_separator(value) || rq_props_reserved(rq_slice_str(name))) {
        return RMQ_ERR_INVALID;
    }
    return rq_message_put(message, name, value);
}

rmq_status rmq_message_set_message_group(rmq_message *message, const char *group)
{
    if (!message || (group && has_separator(group)) || (group && *group && is_blank(group))) {
        return RMQ_ERR_INVALID;
    }
    rmq_status st = RMQ_OK;
    message->grouped = group && *group;
    if (message->grouped) {
        st = rq_message_put(message, RQ_PROP_SHARDING_KEY, group);
        message->grouped = st == RMQ_OK;
    } else {
        remove_pair(message, RQ_PROP_SHARDING_KEY);
    }
    return st;
}

bool rq_message_same_group(const struct rmq_message *a, const struct rmq_message *b)
{
    return a->grouped == b->grouped &&
           (!a->grouped || strcmp(rmq_message_property(a, RQ_PROP_SHARDING_KEY),
                                  rmq_message_property(b, RQ_PROP_SHARDING_KEY)) == 0);
}

rmq_status rmq_message_set_delay_level(rmq_message *message, int level)
{
    if (!message || level < 0 || level > DELAY_LEVEL_MAX) {
        return RMQ_ERR_INVALID;
    }
    message->delay_level = level;
    return RMQ_OK;
}

static rmq_status set_time(struct rmq_message *message, const char *name, int64_t ms)
{
    char text[24];
    if (!message || ms < 0) {
        return RMQ_ERR_INVALID;
    }
    remove_pair(message, RQ_PROP_TIMER_DELAY_MS);
    remove_pair(message, RQ_PROP_TIMER_DELIVER_MS);
    message->timed = false;
    if (ms == 0) {
        return RMQ_OK;
    }
    (void)snprintf(text, sizeof text, "%lld", (long long)ms);
    rmq_status st = rq_message_put(message, name, text);
    message->timed = st == RMQ_OK;
    return st;
}

rmq_status rmq_message_set_delay_time_ms(rmq_message *message, int64_t delay_ms)
{
    return set_time(message, RQ_PROP_TIMER_DELAY_MS, delay_ms);
}

rmq_status rmq_message_set_deliver_time_ms(rmq_message *message, int64_t time_ms)
{
    return set_time(message, RQ_PROP_TIMER_DELIVER_MS, time_ms);
}

void rmq_message_set_flag(rmq_message *message, int32_t flag)
{
    if (message) {
        message->flag = flag;
    }
}

void rmq_message_set_wait_store_ok(rmq_message *message, bool wait)
{
    if (message) {
        message->wait_store_ok = wait;
    }
}

static rmq_status put_body(struct rmq_message *message, struct rq_body *body)
{
    if (!body) {
        return RMQ_ERR_NOMEM;
    }
    rq_body_release(message->body);
    message->body = body;
    return RMQ_OK;
}

rmq_status rmq_message_copy_body(rmq_message *message, const void *data, size_t size)
{
    if (!message || (!data && size > 0)) {
        return RMQ_ERR_INVALID;
    }
    return put_body(message, copy_body(data, size));
}

/* A body whose bytes live elsewhere. */
static struct rq_body *wrap_body(const void *data, size_t size,
                                 void (*free_fn)(void *data, void *user), void *user)
{
    struct rq_body *body = rq_alloc(sizeof *body);
    if (body) {
        *body = (struct rq_body){.data = data, .size = size, .free_fn = free_fn, .user = user};
        atomic_init(&body->refs, 1);
    }
    return body;
}

rmq_status rmq_message_borrow_body(rmq_message *message, const void *data, size_t size)
{
    if (!message || (!data && size > 0)) {
        return RMQ_ERR_INVALID;
    }
    return put_body(message, wrap_body(data, size, NULL, NULL));
}

rmq_status rmq_message_take_body(rmq_message *message, void *data, size_t size,
                                 void (*free_fn)(void *data, void *user), void *user)
{
    if (!message || (!data && size > 0)) {
        return RMQ_ERR_INVALID;
    }
    return put_body(message, wrap_body(data, size, free_fn, user));
}

const char *rmq_message_topic(const rmq_message *message)
{
    return message ? message->text : "";
}

const char *rmq_message_property(const rmq_message *message, const char *name)
{
    char *value, *end;
    return message && name && find_pair(message, name, &value, &end) ? value : "";
}

const char *rmq_message_tag(const rmq_message *message)
{
    return rmq_message_property(message, RQ_PROP_TAGS);
}

const char *rmq_message_keys(const rmq_message *message)
{
    return rmq_message_property(message, RQ_PROP_KEYS);
}

const void *rmq_message_body(const rmq_message *message, size_t *size)
{
    const struct rq_body *body = message ? message->body : NULL;
    if (size) {
        *size = body ? body->size : 0;
    }
    return body ? body->data : NULL;
}

struct rmq_message *rq_message_copy(const struct rmq_message *message)
{
    struct rq_body *body = message->body;
    struct rmq_message *copy = rq_alloc(sizeof *copy);
    if (!copy) {
        return NULL;
    }
    *copy = *message;
    copy->body = NULL;
    if (message->text == message->inline_text) {
        copy->text = copy->inline_text;
    } else if ((copy->text = rq_alloc(message->text_cap))) {
        memcpy(copy->text, message->text, message->text_len);
    } else {
        rq_free(copy);
        return NULL;
    }
    if (body && rq_body_is_borrowed(body)) {
        copy->body = copy_body(body->data, body->size);
    } else if (body) {
        copy->body = rq_body_retain(body);
    }
    if (body && !copy->body) {
        rmq_message_destroy(copy);
        return NULL;
    }
    return copy;
}

rmq_status rq_message_copy_to(const struct rmq_message *message, const char *topic,
                              struct rmq_message **out, rmq_error **err)
{
    struct rmq_message *copy = NULL;
    struct rq_slice pairs = rq_message_pairs(message);
    rmq_status st = rmq_message_create(topic, &copy, err);
    if (st == RMQ_OK && pairs.n > 0 && !reserve_text(copy, pairs.n)) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "message of topic %s with %zu bytes of properties",
                          topic, pairs.n);
    }
    if (st != RMQ_OK) {
        rmq_message_destroy(copy);
        return st;
    }
    if (pairs.n > 0) {
        memcpy(copy->text + copy->text_len, pairs.p, pairs.n);
        copy->text_len += pairs.n;
    }
    copy->body = message->body ? rq_body_retain(message->body) : NULL;
    copy->flag = message->flag;
    copy->delay_level = message->delay_level;
    copy->wait_store_ok = message->wait_store_ok;
    copy->timed = message->timed;
    copy->reply = message->reply;
    copy->grouped = message->grouped;
    *out = copy;
    return RMQ_OK;
}

void rmq_message_destroy(rmq_message *message)
{
    if (!message) {
        return;
    }
    if (message->text != message->inline_text) {
        rq_free(message->text);
    }
    rq_body_release(message->body);
    rq_free(message);
}
