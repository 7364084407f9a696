/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The store's option table: names, defaults and ranges of broker.conf. The broker joins it to its
 * own table. Counterpart: MessageStoreConfig.
 */
#include "store/store.h"

#define ROW(row_name, row_type, member, row_def, row_min, row_max, row_range, row_help)            \
    {                                                                                              \
        .name = (row_name), .type = (row_type),                                                    \
        .offset = offsetof(struct rq_store_options, member), .def = (row_def), .min = (row_min),   \
        .max = (row_max), .range = (row_range), .help = (row_help)                                 \
    }
#define TEXT(row_name, member, row_def, row_range, row_help)                                       \
    ROW(row_name, RQ_OPT_STRING, member, row_def, 0, 0, row_range, row_help)
#define I32(row_name, member, row_def, row_min, row_max, row_help)                                 \
    ROW(row_name, RQ_OPT_I32, member, row_def, row_min, row_max, NULL, row_help)
#define I64(row_name, member, row_def, row_min, row_max, row_help)                                 \
    ROW(row_name, RQ_OPT_I64, member, row_def, row_min, row_max, NULL, row_help)
#define FLAG(row_name, member, row_def, row_help)                                                  \
    ROW(row_name, RQ_OPT_BOOL, member, row_def, 0, 0, NULL, row_help)

#define MAX_MS  86400000
#define MAX_INT 2147483647

static const struct rq_option options[] = {
    TEXT("storePathRootDir", store_path_root_dir, NULL, "directory", "Directory of the store."),
    TEXT("storePathCommitLog", store_path_commit_log, NULL, "directory",
         "Directory of the commit log; storePathRootDir/commitlog when not set."),
    I64("mappedFileSizeCommitLog", mapped_file_size_commit_log, "1073741824", 4096, MAX_INT,
        "Bytes of one commit-log file."),
    I64("mappedFileSizeConsumeQueue", mapped_file_size_consume_queue, "6000000", 20, MAX_INT,
        "Bytes of one consume-queue file; rounded up to whole entries of 20 bytes."),
    ROW("flushDiskType", RQ_OPT_ENUM, flush_disk_type, "ASYNC_FLUSH", 0, 1,
        "ASYNC_FLUSH|SYNC_FLUSH",
        "SYNC_FLUSH answers a send when its message is on disk, ASYNC_FLUSH when it is in memory."),
    I64("flushIntervalCommitLog", flush_interval_commit_log_ms, "500", 1, MAX_MS,
        "Milliseconds between flushes of the commit log."),
    I32("flushCommitLogLeastPages", flush_commit_log_least_pages, "4", 0, MAX_INT,
        "Pages of 4096 bytes that must wait before a flush is worth it."),
    I64("flushCommitLogThoroughInterval", flush_commit_log_thorough_interval_ms, "10000", 0, MAX_MS,
        "Milliseconds after which the commit log is flushed whatever waits."),
    FLAG("flushCommitLogTimed", flush_commit_log_timed, "true",
         "Flush the commit log at its intervals only; false: also as soon as "
         "flushCommitLogLeastPages wait."),
    I64("flushIntervalConsumeQueue", flush_interval_consume_queue_ms, "1000", 1, MAX_MS,
        "Milliseconds between flushes of consume queues."),
    I32("flushConsumeQueueLeastPages", flush_consume_queue_least_pages, "2", 0, MAX_INT,
        "Pages of 4096 bytes that must wait in a consume queue before it is flushed."),
    I64("flushConsumeQueueThoroughInterval", flush_consume_queue_thorough_interval_ms, "60000", 0,
        MAX_MS, "Milliseconds after which all consume queues and the checkpoint are flushed."),
    I64("syncFlushTimeout", sync_flush_timeout_ms, "5000", 1, MAX_MS,
        "Milliseconds that a send waits for its flush with SYNC_FLUSH."),
    FLAG("transientStorePoolEnable", transient_store_pool_enable, "false",
         "Messages are appended to locked memory and copied to their file later; a kill loses what "
         "was not."),
    I32("transientStorePoolSize", transient_store_pool_size, "5", 1, 64,
        "Buffers of that kind, each as large as a commit-log file."),
    FLAG("fastFailIfNoBufferInStorePool", fast_fail_if_no_buffer_in_store_pool, "false",
         "Refuse messages as busy while no such buffer is free, instead of writing to the file "
         "itself."),
    I64("commitIntervalCommitLog", commit_interval_commit_log_ms, "200", 1, MAX_MS,
        "Milliseconds between copies to the file when no put does them."),
    FLAG("wakeCommitWhenPutMessage", wake_commit_when_put_message, "true",
         "Whoever stored messages also copies them to the file; consumers see what is copied."),
    I32("commitCommitLogLeastPages", commit_commit_log_least_pages, "4", 0, MAX_INT,
        "Pages of 4096 bytes that must wait in a buffer before they are copied to the file."),
    I64("commitCommitLogThoroughInterval", commit_commit_log_thorough_interval_ms, "200", 0, MAX_MS,
        "Milliseconds after which everything is copied to the file whatever waits."),
    FLAG("warmMapedFileEnable", warm_maped_file_enable, "false",
         "Reserve and touch the whole next commit-log file ahead and lock it in memory."),
    I32("flushLeastPagesWhenWarmMapedFile", flush_least_pages_when_warm_maped_file, "4096", 1,
        MAX_INT,
        "Pages of 4096 bytes that are touched at a time, and with SYNC_FLUSH brought to disk."),
    I32("maxMessageSize", max_message_size, "4194304", 1, 1073741824, "Most bytes of a body."),
    FLAG("autoMessageVersionOnTopicLen", auto_message_version_on_topic_len, "true",
         "Topics beyond 127 bytes are stored in the second message version."),
    FLAG("checkCRCOnRecover", check_crc_on_recover, "true", "Recovery checks the CRC of bodies."),
    FLAG("enabledAppendPropCRC", enabled_append_prop_crc, "false",
         "Append a CRC of the whole record to its properties."),
    FLAG("dataReadAheadEnable", data_read_ahead_enable, "true",
         "Let the system read ahead in the commit log; without it old messages cost less memory "
         "and more reads."),
    FLAG("forceVerifyPropCRC", force_verify_prop_crc, "false",
         "Recovery checks that CRC instead of the body's; a record without it counts as damaged."),
    FLAG("messageIndexEnable", message_index_enable, "true", "Build the key index."),
    FLAG("messageIndexSafe", message_index_safe, "false",
         "Recovery after a crash starts where the key index is surely on disk, too."),
    I32("maxHashSlotNum", max_hash_slot_num, "5000000", 1, 100000000, "Slots of an index file."),
    I32("maxIndexNum", max_index_num, "20000000", 2, 100000000, "Entries of an index file."),
    I32("maxMsgsNumBatch", max_msgs_num_batch, "64", 1, 1000, "Most messages of one key query."),
    I32("maxTransferBytesOnMessageInMemory", max_transfer_bytes_on_message_in_memory, "262144", 1,
        MAX_INT, "Most bytes of one pull answer from memory."),
    I32("maxTransferCountOnMessageInMemory", max_transfer_count_on_message_in_memory, "32", 1, 1024,
        "Most messages of one pull answer from memory."),
    I32("maxTransferBytesOnMessageInDisk", max_transfer_bytes_on_message_in_disk, "65536", 1,
        MAX_INT, "Most bytes of one pull answer from disk."),
    I32("maxTransferCountOnMessageInDisk", max_transfer_count_on_message_in_disk, "8", 1, 1024,
        "Most messages of one pull answer from disk."),
    I32("accessMessageInMemoryMaxRatio", access_message_in_memory_max_ratio, "40", 0, 100,
        "Percent of the machine's memory that recent messages are taken to be held in."),
    I32("maxFilterMessageSize", max_filter_message_size, "16000", 20, MAX_INT,
        "Bytes of a consume queue that one pull looks at."),
    TEXT("messageDelayLevel", message_delay_level,
         "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", "times with s, m, h, d",
         "Delays of the levels 1, 2, …"),
    I32("fileReservedTime", file_reserved_time_h, "72", 0, 1000000,
        "Hours after its last change that a commit-log file is kept."),
    TEXT("deleteWhen", delete_when, "04", "hours with ;", "Hours of day for deleting old files."),
    I32("diskMaxUsedSpaceRatio", disk_max_used_space_ratio, "75", 10, 95,
        "Percent of the partition in use above which old files are deleted at any hour."),
    I32("diskSpaceWarningLevelRatio", disk_space_warning_level_ratio, "90", 0, 100,
        "Percent of the partition in use above which no messages are taken; at least 35, at most "
        "90."),
    I32("diskSpaceCleanForciblyRatio", disk_space_clean_forcibly_ratio, "85", 0, 100,
        "Percent above which old files go whatever their age, and below which messages are taken "
        "again; at least 30, at most 85."),
    I32("deleteFileBatchMax", delete_file_batch_max, "10", 1, 1000000,
        "Most files that one look deletes."),
    I64("deleteCommitLogFilesInterval", delete_commit_log_files_interval_ms, "100", 0, MAX_MS,
        "Milliseconds between two files that one look deletes."),
    FLAG("cleanFileForciblyEnable", clean_file_forcibly_enable, "true",
         "Delete the oldest files regardless of age when the disk is nearly full."),
    I64("cleanResourceInterval", clean_resource_interval_ms, "10000", 10, MAX_MS,
        "Milliseconds between looks for files to delete."),
    I64("osPageCacheBusyTimeOutMills", os_page_cache_busy_time_out_mills, "1000", 1, MAX_MS,
        "Messages are refused with 2 SYSTEM_BUSY while one append takes longer than so many "
        "milliseconds."),
};

const struct rq_table rq_store_table = {
    .object = "store",
    .options = options,
    .count = sizeof options / sizeof options[0],
    .struct_size = sizeof(struct rq_store_options),
};
