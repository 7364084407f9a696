/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A process that writes is killed: at work, while it opens and recovers the store, while it closes
 * it. What it had written is in the page cache. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/time.h"
#include "crash/crash.h"

#define WORK_US     20000 /* most of a life at work */
#define OPEN_US     6000  /* most of a life that may end before the store is open */
#define OPEN_MS_MAX 30000

static void live(struct crash_round *round, bool sync)
{
    struct rq_store_options options;
    struct rq_store *store = NULL;
    struct crash_shared *shared = round->shared;
    rmq_error *err = NULL;
    crash_options(&options, round->dir, sync);
    if (rq_store_open(&options, &store, &err) != RMQ_OK) {
        fprintf(stderr, "open: %s\n", rmq_error_message(err));
        atomic_store(&shared->failed, true);
        _exit(1);
    }
    struct crash_work *work = crash_work_start(store, shared, sync);
    atomic_store(&shared->opened, true);
    while (!atomic_load(&shared->close)) {
        usleep(200);
    }
    crash_work_stop(work);
    rq_store_close(store);
    _exit(0);
}

static bool wait_opened(const struct crash_round *round)
{
    int64_t deadline = rq_mono_ms() + OPEN_MS_MAX;
    while (!atomic_load(&round->shared->opened)) {
        if (rq_mono_ms() > deadline || atomic_load(&round->shared->failed)) {
            return false;
        }
        usleep(100);
    }
    return true;
}

bool crash_kill(struct crash_round *round, bool sync)
{
    struct crash_shared *shared = round->shared;
    uint64_t kind = crash_random(&round->random) % 8;
    atomic_store(&shared->opened, false);
    atomic_store(&shared->close, false);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return false;
    }
    if (child == 0) {
        live(round, sync);
    }
    bool good = true;
    if (kind == 0) { /* perhaps before the store is open */
        usleep((useconds_t)(crash_random(&round->random) % OPEN_US));
    } else {
        good = wait_opened(round);
        usleep((useconds_t)(crash_random(&round->random) % WORK_US));
        if (kind == 1) { /* while it is closed */
            atomic_store(&shared->close, true);
            usleep((useconds_t)(crash_random(&round->random) % OPEN_US));
        }
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (!good || atomic_load(&shared->failed)) {
        fprintf(stderr, "the writing process failed by itself\n");
        return false;
    }
    int64_t least[CRASH_WRITERS];
    for (int i = 0; i < CRASH_WRITERS; i++) {
        least[i] = atomic_load(&shared->acknowledged[i]);
    }
    return crash_check_dir(round->dir, sync, least);
}
