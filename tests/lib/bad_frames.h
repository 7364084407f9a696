/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* First bytes of a connection after which nobody can say where the next frame begins, or that are no
 * header: wrong lengths, headers longer than their frame, every unknown kind of header. */
#ifndef RQ_TESTS_LIB_BAD_FRAMES_H
#define RQ_TESTS_LIB_BAD_FRAMES_H

#include <stdbool.h>

#define TL_BAD_FRAME 64 /* bytes of each */

/* The frame of that number, from 0 on, and what is bad about it; false when there are no more. */
bool tl_bad_frame(int number, unsigned char frame[TL_BAD_FRAME], char what[64]);

#endif
