/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Topics of queue.type BatchCQ (5.x) keep a batch as one record, which the client takes apart. A
 * proxy turns a record of ours into such a one: it sets the two bits of the sysFlag of the first
 * record in each answer. tests/interop has the same with a real broker.
 */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/usage.h"

#define PULL        11
#define SYS_FLAG_AT 39 /* its last byte, in a record */
#define UNWRAP      0xC0
#define ITEMS       3

static struct {
    char body[64];
    size_t size;
} got[2 * ITEMS];
static atomic_int count;
static atomic_int wrong;
static atomic_int reconsumed; /* of the last */

static char *put32(char *to, uint32_t value)
{
    value = htonl(value);
    memcpy(to, &value, sizeof value);
    return to + sizeof value;
}

/* One item as it stands in a batch: size, magic, CRC, flag, body, no properties. */
static size_t put_item(char *to, const char *body, size_t size)
{
    char *at = put32(to, (uint32_t)(22 + size));
    at = put32(put32(put32(at, 0), 0), 0);
    at = put32(at, (uint32_t)size);
    memcpy(at, body, size);
    memset(at + size, 0, 2);
    return 22 + size;
}

/* The batch, and two records that have the offsets of its second and third message here: a broker
 * that knows such batches counts on by itself. The second message is a batch again, so that it can
 * be told when it comes back, since the proxy sets the bits of that one, too. */
static void send_batch(const struct tl_cluster *cluster)
{
    char inner[64];
    char body[256];
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    rmq_producer *producer = tl_producer(cluster);
    size_t inner_size = put_item(inner, "again", 5);
    size_t n = put_item(body, "one", 3);
    n += put_item(body + n, inner, inner_size);
    n += put_item(body + n, "three", 5);
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_copy_body(message, body, n));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    tl_send(cluster, producer, "filler", 0, 2);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
}

/* The second is wanted later. What comes back, a batch of one by then, has not the properties that
 * name its topic. */
static rmq_consume_result take(const rmq_message_view *const *messages, size_t n,
                               rmq_consume_context *context, void *user)
{
    size_t size = 0;
    const char *body = rmq_message_view_body(messages[0], &size);
    int i = atomic_load(&count);
    if (n != 1 || size > sizeof got[0].body || i >= 2 * ITEMS ||
        (i < ITEMS && strcmp(rmq_message_view_topic(messages[0]), user) != 0)) {
        atomic_fetch_add(&wrong, 1);
        return RMQ_CONSUME_SUCCESS;
    }
    memcpy(got[i].body, body, size);
    got[i].size = size;
    atomic_store(&reconsumed, rmq_message_view_reconsume_times(messages[0]));
    atomic_store(&count, i + 1);
    rmq_consume_context_set_delay_level(context, 1);
    return i == 1 ? RMQ_RECONSUME_LATER : RMQ_CONSUME_SUCCESS;
}

static bool have_come(void *arg)
{
    return atomic_load(&count) + atomic_load(&wrong) >= *(int *)arg;
}

static void check_got(int i, const char *text)
{
    TL_EQUAL(got[i].size, strlen(text));
    TL_EQUAL(memcmp(got[i].body, text, got[i].size), 0);
}

static void messages_of_an_inner_batch_come_one_by_one_and_one_of_them_again(void)
{
    struct tl_detour detour;
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    int wanted = ITEMS + 1;
    const struct tl_rule rule = {.action = TL_ALTER,
                                 .responses = true,
                                 .code = PULL,
                                 .times = -1,
                                 .alter_at = SYS_FLAG_AT,
                                 .alter_with = UNWRAP};
    tl_detour_start(&detour, 1, NULL);
    tl_proxy_add(detour.proxy, &rule);
    send_batch(&detour.cluster);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = detour.through.group;
    options.namesrv_addr = detour.through.namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 1;
    options.listener = take;
    options.listener_user = detour.through.topic;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, detour.through.topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    TL_CHECK(tl_wait(have_come, &wanted, 20000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&wrong), 0);
    TL_EQUAL(atomic_load(&count), wanted);
    check_got(0, "one");
    check_got(2, "three");
    check_got(3, "again");
    TL_EQUAL(atomic_load(&reconsumed), 1);
    TL_EQUAL(tl_committed(&detour.cluster, 0), ITEMS);
    tl_detour_stop(&detour);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(messages_of_an_inner_batch_come_one_by_one_and_one_of_them_again),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
