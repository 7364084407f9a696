/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* One look for messages to pop or peek, for pop.c and pop_process.c: what it has found so far. On
 * one thread's stack. */
#ifndef RQ_BROKER_POP_LOOK_H
#define RQ_BROKER_POP_LOOK_H

#include "broker/pop.h"
#include "store/store.h"
#include "wire/pop.h"

/* Bytes of the answer's body: inside a mapped file, or in memory of their own. */
struct rq_pop_piece {
    const char *p;
    size_t n;
    struct rq_mapped_file *file;
    char *memory;
};

struct rq_pop_look {
    struct rmq_broker *broker;
    const struct rq_pop_ask *ask;
    struct rq_store_filter filter;
    int64_t pop_time_ms;
    int32_t revive_qid;
    uint32_t turn;      /* where among the queues it begins */
    size_t count;       /* messages */
    int64_t rest;       /* messages that are left */
    int passes;         /* reads that found nothing wanted */
    int64_t blocked_ms; /* when to look again: the first blocked queue is free; 0 = none is */
    struct rq_buf starts;
    struct rq_buf offsets;
    struct rq_buf counts;
    size_t bytes;
    size_t piece_count;
    size_t next_piece; /* those before it are the frame's */
    struct rq_pop_piece pieces[RQ_POP_MAX];
};

void rq_pop_look_init(struct rq_pop_look *look, struct rmq_broker *broker,
                      const struct rq_pop_ask *ask);
void rq_pop_look_release(struct rq_pop_look *look);

/* Takes what a queue gave into the answer. What is moved leaves result; a message of a retry topic
 * is shown under the topic that it came from, with its handle. */
void rq_pop_look_take(struct rq_pop_look *look, const struct rq_pop_place *place,
                      struct rq_store_result *result, int64_t start_offset);

/* Calls each for all queues that the ask wants. */
void rq_pop_look_over(struct rq_pop_look *look,
                      void (*each)(struct rq_pop_look *look, const struct rq_pop_place *place));

/* Answers with what was collected; its memory and files are then the frame's. */
void rq_pop_send_answer(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                        const char *remark, struct rq_pop_look *look);

/* pop.c: where a group begins that has no offset of a queue. */
int64_t rq_pop_initial_offset(struct rmq_broker *broker, const struct rq_pop_place *place,
                              int32_t init_mode);

#endif
