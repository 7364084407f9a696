/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The client as a guest of a process: few threads, all named; nothing left after destroy, whatever
 * the order and the moment; inert after fork; a host name that cannot be resolved is an ordinary
 * error.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define CLIENTS 20

static int slow_build(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 10;
#else
    return getenv("TL_SLACK") != NULL ? 10 : 1;
#endif
}

static bool counts_by_name(void)
{
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    return true;
#endif
#elif defined(__SANITIZE_THREAD__)
    return true;
#endif
    return false;
}

/* The main thread and those whose names begin with "rmq-" and go on. A thread that nobody named
 * has the name of the program. */
static int named_threads(void)
{
    char names[8000];
    int count = 1;
    tl_thread_names(0, names, sizeof names);
    for (const char *at = strstr(names, "rmq-"); at; at = strstr(at + 1, "rmq-")) {
        count += (at == names || at[-1] == ' ') && at[4] != ' ' && at[4] != '\0';
    }
    return count;
}

/* Threads of this process. The thread sanitizer starts threads of its own when it likes: beside
 * them only the names of ours tell. */
static int own_threads(void)
{
    return counts_by_name() ? named_threads() : tl_usage_of(0).threads;
}

/* So many at most, the main one among them, and each of the others says what it is. */
static void expect_few_named_threads(int most)
{
    char names[8000];
    int threads = own_threads();
    tl_thread_names(0, names, sizeof names);
    printf("%d threads: %s\n", threads, names);
    TL_CHECK(threads > 1 && threads <= most);
    TL_EQUAL(named_threads(), threads);
}

static bool threads_are(void *arg)
{
    return own_threads() == *(int *)arg;
}

/* A joined thread is seen in /proc for a moment longer. */
static void expect_threads(int wanted)
{
    if (!tl_wait(threads_are, &wanted, 2000)) {
        char names[2000];
        tl_thread_names(0, names, sizeof names);
        tl_fail(__FILE__, __LINE__, "%d threads, not %d: %s", own_threads(), wanted, names);
    }
}

static rmq_consumer *one_worker_consumer(const struct tl_cluster *cluster, int number,
                                         rmq_listener_fn listener, void *user)
{
    rmq_consumer_options options;
    char group[100];
    snprintf(group, sizeof group, "%s-%d", cluster->group, number);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = group;
    options.namesrv_addr = cluster->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 1;
    options.listener = listener;
    options.listener_user = user;
    return tl_consumer_start(cluster, &options);
}

static void one_producer_has_at_most_three_threads(void)
{
    struct tl_cluster cluster;
    tl_cluster_start_apart(&cluster, 4); /* a broker in this process has threads, too */
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 20);
    expect_few_named_threads(4);
    rmq_producer_destroy(producer);
    expect_threads(1);
    tl_cluster_stop(&cluster);
}

/* A broker in the same process shares its loop with clients, and ends with no thread left. */
static void a_broker_and_a_producer_in_one_process_leave_no_thread(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    int before = own_threads();
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 20);
    TL_CHECK(own_threads() - before <= 3);
    rmq_producer_destroy(producer);
    expect_threads(before);
    tl_cluster_stop(&cluster);
    expect_threads(1);
}

/* Field case B03, with its figures. */
static void b03_twenty_producers_and_consumers_share_their_threads_and_each_has_a_name(void)
{
    static struct tl_seen seen[CLIENTS];
    struct tl_cluster cluster;
    rmq_producer *producers[CLIENTS];
    rmq_consumer *consumers[CLIENTS];
    tl_cluster_start_apart(&cluster, 4);
    for (int i = 0; i < CLIENTS; i++) {
        producers[i] = tl_producer(&cluster);
        consumers[i] = one_worker_consumer(&cluster, i, tl_seen_listener, &seen[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        tl_send(&cluster, producers[i], "m", i, 1);
    }
    for (int i = 0; i < CLIENTS; i++) {
        tl_seen_wait(&seen[i], CLIENTS, 15000);
    }
    expect_few_named_threads(CLIENTS + 8);
    for (int i = 0; i < CLIENTS; i++) {
        rmq_producer_destroy(producers[i]);
        rmq_consumer_destroy(consumers[i]);
    }
    expect_threads(1);
    tl_cluster_stop(&cluster);
}

static rmq_consume_result slow_listener(const rmq_message_view *const *messages, size_t count,
                                        rmq_consume_context *context, void *user)
{
    (void)context;
    (void)count;
    atomic_fetch_add((atomic_int *)user, 1);
    usleep(1000);
    return rmq_message_view_queue_id(messages[0]) >= 0 ? RMQ_CONSUME_SUCCESS : RMQ_RECONSUME_LATER;
}

struct sender {
    struct tl_cluster *cluster;
    atomic_int sent;
};

static void *keep_sending(void *user)
{
    struct sender *sender = user;
    rmq_producer *producer = tl_producer(sender->cluster);
    for (int i = 0; i < 3000; i++) {
        tl_send(sender->cluster, producer, "m", i, 1);
        atomic_fetch_add(&sender->sent, 1);
    }
    rmq_producer_destroy(producer);
    return NULL;
}

static bool uses_no_more_than(void *arg)
{
    const struct tl_usage *before = arg;
    struct tl_usage now = tl_usage_of(0);
    return now.threads <= before->threads && now.descriptors <= before->descriptors;
}

static bool has_sent(void *arg)
{
    return atomic_load(&((struct sender *)arg)->sent) > 0;
}

static void rounds_of_start_and_stop_leave_nothing(void)
{
    static atomic_int calls;
    struct tl_cluster cluster;
    struct tl_usage before = {0};
    struct sender sender = {.cluster = &cluster};
    pthread_t thread;
    rmq_error *err = NULL;
    int rounds = 60 / slow_build() + 4;
    tl_cluster_start(&cluster, 4);
    /* so that the shared threads stay between the rounds */
    rmq_producer *keeper = tl_producer(&cluster);
    tl_send(&cluster, keeper, "m", 0, 1);
    TL_EQUAL(pthread_create(&thread, NULL, keep_sending, &sender), 0);
    TL_CHECK(tl_wait(has_sent, &sender, 10000));
    for (int i = 0; i < rounds; i++) {
        rmq_consumer *consumer = one_worker_consumer(&cluster, 0, slow_listener, &calls);
        usleep((useconds_t)(i % 10) * 5000);
        TL_OK(rmq_consumer_shutdown(consumer, 0, &err));
        int at_shutdown = atomic_load(&calls);
        TL_OK(rmq_consumer_shutdown(consumer, 0, &err)); /* twice is harmless */
        rmq_consumer_destroy(consumer);
        TL_EQUAL(atomic_load(&calls), at_shutdown); /* no listener after shutdown */
        if (i == 3) {
            before = tl_usage_of(0);
        }
    }
    pthread_join(thread, NULL);
    /* The broker, in this process too, closes its ends of the connections when it sees ours
     * closed. */
    TL_CHECK(tl_wait(uses_no_more_than, &before, 5000));
    rmq_producer_destroy(keeper);
    tl_cluster_stop(&cluster);
}

static void a_consumer_that_never_started_can_be_destroyed(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_EQUAL(rmq_consumer_start(consumer, NULL), RMQ_ERR_STATE); /* no subscription */
    rmq_consumer_destroy(consumer);
    rmq_consumer_destroy(NULL);
    rmq_producer_destroy(NULL);
    tl_cluster_stop(&cluster);
}

struct inner {
    rmq_consumer *consumer;
    atomic_int shut_down;
};

static rmq_consume_result shutting_listener(const rmq_message_view *const *messages, size_t count,
                                            rmq_consume_context *context, void *user)
{
    struct inner *inner = user;
    (void)messages;
    (void)count;
    (void)context;
    rmq_consumer_shutdown(inner->consumer, 2000, NULL);
    atomic_store(&inner->shut_down, 1);
    return RMQ_CONSUME_SUCCESS;
}

static bool is_shut_down(void *arg)
{
    return atomic_load(&((struct inner *)arg)->shut_down) != 0;
}

static void shutdown_inside_the_listener_does_not_hang(void)
{
    static struct inner inner;
    struct tl_cluster cluster;
    rmq_consumer_options options;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.listener = shutting_listener;
    options.listener_user = &inner;
    TL_OK(rmq_consumer_create(&options, &inner.consumer, &err));
    TL_OK(rmq_consumer_subscribe(inner.consumer, cluster.topic, "*", &err));
    TL_OK(rmq_consumer_start(inner.consumer, &err));
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1);
    TL_CHECK(tl_wait(is_shut_down, &inner, 10000));
    rmq_consumer_destroy(inner.consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct late {
    atomic_int completed;
    atomic_int after_shutdown;
    atomic_int is_down;
};

static void count_completion(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct late *late = user;
    if ((result == NULL) == (err == NULL)) {
        abort(); /* exactly one of both */
    }
    atomic_fetch_add(&late->completed, 1);
    atomic_fetch_add(&late->after_shutdown, atomic_load(&late->is_down));
}

/* The broker swallows the sends, so all are still on their way at shutdown. */
static void sends_cut_off_by_shutdown_complete_once(void)
{
    static struct late late;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1);
    TL_OK(rmq_broker_fault_drop(cluster.broker, 310, -1, &err));
    for (int i = 0; i < 200; i++) {
        rmq_message *message = NULL;
        TL_OK(rmq_message_create(cluster.topic, &message, &err));
        TL_OK(rmq_message_copy_body(message, "x", 1));
        TL_OK(rmq_producer_send_async(producer, message, count_completion, &late, &err));
        rmq_message_destroy(message);
    }
    int64_t begin = tl_now_ms();
    TL_EQUAL(rmq_producer_shutdown(producer, 300, NULL), RMQ_ERR_TIMEOUT);
    atomic_store(&late.is_down, 1);
    TL_CHECK(tl_now_ms() - begin < 2900 * slow_build());
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&late.completed), 200);
    TL_EQUAL(atomic_load(&late.after_shutdown), 0);
    tl_cluster_stop(&cluster);
}

static void use_in_child(const struct tl_cluster *cluster, rmq_producer *producer,
                         rmq_consumer *consumer)
{
    rmq_message *message = NULL;
    rmq_batch *batch = NULL;
    bool good = rmq_message_create(cluster->topic, &message, NULL) == RMQ_OK;
    good = good && rmq_producer_send(producer, message, 1000, NULL, NULL) == RMQ_ERR_FORKED;
    good = good && rmq_consumer_poll(consumer, &batch, 1000, NULL) == RMQ_ERR_FORKED;
    rmq_message_destroy(message);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    _exit(good ? 0 : 3);
}

static void handles_are_inert_in_a_forked_child(void)
{
    struct tl_cluster cluster;
    int status = 0;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", NULL, NULL);
    tl_send(&cluster, producer, "m", 0, 1);
    int64_t begin = tl_now_ms();
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        use_in_child(&cluster, producer, consumer);
    }
    TL_EQUAL(waitpid(child, &status, 0), child);
    TL_CHECK(WIFEXITED(status));
    TL_EQUAL(WEXITSTATUS(status), 0);
    TL_CHECK(tl_now_ms() - begin < 15000);
    tl_send(&cluster, producer, "m", 1, 5); /* the parent is untouched */
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_bad_host_name_beside_a_good_address_costs_no_send(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 2);
    char good[64];
    snprintf(good, sizeof good, "%.63s", cluster.namesrv);
    snprintf(cluster.namesrv, sizeof cluster.namesrv, "no-such-host.invalid:9876;%s", good);
    int64_t begin = tl_now_ms();
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 3);
    TL_CHECK(tl_now_ms() - begin < 15000);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_bad_host_name_alone_is_an_error_that_names_it(void)
{
    struct tl_cluster cluster = {.namesrv = "no-such-host.invalid:9876"};
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_message_create("T", &message, &err));
    TL_OK(rmq_message_copy_body(message, "x", 1));
    int64_t begin = tl_now_ms();
    rmq_status st = rmq_producer_send(producer, message, 2000, NULL, &err);
    TL_CHECK(st != RMQ_OK);
    TL_CHECK(tl_now_ms() - begin < 15000);
    if (strstr(rmq_error_message(err), "no-such-host.invalid") == NULL) {
        tl_fail(__FILE__, __LINE__, "the host is not named: %s", rmq_error_message(err));
    }
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
}

static const struct tl_case cases[] = {
    TL_CASE(one_producer_has_at_most_three_threads),
    TL_CASE(a_broker_and_a_producer_in_one_process_leave_no_thread),
    TL_CASE(b03_twenty_producers_and_consumers_share_their_threads_and_each_has_a_name),
    {"rounds_of_start_and_stop_leave_nothing", rounds_of_start_and_stop_leave_nothing, 90},
    TL_CASE(a_consumer_that_never_started_can_be_destroyed),
    TL_CASE(shutdown_inside_the_listener_does_not_hang),
    TL_CASE(sends_cut_off_by_shutdown_complete_once),
    TL_CASE(handles_are_inert_in_a_forked_child),
    TL_CASE(a_bad_host_name_beside_a_good_address_costs_no_send),
    TL_CASE(a_bad_host_name_alone_is_an_error_that_names_it),
};

int main(int argc, char **argv)
{
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
