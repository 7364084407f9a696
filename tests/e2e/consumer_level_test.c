/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * "Later" by level: each of the 18 levels has its time, whether a consumer asked for it or the
 * message was sent with it, and what failed sixteen times is a dead letter with all that it was
 * sent with. The broker has a level table of its own (messageDelayLevel), since the last levels are
 * hours; one elsewhere must have the table of the case, so only the first case runs there.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define LEVELS 18
/* Messages: those that a consumer asks for again, then those sent with a level. */
#define ALL (2 * LEVELS)

/* Neighbours differ, so that a level taken for another one shows. */
static const char table[] = "1s 3s 2s 1s 3s 2s 1s 3s 2s 1s 3s 2s 1s 3s 2s 1s 3s 2s";
static const int64_t table_ms[] = {1000, 3000, 2000};

static struct late {
    /* When the listener asked for it again, or it was sent with a level; 0 = it has not. By the wall
     * clock, as the broker's delays are: when that is set ahead, nothing looks early. */
    atomic_llong asked_ms;
    atomic_llong after_ms; /* how long that took; 0 = it has not come */
} late[ALL];

static rmq_consume_result ask_by_level(const rmq_message_view *const *messages, size_t count,
                                       rmq_consume_context *context, void *user)
{
    int n = atoi(rmq_message_view_property(messages[0], "n"));
    (void)count;
    (void)user;
    if (n >= LEVELS || rmq_message_view_reconsume_times(messages[0]) > 0) {
        atomic_store(&late[n].after_ms, tl_wall_ms() - atomic_load(&late[n].asked_ms));
        return RMQ_CONSUME_SUCCESS;
    }
    atomic_store(&late[n].asked_ms, tl_wall_ms());
    rmq_consume_context_set_delay_level(context, n + 1);
    return RMQ_RECONSUME_LATER;
}

static void send_with_level(const struct tl_cluster *cluster, rmq_producer *producer, int n)
{
    char number[16];
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    snprintf(number, sizeof number, "%d", n);
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_set_property(message, "n", number));
    TL_OK(rmq_message_copy_body(message, number, strlen(number)));
    TL_OK(rmq_message_set_delay_level(message, n % LEVELS + 1));
    atomic_store(&late[n].asked_ms, tl_wall_ms());
    TL_OK(rmq_producer_send(producer, message, 10000, NULL, &err));
    rmq_message_destroy(message);
}

static bool all_came(void *arg)
{
    (void)arg;
    for (int i = 0; i < ALL; i++) {
        if (atomic_load(&late[i].after_ms) == 0) {
            return false;
        }
    }
    return true;
}

#define ROUNDS  3
#define LATE_MS 1000

/* All of them once, and how late each came; never before its time. */
static void measure(const struct tl_cluster *cluster, rmq_producer *producer, int64_t late_ms[ALL])
{
    for (int i = 0; i < ALL; i++) {
        atomic_store(&late[i].after_ms, 0);
    }
    tl_send(cluster, producer, "m", 0, LEVELS);
    for (int n = LEVELS; n < ALL; n++) {
        send_with_level(cluster, producer, n);
    }
    TL_CHECK(tl_wait(all_came, NULL, 25000));
    for (int i = 0; i < ALL; i++) {
        late_ms[i] = atomic_load(&late[i].after_ms) - table_ms[i % 3];
        TL_CHECK(late_ms[i] >= -2); /* two that round */
    }
}

/* Keeps the better ones; returns the largest of them. */
static int64_t keep_best(int64_t best[ALL], const int64_t late_ms[ALL])
{
    int64_t latest = 0;
    for (int i = 0; i < ALL; i++) {
        best[i] = late_ms[i] < best[i] ? late_ms[i] : best[i];
        latest = best[i] > latest ? best[i] : latest;
    }
    return latest;
}

/* Within a second of its time, too. A machine or a disk that stands still for a while makes a
 * round late, which says nothing of a level: it has three. */
static void each_of_the_18_levels_has_its_time_within_a_second_and_none_comes_before(void)
{
    static const char *const options[] = {"messageDelayLevel", table, NULL};
    int64_t best[ALL];
    int64_t late_ms[ALL];
    int64_t latest = LATE_MS;
    struct tl_cluster cluster;
    tl_cluster_start_with(&cluster, 4, options);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", ask_by_level, NULL);
    for (int i = 0; i < ALL; i++) {
        best[i] = INT64_MAX;
    }
    for (int round = 1; round <= ROUNDS && latest >= LATE_MS; round++) {
        measure(&cluster, producer, late_ms);
        latest = keep_best(best, late_ms);
        printf("18 levels, asked for and sent with, at most %lld ms late in round %d\n",
               (long long)latest, round);
    }
    TL_CHECK(getenv("TL_SLACK") != NULL || latest < LATE_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static atomic_int failures[LEVELS]; /* by reconsume times */
static char first_id[64];

static rmq_consume_result always_fail(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    int times = rmq_message_view_reconsume_times(messages[0]);
    (void)count;
    (void)context;
    (void)user;
    if (times == 0) {
        snprintf(first_id, sizeof first_id, "%s", rmq_message_view_offset_id(messages[0]));
    }
    atomic_fetch_add(&failures[times < LEVELS ? times : LEVELS - 1], 1);
    return RMQ_RECONSUME_LATER;
}

static struct tl_seen letters;

/* All that it was sent with, and where it came from. */
static rmq_consume_result note_letter(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    const rmq_message_view *view = messages[0];
    size_t size = 0;
    const char *body = rmq_message_view_body(view, &size);
    TL_CHECK(size == 3 && memcmp(body, "m-0", 3) == 0);
    TL_CHECK(strcmp(rmq_message_view_keys(view), "k-0") == 0);
    TL_CHECK(strcmp(rmq_message_view_property(view, "RETRY_TOPIC"), user) == 0);
    TL_CHECK(strcmp(rmq_message_view_property(view, "ORIGIN_MESSAGE_ID"), first_id) == 0);
    TL_EQUAL(rmq_message_view_reconsume_times(view), 17);
    return tl_seen_listener(messages, count, context, &letters);
}

static bool has_failed_at_last(void *arg)
{
    (void)arg;
    return atomic_load(&failures[16]) > 0;
}

static void sixteen_times_later_end_in_the_dead_letters_with_the_properties_of_the_message(void)
{
    static const char *const options[] = {
        "messageDelayLevel", "0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s", NULL};
    struct tl_cluster cluster;
    tl_cluster_start_with(&cluster, 1, options);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", always_fail, NULL);
    TL_CHECK(tl_wait(has_failed_at_last, NULL, 20000));
    /* the letter is on its way or sent: this waits for it, so its topic exists */
    rmq_consumer_destroy(consumer);
    struct tl_cluster dead = cluster;
    snprintf(dead.topic, sizeof dead.topic, "%%DLQ%%%.50s", cluster.group);
    snprintf(dead.group, sizeof dead.group, "letters");
    consumer = tl_consumer(&dead, "*", note_letter, cluster.topic);
    tl_seen_wait(&letters, 1, 15000);
    rmq_consumer_destroy(consumer);
    for (int times = 0; times <= 16; times++) {
        TL_EQUAL(atomic_load(&failures[times]), 1);
    }
    TL_EQUAL(atomic_load(&failures[17]), 0);
    TL_EQUAL(atomic_load(&letters.total), 1);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"each_of_the_18_levels_has_its_time_within_a_second_and_none_comes_before",
         each_of_the_18_levels_has_its_time_within_a_second_and_none_comes_before, 100},
        TL_CASE(sixteen_times_later_end_in_the_dead_letters_with_the_properties_of_the_message),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
