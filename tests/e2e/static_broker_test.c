/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Static topics of two brokers in this process with our own client: queues go from one broker to
 * the other in the steps that `mqadmin remappingStaticTopic` takes, while producers and consumers
 * go on.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/ask.h"
#include "lib/cases.h"
#include "lib/cluster.h"

#define WAIT_MS      25000
#define CREATE       513
#define MOVED_BEGINS 10000 /* logical offset of a moved queue's new part */

struct pair {
    struct tl_cluster a; /* with the name server of both */
    struct tl_cluster b;
};

/* ---- mappings ---- */

#define ITEM(broker, gen, queue, logic)                                                            \
    "{\"bname\":\"" broker "\",\"gen\":" #gen ",\"queueId\":" #queue ",\"logicOffset\":" #logic    \
    ",\"startOffset\":0,\"endOffset\":-1}"
#define STAYS(id, broker, queue) "\"" #id "\":[" ITEM(broker, 0, queue, 0) "]"
#define MOVES(id, queue, to, logic)                                                                \
    "\"" #id "\":[" ITEM("a", 0, queue, 0) "," ITEM("b", 1, to, logic) "]"

/* Gives a broker its mapping of the topic. */
static void map(const struct pair *pair, const char *name, int epoch, const char *queues)
{
    const struct tl_cluster *cluster = strcmp(name, "a") == 0 ? &pair->a : &pair->b;
    char ext[512];
    char body[4096];
    char answer[512];
    snprintf(ext, sizeof ext,
             "{\"topic\":\"%s\",\"defaultTopic\":\"TBW102\",\"readQueueNums\":\"6\","
             "\"writeQueueNums\":\"6\",\"perm\":\"6\",\"topicFilterType\":\"SINGLE_TAG\"}",
             pair->a.topic);
    snprintf(body, sizeof body,
             "{\"bname\":\"%s\",\"dirty\":false,\"epoch\":%d,\"hostedQueues\":{%s},"
             "\"scope\":\"__global__\",\"topic\":\"%s\",\"totalQueues\":4}",
             name, epoch, queues, pair->a.topic);
    TL_EQUAL(
        tl_ask_with(rmq_broker_addr(cluster->broker), CREATE, ext, body, answer, sizeof answer), 0);
}

/* Queues 0 and 2 at "a", 1 and 3 at "b". */
static void start(struct pair *pair)
{
    const char *const a[] = {"brokerName", "a", NULL};
    tl_cluster_start_with(&pair->a, 6, a);
    tl_cluster_needs_own(&pair->a);
    const char *const b[] = {"brokerName", "b", "namesrvAddr", pair->a.namesrv, NULL};
    tl_cluster_start_with(&pair->b, 6, b);
    map(pair, "a", 1, STAYS(0, "a", 0) "," STAYS(2, "a", 1));
    map(pair, "b", 1, STAYS(1, "b", 0) "," STAYS(3, "b", 1));
}

static void stop(struct pair *pair)
{
    tl_cluster_stop(&pair->b);
    tl_cluster_stop(&pair->a);
}

/* From here on "b" takes what comes to queues 0 and 2, and "a" refuses it. */
static void begin_move(const struct pair *pair)
{
    map(pair, "b", 2,
        STAYS(1, "b", 0) "," STAYS(3, "b", 1) "," MOVES(0, 0, 2, -1) "," MOVES(2, 1, 3, -1));
    map(pair, "a", 2, MOVES(0, 0, 2, -1) "," MOVES(2, 1, 3, -1));
}

static void end_move(const struct pair *pair)
{
    map(pair, "b", 2,
        STAYS(1, "b", 0) "," STAYS(3, "b", 1) "," MOVES(0, 0, 2, 10000) "," MOVES(2, 1, 3, 10000));
}

/* ---- cases ---- */

struct reading {
    struct tl_seen seen;
    atomic_int moved; /* messages with offsets of what came after the move */
};

static rmq_consume_result note(const rmq_message_view *const *messages, size_t count,
                               rmq_consume_context *context, void *user)
{
    struct reading *reading = user;
    for (size_t i = 0; i < count; i++) {
        if (rmq_message_view_queue_offset(messages[i]) >= MOVED_BEGINS) {
            atomic_fetch_add(&reading->moved, 1);
        }
    }
    return tl_seen_listener(messages, count, context, &reading->seen);
}

static void nothing_is_lost_when_queues_move_under_a_producer_and_a_consumer(void)
{
    static struct reading reading;
    struct pair pair;
    start(&pair);
    rmq_producer *producer = tl_producer(&pair.a);
    rmq_consumer *consumer = tl_consumer(&pair.a, "*", note, &reading);
    tl_send(&pair.a, producer, "before", 0, 100);
    tl_seen_wait(&reading.seen, 100, WAIT_MS);
    TL_EQUAL(atomic_load(&reading.moved), 0);
    begin_move(&pair);
    tl_send(&pair.a, producer, "meanwhile", 100, 40);
    end_move(&pair);
    tl_send(&pair.a, producer, "after", 140, 60);
    tl_seen_wait(&reading.seen, 200, WAIT_MS);
    TL_CHECK(atomic_load(&reading.moved) > 0);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    stop(&pair);
}

static void a_group_reads_what_was_before_a_move_and_goes_on_where_it_was(void)
{
    static struct reading first;
    static struct reading again;
    struct pair pair;
    rmq_error *err = NULL;
    start(&pair);
    rmq_producer *producer = tl_producer(&pair.a);
    tl_send(&pair.a, producer, "before", 0, 100);
    begin_move(&pair);
    end_move(&pair);
    tl_send(&pair.a, producer, "after", 100, 100);
    rmq_consumer *consumer = tl_consumer(&pair.a, "*", note, &first);
    tl_seen_wait(&first.seen, 200, WAIT_MS);
    TL_CHECK(atomic_load(&first.moved) > 0);
    TL_OK(rmq_consumer_shutdown(consumer, WAIT_MS, &err));
    rmq_consumer_destroy(consumer);
    tl_send(&pair.a, producer, "later", 200, 40);
    consumer = tl_consumer(&pair.a, "*", note, &again);
    tl_seen_wait(&again.seen, 40, WAIT_MS);
    TL_EQUAL(atomic_load(&again.seen.total), 40);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    stop(&pair);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"nothing_is_lost_when_queues_move_under_a_producer_and_a_consumer",
         nothing_is_lost_when_queues_move_under_a_producer_and_a_consumer, 60},
        {"a_group_reads_what_was_before_a_move_and_goes_on_where_it_was",
         a_group_reads_what_was_before_a_move_and_goes_on_where_it_was, 60},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
