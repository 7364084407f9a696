/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* One request to a server over a socket of its own, as an administrator's tool would send it. */
#ifndef RQ_TESTS_LIB_ASK_H
#define RQ_TESTS_LIB_ASK_H

/* Sends code with extFields (JSON text) and waits for the answer. Its body is put into out as text,
 * cut at room. Returns the answer's code, or -1 when none came within 15 s. */
int tl_ask(const char *addr, int code, const char *ext, char *out, unsigned long room);

/* The same with a body, text. */
int tl_ask_with(const char *addr, int code, const char *ext, const char *body, char *out,
                unsigned long room);

#endif
