/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The program's hooks around a send: asked whether it is allowed, told before it and after it. A
 * context goes with the send from the first to the last; without hooks there is none and nothing is
 * spent. Counterparts: SendMessageHook, CheckForbiddenHook.
 */
#ifndef RQ_CLIENT_HOOKS_H
#define RQ_CLIENT_HOOKS_H

#include <rmq/producer.h>

#include "base/slice.h"

struct rq_hooks; /* a list that is never changed: adding makes a new one */

/* Appends to the newest list at *place (atomic, NULL at first); by one thread at a time. Errors:
 * RMQ_ERR_INVALID, RMQ_ERR_NOMEM. */
rmq_status rq_hooks_add(_Atomic(struct rq_hooks *) *place, const rmq_send_hook *hook,
                        rmq_error **err);
void rq_hooks_free(struct rq_hooks *hooks); /* all versions */

/* Checks, then "before", on the sender's thread; *out stays NULL without hooks. The messages are
 * borrowed until this returns. Errors: what a check returned, RMQ_ERR_NOMEM; then no "before" has
 * run and there will be no "after". */
rmq_status rq_hooks_begin(const struct rq_hooks *hooks, const char *group,
                          const rmq_message *const *messages, size_t count, rmq_send_mode mode,
                          struct rmq_send_context **out, rmq_error **err);

/* "name NUL value NUL …" that the hooks added. */
struct rq_slice rq_hooks_pairs(const struct rmq_send_context *context);

/* The context's memory, beyond its end. NULL is accepted. */
struct rmq_send_context *rq_hooks_retain(struct rmq_send_context *context);
void rq_hooks_release(struct rmq_send_context *context);

/* "After", in the order of "before"; releases the context. NULL is accepted. */
void rq_hooks_end(struct rmq_send_context *context, const rmq_send_result *result,
                  const rmq_error *err);

#endif
