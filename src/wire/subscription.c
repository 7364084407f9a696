/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Subscriptions. Everything of one lies in a single allocation: the struct, its arrays, then its texts. */
#include "wire/subscription.h"

#include <string.h>

#include "base/err.h"
#include "base/jhash.h"
#include "base/json.h"
#include "base/mem.h"

/* What a subscription is made from, before its memory is one piece. Tags are slices of the expression or of the JSON tree. */
struct parts {
    struct rq_slice topic;
    struct rq_slice sub_string;
    struct rq_slice type;
    struct rq_slice *tags;
    size_t tag_count;
    int32_t *codes;
    size_t code_count;
    int64_t version;
    bool class_filter_mode;
};

/* Copies a text behind *at and moves it. */
static const char *put_text(char **at, struct rq_slice text)
{
    char *start = *at;
    if (text.n) {
        memcpy(start, text.p, text.n);
    }
    start[text.n] = '\0';
    *at += text.n + 1;
    return start;
}

static struct rq_subscription *assemble(const struct parts *parts)
{
    size_t size = sizeof(struct rq_subscription) + parts->tag_count * sizeof(char *) +
                  parts->code_count * sizeof(int32_t) + parts->topic.n + parts->sub_string.n +
                  parts->type.n + 3;
    for (size_t i = 0; i < parts->tag_count; i++) {
        size += parts->tags[i].n + 1;
    }
    struct rq_subscription *sub = rq_alloc(size);
    if (!sub) {
        return NULL;
    }
    const char **tags = (const char **)(sub + 1);
    int32_t *codes = (int32_t *)(void *)(tags + parts->tag_count);
    char *at = (char *)(codes + parts->code_count);
    *sub = (struct rq_subscription){.tag_count = parts->tag_count,
                                    .tags = tags,
                                    .code_count = parts->code_count,
                                    .codes = codes,
                                    .version = parts->version,
                                    .class_filter_mode = parts->class_filter_mode};
    sub->topic = put_text(&at, parts->topic);
    sub->sub_string = put_text(&at, parts->sub_string);
    sub->expression_type = put_text(&at, parts->type);
    for (size_t i = 0; i < parts->tag_count; i++) {
        tags[i] = put_text(&at, parts->tags[i]);
    }
    if (parts->code_count) {
        memcpy(codes, parts->codes, parts->code_count * sizeof *codes);
    }
    return sub;
}

static struct rq_slice trim(struct rq_slice s)
{
    while (s.n && (unsigned char)s.p[0] <= ' ') {
        s = rq_slice(s.p + 1, s.n - 1);
    }
    while (s.n && (unsigned char)s.p[s.n - 1] <= ' ') {
        s.n--;
    }
    return s;
}

static void add_tag(struct parts *parts, struct rq_slice tag)
{
    for (size_t i = 0; i < parts->tag_count; i++) {
        if (rq_slice_eq(parts->tags[i], tag)) {
            return;
        }
    }
    parts->tags[parts->tag_count++] = tag;
    int32_t code = rq_java_hash(tag);
    for (size_t i = 0; i < parts->code_count; i++) {
        if (parts->codes[i] == code) {
            return;
        }
    }
    parts->codes[parts->code_count++] = code;
}

/* Next piece between "||"; false at the end. */
static bool next_piece(struct rq_slice *rest, struct rq_slice *piece)
{
    if (!rest->p) {
        return false;
    }
    const char *bar = rest->n ? memmem(rest->p, rest->n, "||", 2) : NULL;
    if (bar) {
        *piece = rq_slice(rest->p, (size_t)(bar - rest->p));
        *rest = rq_slice(bar + 2, rest->n - piece->n - 2);
    } else {
        *piece = *rest;
        *rest = rq_slice(NULL, 0);
    }
    return true;
}

/* Java refuses an expression that splits into nothing ("||"), and accepts one that splits into blanks ("|| ||"). */
static bool only_separators(struct rq_slice s)
{
    if (s.n == 0 || s.n % 2) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '|') {
            return false;
        }
    }
    return true;
}

static rmq_status split_tags(struct parts *parts, rmq_error **err)
{
    if (only_separators(parts->sub_string)) {
        return rq_error_set(err, RMQ_ERR_INVALID, "subscription of %.*s: \"%.*s\" names no tag",
                            (int)parts->topic.n, parts->topic.p, (int)parts->sub_string.n,
                            parts->sub_string.p);
    }
    size_t most = parts->sub_string.n / 2 + 1;
    parts->tags = rq_calloc(most, sizeof *parts->tags);
    parts->codes = rq_calloc(most, sizeof *parts->codes);
    if (!parts->tags || !parts->codes) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "subscription: out of memory");
    }
    struct rq_slice rest = parts->sub_string;
    struct rq_slice piece;
    while (next_piece(&rest, &piece)) {
        piece = trim(piece);
        if (piece.n) {
            add_tag(parts, piece);
        }
    }
    return RMQ_OK;
}

static rmq_status finish(struct parts *parts, rmq_status st, struct rq_subscription **out, rmq_error **err)
{
    if (!st) {
        *out = assemble(parts);
        st = *out ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "subscription: out of memory");
    }
    rq_free(parts->tags);
    rq_free(parts->codes);
    return st;
}

rmq_status rq_subscription_create(const char *topic, const char *expression, const char *type,
                                  int64_t version, struct rq_subscription **out, rmq_error **err)
{
    const char *text = expression && *expression ? expression : RQ_SUBSCRIBE_ALL;
    struct parts parts = {.topic = rq_slice_str(topic),
                          .sub_string = rq_slice_str(text),
                          .type = rq_slice_str(type ? type : RQ_EXPRESSION_TAG),
                          .version = version};
    *out = NULL;
    rmq_status st = RMQ_OK;
    if (!rq_slice_eq_str(parts.type, RQ_EXPRESSION_TAG)) {
        if (!expression || !*expression) {
            return rq_error_set(err, RMQ_ERR_INVALID, "subscription of %s: an empty %s expression", topic, type);
        }
    } else if (strcmp(text, RQ_SUBSCRIBE_ALL) != 0) {
        st = split_tags(&parts, err);
    }
    return finish(&parts, st, out, err);
}

struct rq_subscription *rq_subscription_copy(const struct rq_subscription *sub)
{
    struct rq_slice *tags = rq_calloc(sub->tag_count + 1, sizeof *tags);
    int32_t *codes = rq_calloc(sub->code_count + 1, sizeof *codes);
    struct rq_subscription *copy = NULL;
    if (tags && codes) {
        for (size_t i = 0; i < sub->tag_count; i++) {
            tags[i] = rq_slice_str(sub->tags[i]);
        }
        memcpy(codes, sub->codes, sub->code_count * sizeof *codes);
        copy = assemble(&(struct parts){.topic = rq_slice_str(sub->topic),
                                        .sub_string = rq_slice_str(sub->sub_string),
                                        .type = rq_slice_str(sub->expression_type),
                                        .tags = tags,
                                        .tag_count = sub->tag_count,
                                        .codes = codes,
                                        .code_count = sub->code_count,
                                        .version = sub->version,
                                        .class_filter_mode = sub->class_filter_mode});
    }
    rq_free(tags);
    rq_free(codes);
    return copy;
}

void rq_subscription_destroy(struct rq_subscription *sub)
{
    rq_free(sub);
}

static size_t array_size(const cJSON *array)
{
    return cJSON_IsArray(array) ? (size_t)cJSON_GetArraySize(array) : 0;
}

static void read_sets(const cJSON *tags, const cJSON *codes, struct parts *parts)
{
    const cJSON *item = NULL;
    if (array_size(tags)) {
        cJSON_ArrayForEach(item, tags)
        {
            if (cJSON_IsString(item)) {
                parts->tags[parts->tag_count++] = rq_slice_str(item->valuestring);
            }
        }
    }
    if (array_size(codes)) {
        cJSON_ArrayForEach(item, codes)
        {
            int64_t v = 0;
            if (rq_json_value_i64(item, &v)) {
                parts->codes[parts->code_count++] = (int32_t)v;
            }
        }
    }
}

rmq_status rq_subscription_parse(const cJSON *json, struct rq_subscription **out, rmq_error **err)
{
    const cJSON *tags = rq_json_get(json, "tagsSet");
    const cJSON *codes = rq_json_get(json, "codeSet");
    const char *topic = rq_json_str(json, "topic", NULL);
    *out = NULL;
    if (!topic) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "subscription without topic");
    }
    struct parts parts = {.topic = rq_slice_str(topic),
                          .sub_string = rq_slice_str(rq_json_str(json, "subString", RQ_SUBSCRIBE_ALL)),
                          .type = rq_slice_str(rq_json_str(json, "expressionType", RQ_EXPRESSION_TAG)),
                          .version = rq_json_i64(json, "subVersion", 0),
                          .class_filter_mode = rq_json_bool(json, "classFilterMode", false)};
    parts.tags = rq_calloc(array_size(tags) + 1, sizeof *parts.tags);
    parts.codes = rq_calloc(array_size(codes) + 1, sizeof *parts.codes);
    rmq_status st = RMQ_OK;
    if (!parts.tags || !parts.codes) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "subscription: out of memory");
    } else {
        read_sets(tags, codes, &parts);
    }
    return finish(&parts, st, out, err);
}

void rq_subscription_write(const struct rq_subscription *sub, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "classFilterMode");
    rq_buf_add_str(out, sub->class_filter_mode ? "true" : "false");
    rq_json_add_member(out, &first, "codeSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < sub->code_count; i++) {
        rq_buf_add_str(out, i ? "," : "");
        rq_buf_add_i64(out, sub->codes[i]);
    }
    rq_buf_add_char(out, ']');
    rq_json_add_member(out, &first, "expressionType");
    rq_json_add_string(out, rq_slice_str(sub->expression_type));
    rq_json_add_member(out, &first, "subString");
    rq_json_add_string(out, rq_slice_str(sub->sub_string));
    rq_json_add_member(out, &first, "subVersion");
    rq_buf_add_i64(out, sub->version);
    rq_json_add_member(out, &first, "tagsSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < sub->tag_count; i++) {
        rq_buf_add_str(out, i ? "," : "");
        rq_json_add_string(out, rq_slice_str(sub->tags[i]));
    }
    rq_buf_add_char(out, ']');
    rq_json_add_member(out, &first, "topic");
    rq_json_add_string(out, rq_slice_str(sub->topic));
    rq_buf_add_char(out, '}');
}

bool rq_subscription_is_tag(const struct rq_subscription *sub)
{
    return strcmp(sub->expression_type, RQ_EXPRESSION_SQL92) != 0;
}

bool rq_subscription_is_all(const struct rq_subscription *sub)
{
    return rq_subscription_is_tag(sub) && strcmp(sub->sub_string, RQ_SUBSCRIBE_ALL) == 0;
}

bool rq_subscription_match_code(const struct rq_subscription *sub, int64_t tags_code)
{
    if (!rq_subscription_is_tag(sub) || rq_subscription_is_all(sub)) {
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
    if (!rq_subscription_is_tag(sub) || rq_subscription_is_all(sub)) {
        return true;
    }
    for (size_t i = 0; i < sub->tag_count; i++) {
        if (tag.n && rq_slice_eq_str(tag, sub->tags[i])) {
            return true;
        }
    }
    return false;
}

bool rq_subscription_equal(const struct rq_subscription *a, const struct rq_subscription *b)
{
    if (strcmp(a->topic, b->topic) != 0 || strcmp(a->sub_string, b->sub_string) != 0 ||
        strcmp(a->expression_type, b->expression_type) != 0 || a->tag_count != b->tag_count ||
        a->code_count != b->code_count || a->class_filter_mode != b->class_filter_mode) {
        return false;
    }
    for (size_t i = 0; i < a->tag_count; i++) {
        if (strcmp(a->tags[i], b->tags[i]) != 0) {
            return false;
        }
    }
    return a->code_count == 0 || memcmp(a->codes, b->codes, a->code_count * sizeof *a->codes) == 0;
}

int64_t rq_tags_code(struct rq_slice tag)
{
    return tag.n ? rq_java_hash(tag) : 0;
}
