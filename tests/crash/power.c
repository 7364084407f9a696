/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Power cuts: images of what the disk could hold, taken while the writers go on, each opened and
 * checked. Synchronous flush. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "crash/crash.h"
#include "store/disk.h"

#define IMAGES   10 /* of one life of the store */
#define PAUSE_US 8000

/* The store that the images are taken of lives for several rounds. */
static struct {
    struct rq_store *store;
    struct crash_work *work;
} now;

static bool begin(struct crash_round *round)
{
    struct rq_store_options options;
    rmq_error *err = NULL;
    crash_options(&options, round->dir, true);
    if (rq_store_open(&options, &now.store, &err) != RMQ_OK ||
        rq_store_record_power(now.store, &err) != RMQ_OK) {
        fprintf(stderr, "open: %s\n", rmq_error_message(err));
        rmq_error_destroy(err);
        return false;
    }
    now.work = crash_work_start(now.store, round->shared, true);
    return true;
}

void crash_power_end(struct crash_round *round)
{
    if (!now.store) {
        return;
    }
    crash_work_stop(now.work);
    rq_store_close(now.store);
    rq_sys_rmtree(round->dir);
    memset(&now, 0, sizeof now);
    for (int i = 0; i < CRASH_WRITERS; i++) {
        atomic_store(&round->shared->acknowledged[i], 0);
    }
}

bool crash_power(struct crash_round *round)
{
    char image[4096];
    int64_t least[CRASH_WRITERS];
    rmq_error *err = NULL;
    snprintf(image, sizeof image, "%s.image", round->dir);
    if (!now.store && !begin(round)) {
        return false;
    }
    usleep((useconds_t)(crash_random(&round->random) % PAUSE_US));
    for (int i = 0; i < CRASH_WRITERS; i++) {
        least[i] = atomic_load(&round->shared->acknowledged[i]);
    }
    bool good = rq_disk_image(rq_store_disk(now.store), image,
                              crash_random(&round->random) % 8 ? crash_random(&round->random) : 0,
                              &err) == RMQ_OK;
    if (!good) {
        fprintf(stderr, "image: %s\n", rmq_error_message(err));
        rmq_error_destroy(err);
    }
    good = good && crash_check_dir(image, true, least) && !atomic_load(&round->shared->failed);
    if (good) {
        rq_sys_rmtree(image);
        if (round->number % IMAGES == IMAGES - 1) {
            crash_power_end(round);
        }
    }
    return good;
}
