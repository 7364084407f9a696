/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Preloaded: a machine whose pages have 65536 bytes, as some of arm64. The system says so, maps at
 * such pages only, and refuses what does not begin with one. The file named by TL_PAGE_FILE holds a
 * struct tl_page (see lib/preload.h).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/preload.h"

#define PAGE      65536
#define REAL_PAGE 4096

static struct tl_page *state;
static long (*real_sysconf)(int name);
static void *(*real_mmap)(void *at, size_t n, int protection, int flags, int fd, off_t from);
static off_t (*real_lseek)(int fd, off_t at, int whence);
static int (*real_msync)(void *p, size_t n, int flags);
static int (*real_madvise)(void *p, size_t n, int advice);
static int (*real_mincore)(void *p, size_t n, unsigned char *out);

/* Another library's constructor may call before ours. */
static void find_calls(void)
{
    if (!real_mincore) {
        *(void **)&real_sysconf = dlsym(RTLD_NEXT, "sysconf");
        *(void **)&real_mmap = dlsym(RTLD_NEXT, "mmap");
        *(void **)&real_lseek = dlsym(RTLD_NEXT, "lseek");
        *(void **)&real_msync = dlsym(RTLD_NEXT, "msync");
        *(void **)&real_madvise = dlsym(RTLD_NEXT, "madvise");
        *(void **)&real_mincore = dlsym(RTLD_NEXT, "mincore");
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TL_PAGE_FILE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    find_calls();
    if (fd >= 0) {
        void *p = real_mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        state = p == MAP_FAILED ? NULL : p;
        close(fd);
    }
}

/* What a machine with such pages refuses, with errno. */
static bool is_refused(const void *p, off_t from)
{
    find_calls();
    if ((uintptr_t)p % PAGE == 0 && from % PAGE == 0) {
        return false;
    }
    if (state) {
        atomic_fetch_add(&state->refused, 1);
    }
    errno = EINVAL;
    return true;
}

static size_t whole_pages(size_t n)
{
    return (n + REAL_PAGE - 1) / REAL_PAGE * REAL_PAGE;
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    if (is_refused(at, from)) {
        return MAP_FAILED;
    }
    if (at) {
        return real_mmap(at, n, protection, flags, fd, from);
    }
    size_t all = whole_pages(n + PAGE);
    char *room = real_mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        return MAP_FAILED;
    }
    char *p = room + (PAGE - (uintptr_t)room % PAGE) % PAGE;
    char *end = p + whole_pages(n);
    void *mapped = real_mmap(p, n, protection, flags | MAP_FIXED, fd, from);
    int error = errno;
    if (mapped == MAP_FAILED) {
        munmap(room, all);
    } else {
        munmap(room, (size_t)(p - room)); /* nothing happens where there is nothing */
        munmap(end, (size_t)(room + all - end));
    }
    errno = error;
    return mapped;
}

long sysconf(int name)
{
    find_calls();
    return name == _SC_PAGESIZE ? PAGE : real_sysconf(name);
}

/* The first page from at on of which no part is there. */
static off_t find_hole(int fd, off_t at)
{
    off_t hole = real_lseek(fd, at, SEEK_HOLE);
    while (hole > 0) {
        hole += (PAGE - hole % PAGE) % PAGE;
        off_t data = real_lseek(fd, hole, SEEK_DATA);
        if (data < 0 || data - hole >= PAGE) {
            break;
        }
        hole = real_lseek(fd, data, SEEK_HOLE);
    }
    return hole;
}

/* A page of which a part is there is there as a whole. */
off_t lseek(int fd, off_t at, int whence)
{
    find_calls();
    if (whence == SEEK_HOLE) {
        return find_hole(fd, at);
    }
    off_t to = real_lseek(fd, at, whence);
    return whence == SEEK_DATA && to - to % PAGE > at ? to - to % PAGE : to;
}

int msync(void *p, size_t n, int flags)
{
    return is_refused(p, 0) ? -1 : real_msync(p, n, flags);
}

int madvise(void *p, size_t n, int advice)
{
    return is_refused(p, 0) ? -1 : real_madvise(p, n, advice);
}

int mincore(void *p, size_t n, unsigned char *out)
{
    return is_refused(p, 0) ? -1 : real_mincore(p, n, out);
}
