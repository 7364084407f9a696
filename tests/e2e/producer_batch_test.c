/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Batches that the library makes by itself: of asynchronous sends that come close together, and of
 * long lists. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define WAIT_MS    20000
#define LONG_MS    30000 /* a linger that no case waits for */
#define QUEUES     4
#define SEND_V2    310
#define SEND_BATCH 320

/* The way to the broker, with a look at what goes along it. */
struct way {
    struct tl_detour detour;
    rmq_producer *producer;
};

static void open_way(struct way *way, int64_t linger_ms, int32_t max_message_size)
{
    rmq_error *err = NULL;
    rmq_producer_options options;
    tl_detour_start(&way->detour, QUEUES, NULL);
    tl_producer_options_init(&options);
    options.producer_group = way->detour.cluster.group;
    options.namesrv_addr = tl_namesrv_addr(way->detour.namesrv);
    options.auto_batch = linger_ms > 0;
    options.batch_max_delay_ms = linger_ms > 0 ? linger_ms : 10;
    options.max_message_size = max_message_size;
    options.send_msg_timeout_ms = 2 * LONG_MS; /* longer than any of them waits for others */
    TL_OK(rmq_producer_create(&options, &way->producer, &err));
}

static void close_way(struct way *way)
{
    rmq_producer_destroy(way->producer);
    tl_detour_stop(&way->detour);
}

static rmq_message *numbered(const struct way *way, int number, size_t size)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    char text[32];
    char *body = calloc(1, size);
    snprintf(text, sizeof text, "%d", number);
    TL_OK(rmq_message_create(way->detour.cluster.topic, &message, &err));
    TL_EQUAL(rmq_message_set_property(message, "n", text), RMQ_OK);
    TL_EQUAL(rmq_message_copy_body(message, body, size), RMQ_OK);
    free(body);
    return message;
}

/* Completions: places in the topic that were told, each once. */
struct told {
    atomic_int calls;
    atomic_int failed;
    atomic_int maybe_stored;
    atomic_int twice;
    atomic_int places[QUEUES][4000];
    int wanted;
};

static void note(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct told *told = user;
    if (result) {
        int64_t offset = rmq_send_result_queue_offset(result);
        int before = atomic_fetch_add(&told->places[rmq_send_result_queue_id(result)][offset], 1);
        atomic_fetch_add(&told->twice, before);
        atomic_fetch_add(&told->twice, *rmq_send_result_offset_msg_id(result) == '\0');
    } else {
        atomic_fetch_add(&told->failed, 1);
        atomic_fetch_add(&told->maybe_stored, rmq_error_maybe_stored(err));
    }
    atomic_fetch_add(&told->calls, 1);
}

static bool are_all(void *arg)
{
    struct told *told = arg;
    return atomic_load(&told->calls) >= told->wanted;
}

static void send_sized(struct way *way, struct told *told, int count, size_t size)
{
    rmq_error *err = NULL;
    for (int i = 0; i < count; i++) {
        rmq_message *message = numbered(way, i, size);
        TL_OK(rmq_producer_send_async(way->producer, message, note, told, &err));
        rmq_message_destroy(message);
    }
}

static void send_numbered(struct way *way, struct told *told, int count)
{
    send_sized(way, told, count, 100);
}

static void small_sends_travel_together_and_keep_their_own_completions(void)
{
    struct way way;
    static struct told told;
    static struct tl_seen seen;
    open_way(&way, 10, 4194304);
    told.wanted = 3000;
    send_numbered(&way, &told, 3000);
    TL_CHECK(tl_wait(are_all, &told, WAIT_MS));
    TL_EQUAL(atomic_load(&told.calls), 3000);
    TL_EQUAL(atomic_load(&told.failed), 0);
    TL_EQUAL(atomic_load(&told.twice), 0);
    TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_V2), 0);
    /* Also when each millisecond is a long one. */
    TL_CHECK(tl_proxy_seen(way.detour.proxy, SEND_BATCH) <= 1500);
    rmq_consumer *consumer = tl_consumer(&way.detour.cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 3000, WAIT_MS);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 3000);
    close_way(&way);
}

static void one_message_does_not_wait_for_ever(void)
{
    struct way way;
    static struct told told;
    open_way(&way, 5, 4194304);
    told.wanted = 1;
    send_numbered(&way, &told, 1);
    TL_CHECK(tl_wait(are_all, &told, WAIT_MS));
    TL_EQUAL(atomic_load(&told.failed), 0);
    close_way(&way);
}

static void what_cannot_be_in_a_batch_goes_alone(void)
{
    struct way way;
    static struct told told;
    rmq_error *err = NULL;
    open_way(&way, LONG_MS, 4194304); /* what waited would not come back within this case */
    rmq_message *delayed = numbered(&way, 0, 100);
    rmq_message *grouped = numbered(&way, 1, 100);
    rmq_message *large = numbered(&way, 2, 40000);
    rmq_message *keyed = numbered(&way, 3, 100);
    rmq_message *hasty = numbered(&way, 4, 100);
    TL_EQUAL(rmq_message_set_delay_level(delayed, 1), RMQ_OK);
    TL_EQUAL(rmq_message_set_message_group(grouped, "g"), RMQ_OK);
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    told.wanted = 5;
    TL_OK(rmq_producer_send_async(way.producer, delayed, note, &told, &err));
    TL_OK(rmq_producer_send_async(way.producer, grouped, note, &told, &err));
    TL_OK(rmq_producer_send_async(way.producer, large, note, &told, &err));
    how.sharding_key = "k";
    TL_OK(rmq_producer_send_async_with(way.producer, keyed, &how, note, &told, &err));
    how.sharding_key = NULL;
    how.timeout_ms = WAIT_MS;
    TL_OK(rmq_producer_send_async_with(way.producer, hasty, &how, note, &told, &err));
    TL_CHECK(tl_wait(are_all, &told, WAIT_MS));
    TL_EQUAL(atomic_load(&told.failed), 0);
    TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_V2), 5);
    TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_BATCH), 0);
    rmq_message_destroy(delayed);
    rmq_message_destroy(grouped);
    rmq_message_destroy(large);
    rmq_message_destroy(keyed);
    rmq_message_destroy(hasty);
    close_way(&way);
}

static void shutdown_sends_what_still_waits(void)
{
    struct way way;
    static struct told told;
    rmq_error *err = NULL;
    open_way(&way, LONG_MS, 4194304);
    send_numbered(&way, &told, 10);
    TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_BATCH), 0);
    TL_OK(rmq_producer_shutdown(way.producer, WAIT_MS, &err));
    TL_EQUAL(atomic_load(&told.calls), 10);
    TL_EQUAL(atomic_load(&told.failed), 0);
    TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_BATCH), 1);
    close_way(&way);
}

static void every_passenger_shares_the_fate_of_its_batch(void)
{
    struct way way;
    static struct told told;
    open_way(&way, 5, 4194304);
    TL_CHECK(
        tl_proxy_script(way.detour.proxy, "answer request 320 times -1 code 13 remark illegal"));
    told.wanted = 50;
    send_numbered(&way, &told, 50);
    TL_CHECK(tl_wait(are_all, &told, WAIT_MS));
    TL_EQUAL(atomic_load(&told.failed), 50);
    TL_EQUAL(atomic_load(&told.maybe_stored), 0);
    tl_proxy_clear(way.detour.proxy);
    TL_CHECK(tl_proxy_script(way.detour.proxy, "drop response 320"));
    send_numbered(&way, &told, 50);
    TL_EQUAL(rmq_producer_shutdown(way.producer, 200, NULL), RMQ_ERR_TIMEOUT);
    TL_EQUAL(atomic_load(&told.calls), 100);
    TL_EQUAL(atomic_load(&told.failed), 100);
    TL_EQUAL(atomic_load(&told.maybe_stored), 50);
    close_way(&way);
}

/* One that is nearly full takes one more message, and a broker would refuse it as too large. */
static void a_batch_does_not_grow_beyond_the_largest_message(void)
{
    struct way way;
    static struct told told;
    open_way(&way, LONG_MS, 32768);
    told.wanted = 6;
    send_sized(&way, &told, 6, 15000);
    TL_CHECK(tl_wait(are_all, &told, WAIT_MS));
    TL_EQUAL(atomic_load(&told.failed), 0);
    TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_BATCH), 3);
    close_way(&way);
}

/* With each message a broker stores more than what travels, and those of 4.x count that. */
static void small_messages_make_no_batch_that_is_too_large_when_it_is_stored(void)
{
    struct way way;
    static struct told told;
    rmq_error *err = NULL;
    rmq_message *messages[420];
    open_way(&way, LONG_MS, 65536);
    for (int i = 0; i < 420; i++) {
        messages[i] = numbered(&way, i, 1);
    }
    TL_OK(rmq_producer_send_all(way.producer, (const rmq_message *const *)messages, 420, 0, NULL,
                                &err));
    TL_CHECK(tl_proxy_seen(way.detour.proxy, SEND_BATCH) >= 2);
    uint64_t before = tl_proxy_seen(way.detour.proxy, SEND_BATCH);
    send_sized(&way, &told, 420, 1);
    TL_OK(rmq_producer_shutdown(way.producer, WAIT_MS, &err));
    TL_EQUAL(atomic_load(&told.failed), 0);
    TL_CHECK(tl_proxy_seen(way.detour.proxy, SEND_BATCH) >= before + 2);
    for (int i = 0; i < 420; i++) {
        rmq_message_destroy(messages[i]);
    }
    close_way(&way);
}

/* 3.9 MB travel, 4.3 MB are stored: only the first are limited. */
static void a_batch_that_is_sent_by_hand_may_be_larger_when_it_is_stored(void)
{
    struct way way;
    rmq_error *err = NULL;
    enum { COUNT = 3600 };
    static const rmq_message *messages[COUNT];
    open_way(&way, 0, 4194304);
    rmq_message *message = numbered(&way, 1, 1024);
    for (int i = 0; i < COUNT; i++) {
        messages[i] = message;
    }
    TL_OK(rmq_producer_send_batch(way.producer, messages, COUNT, 0, NULL, &err));
    TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_BATCH), 1);
    TL_OK(rmq_producer_send_all(way.producer, messages, COUNT, 0, NULL, &err));
    TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_BATCH), 3);
    rmq_message_destroy(message);
    close_way(&way);
}

static void a_long_list_is_sent_as_batches_that_fit(void)
{
    struct way way;
    static struct tl_seen seen;
    rmq_error *err = NULL;
    rmq_message *messages[102];
    size_t stored = 0;
    open_way(&way, 0, 65536);
    for (int i = 0; i < 100; i++) {
        messages[i] = numbered(&way, i, 3000);
    }
    messages[100] = numbered(&way, 100, 65537);
    messages[101] = numbered(&way, 101, 10);
    const rmq_message *const *list = (const rmq_message *const *)messages;
    TL_OK(rmq_producer_send_all(way.producer, list, 100, 0, &stored, &err));
    TL_EQUAL(stored, 100);
    TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_BATCH), 6);
    TL_EQUAL(rmq_producer_send_all(way.producer, list + 80, 22, 0, &stored, &err),
             RMQ_ERR_TOO_LARGE);
    TL_EQUAL(stored, 20);
    rmq_error_destroy(err);
    rmq_consumer *consumer = tl_consumer(&way.detour.cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 100, WAIT_MS);
    rmq_consumer_destroy(consumer);
    for (int i = 0; i < 102; i++) {
        rmq_message_destroy(messages[i]);
    }
    close_way(&way);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(small_sends_travel_together_and_keep_their_own_completions),
        TL_CASE(one_message_does_not_wait_for_ever),
        TL_CASE(what_cannot_be_in_a_batch_goes_alone),
        TL_CASE(shutdown_sends_what_still_waits),
        TL_CASE(every_passenger_shares_the_fate_of_its_batch),
        TL_CASE(a_batch_does_not_grow_beyond_the_largest_message),
        TL_CASE(small_messages_make_no_batch_that_is_too_large_when_it_is_stored),
        TL_CASE(a_batch_that_is_sent_by_hand_may_be_larger_when_it_is_stored),
        TL_CASE(a_long_list_is_sent_as_batches_that_fit),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
