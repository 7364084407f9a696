/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* JSON files of tables. Counterpart: ConfigManager, MixAll.string2File. */
#include "base/table_file.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define FILE_MAX ((size_t)256 << 20)

/* RMQ_ERR_NOT_FOUND: missing or empty. RMQ_ERR_PROTOCOL: no JSON object. RMQ_ERR_IO: unreadable. */
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
    if (!st && !cJSON_IsObject(*out)) {
        st = rq_error_set(err, RMQ_ERR_PROTOCOL, "JSON, but no object");
        rq_json_free(*out);
        *out = NULL;
    }
    rq_buf_free(&text);
    return st;
}

void rq_table_file_init(struct rq_table_file *file)
{
    *file = (struct rq_table_file){0};
    rq_mutex_init(&file->file_lock);
}

void rq_table_file_free(struct rq_table_file *file)
{
    rq_free(file->path);
    rq_mutex_destroy(&file->file_lock);
}

rmq_status rq_table_file_set_path(struct rq_table_file *file, const char *path)
{
    file->path = path ? rq_strdup(path) : NULL;
    return path && !file->path ? RMQ_ERR_NOMEM : RMQ_OK;
}

/* For people: the next write takes the broken file's place. */
static void keep_aside(const char *path)
{
    char aside[PATH_MAX];
    (void)snprintf(aside, sizeof aside, "%s.broken", path);
    (void)unlink(aside);
    if (link(path, aside) == 0) {
        RQ_LOG(WARN, "the broken file is kept", "file=%s", aside);
    }
}

/* The file or its backup. *out stays NULL when there is neither. */
static rmq_status read_either(struct rq_table_file *file, cJSON **out, rmq_error **err)
{
    char bak[PATH_MAX];
    rmq_error *detail = NULL;
    rmq_status first = read_tree(file->path, out, &detail);
    if (first == RMQ_OK) {
        return RMQ_OK;
    }
    (void)snprintf(bak, sizeof bak, "%s.bak", file->path);
    bool backed = access(bak, F_OK) == 0;
    bool is_bad = first == RMQ_ERR_NOT_FOUND || first == RMQ_ERR_PROTOCOL;
    if (first == RMQ_ERR_NOMEM || (!backed && !is_bad)) {
        /* there may be a whole table in it, and the next write would take its place */
        rmq_status st = rq_error_set(err, first, "%s", rmq_error_message(detail));
        rmq_error_destroy(detail);
        return st;
    }
    if (access(file->path, F_OK) == 0) {
        RQ_LOG(WARN,
               backed ? "configuration file is broken, its backup is read"
                      : "configuration file is broken and has no backup: nothing of it is known",
               "file=%s detail=%s", file->path, rmq_error_message(detail));
        file->is_broken = true;
        if (!backed && first == RMQ_ERR_PROTOCOL) {
            keep_aside(file->path);
        }
    }
    rmq_error_destroy(detail);
    detail = NULL;
    rmq_status st = read_tree(bak, out, &detail);
    if (st == RMQ_ERR_NOT_FOUND) {
        st = RMQ_OK;
    } else if (st != RMQ_OK) {
        st = rq_error_set(err, st == RMQ_ERR_PROTOCOL ? RMQ_ERR_CORRUPT : st, "%s: %s", bak,
                          rmq_error_message(detail));
    }
    rmq_error_destroy(detail);
    return st;
}

rmq_status rq_table_file_load(struct rq_table_file *file,
                              rmq_status (*read)(void *table, const cJSON *root), void *table,
                              rmq_error **err)
{
    cJSON *root = NULL;
    rmq_status st = file->path ? read_either(file, &root, err) : RMQ_OK;
    if (st == RMQ_OK && root && (st = read(table, root))) {
        st = rq_error_set(err, st, "%s: %s", file->path, rmq_status_text(st));
    }
    rq_json_free(root);
    file->dirty = false;
    return st;
}

static rmq_status save(struct rq_table_file *file, const struct rq_buf *text, rmq_error **err)
{
    rmq_status st = rq_buf_status(text);
    if (st != RMQ_OK) {
        return rq_error_set(err, st, "%s: %s", file->path, rmq_status_text(st));
    }
    st = rq_sys_write_file(file->path, text->data, text->len, !file->is_broken, err);
    file->is_broken = file->is_broken && st != RMQ_OK;
    return st;
}

rmq_status rq_table_file_persist(struct rq_table_file *file, struct rq_mutex *lock,
                                 void (*write_locked)(void *table, struct rq_buf *out,
                                                      const char *line),
                                 void *table, rmq_error **err)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rq_mutex_lock(&file->file_lock);
    rq_mutex_lock(lock);
    bool dirty = file->dirty;
    file->dirty = false;
    if (dirty && file->path) {
        rq_buf_add_str(&text, "{\n\t");
        write_locked(table, &text, "\n\t");
        rq_buf_add_str(&text, "\n}");
    }
    rq_mutex_unlock(lock);
    rmq_status st = dirty && file->path ? save(file, &text, err) : RMQ_OK;
    rq_buf_free(&text);
    if (st != RMQ_OK) {
        rq_mutex_lock(lock);
        file->dirty = true;
        rq_mutex_unlock(lock);
    }
    rq_mutex_unlock(&file->file_lock);
    return st;
}
