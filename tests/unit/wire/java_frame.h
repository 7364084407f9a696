/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Comparing a decoded frame with what Java decoded, and with itself when it has been written again.
 * `what` names the case in a failure. */
#ifndef RQ_TESTS_WIRE_JAVA_FRAME_H
#define RQ_TESTS_WIRE_JAVA_FRAME_H

#include "base/json.h"
#include "wire/frame.h"

/* tests/vectors/remoting.json, ready for the checks below (its NUL characters are kept). */
cJSON *java_read_remoting(void);

void java_check_header(const struct rq_header *header, const cJSON *expected, const char *what);
void java_check_ext(const struct rq_header *header, const cJSON *expected, const char *what);
void java_check_body(struct rq_slice body, const char *hex, const char *what);

/* Equal in meaning: the binary form knows no empty text, and one side may be it. */
bool java_same_text(struct rq_slice a, struct rq_slice b);

/* Writes a decoded frame again in one form, decodes that and compares. */
void java_check_written_again(const struct rq_frame *frame, enum rq_serialize serialize,
                              const char *what);

#endif
