/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The write buffers that are free. */
#include "store/write_buffer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

void rq_write_buffers_init(struct rq_write_buffers *buffers)
{
    memset(buffers, 0, sizeof *buffers);
    rq_mutex_init(&buffers->commit_lock);
    rq_mutex_init(&buffers->lock);
}

void rq_write_buffers_free(struct rq_write_buffers *buffers)
{
    for (int i = 0; i < buffers->free_count; i++) {
        munlock(buffers->free[i], buffers->file_size);
        rq_free(buffers->free[i]);
    }
    rq_mutex_destroy(&buffers->lock);
    rq_mutex_destroy(&buffers->commit_lock);
}

rmq_status rq_write_buffers_open(struct rq_write_buffers *buffers, int count, size_t file_size,
                                 rmq_error **err)
{
    bool locked = true;
    buffers->file_size = file_size;
    for (int i = 0; i < count; i++) {
        char *buffer = rq_alloc(file_size);
        if (!buffer) {
            return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for %d write buffers of %zu bytes",
                                count, file_size);
        }
        if (mlock(buffer, file_size) < 0 && locked) {
            locked = false;
            RQ_LOG(WARN, "write buffers are not locked in memory", "bytes=%zu reason=%s", file_size,
                   strerror(errno));
        }
        buffers->free[buffers->free_count++] = buffer;
    }
    buffers->on = true;
    return RMQ_OK;
}

char *rq_write_buffers_take(struct rq_write_buffers *buffers)
{
    rq_mutex_lock(&buffers->lock);
    char *buffer = buffers->free_count > 0 ? buffers->free[--buffers->free_count] : NULL;
    rq_mutex_unlock(&buffers->lock);
    return buffer;
}

void rq_write_buffers_give(struct rq_write_buffers *buffers, char *buffer)
{
    rq_mutex_lock(&buffers->lock);
    buffers->free[buffers->free_count++] = buffer;
    rq_mutex_unlock(&buffers->lock);
}

bool rq_write_buffers_any(struct rq_write_buffers *buffers)
{
    rq_mutex_lock(&buffers->lock);
    bool any = buffers->free_count > 0;
    rq_mutex_unlock(&buffers->lock);
    return any;
}
