/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Recovery: finds the end of the commit log and brings queues and index into agreement with it.
 * Runs inside rq_store_open, before any other thread exists. Counterparts:
 * CommitLog.recoverNormally, CommitLog.recoverAbnormally.
 */
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/time.h"
#include "store/contents.h"
#include "store/heal.h"
#include "store/log_scan.h"
#include "store/mend.h"
#include "store/store_priv.h"

#define PROGRESS_BYTES ((int64_t)16 << 20)
#define FUTURE_MS      60000 /* so far ahead of the clock store times are not told */

/* The end of what the queues know: end and begin of their last message in the log. */
struct known {
    int64_t end;
    int64_t begin;
    struct rq_consume_queue *queue; /* the table's: nobody removes one during recovery */
};

static struct known last_known(struct rq_store *store)
{
    struct known known = {0};
    struct rq_consume_queue *queue;
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        struct rq_store_entry entry;
        int64_t max = rq_consume_queue_max(queue);
        if (queue->max_commit_log_offset > known.end &&
            rq_consume_queue_entry(queue, max - 1, &entry)) {
            known.end = queue->max_commit_log_offset;
            known.begin = entry.commit_log_offset;
            known.queue = queue;
        }
    }
    return known;
}

/* Whether a page that a power cut dropped took the end of the properties, which the body's CRC does
 * not cover: zeros from a page's begin on. pos: of the record in its file. */
static bool has_lost_page(const struct rq_record *record, size_t pos)
{
    struct rq_slice properties = record->properties;
    size_t begin = pos + record->size - properties.n;
    size_t at = (RQ_STORE_PAGE - begin % RQ_STORE_PAGE) % RQ_STORE_PAGE;
    for (; at < properties.n; at += RQ_STORE_PAGE) {
        size_t n = properties.n - at < RQ_STORE_PAGE ? properties.n - at : RQ_STORE_PAGE;
        if (properties.p[at] == '\0' &&
            memcmp(properties.p + at, properties.p + at + 1, n - 1) == 0) {
            return true;
        }
    }
    return false;
}

/* The same of a copy that a kill, or a power cut within a page, stopped at any byte. One NUL may be
 * a client's, and of a closed store nothing is lost. */
static bool has_lost_end(const struct rq_store *store, const struct rq_record *record)
{
    struct rq_slice properties = record->properties;
    return store->crashed && properties.n > 1 && properties.p[properties.n - 1] == '\0' &&
           properties.p[properties.n - 2] == '\0';
}

enum rq_record_kind rq_recover_read(struct rq_store *store, struct rq_log_reader *reader,
                                    int64_t offset, struct rq_record *record)
{
    size_t left = 0;
    const char *p = rq_log_reader_at(reader, &store->log, offset, INT64_MAX, &left);
    if (!p) {
        return RQ_RECORD_BAD;
    }
    bool check = store->options.check_crc_on_recover;
    bool whole = check && store->options.force_verify_prop_crc;
    enum rq_record_kind kind = rq_record_read(p, left, check && !whole, record);
    if (kind == RQ_RECORD_GOOD && whole && !rq_record_crc_ok(p, record)) {
        return RQ_RECORD_BAD;
    }
    if (kind == RQ_RECORD_GOOD &&
        (record->commit_log_offset != offset || !rq_queue_table_topic_ok(record->topic))) {
        return RQ_RECORD_BAD;
    }
    if (kind == RQ_RECORD_GOOD && (has_lost_end(store, record) ||
                                   has_lost_page(record, (size_t)(offset - reader->file->start)))) {
        struct rq_record next; /* nothing that was lost is followed by more */
        kind = rq_record_read(p + record->size, left - record->size, false, &next);
        return kind == RQ_RECORD_BAD ? RQ_RECORD_BAD : RQ_RECORD_GOOD;
    }
    return kind;
}

/* Whether that message is really there; then *time is when it was stored. */
static bool is_there(struct rq_store *store, const struct known *known, int64_t *time)
{
    struct rq_log_reader reader = {0};
    struct rq_record record;
    bool there = rq_recover_read(store, &reader, known->begin, &record) == RQ_RECORD_GOOD &&
                 known->begin + record.size == known->end;
    *time = there ? record.store_timestamp : *time;
    rq_log_reader_done(&reader);
    return there;
}

/* Start after a clean stop: behind the last message with an entry when that is really there, else
 * the file that it should be in, and such entries are dropped, for they hide messages; not those of
 * messages that have expired, whose numbers count. last_time: of that message, since older ones
 * behind it are such as another broker has cut off. */
static rmq_status normal_start(struct rq_store *store, int64_t *start, int64_t *last_time,
                               rmq_error **err)
{
    struct known known = last_known(store);
    int64_t min = rq_commit_log_min(&store->log);
    *start = min;
    if (known.end > 0 && is_there(store, &known, last_time)) {
        *start = known.end;
        return RMQ_OK;
    }
    const struct rq_mapped_file_queue *files = &store->log.files;
    for (size_t i = 0; i < files->count && files->files[i]->start <= known.end; i++) {
        *start = files->files[i]->start;
    }
    rmq_status st = RMQ_OK;
    int64_t time = 0;
    while (st == RMQ_OK && known.end > 0 && known.begin >= min && !is_there(store, &known, &time)) {
        st = rq_heal_cut(store, known.queue, err);
        known = last_known(store);
    }
    return st;
}

/* Start after a crash: the newest file whose first record was on disk with its entries when the
 * checkpoint was written. */
static int64_t crash_start(struct rq_store *store)
{
    if (last_known(store).end == 0) { /* no queues: all of them are to be made */
        return rq_commit_log_min(&store->log);
    }
    bool with_index = store->options.message_index_enable;
    int64_t safe = rq_checkpoint_min(&store->checkpoint, with_index);
    const struct rq_mapped_file_queue *files = &store->log.files;
    for (size_t i = files->count; i-- > 0;) {
        const struct rq_mapped_file *file = files->files[i];
        struct rq_record record;
        if (rq_record_read(file->data, file->size, false, &record) == RQ_RECORD_GOOD &&
            record.store_timestamp != 0 && record.store_timestamp <= safe) {
            return file->start;
        }
    }
    return rq_commit_log_min(&store->log);
}

/* Before the log is followed again from start on: what queues and index have from there on may have
 * holes. */
static rmq_status rewind_to(struct rq_store *store, int64_t start, rmq_error **err)
{
    rmq_status st = rq_index_truncate(&store->index, start, err);
    struct rq_consume_queue *queue;
    for (size_t i = 0; st == RMQ_OK && (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        st = rq_consume_queue_rewind(queue, start, err);
    }
    return st;
}

static bool tail_is_clean(struct rq_store *store, int64_t end)
{
    struct rq_log_reader reader = {0};
    size_t left = 0;
    const char *p = rq_log_reader_at(&reader, &store->log, end, INT64_MAX, &left);
    bool clean = true;
    for (size_t i = 0; p && i < left && i < RQ_RECORD_BLANK_BYTES; i++) {
        clean = clean && p[i] == 0;
    }
    rq_log_reader_done(&reader);
    return clean;
}

struct walk {
    int64_t offset; /* begin, then end of the good records */
    int64_t records;
    int64_t last_time;
    int64_t mended; /* up to here it was covered */
    int64_t healed; /* records before it have queues with what lies before the walk */
    bool normal;
};

/* Whether a file behind the next one begins with a message: so much is never on its way to the disk
 * at once. */
static bool goes_on_far(struct rq_store *store, int64_t offset)
{
    struct rq_record record;
    const struct rq_mapped_file_queue *files = &store->log.files;
    for (size_t i = files->count; i-- > 0;) {
        const struct rq_mapped_file *file = files->files[i];
        if (file->start <= offset + (int64_t)file->size) {
            break;
        }
        if (rq_record_read(file->data, file->size, false, &record) == RQ_RECORD_GOOD &&
            record.commit_log_offset == file->start) {
            return true;
        }
    }
    return false;
}

/* A record behind bytes that are none. Whether it was on disk for sure, or acknowledged: then those
 * bytes are damage. Else they are what a power cut left of a tail that nobody was told is stored,
 * and with synchronous flush the tail ends before them, so that no number is missing. */
static bool is_damage(struct rq_store *store, const struct walk *walk, int64_t offset,
                      const struct rq_record *behind)
{
    struct rq_mapped_file *file = rq_mapped_file_queue_find(&store->log.files, offset);
    bool cut = file && file->cut;
    rq_mapped_file_release(file);
    return walk->normal || (store->watch && store->watch->salvage) || cut ||
           store->options.flush_disk_type == RQ_FLUSH_ASYNC ||
           behind->store_timestamp < store->checkpoint.commit_log_time ||
           goes_on_far(store, offset);
}

/* At offset no good record begins: what is damage is covered, and the walk goes on there. */
static rmq_status mend(struct rq_store *store, struct walk *walk, int64_t offset, bool *mended,
                       rmq_error **err)
{
    struct rq_record behind;
    *mended = false;
    bool ends_here =
        walk->normal && tail_is_clean(store, offset) && last_known(store).end <= offset;
    if (ends_here || offset < walk->mended ||
        !rq_log_scan_record(&store->log, offset + 1, walk->last_time, &behind)) {
        return RMQ_OK;
    }
    if (!is_damage(store, walk, offset, &behind)) {
        RQ_LOG(WARN, "messages that were never synced are cut off behind a torn one",
               "from=%" PRId64 " first=%" PRId64, offset, behind.commit_log_offset);
        return RMQ_OK;
    }
    *mended = true;
    walk->mended = behind.commit_log_offset;
    return rq_mend_log(store, offset, &behind, err);
}

static rmq_status tell_progress(struct rq_store *store, int64_t offset, rmq_error **err)
{
    struct rq_store_watch *watch = store->watch;
    if (!watch || !watch->tell || offset < watch->told + PROGRESS_BYTES) {
        return RMQ_OK;
    }
    watch->told = offset;
    return watch->tell(offset, watch->user)
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_STATE, "stopped at offset %" PRId64, offset);
}

/* Follows the log from walk->offset to its end, making the entries that are missing. */
static rmq_status walk_log(struct rq_store *store, struct walk *walk, rmq_error **err)
{
    struct rq_log_reader reader = {0};
    const int64_t start = walk->offset;
    int64_t offset = start;
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK) {
        struct rq_record record;
        enum rq_record_kind kind = rq_recover_read(store, &reader, offset, &record);
        if (kind == RQ_RECORD_BAD) {
            bool mended;
            st = mend(store, walk, offset, &mended, err);
            if (mended) {
                continue;
            }
            break;
        }
        if (kind == RQ_RECORD_BLANK) {
            /* The end stays before the blank until the next file turns out to begin where this
             * ends. */
            offset = reader.file->start + (int64_t)reader.file->size;
            struct rq_mapped_file *next = rq_mapped_file_queue_find(&store->log.files, offset);
            walk->offset = next ? offset : walk->offset;
            rq_mapped_file_release(next);
            continue;
        }
        st = rq_heal_before(store, &record, start, &walk->healed, err);
        if (st == RMQ_OK) {
            st = rq_dispatch_record(store, &record, err);
        }
        if (st == RMQ_OK) {
            st = tell_progress(store, offset, err);
        }
        offset += record.size;
        walk->offset = offset;
        walk->last_time = record.store_timestamp;
        walk->records++;
    }
    rq_log_reader_done(&reader);
    return st;
}

/* Else the index would take new messages there for such as it has already. */
static rmq_status cut_index(struct rq_store *store, int64_t end, rmq_error **err)
{
    int64_t time;
    int64_t last;
    rq_index_last(&store->index, &time, &last);
    return last >= end ? rq_index_truncate(&store->index, end, err) : RMQ_OK;
}

/* Queues end where the log ends, and begin where it begins. */
static rmq_status settle_queues(struct rq_store *store, int64_t end, bool normal, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    struct rq_consume_queue *queue;
    int64_t min = rq_commit_log_min(&store->log);
    for (size_t i = 0; st == RMQ_OK && (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        if (store->log.files.count == 0) {
            st = rq_consume_queue_clear(queue, err);
        } else if (queue->max_commit_log_offset > end) {
            st = rq_consume_queue_truncate(queue, end, err);
        }
        if (st == RMQ_OK && !normal) {
            st = rq_consume_queue_wipe_tail(queue, err);
            rq_consume_queue_distrust(queue);
        }
        rq_consume_queue_correct_min(queue, min);
        queue->next_offset = rq_consume_queue_max(queue);
        queue->touched = false;
    }
    store->dispatcher.touched = NULL;
    return st;
}

/* After a crash, before the log is followed from start on. */
static rmq_status prepare(struct rq_store *store, int64_t start, bool *index_lost, rmq_error **err)
{
    rmq_status st = rq_contents_compare(store, -1, index_lost, err);
    if (st == RMQ_OK) {
        st = rewind_to(store, start, err);
    }
    return st == RMQ_OK ? rq_heal_marked(store, start, err) : st;
}

/* What was removed by hand; after a crash queues were healed before. */
static rmq_status rebuild(struct rq_store *store, const struct walk *walk, bool index_lost,
                          rmq_error **err)
{
    rmq_status st = RMQ_OK;
    if (walk->normal) {
        st = rq_contents_compare(store, walk->offset, &index_lost, err);
    }
    if (st == RMQ_OK && walk->normal) {
        st = rq_heal_marked(store, walk->offset, err);
    }
    return st == RMQ_OK && index_lost ? rq_heal_index(store, walk->offset, err) : st;
}

/* Store time of the last record, so that times do not go back. */
static void set_last_time(struct rq_store *store, const struct walk *walk)
{
    int64_t time = walk->last_time;
    int64_t known_time = 0;
    struct known known = last_known(store);
    if (known.end > 0 && is_there(store, &known, &known_time) && known_time > time) {
        time = known_time;
    }
    int64_t ahead_ms = time - rq_disk_now_ms(&store->disk);
    if (ahead_ms > FUTURE_MS) {
        RQ_LOG(WARN, "the last message is of the future, new ones carry its time until then",
               "ahead_ms=%" PRId64, ahead_ms);
    }
    store->log.last_timestamp = time;
    atomic_store_explicit(&store->dispatcher.last_time, time, memory_order_release);
}

/* After a crash the last messages may be in memory only. With synchronous flush they are shown and
 * built upon at once, so they are synced first; otherwise the flusher does that while the store is
 * in use already. */
static rmq_status sync_recovered(struct rq_store *store, int64_t start, rmq_error **err)
{
    if (store->options.flush_disk_type == RQ_FLUSH_SYNC) {
        return rq_commit_log_sync_from(&store->log, start, err);
    }
    rq_commit_log_unflush_from(&store->log, start);
    return RMQ_OK;
}

rmq_status rq_store_recover(struct rq_store *store, bool normal, rmq_error **err)
{
    int64_t began_ms = rq_mono_ms();
    store->crashed = !normal;
    struct walk walk = {.normal = normal};
    int64_t start = 0;
    rmq_status st = RMQ_OK;
    if (normal) {
        st = normal_start(store, &start, &walk.last_time, err);
    } else {
        start = crash_start(store);
    }
    walk.offset = start;
    if (st == RMQ_OK) {
        st = rq_mend_cut_files(store, start, err);
    }
    bool index_lost = store->index.unreadable > 0;
    if (st == RMQ_OK && !normal) {
        st = prepare(store, start, &index_lost, err);
    }
    if (st == RMQ_OK) {
        st = walk_log(store, &walk, err);
    }
    if (st == RMQ_OK) {
        st = cut_index(store, walk.offset, err);
    }
    if (st == RMQ_OK) {
        st = rebuild(store, &walk, index_lost, err);
    }
    if (st == RMQ_OK) {
        st = settle_queues(store, walk.offset, normal, err);
    }
    if (st == RMQ_OK) {
        bool wipe = normal ? !tail_is_clean(store, walk.offset)
                           : !rq_log_scan_is_zero(&store->log, walk.offset);
        set_last_time(store, &walk);
        st = rq_commit_log_set_end(&store->log, walk.offset, wipe, err);
    }
    if (st == RMQ_OK && !normal) {
        st = sync_recovered(store, start, err);
    }
    atomic_store_explicit(&store->dispatcher.done, walk.offset, memory_order_release);
    if (st == RMQ_OK && !normal && !store->watch) {
        RQ_LOG(WARN, "store recovered after it was not closed",
               "from=%" PRId64 " to=%" PRId64 " records=%" PRId64 " ms=%" PRId64, start,
               walk.offset, walk.records, rq_mono_ms() - began_ms);
    }
    return st;
}
