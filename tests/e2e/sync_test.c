/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What is really synced, seen below the libraries: a send that was acknowledged under synchronous
 * flush was written before, also after a start that recovered; and what senders are told when the
 * system's sync fails. The calls are those of tests/lib/preload/sync.c.
 */
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

#define SERVICE_NOT_AVAILABLE 14
#define WAIT_MS               20000

static struct tl_sync *state;

static void start_on(struct tl_cluster *cluster, const char *dir)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    memset(cluster, 0, sizeof *cluster);
    snprintf(cluster->topic, sizeof cluster->topic, "Sync");
    snprintf(cluster->group, sizeof cluster->group, "sync-readers");
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", dir, &err));
    TL_OK(rmq_broker_config_set(config, "flushDiskType", "SYNC_FLUSH", &err));
    TL_OK(rmq_broker_start(config, &cluster->broker, &err));
    rmq_broker_config_destroy(config);
    TL_OK(rmq_broker_create_topic(cluster->broker, cluster->topic, 1, &err));
    snprintf(cluster->namesrv, sizeof cluster->namesrv, "%s",
             rmq_broker_namesrv_addr(cluster->broker));
}

static void begin(char dir[32])
{
    atomic_store(&state->error, EIO);
    atomic_store(&state->good_calls, INT64_MAX);
    snprintf(dir, 32, "/tmp/rmq-sync-XXXXXX");
    TL_CHECK(mkdtemp(dir) != NULL);
}

static void end(const char *dir)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s %s-cut", dir, dir);
    TL_EQUAL(system(command), 0);
}

/* Up to which byte the first commit-log file below dir was synced, according to the record; -1
 * never. *from: the lowest byte of it. */
static long synced_upto(const char *dir, long *from)
{
    char path[200];
    char line[4096];
    long upto = -1;
    *from = -1;
    snprintf(path, sizeof path, "%s/commitlog/00000000000000000000 ", dir);
    FILE *record = fopen(getenv("TL_SYNC_LOG"), "r");
    TL_CHECK(record != NULL);
    while (fgets(line, sizeof line, record)) {
        unsigned long a;
        unsigned long b;
        if (strncmp(line, path, strlen(path)) == 0 &&
            sscanf(line + strlen(path), "%lu %lu", &a, &b) == 2 && b > 0) {
            upto = (long)b > upto ? (long)b : upto;
            *from = *from < 0 || (long)a < *from ? (long)a : *from;
        }
    }
    fclose(record);
    return upto;
}

/* Commit-log offset of an offset message id: its last 16 digits. */
static long log_offset(const rmq_send_result *result)
{
    const char *id = rmq_send_result_offset_msg_id(result);
    size_t n = strlen(id);
    TL_CHECK(n >= 16);
    return strtol(id + n - 16, NULL, 16);
}

static rmq_status send_one(const struct tl_cluster *cluster, rmq_producer *producer, int n,
                           long *offset, rmq_error **err)
{
    rmq_message *message = NULL;
    rmq_send_result *result = NULL;
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    rmq_status st = rmq_message_create(cluster->topic, &message, err);
    st = st == RMQ_OK ? rmq_message_set_property(message, "n", number) : st;
    st = st == RMQ_OK ? rmq_message_copy_body(message, number, strlen(number)) : st;
    st = st == RMQ_OK ? rmq_producer_send(producer, message, WAIT_MS, &result, err) : st;
    if (st == RMQ_OK) {
        *offset = log_offset(result);
    }
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
    return st;
}

static rmq_producer *one_try_producer(const struct tl_cluster *cluster)
{
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    tl_producer_options_init(&options);
    options.producer_group = "sync-writers";
    options.namesrv_addr = cluster->namesrv;
    options.retry_times_when_send_failed = 0;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static void what_is_acknowledged_was_synced_before(void)
{
    struct tl_cluster cluster;
    char dir[32];
    rmq_error *err = NULL;
    begin(dir);
    start_on(&cluster, dir);
    rmq_producer *producer = one_try_producer(&cluster);
    for (int n = 0; n < 50; n++) {
        long from;
        long offset = -1;
        TL_OK(send_one(&cluster, producer, n, &offset, &err));
        TL_CHECK(synced_upto(dir, &from) > offset);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    end(dir);
}

static void what_a_start_recovers_is_synced_before_others_are_acknowledged_behind_it(void)
{
    struct tl_cluster cluster;
    struct tl_cluster after;
    char dir[32];
    char cut[40];
    rmq_error *err = NULL;
    long offset = -1;
    long from = -1;
    begin(dir);
    snprintf(cut, sizeof cut, "%s-cut", dir);
    start_on(&cluster, dir);
    rmq_producer *producer = one_try_producer(&cluster);
    TL_OK(rmq_broker_fault_record_power(cluster.broker, &err));
    for (int n = 0; n < 20; n++) {
        TL_OK(send_one(&cluster, producer, n, &offset, &err));
    }
    /* copied: nothing of it is known to be on disk */
    TL_OK(rmq_broker_fault_power_cut(cluster.broker, cut, 0, &err));
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    start_on(&after, cut);
    producer = one_try_producer(&after);
    TL_OK(send_one(&after, producer, 20, &offset, &err));
    TL_CHECK(synced_upto(cut, &from) > offset);
    TL_EQUAL(from, 0);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&after);
    end(dir);
}

struct attempt {
    const struct tl_cluster *cluster;
    rmq_producer *producer;
    int n;
};

static bool is_taken(void *arg)
{
    const struct attempt *attempt = arg;
    long offset;
    return send_one(attempt->cluster, attempt->producer, attempt->n, &offset, NULL) == RMQ_OK;
}

static void when_the_systems_sync_fails_no_send_is_acknowledged_and_nothing_is_shown(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    char dir[32];
    rmq_error *err = NULL;
    long offset = -1;
    begin(dir);
    start_on(&cluster, dir);
    rmq_producer *producer = one_try_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_OK(send_one(&cluster, producer, 0, &offset, &err));
    tl_seen_wait(&seen, 1, WAIT_MS);
    atomic_store(&state->good_calls, 0);
    for (int n = 1; n < 5; n++) {
        rmq_status st = send_one(&cluster, producer, n, &offset, &err);
        TL_CHECK(st != RMQ_OK && err != NULL);
        TL_EQUAL(rmq_error_remote_code(err), SERVICE_NOT_AVAILABLE);
        TL_CHECK(strstr(rmq_error_message(err), strerror(EIO)) != NULL);
        rmq_error_destroy(err);
        err = NULL;
    }
    TL_EQUAL(atomic_load(&seen.different), 1);
    atomic_store(&state->good_calls, INT64_MAX);
    struct attempt attempt = {&cluster, producer, 5};
    TL_CHECK(tl_wait(is_taken, &attempt, WAIT_MS));
    /* message 1 was stored and is on disk now; 2 to 4 were refused */
    tl_seen_wait(&seen, 3, WAIT_MS);
    TL_EQUAL(atomic_load(&seen.times[5]), 1);
    TL_EQUAL(atomic_load(&seen.times[3]), 0);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    end(dir);
}

static const struct tl_case cases[] = {
    TL_CASE(what_is_acknowledged_was_synced_before),
    TL_CASE(what_a_start_recovers_is_synced_before_others_are_acknowledged_behind_it),
    TL_CASE(when_the_systems_sync_fails_no_send_is_acknowledged_and_nothing_is_shown),
};

int main(int argc, char **argv)
{
    char record[64];
    /* the same process after exec */
    snprintf(record, sizeof record, "/tmp/rmq-sync-log-%d", (int)getpid());
    setenv("TL_SYNC_LOG", record, 1);
    state = tl_preload(argv, "sync", "TL_SYNC_FILE", sizeof *state);
    if (!state) {
        return 77;
    }
    int rc = tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    unlink(record);
    return rc;
}
