/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The wall clock jumps, ahead and back, while client and broker work: nothing waits for it, nothing
 * is lost, times in the store do not go down. The clock is that of tests/lib/preload/clock.c.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/preload.h"
#include "lib/usage.h"

#define HOUR_MS ((int64_t)3600000)
#define WAIT_MS 20000

static void *clock_shared;

static rmq_message *make(const struct tl_cluster *cluster, int n, const char *tag)
{
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_set_property(message, "n", number));
    TL_OK(rmq_message_copy_body(message, number, strlen(number)));
    if (tag) {
        TL_OK(rmq_message_set_tag(message, tag));
    }
    return message;
}

static void the_clock_is_the_tests(void)
{
    tl_clock_shift(clock_shared, 0);
    int64_t before = tl_wall_ms();
    tl_clock_shift(clock_shared, 2 * HOUR_MS);
    TL_CHECK(tl_wall_ms() - before >= 2 * HOUR_MS);
    TL_CHECK(time(NULL) - before / 1000 >= 2 * 3600);
    tl_clock_shift(clock_shared, -24 * HOUR_MS - 1);
    TL_CHECK(tl_wall_ms() < before - 23 * HOUR_MS);
}

static void sending_and_consuming_go_on_through_every_jump(void)
{
    tl_clock_shift(clock_shared, 0);
    static struct tl_seen seen;
    static const int64_t shifts[] = {2 * HOUR_MS, -24 * HOUR_MS, 24 * 40 * HOUR_MS, 0};
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 0, 50);
    tl_seen_wait(&seen, 50, WAIT_MS);
    for (int i = 0; i < 4; i++) {
        tl_clock_shift(clock_shared, shifts[i]);
        tl_send(&cluster, producer, "m", 50 + i * 50, 50); /* each within its own deadline */
        tl_seen_wait(&seen, 100 + i * 50, WAIT_MS);
    }
    /* the group was not taken for dead and shared out anew */
    TL_EQUAL(atomic_load(&seen.total), 250);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void delayed_messages_are_delivered_whatever_the_clock_does_meanwhile(void)
{
    tl_clock_shift(clock_shared, 0);
    static struct tl_seen seen;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    static const int64_t shifts[] = {0, 2 * HOUR_MS, -2 * HOUR_MS};
    for (int n = 0; n < 6; n++) { /* half before each jump, half after it */
        rmq_message *message = make(&cluster, n, NULL);
        TL_OK(rmq_message_set_delay_level(message, 1));
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
        rmq_message_destroy(message);
        if (n % 2 == 0) {
            tl_clock_shift(clock_shared, shifts[n / 2]);
        }
    }
    tl_seen_wait(&seen, 6, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

enum { IDS = 100000, ID_ROOM = 48, BATCH = 500 };

/* Sends a batch and copies its ids. */
static void take_ids(rmq_producer *producer, rmq_message *const messages[BATCH], char *ids)
{
    rmq_send_result *result = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_producer_send_batch(producer, (const rmq_message *const *)messages, BATCH, WAIT_MS,
                                  &result, &err));
    const char *id = rmq_send_result_msg_id(result);
    for (int i = 0; i < BATCH; i++) {
        size_t n = strcspn(id, ",");
        TL_CHECK(n > 0 && n < ID_ROOM);
        memcpy(ids + (size_t)i * ID_ROOM, id, n);
        id += n + (id[n] == ',');
    }
    rmq_send_result_destroy(result);
}

static void a_hundred_thousand_ids_are_different_while_the_clock_jumps(void)
{
    tl_clock_shift(clock_shared, 0);
    struct tl_cluster cluster;
    rmq_message *messages[BATCH];
    char *ids = calloc(IDS, ID_ROOM);
    TL_CHECK(ids != NULL);
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    for (int done = 0; done < IDS; done += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            messages[i] = make(&cluster, 1, NULL);
        }
        tl_clock_shift(clock_shared, (done / BATCH / 10 % 3 - 1) * 5 * HOUR_MS);
        take_ids(producer, messages, ids + (size_t)done * ID_ROOM);
        for (int i = 0; i < BATCH; i++) {
            rmq_message_destroy(messages[i]);
        }
    }
    qsort(ids, IDS, ID_ROOM, compare_ids);
    for (int i = 1; i < IDS; i++) {
        TL_CHECK(strcmp(ids + (size_t)(i - 1) * ID_ROOM, ids + (size_t)i * ID_ROOM) != 0);
    }
    free(ids);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct times {
    struct tl_seen seen;
    _Atomic int64_t last;
    _Atomic int went_back;
};

static rmq_consume_result note_times(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    struct times *times = user;
    (void)context;
    for (size_t i = 0; i < count; i++) {
        int64_t at = rmq_message_view_store_timestamp_ms(messages[i]);
        if (at < atomic_load(&times->last)) {
            atomic_fetch_add(&times->went_back, 1);
        }
        atomic_store(&times->last, at);
        tl_seen_add(&times->seen, messages[i]);
    }
    return RMQ_CONSUME_SUCCESS;
}

static rmq_consumer *one_thread_consumer(const struct tl_cluster *cluster, struct times *times)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.consume_thread_nums = 1;
    options.listener = note_times;
    options.listener_user = times;
    return tl_consumer_start(cluster, &options);
}

static void start_on(struct tl_cluster *cluster, const char *dir)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    memset(cluster, 0, sizeof *cluster);
    snprintf(cluster->topic, sizeof cluster->topic, "Clock");
    snprintf(cluster->group, sizeof cluster->group, "clock-readers");
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", dir, &err));
    TL_OK(rmq_broker_start(config, &cluster->broker, &err));
    rmq_broker_config_destroy(config);
    TL_OK(rmq_broker_create_topic(cluster->broker, cluster->topic, 1, &err));
    snprintf(cluster->namesrv, sizeof cluster->namesrv, "%s",
             rmq_broker_namesrv_addr(cluster->broker));
}

static int64_t offset_at(const struct tl_cluster *cluster, int64_t time_ms)
{
    rmq_admin *admin = NULL;
    rmq_error *err = NULL;
    int64_t offset = -1;
    TL_OK(rmq_admin_create(cluster->namesrv, &admin, &err));
    TL_OK(rmq_admin_search_offset(admin, cluster->topic, "broker-a", 0, time_ms, WAIT_MS, &offset,
                                  &err));
    rmq_admin_destroy(admin);
    return offset;
}

static void a_clock_set_back_two_hours_leaves_times_in_order_and_the_store_starts_again(void)
{
    tl_clock_shift(clock_shared, 0);
    static struct times times;
    struct tl_cluster cluster;
    char dir[] = "/tmp/rmq-clock-XXXXXX";
    char cut[64];
    char command[128];
    rmq_error *err = NULL;
    TL_CHECK(mkdtemp(dir) != NULL);
    int64_t start = tl_wall_ms();
    start_on(&cluster, dir);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 20);
    tl_clock_shift(clock_shared, -2 * HOUR_MS);
    tl_send(&cluster, producer, "m", 20, 20);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    start_on(&cluster, dir); /* after a stop, the clock still back */
    producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 40, 20);
    TL_OK(rmq_broker_fault_record_power(cluster.broker, &err));
    rmq_producer_destroy(producer);
    snprintf(cut, sizeof cut, "%s-cut", dir);
    TL_OK(rmq_broker_fault_power_cut(cluster.broker, cut, 0, &err));
    tl_cluster_stop(&cluster);
    start_on(&cluster, cut); /* and after a crash */
    producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 60, 20);
    rmq_consumer *consumer = one_thread_consumer(&cluster, &times);
    tl_seen_wait(&times.seen, 80, WAIT_MS);
    TL_EQUAL(atomic_load(&times.went_back), 0);
    TL_CHECK(atomic_load(&times.last) >= start);
    TL_EQUAL(offset_at(&cluster, start - HOUR_MS), 0);
    TL_EQUAL(offset_at(&cluster, start + HOUR_MS), 80);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    snprintf(command, sizeof command, "rm -rf %s %s", dir, cut);
    TL_EQUAL(system(command), 0);
}

static void a_new_subscription_counts_although_the_clock_was_set_back(void)
{
    tl_clock_shift(clock_shared, 0);
    static struct tl_seen seen;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "a", tl_seen_listener, &seen);
    for (int n = 0; n < 20; n++) {
        if (n == 10) {
            tl_seen_wait(&seen, 10, WAIT_MS);
            tl_clock_shift(clock_shared, -2 * HOUR_MS);
            TL_OK(rmq_consumer_subscribe(consumer, cluster.topic, "b", &err));
        }
        rmq_message *message = make(&cluster, n, n < 10 ? "a" : "b");
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
        rmq_message_destroy(message);
    }
    tl_seen_wait(&seen, 20, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static const struct tl_case cases[] = {
    TL_CASE(the_clock_is_the_tests),
    TL_CASE(sending_and_consuming_go_on_through_every_jump),
    TL_CASE(delayed_messages_are_delivered_whatever_the_clock_does_meanwhile),
    TL_CASE(a_hundred_thousand_ids_are_different_while_the_clock_jumps),
    TL_CASE(a_clock_set_back_two_hours_leaves_times_in_order_and_the_store_starts_again),
    TL_CASE(a_new_subscription_counts_although_the_clock_was_set_back),
};

int main(int argc, char **argv)
{
    clock_shared = tl_preload(argv, "clock", "TL_CLOCK_FILE", sizeof(int64_t));
    return clock_shared ? tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]) : 77;
}
