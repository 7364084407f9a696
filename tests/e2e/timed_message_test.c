/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Messages for a time: delivered then and not before, in every way of sending; taken back by their
 * handles; refused in batches. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define WAIT_MS  30000
#define EARLY_MS 1100 /* a Java broker counts in seconds, and may be early by one */
#define COUNT    20

static const char *const recalling[] = {"recallMessageEnable", "true", NULL};
static struct tl_seen seen;
static _Atomic int too_early;

static rmq_consume_result look_at_time(const rmq_message_view *const *messages, size_t count,
                                       rmq_consume_context *context, void *user)
{
    int64_t now_ms = tl_wall_ms();
    for (size_t i = 0; i < count; i++) {
        if (now_ms <
            atoll(rmq_message_view_property(messages[i], "due")) - *(const int64_t *)user) {
            atomic_fetch_add(&too_early, 1);
        }
    }
    return tl_seen_listener(messages, count, context, &seen);
}

static rmq_message *message_of(const struct tl_cluster *cluster, int n, int64_t due_ms)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    char number[32];
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    snprintf(number, sizeof number, "%d", n);
    TL_EQUAL(rmq_message_set_property(message, "n", number), RMQ_OK);
    snprintf(number, sizeof number, "%lld", (long long)due_ms);
    TL_EQUAL(rmq_message_set_property(message, "due", number), RMQ_OK);
    TL_EQUAL(rmq_message_copy_body(message, "timed", 5), RMQ_OK);
    return message;
}

static void messages_come_at_their_time_and_not_before(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    int64_t early_ms = cluster.broker ? 0 : EARLY_MS;
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", look_at_time, &early_ms);
    for (int n = 0; n < COUNT; n++) {
        rmq_send_result *result = NULL;
        int64_t due_ms = tl_wall_ms() + 500 + 50 * n;
        rmq_message *message = message_of(&cluster, n, due_ms);
        TL_EQUAL(n % 2 ? rmq_message_set_deliver_time_ms(message, due_ms)
                       : rmq_message_set_delay_time_ms(message, due_ms - tl_wall_ms() + 2),
                 RMQ_OK);
        TL_OK(rmq_producer_send(producer, message, 10000, &result, &err));
        TL_CHECK(!cluster.broker || *rmq_send_result_recall_handle(result));
        rmq_send_result_destroy(result);
        rmq_message_destroy(message);
    }
    tl_seen_wait(&seen, COUNT, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&seen.total), COUNT);
    TL_EQUAL(atomic_load(&too_early), 0);
    tl_cluster_stop(&cluster);
}

static void a_recalled_message_never_comes(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_send_result *results[2];
    int64_t early_ms = EARLY_MS;
    tl_cluster_start_with(&cluster, 1, recalling);
    int64_t delay_ms = cluster.broker ? 800 : 5000;
    rmq_producer *producer = tl_producer(&cluster);
    for (int n = 0; n < 2; n++) {
        rmq_message *message = message_of(&cluster, n, tl_wall_ms() + delay_ms);
        TL_EQUAL(rmq_message_set_delay_time_ms(message, delay_ms * (n + 1)), RMQ_OK);
        TL_OK(rmq_producer_send(producer, message, 10000, &results[n], &err));
        rmq_message_destroy(message);
    }
    TL_EQUAL(rmq_producer_recall(producer, cluster.topic, "nonsense", 0, NULL), RMQ_ERR_INVALID);
    TL_OK(rmq_producer_recall(producer, cluster.topic, rmq_send_result_recall_handle(results[0]), 0,
                              &err));
    rmq_consumer *consumer = tl_consumer(&cluster, "*", look_at_time, &early_ms);
    tl_seen_wait(&seen, 1, WAIT_MS);
    TL_EQUAL(rmq_producer_recall(producer, cluster.topic, rmq_send_result_recall_handle(results[0]),
                                 0, &err),
             RMQ_ERR_BROKER);
    TL_EQUAL(rmq_error_remote_code(err), 604);
    rmq_error_destroy(err);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&seen.times[0]), 0);
    TL_EQUAL(atomic_load(&seen.times[1]), 1);
    rmq_send_result_destroy(results[0]);
    rmq_send_result_destroy(results[1]);
    tl_cluster_stop(&cluster);
}

static void times_are_checked_and_the_last_one_counts(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int64_t early_ms = EARLY_MS;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = message_of(&cluster, 1, tl_wall_ms());
    const rmq_message *batch[2] = {message, message};
    TL_EQUAL(rmq_message_set_delay_time_ms(message, -1), RMQ_ERR_INVALID);
    TL_EQUAL(rmq_message_set_delay_time_ms(message, 3600000), RMQ_OK);
    TL_EQUAL(rmq_producer_send_batch(producer, batch, 2, 0, NULL, NULL), RMQ_ERR_INVALID);
    TL_EQUAL(rmq_message_set_deliver_time_ms(message, 1), RMQ_OK);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", look_at_time, &early_ms);
    TL_OK(rmq_producer_send(producer, message, 10000, NULL, &err)); /* a time that has passed */
    tl_seen_wait(&seen, 1, WAIT_MS);
    TL_EQUAL(rmq_message_set_delay_time_ms(message, INT64_C(4) * 86400 * 1000), RMQ_OK);
    TL_EQUAL(rmq_producer_send(producer, message, 10000, NULL, &err), RMQ_ERR_BROKER);
    TL_EQUAL(rmq_error_remote_code(err), 13);
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"messages_come_at_their_time_and_not_before", messages_come_at_their_time_and_not_before,
         60},
        {"a_recalled_message_never_comes", a_recalled_message_never_comes, 60},
        TL_CASE(times_are_checked_and_the_last_one_counts),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
