/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* How the handles of consumers that stand on another object come to be: memory, options of their
 * own, then what is inside. Any thread. */
#ifndef RQ_CLIENT_HANDLE_H
#define RQ_CLIENT_HANDLE_H

#include <stdbool.h>
#include <stddef.h>

#include <rmq/error.h>

struct rq_handle_kind {
    const char *name; /* "pull consumer", for messages */
    size_t size;      /* of the zeroed memory */
    /* Checks the program's options and copies them into the handle. There is nothing to undo after
     * a failure. */
    rmq_status (*load)(const void *options, void *handle, rmq_error **err);
    rmq_status (*open)(void *handle, rmq_error **err);
    void (*destroy)(void *handle); /* also of one that could not be opened */
};

/* wanted: the program has room for the handle. Errors: those of load and open, RMQ_ERR_INVALID,
 * RMQ_ERR_NOMEM. */
rmq_status rq_handle_create(const struct rq_handle_kind *kind, const void *options, bool wanted,
                            void **out, rmq_error **err);

#endif
