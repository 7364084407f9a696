/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The name server's settings by namespace and key, and the file kvConfig.json in which they outlive
 * it. Owned by the name server's loop thread. Counterpart: KVConfigManager. */
#ifndef RQ_NAMESRV_KV_H
#define RQ_NAMESRV_KV_H

#include <stdbool.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/slice.h"
#include "base/table_file.h"
#include "base/thread.h"

#define RQ_KV_ORDER_TOPIC_CONFIG "ORDER_TOPIC_CONFIG"

struct rq_kv {
    struct rq_map table; /* namespace NUL key -> value, namespace -> "", owned text */
    /* only so that the file can be written: nobody else looks at the table */
    struct rq_mutex lock;
    struct rq_table_file file; /* without a path nothing is written */
};

void rq_kv_init(struct rq_kv *kv);
void rq_kv_free(struct rq_kv *kv);

/* Reads the file, or its .bak when it is missing or broken. Neither there is no error, and a broken
 * file without .bak is a warning; RMQ_ERR_IO: the system does not give it; RMQ_ERR_CORRUPT: the
 * .bak behind a broken one is broken, too. From here on each change is written. */
rmq_status rq_kv_open(struct rq_kv *kv, const char *path, rmq_error **err);

rmq_status rq_kv_put(struct rq_kv *kv, struct rq_slice space, struct rq_slice key,
                     struct rq_slice value);
const char *rq_kv_get(const struct rq_kv *kv, struct rq_slice space, struct rq_slice key);
void rq_kv_remove(struct rq_kv *kv, struct rq_slice space, struct rq_slice key);

/* Writes {"table":{…}} of a namespace; false, and nothing written, when it never had a key. */
bool rq_kv_write(const struct rq_kv *kv, struct rq_slice space, struct rq_buf *out);

#endif
