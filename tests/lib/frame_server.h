/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A server that answers each frame as a function says: for tests that need a name server or a broker
 * which says what no real one would. One thread, which calls the function.
 */
#ifndef RQ_TESTS_LIB_FRAME_SERVER_H
#define RQ_TESTS_LIB_FRAME_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/frame.h"

struct tl_server;

struct tl_reply {
    bool silent; /* no answer */
    int code;
    const char *remark;
    char *ext; /* JSON text; this and the body are malloc'ed, the server frees them */
    char *body;
    size_t body_len;
};

/* reply: zeroed, that is success without anything. One-way requests are not answered. */
typedef void (*tl_serve)(const struct tl_header *request, const char *frame, size_t n,
                         struct tl_reply *reply, void *user);

struct tl_server *tl_server_start(tl_serve serve, void *user); /* 127.0.0.1, any port */
const char *tl_server_addr(const struct tl_server *server);
void tl_server_stop(struct tl_server *server);

#endif
