/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Writing of extFields in both serializations, straight into the buffer: one pass over the table,
 * nothing allocated but the buffer's own growth. Text that needs no escape is copied whole. Called
 * by the frame writer, on any thread. Counterpart: RemotingCommand.makeCustomHeaderToNet.
 */
#include <string.h>

#include "base/bytes.h"
#include "wire/command.h"
#include "wire/json_text.h"

#define NUMBER_MAX 21 /* characters of an int64_t, and room */

/* Whether a field is to be written; then its value as text: digits is the place for a number's. */
static bool field_text(const struct rq_field *field, const char *member, bool has, char *digits,
                       struct rq_slice *out)
{
    if (field->type == RQ_FIELD_STR) {
        memcpy(out, member, sizeof *out);
        return out->p != NULL;
    }
    if (!has && !field->required) {
        return false;
    }
    if (field->type == RQ_FIELD_BOOL) {
        bool v;
        memcpy(&v, member, sizeof v);
        *out = v ? rq_slice("true", 4) : rq_slice("false", 5);
        return true;
    }
    int64_t v;
    int32_t small;
    if (field->type == RQ_FIELD_I64) {
        memcpy(&v, member, sizeof v);
    } else {
        memcpy(&small, member, sizeof small);
        v = small;
    }
    *out = rq_slice(digits, rq_i64_to_text(v, digits));
    return true;
}

static void add_json(struct rq_slice name, struct rq_slice value, bool plain, bool *first,
                     struct rq_buf *out)
{
    if (!rq_buf_reserve(out, name.n + value.n + 6)) {
        return;
    }
    char *w = out->data + out->len;
    if (!*first) {
        *w++ = ',';
    }
    *first = false;
    *w++ = '"';
    memcpy(w, name.p, name.n);
    w += name.n;
    *w++ = '"';
    *w++ = ':';
    if (plain) {
        *w++ = '"';
        memcpy(w, value.p, value.n);
        w += value.n;
        *w++ = '"';
        out->len = (size_t)(w - out->data);
        return;
    }
    out->len = (size_t)(w - out->data);
    rq_json_text_add(out, value);
}

static void add_binary(struct rq_slice name, struct rq_slice value, struct rq_buf *out)
{
    if (name.n > INT16_MAX || value.n > INT32_MAX) {
        out->status = RMQ_ERR_TOO_LARGE;
        return;
    }
    if (!rq_buf_reserve(out, name.n + value.n + 6)) {
        return;
    }
    char *w = out->data + out->len;
    rq_store_be16(w, (uint16_t)name.n);
    memcpy(w + 2, name.p, name.n);
    w += 2 + name.n;
    rq_store_be32(w, (uint32_t)value.n);
    if (value.n) {
        memcpy(w + 4, value.p, value.n);
    }
    out->len += name.n + value.n + 6;
}

void rq_fields_encode(const struct rq_fields *table, const void *fields,
                      enum rq_serialize serialize, bool *first, struct rq_buf *out)
{
    char digits[NUMBER_MAX];
    uint32_t has;
    memcpy(&has, fields, sizeof has);
    for (size_t row = 0; row < table->count; row++) {
        const struct rq_field *field = &table->rows[row];
        struct rq_slice value;
        if (!field_text(field, (const char *)fields + field->offset, has >> row & 1, digits,
                        &value)) {
            continue;
        }
        struct rq_slice name = rq_slice(field->name, field->name_len);
        if (serialize == RQ_SERIALIZE_JSON) {
            add_json(name, value, field->type != RQ_FIELD_STR, first, out);
        } else {
            add_binary(name, value, out);
        }
    }
}

void rq_ext_encode(struct rq_slice name, struct rq_slice value, enum rq_serialize serialize,
                   bool *first, struct rq_buf *out)
{
    if (!value.p) {
        return;
    }
    if (serialize == RQ_SERIALIZE_BINARY) {
        add_binary(name, value, out);
        return;
    }
    if (!*first) {
        rq_buf_add_char(out, ',');
    }
    *first = false;
    rq_json_text_add(out, name);
    rq_buf_add_char(out, ':');
    rq_json_text_add(out, value);
}

void rq_fields_each(const struct rq_fields *table, const void *fields,
                    void (*fn)(void *user, struct rq_slice name, struct rq_slice value), void *user)
{
    char digits[NUMBER_MAX];
    uint32_t has;
    memcpy(&has, fields, sizeof has);
    for (size_t row = 0; row < table->count; row++) {
        const struct rq_field *field = &table->rows[row];
        struct rq_slice value;
        if (field_text(field, (const char *)fields + field->offset, has >> row & 1, digits,
                       &value)) {
            fn(user, rq_slice(field->name, field->name_len), value);
        }
    }
}
