/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One record of the commit log: planned outside the append lock (sizes, CRC), written inside it,
 * and checked when it is read back. Pure functions over bytes. Counterparts: MessageExtEncoder,
 * CommitLog.checkMessageAndReturnSize.
 */
#ifndef RQ_STORE_RECORD_H
#define RQ_STORE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "store/store.h"
#include "wire/message.h"

#define RQ_RECORD_MAGIC_V1    ((uint32_t)RQ_MSG_MAGIC_V1)
#define RQ_RECORD_MAGIC_V2    ((uint32_t)RQ_MSG_MAGIC_V2)
#define RQ_RECORD_MAGIC_BLANK ((uint32_t)RQ_MSG_MAGIC_BLANK)

#define RQ_RECORD_BLANK_BYTES 8 /* size and magic of the filler behind the last record of a file */
#define RQ_RECORD_TOPIC_MAX   255
#define RQ_RECORD_EXTRA_BYTES 65536             /* a record may be this much larger than its body */
#define RQ_RECORD_BODY_MAX    ((size_t)1 << 30) /* the largest maxMessageSize */

/* What is known of a record before it has its place. */
struct rq_record_plan {
    uint32_t size;
    int32_t body_crc;
    uint16_t properties; /* bytes of properties before the tail */
    /* bytes of the CRC property behind them, with a separator that is missing; 0 = none */
    uint16_t tail;
};

/* Checks the limits of one message, whose body may have body_max bytes. On another status than
 * RQ_PUT_OK, reason says why. */
enum rq_put_status rq_record_plan(const struct rq_store_options *options, const struct rq_msg *msg,
                                  size_t body_max, struct rq_record_plan *plan,
                                  char reason[RQ_PUT_REASON_MAX]);

/* Writes plan->size bytes. */
void rq_record_write(char *to, const struct rq_msg *msg, const struct rq_record_plan *plan,
                     int64_t queue_offset, int64_t commit_log_offset, int64_t store_timestamp);

/* The property that holds a CRC of all that stands before it, when it is switched on (5.x). */
#define RQ_RECORD_CRC_NAME  "__CRC32#"
#define RQ_RECORD_CRC_BYTES 20 /* name, ten digits, both separators */

/* The filler of a file's tail: n bytes remain, of which eight are written. */
void rq_record_write_blank(char *to, uint32_t n);

/* A checked record; slices point into it. */
struct rq_record {
    uint32_t size;
    int32_t queue_id;
    int32_t sys_flag;
    int64_t queue_offset;
    int64_t commit_log_offset;
    int64_t store_timestamp;
    int64_t prepared_transaction_offset;
    struct rq_slice body;
    struct rq_slice topic;
    struct rq_slice properties;
};

enum rq_record_kind { RQ_RECORD_GOOD, RQ_RECORD_BLANK, RQ_RECORD_BAD };

/* Reads the record that begins at p, of which left bytes are there. check_crc also checks the body.
 * A blank has its size set. */
enum rq_record_kind rq_record_read(const char *p, size_t left, bool check_crc,
                                   struct rq_record *out);

/* How many bytes the record at p has, of which n are looked at (RQ_RECORD_HEAD_MAX, or the left
 * ones when they are fewer) and left are there; for a blank those that say so. 0 when no record can
 * begin like that. rq_record_read then says whether it is one. */
#define RQ_RECORD_HEAD_MAX 112 /* up to the size of the body, with IPv6 hosts */
size_t rq_record_bytes(const char *p, size_t n, size_t left);

/* Whether the n bytes at p begin as a record of that size does, of message number of a queue with
 * that id. Looks at nothing behind the head. */
bool rq_record_is_message(const char *p, size_t n, int32_t queue_id, int64_t number);

/* Whether the record at p has the property RQ_RECORD_CRC_NAME, and it is right. */
bool rq_record_crc_ok(const char *p, const struct rq_record *record);

/* Properties that the store itself looks at; p NULL when absent. The last one of a name counts, as
 * for Java. */
struct rq_record_properties {
    struct rq_slice tags;
    struct rq_slice keys;
    struct rq_slice unique_key;
    struct rq_slice delay;
};
void rq_record_properties(struct rq_slice properties, struct rq_record_properties *out);

/* The next blank-separated token of keys; false at the end. */
bool rq_record_next_key(struct rq_slice *keys, struct rq_slice *out);

#endif
