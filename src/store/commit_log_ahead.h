/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What appends need to have ready: reserved blocks, pages in memory, the next file; with
 * synchronous flush also blocks that were written once. A helper thread makes it ahead; an append
 * that finds blocks or the file missing makes them itself. Counterpart: AllocateMappedFileService.
 */
#ifndef RQ_STORE_COMMIT_LOG_AHEAD_H
#define RQ_STORE_COMMIT_LOG_AHEAD_H

#include "store/commit_log.h"

/* An append moved the end from before to after: wakes the helper at every step of pages and in the
 * middle of the file, never per message. With the append lock. */
void rq_log_ahead_look_locked(struct rq_commit_log *log, struct rq_mapped_file *file, size_t before,
                              size_t after);

/* Appends go on in another file, or begin: with synchronous flush the helper readies what comes
 * next. With the append lock. */
void rq_log_ahead_begin_locked(struct rq_commit_log *log);

/* The next file: the spare when it is ready, else made here. With the append lock. */
rmq_status rq_log_ahead_take(struct rq_commit_log *log, int64_t start, struct rq_mapped_file **out,
                             rmq_error **err);

/* Blocks for the bytes before upto, now. With the append lock. */
rmq_status rq_log_ahead_reserve(struct rq_commit_log *log, struct rq_mapped_file *file, size_t upto,
                                rmq_error **err);

/* The file is full: its descriptor is not needed any more. */
void rq_log_ahead_leave(struct rq_commit_log *log, struct rq_mapped_file *file);

#endif
