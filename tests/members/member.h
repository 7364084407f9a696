/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One member of a consumer group as a process of its own, of any kind: tests/interop lets them
 * join, leave and die. A message is written as a line before it is acknowledged, so a message that
 * no file has was not acknowledged by anybody.
 */
#ifndef RQ_TESTS_MEMBER_H
#define RQ_TESTS_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/rmq.h>

struct member {
    const char *namesrv, *topic, *group;
    const char *instance; /* NULL: unique */
    const char *offsets;  /* folder of a broadcasting member's offset file */
    const char *strategy; /* NULL: average */
    int64_t later;        /* every so manieth message is asked for again once; 0: none */
    int64_t pause_ms;     /* what a message takes */
};

/* Each runs until member_over; false when it could not start or stop in good order, which it has
 * told on stderr. */
bool member_push(const struct member *member);
bool member_ordered(const struct member *member);
bool member_popping(const struct member *member); /* push, of a group that pops the topic */
bool member_broadcast(const struct member *member);
bool member_pull(const struct member *member);
bool member_lite(const struct member *member);
bool member_pop(const struct member *member);

/* SIGTERM has come; the wait is at most so long. Only from the main thread. */
bool member_over(void);
bool member_over_within(int64_t ms);

/* Takes pause_ms, then writes the line. False when the message is to be asked for again, or the
 * line cannot be written. Any thread. */
bool member_take(const struct member *member, const rmq_message_view *view);

/* Tells what went wrong and destroys err; true for RMQ_OK. */
bool member_good(const char *what, rmq_status st, rmq_error *err);

#endif
