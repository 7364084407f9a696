/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A server for the tests of signing: name server and broker on one port, one thread. It shows each
 * request to the test, which says whether its signature is good, answers sends as a broker does and
 * everything else with SUCCESS, and refuses all but routes to who does not sign well.
 */
#ifndef RQ_TESTS_UNIT_CLIENT_SIGNED_SERVER_H
#define RQ_TESTS_UNIT_CLIENT_SIGNED_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "wire/frame.h"

#define SIGNED_CODES 1024

struct signed_server {
    bool (*is_good)(const struct rq_frame *frame);
    pthread_t thread;
    int listener;
    int wake[2];
    char addr[32];
    atomic_int seen[SIGNED_CODES]; /* requests by code */
    atomic_int bad;
};

void signed_server_start(struct signed_server *server, bool (*is_good)(const struct rq_frame *frame));
void signed_server_stop(struct signed_server *server);

#endif
