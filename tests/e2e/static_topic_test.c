/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Static topics, seen from the client: a name server tells which of two brokers leads each logical
 * queue, and a proxy in front of each answers as a broker does that leads a queue no more. The
 * brokers themselves hold an ordinary topic whose queues have the numbers of the logical ones.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define LOGICAL "__syslo__global__"
#define QUEUES  4
#define WAIT_MS 20000
#define LEVELS  "messageDelayLevel", "0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s"
#define MOVED                                                                                      \
    "answer request 310 code 501; answer request 320 code 501; answer request 11 code 501; "       \
    "answer request 14 code 501; answer request 15 code 501; answer request 30 code 501"

enum { PULL = 11, SEND_BACK = 36, LOCK = 41, SEND_V2 = 310 };

struct pair {
    struct tl_cluster a;
    struct tl_cluster b;
    struct tl_proxy *to_a;
    struct tl_proxy *to_b;
    struct tl_namesrv *namesrv;
    struct tl_cluster through; /* what clients see */
};

/* Which logical queues each leads: members of currIdMap. */
static void tell_route(struct pair *pair, int epoch, const char *of_a, const char *of_b)
{
    static const char *const names[] = {"a", "b"};
    const char *const addrs[] = {tl_proxy_addr(pair->to_a), tl_proxy_addr(pair->to_b)};
    const char *const led[] = {of_a, of_b};
    char brokers[512] = "";
    char queues[512] = "";
    char mappings[1024] = "";
    char body[4096];
    for (int i = 0; i < 2; i++) {
        const char *comma = i > 0 ? "," : "";
        size_t n = strlen(brokers);
        snprintf(brokers + n, sizeof brokers - n,
                 "%s{\"brokerAddrs\":{0:\"%s\"},\"brokerName\":\"%s\",\"cluster\":\"C\"}", comma,
                 addrs[i], names[i]);
        n = strlen(queues);
        snprintf(queues + n, sizeof queues - n,
                 "%s{\"brokerName\":\"%s\",\"perm\":6,\"readQueueNums\":9,\"writeQueueNums\":9}",
                 comma, names[i]);
        n = strlen(mappings);
        snprintf(mappings + n, sizeof mappings - n,
                 "%s\"%s\":{\"bname\":\"%s\",\"currIdMap\":{%s},\"dirty\":false,\"epoch\":%d,"
                 "\"scope\":\"__global__\",\"topic\":\"%s\",\"totalQueues\":%d}",
                 comma, names[i], names[i], led[i], epoch, pair->a.topic, QUEUES);
    }
    snprintf(body, sizeof body,
             "{\"brokerDatas\":[%s],\"filterServerTable\":{},\"queueDatas\":[%s],"
             "\"topicQueueMappingByBroker\":{%s}}",
             brokers, queues, mappings);
    tl_namesrv_route(pair->namesrv, pair->a.topic, 0, body);
}

/* Queues 0 and 2 at a, 1 and 3 at b; every other topic has one queue at each. */
static void start(struct pair *pair)
{
    static const char *const a[] = {LEVELS, "brokerName", "a", NULL};
    static const char *const b[] = {LEVELS, "brokerName", "b", NULL};
    char brokers[160];
    rmq_error *err = NULL;
    tl_cluster_start_with(&pair->a, QUEUES, a);
    tl_cluster_needs_own(&pair->a);
    tl_cluster_start_with(&pair->b, QUEUES, b);
    snprintf(pair->b.topic, sizeof pair->b.topic, "%s", pair->a.topic);
    TL_OK(rmq_broker_create_topic(pair->b.broker, pair->b.topic, QUEUES, &err));
    pair->to_a = tl_proxy_start(rmq_broker_addr(pair->a.broker));
    pair->to_b = tl_proxy_start(rmq_broker_addr(pair->b.broker));
    pair->namesrv = tl_namesrv_start();
    snprintf(brokers, sizeof brokers, "a@%s,b@%s", tl_proxy_addr(pair->to_a),
             tl_proxy_addr(pair->to_b));
    tl_namesrv_brokers(pair->namesrv, NULL, brokers, 1);
    tell_route(pair, 1, "0:0,2:2", "1:1,3:3");
    pair->through = pair->a;
    pair->through.broker = NULL;
    snprintf(pair->through.namesrv, sizeof pair->through.namesrv, "%s",
             tl_namesrv_addr(pair->namesrv));
}

static void stop(struct pair *pair)
{
    tl_namesrv_stop(pair->namesrv);
    tl_proxy_stop(pair->to_a);
    tl_proxy_stop(pair->to_b);
    tl_cluster_stop(&pair->a);
    tl_cluster_stop(&pair->b);
}

/* All queues go from a and b to b, and a says so from now on. */
static void move_to_b(struct pair *pair)
{
    TL_CHECK(tl_proxy_script(pair->to_a, MOVED));
    tell_route(pair, 2, "", "0:0,1:1,2:2,3:3");
}

static rmq_message *message_of(const struct pair *pair, int n)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    TL_OK(rmq_message_create(pair->a.topic, &message, &err));
    TL_OK(rmq_message_set_property(message, "n", number));
    TL_EQUAL(rmq_message_copy_body(message, "static", 6), RMQ_OK);
    return message;
}

/* Sends to a logical queue; the result names the broker that has it, as Java's does. */
static void send_to(const struct pair *pair, rmq_producer *producer, int queue, int n,
                    const char *broker)
{
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    rmq_message *message = message_of(pair, n);
    TL_OK(rmq_producer_send_to_queue(producer, message, LOGICAL, queue, WAIT_MS, &result, &err));
    TL_EQUAL(strcmp(rmq_send_result_broker_name(result), broker), 0);
    TL_EQUAL(rmq_send_result_queue_id(result), queue);
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
}

static void send_each(const struct pair *pair, rmq_producer *producer, int first, int rounds,
                      const char *const *brokers)
{
    for (int i = 0; i < rounds * QUEUES; i++) {
        send_to(pair, producer, i % QUEUES, first + i, brokers[i % QUEUES]);
    }
}

static const char *const at_first[] = {"a", "b", "a", "b"};
static const char *const all_at_b[] = {"b", "b", "b", "b"};

/* ---- where messages go and come from ---- */

struct origins {
    struct tl_seen seen;
    atomic_int logical;
    atomic_int queues; /* bits */
};

static rmq_consume_result note_origin(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    struct origins *origins = user;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rmq_message_view_broker_name(messages[i]), LOGICAL) == 0) {
            atomic_fetch_add(&origins->logical, 1);
        }
        atomic_fetch_or(&origins->queues, 1 << rmq_message_view_queue_id(messages[i]));
    }
    return tl_seen_listener(messages, count, context, &origins->seen);
}

static void producers_and_consumers_see_logical_queues(void)
{
    static struct origins origins;
    struct pair pair;
    rmq_error *err = NULL;
    rmq_queues *queues = NULL;
    start(&pair);
    rmq_producer *producer = tl_producer(&pair.through);
    TL_OK(rmq_producer_publish_queues(producer, pair.a.topic, WAIT_MS, &queues, &err));
    TL_EQUAL(rmq_queues_count(queues), QUEUES);
    for (size_t i = 0; i < QUEUES; i++) {
        TL_EQUAL(strcmp(rmq_queues_broker_name(queues, i), LOGICAL), 0);
        TL_EQUAL(rmq_queues_queue_id(queues, i), (int)i);
    }
    rmq_queues_free(queues);
    send_each(&pair, producer, 0, 3, at_first);
    tl_send(&pair.through, producer, "any", 3 * QUEUES, 8); /* by turns */
    rmq_consumer *consumer = tl_consumer(&pair.through, "*", note_origin, &origins);
    tl_seen_wait(&origins.seen, 3 * QUEUES + 8, WAIT_MS);
    TL_EQUAL(atomic_load(&origins.logical), 3 * QUEUES + 8);
    TL_EQUAL(atomic_load(&origins.queues), (1 << QUEUES) - 1);
    rmq_message *message = message_of(&pair, 0);
    TL_EQUAL(rmq_producer_send_to_queue(producer, message, LOGICAL, QUEUES, WAIT_MS, NULL, NULL),
             RMQ_ERR_NO_BROKER);
    rmq_message_destroy(message);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    stop(&pair);
}

/* ---- queues that move ---- */

struct outcome {
    atomic_int calls;
    atomic_int failed;
    atomic_int at_b;
};

static void note(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct outcome *outcome = user;
    atomic_fetch_add(&outcome->failed, err != NULL);
    atomic_fetch_add(&outcome->at_b,
                     result && strcmp(rmq_send_result_broker_name(result), "b") == 0);
    atomic_fetch_add(&outcome->calls, 1);
}

struct goal {
    struct outcome *outcome;
    int calls;
};

static bool are_called(void *arg)
{
    const struct goal *goal = arg;
    return atomic_load(&goal->outcome->calls) >= goal->calls;
}

/* Six at a time: by key, and by turns. */
static void send_async(const struct pair *pair, rmq_producer *producer, struct outcome *outcome)
{
    rmq_error *err = NULL;
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    how.timeout_ms = WAIT_MS;
    for (int i = 0; i < 6; i++) {
        rmq_message *message = message_of(pair, i);
        how.sharding_key = i % 2 ? "key" : NULL;
        TL_OK(rmq_producer_send_async_with(producer, message, &how, note, outcome, &err));
        rmq_message_destroy(message);
    }
}

static void send_batch(const struct pair *pair, rmq_producer *producer)
{
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    rmq_message *messages[] = {message_of(pair, 0), message_of(pair, 1)};
    TL_OK(rmq_producer_send_batch(producer, (const rmq_message *const *)messages, 2, WAIT_MS,
                                  &result, &err));
    TL_EQUAL(strcmp(rmq_send_result_broker_name(result), "b"), 0);
    rmq_send_result_destroy(result);
    rmq_message_destroy(messages[0]);
    rmq_message_destroy(messages[1]);
}

/* A producer for each, since they renew their routes. */
static void every_kind_of_send_follows_a_queue_that_has_moved(void)
{
    struct pair pair;
    struct outcome outcome = {0};
    struct goal goal = {&outcome, 6};
    rmq_producer *producers[3];
    start(&pair);
    tell_route(&pair, 1, "0:0,1:1,2:2,3:3", "");
    for (int i = 0; i < 3; i++) {
        producers[i] = tl_producer(&pair.through);
        send_to(&pair, producers[i], 0, i, "a");
    }
    move_to_b(&pair);
    send_each(&pair, producers[0], 0, 1, all_at_b);
    send_async(&pair, producers[1], &outcome);
    TL_CHECK(tl_wait(are_called, &goal, WAIT_MS));
    TL_EQUAL(atomic_load(&outcome.failed), 0);
    TL_EQUAL(atomic_load(&outcome.at_b), 6);
    send_batch(&pair, producers[2]);
    TL_CHECK(tl_proxy_seen(pair.to_a, SEND_V2) > 3 + 1);
    for (int i = 0; i < 3; i++) {
        rmq_producer_destroy(producers[i]);
    }
    stop(&pair);
}

struct refused_enough {
    struct tl_proxy *proxy;
    uint64_t sends;
};

static bool is_refused(void *arg)
{
    const struct refused_enough *goal = arg;
    return tl_proxy_seen(goal->proxy, SEND_V2) >= goal->sends;
}

/* Between the refusal of the old leader and the word of the new one. */
static void a_send_waits_while_no_name_server_knows_the_new_leader(void)
{
    struct pair pair;
    struct outcome outcome = {0};
    struct goal goal = {&outcome, 6};
    start(&pair);
    tell_route(&pair, 1, "0:0,1:1,2:2,3:3", "");
    rmq_producer *producer = tl_producer(&pair.through);
    send_to(&pair, producer, 0, 0, "a");
    TL_CHECK(tl_proxy_script(pair.to_a, "answer request 310 code 501"));
    send_async(&pair, producer, &outcome);
    struct refused_enough refused = {pair.to_a, 1 + 3 * 6};
    TL_CHECK(tl_wait(is_refused, &refused, WAIT_MS));
    TL_EQUAL(atomic_load(&outcome.calls), 0);
    tell_route(&pair, 2, "", "0:0,1:1,2:2,3:3");
    TL_CHECK(tl_wait(are_called, &goal, WAIT_MS));
    TL_EQUAL(atomic_load(&outcome.at_b), 6);
    rmq_producer_destroy(producer);
    stop(&pair);
}

static void a_send_fails_with_the_refusal_when_no_leader_is_found_in_time(void)
{
    struct pair pair;
    rmq_error *err = NULL;
    start(&pair);
    rmq_producer *producer = tl_producer(&pair.through);
    rmq_message *message = message_of(&pair, 0);
    TL_CHECK(tl_proxy_script(pair.to_a, "answer request 310 code 501"));
    TL_EQUAL(rmq_producer_send_to_queue(producer, message, LOGICAL, 0, 2500, NULL, &err),
             RMQ_ERR_BROKER);
    TL_EQUAL(rmq_error_remote_code(err), 501);
    TL_CHECK(rmq_error_retriable(err));
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    stop(&pair);
}

/* A queue without a leader keeps its place: keys do not change their queues. */
static void sends_pass_over_a_queue_that_nobody_leads(void)
{
    struct pair pair;
    rmq_error *err = NULL;
    start(&pair);
    tell_route(&pair, 1, "0:0,2:2", "3:3");
    rmq_producer *producer = tl_producer(&pair.through);
    tl_send(&pair.through, producer, "any", 0, 12);
    rmq_message *message = message_of(&pair, 0);
    TL_EQUAL(rmq_producer_send_to_queue(producer, message, LOGICAL, 1, 0, NULL, &err),
             RMQ_ERR_NO_BROKER);
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    stop(&pair);
}

/* b's own queues are as long as a's were, since it does not count on from there. */
static void a_consumer_follows_queues_that_have_moved(void)
{
    static struct origins origins;
    struct pair pair;
    rmq_error *err = NULL;
    start(&pair);
    rmq_producer *producer = tl_producer(&pair.through);
    rmq_consumer_options options = tl_consumer_options(&pair.through);
    options.broker_suspend_max_time_ms = 500;
    options.persist_consumer_offset_interval_ms = 500;
    options.listener = note_origin;
    options.listener_user = &origins;
    send_each(&pair, producer, 0, 3, at_first);
    rmq_consumer *consumer = tl_consumer_start(&pair.through, &options);
    tl_seen_wait(&origins.seen, 3 * QUEUES, WAIT_MS);
    rmq_producer *straight = tl_producer(&pair.b);
    for (int i = 0; i < 3; i++) {
        rmq_message *message = message_of(&pair, 0);
        TL_OK(rmq_producer_send_to_queue(straight, message, "b", 0, 0, NULL, &err));
        TL_OK(rmq_producer_send_to_queue(straight, message, "b", 2, 0, NULL, &err));
        rmq_message_destroy(message);
    }
    move_to_b(&pair);
    send_each(&pair, producer, 3 * QUEUES, 5, all_at_b);
    tl_seen_wait(&origins.seen, 8 * QUEUES, WAIT_MS);
    TL_EQUAL(atomic_load(&origins.seen.total), 8 * QUEUES);
    TL_EQUAL(atomic_load(&origins.logical), 8 * QUEUES);
    TL_OK(rmq_consumer_shutdown(consumer, WAIT_MS, &err));
    rmq_consumer_destroy(consumer);
    int64_t offset = -1;
    rmq_admin *admin = NULL;
    TL_OK(rmq_admin_create(pair.through.namesrv, &admin, &err));
    TL_OK(rmq_admin_consumer_offset(admin, pair.a.group, pair.a.topic, LOGICAL, 2, WAIT_MS, &offset,
                                    &err));
    TL_EQUAL(offset, 8);
    TL_OK(rmq_admin_max_offset(admin, pair.a.topic, LOGICAL, 3, WAIT_MS, &offset, &err));
    TL_EQUAL(offset, 8);
    rmq_queue_status *rows = NULL;
    size_t count = 0;
    TL_OK(rmq_admin_topic_status(admin, pair.a.topic, WAIT_MS, &rows, &count, &err));
    TL_EQUAL(count, QUEUES);
    TL_EQUAL(strcmp(rows[1].broker_name, LOGICAL), 0);
    TL_EQUAL(rows[1].max_offset, 8);
    TL_CHECK(rows[1].last_update_ms > 0);
    rmq_admin_queue_status_free(rows, count);
    rmq_admin_destroy(admin);
    rmq_producer_destroy(straight);
    rmq_producer_destroy(producer);
    stop(&pair);
}

/* ---- what else asks for queues ---- */

static rmq_consume_result fail_first(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    if (rmq_message_view_reconsume_times(messages[0]) == 0) {
        return RMQ_RECONSUME_LATER;
    }
    return tl_seen_listener(messages, count, context, user);
}

/* Its broker has no message of that queue id and offset to send back. */
static void a_message_of_a_logical_queue_goes_back_as_a_new_one(void)
{
    static struct tl_seen seen;
    struct pair pair;
    start(&pair);
    rmq_producer *producer = tl_producer(&pair.through);
    send_each(&pair, producer, 0, 1, at_first);
    rmq_consumer *consumer = tl_consumer(&pair.through, "*", fail_first, &seen);
    tl_seen_wait(&seen, QUEUES, WAIT_MS);
    TL_EQUAL(tl_proxy_seen(pair.to_a, SEND_BACK) + tl_proxy_seen(pair.to_b, SEND_BACK), 0);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    stop(&pair);
}

static void ordered_consumers_lock_each_queue_at_its_leader(void)
{
    static struct origins origins;
    struct pair pair;
    start(&pair);
    rmq_producer *producer = tl_producer(&pair.through);
    send_each(&pair, producer, 0, 2, at_first);
    rmq_consumer_options options = tl_consumer_options(&pair.through);
    options.consume_orderly = true;
    options.listener = note_origin;
    options.listener_user = &origins;
    rmq_consumer *consumer = tl_consumer_start(&pair.through, &options);
    tl_seen_wait(&origins.seen, 2 * QUEUES, WAIT_MS);
    TL_EQUAL(atomic_load(&origins.logical), 2 * QUEUES);
    TL_CHECK(tl_proxy_seen(pair.to_a, LOCK) > 0 && tl_proxy_seen(pair.to_b, LOCK) > 0);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    stop(&pair);
}

static void pulls_and_questions_about_a_queue_follow_it(void)
{
    struct pair pair;
    rmq_error *err = NULL;
    rmq_pull_consumer_options options;
    rmq_pull_consumer *consumer = NULL;
    rmq_pull_result *result = NULL;
    rmq_queue_list *queues = NULL;
    int64_t offset = -1;
    start(&pair);
    rmq_producer *producer = tl_producer(&pair.through);
    send_each(&pair, producer, 0, 1, at_first);
    rmq_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = pair.a.group;
    options.namesrv_addr = pair.through.namesrv;
    TL_OK(rmq_pull_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    TL_OK(rmq_pull_consumer_fetch_queues(consumer, pair.a.topic, WAIT_MS, &queues, &err));
    TL_EQUAL(rmq_queue_list_count(queues), QUEUES);
    TL_EQUAL(strcmp(rmq_queue_list_broker_name(queues, 3), LOGICAL), 0);
    rmq_queue_list_destroy(queues);
    TL_OK(rmq_pull_consumer_max_offset(consumer, pair.a.topic, LOGICAL, 0, WAIT_MS, &offset, &err));
    TL_EQUAL(offset, 1);
    move_to_b(&pair);
    TL_OK(rmq_pull_consumer_max_offset(consumer, pair.a.topic, LOGICAL, 0, WAIT_MS, &offset, &err));
    TL_EQUAL(offset, 0);
    send_to(&pair, producer, 2, 7, "b");
    TL_OK(rmq_pull_consumer_pull(consumer, pair.a.topic, LOGICAL, 2, "*", 0, 8, WAIT_MS, &result,
                                 &err));
    TL_EQUAL(rmq_pull_result_status(result), RMQ_PULL_FOUND);
    TL_EQUAL(strcmp(rmq_message_view_broker_name(rmq_pull_result_at(result, 0)), LOGICAL), 0);
    rmq_pull_result_destroy(result);
    rmq_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    stop(&pair);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(producers_and_consumers_see_logical_queues),
        TL_CASE(every_kind_of_send_follows_a_queue_that_has_moved),
        TL_CASE(a_send_waits_while_no_name_server_knows_the_new_leader),
        TL_CASE(a_send_fails_with_the_refusal_when_no_leader_is_found_in_time),
        TL_CASE(sends_pass_over_a_queue_that_nobody_leads),
        TL_CASE(a_consumer_follows_queues_that_have_moved),
        TL_CASE(a_message_of_a_logical_queue_goes_back_as_a_new_one),
        TL_CASE(ordered_consumers_lock_each_queue_at_its_leader),
        TL_CASE(pulls_and_questions_about_a_queue_follow_it),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
