/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The key index against the commit log. Entries stand in the order of the messages, so both are
 * followed at once; then the chains of each file are tied anew in memory and compared.
 */
#include <inttypes.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "store/contents.h"
#include "store/verify.h"
#include "wire/message.h"

/* The entry that is due; NULL at the end. */
static const char *due_entry(struct rq_verify *v)
{
    struct rq_verify_index *at = &v->index;
    const struct rmq_store *store = v->store;
    const struct rq_offline_files *files = &store->index_files;
    for (; at->file < files->count; at->file++, at->number = 0) {
        const struct rq_offline_file *file = &files->files[at->file];
        if (!rq_offline_index_is_readable(store, file)) {
            continue;
        }
        if (at->number == 0 && rq_offline_index_header(store, file, &at->header)) {
            at->number = 1;
        }
        const char *p = at->number > 0 && at->number < at->header.index_count
                            ? rq_offline_index_entry(store, files->window, file, at->number)
                            : NULL;
        if (p) {
            return p;
        }
    }
    return NULL;
}

/* Its offset, or INT64_MAX at the end. */
static int64_t due_offset(struct rq_verify *v)
{
    const char *p = due_entry(v);
    return p ? (int64_t)rq_load_be64(p + 4) : INT64_MAX;
}

static void note_wrong(struct rq_verify *v, int64_t offset, const char *why)
{
    v->out.index_entries_wrong++;
    rq_verify_tell(v, "index file %017" PRId64 ": entry %u for commit-log offset %" PRId64 " %s",
                   v->store->index_files.files[v->index.file].start, v->index.number, offset, why);
}

/* Without files, who closed the store last knows whether there should be some. */
static enum rq_contents_index kept_index(const struct rmq_store *store)
{
    return store->closed ? rq_contents_index(store->root, store->log_end) : RQ_CONTENTS_UNKNOWN;
}

void rq_verify_index_begin(struct rq_verify *v)
{
    v->without_index =
        v->store->index_files.count == 0 && kept_index(v->store) == RQ_CONTENTS_NO_INDEX;
    for (size_t i = 0; i < v->store->index_files.count; i++) {
        const struct rq_offline_file *file = &v->store->index_files.files[i];
        if (!rq_offline_index_is_readable(v->store, file)) {
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
    const char *entry = due_entry(v);
    if (entry && rq_load_be32(entry) == hash) {
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
    if (v->without_index ||
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

/* Links of the entries that are not to the one before in the same slot; newest receives the last of
 * each slot. */
static int64_t count_broken_links(const struct rmq_store *store, const struct rq_offline_file *file,
                                  uint32_t count, uint32_t *newest)
{
    int64_t broken = 0;
    const char *p;
    for (uint32_t i = 1; i < count; i++) {
        if ((p = rq_offline_index_entry(store, store->index_files.window, file, i))) {
            uint32_t slot = rq_load_be32(p) % store->index.slots;
            broken += rq_load_be32(p + 16) != newest[slot];
            newest[slot] = i;
        }
    }
    return broken;
}

static void check_chains(struct rq_verify *v, const struct rq_offline_file *file, uint32_t *newest)
{
    const struct rmq_store *store = v->store;
    struct rq_index_header header;
    if (!rq_offline_index_header(store, file, &header)) {
        return;
    }
    int64_t broken = count_broken_links(store, file, header.index_count, newest);
    for (uint32_t slot = 0; slot < store->index.slots; slot++) {
        uint32_t number = rq_offline_index_slot(store, store->index_files.window, file, slot);
        broken += (number < header.index_count ? number : 0) != newest[slot];
    }
    if (broken > 0) {
        v->out.index_chains_broken += broken;
        rq_verify_tell(v, "index file %017" PRId64 ": %" PRId64 " links of chains lead elsewhere",
                       file->start, broken);
    }
}

static void tell_no_index(struct rq_verify *v)
{
    rq_verify_tell(v, "there is no key index, %" PRId64 " keys are not found%s", v->index_late,
                   kept_index(v->store) == RQ_CONTENTS_INDEX
                       ? ": its files were removed, the next start builds it again"
                       : "");
}

rmq_status rq_verify_index_end(struct rq_verify *v)
{
    for (int64_t due; (due = due_offset(v)) != INT64_MAX; v->index.number++) {
        bool ahead = due >= v->out.commit_log_max_offset;
        if (due >= v->log_min && !(ahead && !v->store->closed)) {
            note_wrong(v, due, ahead ? "is behind the end of the commit log" : "has no message");
        }
    }
    if (v->index_late > 0 && v->store->index_files.count == 0) {
        tell_no_index(v);
    } else if (v->index_late > 0) {
        rq_verify_tell(v, "%" PRId64 " keys of the last messages are not in the index",
                       v->index_late);
    }
    for (size_t i = 0; i < v->store->index_files.count; i++) {
        if (rq_offline_index_is_readable(v->store, &v->store->index_files.files[i])) {
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
