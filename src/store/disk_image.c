/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What a power cut leaves. While recording, each sync that succeeds copies what it made durable to
 * a second directory; an image takes every page from there or from the living file. A sync of a
 * file makes its name durable, too, as on the usual file systems. The files of config/ are written
 * elsewhere, by rename, and taken as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/sys.h"
#include "store/disk.h"
#include "store/mapped_file.h"

#define DURABLE_SUFFIX ".durable"
#define CHOICES        3 /* of a file without durable bytes: missing, empty, there */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* "from" becomes "to": path below another directory. false when it is not below, or too long. */
static bool move_path(const char *path, const char *from, const char *to, char out[PATH_MAX])
{
    size_t n = from && to ? strlen(from) : 0;
    if (n == 0 || strncmp(path, from, n) != 0 || path[n] != '/') {
        return false;
    }
    int len = snprintf(out, PATH_MAX, "%s%s", to, path + n);
    return len > 0 && len < PATH_MAX;
}

/* Opens for writing, making directories as needed. */
static int open_new(const char *path)
{
    char dir[PATH_MAX];
    int fd = rq_sys_open(path, O_RDWR | O_CREAT, 0644);
    const char *slash = strrchr(path, '/');
    if (fd >= 0 || errno != ENOENT || !slash) {
        return fd;
    }
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
    return rq_sys_mkdirs(dir) < 0 ? -1 : rq_sys_open(path, O_RDWR | O_CREAT, 0644);
}

static off_t length_of(int fd)
{
    struct stat info;
    return fd >= 0 && fstat(fd, &info) == 0 ? info.st_size : 0;
}

/* The next byte at or behind `at` that is no hole; the length when there is none. */
static off_t next_data(int fd, off_t at, off_t length)
{
    off_t found = fd >= 0 && at < length ? lseek(fd, at, SEEK_DATA) : -1;
    return found < 0 ? length : found;
}

/* Up to n bytes, zero behind the end of the file. */
static void read_page(int fd, char *to, size_t n, off_t at)
{
    ssize_t done = fd >= 0 ? rq_sys_pread(fd, to, n, at) : 0;
    size_t have = done > 0 ? (size_t)done : 0;
    memset(to + have, 0, n - have);
}

/* Page by page from live or durable into out, which gets one of both lengths. random NULL: all from
 * durable. */
static int mix(int live, int durable, int out, uint64_t *random)
{
    off_t live_size = length_of(live);
    off_t size = length_of(durable);
    size = random && (durable < 0 || next_random(random) & 1) ? live_size : size;
    int rc = rq_sys_ftruncate(out, size);
    off_t at = 0;
    while (rc == 0 && at < size) {
        off_t a = next_data(live, at, size);
        off_t b = next_data(durable, at, size);
        char pages[2][RQ_STORE_PAGE];
        at = (a < b ? a : b) / RQ_STORE_PAGE * RQ_STORE_PAGE;
        size_t n = size - at < RQ_STORE_PAGE ? (size_t)(size - at) : RQ_STORE_PAGE;
        if (at < size) {
            read_page(live, pages[0], n, at);
            read_page(durable, pages[1], n, at);
            bool differ = memcmp(pages[0], pages[1], n) != 0;
            int which = differ && random && next_random(random) & 1 ? 0 : 1;
            rc = rq_sys_pwrite(out, pages[which], n, at) == (ssize_t)n ? 0 : -1;
        }
        at += RQ_STORE_PAGE;
    }
    return rc;
}

static int copy_file(const char *from, const char *to)
{
    int in = rq_sys_open(from, O_RDONLY, 0);
    int out = in < 0 ? -1 : open_new(to);
    int rc = out < 0 ? -1 : mix(-1, in, out, NULL);
    int error = errno;
    if (in >= 0) {
        close(in);
    }
    if (out >= 0) {
        close(out);
    }
    errno = error;
    return in < 0 && error == ENOENT ? 0 : rc; /* gone meanwhile */
}

/* Calls each for every file below dir; stops at the first -1. */
static int walk(const char *dir, int (*each)(const char *path, void *user), void *user)
{
    char root[PATH_MAX];
    (void)snprintf(root, sizeof root, "%s", dir);
    char *const roots[] = {root, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    int rc = tree ? 0 : -1;
    FTSENT *entry;
    while (rc == 0 && (entry = fts_read(tree))) {
        struct stat info;
        if (entry->fts_info != FTS_D && entry->fts_info != FTS_DP &&
            lstat(entry->fts_path, &info) == 0 && S_ISREG(info.st_mode)) {
            rc = each(entry->fts_path, user);
        }
    }
    int error = errno;
    if (tree) {
        fts_close(tree);
    }
    errno = error;
    return rc;
}

/* ---- recording ---- */

static int record_one(const char *path, void *user)
{
    const struct rq_disk *disk = user;
    char to[PATH_MAX];
    return move_path(path, disk->root, disk->durable, to) ? copy_file(path, to) : 0;
}

rmq_status rq_disk_record(struct rq_disk *disk, const char *root, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&disk->image_lock);
    if (!disk->durable) {
        disk->root = rq_strdup(root);
        disk->durable = rq_alloc(strlen(root) + sizeof DURABLE_SUFFIX);
        if (!disk->root || !disk->durable) {
            rq_free(disk->root);
            rq_free(disk->durable);
            disk->root = disk->durable = NULL;
            st = rq_error_set(err, RMQ_ERR_NOMEM, "no memory for the record of %s", root);
        } else {
            memcpy(disk->durable, root, strlen(root));
            memcpy(disk->durable + strlen(root), DURABLE_SUFFIX, sizeof DURABLE_SUFFIX);
        }
    }
    if (st == RMQ_OK && (rq_sys_rmtree(disk->durable) < 0 || rq_sys_mkdirs(disk->durable) < 0 ||
                         walk(root, record_one, disk) < 0)) {
        st = rq_error_set(err, RMQ_ERR_IO, "copy %s to %s: %s", root, disk->durable,
                          strerror(errno));
    }
    atomic_store_explicit(&disk->recording, st == RMQ_OK, memory_order_release);
    rq_mutex_unlock(&disk->image_lock);
    rq_disk_clear(disk); /* and counts the record in */
    return st;
}

/* Where the record keeps path; false when it is not recorded. With image_lock. */
static bool durable_path(const struct rq_disk *disk, const char *path, char out[PATH_MAX])
{
    return disk->durable && move_path(path, disk->root, disk->durable, out);
}

static bool is_recording(const struct rq_disk *disk)
{
    return disk && atomic_load_explicit(&disk->active, memory_order_relaxed) &&
           atomic_load_explicit(&disk->recording, memory_order_acquire);
}

/* A page of a file, as it was when a sync began. */
struct page {
    off_t at;
    size_t n;
    char bytes[RQ_STORE_PAGE];
};

/* The pages of [from, upto) that are no holes, as struct page in out. */
static void collect_pages(const char *path, size_t from, size_t upto, struct rq_buf *out)
{
    struct page page;
    int fd = rq_sys_open(path, O_RDONLY, 0);
    off_t at = next_data(fd, (off_t)from, (off_t)upto);
    while (fd >= 0 && at < (off_t)upto) {
        page.at = at / RQ_STORE_PAGE * RQ_STORE_PAGE;
        page.at = page.at < (off_t)from ? (off_t)from : page.at;
        off_t end = (page.at / RQ_STORE_PAGE + 1) * RQ_STORE_PAGE;
        end = end < (off_t)upto ? end : (off_t)upto;
        page.n = (size_t)(end - page.at);
        read_page(fd, page.bytes, page.n, page.at);
        rq_buf_add(out, &page, sizeof page);
        at = next_data(fd, end, (off_t)upto);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void keep_pages(struct rq_disk *disk, const char *path, const struct rq_buf *pages)
{
    char to[PATH_MAX];
    struct stat info;
    rq_mutex_lock(&disk->image_lock);
    int fd = durable_path(disk, path, to) ? open_new(to) : -1;
    if (fd >= 0 && stat(path, &info) == 0) {
        (void)rq_sys_ftruncate(fd, info.st_size);
        for (size_t i = 0; i + sizeof(struct page) <= pages->len; i += sizeof(struct page)) {
            struct page page;
            memcpy(&page, pages->data + i, sizeof page);
            (void)rq_sys_pwrite(fd, page.bytes, page.n, page.at);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    rq_mutex_unlock(&disk->image_lock);
}

int rq_disk_sync_map(struct rq_disk *disk, const char *path, char *data, size_t from, size_t upto)
{
    int error = rq_disk_fault(disk, RQ_DISK_SYNC);
    if (error) {
        errno = error;
        return -1;
    }
    if (!is_recording(disk)) {
        return rq_sys_msync(data + from, upto - from);
    }
    struct rq_buf pages; /* as they were before: what is written meanwhile may not be synced */
    rq_buf_init(&pages, 0);
    collect_pages(path, from, upto, &pages);
    int rc = rq_buf_status(&pages) ? -1 : rq_sys_msync(data + from, upto - from);
    error = rq_buf_status(&pages) ? ENOMEM : errno;
    if (rc == 0) {
        keep_pages(disk, path, &pages);
    }
    rq_buf_free(&pages);
    errno = error;
    return rc;
}

int rq_disk_sync_all(struct rq_disk *disk, int fd)
{
    if (atomic_load_explicit(&disk->active, memory_order_relaxed)) {
        errno = ENOTSUP;
        return -1;
    }
    return rq_sys_syncfs(fd);
}

int rq_disk_sync_file(struct rq_disk *disk, const char *path, int fd)
{
    int error = rq_disk_fault(disk, RQ_DISK_SYNC);
    if (error) {
        errno = error;
        return -1;
    }
    int rc = rq_sys_fdatasync(fd);
    error = errno;
    if (rc == 0 && is_recording(disk)) {
        char to[PATH_MAX];
        rq_mutex_lock(&disk->image_lock);
        if (durable_path(disk, path, to)) {
            (void)copy_file(path, to);
        }
        rq_mutex_unlock(&disk->image_lock);
    }
    errno = error;
    return rc;
}

int rq_disk_sync_name(struct rq_disk *disk, const char *path)
{
    int error = rq_disk_fault(disk, RQ_DISK_SYNC);
    if (error || rq_sys_sync_dir_of(path) < 0) {
        errno = error ? error : errno;
        return -1;
    }
    if (is_recording(disk)) {
        char to[PATH_MAX];
        rq_mutex_lock(&disk->image_lock);
        if (durable_path(disk, path, to)) {
            int fd = access(path, F_OK) == 0 ? open_new(to) : -1;
            if (fd >= 0) {
                close(fd);
            } else {
                rq_sys_unlink(to);
            }
        }
        rq_mutex_unlock(&disk->image_lock);
    }
    return 0;
}

/* ---- images ---- */

struct image {
    const struct rq_disk *disk;
    const char *to;
    uint64_t random;
    bool synced_only;
};

static bool is_config(const struct image *image, const char *path)
{
    const char *rest = path + strlen(image->disk->root) + 1;
    return strncmp(rest, "config/", 7) == 0;
}

static int take_live(const char *path, void *user)
{
    struct image *image = user;
    char durable_name[PATH_MAX];
    char to[PATH_MAX];
    if (!move_path(path, image->disk->root, image->to, to) ||
        !move_path(path, image->disk->root, image->disk->durable, durable_name)) {
        return 0;
    }
    if (is_config(image, path)) {
        return copy_file(path, to);
    }
    int durable = rq_sys_open(durable_name, O_RDONLY, 0);
    uint64_t choice = next_random(&image->random) % CHOICES;
    if (durable < 0 && (image->synced_only || choice == 0)) {
        return 0;
    }
    int live = durable < 0 && choice == 1 ? -1 : rq_sys_open(path, O_RDONLY, 0);
    int out = open_new(to);
    int rc = out < 0 ? -1 : mix(live, durable, out, image->synced_only ? NULL : &image->random);
    int error = errno;
    const int fds[] = {durable, live, out};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    errno = error;
    return rc;
}

/* A file whose removal may not have reached the disk. */
static int take_removed(const char *path, void *user)
{
    struct image *image = user;
    char live[PATH_MAX];
    char to[PATH_MAX];
    if (!move_path(path, image->disk->durable, image->disk->root, live) ||
        !move_path(path, image->disk->durable, image->to, to) || access(live, F_OK) == 0 ||
        is_config(image, live) || (!image->synced_only && next_random(&image->random) & 1)) {
        return 0;
    }
    return copy_file(path, to);
}

rmq_status rq_disk_image(struct rq_disk *disk, const char *to, uint64_t seed, rmq_error **err)
{
    struct image image = {.disk = disk, .to = to, .random = seed, .synced_only = seed == 0};
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&disk->image_lock);
    if (!disk->durable) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "power cuts are not recorded in this store");
    } else if (rq_sys_mkdirs(to) < 0 || walk(disk->root, take_live, &image) < 0 ||
               walk(disk->durable, take_removed, &image) < 0) {
        st = rq_error_set(err, RMQ_ERR_IO, "make an image of %s in %s: %s", disk->root, to,
                          strerror(errno));
    }
    rq_mutex_unlock(&disk->image_lock);
    return st;
}
