/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A broker with one topic, and a group that pops from it. Everything aborts the test on failure. */
#ifndef TESTS_UNIT_BROKER_POPPING_H
#define TESTS_UNIT_BROKER_POPPING_H

#include "unit/broker/raw.h"
#include "wire/pop.h"

#define GROUP "pop-group"
#define TOPIC "Pop"

extern rmq_broker *broker;
extern struct raw *raw;

void pop_open(void); /* the topic has one queue */
void pop_open_with_store(const char *path);
void pop_close(void);

struct pop_wish {
    int queue_id;
    int max;
    int64_t invisible_ms;
    int64_t poll_ms;
    bool order;
    const char *attempt;
    const char *expression;
};

int32_t pop_send(struct raw *to, struct pop_wish wish);
struct raw_answer *pop_now(struct pop_wish wish);

/* Sends a message and waits until it can be read. */
void pop_produce(int queue_id, const char *tag, const char *body);

struct rq_slice pop_field(const struct raw_answer *answer, const char *name);

/* The handle of a message of an answer, as a client makes it. */
struct pop_handle {
    char text[256];
    struct rq_pop_handle parts;
};
struct pop_handle pop_handle_of(const struct raw_answer *answer, const struct rq_msg *msg);

/* With invisible_ms < 0 the request has no time. */
struct raw_answer *pop_ack_call(int32_t code, const struct pop_handle *handle,
                                int64_t invisible_ms);
int32_t pop_ack(const struct pop_handle *handle); /* code of the answer */
void pop_ack_as_batch(const struct rq_pop_handle *handle);

int32_t pop_waiting(int queue_id); /* pops of the group that wait for it */

#endif
