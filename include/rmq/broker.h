/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Name server and broker inside this process: for tests, development and single-machine use.
 * Library librmq-broker. Counterparts: NamesrvController, BrokerController.
 */
#ifndef RMQ_BROKER_H
#define RMQ_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>
#include <rmq/export.h>

typedef struct rmq_namesrv rmq_namesrv;
typedef struct rmq_broker rmq_broker;
typedef struct rmq_broker_config rmq_broker_config;

#define RMQ_BROKER_BUCKETS 24

/* Counts by powers of two: bucket i has the values below 2^i that are in no bucket before, the last
 * one all others. */
typedef struct rmq_broker_histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t buckets[RMQ_BROKER_BUCKETS];
} rmq_broker_histogram;

/* Figures of a broker's store since it was started. Offsets and lags are of the commit log, in
 * bytes. */
typedef struct rmq_broker_store_metrics {
    int64_t commit_log_min_offset;
    int64_t commit_log_max_offset;
    int64_t commit_log_flushed_offset;    /* on disk up to here */
    int64_t commit_log_dispatched_offset; /* with queue and index entries up to here */
    int64_t dispatch_lag_bytes;
    int64_t dispatch_lag_ms;        /* between the newest message and the newest with entries */
    int64_t commit_log_dirty_pages; /* of 4096 bytes, written but not synced */
    int64_t consume_queues;
    int64_t mapped_files; /* of commit log, consume queues and index */
    int64_t mapped_bytes;
    uint64_t put_messages;
    uint64_t put_bytes;
    uint64_t get_messages;
    uint64_t get_bytes;
    uint64_t flush_bytes; /* of the commit log */
    uint64_t flush_failures;
    double disk_used_ratio; /* of the commit log's partition, 0…1, -1 = unknown */
    bool writable;
    int32_t append_step; /* one append of so many is measured */
    /* microseconds of an append, waiting for the lock included */
    rmq_broker_histogram append_us;
    rmq_broker_histogram flush_us;       /* microseconds of a sync of the commit log */
    rmq_broker_histogram flush_messages; /* messages of one sync: what group commit gathers */
} rmq_broker_store_metrics;

RMQ_BEGIN_DECLS

/* Starts a name server on a port (0 = any free) of an address (NULL = 127.0.0.1). The caller stops
 * it. Errors: RMQ_ERR_IO (address in use), RMQ_ERR_RESOLVE (an address that is none),
 * RMQ_ERR_INVALID, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_namesrv_start(const char *address, int port, rmq_namesrv **out,
                                     rmq_error **err);

/* As above with options: the text of a properties file with the names of the Java namesrv.conf;
 * NULL is none. With them address NULL is bindAddress and port -1 is listenPort, or what these are
 * without a line; names that are not known are logged, an error names its line. Files
 * (kvConfigPath, configStorePath) are read and written only when they are named. Errors: as above,
 * RMQ_ERR_CORRUPT for a file that cannot be read (of kvConfigPath: nor its .bak). Since 0.1.0. */
RMQ_API rmq_status rmq_namesrv_start_properties(const char *address, int port,
                                                const char *properties, rmq_namesrv **out,
                                                rmq_error **err);

/* The same with the text of a file. Errors name it and the line; options changed by request are
 * written to it, unless it names another one (configStorePath). Errors: as above, RMQ_ERR_IO (no
 * such file), RMQ_ERR_TOO_LARGE (more than 1 MiB). Since 0.1.0. */
RMQ_API rmq_status rmq_namesrv_start_file(const char *address, int port, const char *path,
                                          rmq_namesrv **out, rmq_error **err);

/* The table of these options: name, type, default, range, help of field index; false beyond.
 * Strings are static. Any thread. Since 0.1.0. */
RMQ_API bool rmq_namesrv_config_field(size_t index, const char **name, const char **type,
                                      const char **default_value, const char **range,
                                      const char **help);

/* "127.0.0.1:9876". Borrowed until stop. Since 0.1.0. */
RMQ_API const char *rmq_namesrv_addr(const rmq_namesrv *namesrv);

/* Stops and frees. NULL is accepted. Does nothing in the child of a fork. Since 0.1.0. */
RMQ_API void rmq_namesrv_stop(rmq_namesrv *namesrv);

/* Configuration of a broker with the property names of the Java broker.conf ("brokerName",
 * "listenPort", …); made for in-process use: listenPort 0 (any free), brokerIP1 127.0.0.1, a
 * temporary store that stop removes, and a name server of its own unless namesrvAddr is set.
 * Errors: RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_config_create(rmq_broker_config **out, rmq_error **err);

/* Sets one property. A property of the Java broker that this one does not implement is accepted and
 * named in a warning; one that nobody knows is RMQ_ERR_INVALID with the nearest name, as is a value
 * out of range; one that asks for access control (aclEnable and its like) RMQ_ERR_UNSUPPORTED.
 * Since 0.1.0. */
RMQ_API rmq_status rmq_broker_config_set(rmq_broker_config *config, const char *key,
                                         const char *value, rmq_error **err);

/* Reads a properties file as Java reads it (key=value lines, '#' comments, a backslash continues a
 * line) such as an operator's broker.conf. Unknown keys are warnings here. What requests change
 * later is written back to the file, its old text to .bak, unless it sets brokerConfigPath (empty:
 * nowhere). Errors: RMQ_ERR_IO, RMQ_ERR_INVALID and RMQ_ERR_UNSUPPORTED with the line number. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_broker_config_load(rmq_broker_config *config, const char *path,
                                          rmq_error **err);

/* Defaults of a stand-alone broker instead: listenPort 10911, store in $HOME/store, brokerIP1 = the
 * machine's address. get: the value as text, borrowed until the next call with the same config;
 * NULL for an unknown key. Errors: RMQ_ERR_INVALID, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_config_standalone(rmq_broker_config *config, rmq_error **err);
RMQ_API const char *rmq_broker_config_get(rmq_broker_config *config, const char *key);
RMQ_API void rmq_broker_config_destroy(rmq_broker_config *config);

/* The option table, for documentation: name, type, default, range, help of field index; false
 * beyond. Strings are static. Since 0.1.0. */
RMQ_API bool rmq_broker_config_field(size_t index, const char **name, const char **type,
                                     const char **default_value, const char **range,
                                     const char **help);

/* Starts a broker (NULL = defaults for in-process use) and registers it. When it returns, sends and
 * pulls are served and the name server knows its topics; one of several that is silent hears of
 * them later. config may be destroyed. Errors:
 * RMQ_ERR_IO, RMQ_ERR_INVALID, RMQ_ERR_CORRUPT, RMQ_ERR_NOMEM, RMQ_ERR_EXISTS (store in use by
 * another process), RMQ_ERR_RESOLVE (an address that is none). Since 0.1.0. */
RMQ_API rmq_status rmq_broker_start(const rmq_broker_config *config, rmq_broker **out,
                                    rmq_error **err);

/* Address of the broker, and of the name servers to give to clients. Borrowed until stop. Since
 * 0.1.0. */
RMQ_API const char *rmq_broker_addr(const rmq_broker *broker);
RMQ_API const char *rmq_broker_namesrv_addr(const rmq_broker *broker);
RMQ_API const char *rmq_broker_store_path(const rmq_broker *broker);

/* Figures of the store. size is sizeof(rmq_broker_store_metrics) as the program knows it. Costs as
 * much as a few sends; any thread. Does nothing in the child of a fork. Since 0.1.0. */
RMQ_API void rmq_broker_get_store_metrics(const rmq_broker *broker, rmq_broker_store_metrics *out,
                                          size_t size);

/* Port of /metrics and /health, or -1 when metricsPort was not set. Since 0.1.0. */
RMQ_API int rmq_broker_metrics_port(const rmq_broker *broker);

/* The table of what /metrics tells, for documentation: name, type, labels (separated by commas),
 * help of row index; false beyond. Strings are static. Since 0.1.0. */
RMQ_API bool rmq_broker_metric_at(size_t index, const char **name, const char **type,
                                  const char **labels, const char **help);

/* Creates a topic with so many queues, or changes their number, as UPDATE_AND_CREATE_TOPIC (17)
 * would, and registers it at the name servers before it returns; one of several that is silent for
 * 2 s hears of it later. Any thread but a callback. Errors:
 * RMQ_ERR_INVALID (name, number below 1 or too large), RMQ_ERR_IO, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_create_topic(rmq_broker *broker, const char *topic, int32_t queues,
                                           rmq_error **err);

/* Misbehaviour on request, for tests. Each rule acts on the next `times` requests of a code (-1 =
 * all from now on; 0 clears the rules of the code); code -1 stands for every code. answer: instead
 * of the broker, with response_code and remark (copied; NULL = none). delay: carried out so many
 * milliseconds later. drop: carried out, and the answer is lost. cut: the connection is closed
 * instead. Of several rules for a request the one added first acts, until it is used up. Any
 * thread. Errors: RMQ_ERR_INVALID, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_answer(rmq_broker *broker, int code, int times,
                                           int response_code, const char *remark, rmq_error **err);
RMQ_API rmq_status rmq_broker_fault_delay(rmq_broker *broker, int code, int times, int64_t delay_ms,
                                          rmq_error **err);
RMQ_API rmq_status rmq_broker_fault_drop(rmq_broker *broker, int code, int times, rmq_error **err);
RMQ_API rmq_status rmq_broker_fault_cut(rmq_broker *broker, int code, int times, rmq_error **err);

/* While on, new connections are closed at once, and those that were open are closed now. Errors:
 * RMQ_ERR_INVALID. Not from a callback of the broker's own threads. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_refuse_connections(rmq_broker *broker, bool refuse,
                                                       rmq_error **err);

/* While on, sends and messages sent back are answered with 14 SERVICE_NOT_AVAILABLE and not stored.
 * Errors: RMQ_ERR_INVALID. Any thread. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_refuse_writes(rmq_broker *broker, bool refuse, rmq_error **err);

/* The broker's wall clock goes so many milliseconds before (or, negative, behind) the machine's:
 * store times, delayed messages, checks of transactions. Store times never go back. Errors:
 * RMQ_ERR_INVALID. Any thread. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_clock_offset(rmq_broker *broker, int64_t offset_ms,
                                                 rmq_error **err);

/* What a broker does with its disk. A message is stored by a copy into a mapped file, whose blocks
 * are reserved some way ahead. */
typedef enum rmq_disk_op {
    /* the copy of one message or batch into the commit log; writes of the checkpoint */
    RMQ_DISK_WRITE = 0,
    RMQ_DISK_SYNC = 1,    /* msync, fdatasync, fsync of the store's files and directories */
    RMQ_DISK_MAP = 2,     /* opening and mapping a file */
    RMQ_DISK_ALLOCATE = 3 /* reserving blocks, setting lengths: where a full disk shows itself */
} rmq_disk_op;

/* Disk faults: the nth call of op from now on (1 = the next) and those after it, `times` in all (-1
 * = for ever; 0 takes the fault away), fail with error_number, an errno such as ENOSPC or EIO. A
 * new call replaces the fault of op. Questions for health and figures are no calls. Errors:
 * RMQ_ERR_INVALID. Any thread. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_disk(rmq_broker *broker, rmq_disk_op op, int nth, int times,
                                         int error_number, rmq_error **err);

/* The broker takes its partition to be so full, in percent (-1 = as it is), and acts on it at once:
 * above diskMaxUsedSpaceRatio expired files go at any hour, above diskSpaceCleanForciblyRatio the
 * oldest whatever their age, above diskSpaceWarningLevelRatio sends are refused. Errors:
 * RMQ_ERR_INVALID. Any thread. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_disk_used(rmq_broker *broker, int percent, rmq_error **err);

/* The nth append from now on fails with EIO when its first `bytes` bytes are in the file; later
 * ones go over them. Errors: RMQ_ERR_INVALID. Any thread. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_tear(rmq_broker *broker, int nth, size_t bytes,
                                         rmq_error **err);

/* While paused, what is stored and acknowledged is not yet shown to consumers. Errors:
 * RMQ_ERR_INVALID. Any thread. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_pause_dispatch(rmq_broker *broker, bool paused,
                                                   rmq_error **err);

/* Begins to record what is durable, in a directory beside the store that stop removes. Call it
 * before the messages that matter; it makes syncs slower. Errors: RMQ_ERR_IO, RMQ_ERR_NOMEM,
 * RMQ_ERR_INVALID. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_record_power(rmq_broker *broker, rmq_error **err);

/* Writes to dir, which is made, the store that a power cut at this moment could leave: each page of
 * 4096 bytes that was not synced is there or not as seed says; with seed 0 none is. A broker can be
 * started on it. Only what lies below storePathRootDir is in it. Errors: RMQ_ERR_INVALID (nothing
 * is recorded), RMQ_ERR_IO. Any thread. Since 0.1.0. */
RMQ_API rmq_status rmq_broker_fault_power_cut(rmq_broker *broker, const char *dir, uint64_t seed,
                                              rmq_error **err);

/* Takes all faults away and lets the dispatcher go on. Since 0.1.0. */
RMQ_API void rmq_broker_fault_clear(rmq_broker *broker);

/* Stops accepting, answers what waits, flushes, unregisters and frees. NULL is accepted. In the
 * child of a fork it does nothing, since broker and store are the parent's; what returns a status
 * fails there with RMQ_ERR_FORKED. Since 0.1.0. */
RMQ_API void rmq_broker_stop(rmq_broker *broker);

RMQ_END_DECLS

#endif
