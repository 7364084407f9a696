/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Covering damage in the commit log. Runs inside rq_store_open, before any other thread exists. */
#include "store/mend.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/message.h"

#define COVER_TOPIC "rmq_sys_damaged" /* of a record that makes no queue, so no topic either */
#define BODY_AT     88                /* of a record with IPv4 hosts */
#define COVER_MAX   ((size_t)4 << 20) /* of one covering record; more damage takes several */

/* Bytes [pos, pos + n) of a file changed: to disk. */
static rmq_status sync_part(struct rq_store *store, struct rq_mapped_file *file, size_t pos,
                            size_t n, rmq_error **err)
{
    size_t from = pos / RQ_STORE_PAGE * RQ_STORE_PAGE;
    return rq_disk_sync_map(&store->disk, file->path, file->data, from, pos + n) == 0
               ? RMQ_OK
               : rq_error_set(err, rq_store_io_status(errno), "sync %s: %s", file->path,
                              strerror(errno));
}

/* The rest of a file becomes a blank. */
static rmq_status cover_rest(struct rq_store *store, struct rq_mapped_file *file, size_t pos,
                             rmq_error **err)
{
    size_t left = file->size - pos;
    if (left < RQ_RECORD_BLANK_BYTES) {
        return RMQ_OK; /* too little for any record: readers go on with the next file */
    }
    rmq_status st = rq_mapped_file_reserve(file, pos + RQ_RECORD_BLANK_BYTES, err);
    if (st == RMQ_OK) {
        rq_record_write_blank(file->data + pos, (uint32_t)left);
        st = sync_part(store, file, pos, RQ_RECORD_BLANK_BYTES, err);
    }
    return st;
}

/* A message of n bytes over what is at pos; false when n is too small for one. copy has room for n
 * bytes. It has the CRC property, if there is room, since a store may ask for it
 * (forceVerifyPropCRC). */
static bool write_cover(struct rq_mapped_file *file, size_t pos, size_t n, int64_t time, char *copy)
{
    char *to = file->data + pos;
    struct rq_msg msg = {.topic = rq_slice_str(COVER_TOPIC),
                         .sys_flag = RQ_SYS_TRANSACTION_ROLLBACK,
                         .born_timestamp_ms = time,
                         .born_host = {.len = 4},
                         .store_host = {.len = 4},
                         .body = rq_slice("", 0),
                         .properties = rq_slice("", 0)};
    size_t most = rq_msg_encoded_size(&msg);
    size_t fields = most - msg.topic.n;
    if (n <= fields) {
        return false;
    }
    msg.topic.n = n < most ? n - fields : msg.topic.n;
    uint16_t tail = n >= most + RQ_RECORD_CRC_BYTES ? RQ_RECORD_CRC_BYTES : 0;
    size_t body = n - fields - msg.topic.n - tail;
    memcpy(copy, to + BODY_AT, body);
    msg.body = rq_slice(copy, body);
    struct rq_record_plan plan = {
        .size = (uint32_t)n, .body_crc = rq_msg_body_crc(msg.body), .tail = tail};
    rq_record_write(to, &msg, &plan, 0, file->start + (int64_t)pos, time);
    return true;
}

/* Bytes [pos, upto) of a file, a good record of that time behind them, become covering records. */
static rmq_status cover_part(struct rq_store *store, struct rq_mapped_file *file, size_t pos,
                             size_t upto, int64_t time, rmq_error **err)
{
    size_t first = pos;
    rmq_status st = rq_mapped_file_reserve(file, upto, err);
    char *copy = rq_alloc(COVER_MAX * 2);
    if (st == RMQ_OK && !copy) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "no memory to mend the commit log");
    }
    while (st == RMQ_OK && pos < upto) {
        size_t n = upto - pos < COVER_MAX * 2 ? upto - pos : COVER_MAX;
        if (!write_cover(file, pos, n, time, copy)) {
            st = rq_error_set(err, RMQ_ERR_CORRUPT,
                              "%zu bytes at offset %" PRId64 " are less than any message", n,
                              file->start + (int64_t)pos);
        }
        pos += n;
    }
    rq_free(copy);
    return st == RMQ_OK ? sync_part(store, file, first, upto - first, err) : st;
}

rmq_status rq_mend_log(struct rq_store *store, int64_t offset, const struct rq_record *next,
                       rmq_error **err)
{
    rmq_status st = RMQ_OK;
    int64_t upto = next->commit_log_offset;
    const struct rq_mapped_file_queue *files = &store->log.files;
    RQ_LOG(ERROR, "damage in the commit log, messages behind it are kept",
           "from=%" PRId64 " to=%" PRId64 " lost_bytes=%" PRId64, offset, upto, upto - offset);
    for (size_t i = 0; st == RMQ_OK && i < files->count; i++) {
        struct rq_mapped_file *file = files->files[i];
        int64_t end = file->start + (int64_t)file->size;
        if (end <= offset || file->start >= upto) {
            continue;
        }
        size_t pos = offset > file->start ? (size_t)(offset - file->start) : 0;
        st = end <= upto ? cover_rest(store, file, pos, err)
                         : cover_part(store, file, pos, (size_t)(upto - file->start),
                                      next->store_timestamp, err);
    }
    return st;
}

/* ---- files that lost their end ---- */

/* Where the good records of a file end. */
static size_t end_of_records(const struct rq_mapped_file *file)
{
    size_t pos = 0;
    struct rq_record record;
    while (pos < file->size &&
           rq_record_read(file->data + pos, file->size - pos, true, &record) == RQ_RECORD_GOOD &&
           record.commit_log_offset == file->start + (int64_t)pos) {
        pos += record.size;
    }
    return pos;
}

rmq_status rq_mend_cut_files(struct rq_store *store, int64_t upto, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    const struct rq_mapped_file_queue *files = &store->log.files;
    for (size_t i = 0; st == RMQ_OK && i < files->count; i++) {
        struct rq_mapped_file *file = files->files[i];
        int64_t end = file->start + (int64_t)file->size;
        if (!file->cut || end > upto) {
            continue;
        }
        size_t pos = end_of_records(file);
        RQ_LOG(ERROR, "messages are lost with the end of their file, those behind it are kept",
               "path=%s from=%" PRId64 " to=%" PRId64, file->path, file->start + (int64_t)pos, end);
        st = cover_rest(store, file, pos, err);
        struct rq_consume_queue *queue;
        for (size_t n = 0; st == RMQ_OK && (queue = rq_queue_table_next(&store->queues, &n));
             rq_consume_queue_release(queue)) {
            rq_consume_queue_blank(queue, file->start + (int64_t)pos, end);
        }
    }
    return st;
}
