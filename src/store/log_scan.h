/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Looking through the files of the commit log where no record tells the way: for data, and for
 * records by their own offset. Recovery only. */
#ifndef RQ_STORE_LOG_SCAN_H
#define RQ_STORE_LOG_SCAN_H

#include "store/commit_log.h"

/* Whether nothing is written from an offset on in its file. Only what has pages is looked at. */
bool rq_log_scan_is_zero(struct rq_commit_log *log, int64_t offset);

/* The first good record that begins at or behind an offset, in that file or a later one, and was
 * stored at or after not_before_ms. A record says itself at which offset it was written, so that
 * bytes of a body are not taken for one. */
bool rq_log_scan_record(struct rq_commit_log *log, int64_t offset, int64_t not_before_ms,
                        struct rq_record *out);

#endif
