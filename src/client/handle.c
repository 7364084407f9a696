/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Creating a handle (see the header). */
#include "client/handle.h"

#include "base/err.h"
#include "base/mem.h"

rmq_status rq_handle_create(const struct rq_handle_kind *kind, const void *options, bool wanted,
                            void **out, rmq_error **err)
{
    if (!wanted) {
        return rq_error_set(err, RMQ_ERR_INVALID, "%s: out is NULL", kind->name);
    }
    void *handle = rq_calloc(1, kind->size);
    if (!handle) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%s", kind->name);
    }
    rmq_status st = kind->load(options, handle, err);
    if (st != RMQ_OK) {
        rq_free(handle);
        return st;
    }
    st = kind->open(handle, err);
    if (st != RMQ_OK) {
        kind->destroy(handle);
        return st;
    }
    *out = handle;
    return RMQ_OK;
}
