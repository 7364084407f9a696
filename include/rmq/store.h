/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Message stores on disk, looked at from outside: what is in one, whether consume queues and key
 * index agree with the commit log, and building them anew. Works on stores written by Apache
 * RocketMQ 4.x and 5.x as on our own. Only rmq_store_rebuild writes. Library librmq-broker.
 * Counterparts: DefaultMessageStore, ConsumeQueue, IndexFile.
 */
#ifndef RMQ_STORE_H
#define RMQ_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>
#include <rmq/export.h>

typedef struct rmq_store rmq_store;

/* Told while a long operation runs: done of total bytes of the commit log; rebuilding goes along it
 * twice, checking and then building. On the calling thread. false ends the operation with
 * RMQ_ERR_STATE. */
typedef bool (*rmq_store_progress_fn)(int64_t done, int64_t total, void *user);

/* One thing that is wrong, as a sentence for people; borrowed for the call. On the calling
 * thread. */
typedef void (*rmq_store_finding_fn)(const char *text, void *user);

/* Options of the functions below. Sizes of 0 are taken from the files that are there, else from the
 * broker's defaults. Strings are borrowed for the call (by rmq_store_open: copied). */
typedef struct rmq_store_options {
    size_t struct_size;
    const char *commit_log_dir;             /* "storePathCommitLog", default DIR/commitlog */
    int64_t mapped_file_size_commit_log;    /* "mappedFileSizeCommitLog", bytes */
    int64_t mapped_file_size_consume_queue; /* "mappedFileSizeConsumeQueue", bytes */
    int32_t max_hash_slot_num;              /* "maxHashSlotNum", slots of an index file */
    int32_t max_index_num;                  /* "maxIndexNum", entries of an index file */
    const char *message_delay_level;        /* "messageDelayLevel"; rebuild only */
    rmq_store_progress_fn progress;         /* may be NULL */
    rmq_store_finding_fn finding; /* may be NULL; verify only, at most max_findings times */
    int32_t max_findings;         /* 100 */
    void *user;                   /* for both */
    bool salvage; /* rebuild only: a damaged commit log is mended, not refused; false */
} rmq_store_options;

/* What is in a store. Times are milliseconds since 1970, 0 = none. */
typedef struct rmq_store_info {
    int64_t commit_log_min_offset;
    int64_t commit_log_max_offset; /* behind the last good message */
    int64_t commit_log_file_size;
    int64_t consume_queue_file_size;
    int64_t commit_log_files;
    int64_t consume_queue_files;
    int64_t index_files;
    int64_t topics;
    int64_t queues;
    int64_t messages; /* in queues */
    int64_t index_entries;
    int64_t first_store_timestamp_ms;
    int64_t last_store_timestamp_ms;
    int64_t physic_msg_timestamp_ms; /* the three times of the checkpoint */
    int64_t logics_msg_timestamp_ms;
    int64_t index_msg_timestamp_ms;
    int32_t max_hash_slot_num;
    int32_t max_index_num;
    bool closed; /* stopped in order: no file "abort" */
    bool in_use; /* a broker has it open now */
} rmq_store_info;

/* One queue. topic is borrowed until close. */
typedef struct rmq_store_queue {
    const char *topic;
    int32_t queue_id;
    int32_t files;
    int64_t min_offset;
    int64_t max_offset;
    int64_t commit_log_max_offset; /* behind the queue's last message, 0 = none */
    /* after rmq_store_verify: max_offset as the messages in the commit log have it, which the next
     * start makes it; before: -1 */
    int64_t log_max_offset;
} rmq_store_queue;

/* One message. Pointers are borrowed until the next call with the handle. */
typedef struct rmq_store_message {
    int64_t queue_offset;
    int64_t commit_log_offset;
    /* of the queue's entry: hash of the tag, in SCHEDULE_TOPIC_XXXX the time of delivery */
    int64_t tags_code;
    int64_t born_timestamp_ms;
    int64_t store_timestamp_ms;
    int64_t prepared_transaction_offset;
    const char *body; /* as stored, perhaps compressed: see sys_flag */
    size_t body_size;
    const char *properties; /* name 0x01 value 0x02 … */
    size_t properties_size;
    int32_t size; /* of the whole record */
    int32_t flag;
    int32_t sys_flag;
    int32_t reconsume_times;
    char msg_id[64]; /* of store host and commit-log offset */
} rmq_store_message;

/* Verdicts, the worse the higher. */
typedef enum rmq_store_verdict {
    RMQ_STORE_WHOLE = 0, /* every queue entry and index entry matches its message */
    /* Not closed in order: the next start completes it, as after every crash. */
    RMQ_STORE_UNFINISHED = 1,
    /* The messages are whole, queues or index are not, or are missing: rmq_store_rebuild mends
     * them. */
    RMQ_STORE_REBUILD = 2,
    RMQ_STORE_DAMAGED = 3 /* messages are damaged or missing */
} rmq_store_verdict;

/* Result of a check. */
typedef struct rmq_store_check {
    int32_t verdict; /* rmq_store_verdict */
    int64_t commit_log_min_offset;
    int64_t commit_log_max_offset; /* behind the last good message */
    int64_t log_messages;          /* good ones, also those that are in no queue */
    int64_t log_bytes;
    int64_t damaged_places; /* where good messages follow behind bytes that are none */
    int64_t damaged_bytes;
    int64_t missing_files;
    int64_t torn_bytes;            /* not zero, behind the end: what a crash left */
    int64_t queue_entries;         /* that match their message */
    int64_t queue_entries_missing; /* messages without entry */
    int64_t queue_entries_wrong;   /* entries without message, or with another size or tags code */
    int64_t queue_entries_ahead;   /* entries of messages behind the end of the commit log */
    int64_t queue_entries_expired; /* of messages that retention has taken */
    int64_t index_entries;
    int64_t index_entries_missing;
    int64_t index_entries_wrong;
    int64_t index_chains_broken; /* slots and entries that lead elsewhere */
} rmq_store_check;

RMQ_BEGIN_DECLS

/* Fills defaults; size is sizeof(rmq_store_options) as the program knows it. Any thread. Since
 * 0.1.0. */
RMQ_API void rmq_store_options_init(rmq_store_options *options, size_t size);

/* Opens the store in a directory for reading; nothing in it is changed, and it may be
 * write-protected. options may be NULL. A store that a broker has open can be read too, but what is
 * said of its newest messages may be old. The handle belongs to one thread at a time;
 * rmq_store_close frees it. Errors: RMQ_ERR_NOT_FOUND (no store there), RMQ_ERR_IO,
 * RMQ_ERR_INVALID, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_store_open(const char *dir, const rmq_store_options *options,
                                  rmq_store **out, rmq_error **err);

/* Frees the handle. NULL is accepted. Since 0.1.0. */
RMQ_API void rmq_store_close(rmq_store *store);

/* What is in it; size is sizeof(rmq_store_info) as the program knows it. Since 0.1.0. */
RMQ_API void rmq_store_get_info(const rmq_store *store, rmq_store_info *out, size_t size);

/* Queue number index in order of topic and queue id; false beyond the last one. size is
 * sizeof(rmq_store_queue). Since 0.1.0. */
RMQ_API bool rmq_store_queue_at(const rmq_store *store, size_t index, rmq_store_queue *out,
                                size_t size);

/* Message number offset of queue number index; size is sizeof(rmq_store_message). Errors:
 * RMQ_ERR_NOT_FOUND (no such message, or retention took it), RMQ_ERR_CORRUPT (the entry leads to no
 * message of this queue, or its CRC is wrong), RMQ_ERR_IO (a file cannot be read, or another
 * program shortened it), RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_store_message_at(const rmq_store *store, size_t index, int64_t offset,
                                        rmq_store_message *out, size_t size, rmq_error **err);

/* Reads the whole commit log with CRC, and compares each message with its queue entry and its index
 * entries, each entry with its message, and the chains of the index. size is
 * sizeof(rmq_store_check). What is wrong is in out, not in the returned status. Errors:
 * RMQ_ERR_BUSY (a broker has the store open: its files change), RMQ_ERR_STATE (progress said stop),
 * RMQ_ERR_IO (a file cannot be read, or another program shortened it), RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_store_verify(rmq_store *store, rmq_store_check *out, size_t size,
                                    rmq_error **err);

/* Builds all consume queues and the key index anew from the commit log of the store in a directory.
 * Queues without a message in the log are kept as they are, so that their numbers go on. The commit
 * log is not changed, but for bytes behind its end. options may be NULL. A commit log that is
 * damaged in the middle is refused, unless options say salvage: then what is damaged or missing is
 * covered by records that all readers pass over, the Java broker too, and every good message is
 * kept under its number. When it fails half way, the next start of a broker completes it. Errors:
 * RMQ_ERR_NOT_FOUND, RMQ_ERR_EXISTS (in use), RMQ_ERR_CORRUPT (damaged log), RMQ_ERR_IO,
 * RMQ_ERR_DISK_FULL, RMQ_ERR_STATE (stopped), RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_store_rebuild(const char *dir, const rmq_store_options *options,
                                     rmq_error **err);

RMQ_END_DECLS

#endif
