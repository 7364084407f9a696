/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Messages as the commit log stores them and as pull, query and view answers carry them; and the
 * batch body of SEND_BATCH_MESSAGE. Decoded messages are views: slices of the bytes that were
 * given. Every length is checked before use. Pure functions, any thread. Counterparts:
 * MessageDecoder, MessageExtEncoder, MessageSysFlag, MessageVersion.
 */
#ifndef RQ_WIRE_MESSAGE_H
#define RQ_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/slice.h"

#define RQ_MSG_MAGIC_V1 (-626843481) /* 0xDAA320A7: topic length in 1 byte */
/* 0xDAA320AB: in 2 bytes, for topics above RQ_MSG_TOPIC_MAX_V1 */
#define RQ_MSG_MAGIC_V2 (-626843477)
/* 0xCBD43194: filler at the end of a commit-log file, never on the wire */
#define RQ_MSG_MAGIC_BLANK (-875286124)

#define RQ_MSG_TOPIC_MAX_V1   127
#define RQ_MSG_TOPIC_MAX_V2   32767
#define RQ_MSG_PROPERTIES_MAX 32767

/* Message sysFlag bits. */
enum {
    RQ_SYS_COMPRESSED = 0x001,
    RQ_SYS_MULTI_TAGS = 0x002,
    RQ_SYS_TRANSACTION_MASK = 0x00C,
    RQ_SYS_TRANSACTION_PREPARED = 0x004,
    RQ_SYS_TRANSACTION_COMMIT = 0x008,
    RQ_SYS_TRANSACTION_ROLLBACK = 0x00C,
    RQ_SYS_BORN_HOST_V6 = 0x010,
    RQ_SYS_STORE_HOST_V6 = 0x020,
    RQ_SYS_UNWRAP = 0x040, /* inner batch that the client takes apart */
    RQ_SYS_INNER_BATCH = 0x080,
    RQ_SYS_COMPRESSION_MASK = 0x700,
    RQ_SYS_COMPRESSION_SHIFT = 8
};

/* Places of fixed fields, from the message's first byte. Those behind the born host move by 12
 * where it is IPv6. */
enum {
    RQ_MSG_AT_SIZE = 0,
    RQ_MSG_AT_MAGIC = 4,
    RQ_MSG_AT_BODY_CRC = 8,
    RQ_MSG_AT_QUEUE_ID = 12,
    RQ_MSG_AT_FLAG = 16,
    RQ_MSG_AT_QUEUE_OFFSET = 20,
    RQ_MSG_AT_COMMIT_LOG_OFFSET = 28,
    RQ_MSG_AT_SYS_FLAG = 36,
    RQ_MSG_AT_BORN_TIMESTAMP = 40,
    RQ_MSG_AT_BORN_HOST = 48,
    RQ_MSG_AT_STORE_TIMESTAMP = 56, /* + 12 with an IPv6 born host */
    RQ_MSG_SIZE_MIN = 91            /* IPv4 hosts, version 1, everything empty */
};

/* Address and port of a host; len is 4 or 16 (all zero reads as no host). */
struct rq_host {
    uint8_t addr[16];
    uint8_t len;
    int32_t port;
};

struct rq_msg {
    int32_t total_size;
    int32_t magic;
    int32_t body_crc; /* CRC-32 of the stored body & 0x7FFFFFFF */
    int32_t queue_id;
    int32_t flag; /* the user's */
    int32_t sys_flag;
    int64_t queue_offset;
    int64_t commit_log_offset;
    int64_t born_timestamp_ms;
    int64_t store_timestamp_ms;
    int64_t prepared_transaction_offset;
    int32_t reconsume_times;
    struct rq_host born_host;
    struct rq_host store_host;
    struct rq_slice body; /* as stored, perhaps compressed */
    struct rq_slice topic;
    struct rq_slice properties;
    /* encoder only: appended to properties; empty after decoding */
    struct rq_slice more_properties;
};

/* Decodes the message at the cursor and moves the cursor behind it. All lengths must agree with the
 * total size. Errors: RMQ_ERR_PROTOCOL; the cursor is then bad, and as in Java the rest of its
 * bytes is lost. */
rmq_status rq_msg_decode(struct rq_cursor *c, struct rq_msg *out, rmq_error **err);

/* Whether the body has the CRC that the message names. */
bool rq_msg_crc_ok(const struct rq_msg *msg);
int32_t rq_msg_body_crc(struct rq_slice body);

/* Bytes that rq_msg_encode will write; 0 when a part is too large (topic, properties, or more than
 * INT32_MAX in all). Chosen by the fields: V2 when the topic needs it, host sizes by host.len. */
size_t rq_msg_encoded_size(const struct rq_msg *msg);

/* Writes the message to out, which has size = rq_msg_encoded_size(msg) bytes. total_size, magic and
 * the IPv6 bits of sys_flag are written as the fields require, whatever the struct says; body_crc
 * is written as given. */
void rq_msg_encode(const struct rq_msg *msg, size_t size, char *out);

/* One message of a batch body. */
struct rq_batch_item {
    int32_t flag;
    struct rq_slice body;
    struct rq_slice properties;
};

/* Next item: RMQ_OK with item filled, RMQ_ERR_NOT_FOUND at the end, RMQ_ERR_PROTOCOL. */
rmq_status rq_batch_next(struct rq_cursor *c, struct rq_batch_item *item, rmq_error **err);

/* Appends an item. Errors (also sticky in the buffer): RMQ_ERR_TOO_LARGE for properties above 32767
 * bytes, RMQ_ERR_NOMEM. */
rmq_status rq_batch_add(struct rq_buf *out, const struct rq_batch_item *item);

/* The same in two steps, for who writes the properties, at most 32767 bytes, right behind the body.
 * begin returns the place of the item, which end is given; to take an item back, set out->len to
 * it. Errors are sticky in the buffer; end then does nothing. */
size_t rq_batch_begin(struct rq_buf *out, int32_t flag, struct rq_slice body);
void rq_batch_end(struct rq_buf *out, size_t at);

/* ---- hosts ---- */

#define RQ_HOST_TEXT 64 /* "[ffff:…]:65535" and a NUL */

/* From numeric text "1.2.3.4:10911" or "[::1]:10911". Errors: RMQ_ERR_INVALID. */
rmq_status rq_host_parse(struct rq_slice text, struct rq_host *out, rmq_error **err);

/* Writes text and a NUL, returns the length. IPv6 in brackets, shortened as inet_ntop does. */
size_t rq_host_text(const struct rq_host *host, char out[RQ_HOST_TEXT]);
bool rq_host_equal(const struct rq_host *a, const struct rq_host *b);

#endif
