/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Transactions: committed, rolled back and open ones by thirds; questions answered by another
 * producer of the group, also when the one that prepared was killed; answers through the event
 * queue; what is known after a failure; shutdown while questions come. Against a real broker with a
 * short transactionCheckInterval, too.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define WAIT_MS     120000 /* a real broker asks every few seconds at most */
#define QUEUES      4
#define END         37
#define MANY        300
#define LARGE_BYTES 6000 /* compressed on the way */
#define LARGE_EVERY 10

static const char *const quick[] = {"transactionTimeOut", "100", "transactionCheckInterval", "100",
                                    NULL};

static struct tl_seen seen;

/* What is asked of the checkers of a case. */
struct asked {
    atomic_int times[MANY];
    atomic_int total;
    atomic_int wrong;       /* another body than was sent */
    rmq_producer *producer; /* shut down by the first question, if set */
};

static size_t body_of(int n, char out[LARGE_BYTES])
{
    int used = snprintf(out, LARGE_BYTES, "body-%d", n);
    if (n % LARGE_EVERY == 0) {
        memset(out + used, 'x', (size_t)(LARGE_BYTES - used));
        return LARGE_BYTES;
    }
    return (size_t)used;
}

static rmq_message *message_of(const struct tl_cluster *cluster, int n)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    char body[LARGE_BYTES];
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_set_property(message, "n", number));
    TL_OK(rmq_message_copy_body(message, body, body_of(n, body)));
    return message;
}

static rmq_producer *producer_of(const struct tl_cluster *cluster, rmq_transaction_check_fn check,
                                 void *user, rmq_events *events)
{
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    char group[80];
    snprintf(group, sizeof group, "P%s", cluster->group);
    tl_producer_options_init(&options);
    options.producer_group = group;
    options.namesrv_addr = cluster->namesrv;
    options.transaction_check = check;
    options.transaction_check_user = user;
    options.events = events;
    /* one that does not send learns brokers from the topic's route */
    options.heartbeat_broker_interval_ms = 1000;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

/* A message that nobody wants makes the producer known to the broker. */
static void introduce(const struct tl_cluster *cluster, rmq_producer *producer)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_set_tag(message, "hello"));
    TL_OK(rmq_message_copy_body(message, "hello", 5));
    TL_OK(rmq_producer_send(producer, message, 10000, NULL, &err));
    rmq_message_destroy(message);
}

static rmq_transaction_state note_question(struct asked *asked, const rmq_message_view *message,
                                           int *n)
{
    char body[LARGE_BYTES];
    size_t size = 0;
    const void *got = rmq_message_view_body(message, &size);
    *n = atoi(rmq_message_view_property(message, "n"));
    size_t want = body_of(*n, body);
    if (*n < 0 || *n >= MANY || size != want || memcmp(got, body, want) != 0) {
        atomic_fetch_add(&asked->wrong, 1);
        return RMQ_TRANSACTION_UNKNOWN;
    }
    int before = atomic_fetch_add(&asked->times[*n], 1);
    if (before == 0) {
        atomic_fetch_add(&asked->total, 1);
    }
    return before > 0 ? RMQ_TRANSACTION_COMMIT : RMQ_TRANSACTION_UNKNOWN;
}

/* By thirds of the number: commit, roll back, first unknown and then commit. */
static rmq_transaction_state check_by_thirds(const rmq_message_view *message, void *user)
{
    int n = 0;
    rmq_transaction_state third = note_question(user, message, &n);
    return n / 3 % 3 == 0   ? RMQ_TRANSACTION_COMMIT
           : n / 3 % 3 == 1 ? RMQ_TRANSACTION_ROLLBACK
                            : third;
}

/* On a slow machine those that execute ends may be asked about, too. */
static rmq_transaction_state check_open(const rmq_message_view *message, void *user)
{
    rmq_transaction_state open = check_by_thirds(message, user);
    int n = atoi(rmq_message_view_property(message, "n"));
    return n % 3 == 0 ? RMQ_TRANSACTION_COMMIT : n % 3 == 1 ? RMQ_TRANSACTION_ROLLBACK : open;
}

static rmq_transaction_state check_commit(const rmq_message_view *message, void *user)
{
    int n = 0;
    (void)note_question(user, message, &n);
    return RMQ_TRANSACTION_COMMIT;
}

static rmq_transaction_state execute_by_thirds(const rmq_message *message, const char *id,
                                               void *user)
{
    int n = atoi(rmq_message_property(message, "n"));
    (void)user;
    TL_CHECK(strlen(id) == 32);
    return n % 3 == 0   ? RMQ_TRANSACTION_COMMIT
           : n % 3 == 1 ? RMQ_TRANSACTION_ROLLBACK
                        : RMQ_TRANSACTION_UNKNOWN;
}

static rmq_transaction_state execute_commit(const rmq_message *message, const char *id, void *user)
{
    (void)message;
    (void)id;
    (void)user;
    return RMQ_TRANSACTION_COMMIT;
}

static bool is_committed(int n)
{
    return n % 3 == 0 || (n % 3 == 2 && n / 3 % 3 != 1);
}

/*
 * How often number n was consumed: never unless committed, else once. The real broker notes an end
 * only some seconds later and may ask about a transaction that was committed meanwhile; it takes
 * the second commit too, so there each question may make one more.
 */
static void check_times(const struct tl_cluster *cluster, int n, bool committed, int asked)
{
    int times = atomic_load(&seen.times[n]);
    int most = cluster->broker != NULL ? 1 : 1 + asked;
    if (times < committed || times > (committed ? most : 0)) {
        tl_fail(__FILE__, __LINE__, "number %d, %s and asked about %d times, was consumed %d times",
                n, committed ? "committed" : "not committed", asked, times);
    }
}

struct goal {
    struct asked *asked;
    int total;
};

static bool all_asked(void *arg)
{
    const struct goal *goal = arg;
    return atomic_load(&goal->asked->total) >= goal->total;
}

static void wait_asked(struct asked *asked, int total)
{
    struct goal goal = {asked, total};
    if (!tl_wait(all_asked, &goal, WAIT_MS)) {
        tl_fail(__FILE__, __LINE__, "%d of %d transactions were asked about",
                atomic_load(&asked->total), total);
    }
}

static void send_one(const struct tl_cluster *cluster, rmq_producer *producer, int n)
{
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    rmq_transaction_state state = RMQ_TRANSACTION_UNKNOWN;
    rmq_message *message = message_of(cluster, n);
    TL_OK(rmq_producer_send_in_transaction(producer, message, execute_by_thirds, NULL, 10000,
                                           &state, &result, &err));
    TL_EQUAL(state, execute_by_thirds(message, rmq_send_result_msg_id(result), NULL));
    TL_EQUAL(rmq_send_result_status(result), RMQ_SEND_OK);
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
}

static void exactly_the_committed_messages_are_consumed(void)
{
    struct tl_cluster cluster;
    static struct asked asked;
    int committed = 0;
    tl_cluster_start_with(&cluster, QUEUES, quick);
    rmq_producer *producer = producer_of(&cluster, check_open, &asked, NULL);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    for (int n = 0; n < MANY; n++) {
        send_one(&cluster, producer, n);
        committed += is_committed(n);
    }
    tl_seen_wait(&seen, committed, WAIT_MS);
    wait_asked(&asked, MANY / 3);
    rmq_producer_destroy(producer);
    rmq_consumer_destroy(consumer);
    for (int n = 0; n < MANY; n++) {
        check_times(&cluster, n, is_committed(n), atomic_load(&asked.times[n]));
        TL_CHECK(n % 3 != 2 || atomic_load(&asked.times[n]) > 0);
    }
    TL_EQUAL(atomic_load(&asked.wrong), 0);
    tl_cluster_stop(&cluster);
}

static rmq_transaction *prepare(const struct tl_cluster *cluster, rmq_producer *producer, int n)
{
    rmq_error *err = NULL;
    rmq_transaction *transaction = NULL;
    rmq_message *message = message_of(cluster, n);
    TL_OK(rmq_producer_prepare_transaction(producer, message, 10000, &transaction, &err));
    rmq_message_destroy(message);
    return transaction;
}

static void a_transaction_in_steps_is_ended_once(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = producer_of(&cluster, NULL, NULL, NULL);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    rmq_transaction *first = prepare(&cluster, producer, 1);
    rmq_transaction *second = prepare(&cluster, producer, 2);
    TL_CHECK(strcmp(rmq_transaction_id(first),
                    rmq_send_result_msg_id(rmq_transaction_result(first))) == 0);
    TL_OK(rmq_transaction_end(first, RMQ_TRANSACTION_UNKNOWN, &err));
    TL_OK(rmq_transaction_end(second, RMQ_TRANSACTION_ROLLBACK, &err));
    TL_OK(rmq_transaction_end(first, RMQ_TRANSACTION_COMMIT, &err));
    TL_EQUAL(rmq_transaction_end(first, RMQ_TRANSACTION_COMMIT, NULL), RMQ_ERR_STATE);
    TL_EQUAL(rmq_transaction_end(second, RMQ_TRANSACTION_COMMIT, NULL), RMQ_ERR_STATE);
    tl_seen_wait(&seen, 1, WAIT_MS);
    rmq_transaction_destroy(first);
    rmq_transaction_destroy(second);
    rmq_producer_destroy(producer);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.times[1]), 1);
    TL_EQUAL(atomic_load(&seen.total), 1);
    tl_cluster_stop(&cluster);
}

/* In a child: prepares, says so, and waits for its end. */
static void prepare_and_hang(const struct tl_cluster *cluster, int count, int fd)
{
    rmq_producer *producer = producer_of(cluster, NULL, NULL, NULL);
    for (int n = 0; n < count; n++) {
        (void)prepare(cluster, producer, n);
    }
    (void)!write(fd, "x", 1);
    pause();
    _exit(0);
}

static void another_producer_answers_for_one_that_was_killed(void)
{
    struct tl_cluster cluster;
    static struct asked asked;
    int pipes[2];
    int status = 0;
    char byte = 0;
#if defined(__SANITIZE_THREAD__)
    tl_skip("the thread sanitizer allows no new threads in a child of a process that had some");
#endif
    tl_cluster_start_with(&cluster, QUEUES, quick);
    TL_EQUAL(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        prepare_and_hang(&cluster, 30, pipes[1]);
    }
    TL_EQUAL(read(pipes[0], &byte, 1), 1);
    TL_EQUAL(kill(child, SIGKILL), 0);
    TL_EQUAL(waitpid(child, &status, 0), child);
    /* it never sends */
    rmq_producer *producer = producer_of(&cluster, check_by_thirds, &asked, NULL);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    wait_asked(&asked, 30);
    /* 0 … 29 without those of n / 3 % 3 == 1 */
    tl_seen_wait(&seen, 21, WAIT_MS);
    rmq_producer_destroy(producer);
    rmq_consumer_destroy(consumer);
    for (int n = 0; n < 30; n++) {
        check_times(&cluster, n, n / 3 % 3 != 1, atomic_load(&asked.times[n]));
    }
    tl_cluster_stop(&cluster);
}

static void the_producers_of_a_group_share_the_questions(void)
{
    struct tl_cluster cluster;
    static struct asked first_asked, second_asked;
    tl_cluster_start_with(&cluster, QUEUES, quick);
    rmq_producer *first = producer_of(&cluster, check_commit, &first_asked, NULL);
    rmq_producer *second = producer_of(&cluster, check_commit, &second_asked, NULL);
    introduce(&cluster, first);
    introduce(&cluster, second);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    for (int n = 1; n <= 30; n++) {
        rmq_transaction_destroy(prepare(&cluster, first, n));
    }
    tl_seen_wait(&seen, 31, WAIT_MS);
    rmq_producer_destroy(first);
    rmq_producer_destroy(second);
    rmq_consumer_destroy(consumer);
    for (int n = 1; n <= 30; n++) {
        check_times(&cluster, n, true,
                    atomic_load(&first_asked.times[n]) + atomic_load(&second_asked.times[n]));
    }
    TL_CHECK(atomic_load(&first_asked.total) > 0);
    TL_CHECK(atomic_load(&second_asked.total) > 0);
    tl_cluster_stop(&cluster);
}

static void questions_are_answered_through_the_event_queue(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    static struct asked asked;
    int n = 0;
    tl_cluster_start_with(&cluster, QUEUES, quick);
    TL_OK(rmq_events_create(&events, &err));
    rmq_producer *producer = producer_of(&cluster, NULL, NULL, events);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    rmq_transaction_destroy(prepare(&cluster, producer, 10));
    for (int times = 1; times <= 2; times++) {
        TL_EQUAL(rmq_events_take(events, &event, 1, WAIT_MS), 1);
        TL_EQUAL(rmq_event_get_type(event), RMQ_EVENT_CHECK_TRANSACTION);
        TL_CHECK(rmq_event_source(event) == producer);
        (void)note_question(&asked, rmq_event_message(event), &n);
        TL_EQUAL(n, 10);
        if (times == 2) { /* the first is not answered */
            TL_OK(rmq_producer_answer_check(producer, event, RMQ_TRANSACTION_COMMIT, &err));
            TL_EQUAL(rmq_producer_answer_check(producer, event, RMQ_TRANSACTION_COMMIT, NULL),
                     RMQ_ERR_STATE);
        }
        rmq_event_destroy(event);
    }
    TL_EQUAL(atomic_load(&asked.wrong), 0);
    tl_seen_wait(&seen, 1, WAIT_MS);
    rmq_transaction_destroy(prepare(&cluster, producer, 11)); /* questions that nobody takes */
    TL_EQUAL(rmq_events_take(events, &event, 1, WAIT_MS), 1);
    rmq_producer_destroy(producer);
    rmq_event_destroy(event);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

static void an_end_that_got_lost_is_an_error_and_the_question_mends_it(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_send_result *result = NULL;
    rmq_transaction_state state = RMQ_TRANSACTION_UNKNOWN;
    static struct asked asked;
    tl_cluster_start_with(&cluster, QUEUES, quick);
    tl_cluster_needs_own(&cluster);
    options = tl_producer_options(&cluster);
    options.send_msg_timeout_ms = 1000;
    options.transaction_check = check_commit;
    options.transaction_check_user = &asked;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    rmq_message *message = message_of(&cluster, 7);
    TL_OK(rmq_broker_fault_answer(cluster.broker, END, 1, 1, "not now", &err));
    TL_EQUAL(rmq_producer_send_in_transaction(producer, message, execute_commit, NULL, 0, &state,
                                              &result, &err),
             RMQ_ERR_BROKER);
    TL_EQUAL(rmq_error_remote_code(err), 1);
    rmq_error_destroy(err);
    err = NULL;
    TL_EQUAL(state, RMQ_TRANSACTION_COMMIT);
    TL_CHECK(result != NULL);
    rmq_send_result_destroy(result);
    tl_seen_wait(&seen, 1, WAIT_MS);
    TL_EQUAL(atomic_load(&asked.times[7]), 1);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void a_half_message_that_is_refused_is_not_executed(void)
{
    const char *const rejecting[] = {"rejectTransactionMessage", "true", NULL};
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    tl_cluster_start_with(&cluster, QUEUES, rejecting);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = producer_of(&cluster, NULL, NULL, NULL);
    rmq_message *message = message_of(&cluster, 1);
    TL_EQUAL(
        rmq_producer_send_in_transaction(producer, message, NULL, NULL, 0, NULL, &result, NULL),
        RMQ_ERR_INVALID);
    TL_EQUAL(rmq_producer_send_in_transaction(producer, message, execute_commit, NULL, 0, NULL,
                                              &result, &err),
             RMQ_ERR_BROKER);
    TL_EQUAL(rmq_error_remote_code(err), 16);
    TL_CHECK(result == NULL);
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static rmq_transaction_state check_and_shut_down(const rmq_message_view *message, void *user)
{
    struct asked *asked = user;
    int n = 0;
    (void)note_question(asked, message, &n);
    (void)rmq_producer_shutdown(asked->producer, 1000, NULL);
    return RMQ_TRANSACTION_UNKNOWN;
}

static void a_producer_shut_down_by_its_checker_is_not_asked_again(void)
{
    struct tl_cluster cluster;
    static struct asked asked;
    tl_cluster_start_with(&cluster, QUEUES, quick);
    rmq_producer *producer = producer_of(&cluster, check_and_shut_down, &asked, NULL);
    asked.producer = producer;
    for (int n = 0; n < 20; n++) {
        rmq_transaction_destroy(prepare(&cluster, producer, n));
    }
    wait_asked(&asked, 1);
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&asked.total), 1);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"exactly_the_committed_messages_are_consumed", exactly_the_committed_messages_are_consumed,
         240},
        TL_CASE(a_transaction_in_steps_is_ended_once),
        {"another_producer_answers_for_one_that_was_killed",
         another_producer_answers_for_one_that_was_killed, 240},
        {"the_producers_of_a_group_share_the_questions",
         the_producers_of_a_group_share_the_questions, 240},
        {"questions_are_answered_through_the_event_queue",
         questions_are_answered_through_the_event_queue, 240},
        TL_CASE(an_end_that_got_lost_is_an_error_and_the_question_mends_it),
        TL_CASE(a_half_message_that_is_refused_is_not_executed),
        {"a_producer_shut_down_by_its_checker_is_not_asked_again",
         a_producer_shut_down_by_its_checker_is_not_asked_again, 240},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
