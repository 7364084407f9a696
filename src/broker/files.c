/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* JSON files of the broker's tables. Counterpart: ConfigManager, MixAll.string2File. */
#include "broker/files.h"

#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "base/sys.h"

#define FILE_MAX ((size_t)256 << 20)

/* RMQ_ERR_NOT_FOUND: missing or empty. RMQ_ERR_PROTOCOL: no JSON. */
static rmq_status read_tree(const char *path, cJSON **out, rmq_error **err)
{
    struct rq_buf text;
    rq_buf_init(&text, FILE_MAX);
    rmq_status st = rq_sys_read_file(path, FILE_MAX, &text, err);
    if (!st && text.len == 0) {
        st = rq_error_set(err, RMQ_ERR_NOT_FOUND, "%s: empty", path);
    }
    if (!st) {
        st = rq_json_parse(rq_slice(text.data, text.len), out, err);
    }
    rq_buf_free(&text);
    return st;
}

rmq_status rq_broker_file_load(const char *path, rmq_status (*read)(void *user, const cJSON *root),
                               void *user, rmq_error **err)
{
    if (!path) {
        return RMQ_OK;
    }
    char bak[4200];
    rmq_error *detail = NULL;
    cJSON *root = NULL;
    (void)snprintf(bak, sizeof bak, "%s.bak", path);
    rmq_status st = read_tree(path, &root, &detail);
    if (st == RMQ_ERR_NOT_FOUND || st == RMQ_ERR_PROTOCOL) {
        bool broken = st == RMQ_ERR_PROTOCOL;
        if (broken) {
            RQ_LOG(WARN, "configuration file is broken, its backup is read", "file=%s detail=%s",
                   path, rmq_error_message(detail));
        }
        st = read_tree(bak, &root, &detail);
        if (st == RMQ_ERR_NOT_FOUND) {
            st = RMQ_OK;
        }
    }
    if (st == RMQ_ERR_PROTOCOL) {
        st = rq_error_set(err, RMQ_ERR_CORRUPT, "%s: %s", bak, rmq_error_message(detail));
    } else if (st) {
        st = rq_error_set(err, st, "%s", rmq_error_message(detail));
    } else if (root && (st = read(user, root))) {
        st = rq_error_set(err, st, "%s: %s", path, rmq_status_text(st));
    }
    rq_json_free(root);
    rmq_error_destroy(detail);
    return st;
}

rmq_status rq_broker_file_save(const char *path, const struct rq_buf *text, rmq_error **err)
{
    if (!path) {
        return RMQ_OK;
    }
    if (rq_buf_status(text)) {
        return rq_error_set(err, rq_buf_status(text), "%s: %s", path,
                            rmq_status_text(rq_buf_status(text)));
    }
    return rq_sys_write_file(path, text->data, text->len, true, err);
}
