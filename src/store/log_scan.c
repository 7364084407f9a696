/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Files that are hardly written have holes, which are passed over without reading them. */
#include "store/log_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"

#define MAGIC_AT 4 /* behind the size */

/* A piece of a file that is not a hole. */
struct piece {
    size_t from;
    size_t upto;
};

/* The next piece at or behind at; false when there is none, or the file cannot be looked at: then
 * all of it is one. */
static bool next_piece(const struct rq_mapped_file *file, int fd, size_t at, struct piece *out)
{
    *out = (struct piece){.from = at, .upto = file->size};
    if (at >= file->size) {
        return false;
    }
    off_t from = fd >= 0 ? lseek(fd, (off_t)at, SEEK_DATA) : -1;
    if (from < 0) {
        return fd < 0 || errno != ENXIO;
    }
    off_t upto = lseek(fd, from, SEEK_HOLE);
    out->from = (size_t)from;
    out->upto = upto > from && upto < (off_t)file->size ? (size_t)upto : file->size;
    return out->from < file->size;
}

static bool is_zero(const char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static int open_to_look(const struct rq_mapped_file *file)
{
    return rq_sys_open(file->path, O_RDONLY, 0);
}

static void close_it(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

bool rq_log_scan_is_zero(struct rq_commit_log *log, int64_t offset)
{
    struct rq_mapped_file *file = rq_mapped_file_queue_find(&log->files, offset);
    if (!file) {
        return true;
    }
    int fd = open_to_look(file);
    struct piece piece = {.upto = (size_t)(offset - file->start)};
    bool zero = true;
    while (zero && next_piece(file, fd, piece.upto, &piece)) {
        zero = is_zero(file->data + piece.from, piece.upto - piece.from);
    }
    close_it(fd);
    rq_mapped_file_release(file);
    return zero;
}

/* A good record that begins at pos of a file and says so. */
static bool is_record(const struct rq_mapped_file *file, size_t pos, int64_t not_before_ms,
                      struct rq_record *out)
{
    return rq_record_read(file->data + pos, file->size - pos, true, out) == RQ_RECORD_GOOD &&
           out->commit_log_offset == file->start + (int64_t)pos &&
           out->store_timestamp >= not_before_ms;
}

/* By the first byte of the magic of every record. */
static bool scan_piece(const struct rq_mapped_file *file, struct piece piece, int64_t not_before_ms,
                       struct rq_record *out)
{
    const unsigned char first = RQ_RECORD_MAGIC_V1 >> 24;
    const char *end = file->data + piece.upto;
    const char *p = file->data + piece.from + MAGIC_AT;
    while (p < end && (p = memchr(p, first, (size_t)(end - p)))) {
        size_t pos = (size_t)(p - file->data) - MAGIC_AT;
        if (is_record(file, pos, not_before_ms, out)) {
            return true;
        }
        p++;
    }
    return false;
}

static bool scan_file(const struct rq_mapped_file *file, size_t at, int64_t not_before_ms,
                      struct rq_record *out)
{
    int fd = open_to_look(file);
    struct piece piece = {.upto = at};
    bool found = false;
    while (!found && next_piece(file, fd, piece.upto, &piece)) {
        found = scan_piece(file, piece, not_before_ms, out);
    }
    close_it(fd);
    return found;
}

bool rq_log_scan_record(struct rq_commit_log *log, int64_t offset, int64_t not_before_ms,
                        struct rq_record *out)
{
    const struct rq_mapped_file_queue *files = &log->files;
    for (size_t i = 0; i < files->count; i++) {
        const struct rq_mapped_file *file = files->files[i];
        int64_t at = offset > file->start ? offset - file->start : 0;
        if (at < (int64_t)file->size && scan_file(file, (size_t)at, not_before_ms, out)) {
            return true;
        }
    }
    return false;
}
