/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The checkpoint file, 4096 bytes of which the first forty mean something. The flusher's thread,
 * and open and close. */
#include "store/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/sys.h"
#include "store/mapped_file.h"

#define FILE_BYTES  4096
#define FIELDS      5
#define FIELD_BYTES (FIELDS * 8)
#define SAFETY_MS   3000 /* what may have been on its way when the times were taken */

rmq_status rq_checkpoint_load(struct rq_checkpoint *checkpoint, const char *path, rmq_error **err)
{
    *checkpoint = (struct rq_checkpoint){.path = rq_strdup(path), .disk = checkpoint->disk};
    if (!checkpoint->path) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for the checkpoint");
    }
    int fd = rq_sys_open(path, O_RDONLY, 0);
    if (fd < 0) {
        return errno == ENOENT
                   ? RMQ_OK
                   : rq_error_set(err, RMQ_ERR_IO, "open %s: %s", path, strerror(errno));
    }
    char raw[FIELD_BYTES];
    ssize_t n = rq_sys_pread(fd, raw, sizeof raw, 0);
    close(fd);
    if (n == (ssize_t)sizeof raw) {
        struct rq_cursor c = rq_cursor(raw, sizeof raw);
        checkpoint->commit_log_time = (int64_t)rq_cursor_be64(&c);
        checkpoint->queue_time = (int64_t)rq_cursor_be64(&c);
        checkpoint->index_time = (int64_t)rq_cursor_be64(&c);
        checkpoint->master_flushed_offset = (int64_t)rq_cursor_be64(&c);
        checkpoint->confirm_offset = (int64_t)rq_cursor_be64(&c);
    }
    return RMQ_OK;
}

void rq_checkpoint_free(struct rq_checkpoint *checkpoint)
{
    rq_free(checkpoint->path);
    checkpoint->path = NULL;
}

rmq_status rq_checkpoint_flush(struct rq_checkpoint *checkpoint, rmq_error **err)
{
    if (!checkpoint->changed) {
        return RMQ_OK;
    }
    char raw[FILE_BYTES] = {0};
    const int64_t fields[FIELDS] = {checkpoint->commit_log_time, checkpoint->queue_time,
                                    checkpoint->index_time, checkpoint->master_flushed_offset,
                                    checkpoint->confirm_offset};
    for (size_t i = 0; i < FIELDS; i++) {
        rq_store_be64(raw + i * 8, (uint64_t)fields[i]);
    }
    int error = rq_disk_fault(checkpoint->disk, RQ_DISK_WRITE);
    int fd = error ? -1 : rq_sys_open(checkpoint->path, O_WRONLY | O_CREAT, 0644);
    bool ok = fd >= 0 && rq_sys_pwrite(fd, raw, sizeof raw, 0) == (ssize_t)sizeof raw &&
              rq_disk_sync_file(checkpoint->disk, checkpoint->path, fd) == 0;
    error = error ? error : errno;
    if (fd >= 0) {
        close(fd);
    }
    if (!ok) {
        return rq_error_set(err, rq_store_io_status(error), "write %s: %s", checkpoint->path,
                            strerror(error));
    }
    checkpoint->changed = false;
    return RMQ_OK;
}

void rq_checkpoint_raise(struct rq_checkpoint *checkpoint, int64_t *time, int64_t to)
{
    if (to > *time) {
        *time = to;
        checkpoint->changed = true;
    }
}

int64_t rq_checkpoint_min(const struct rq_checkpoint *checkpoint, bool with_index)
{
    int64_t min = checkpoint->commit_log_time < checkpoint->queue_time ? checkpoint->commit_log_time
                                                                       : checkpoint->queue_time;
    min = with_index && checkpoint->index_time < min ? checkpoint->index_time : min;
    return min > SAFETY_MS ? min - SAFETY_MS : 0;
}
