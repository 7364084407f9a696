/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Header fields of commands, encoded and decoded by table. For each header there is a struct
 * rq_hdr_<name>, plain C with a presence mask, and a table rq_tab_<name>, both made from the rows
 * in wire/headers.h, and both used by client and broker:
 *
 *     struct rq_hdr_pull h = {.topic = topic, .queue_id = 3};
 *     RQ_SET(pull, &h, max_msg_bytes, 262144);
 *     rq_frame_request(serialize, RQ_REQ_PULL_MESSAGE, &rq_tab_pull, &h);
 *
 *     rq_fields_decode(&rq_tab_pull, &header, &h, &err);  if (RQ_HAS(pull, &h, max_msg_bytes)) …
 *
 * Any thread. Counterpart: CommandCustomHeader and its reflection.
 */
#ifndef RQ_WIRE_COMMAND_H
#define RQ_WIRE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "wire/codes.h"
#include "wire/header.h"
#include "wire/headers.h"

enum rq_field_type {
    RQ_FIELD_STR, /* struct rq_slice; p == NULL = absent */
    RQ_FIELD_I32,
    RQ_FIELD_I64,
    RQ_FIELD_BOOL /* any text but "true" reads as false */
};

struct rq_field {
    const char *name;
    uint8_t name_len;
    uint8_t type;
    bool required;
    uint16_t offset;
};

struct rq_fields {
    const char *what; /* name of the header, for errors */
    const struct rq_field *rows;
    uint8_t count;
    uint16_t size; /* of the struct; its first member is uint32_t has */
};

/* Presence of an optional number or bool. Strings are there when p is not NULL; required numbers
 * are always written. */
#define RQ_HAS(header, h, member) (((h)->has >> RQ_BIT_##header##_##member & 1u) != 0)
#define RQ_SET(header, h, member, value)                                                           \
    ((void)((h)->member = (value)), (void)((h)->has |= 1u << RQ_BIT_##header##_##member))

/* Fills a struct from the extFields. Members that are absent are zero and have no bit. Errors:
 * RMQ_ERR_PROTOCOL for a required field that is absent and for a number that is none, naming the
 * field. Slices point into the header's frame. */
rmq_status rq_fields_decode(const struct rq_fields *table, const struct rq_header *header,
                            void *out, rmq_error **err);

/* Calls for each field that is to be written, in the table's order, as text. For signing; the frame
 * writer does not go this way. text of numbers is valid during the call only. */
void rq_fields_each(const struct rq_fields *table, const void *fields,
                    void (*fn)(void *user, struct rq_slice name, struct rq_slice value),
                    void *user);

/* Appends the fields as extFields members to a header that is being written: JSON ,"name":"value"
 * (without the comma when *first), binary lengths and bytes. Part of rq_frame_encode. */
void rq_fields_encode(const struct rq_fields *table, const void *fields,
                      enum rq_serialize serialize, bool *first, struct rq_buf *out);

/* One further extField, likewise. A value with p == NULL is left out. */
void rq_ext_encode(struct rq_slice name, struct rq_slice value, enum rq_serialize serialize,
                   bool *first, struct rq_buf *out);

/* Values of fields that are numbers on the wire. */
enum {
    RQ_PULL_COMMIT_OFFSET = 1, /* pull sysFlag (PullSysFlag) */
    RQ_PULL_SUSPEND = 2,
    RQ_PULL_SUBSCRIPTION = 4,
    RQ_PULL_CLASS_FILTER = 8,
    RQ_PULL_LITE = 16
};
enum { RQ_PERM_INHERIT = 1, RQ_PERM_WRITE = 2, RQ_PERM_READ = 4, RQ_PERM_PRIORITY = 8 };

#endif
