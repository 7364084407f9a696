/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Subscriptions, each in one piece of memory: struct, tags, codes, then the texts. Made by
 * consumers from expressions, by brokers from heartbeats. Counterparts: FilterAPI,
 * SubscriptionData, ExpressionMessageFilter.
 */
#include "wire/subscription.h"

#include <string.h>

#include "base/err.h"
#include "base/jhash.h"
#include "base/mem.h"
#include "wire/body_priv.h"

/* A subscription while it is made: its arrays are writable, texts is the free room behind them. */
struct maker {
    struct rq_subscription *sub;
    const char **tags;
    int32_t *codes;
    char *texts;
};

static bool start(struct maker *m, size_t tags, size_t codes, size_t text_size)
{
    size_t size = sizeof *m->sub + tags * sizeof *m->tags + codes * sizeof *m->codes + text_size;
    m->sub = rq_calloc(1, size);
    if (!m->sub) {
        return false;
    }
    m->tags = (const char **)(void *)(m->sub + 1);
    m->codes = (int32_t *)(void *)(m->tags + tags);
    m->texts = (char *)(m->codes + codes);
    m->sub->tags = m->tags;
    m->sub->codes = m->codes;
    return true;
}

static const char *keep(struct maker *m, struct rq_slice text)
{
    char *copy = m->texts;
    if (text.n) {
        memcpy(copy, text.p, text.n);
    }
    copy[text.n] = '\0';
    m->texts += text.n + 1;
    return copy;
}

static void add_tag(struct maker *m, struct rq_slice tag)
{
    for (size_t i = 0; i < m->sub->tag_count; i++) {
        if (rq_slice_eq_str(tag, m->tags[i])) {
            return;
        }
    }
    m->tags[m->sub->tag_count++] = keep(m, tag);
}

static void add_code(struct maker *m, int32_t code)
{
    for (size_t i = 0; i < m->sub->code_count; i++) {
        if (m->codes[i] == code) {
            return;
        }
    }
    m->codes[m->sub->code_count++] = code;
}

/* Cuts the piece up to the next "||" off the front; false when nothing is left. */
static bool next_piece(struct rq_slice *rest, struct rq_slice *piece)
{
    if (!rest->p) {
        return false;
    }
    for (size_t i = 0; i + 1 < rest->n; i++) {
        if (rest->p[i] == '|' && rest->p[i + 1] == '|') {
            *piece = rq_slice(rest->p, i);
            *rest = rq_slice(rest->p + i + 2, rest->n - i - 2);
            return true;
        }
    }
    *piece = *rest;
    *rest = rq_slice(NULL, 0);
    return true;
}

/* Number of pieces; *any tells whether one of them is not empty: "||" alone is refused, "|| ||" is
 * not, as in Java. */
static size_t count_pieces(struct rq_slice expression, bool *any)
{
    struct rq_slice piece;
    size_t count = 0;
    *any = false;
    while (next_piece(&expression, &piece)) {
        count++;
        *any = *any || piece.n > 0;
    }
    return count;
}

static void add_tags(struct maker *m, struct rq_slice expression)
{
    struct rq_slice piece;
    while (next_piece(&expression, &piece)) {
        piece = rq_slice_trim(piece);
        if (piece.n) {
            add_tag(m, piece);
            add_code(m, rq_java_hash(piece));
        }
    }
}

rmq_status rq_subscription_create(const char *topic, const char *expression, const char *type,
                                  int64_t version, struct rq_subscription **out, rmq_error **err)
{
    *out = NULL;
    type = type ? type : RQ_EXPRESSION_TAG;
    bool by_tag = strcmp(type, RQ_EXPRESSION_TAG) == 0;
    if (!expression || !*expression) {
        if (!by_tag) {
            return rq_error_set(err, RMQ_ERR_INVALID, "topic %s: a %s expression is empty", topic,
                                type);
        }
        expression = RQ_SUBSCRIBE_ALL;
    }
    struct rq_slice text = rq_slice_str(expression);
    bool any = true;
    bool all = !by_tag || strcmp(expression, RQ_SUBSCRIBE_ALL) == 0;
    size_t pieces = all ? 0 : count_pieces(text, &any);
    if (!any) {
        return rq_error_set(err, RMQ_ERR_INVALID, "topic %s: expression \"%s\" names no tag", topic,
                            expression);
    }
    if (pieces > RQ_SUBSCRIPTION_TAGS_MAX) {
        return rq_error_set(err, RMQ_ERR_INVALID, "topic %s: %zu tags, the limit is %d", topic,
                            pieces, RQ_SUBSCRIPTION_TAGS_MAX);
    }
    struct maker m;
    if (!start(&m, pieces, pieces, strlen(topic) + 2 * text.n + strlen(type) + pieces + 3)) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a subscription of %s", topic);
    }
    m.sub->topic = keep(&m, rq_slice_str(topic));
    m.sub->sub_string = keep(&m, text);
    m.sub->expression_type = keep(&m, rq_slice_str(type));
    m.sub->version = version;
    if (!all) {
        add_tags(&m, text);
    }
    *out = m.sub;
    return RMQ_OK;
}

struct rq_subscription *rq_subscription_copy(const struct rq_subscription *sub)
{
    size_t text = strlen(sub->topic) + strlen(sub->sub_string) + strlen(sub->expression_type) + 3;
    for (size_t i = 0; i < sub->tag_count; i++) {
        text += strlen(sub->tags[i]) + 1;
    }
    struct maker m;
    if (!start(&m, sub->tag_count, sub->code_count, text)) {
        return NULL;
    }
    m.sub->topic = keep(&m, rq_slice_str(sub->topic));
    m.sub->sub_string = keep(&m, rq_slice_str(sub->sub_string));
    m.sub->expression_type = keep(&m, rq_slice_str(sub->expression_type));
    m.sub->version = sub->version;
    m.sub->class_filter_mode = sub->class_filter_mode;
    for (size_t i = 0; i < sub->tag_count; i++) {
        m.tags[m.sub->tag_count++] = keep(&m, rq_slice_str(sub->tags[i]));
    }
    for (size_t i = 0; i < sub->code_count; i++) {
        m.codes[m.sub->code_count++] = sub->codes[i];
    }
    return m.sub;
}

void rq_subscription_destroy(struct rq_subscription *sub)
{
    rq_free(sub);
}

static size_t text_size(const cJSON *strings)
{
    size_t size = 0;
    for (const cJSON *item = rq_body_first(strings); item; item = item->next) {
        size += strlen(rq_body_text(item)) + 1;
    }
    return size;
}

static void read_sets(struct maker *m, const cJSON *tags, const cJSON *codes)
{
    for (const cJSON *item = rq_body_first(tags); item; item = item->next) {
        if (cJSON_IsString(item)) {
            add_tag(m, rq_slice_str(item->valuestring));
        }
    }
    for (const cJSON *item = rq_body_first(codes); item; item = item->next) {
        int64_t code;
        if (rq_json_value_i64(item, &code)) {
            add_code(m, (int32_t)code);
        }
    }
}

rmq_status rq_subscription_parse(const cJSON *json, struct rq_subscription **out, rmq_error **err)
{
    *out = NULL;
    const char *topic = rq_json_str(json, "topic", NULL);
    if (!topic) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "subscription without a topic");
    }
    const char *sub_string = rq_json_str(json, "subString", RQ_SUBSCRIBE_ALL);
    const char *type = rq_json_str(json, "expressionType", RQ_EXPRESSION_TAG);
    const cJSON *tags = rq_json_get(json, "tagsSet");
    const cJSON *codes = rq_json_get(json, "codeSet");
    size_t tag_count = rq_body_count(tags);
    size_t code_count = rq_body_count(codes);
    if (tag_count > RQ_SUBSCRIPTION_TAGS_MAX || code_count > RQ_SUBSCRIPTION_TAGS_MAX) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL,
                            "subscription of %s: %zu tags and %zu codes, the limit is %d", topic,
                            tag_count, code_count, RQ_SUBSCRIPTION_TAGS_MAX);
    }
    struct maker m;
    size_t text = strlen(topic) + strlen(sub_string) + strlen(type) + 3 + text_size(tags);
    if (!start(&m, tag_count, code_count, text)) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a subscription of %s", topic);
    }
    m.sub->topic = keep(&m, rq_slice_str(topic));
    m.sub->sub_string = keep(&m, rq_slice_str(sub_string));
    m.sub->expression_type = keep(&m, rq_slice_str(type));
    m.sub->version = rq_json_i64(json, "subVersion", 0);
    m.sub->class_filter_mode = rq_json_bool(json, "classFilterMode", false);
    read_sets(&m, tags, codes);
    *out = m.sub;
    return RMQ_OK;
}

void rq_subscription_write(const struct rq_subscription *sub, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_bool(out, &first, "classFilterMode", sub->class_filter_mode);
    rq_json_add_member(out, &first, "codeSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < sub->code_count; i++) {
        rq_body_next(out, i);
        rq_buf_add_i64(out, sub->codes[i]);
    }
    rq_buf_add_char(out, ']');
    rq_body_add_text(out, &first, "expressionType", sub->expression_type);
    rq_body_add_text(out, &first, "subString", sub->sub_string);
    rq_body_add_i64(out, &first, "subVersion", sub->version);
    rq_body_add_strings(out, &first, "tagsSet", sub->tags, sub->tag_count);
    rq_body_add_text(out, &first, "topic", sub->topic);
    rq_buf_add_char(out, '}');
}

bool rq_subscription_is_tag(const struct rq_subscription *sub)
{
    return strcmp(sub->expression_type, RQ_EXPRESSION_TAG) == 0;
}

bool rq_subscription_match_code(const struct rq_subscription *sub, int64_t tags_code)
{
    if (!rq_subscription_is_tag(sub) || strcmp(sub->sub_string, RQ_SUBSCRIBE_ALL) == 0) {
        return true;
    }
    for (size_t i = 0; i < sub->code_count; i++) {
        if (sub->codes[i] == (int32_t)tags_code) {
            return true;
        }
    }
    return false;
}

bool rq_subscription_match_tag(const struct rq_subscription *sub, struct rq_slice tag)
{
    if (sub->tag_count == 0 || sub->class_filter_mode) {
        return true;
    }
    for (size_t i = 0; i < sub->tag_count; i++) {
        if (rq_slice_eq_str(tag, sub->tags[i])) {
            return true;
        }
    }
    return false;
}

int64_t rq_tags_code(struct rq_slice tag)
{
    return tag.n ? rq_java_hash(tag) : 0;
}
