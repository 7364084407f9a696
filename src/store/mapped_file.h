/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A file of fixed size, mapped whole, its blocks reserved piece by piece before they are written: a
 * full disk is then an error of rq_mapped_file_reserve and never a SIGBUS, and making a file of 1
 * GiB costs nothing at first. Where reading a hole takes a block, too, holes are mapped as zeros
 * instead. Counted: readers keep it mapped beyond its deletion. Counterpart: DefaultMappedFile.
 */
#ifndef RQ_STORE_MAPPED_FILE_H
#define RQ_STORE_MAPPED_FILE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "store/disk.h"
#include "store/store.h"

/* What an errno of the store's files means. */
static inline rmq_status rq_store_io_status(int error)
{
    return error == ENOMEM                                        ? RMQ_ERR_NOMEM
           : error == ENOSPC || error == EDQUOT || error == EFBIG ? RMQ_ERR_DISK_FULL
                                                                  : RMQ_ERR_IO;
}

#define RQ_STORE_PAGE 4096 /* the page of all "least pages" rules, whatever the machine's is */

/* No file begins behind it, so that the sum of an offset and a size is one, too. */
#define RQ_STORE_OFFSET_MAX (INT64_MAX / 2)

struct rq_mapped_file {
    /* immutable after create */
    char *data;
    size_t size;
    int64_t start; /* offset of the first byte in its queue of files */
    char *path;
    size_t first_step; /* bytes of the first reservation */
    size_t last_step;  /* steps double up to this */
    bool keeps_fd;
    bool syncs_name;
    bool cut; /* recovery: it had lost its end, or was missing, and reads as zero there */
    bool holes_take_room; /* on a file system where reading a hole takes a block: tmpfs */
    struct rq_disk *disk; /* of the store, not used after its close; NULL = the plain calls */
    /* atomic: reference count; the last one unmaps */
    atomic_uint refs;
    /* atomic: release by the writer behind the bytes, acquire by readers */
    atomic_size_t written;
    /* atomic: release when the blocks are there; raised by one thread at a time (guarded by the
     * user's lock) */
    atomic_size_t reserved;
    /* atomic: nothing is to be read ahead */
    atomic_bool at_random;
    /* guarded by the append lock: where the file's records are written instead; NULL = data */
    char *buffer;
    /* owned by who readies files for appends: before it the pages are in memory and, where that is
     * wanted, the blocks in use */
    size_t readied;
    /* atomic: relaxed; it was told that the file cannot be read */
    atomic_bool told;
    /* owned by the flusher */
    size_t flushed;
    bool has_name; /* its name is durable */
    int fd;        /* open while it is written when keeps_fd, else -1; guarded by the user's lock */
    int length_fd; /* immutable; tells of the file's length only; -1 = the path does */
};

/* Steps of reservation for the kinds of files. */
struct rq_mapped_file_kind {
    size_t first_step;
    size_t last_step;
    bool keeps_fd; /* a few files that are written all the time: not one for each of 1,600 queues */
    bool page_by_page; /* of a new file; see rq_mapped_file_new_from */
    bool syncs_name;   /* the first flush of a new file syncs its directory, too */
    struct rq_disk *disk;
};

/* Opens or creates path. A new file, or one of length 0, gets size; another length is
 * RMQ_ERR_CORRUPT. written, flushed are size for an existing file and 0 for a new one. One
 * reference, the caller's. */
rmq_status rq_mapped_file_open(const char *path, int64_t start, size_t size,
                               const struct rq_mapped_file_kind *kind, bool create,
                               struct rq_mapped_file **out, rmq_error **err);

/* Makes sure that blocks for the bytes before upto exist, and some beyond. RMQ_ERR_DISK_FULL,
 * RMQ_ERR_IO. */
rmq_status rq_mapped_file_reserve(struct rq_mapped_file *file, size_t upto, rmq_error **err);

/* Bytes from from on are yet to be written: until they are touched, their pages come into memory one
 * by one. What a system reads ahead it may keep in pieces of up to 2 MiB, each of which a write to
 * the map makes dirty as a whole: a sync would write all of it for one message. */
void rq_mapped_file_new_from(struct rq_mapped_file *file, size_t from);

/* Brings reserved pages [from, upto) into memory, writable. Only a help: nothing happens where the
 * system cannot do it. */
void rq_mapped_file_touch(struct rq_mapped_file *file, size_t from, size_t upto);

/* Writes n bytes to `at`, where blocks are reserved: the map shows them, but none of its pages is
 * dirty, so that a sync need not take the right to write from each of them, by a call to all
 * processors, nor the next append fault to get it back. 0 or an errno, the bytes are undefined
 * then. By who appends. */
int rq_mapped_file_write(const struct rq_mapped_file *file, size_t at, const char *p, size_t n);

/* Writes the touched pages of [from, upto), which may be written to meanwhile, to their blocks.
 * File systems note of a reserved block whether it was ever written: when that changes, a sync
 * waits for a turn of their journal, and later ones of the same block do not. Only a help that
 * promises nothing: what it cannot write, a sync finds again. */
void rq_mapped_file_use_blocks(const struct rq_mapped_file *file, size_t from, size_t upto);

/* Whether another process has shortened the file: reading what is gone would end the process
 * (SIGBUS). As of now, so that only a file that is shortened right behind this is still a danger.
 * The first time that it is shorter is logged. Any thread. */
bool rq_mapped_file_is_long_enough(struct rq_mapped_file *file);

/* Whether the system reads pages ahead of those that are read. Any thread; only a help. */
void rq_mapped_file_read_ahead(struct rq_mapped_file *file, bool on);

/* Writes [file->flushed, upto) to disk and moves flushed. The flusher only. */
rmq_status rq_mapped_file_flush(struct rq_mapped_file *file, size_t upto, rmq_error **err);

/* Every page of [from, upto) that is in memory counts as changed again: after a failed sync the
 * kernel takes them for clean. With the writer held off, unless it leaves those bytes alone. */
void rq_mapped_file_redirty(struct rq_mapped_file *file, size_t from, size_t upto);

/* Recovery: every byte from at on becomes zero, and its blocks are free again. synced: for good, on
 * disk. */
rmq_status rq_mapped_file_wipe(struct rq_mapped_file *file, size_t at, bool synced,
                               rmq_error **err);

/* Removes the name; the memory stays until the last reference goes. */
rmq_status rq_mapped_file_unlink(struct rq_mapped_file *file, rmq_error **err);

/* The descriptor is not needed any more: the file is full and flushed. */
void rq_mapped_file_close_fd(struct rq_mapped_file *file);

static inline bool rq_mapped_file_has_room(struct rq_mapped_file *file, size_t upto)
{
    return upto <= atomic_load_explicit(&file->reserved, memory_order_acquire);
}

static inline size_t rq_mapped_file_written(const struct rq_mapped_file *file)
{
    return atomic_load_explicit(&file->written, memory_order_acquire);
}

/* The same of a file that is full; one that is written to is not looked at, since the next write
 * would tell. */
static inline bool rq_mapped_file_can_read(struct rq_mapped_file *file)
{
    return rq_mapped_file_written(file) < file->size || rq_mapped_file_is_long_enough(file);
}

static inline void rq_mapped_file_set_written(struct rq_mapped_file *file, size_t written)
{
    atomic_store_explicit(&file->written, written, memory_order_release);
}

#endif
