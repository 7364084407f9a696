/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Starting again with a library preloaded. See preload.h. */
#include "lib/preload.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return getenv("TL_SLACK") != NULL;
}

/* "…/test/e2e/x_test" → "…/test/preload/NAME.so" */
static bool library_path(const char *name, char out[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) {
        return false;
    }
    self[n] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(self, '/');
        if (!slash) {
            return false;
        }
        *slash = '\0';
    }
    int len = snprintf(out, PATH_MAX, "%s/preload/%s.so", self, name);
    return len > 0 && len < PATH_MAX && access(out, R_OK) == 0;
}

static void *map_shared(const char *path, size_t n)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) {
        close(fd);
        unlink(path); /* both have it mapped */
    }
    return p == MAP_FAILED ? NULL : p;
}

void *tl_preload(char **argv, const char *name, const char *variable, size_t n)
{
    char library[PATH_MAX];
    char path[] = "/tmp/rmq-preload-XXXXXX";
    const char *given = getenv(variable);
    if (given) {
        return map_shared(given, n);
    }
    if (is_sanitized() || !library_path(name, library)) {
        printf("skip %s: no library to preload in this build\n", name);
        return NULL;
    }
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, (off_t)n) < 0) {
        perror(path);
        exit(1);
    }
    close(fd);
    setenv(variable, path, 1);
    setenv("LD_PRELOAD", library, 1);
    execv("/proc/self/exe", argv);
    perror("exec");
    exit(1);
}

void tl_clock_shift(void *shared, int64_t ms)
{
    atomic_store((_Atomic int64_t *)shared, ms);
}
