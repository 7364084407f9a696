/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The frame layout as far as test tools need it: cut frames out of a stream, read code, opaque and
 * flag, make an answer. Written apart from src/ on purpose: a test tool that shares the decoder
 * under test would share its faults.
 */
#ifndef RQ_TESTS_LIB_FRAME_H
#define RQ_TESTS_LIB_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tl_header {
    int code;
    int32_t opaque;
    int flag; /* 1 = answer, 2 = one-way */
};

/* Size of the frame at the start of p, 0 when it is not whole yet, -1 when its length cannot be. */
long tl_frame_size(const char *p, size_t n);

/* Code, opaque, flag of a whole frame in either serialization; false when they cannot be found. */
bool tl_frame_header(const char *p, size_t n, struct tl_header *out);

/* Text of an extField of a JSON frame into out ("" when absent). */
void tl_frame_ext(const char *p, size_t n, const char *name, char *out, size_t room);

/* A JSON frame with extFields given as JSON text or NULL; malloc'ed, *n its size. */
char *tl_frame_make(const struct tl_header *header, const char *remark, const char *ext,
                    const void *body, size_t body_len, size_t *n);

#endif
