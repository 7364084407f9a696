/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Conversations recorded between real clients, name servers and brokers
 * (tests/vectors/frames-*.jsonl), frame by frame. */
#ifndef RQ_TESTS_WIRE_RECORDED_H
#define RQ_TESTS_WIRE_RECORDED_H

#include "base/json.h"
#include "wire/frame.h"

struct recorded {
    const cJSON *line; /* of the file */
    struct rq_slice bytes;
    struct rq_frame frame;
    /* code of the request; of an answer: of that which it answers, -1 = not recorded */
    int32_t request;
    const char *what; /* names it in a failure */
};

/* Calls check for each frame of the three conversations, in order. Fails when a frame cannot be
 * decoded, or when there are few. */
void recorded_each(void (*check)(const struct recorded *recorded));

#endif
