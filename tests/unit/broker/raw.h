/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A tiny blocking client for the broker's tests: a socket, frames out, frames in, nothing hidden.
 * And a broker to talk to. Everything aborts the test on failure.
 */
#ifndef TESTS_UNIT_BROKER_RAW_H
#define TESTS_UNIT_BROKER_RAW_H

#include <check.h>
#include <rmq/broker.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/bodies.h"
#include "wire/command.h"
#include "wire/frame.h"
#include "wire/heartbeat.h"
#include "wire/message.h"
#include "wire/names.h"
#include "wire/properties.h"

#define RAW_WAIT_MS 10000

struct raw {
    int fd;
    int32_t next_opaque;
    int32_t version;             /* that requests name */
    enum rq_serialize serialize; /* that requests use */
    const char *expression_type; /* of heartbeats and pulls; NULL = tags */
    struct rq_buf in;
    char *last; /* memory of the last frame */
    struct raw_answer {
        struct rq_header header;
        struct rq_slice body;
    } answer; /* that raw_call and its like return; valid until the next one */
};

struct raw *raw_open(const char *addr);
void raw_close(struct raw *raw);

/* Sends a request and returns its opaque. */
int32_t raw_send(struct raw *raw, int32_t code, int32_t flag, const struct rq_fields *table,
                 const void *fields, struct rq_slice body);
void raw_bytes(struct raw *raw, const void *p, size_t n);

/* Reads until the peer closes, as text with a NUL. */
void raw_text(struct raw *raw, char *out, size_t room);

/* Answers a request of the peer. */
void raw_reply(struct raw *raw, int32_t opaque, int32_t code, struct rq_slice body);

/* Reads the next frame; false at the end of the stream or after timeout_ms. */
bool raw_next(struct raw *raw, struct raw_answer *out, int64_t timeout_ms);

/* Whether the peer closes within RAW_WAIT_MS; frames before that are skipped. */
bool raw_is_closed(struct raw *raw);

/* Request and its answer; requests of the peer that come in between are skipped. */
struct raw_answer *raw_call(struct raw *raw, int32_t code, const struct rq_fields *table,
                            const void *fields, struct rq_slice body);

/* ---- usual requests ---- */

struct raw_answer *raw_produce(struct raw *raw, const char *topic, int32_t queue_id,
                               const char *tag, const char *body);
struct rq_hdr_send raw_send_header(const char *topic, int32_t queue_id, struct rq_slice properties);

/* Pull with the subscription in the request; suspend_ms 0 does not park. Returns the opaque. */
int32_t raw_pull(struct raw *raw, const char *group, const char *topic, int32_t queue_id,
                 int64_t offset, const char *expression, int64_t suspend_ms);
struct raw_answer *raw_pull_now(struct raw *raw, const char *group, const char *topic,
                                int32_t queue_id, int64_t offset, const char *expression);

struct raw_answer *raw_heartbeat(struct raw *raw, const char *client_id, const char *group,
                                 const char *topic, const char *expression, int64_t sub_version);
struct raw_answer *raw_create_topic(struct raw *raw, const char *topic, int32_t queues);
struct raw_answer *raw_route(struct raw *raw, const char *topic);

int64_t raw_i64(const struct raw_answer *answer, const char *name);
bool raw_has(const struct raw_answer *answer, const char *text); /* in the body */
size_t raw_messages(const struct raw_answer *answer, struct rq_msg *out, size_t max);

/* Whether a condition becomes true within RAW_WAIT_MS. */
#define ck_eventually(condition)                                                                   \
    do {                                                                                           \
        int64_t ck_deadline_ms_ = rq_deadline_ms(RAW_WAIT_MS);                                     \
        while (!(condition)) {                                                                     \
            ck_assert_msg(rq_mono_ms() < ck_deadline_ms_, "never: " #condition);                   \
            raw_pause();                                                                           \
        }                                                                                          \
    } while (0)
void raw_pause(void); /* 2 ms between looks */

/* Among pairs: messages stay in a write buffer. */
#define RAW_IN_BUFFERS                                                                             \
    "transientStorePoolEnable", "true", "transientStorePoolSize", "1", "mappedFileSizeCommitLog",  \
        "1048576", "wakeCommitWhenPutMessage", "false", "commitIntervalCommitLog", "3600000",      \
        "flushIntervalCommitLog", "3600000"
rmq_broker *start_broker(const char *const *pairs); /* key, value, …, NULL; pairs may be NULL */

/* Puts a file of tables into a store that no broker has open. */
void write_config(const char *store_path, const char *name, const char *text);

#endif
