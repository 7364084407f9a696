/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A directory of mapped files of one size that follow each other, named by the offset of their
 * first byte in 20 digits. Any thread may look files up; one writer at a time adds and removes.
 * Counterpart: MappedFileQueue.
 */
#ifndef RQ_STORE_MAPPED_FILE_QUEUE_H
#define RQ_STORE_MAPPED_FILE_QUEUE_H

#include "base/thread.h"
#include "store/mapped_file.h"

struct rq_mapped_file_queue {
    /* immutable after init */
    char *dir;
    size_t file_size;
    struct rq_mapped_file_kind kind;
    /* guarded by lock; the writer may read without it */
    struct rq_mutex lock;
    struct rq_mapped_file **files; /* sorted by start; each holds one reference */
    size_t count;
    size_t cap;
    bool at_random; /* nothing is read ahead of what is read */
};

rmq_status rq_mapped_file_queue_init(struct rq_mapped_file_queue *queue, const char *dir,
                                     size_t file_size, const struct rq_mapped_file_kind *kind);
void rq_mapped_file_queue_free(struct rq_mapped_file_queue *queue);

/* Opens all files of the directory, which may be missing. A last file of length 0 is removed.
 * RMQ_ERR_CORRUPT for a wrong length, but when lengthened is given, a file that is too short is
 * made long again, and one that is missing is made: what is lost reads as zero. lengthened is set,
 * and cut in those files. */
rmq_status rq_mapped_file_queue_load(struct rq_mapped_file_queue *queue, bool *lengthened,
                                     rmq_error **err);

/* Whether each file begins where the one before it ends, and the first one at a multiple of their
 * size. */
bool rq_mapped_file_queue_is_whole(const struct rq_mapped_file_queue *queue);

/* The file that holds offset, and the first one, both retained; NULL when there is none. */
struct rq_mapped_file *rq_mapped_file_queue_find(struct rq_mapped_file_queue *queue,
                                                 int64_t offset);
struct rq_mapped_file *rq_mapped_file_queue_first(struct rq_mapped_file_queue *queue);

/* Writer: the last file, borrowed; NULL when empty. */
struct rq_mapped_file *rq_mapped_file_queue_last(struct rq_mapped_file_queue *queue);

/* Offset of the first byte, 0 when empty. */
int64_t rq_mapped_file_queue_min(struct rq_mapped_file_queue *queue);

/* Writer: opens (creates) the file that begins at start, without adding it. Any thread. */
rmq_status rq_mapped_file_queue_make(struct rq_mapped_file_queue *queue, int64_t start,
                                     struct rq_mapped_file **out, rmq_error **err);

/* Writer: adds a file behind the last; takes the reference on success. */
rmq_status rq_mapped_file_queue_add(struct rq_mapped_file_queue *queue, struct rq_mapped_file *file,
                                    rmq_error **err);

/* Writer: takes files out and deletes them. */
rmq_status rq_mapped_file_queue_remove_last(struct rq_mapped_file_queue *queue, rmq_error **err);
rmq_status rq_mapped_file_queue_remove_first(struct rq_mapped_file_queue *queue, rmq_error **err);

/* Writer: the first file, whose name is gone, is taken out. Nothing happens when another one is the
 * first by now. The caller has a reference of its own. */
void rq_mapped_file_queue_forget_first(struct rq_mapped_file_queue *queue,
                                       struct rq_mapped_file *file);

/* Whether the system reads ahead in the files, those that come later, too. Any thread. */
void rq_mapped_file_queue_read_ahead(struct rq_mapped_file_queue *queue, bool on);

/* Writer (recovery): the data ends at end. Files behind it are deleted, positions set. */
rmq_status rq_mapped_file_queue_truncate(struct rq_mapped_file_queue *queue, int64_t end,
                                         rmq_error **err);

#endif
