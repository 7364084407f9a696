/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Two brokers "a" and "b" at the name server of "a", a static topic on them, and how its first logical
 * queue goes from "a" to "b", for the tests of static topics. Everything aborts the test on failure. */
#ifndef TESTS_UNIT_BROKER_TWO_H
#define TESTS_UNIT_BROKER_TWO_H

#include "unit/broker/raw.h"

#define TOPIC "S"
#define GROUP "G" /* has a member that subscribes the topic */

struct two {
    rmq_broker *broker_a;
    rmq_broker *broker_b;
    struct raw *a;
    struct raw *b;
};
extern struct two two;

void two_start(void);
void two_stop(void);

#define ITEM(broker, gen, queue, logic)                                                            \
    "{\"bname\":\"" broker "\",\"gen\":" #gen ",\"queueId\":" #queue ",\"logicOffset\":" #logic    \
    ",\"startOffset\":0,\"endOffset\":-1,\"timeOfStart\":-1,\"timeOfEnd\":-1}"

/* 513 with a body as it stands. */
struct raw_answer *two_put_static(struct raw *raw, const char *topic, const char *body);

/* Gives the broker its mapping of the topic; queues are members of an object. The answer's code. */
int32_t two_map(struct raw *raw, int epoch, const char *queues);

/* Both logical queues on "a", each in the physical queue of the other's number. */
void two_map_to_a(void);

/* Queue 0 goes on at "b", as the tool does it: there first, then "a" lets it go, then "b" learns
 * that it begins at 10000. */
void two_begin_move(void);
void two_end_move(void);

void two_produce(struct raw *raw, int32_t queue_id, int count);
struct raw_answer *two_ask_queue(struct raw *raw, int32_t code, int32_t queue_id);
struct raw_answer *two_ask_topic(struct raw *raw, int32_t code, bool lo);
bool two_route_has(const char *text);

#endif
