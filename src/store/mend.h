/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Damage in the commit log with messages behind it: the bytes that are no message are covered by a
 * record that every reader passes over, ours and Java's: a blank where the rest of the file is
 * lost, else a message of the kind that no queue and no index takes (a transaction rolled back),
 * its body being what was there. So the log is one row of records again, and nothing behind the
 * damage is given up. Recovery only. Counterpart: none; the Java broker deletes what stands behind
 * damage.
 */
#ifndef RQ_STORE_MEND_H
#define RQ_STORE_MEND_H

#include "store/store_priv.h"

/* Covers what is between offset, where no good record begins, and the good record behind it. The
 * bytes stay, but for those that the cover's own fields take. RMQ_ERR_IO, RMQ_ERR_DISK_FULL,
 * RMQ_ERR_NOMEM. */
rmq_status rq_mend_log(struct rq_store *store, int64_t offset, const struct rq_record *next,
                       rmq_error **err);

/* Files that lost their end, or were missing, and end before upto: they are walked, covered, and
 * the queues told. */
rmq_status rq_mend_cut_files(struct rq_store *store, int64_t upto, rmq_error **err);

#endif
