/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Preloaded: fsync, fdatasync, msync and syncfs that fail when a test says so, and a record of what
 * they really wrote. The file named by TL_SYNC_FILE holds a struct tl_sync (see lib/preload.h);
 * each call that went well adds a line "PATH FROM UPTO" to the file TL_SYNC_LOG, where FROM and
 * UPTO are bytes of the file, 0 0 for a whole file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/preload.h"

static struct tl_sync *state;
static int log_fd = -1;
static int (*real_fsync)(int fd);
static int (*real_fdatasync)(int fd);
static int (*real_msync)(void *p, size_t n, int flags);
static int (*real_syncfs)(int fd);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TL_SYNC_FILE");
    const char *log = getenv("TL_SYNC_LOG");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *p = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        state = p == MAP_FAILED ? NULL : p;
        close(fd);
    }
    log_fd = log ? open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    *(void **)&real_fsync = dlsym(RTLD_NEXT, "fsync");
    *(void **)&real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    *(void **)&real_msync = dlsym(RTLD_NEXT, "msync");
    *(void **)&real_syncfs = dlsym(RTLD_NEXT, "syncfs");
}

/* Counts one call; whether it fails, with errno. */
static int fails(void)
{
    if (!state || atomic_fetch_sub(&state->good_calls, 1) > 0) {
        return 0;
    }
    errno = atomic_load(&state->error);
    return errno != 0;
}

static void record(const char *path, unsigned long from, unsigned long upto)
{
    char line[PATH_MAX + 64];
    int n = snprintf(line, sizeof line, "%s %lu %lu\n", path, from, upto);
    if (log_fd >= 0 && n > 0 && n < (int)sizeof line) {
        (void)!write(log_fd, line, (size_t)n);
    }
}

static void record_fd(int fd)
{
    char link[64];
    char path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n > 0) {
        path[n] = '\0';
        record(path, 0, 0);
    }
}

/* Which file is mapped at p. */
static void record_map(const char *p, size_t n)
{
    char line[PATH_MAX + 128];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin_at;
        unsigned long end_at;
        unsigned long offset;
        int path_at = 0;
        if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %n", &begin_at, &end_at, &offset, &path_at) == 3 &&
            (unsigned long)p >= begin_at && (unsigned long)p < end_at && path_at > 0) {
            line[strcspn(line, "\n")] = '\0';
            unsigned long from = offset + ((unsigned long)p - begin_at);
            record(line + path_at, from, from + n);
            break;
        }
    }
    if (maps) {
        fclose(maps);
    }
}

int fsync(int fd)
{
    int rc = fails() ? -1 : real_fsync(fd);
    if (rc == 0) {
        record_fd(fd);
    }
    return rc;
}

int fdatasync(int fd)
{
    int rc = fails() ? -1 : real_fdatasync(fd);
    if (rc == 0) {
        record_fd(fd);
    }
    return rc;
}

int msync(void *p, size_t n, int flags)
{
    int rc = fails() ? -1 : real_msync(p, n, flags);
    if (rc == 0) {
        record_map(p, n);
    }
    return rc;
}

/* Not recorded: it names no file. */
int syncfs(int fd)
{
    return fails() ? -1 : real_syncfs(fd);
}
