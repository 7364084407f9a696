/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The tables of header fields, made from the rows of wire/headers.h, and the walk that decodes a
 * header by its table. Called by client and broker on any thread. Counterpart: CommandCustomHeader,
 * and the reflection in RemotingCommand.
 */
#include "wire/command.h"

#include <string.h>

#include "base/err.h"

#define ROW_(H, member_, wire, type_, required_)                                                   \
    {.name = wire,                                                                                 \
     .name_len = sizeof(wire) - 1,                                                                 \
     .type = RQ_FIELD_##type_,                                                                     \
     .required = required_,                                                                        \
     .offset = offsetof(struct rq_hdr_##H, member_)},
#define LONG_ROW_(H, member, name, letter, type, required)   ROW_(H, member, name, type, required)
#define LETTER_ROW_(H, member, name, letter, type, required) ROW_(H, member, letter, type, required)
#define TABLE_(name, ROWS)                                                                         \
    static const struct rq_field name##_rows[] = {ROWS(ROW_, name)};                               \
    const struct rq_fields rq_tab_##name = {.what = #name,                                         \
                                            .rows = name##_rows,                                   \
                                            .count = RQ_ROW_COUNT_##name,                          \
                                            .size = sizeof(struct rq_hdr_##name)};

RQ_HEADERS(TABLE_)

static const struct rq_field send_rows[] = {RQ_ROWS_SEND(LONG_ROW_, send)};
static const struct rq_field send_v2_rows[] = {RQ_ROWS_SEND(LETTER_ROW_, send)};
const struct rq_fields rq_tab_send = {.what = "send",
                                      .rows = send_rows,
                                      .count = RQ_ROW_COUNT_send,
                                      .size = sizeof(struct rq_hdr_send)};
const struct rq_fields rq_tab_send_v2 = {.what = "send_v2",
                                         .rows = send_v2_rows,
                                         .count = RQ_ROW_COUNT_send,
                                         .size = sizeof(struct rq_hdr_send)};

/* Index of a field's row, or count. The search starts at the row behind the last one found: peers
 * that write the fields in the table's order (we do, and Java does for the letters of a send) are
 * then met at the first look. */
static size_t find_row(const struct rq_fields *table, struct rq_slice name, size_t from)
{
    size_t row = from;
    for (size_t i = 0; i < table->count; i++, row++) {
        if (row >= table->count) {
            row = 0;
        }
        const struct rq_field *field = &table->rows[row];
        if (field->name_len == name.n && memcmp(field->name, name.p, name.n) == 0) {
            return row;
        }
    }
    return table->count;
}

static bool set_number(const struct rq_field *field, struct rq_slice value, char *member)
{
    int64_t v;
    if (!rq_slice_to_i64(value, &v)) {
        return false;
    }
    if (field->type == RQ_FIELD_I64) {
        memcpy(member, &v, sizeof v);
        return true;
    }
    if (v < INT32_MIN || v > INT32_MAX) {
        return false;
    }
    int32_t small = (int32_t)v;
    memcpy(member, &small, sizeof small);
    return true;
}

static bool is_true(struct rq_slice value)
{
    return value.n == 4 && (value.p[0] | 0x20) == 't' && (value.p[1] | 0x20) == 'r' &&
           (value.p[2] | 0x20) == 'u' && (value.p[3] | 0x20) == 'e';
}

static bool set_member(const struct rq_field *field, struct rq_slice value, char *member)
{
    if (field->type == RQ_FIELD_STR) {
        memcpy(member, &value, sizeof value);
        return true;
    }
    if (field->type == RQ_FIELD_BOOL) {
        bool v = is_true(value);
        memcpy(member, &v, sizeof v);
        return true;
    }
    return set_number(field, value, member);
}

static rmq_status check_required(const struct rq_fields *table, uint32_t has, rmq_error **err)
{
    for (size_t row = 0; row < table->count; row++) {
        if (table->rows[row].required && !(has >> row & 1)) {
            return rq_error_set(err, RMQ_ERR_PROTOCOL, "header %s: field %s is missing",
                                table->what, table->rows[row].name);
        }
    }
    return RMQ_OK;
}

rmq_status rq_fields_decode(const struct rq_fields *table, const struct rq_header *header,
                            void *out, rmq_error **err)
{
    memset(out, 0, table->size);
    uint32_t has = 0;
    size_t next = 0;
    for (size_t i = 0; i < header->ext_count; i++) {
        const struct rq_ext *ext = &header->ext[i];
        size_t row = ext->value.p ? find_row(table, ext->name, next) : table->count;
        if (row == table->count) {
            continue; /* null, or a field that is not ours */
        }
        const struct rq_field *field = &table->rows[row];
        if (!set_member(field, ext->value, (char *)out + field->offset)) {
            return rq_error_set(err, RMQ_ERR_PROTOCOL, "header %s: field %s is no number: \"%.*s\"",
                                table->what, field->name,
                                ext->value.n > 40 ? 40 : (int)ext->value.n, ext->value.p);
        }
        has |= UINT32_C(1) << row;
        next = row + 1;
    }
    memcpy(out, &has, sizeof has);
    return check_required(table, has, err);
}

#define CASE_(name, number)                                                                        \
    case number:                                                                                   \
        return #name;

const char *rq_request_name(int32_t code)
{
    switch (code) {
        RQ_REQUEST_CODES(CASE_)
    default:
        return "UNKNOWN";
    }
}

const char *rq_response_name(int32_t code)
{
    switch (code) {
        RQ_RESPONSE_CODES(CASE_)
    default:
        return "UNKNOWN";
    }
}
