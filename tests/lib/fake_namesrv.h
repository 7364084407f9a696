/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A name server that gives any route: for tests that put a proxy, a silent port or a broker that is
 * not there into a client's way. One thread.
 */
#ifndef RQ_TESTS_LIB_FAKE_NAMESRV_H
#define RQ_TESTS_LIB_FAKE_NAMESRV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tl_namesrv;

struct tl_namesrv *tl_namesrv_start(void); /* 127.0.0.1, any port; knows no topic */
const char *tl_namesrv_addr(const struct tl_namesrv *ns);

/* Body of the answer for a topic (NULL = every topic without one of its own), with a code. body
 * NULL: no body. */
void tl_namesrv_route(struct tl_namesrv *ns, const char *topic, int code, const char *body);

/* The usual route: brokers "name@host:port,name@host:port", so many queues each, perm 6. */
void tl_namesrv_brokers(struct tl_namesrv *ns, const char *topic, const char *brokers, int queues);

/* One that leads topic "Topic" to a broker which refuses connections, with four queues; addr gets its
 * address. */
struct tl_namesrv *tl_namesrv_of_dead(const char *broker, char *addr, size_t room);

void tl_namesrv_silent(struct tl_namesrv *ns, bool on); /* accepts and reads, answers nothing */
uint64_t tl_namesrv_asked(struct tl_namesrv *ns);       /* requests so far */
void tl_namesrv_stop(struct tl_namesrv *ns);

#endif
