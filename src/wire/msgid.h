/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Message ids as text. The offset id tells broker address and commit-log offset; the unique id is
 * the producer's (property UNIQ_KEY). Both are upper-case hex. Pure functions, any thread.
 * Counterparts: MessageDecoder.createMessageId, MessageClientIDSetter.
 */
#ifndef RQ_WIRE_MSGID_H
#define RQ_WIRE_MSGID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/slice.h"
#include "wire/message.h"

#define RQ_MSGID_V4  32 /* characters */
#define RQ_MSGID_V6  56
#define RQ_MSGID_MAX 56

/* Writes the offset id and a NUL, returns its length. */
size_t rq_msgid_of_offset(const struct rq_host *store_host, int64_t commit_log_offset,
                          char out[RQ_MSGID_MAX + 1]);

/* Takes an offset id apart: 32 characters are IPv4, 56 IPv6. Errors: RMQ_ERR_INVALID. */
rmq_status rq_msgid_parse_offset(struct rq_slice id, struct rq_host *store_host,
                                 int64_t *commit_log_offset, rmq_error **err);

/* Parts of a unique id. */
struct rq_unique_parts {
    uint8_t ip[16];
    uint8_t ip_len; /* 4 or 16 */
    uint16_t pid;
    uint32_t process;  /* any number that the process keeps */
    uint32_t month_ms; /* ms since the start of the month, local time */
    uint16_t counter;
};

size_t rq_msgid_of_unique(const struct rq_unique_parts *parts, char out[RQ_MSGID_MAX + 1]);
rmq_status rq_msgid_parse_unique(struct rq_slice id, struct rq_unique_parts *parts,
                                 rmq_error **err);

/* Hex text of bytes, upper case, no NUL: 2 * n characters. And back: false for anything but pairs
 * of hex digits. */
void rq_hex_upper(const void *p, size_t n, char *out);
bool rq_hex_parse(struct rq_slice text, void *out);

#endif
