/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The key index against the commit log. Entries stand in the order of the messages, so both are
 * followed at once; then the chains of each file are tied anew in memory and compared.
 */
#include <inttypes.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "store/verify.h"
#include "wire/message.h"

static bool is_readable(const struct rq_verify *v, const struct rq_offline_file *file)
{
    return v->store->index.slots > 0 && file->size == v->store->index.file_size;
}

/* The entry that is due: its offset, or INT64_MAX at the end. */
static int64_t due_offset(struct rq_verify *v)
{
    struct rq_verify_index *at = &v->index;
    const struct rq_offline_files *files = &v->store->index_files;
    while (at->file < files->count) {
        const struct rq_offline_file *file = &files->files[at->file];
        if (is_readable(v, file)) {
            struct rq_mapped_file mapped = rq_offline_index_file(file);
            if (at->number == 0) {
                rq_index_file_read_header(&v->store->index, &mapped, &at->header);
                at->number = 1;
            }
            if (at->number < at->header.index_count) {
                return rq_index_file_offset(&v->store->index, &mapped, at->number);
            }
        }
        at->file++;
        at->number = 0;
    }
    return INT64_MAX;
}

static uint32_t due_hash(const struct rq_verify *v)
{
    const struct rq_verify_index *at = &v->index;
    return rq_load_be32(v->store->index_files.files[at->file].data +
                        rq_index_file_place(&v->store->index, at->number));
}

static void note_wrong(struct rq_verify *v, int64_t offset, const char *why)
{
    v->out.index_entries_wrong++;
    rq_verify_tell(v, "index file %017" PRId64 ": entry %u for commit-log offset %" PRId64 " %s",
                   v->store->index_files.files[v->index.file].start, v->index.number, offset, why);
}

void rq_verify_index_begin(struct rq_verify *v)
{
    for (size_t i = 0; i < v->store->index_files.count; i++) {
        const struct rq_offline_file *file = &v->store->index_files.files[i];
        if (!is_readable(v, file)) {
            v->out.index_entries_wrong++;
            rq_verify_tell(v, "index file %017" PRId64 " of %zu bytes cannot be read", file->start,
                           file->size);
        }
    }
}

/* Entries before an offset that no message led to. */
static void skip_before(struct rq_verify *v, int64_t offset)
{
    for (int64_t due; (due = due_offset(v)) < offset; v->index.number++) {
        if (due >= v->log_min) {
            note_wrong(v, due, "has no message");
        }
    }
}

static rmq_status check_key(struct rq_verify *v, const struct rq_record *record,
                            struct rq_slice key)
{
    uint32_t hash;
    rmq_status st = rq_index_hash(record->topic, key, &hash);
    if (st != RMQ_OK) {
        return st;
    }
    skip_before(v, record->commit_log_offset);
    int64_t due = due_offset(v);
    if (due > record->commit_log_offset) {
        v->out.index_entries_missing++;
        v->index_late += due == INT64_MAX;
        if (due != INT64_MAX) {
            rq_verify_tell(v, "message at commit-log offset %" PRId64 " is not in the index",
                           record->commit_log_offset);
        }
        return RMQ_OK;
    }
    if (due_hash(v) == hash) {
        v->out.index_entries++;
    } else {
        note_wrong(v, due, "has another key than its message");
    }
    v->index.number++;
    return RMQ_OK;
}

rmq_status rq_verify_index_record(struct rq_verify *v, const struct rq_record *record,
                                  const struct rq_record_properties *properties)
{
    if (v->store->index_files.count == 0 ||
        (record->sys_flag & RQ_SYS_TRANSACTION_MASK) == RQ_SYS_TRANSACTION_ROLLBACK) {
        return RMQ_OK;
    }
    rmq_status st = RMQ_OK;
    if (properties->unique_key.n > 0) {
        st = check_key(v, record, properties->unique_key);
    }
    struct rq_slice keys = properties->keys;
    struct rq_slice key;
    while (st == RMQ_OK && rq_record_next_key(&keys, &key)) {
        st = check_key(v, record, key);
    }
    return st;
}

/* ---- chains ---- */

static void check_chains(struct rq_verify *v, const struct rq_offline_file *file, uint32_t *newest)
{
    const struct rq_index *index = &v->store->index;
    struct rq_mapped_file mapped = rq_offline_index_file(file);
    struct rq_index_header header;
    int64_t broken = 0;
    rq_index_file_read_header(index, &mapped, &header);
    for (uint32_t i = 1; i < header.index_count; i++) {
        const char *p = file->data + rq_index_file_place(index, i);
        uint32_t slot = rq_load_be32(p) % index->slots;
        broken += rq_load_be32(p + 16) != newest[slot];
        newest[slot] = i;
    }
    for (uint32_t slot = 0; slot < index->slots; slot++) {
        broken += rq_index_file_newest(index, &mapped, slot, header.index_count) != newest[slot];
    }
    if (broken > 0) {
        v->out.index_chains_broken += broken;
        rq_verify_tell(v, "index file %017" PRId64 ": %" PRId64 " links of chains lead elsewhere",
                       file->start, broken);
    }
}

rmq_status rq_verify_index_end(struct rq_verify *v)
{
    for (int64_t due; (due = due_offset(v)) != INT64_MAX; v->index.number++) {
        bool ahead = due >= v->out.commit_log_max_offset;
        if (due >= v->log_min && !(ahead && !v->store->closed)) {
            note_wrong(v, due, ahead ? "is behind the end of the commit log" : "has no message");
        }
    }
    if (v->index_late > 0) {
        rq_verify_tell(v, "%" PRId64 " keys of the last messages are not in the index",
                       v->index_late);
    }
    for (size_t i = 0; i < v->store->index_files.count; i++) {
        if (is_readable(v, &v->store->index_files.files[i])) {
            uint32_t *newest = rq_calloc(v->store->index.slots, sizeof *newest);
            if (!newest) {
                return RMQ_ERR_NOMEM;
            }
            check_chains(v, &v->store->index_files.files[i], newest);
            rq_free(newest);
        }
    }
    return RMQ_OK;
}
