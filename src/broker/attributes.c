/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Attributes of a topic (see the header). */
#include "broker/attributes.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "broker/broker.h"

struct attribute {
    const char *name;
    bool changeable;    /* once the topic is there */
    const char *values; /* separated by ; or NULL: a number from -1 on */
};

static const struct attribute attributes[] = {
    {"cleanup.policy", false, "DELETE;COMPACTION"},
    {"message.type", true, "UNSPECIFIED;NORMAL;FIFO;DELAY;TRANSACTION;MIXED"},
    {"queue.type", false, "BatchCQ;SimpleCQ"},
    {"reserve.time", true, NULL},
};

struct change {
    bool adds; /* or replaces; else removes */
    const struct attribute *attribute;
    char value[32]; /* longer ones are no value of any attribute */
};

static const struct attribute *find(struct rq_slice name)
{
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (rq_slice_eq_str(name, attributes[i].name)) {
            return &attributes[i];
        }
    }
    return NULL;
}

static bool is_value_of(const struct attribute *attribute, struct rq_slice value)
{
    int64_t number;
    if (attribute->values) {
        return rq_slice_is_listed(value, attribute->values);
    }
    return rq_slice_to_i64(value, &number) && number >= -1;
}

static rmq_status read_change(struct rq_slice text, struct change *out, rmq_error **err)
{
    const char *equals = text.n ? memchr(text.p, '=', text.n) : NULL;
    struct rq_slice key = rq_slice(text.p, equals ? (size_t)(equals - text.p) : text.n);
    struct rq_slice value = equals ? rq_slice(equals + 1, text.n - key.n - 1) : rq_slice(NULL, 0);
    out->adds = equals != NULL;
    if (key.n < 2 || key.p[0] != (out->adds ? '+' : '-')) {
        return rq_error_set(err, RMQ_ERR_INVALID, "attribute \"%.*s\": neither +key=value nor -key",
                            RQ_TEXT(text));
    }
    out->attribute = find(rq_slice(key.p + 1, key.n - 1));
    if (!out->attribute) {
        return rq_error_set(err, RMQ_ERR_INVALID, "there is no attribute \"%.*s\"", (int)key.n - 1,
                            key.p + 1);
    }
    if (out->adds && (value.n >= sizeof out->value || !is_value_of(out->attribute, value))) {
        return rq_error_set(err, RMQ_ERR_INVALID, "attribute %s: \"%.*s\" is not %s",
                            out->attribute->name, RQ_TEXT(value),
                            out->attribute->values ? out->attribute->values
                                                   : "a number from -1 on");
    }
    memcpy(out->value, value.n ? value.p : "", value.n);
    out->value[value.n] = '\0';
    return RMQ_OK;
}

static rmq_status apply(cJSON *all, bool is_new, const struct change *change, rmq_error **err)
{
    const char *name = change->attribute->name;
    bool present = rq_json_get(all, name) != NULL;
    if (!change->adds && !present) {
        return rq_error_set(err, RMQ_ERR_INVALID, "the topic has no attribute %s", name);
    }
    if (!is_new && !change->attribute->changeable) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "attribute %s stays what it was when the topic was made", name);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(all, name);
    return !change->adds || cJSON_AddStringToObject(all, name, change->value)
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_NOMEM, "attributes of a topic");
}

rmq_status rq_attributes_alter(const char *current, struct rq_slice changes, struct rq_buf *out,
                               rmq_error **err)
{
    cJSON *all = NULL;
    struct rq_slice text;
    rmq_status st = rq_json_parse(rq_slice_str(current ? current : "{}"), &all, err);
    while (st == RMQ_OK && rq_slice_next(&changes, ',', &text)) {
        struct change change;
        st = read_change(text, &change, err);
        if (st == RMQ_OK) {
            st = apply(all, current == NULL, &change, err);
        }
    }
    char *json = st == RMQ_OK ? cJSON_PrintUnformatted(all) : NULL;
    if (json) {
        rq_buf_add_str(out, json);
        cJSON_free(json);
    } else if (st == RMQ_OK) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "attributes of a topic");
    }
    rq_json_free(all);
    return st;
}
