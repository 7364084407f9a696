/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The message store: commit log, consume queues, key index. Files are those of the Java store, byte
 * for byte. The only header of this folder that others include. Any thread may call any function
 * unless its comment says otherwise; nothing here knows of connections. Counterpart:
 * DefaultMessageStore.
 */
#ifndef RQ_STORE_STORE_H
#define RQ_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/slice.h"
#include "base/table.h"
#include "store/lock.h"
#include "wire/message.h"

struct rq_store;
struct rq_mapped_file;
struct rq_disk;

/* ---- options ---- */

enum rq_flush_disk_type { RQ_FLUSH_ASYNC = 0, RQ_FLUSH_SYNC = 1 };

/* Filled by rq_table_defaults(&rq_store_table, …). The names of the rows are those of broker.conf.
 * rq_store_open copies it. */
struct rq_store_options {
    const char *store_path_root_dir;   /* "storePathRootDir"; required */
    const char *store_path_commit_log; /* "storePathCommitLog", default root/commitlog */
    int64_t mapped_file_size_commit_log;
    int64_t mapped_file_size_consume_queue;
    int32_t flush_disk_type; /* enum rq_flush_disk_type */
    int64_t flush_interval_commit_log_ms;
    int32_t flush_commit_log_least_pages;
    int64_t flush_commit_log_thorough_interval_ms;
    bool flush_commit_log_timed;
    int64_t flush_interval_consume_queue_ms;
    int32_t flush_consume_queue_least_pages;
    int64_t flush_consume_queue_thorough_interval_ms;
    int64_t sync_flush_timeout_ms;
    bool transient_store_pool_enable;
    int32_t transient_store_pool_size; /* buffers, each of mapped_file_size_commit_log bytes */
    bool fast_fail_if_no_buffer_in_store_pool;
    int64_t commit_interval_commit_log_ms;
    bool wake_commit_when_put_message;
    int32_t commit_commit_log_least_pages;
    int64_t commit_commit_log_thorough_interval_ms;
    bool warm_maped_file_enable;
    int32_t flush_least_pages_when_warm_maped_file;
    int32_t max_message_size; /* bytes of body */
    bool auto_message_version_on_topic_len;
    bool check_crc_on_recover;
    bool enabled_append_prop_crc;
    bool force_verify_prop_crc;
    bool data_read_ahead_enable;
    bool message_index_enable;
    bool message_index_safe;
    int32_t max_hash_slot_num;
    int32_t max_index_num;
    int32_t max_msgs_num_batch; /* most answers of one key query */
    int32_t max_transfer_bytes_on_message_in_memory;
    int32_t max_transfer_count_on_message_in_memory;
    int32_t max_transfer_bytes_on_message_in_disk;
    int32_t max_transfer_count_on_message_in_disk;
    int32_t access_message_in_memory_max_ratio; /* percent of the machine's memory */
    int32_t max_filter_message_size;            /* bytes of consume queue looked at by one get */
    const char *message_delay_level;            /* "1s 5s 10s …" */
    int32_t file_reserved_time_h;
    const char *delete_when;                 /* hours of day, "04" or "04;16" */
    int32_t disk_max_used_space_ratio;       /* percent */
    int32_t disk_space_warning_level_ratio;  /* percent; as Java, taken as between 35 and 90 */
    int32_t disk_space_clean_forcibly_ratio; /* percent; as Java, taken as between 30 and 85 */
    int32_t delete_file_batch_max;
    int64_t delete_commit_log_files_interval_ms;
    bool clean_file_forcibly_enable;
    int64_t clean_resource_interval_ms;
    int64_t os_page_cache_busy_time_out_mills;
};

extern const struct rq_table rq_store_table;

/* ---- life ---- */

/* Told once per queue and dispatched batch, on the thread that ran the dispatch, no lock of the
 * store held: it may read the store, and append to it. tags_codes are those seen in the batch,
 * without repetition; when there were more than fit, tags_all is set and any filter must be taken
 * as matching. max_offset is the queue's new end (offset of the last message + 1). */
struct rq_store_arrival {
    struct rq_slice topic;
    int32_t queue_id;
    int64_t max_offset;
    const int64_t *tags_codes;
    size_t tags_count;
    bool tags_all;
};

typedef void (*rq_store_arrival_fn)(const struct rq_store_arrival *arrival, void *user);

/* Opens the directory, creating it when missing: locks it against other processes (RMQ_ERR_EXISTS
 * when one has it), loads, recovers, starts the flush thread. Errors: RMQ_ERR_EXISTS,
 * RMQ_ERR_CORRUPT (a file of wrong size, names in detail), RMQ_ERR_IO, RMQ_ERR_DISK_FULL,
 * RMQ_ERR_INVALID, RMQ_ERR_NOMEM. */
rmq_status rq_store_open(const struct rq_store_options *options, struct rq_store **out,
                         rmq_error **err);

/* Whether a store could be opened with these options: RMQ_ERR_INVALID, RMQ_ERR_NOMEM. */
rmq_status rq_store_check_options(const struct rq_store_options *options, rmq_error **err);

/* Opening a store whose queues and index are made anew: not a word that it was not closed, and
 * along the log tell is called (may be NULL; false ends it with RMQ_ERR_STATE). salvage: whatever
 * stands behind damage is kept, also what may be the rest of a torn tail. */
struct rq_store_watch {
    bool (*tell)(int64_t offset, void *user);
    void *user;
    bool salvage;
    struct rq_store_lock lock; /* what is held already: the store's from then on */
    int64_t told;              /* private */
};
rmq_status rq_store_open_watched(const struct rq_store_options *options,
                                 struct rq_store_watch *watch, struct rq_store **out,
                                 rmq_error **err);

/* Takes over what may change while the store runs: fileReservedTime, deleteWhen, the three ratios
 * of the disk, cleanFileForciblyEnable, maxMessageSize, maxMsgsNumBatch, maxTransfer…. Nobody may
 * append or read meanwhile. */
void rq_store_change(struct rq_store *store, const struct rq_store_options *options);

/* RMQ_ERR_INVALID for a deleteWhen that is no list of numbers. Hours that never come are allowed,
 * as in Java: files then go when the disk fills. */
rmq_status rq_store_check_hours(const char *hours, rmq_error **err);

/* Set before the first append or dispatch; NULL takes it away. */
void rq_store_set_listener(struct rq_store *store, rq_store_arrival_fn arrived, void *user);

/* Dispatches the rest, completes parked waiters, flushes, removes the abort file, and frees. No
 * other call may run or follow, except releases of references handed out before: those keep their
 * file mapped. NULL is accepted. */
void rq_store_close(struct rq_store *store);

/* ---- append ---- */

/* A message to store is a struct rq_msg (wire/message.h), borrowed for the call. The store fills in
 * queue_offset, commit_log_offset, store time, magic, total size, body CRC and the v6 bits of
 * sys_flag, whatever the struct says. The stored properties are properties followed by
 * more_properties, with a 0x02 between them where it is missing. body.p must not be NULL. */

enum rq_put_status {
    RQ_PUT_OK,
    RQ_PUT_FLUSH_DISK_TIMEOUT,
    RQ_PUT_SERVICE_NOT_AVAILABLE, /* closing, or the disk is full or failing: see reason */
    RQ_PUT_CREATE_MAPPED_FILE_FAILED,
    RQ_PUT_MESSAGE_ILLEGAL, /* topic, body or record too long, body missing */
    RQ_PUT_PROPERTIES_SIZE_EXCEEDED,
    RQ_PUT_OS_PAGE_CACHE_BUSY,
    RQ_PUT_UNKNOWN_ERROR
};

#define RQ_PUT_REASON_MAX 160

struct rq_store_put {
    enum rq_put_status status;
    int64_t commit_log_offset;      /* of the (first) record */
    int64_t queue_offset;           /* of the (first) message */
    int64_t next_commit_log_offset; /* behind the last byte: what rq_store_park waits for */
    int64_t store_timestamp;
    char reason[RQ_PUT_REASON_MAX]; /* for people, "" on success */
};

const char *rq_put_status_name(enum rq_put_status status); /* "PUT_OK" */

/* Whether messages are refused now, and why: closing, a sync that failed, a full disk. */
bool rq_store_refuses(struct rq_store *store, char reason[RQ_PUT_REASON_MAX]);

/* Whether an append has held the lock of the commit log for longer than
 * osPageCacheBusyTimeOutMills: the system is slow to give it pages, or a file. Further messages are
 * refused with RQ_PUT_OS_PAGE_CACHE_BUSY then. */
bool rq_store_is_busy(struct rq_store *store);

/* Stores one message. The caller then calls rq_store_dispatch, at the latest when it has done its
 * batch of appends. Returns out->status. */
enum rq_put_status rq_store_append(struct rq_store *store, const struct rq_msg *msg,
                                   struct rq_store_put *out);

/* The same of a message that was stored before, or is the broker's: maxMessageSize, which may have
 * been lowered since, is for those that come. */
enum rq_put_status rq_store_append_own(struct rq_store *store, const struct rq_msg *msg,
                                       struct rq_store_put *out);

/* All or nothing: count messages of one topic and queue with consecutive offsets. offsets (may be
 * NULL) has room for count and receives the commit-log offset of each. */
enum rq_put_status rq_store_append_batch(struct rq_store *store, const struct rq_msg *msgs,
                                         size_t count, int64_t *offsets, struct rq_store_put *out);

/* Makes queue entries (and index entries) of all that was appended, and tells the listener.
 * Combining: when another thread is at it, that one takes over the new records too, and this
 * returns at once. With synchronous flush only what is on disk is dispatched, and the flusher calls
 * it itself. */
void rq_store_dispatch(struct rq_store *store);

/* The same of all that was appended before, waiting for another thread that is at it, and copying
 * write buffers first. false: some of it has none yet, for it is not on disk (synchronous flush),
 * or the dispatcher is paused or fails. Not from the listener. */
bool rq_store_dispatch_all(struct rq_store *store);

/* For tests: nothing is dispatched while paused, so that no new message is seen. rq_store_close
 * goes on by itself. */
void rq_store_pause_dispatch(struct rq_store *store, bool paused);

/* The switchboard of the disk and the record for power cuts (store/disk.h), for tests. */
struct rq_disk *rq_store_disk(struct rq_store *store);

/* For tests: the disk has got well, so that the next append asks it for room even if one was refused
 * just now. */
void rq_store_retry(struct rq_store *store);

/* Begins to record what is durable (store/disk.h), once everything that is stored is. */
rmq_status rq_store_record_power(struct rq_store *store, rmq_error **err);

/* Synchronous flush: done is called exactly once with RQ_PUT_OK or RQ_PUT_FLUSH_DISK_TIMEOUT (or
 * SERVICE_NOT_AVAILABLE when the sync failed) on the flush thread. The waiter belongs to the caller
 * and must live until then. */
struct rq_store_waiter {
    struct rq_store_waiter *next; /* private */
    int64_t offset;               /* private */
    int64_t deadline_ms;          /* private */
    bool more; /* told to done: another waiter is completed right behind this one */
    void (*done)(struct rq_store_waiter *waiter, enum rq_put_status st); /* set by the caller */
};

/* False: no need to wait (asynchronous flush, or on disk already), done is not called. The sync
 * begins with rq_store_dispatch, before or behind this, so that it serves all that was appended
 * until then. */
bool rq_store_park(struct rq_store *store, int64_t next_commit_log_offset,
                   struct rq_store_waiter *waiter);

/* ---- reading ---- */

/* Bytes inside a mapped file, which stays mapped until the reference is released, also beyond
 * close. */
struct rq_store_ref {
    const char *p;
    size_t n;
    struct rq_mapped_file *file;
};

void rq_mapped_file_retain(struct rq_mapped_file *file);
/* NULL is accepted; fits a release callback. */
void rq_mapped_file_release(struct rq_mapped_file *file);
static inline void rq_store_ref_release(struct rq_store_ref *ref)
{
    rq_mapped_file_release(ref->file);
    *ref = (struct rq_store_ref){0};
}

enum rq_get_status {
    RQ_GET_FOUND,
    RQ_GET_NO_MATCHED_MESSAGE,
    RQ_GET_MESSAGE_WAS_REMOVING,
    RQ_GET_OFFSET_FOUND_NULL,
    RQ_GET_OFFSET_OVERFLOW_BADLY,
    RQ_GET_OFFSET_OVERFLOW_ONE,
    RQ_GET_OFFSET_TOO_SMALL,
    RQ_GET_NO_MATCHED_LOGIC_QUEUE,
    RQ_GET_NO_MESSAGE_IN_QUEUE
};

/* "FOUND", the remark of a pull answer */
const char *rq_get_status_name(enum rq_get_status status);

/* Which messages are wanted; NULL or all zero = every one. */
struct rq_store_filter {
    const int32_t *codes; /* tag hashes; count 0 = every tag */
    size_t count;
    /* Beyond the tag: the stored record; may be NULL. */
    bool (*match)(struct rq_slice record, void *user);
    void *user;
};

#define RQ_STORE_MAX_REFS 64

struct rq_store_result {
    enum rq_get_status status;
    int64_t next_begin_offset;
    int64_t min_offset;
    int64_t max_offset;
    int32_t msg_count;
    size_t bytes;
    bool suggest_pulling_from_slave; /* the reader is far behind: its data is hardly in memory */
    size_t ref_count;
    struct rq_store_ref refs[RQ_STORE_MAX_REFS]; /* neighbours in the log are one reference */
};

/* At most max_msgs messages and max_bytes bytes (0 = the options' limits) from offset on. The first
 * match is returned whatever its size. */
void rq_store_get(struct rq_store *store, struct rq_slice topic, int32_t queue_id, int64_t offset,
                  int32_t max_msgs, size_t max_bytes, const struct rq_store_filter *filter,
                  struct rq_store_result *out);
void rq_store_result_release(struct rq_store_result *result);

/* Offsets of a queue; 0 when there is no such queue. max is the next offset that will be
 * visible. */
bool rq_store_has_queue(struct rq_store *store, struct rq_slice topic, int32_t queue_id);
int64_t rq_store_min_offset(struct rq_store *store, struct rq_slice topic, int32_t queue_id);
int64_t rq_store_max_offset(struct rq_store *store, struct rq_slice topic, int32_t queue_id);

/* First offset whose store time is not before time_ms (upper false), or last one not after it
 * (upper true); clamped to [min, max]. */
int64_t rq_store_offset_by_time(struct rq_store *store, struct rq_slice topic, int32_t queue_id,
                                int64_t time_ms, bool upper);

/* Store time of one message of a queue, -1 when there is none; and of the oldest one. */
int64_t rq_store_time_of(struct rq_store *store, struct rq_slice topic, int32_t queue_id,
                         int64_t offset);
int64_t rq_store_earliest_time(struct rq_store *store, struct rq_slice topic, int32_t queue_id);
int64_t rq_store_earliest_time_of_all(struct rq_store *store);

/* Whether the message counts as being in memory (rule of a group without offset); false when there
 * is none. */
bool rq_store_in_memory(struct rq_store *store, struct rq_slice topic, int32_t queue_id,
                        int64_t offset);

/* One entry of a consume queue; false beyond its ends. */
struct rq_store_entry {
    int64_t commit_log_offset;
    int32_t size;
    int64_t tags_code; /* in SCHEDULE_TOPIC_XXXX the delivery time */
};
bool rq_store_entry(struct rq_store *store, struct rq_slice topic, int32_t queue_id, int64_t offset,
                    struct rq_store_entry *out);

/* The record at a commit-log offset. false when there is none: outside the log, or no good record
 * starts there. */
bool rq_store_view(struct rq_store *store, int64_t commit_log_offset, struct rq_store_ref *out);

/* The same, also of a record that waits for a synchronous flush, or in a write buffer, which is
 * then copied to the file. What is made of it must not be told before the disk has it. */
bool rq_store_view_stored(struct rq_store *store, int64_t commit_log_offset,
                          struct rq_store_ref *out);

/* Raw bytes of the log from an offset on to the end of what is written in its file, at most max.
 * For followers. */
bool rq_store_read_log(struct rq_store *store, int64_t commit_log_offset, size_t max,
                       struct rq_store_ref *out);

/* Messages with topic and key (exactly compared), stored in [begin_ms, end_ms], newest first;
 * returns how many of refs (room for max) are filled. last_time and last_offset (may be NULL) tell
 * how far the index is built. */
size_t rq_store_query(struct rq_store *store, struct rq_slice topic, struct rq_slice key,
                      int64_t begin_ms, int64_t end_ms, size_t max, struct rq_store_ref *refs,
                      int64_t *last_time, int64_t *last_offset);

/* ---- upkeep ---- */

/* Removes the queues of a topic; records stay in the log until they expire. */
void rq_store_delete_topic(struct rq_store *store, struct rq_slice topic);

/* Calls each for every queue until it returns false. */
void rq_store_each_queue(struct rq_store *store,
                         bool (*each)(struct rq_slice topic, int32_t queue_id, void *user),
                         void *user);

struct rq_store_info {
    int64_t min_commit_log_offset;
    int64_t max_commit_log_offset;
    int64_t flushed_commit_log_offset;
    int64_t dispatched_commit_log_offset; /* max - this = lag of the dispatch */
    uint64_t put_messages;                /* since open */
    uint64_t put_bytes;
    uint64_t get_messages;
    uint64_t get_bytes;
    bool writable;
    char reason[RQ_PUT_REASON_MAX]; /* why it is not, for people; "" when it is */
    double disk_used_ratio;         /* of the commit log's partition, 0…1, -1 = unknown */
};
void rq_store_info(struct rq_store *store, struct rq_store_info *out);

#define RQ_STORE_BUCKETS 24

/* Bucket i counts the values below 2^i that are in no bucket before; the last one all others. */
struct rq_store_histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t buckets[RQ_STORE_BUCKETS];
};

struct rq_store_metrics {
    struct rq_store_info info;
    int64_t dispatch_lag_bytes; /* stored, but without queue entries yet */
    int64_t dispatch_lag_ms;    /* between the newest message and the newest with entries */
    int64_t dirty_pages;        /* of the commit log, 4096 bytes each, not synced */
    int64_t queues;
    int64_t mapped_files;
    int64_t mapped_bytes;
    int32_t append_step; /* one append of so many is in append_us */
    uint64_t flush_bytes;
    uint64_t flush_failures;
    struct rq_store_histogram append_us;
    struct rq_store_histogram flush_us;
    struct rq_store_histogram flush_messages; /* of one sync: what group commit gathers */
};
void rq_store_metrics(struct rq_store *store, struct rq_store_metrics *out);

/* Delays of the levels 1…n of "messageDelayLevel"; -1 for a level that is none. */
int rq_store_delay_level_max(struct rq_store *store);
int64_t rq_store_delay_ms(struct rq_store *store, int level);

/* Everything to disk now. */
rmq_status rq_store_flush(struct rq_store *store, rmq_error **err);

/* Whether the system reads ahead in the commit log, from now on. */
void rq_store_set_read_ahead(struct rq_store *store, bool on);

/* Whether deleteWhen names the hour of that time. */
bool rq_store_is_cleaning_hour(const struct rq_store *store, int64_t wall_ms);

/* One round of retention now (the flush thread runs it by itself every cleanResourceInterval).
 * Returns files deleted. */
int rq_store_clean(struct rq_store *store, bool even_if_not_due);

#endif
