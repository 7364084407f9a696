/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The JSON files below config/: read with their .bak as fallback, written whole. Any thread. Counterpart: ConfigManager. */
#ifndef RQ_BROKER_FILES_H
#define RQ_BROKER_FILES_H

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"

/* Reads path, or path.bak when path is missing, empty or no JSON, and gives the tree to read. Neither there: RMQ_OK, read is not called. A
 * broken .bak behind a broken file is RMQ_ERR_CORRUPT. path NULL: nothing. */
rmq_status rq_broker_file_load(const char *path, rmq_status (*read)(void *user, const cJSON *root),
                               void *user, rmq_error **err);

/* Writes the text, keeping the old file as .bak. path NULL: nothing. Errors of the buffer count, too. */
rmq_status rq_broker_file_save(const char *path, const struct rq_buf *text, rmq_error **err);

#endif
