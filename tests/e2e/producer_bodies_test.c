/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Bodies of messages: copied, borrowed and taken ones of all sizes, with each compression, arrive
 * as they were sent.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define WAIT_MS 15000
#define QUEUES  4

static void fill(unsigned char *body, size_t size, bool random)
{
    unsigned state = (unsigned)size;
    for (size_t i = 0; i < size; i++) {
        state = state * 1103515245u + 12345u;
        body[i] = random ? (unsigned char)(state >> 16) : (unsigned char)('a' + i / 64 % 20);
    }
}

struct expected {
    unsigned char *bodies[16];
    size_t sizes[16];
    _Atomic int right;
};

static rmq_consume_result compare_body(const rmq_message_view *const *messages, size_t count,
                                       rmq_consume_context *context, void *user)
{
    struct expected *expected = user;
    for (size_t i = 0; i < count; i++) {
        int n = atoi(rmq_message_view_property(messages[i], "n"));
        size_t size = 0;
        const void *body = rmq_message_view_body(messages[i], &size);
        TL_EQUAL(size, expected->sizes[n]);
        TL_CHECK(memcmp(body, expected->bodies[n], size) == 0);
        atomic_fetch_add(&expected->right, 1);
    }
    (void)context;
    return RMQ_CONSUME_SUCCESS;
}

static bool all_right(void *arg)
{
    return atomic_load(&((struct expected *)arg)->right) >= 12;
}

static void free_body(void *data, void *user)
{
    atomic_fetch_add((_Atomic int *)user, 1);
    free(data);
}

static void bodies_of_all_sizes_arrive_unchanged(const char *compress_type)
{
    static const size_t sizes[] = {1, 4095, 4096, 4097, 1048576, 4194304 - 1024};
    static struct expected expected;
    _Atomic int freed = 0;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, QUEUES);
    options = tl_producer_options(&cluster);
    options.compress_type = compress_type;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    if (cluster.broker) {
        /* So the first is sent twice. */
        TL_OK(rmq_broker_fault_answer(cluster.broker, 310, 1, 2, "busy", &err));
    }
    for (int i = 0; i < 12; i++) {
        size_t size = sizes[i % 6];
        expected.sizes[i] = size;
        expected.bodies[i] = malloc(size);
        fill(expected.bodies[i], size, i >= 6);
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        rmq_message *message = NULL;
        TL_OK(rmq_message_create(cluster.topic, &message, &err));
        rmq_message_set_property(message, "n", number);
        if (i % 3 == 0) {
            TL_EQUAL(rmq_message_copy_body(message, expected.bodies[i], size), RMQ_OK);
        } else if (i % 3 == 1) {
            TL_EQUAL(rmq_message_borrow_body(message, expected.bodies[i], size), RMQ_OK);
        } else {
            void *own = malloc(size);
            memcpy(own, expected.bodies[i], size);
            TL_EQUAL(rmq_message_take_body(message, own, size, free_body, &freed), RMQ_OK);
        }
        TL_OK(rmq_producer_send(producer, message, 10000, NULL, &err));
        rmq_message_destroy(message);
    }
    rmq_consumer *consumer = tl_consumer(&cluster, "*", compare_body, &expected);
    TL_CHECK(tl_wait(all_right, &expected, WAIT_MS));
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&freed), 4);
    for (int i = 0; i < 12; i++) {
        free(expected.bodies[i]);
    }
    tl_cluster_stop(&cluster);
}

static void a_body_of_the_largest_size_that_does_not_shrink_goes_as_it_is(void)
{
    enum { LARGEST = 4194304 };
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    unsigned char *body = malloc(LARGEST);
    fill(body, LARGEST, true);
    TL_OK(rmq_message_create(cluster.topic, &message, &err));
    TL_OK(rmq_message_borrow_body(message, body, LARGEST));
    TL_OK(rmq_producer_send(producer, message, 10000, NULL, &err));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    free(body);
    tl_cluster_stop(&cluster);
}

static void bodies_arrive_unchanged_with_zlib(void)
{
    bodies_of_all_sizes_arrive_unchanged("ZLIB");
}

static void bodies_arrive_unchanged_with_lz4(void)
{
    bodies_of_all_sizes_arrive_unchanged("LZ4");
}

static void bodies_arrive_unchanged_with_zstd(void)
{
    bodies_of_all_sizes_arrive_unchanged("ZSTD");
}

static void bodies_arrive_unchanged_without_compression(void)
{
    bodies_of_all_sizes_arrive_unchanged("NONE");
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_body_of_the_largest_size_that_does_not_shrink_goes_as_it_is),
        TL_CASE(bodies_arrive_unchanged_with_zlib),
        TL_CASE(bodies_arrive_unchanged_with_lz4),
        TL_CASE(bodies_arrive_unchanged_with_zstd),
        TL_CASE(bodies_arrive_unchanged_without_compression),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
