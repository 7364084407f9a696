/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Usage of a process from /proc. */
#include "lib/usage.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void proc_path(pid_t pid, const char *what, char *out, size_t room)
{
    if (pid) {
        snprintf(out, room, "/proc/%d/%s", (int)pid, what);
    } else {
        snprintf(out, room, "/proc/self/%s", what);
    }
}

static int count_dir(pid_t pid, const char *what)
{
    char path[64];
    proc_path(pid, what, path, sizeof path);
    DIR *dir = opendir(path);
    int n = 0;
    if (!dir) {
        return -1;
    }
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        n += e->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

static long status_kb(pid_t pid, const char *key)
{
    char path[64];
    char line[256];
    long v = -1;
    proc_path(pid, "status", path, sizeof path);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) == 0) {
            v = strtol(line + strlen(key) + 1, NULL, 10);
        }
    }
    if (f) {
        fclose(f);
    }
    return v;
}

static int64_t cpu_us(pid_t pid)
{
    char path[64];
    char text[1024];
    proc_path(pid, "stat", path, sizeof path);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) {
        fclose(f);
    }
    text[n] = '\0';
    char *at = strrchr(text, ')');
    unsigned long user = 0;
    unsigned long system = 0;
    if (!at || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                      &system) != 2) {
        return -1;
    }
    return (int64_t)(user + system) * 1000000 / sysconf(_SC_CLK_TCK);
}

struct tl_usage tl_usage_of(pid_t pid)
{
    int descriptors = count_dir(pid, "fd");
    return (struct tl_usage){.threads = count_dir(pid, "task"),
                             /* the one that counted */
                             .descriptors = descriptors - (pid == 0 && descriptors > 0),
                             .rss_kb = status_kb(pid, "VmRSS"),
                             .peak_rss_kb = status_kb(pid, "VmHWM"),
                             .anon_kb = status_kb(pid, "RssAnon"),
                             .cpu_us = cpu_us(pid)};
}

void tl_thread_names(pid_t pid, char *out, size_t room)
{
    char path[64];
    proc_path(pid, "task", path, sizeof path);
    DIR *dir = opendir(path);
    out[0] = '\0';
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        char file[400];
        char name[32] = "";
        snprintf(file, sizeof file, "%s/%s/comm", path, e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(file, "r");
        if (f && fgets(name, sizeof name, f)) {
            name[strcspn(name, "\n")] = '\0';
            size_t n = strlen(out);
            snprintf(out + n, room - n, "%s%s", n ? " " : "", name);
        }
        if (f) {
            fclose(f);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

static int64_t clock_ms(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t tl_now_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

int64_t tl_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

bool tl_wait(bool (*condition)(void *arg), void *arg, int64_t timeout_ms)
{
    int64_t deadline = tl_now_ms() + timeout_ms;
    while (!condition(arg)) {
        if (tl_now_ms() > deadline) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return true;
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

void tl_pause(int64_t ms)
{
    (void)tl_wait(never, NULL, ms);
}
