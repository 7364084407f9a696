/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A broker on a machine whose pages have 65536 bytes: that of tests/lib/preload/page.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/preload.h"
#include "lib/usage.h"

#define MESSAGES 450 /* more than one file of the log, and than 8192 bytes of a queue */
#define WAIT_MS  20000

static struct tl_page *state;

static void start_on(struct tl_cluster *cluster, const char *dir, const char *flush)
{
    const char *const options[] = {"storePathRootDir",
                                   dir,
                                   "flushDiskType",
                                   flush,
                                   "mappedFileSizeCommitLog",
                                   "65536",
                                   "maxHashSlotNum",
                                   "1000",
                                   "maxIndexNum",
                                   "4000",
                                   "warmMapedFileEnable",
                                   "true",
                                   "flushLeastPagesWhenWarmMapedFile",
                                   "3",
                                   "flushIntervalCommitLog",
                                   "10",
                                   NULL};
    tl_cluster_start_with(cluster, 1, options);
    tl_cluster_needs_own(cluster);
}

struct attempt {
    rmq_producer *producer;
    const char *topic;
};

static bool is_taken(void *arg)
{
    const struct attempt *attempt = arg;
    rmq_message *message = tl_message(attempt->topic, "x", 1);
    rmq_status st = rmq_producer_send(attempt->producer, message, WAIT_MS, NULL, NULL);
    rmq_message_destroy(message);
    return st == RMQ_OK;
}

/* What could not be synced is synced later. */
static void fail_a_sync(const struct tl_cluster *cluster, rmq_producer *producer)
{
    rmq_error *err = NULL;
    struct attempt attempt = {.producer = producer, .topic = cluster->topic};
    TL_OK(rmq_broker_fault_disk(cluster->broker, RMQ_DISK_SYNC, 1, 1, EIO, &err));
    TL_CHECK(tl_wait(is_taken, &attempt, WAIT_MS));
}

static void store_and_start_again(const char *parent, const char *flush)
{
    struct tl_cluster cluster;
    struct tl_cluster after;
    char dir[64];
    char command[100];
    snprintf(dir, sizeof dir, "%s/rmq-page-XXXXXX", parent);
    TL_CHECK(mkdtemp(dir) != NULL);
    start_on(&cluster, dir, flush);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, MESSAGES);
    if (strcmp(flush, "SYNC_FLUSH") == 0) {
        fail_a_sync(&cluster, producer);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    start_on(&after, dir, flush);
    TL_CHECK(tl_stored(after.namesrv, cluster.topic) >= MESSAGES);
    tl_cluster_stop(&after);
    TL_EQUAL(atomic_load(&state->refused), 0);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    TL_EQUAL(system(command), 0);
}

static void messages_are_synced_and_kept_with_large_pages(void)
{
    store_and_start_again("/tmp", "SYNC_FLUSH");
    store_and_start_again("/tmp", "ASYNC_FLUSH");
}

static void messages_are_kept_on_tmpfs_with_large_pages(void)
{
    if (access("/dev/shm", W_OK) == 0) {
        store_and_start_again("/dev/shm", "SYNC_FLUSH");
        store_and_start_again("/dev/shm", "ASYNC_FLUSH");
    }
}

static const struct tl_case cases[] = {
    TL_CASE(messages_are_synced_and_kept_with_large_pages),
    TL_CASE(messages_are_kept_on_tmpfs_with_large_pages),
};

int main(int argc, char **argv)
{
    state = tl_preload(argv, "page", "TL_PAGE_FILE", sizeof *state);
    return state ? tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]) : 77;
}
