/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A disk that fails below the broker: what senders are told, what consumers see, and that both go
 * on by themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define SERVICE_NOT_AVAILABLE 14
#define WAIT_MS               20000

/* A broker with options "key", "value", …, NULL, as a cluster. */
static void start_with(struct tl_cluster *cluster, const char *const *pairs)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    const char *elsewhere = getenv("RMQ_NAMESRV");
    if (elsewhere != NULL && elsewhere[0] != '\0') {
        tl_skip("the broker at %s is not in this process", elsewhere);
    }
    memset(cluster, 0, sizeof *cluster);
    snprintf(cluster->topic, sizeof cluster->topic, "Disk");
    snprintf(cluster->group, sizeof cluster->group, "disk-readers");
    TL_OK(rmq_broker_config_create(&config, &err));
    for (; *pairs; pairs += 2) {
        TL_OK(rmq_broker_config_set(config, pairs[0], pairs[1], &err));
    }
    TL_OK(rmq_broker_start(config, &cluster->broker, &err));
    rmq_broker_config_destroy(config);
    TL_OK(rmq_broker_create_topic(cluster->broker, cluster->topic, 1, &err));
    snprintf(cluster->namesrv, sizeof cluster->namesrv, "%s",
             rmq_broker_namesrv_addr(cluster->broker));
}

/* One attempt to send message n. The error, if any, is the caller's. */
static rmq_status send_one(const struct tl_cluster *cluster, rmq_producer *producer, int n,
                           rmq_error **err)
{
    rmq_message *message = NULL;
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    rmq_status st = rmq_message_create(cluster->topic, &message, err);
    if (st == RMQ_OK) {
        st = rmq_message_set_property(message, "n", number);
    }
    if (st == RMQ_OK) {
        st = rmq_message_copy_body(message, number, strlen(number));
    }
    if (st == RMQ_OK) {
        st = rmq_producer_send(producer, message, 0, NULL, err);
    }
    rmq_message_destroy(message);
    return st;
}

static rmq_producer *one_try_producer(const struct tl_cluster *cluster)
{
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    tl_producer_options_init(&options);
    options.producer_group = "disk-writers";
    options.namesrv_addr = cluster->namesrv;
    options.retry_times_when_send_failed = 0;
    options.send_msg_timeout_ms = 10000;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static void check_refusal(rmq_status st, rmq_error *err, const char *reason)
{
    TL_CHECK(st != RMQ_OK);
    TL_CHECK(err != NULL);
    if (rmq_error_remote_code(err) != SERVICE_NOT_AVAILABLE ||
        strstr(rmq_error_message(err), reason) == NULL) {
        tl_fail(__FILE__, __LINE__, "code %d, %s", rmq_error_remote_code(err),
                rmq_error_message(err));
    }
    rmq_error_destroy(err);
}

/* Sends message n until it is taken. */
struct attempt {
    const struct tl_cluster *cluster;
    rmq_producer *producer;
    int n;
};

static bool is_taken(void *arg)
{
    const struct attempt *attempt = arg;
    return send_one(attempt->cluster, attempt->producer, attempt->n, NULL) == RMQ_OK;
}

static void a_failed_sync_gives_no_ok_and_shows_nothing_until_the_disk_works_again(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    start_with(&cluster, (const char *const[]){"flushDiskType", "SYNC_FLUSH", NULL});
    rmq_producer *producer = one_try_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_OK(send_one(&cluster, producer, 0, &err));
    tl_seen_wait(&seen, 1, WAIT_MS);
    TL_OK(rmq_broker_fault_disk(cluster.broker, RMQ_DISK_SYNC, 1, -1, EIO, &err));
    rmq_status st = send_one(&cluster, producer, 1, &err);
    TL_CHECK(rmq_error_maybe_stored(err));
    check_refusal(st, err, strerror(EIO)); /* its flush failed */
    err = NULL;
    st = send_one(&cluster, producer, 2, &err);
    TL_CHECK(!rmq_error_maybe_stored(err));
    check_refusal(st, err, strerror(EIO)); /* refused at once, with the reason */
    err = NULL;
    TL_EQUAL(atomic_load(&seen.different), 1);
    rmq_broker_fault_clear(cluster.broker);
    struct attempt attempt = {&cluster, producer, 3};
    TL_CHECK(tl_wait(is_taken, &attempt, WAIT_MS));
    tl_seen_wait(&seen, 3, WAIT_MS); /* with message 1, which is on disk now, too */
    TL_EQUAL(atomic_load(&seen.times[1]), 1);
    TL_EQUAL(atomic_load(&seen.times[2]), 0);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_full_disk_gives_code_14_with_the_reason_and_writing_resumes_by_itself(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_status st = RMQ_OK;
    int stored = 0;
    start_with(&cluster, (const char *const[]){"mappedFileSizeCommitLog", "65536", "maxMessageSize",
                                               "60000", NULL});
    rmq_producer *producer = one_try_producer(&cluster);
    TL_OK(send_one(&cluster, producer, stored++, &err));
    TL_OK(rmq_broker_fault_disk(cluster.broker, RMQ_DISK_ALLOCATE, 1, -1, ENOSPC, &err));
    while ((st = send_one(&cluster, producer, stored, &err)) == RMQ_OK) {
        TL_CHECK(++stored < 2000);
    }
    check_refusal(st, err, "disk full");
    err = NULL;
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, stored, WAIT_MS); /* reading goes on */
    rmq_broker_fault_clear(cluster.broker);
    struct attempt attempt = {&cluster, producer, stored};
    TL_CHECK(tl_wait(is_taken, &attempt, 10000));
    tl_seen_wait(&seen, stored + 1, WAIT_MS);
    TL_EQUAL(atomic_load(&seen.total), stored + 1); /* no half message, none twice */
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* A file that takes what is left of a file system, but for so many bytes. */
static void fill(const char *path, off_t leave)
{
    static char block[65536];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    TL_CHECK(fd >= 0);
    off_t n = 0;
    ssize_t done;
    while ((done = write(fd, block, sizeof block)) > 0) {
        n += done;
    }
    TL_EQUAL(ftruncate(fd, n > leave ? n - leave : 0), 0);
    close(fd);
}

static void on_a_small_disk_that_fills_up_nothing_is_lost_and_nothing_crashes(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_status st = RMQ_OK;
    char dir[] = "/tmp/rmq-small-XXXXXX";
    char path[64];
    char ballast[64];
    int stored = 0;
    TL_CHECK(mkdtemp(dir) != NULL);
    /* Mounted for this process only, so that nothing stays behind. */
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", dir, "tmpfs", 0, "size=64m") < 0) {
        rmdir(dir);
        tl_skip("a small file system cannot be mounted: %s", strerror(errno));
    }
    snprintf(path, sizeof path, "%s/store", dir);
    snprintf(ballast, sizeof ballast, "%s/ballast", dir);
    const char *const options[] = {"storePathRootDir",
                                   path,
                                   "mappedFileSizeCommitLog",
                                   "1048576",
                                   "maxHashSlotNum",
                                   "1000",
                                   "maxIndexNum",
                                   "20000",
                                   "cleanResourceInterval",
                                   "3600000",
                                   NULL};
    start_with(&cluster, options);
    rmq_producer *producer = one_try_producer(&cluster);
    TL_OK(send_one(&cluster, producer, stored++, &err));
    fill(ballast, 300000); /* the file system is all but full; retention does not look */
    while ((st = send_one(&cluster, producer, stored, &err)) == RMQ_OK) {
        TL_CHECK(++stored < TL_SEEN_MAX);
    }
    check_refusal(st, err, "disk full");
    err = NULL;
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, stored, WAIT_MS);
    TL_EQUAL(unlink(ballast), 0);
    struct attempt attempt = {&cluster, producer, stored};
    TL_CHECK(tl_wait(is_taken, &attempt, 10000));
    tl_seen_wait(&seen, stored + 1, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    start_with(&cluster, options); /* everything is there after a new start, too */
    producer = one_try_producer(&cluster);
    TL_OK(send_one(&cluster, producer, stored + 1, &err));
    snprintf(cluster.group, sizeof cluster.group, "second-readers");
    memset(&seen, 0, sizeof seen);
    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, stored + 2, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    TL_EQUAL(umount2(dir, MNT_DETACH), 0);
    rmdir(dir);
}

static void a_paused_dispatcher_acknowledges_what_consumers_see_later(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    start_with(&cluster, (const char *const[]){NULL});
    rmq_producer *producer = one_try_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_OK(send_one(&cluster, producer, 0, &err));
    tl_seen_wait(&seen, 1, WAIT_MS);
    TL_OK(rmq_broker_fault_pause_dispatch(cluster.broker, true, &err));
    for (int n = 1; n < 50; n++) {
        TL_OK(send_one(&cluster, producer, n, &err));
    }
    TL_EQUAL(atomic_load(&seen.different), 1);
    TL_OK(rmq_broker_fault_pause_dispatch(cluster.broker, false, &err));
    tl_seen_wait(&seen, 50, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void after_a_power_cut_every_acknowledged_message_is_there(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    struct tl_cluster after;
    rmq_error *err = NULL;
    char dir[] = "/tmp/rmq-cut-XXXXXX";
    char command[64];
    start_with(&cluster, (const char *const[]){"flushDiskType", "SYNC_FLUSH", NULL});
    rmq_producer *producer = one_try_producer(&cluster);
    TL_CHECK(mkdtemp(dir) != NULL);
    TL_EQUAL(rmq_broker_fault_power_cut(cluster.broker, dir, 1, NULL), RMQ_ERR_INVALID);
    TL_OK(rmq_broker_fault_record_power(cluster.broker, &err));
    for (int n = 0; n < 60; n++) {
        TL_OK(send_one(&cluster, producer, n, &err));
    }
    TL_OK(rmq_broker_fault_disk(cluster.broker, RMQ_DISK_SYNC, 1, -1, EIO, &err));
    TL_CHECK(send_one(&cluster, producer, 60, NULL) != RMQ_OK);
    TL_OK(rmq_broker_fault_power_cut(cluster.broker, dir, 0, &err));
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    start_with(&after,
               (const char *const[]){"storePathRootDir", dir, "flushDiskType", "SYNC_FLUSH", NULL});
    rmq_consumer *consumer = tl_consumer(&after, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 60, WAIT_MS);
    producer = one_try_producer(&after);
    TL_OK(send_one(&after, producer, 61, &err));
    tl_seen_wait(&seen, 61, WAIT_MS);
    TL_EQUAL(atomic_load(&seen.times[60]), 0); /* never acknowledged, never synced */
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&after);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    TL_EQUAL(system(command), 0);
}

static const struct tl_case cases[] = {
    TL_CASE(a_failed_sync_gives_no_ok_and_shows_nothing_until_the_disk_works_again),
    TL_CASE(a_full_disk_gives_code_14_with_the_reason_and_writing_resumes_by_itself),
    {"on_a_small_disk_that_fills_up_nothing_is_lost_and_nothing_crashes",
     on_a_small_disk_that_fills_up_nothing_is_lost_and_nothing_crashes, 90},
    TL_CASE(a_paused_dispatcher_acknowledges_what_consumers_see_later),
    TL_CASE(after_a_power_cut_every_acknowledged_message_is_there),
};

int main(int argc, char **argv)
{
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
