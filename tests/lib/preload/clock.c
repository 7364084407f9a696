/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Preloaded: a wall clock that a test sets. The file named by TL_CLOCK_FILE holds the milliseconds,
 * an int64_t, by which it is shifted; whoever writes there sets the clock at once. The monotonic
 * clock is left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *shift_ms;
static int (*real_clock_gettime)(clockid_t clock, struct timespec *out);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TL_CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (fd >= 0) {
        void *p = mmap(NULL, sizeof *shift_ms, PROT_READ, MAP_SHARED, fd, 0);
        shift_ms = p == MAP_FAILED ? NULL : p;
        close(fd);
    }
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!real_clock_gettime) { /* called by another library's constructor */
        *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    }
    int rc = real_clock_gettime(clock, out);
    if (rc == 0 && shift_ms && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t shift = atomic_load(shift_ms);
        int64_t ns = out->tv_nsec + shift % 1000 * 1000000;
        out->tv_sec += (time_t)(shift / 1000);
        out->tv_sec += ns < 0 ? -1 : ns >= 1000000000;
        out->tv_nsec = (long)(ns < 0 ? ns + 1000000000 : ns >= 1000000000 ? ns - 1000000000 : ns);
    }
    return rc;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int rc = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return rc;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
