/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The disk as one store sees it: a switchboard that makes its calls fail on request, and a record
 * of what is surely on it, from which the bytes that a power cut could leave are made. With nothing
 * switched on each call costs one relaxed load. Any thread.
 */
#ifndef RQ_STORE_DISK_H
#define RQ_STORE_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/thread.h"
#include "base/time.h"

enum rq_disk_op {
    /* an append to the commit log, and bytes written to checkpoint, abort and lock file */
    RQ_DISK_WRITE,
    RQ_DISK_SYNC,     /* msync, fdatasync, fsync */
    RQ_DISK_MAP,      /* opening and mapping a file */
    RQ_DISK_ALLOCATE, /* blocks and lengths of files */
    RQ_DISK_OPS
};

struct rq_disk_rule {
    uint64_t after; /* so many calls go well first */
    int64_t times;  /* then so many fail; -1 = all, 0 = no rule */
    int error;
};

struct rq_disk {
    /* atomic: relaxed hint that there is a rule or a record, so that the usual call takes no
     * lock */
    atomic_bool active;
    /* atomic: relaxed; percent + 1 that the partition is said to be in use, 0 = the truth */
    atomic_int pretended_used;
    /* atomic: relaxed; what is added to the wall clock */
    _Atomic int64_t clock_offset_ms;
    /* atomic: release when root and durable are set, which is for good */
    atomic_bool recording;
    /* guarded by lock (rank: mapped file) */
    struct rq_mutex lock;
    struct rq_disk_rule rules[RQ_DISK_OPS];
    struct rq_disk_rule tear;
    size_t tear_bytes;
    bool hangs; /* writes wait on moves */
    struct rq_cond moves;
    /* guarded by image_lock: held while something becomes durable, and while an image is made */
    struct rq_mutex image_lock;
    char *root;    /* the store's directory */
    char *durable; /* a directory beside it: the files as they are surely on disk */
};

void rq_disk_init(struct rq_disk *disk);
void rq_disk_free(struct rq_disk *disk); /* removes the record */

/* ---- faults ---- */

/* The calls of op after the next `after` ones fail with error, `times` of them (-1 = all from then
 * on, 0 = none any more). */
void rq_disk_fail(struct rq_disk *disk, enum rq_disk_op op, uint64_t after, int64_t times,
                  int error);

/* The append after the next `after` ones fails with EIO when it has written its first `bytes`
 * bytes. */
void rq_disk_tear(struct rq_disk *disk, uint64_t after, size_t bytes);

/* Appends do not come back, and keep the lock of the log, until it is taken back; so do writes of
 * the small files. */
void rq_disk_hang(struct rq_disk *disk, bool hangs);

/* Retention takes the partition to be so full, in percent; -1 = looks again. */
void rq_disk_pretend_used(struct rq_disk *disk, int percent);

void rq_disk_clear(struct rq_disk *disk);

/* The wall clock of the store and its broker, moved on request. disk may be NULL. */
void rq_disk_set_clock_offset(struct rq_disk *disk, int64_t offset_ms);
static inline int64_t rq_disk_now_ms(struct rq_disk *disk)
{
    return rq_wall_ms() +
           (disk ? atomic_load_explicit(&disk->clock_offset_ms, memory_order_relaxed) : 0);
}

/* This thread only wants to know whether its calls would fail: they count for no fault, and wait
 * for none. To be taken back by who asked. */
void rq_disk_ask(bool asks);

int rq_disk_fault_slow(struct rq_disk *disk, enum rq_disk_op op);

/* 0, or the errno with which this call fails. disk may be NULL. */
static inline int rq_disk_fault(struct rq_disk *disk, enum rq_disk_op op)
{
    return disk && atomic_load_explicit(&disk->active, memory_order_relaxed)
               ? rq_disk_fault_slow(disk, op)
               : 0;
}

/* Whether this append is to be torn, behind how many bytes. */
bool rq_disk_tears(struct rq_disk *disk, size_t *bytes);

/* ---- calls that make something durable: -1 with errno ---- */

/* Bytes [from, upto) of the file mapped at data. */
int rq_disk_sync_map(struct rq_disk *disk, const char *path, char *data, size_t from, size_t upto);

/* Everything on the file system of an open file, in one go. ENOTSUP while faults are on or a record
 * is made, since those go by single files. */
int rq_disk_sync_all(struct rq_disk *disk, int fd);

/* The whole of an open file. */
int rq_disk_sync_file(struct rq_disk *disk, const char *path, int fd);

/* The name of a file: its directory. */
int rq_disk_sync_name(struct rq_disk *disk, const char *path);

/* ---- power cuts ---- */

/* From now on it is recorded what is durable; everything that is in root counts as that. */
rmq_status rq_disk_record(struct rq_disk *disk, const char *root, rmq_error **err);

/* Writes to the directory `to` (made) what the disk could hold if the power went now: each page of
 * 4096 bytes that was not synced is there or not, each file that was not synced is there, empty, or
 * not, as the seed says; with seed 0 nothing that was not synced is there. */
rmq_status rq_disk_image(struct rq_disk *disk, const char *to, uint64_t seed, rmq_error **err);

#endif
