/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * crash [-n ROUNDS] [-s SEED] [sync] [async] [buffers] [power]: so many rounds of each loop, "ok"
 * or "FAIL" for each loop. A failed round leaves its store behind and says the seed. The wall clock
 * runs a thousand times as fast here, so that the three seconds by which recovery distrusts its
 * checkpoint are three milliseconds, and it begins in the middle of the log as it does in life.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rmq/log.h>

#include "base/sys.h"
#include "crash/crash.h"

#define SPEED     1000
#define NEW_STORE 12 /* rounds of kills on one store */

static struct timespec began;

int clock_gettime(clockid_t clock, struct timespec *out)
{
    long rc = syscall(SYS_clock_gettime, clock, out);
    if (rc == 0 && clock == CLOCK_REALTIME) {
        if (began.tv_sec == 0) {
            began = *out;
        }
        int64_t ns =
            ((int64_t)(out->tv_sec - began.tv_sec) * 1000000000 + out->tv_nsec - began.tv_nsec) *
            SPEED;
        out->tv_sec = began.tv_sec + (time_t)(ns / 1000000000);
        out->tv_nsec = ns % 1000000000;
    }
    return (int)rc;
}

static void empty(struct crash_round *round)
{
    rq_sys_rmtree(round->dir);
    for (int i = 0; i < CRASH_WRITERS; i++) {
        atomic_store(&round->shared->acknowledged[i], 0);
    }
}

static bool run_round(struct crash_round *round, const char *kind)
{
    if (strcmp(kind, "power") == 0) {
        return crash_power(round);
    }
    if (round->number % NEW_STORE == 0) {
        empty(round);
    }
    return crash_kill(round, strcmp(kind, "async") != 0);
}

static bool run_loop(const char *kind, unsigned long rounds, uint64_t seed,
                     struct crash_shared *shared)
{
    char dir[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.100s/rmq-crash-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        perror(dir);
        return false;
    }
    memset(shared, 0, sizeof *shared);
    crash_with_buffers = strcmp(kind, "buffers") == 0;
    struct crash_round round = {.random = seed, .dir = dir, .shared = shared};
    bool good = true;
    for (; good && round.number < rounds; round.number++) {
        good = run_round(&round, kind);
    }
    if (good) {
        crash_power_end(&round);
        rq_sys_rmtree(dir);
        printf("ok %s: %lu rounds, seed %llu\n", kind, rounds, (unsigned long long)seed);
    } else {
        printf("FAIL %s: round %llu, seed %llu, the store is in %s\n", kind,
               (unsigned long long)round.number, (unsigned long long)seed, dir);
    }
    fflush(stdout);
    return good;
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"sync", "async", "buffers", "power", NULL};
    unsigned long rounds = 40;
    uint64_t seed = (uint64_t)time(NULL);
    int option;
    while ((option = getopt(argc, argv, "n:s:")) != -1) {
        if (option == 'n') {
            rounds = strtoul(optarg, NULL, 10);
        } else if (option == 's') {
            seed = strtoull(optarg, NULL, 10);
        } else {
            return 2;
        }
    }
    rmq_log_set(getenv("CRASH_LOG") ? RMQ_LOG_WARN : RMQ_LOG_OFF, NULL, NULL);
    struct crash_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    bool good = true;
    const char *const *kinds = optind < argc ? (const char *const *)argv + optind : all;
    for (; *kinds; kinds++) {
        good = run_loop(*kinds, rounds, seed, shared) && good;
    }
    return good ? 0 : 1;
}
