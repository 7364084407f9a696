/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tags: the broker filters by hash, the consumer compares the text; what is filtered out still
 * moves the offset. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define EACH 100

static char long_tag[201];
static const char *const tags[] = {"Aa", "BB", "标签甲", long_tag, "7"};
static atomic_int seen[5];
static atomic_int total;

static rmq_consume_result count_tags(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < 5; k++) {
            if (strcmp(rmq_message_view_tag(messages[i]), tags[k]) == 0) {
                atomic_fetch_add(&seen[k], 1);
            }
        }
        atomic_fetch_add(&total, 1);
    }
    return RMQ_CONSUME_SUCCESS;
}

static void send_tag(const struct tl_cluster *cluster, rmq_producer *producer, const char *tag)
{
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_set_tag(message, tag));
    TL_OK(rmq_message_copy_body(message, "x", 1));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    rmq_message_destroy(message);
}

static void send_tagged(const struct tl_cluster *cluster, rmq_producer *producer, int each)
{
    for (int i = 0; i < each * 5; i++) {
        send_tag(cluster, producer, tags[i % 5]);
    }
}

/* One that matches into each queue, so that no parked pull still stands before messages that do
 * not. */
static void send_last(const struct tl_cluster *cluster, rmq_producer *producer, const char *tag,
                      int queues)
{
    for (int i = 0; i < queues; i++) {
        send_tag(cluster, producer, tag);
    }
}

static bool all_came(void *arg)
{
    return atomic_load(&total) >= *(int *)arg;
}

static void fill_long_tag(void)
{
    memset(long_tag, 't', sizeof long_tag - 1);
}

static void tags_with_equal_hashes_are_told_apart_by_their_text(void)
{
    struct tl_cluster cluster;
    int wanted = 2 * EACH + 4;
    fill_long_tag();
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "Aa || 标签甲", count_tags, NULL);
    send_tagged(&cluster, producer, EACH);
    send_last(&cluster, producer, "Aa", 4);
    TL_CHECK(tl_wait(all_came, &wanted, 10000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen[0]), EACH + 4);
    TL_EQUAL(atomic_load(&seen[1]), 0);
    TL_EQUAL(atomic_load(&seen[2]), EACH);
    TL_EQUAL(atomic_load(&total), 2 * EACH + 4);

    /* The offset has passed over what was filtered out: the group goes on behind it. */
    consumer = tl_consumer(&cluster, "*", count_tags, NULL);
    send_tagged(&cluster, producer, 1);
    wanted = 2 * EACH + 9;
    TL_CHECK(tl_wait(all_came, &wanted, 20000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&total), 2 * EACH + 9);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_long_tag_and_a_digit_are_tags(void)
{
    struct tl_cluster cluster;
    char expression[256];
    int wanted = 2 * EACH;
    fill_long_tag();
    tl_cluster_start(&cluster, 2);
    snprintf(expression, sizeof expression, "%s||7", long_tag);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, expression, count_tags, NULL);
    send_tagged(&cluster, producer, EACH);
    TL_CHECK(tl_wait(all_came, &wanted, 10000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen[3]), EACH);
    TL_EQUAL(atomic_load(&seen[4]), EACH);
    TL_EQUAL(atomic_load(&total), 2 * EACH);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_new_expression_counts_at_once(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int wanted = 12;
    fill_long_tag();
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "7", count_tags, NULL);
    send_tagged(&cluster, producer, 10);
    send_last(&cluster, producer, "7", 2);
    TL_CHECK(tl_wait(all_came, &wanted, 20000));
    TL_OK(rmq_consumer_subscribe(consumer, cluster.topic, "BB", &err));
    send_tagged(&cluster, producer, 10);
    wanted = 22;
    TL_CHECK(tl_wait(all_came, &wanted, 20000));
    TL_EQUAL(atomic_load(&seen[1]), 10);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_bad_expression_is_refused(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.listener = count_tags;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_EQUAL(rmq_consumer_start(consumer, NULL), RMQ_ERR_STATE);
    TL_EQUAL(rmq_consumer_subscribe(consumer, cluster.topic, "||", &err), RMQ_ERR_INVALID);
    TL_CHECK(*rmq_error_message(err));
    rmq_error_destroy(err);
    TL_EQUAL(rmq_consumer_subscribe(consumer, "no blanks allowed", "*", NULL), RMQ_ERR_INVALID);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(tags_with_equal_hashes_are_told_apart_by_their_text),
        TL_CASE(a_long_tag_and_a_digit_are_tags),
        TL_CASE(a_new_expression_counts_at_once),
        TL_CASE(a_bad_expression_is_refused),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
