/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The files of one directory of a store, read by pread through windows and not mapped: what cannot
 * be read is then an error, where a mapping would end the process (SIGBUS), be it a file that
 * another process shortens, a hole on a full tmpfs or a bad sector. One thread at a time.
 */
#ifndef RQ_STORE_OFFLINE_FILES_H
#define RQ_STORE_OFFLINE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

struct rq_offline_file {
    int64_t start; /* offset of the first byte, by its name; of index files the name itself */
    size_t size;   /* when it was looked at first */
};

/* The first failure of a read; later ones are not told. Shared by the files of a store. */
struct rq_offline_trouble {
    rmq_status st;
    rmq_error *err;
};

/* A piece of one file in memory. All zero = empty; freed with rq_offline_window_free. */
struct rq_offline_window {
    char *data;
    size_t room;
    const struct rq_offline_file *file; /* that data is of; NULL = of none */
    size_t from;
    size_t n;
};

/* Files in the order of their names. */
struct rq_offline_files {
    char *dir;
    int digits; /* of a name */
    struct rq_offline_file *files;
    size_t count;
    size_t cap;
    size_t file_size; /* that each should have; 0 = there is none */
    size_t ahead;     /* bytes of one read while they are read one after the other */
    struct rq_offline_window *window;
    struct rq_offline_trouble *trouble;
};

/* Lists every regular file of a directory whose name has that many digits; a directory that is
 * missing has none. ahead: see above. trouble must outlive the files. */
rmq_status rq_offline_files_load(struct rq_offline_files *files, const char *dir, int digits,
                                 size_t ahead, struct rq_offline_trouble *trouble, rmq_error **err);
void rq_offline_files_free(struct rq_offline_files *files);

/* How many bytes the file that holds an offset has from there on; 0 when no file does. */
size_t rq_offline_left(const struct rq_offline_files *files, int64_t offset);

/* n bytes at an offset, up to the next call with these files. NULL when no file has all of them, or
 * they cannot be read: then there is trouble. */
const char *rq_offline_at(const struct rq_offline_files *files, int64_t offset, size_t n);

/* The same at a place of one of the files, up to the next call with that window. */
const char *rq_offline_read(const struct rq_offline_files *files, struct rq_offline_window *window,
                            const struct rq_offline_file *file, size_t at, size_t n);
void rq_offline_window_free(struct rq_offline_window *window);

/* The file that begins at or is the first behind an offset; NULL beyond the last. */
const struct rq_offline_file *rq_offline_from(const struct rq_offline_files *files, int64_t offset);

/* Hands the trouble over, and forgets it; RMQ_OK when there was none. */
rmq_status rq_offline_take_trouble(struct rq_offline_trouble *trouble, rmq_error **err);

#endif
