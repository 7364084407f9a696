/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What a program may tell a consumer: SQL92 conditions, who gets which queue, pauses, the number of
 * workers; and what it may ask. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/usage.h"

static struct tl_seen seen;
static char store[64];
static rmq_namesrv *namesrv;

static void start_broker(struct tl_cluster *cluster, int queues, bool filter)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    memset(cluster, 0, sizeof *cluster);
    if (getenv("RMQ_NAMESRV")) {
        tl_skip("the broker is not in this process");
    }
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_namesrv_start(NULL, 0, &namesrv, &err));
    TL_OK(rmq_broker_config_set(config, "namesrvAddr", rmq_namesrv_addr(namesrv), &err));
    TL_OK(rmq_broker_config_set(config, "listenPort", "0", &err));
    snprintf(store, sizeof store, "/tmp/rmq-control-XXXXXX");
    TL_CHECK(mkdtemp(store) != NULL);
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", store, &err));
    TL_OK(rmq_broker_config_set(config, "enablePropertyFilter", filter ? "true" : "false", &err));
    TL_OK(rmq_broker_start(config, &cluster->broker, &err));
    rmq_broker_config_destroy(config);
    snprintf(cluster->topic, sizeof cluster->topic, "Control");
    snprintf(cluster->group, sizeof cluster->group, "control-group");
    snprintf(cluster->namesrv, sizeof cluster->namesrv, "%s", rmq_namesrv_addr(namesrv));
    TL_OK(rmq_broker_create_topic(cluster->broker, cluster->topic, queues, &err));
}

static void stop_broker(struct tl_cluster *cluster)
{
    char command[128];
    tl_cluster_stop(cluster);
    rmq_namesrv_stop(namesrv);
    snprintf(command, sizeof command, "rm -rf %s", store);
    TL_EQUAL(system(command), 0);
}

static rmq_consumer_options options_of(const struct tl_cluster *cluster)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    return options;
}

static rmq_consumer *create(const rmq_consumer_options *options)
{
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_consumer_create(options, &consumer, &err));
    return consumer;
}

static rmq_consumer *start(const struct tl_cluster *cluster, const rmq_consumer_options *options)
{
    rmq_consumer *consumer = create(options);
    rmq_error *err = NULL;
    TL_OK(rmq_consumer_subscribe(consumer, cluster->topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    return consumer;
}

/* ---- SQL92 ---- */

static void a_condition_on_properties_is_kept_by_the_broker(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    start_broker(&cluster, 2, true);
    rmq_consumer_options options = options_of(&cluster);
    rmq_consumer *consumer = create(&options);
    TL_OK(rmq_consumer_subscribe_selector(consumer, cluster.topic, RMQ_EXPRESSION_SQL92,
                                          "n BETWEEN 10 AND 19 OR n = '97'", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    tl_send_some(&cluster, 0, 98);
    tl_seen_wait(&seen, 11, 10000);
    TL_OK(rmq_consumer_subscribe_selector(consumer, cluster.topic, RMQ_EXPRESSION_SQL92, "n > 100",
                                          &err));
    tl_send_some(&cluster, 98, 4);
    tl_seen_wait(&seen, 12, 10000);
    TL_EQUAL(atomic_load(&seen.total), 12);
    TL_EQUAL(atomic_load(&seen.times[101]), 1);
    rmq_consumer_destroy(consumer);
    stop_broker(&cluster);
}

static void must_refuse(const struct tl_cluster *cluster, const char *sql, const char *words)
{
    rmq_error *err = NULL;
    rmq_consumer_options options = options_of(cluster);
    rmq_consumer *consumer = create(&options);
    TL_OK(
        rmq_consumer_subscribe_selector(consumer, cluster->topic, RMQ_EXPRESSION_SQL92, sql, &err));
    TL_EQUAL(rmq_consumer_start(consumer, &err), RMQ_ERR_BROKER);
    if (!strstr(rmq_error_message(err), words)) {
        tl_fail(__FILE__, __LINE__, "no %s in %s", words, rmq_error_message(err));
    }
    rmq_error_destroy(err);
    rmq_consumer_destroy(consumer);
}

static void a_broker_without_sql_or_with_a_bad_condition_ends_the_start_with_its_words(void)
{
    struct tl_cluster cluster;
    start_broker(&cluster, 1, false);
    must_refuse(&cluster, "n > 1", "does not support consumer to filter message by SQL92");
    stop_broker(&cluster);
    start_broker(&cluster, 1, true);
    must_refuse(&cluster, "n >", "SUBSCRIPTION_PARSE_FAILED");
    stop_broker(&cluster);
}

static void a_busy_broker_is_asked_about_the_condition_again(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    const char *const filters[] = {"enablePropertyFilter", "true", NULL};
    tl_detour_start(&detour, 2, filters);
    TL_CHECK(tl_proxy_script(detour.proxy, "answer request 46 times 2 code 2 remark busy;"
                                           "answer request 46 times 1 code 1500 remark away"));
    rmq_consumer_options options = options_of(&detour.through);
    options.rebalance_interval_ms = 100;
    rmq_consumer *consumer = create(&options);
    TL_OK(rmq_consumer_subscribe_selector(consumer, detour.through.topic, RMQ_EXPRESSION_SQL92,
                                          "n >= 0", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    tl_send_some(&detour.cluster, 0, 10);
    tl_seen_wait(&seen, 10, 20000);
    rmq_consumer_destroy(consumer);
    tl_detour_stop(&detour);
}

/* The broker's word on the first condition comes when the second one is there. */
static void a_condition_that_takes_the_place_of_a_bad_one_is_judged_by_itself(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    const char *const filters[] = {"enablePropertyFilter", "true", NULL};
    tl_detour_start(&detour, 2, filters);
    TL_CHECK(tl_proxy_script(detour.proxy, "delay response 46 times 1 ms 500"));
    rmq_consumer_options options = options_of(&detour.through);
    rmq_consumer *consumer = start(&detour.through, &options);
    const char *topic = detour.through.topic;
    TL_OK(rmq_consumer_subscribe_selector(consumer, topic, RMQ_EXPRESSION_SQL92, "n >", &err));
    TL_OK(rmq_consumer_subscribe_selector(consumer, topic, RMQ_EXPRESSION_SQL92, "n >= 0", &err));
    tl_send_some(&detour.cluster, 0, 10);
    tl_seen_wait(&seen, 10, 20000);
    rmq_consumer_destroy(consumer);
    tl_detour_stop(&detour);
}

/* The refusal comes when no queue waits for a moment after its pull was given up any more. */
static void tags_take_the_place_of_a_refused_condition_at_once(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    const char *const filters[] = {"enablePropertyFilter", "true", NULL};
    tl_detour_start(&detour, 2, filters);
    TL_CHECK(tl_proxy_script(detour.proxy, "delay response 46 times 1 ms 1000"));
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer_options options = options_of(&detour.through);
    options.rebalance_interval_ms = 600000;
    options.events = events;
    rmq_consumer *consumer = start(&detour.through, &options);
    const char *topic = detour.through.topic;
    TL_OK(rmq_consumer_subscribe_selector(consumer, topic, RMQ_EXPRESSION_SQL92, "n >", &err));
    bool refused = false;
    while (!refused && rmq_events_take(events, &event, 1, 20000) == 1) {
        refused = rmq_event_get_type(event) == RMQ_EVENT_ERROR &&
                  rmq_error_status(rmq_event_error(event)) == RMQ_ERR_BROKER;
        rmq_event_destroy(event);
    }
    TL_CHECK(refused);
    TL_OK(rmq_consumer_subscribe(consumer, topic, "*", &err));
    tl_send_some(&detour.cluster, 0, 10);
    tl_seen_wait(&seen, 10, 20000);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    tl_detour_stop(&detour);
}

static void an_unknown_expression_type_and_an_empty_condition_are_refused_at_once(void)
{
    struct tl_cluster cluster;
    start_broker(&cluster, 1, true);
    rmq_consumer_options options = options_of(&cluster);
    rmq_consumer *consumer = create(&options);
    TL_EQUAL(
        rmq_consumer_subscribe_selector(consumer, cluster.topic, RMQ_EXPRESSION_SQL92, "", NULL),
        RMQ_ERR_INVALID);
    TL_EQUAL(
        rmq_consumer_subscribe_selector(consumer, cluster.topic, (rmq_expression_type)7, "*", NULL),
        RMQ_ERR_INVALID);
    rmq_consumer_destroy(consumer);
    stop_broker(&cluster);
}

/* ---- subscriptions that come and go ---- */

static void a_topic_that_is_given_up_goes_on_where_it_stopped(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    start_broker(&cluster, 2, false);
    rmq_consumer_options options = options_of(&cluster);
    rmq_consumer *consumer = start(&cluster, &options);
    for (int round = 0; round < 3; round++) {
        tl_send_some(&cluster, round * 20, 10);
        tl_seen_wait(&seen, round * 20 + 10, 10000);
        TL_OK(rmq_consumer_unsubscribe(consumer, cluster.topic, &err));
        TL_EQUAL(rmq_consumer_unsubscribe(consumer, cluster.topic, NULL), RMQ_ERR_NOT_FOUND);
        tl_send_some(&cluster, round * 20 + 10, 10);
        TL_EQUAL(atomic_load(&seen.different), round * 20 + 10);
        TL_OK(rmq_consumer_subscribe(consumer, cluster.topic, "*", &err));
        tl_seen_wait(&seen, round * 20 + 20, 10000);
    }
    TL_EQUAL(atomic_load(&seen.total), 60);
    rmq_consumer_destroy(consumer);
    stop_broker(&cluster);
}

/* ---- pauses, lag ---- */

struct queue_goal {
    rmq_consumer *consumer;
    const char *topic;
    int64_t lag;
};

static bool lag_is(void *arg)
{
    const struct queue_goal *goal = arg;
    int64_t lag = -1;
    return rmq_consumer_lag(goal->consumer, goal->topic, "broker-a", 0, &lag, NULL) == RMQ_OK &&
           lag == goal->lag;
}

static void a_suspended_queue_waits_while_the_others_go_on(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int64_t lag = 0;
    start_broker(&cluster, 2, false);
    rmq_consumer_options options = options_of(&cluster);
    options.pull_batch_size = 1; /* pulls that are parked already would take the first ones */
    rmq_consumer *consumer = start(&cluster, &options);
    tl_send_some(&cluster, 0, 10);
    tl_seen_wait(&seen, 10, 10000);
    struct queue_goal goal = {consumer, cluster.topic, 0};
    TL_CHECK(tl_wait(lag_is, &goal, 20000));
    TL_OK(rmq_consumer_suspend(consumer));
    tl_send_some(&cluster, 10, 10);
    TL_EQUAL(atomic_load(&seen.different), 10);
    TL_OK(rmq_consumer_suspend_queue(consumer, cluster.topic, "broker-a", 0, &err));
    TL_OK(rmq_consumer_resume(consumer));
    tl_seen_wait(&seen, 15, 10000);
    TL_EQUAL(atomic_load(&seen.different), 15);
    TL_OK(rmq_consumer_resume_queue(consumer, cluster.topic, "broker-a", 0, &err));
    tl_seen_wait(&seen, 20, 10000);
    TL_CHECK(tl_wait(lag_is, &goal, 20000));
    TL_EQUAL(rmq_consumer_lag(consumer, cluster.topic, "broker-a", 7, &lag, NULL),
             RMQ_ERR_NOT_FOUND);
    TL_EQUAL(rmq_consumer_suspend_queue(consumer, "Nothing", "broker-a", 0, NULL),
             RMQ_ERR_NOT_FOUND);
    rmq_consumer_destroy(consumer);
    stop_broker(&cluster);
}

/* ---- workers ---- */

static atomic_int inside;
static atomic_bool hold;

static rmq_consume_result stand(const rmq_message_view *const *messages, size_t count,
                                rmq_consume_context *context, void *user)
{
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&hold)) {
        usleep(1000);
    }
    atomic_fetch_sub(&inside, 1);
    return tl_seen_listener(messages, count, context, user);
}

static bool are_inside(void *arg)
{
    return atomic_load(&inside) == *(const int *)arg;
}

static void the_number_of_workers_changes_while_they_work(void)
{
    static const int numbers[] = {2, 9, 3, 12, 1};
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int sent = 0;
    start_broker(&cluster, 4, false);
    rmq_consumer_options options = options_of(&cluster);
    options.consume_thread_nums = 5;
    options.listener = stand;
    rmq_consumer *consumer = start(&cluster, &options);
    for (int i = 0; i < 5; i++) {
        TL_OK(rmq_consumer_set_consume_thread_nums(consumer, numbers[i], &err));
        atomic_store(&hold, true);
        tl_send_some(&cluster, sent, 40);
        sent += 40;
        int wanted = numbers[i];
        TL_CHECK(tl_wait(are_inside, &wanted, 10000));
        usleep(50000); /* more would have come by now */
        TL_EQUAL(atomic_load(&inside), wanted);
        atomic_store(&hold, false);
        tl_seen_wait(&seen, sent, 10000);
    }
    TL_EQUAL(rmq_consumer_set_consume_thread_nums(consumer, 0, NULL), RMQ_ERR_INVALID);
    TL_EQUAL(rmq_consumer_set_consume_thread_nums(consumer, 1001, NULL), RMQ_ERR_INVALID);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), sent);
    stop_broker(&cluster);
}

/* ---- shares ---- */

static int queues_of(rmq_consumer *consumer, const char *topic)
{
    char *text = NULL;
    int count = 0;
    rmq_error *err = NULL;
    TL_OK(rmq_consumer_assignment(consumer, &text, &err));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        count += strncmp(line, topic, strlen(topic)) == 0 ? 1 : 0;
    }
    rmq_string_free(text);
    return count;
}

struct share_goal {
    rmq_consumer *consumers[3];
    int counts[3];
    const char *topic;
};

static bool are_shared(void *arg)
{
    const struct share_goal *goal = arg;
    for (int i = 0; i < 3 && goal->consumers[i]; i++) {
        if (queues_of(goal->consumers[i], goal->topic) != goal->counts[i]) {
            return false;
        }
    }
    return true;
}

/* The first member, by its id, gets all but one. */
static rmq_status greedy(const char *client_id, const rmq_queue_list *queues,
                         const char *const *clients, size_t client_count, rmq_queue_list *mine,
                         void *user)
{
    bool first = strcmp(clients[0], client_id) == 0;
    bool last = strcmp(clients[client_count - 1], client_id) == 0;
    size_t count = rmq_queue_list_count(queues);
    atomic_fetch_add((atomic_int *)user, 1);
    for (size_t i = 0; i < count; i++) {
        if ((first && i + 1 < count) || (last && i + 1 == count)) {
            rmq_status st = rmq_queue_list_add(mine, rmq_queue_list_topic(queues, i),
                                               rmq_queue_list_broker_name(queues, i),
                                               rmq_queue_list_queue_id(queues, i), NULL);
            if (st != RMQ_OK) {
                return st;
            }
        }
    }
    return RMQ_OK;
}

static void an_own_function_shares_the_queues(void)
{
    struct tl_cluster cluster;
    static atomic_int calls;
    start_broker(&cluster, 5, false);
    rmq_consumer_options options = options_of(&cluster);
    options.allocate = greedy;
    options.allocate_user = &calls;
    struct share_goal goal = {.topic = cluster.topic, .counts = {4, 1}};
    options.client_ip = "10.0.0.1";
    goal.consumers[0] = start(&cluster, &options);
    options.client_ip = "10.0.0.2";
    goal.consumers[1] = start(&cluster, &options);
    TL_CHECK(tl_wait(are_shared, &goal, 10000));
    TL_CHECK(atomic_load(&calls) > 0);
    tl_send_some(&cluster, 0, 50);
    tl_seen_wait(&seen, 50, 10000);
    rmq_consumer_destroy(goal.consumers[0]);
    rmq_consumer_destroy(goal.consumers[1]);
    stop_broker(&cluster);
}

static void a_fixed_list_and_machine_rooms_are_options(void)
{
    struct tl_cluster cluster;
    rmq_consumer *consumer = NULL;
    start_broker(&cluster, 4, false);
    rmq_consumer_options options = options_of(&cluster);
    options.allocate_strategy = "CONFIG";
    options.message_queues = "Control broker-a 1;Control broker-a 3;Control elsewhere 0";
    struct share_goal goal = {.topic = cluster.topic, .counts = {2}};
    goal.consumers[0] = start(&cluster, &options);
    TL_CHECK(tl_wait(are_shared, &goal, 10000));
    rmq_consumer_destroy(goal.consumers[0]);
    /* as rmq_consumer_assignment tells them */
    options.message_queues = "Control broker-a 0\nControl broker-a 1\nControl broker-a 2\n"
                             "Control broker-a 3\n";
    goal.counts[0] = 4;
    goal.consumers[0] = start(&cluster, &options);
    TL_CHECK(tl_wait(are_shared, &goal, 10000));
    rmq_consumer_destroy(goal.consumers[0]);

    options.message_queues = "Control broker-a";
    TL_EQUAL(rmq_consumer_create(&options, &consumer, NULL), RMQ_ERR_INVALID);
    options.allocate_strategy = "MACHINE_ROOM";
    TL_EQUAL(rmq_consumer_create(&options, &consumer, NULL), RMQ_ERR_INVALID);
    options.machine_rooms = "north,south"; /* this broker is in no room */
    goal.counts[0] = 0;
    goal.consumers[0] = start(&cluster, &options);
    TL_CHECK(tl_wait(are_shared, &goal, 10000));
    rmq_consumer_destroy(goal.consumers[0]);
    options.allocate_strategy = "MACHINE_ROOM_NEARBY";
    TL_EQUAL(rmq_consumer_create(&options, &consumer, NULL), RMQ_ERR_INVALID);
    stop_broker(&cluster);
}

static const char *room_of(const char *name, size_t *length, void *user)
{
    *length = strcspn(name, "-");
    return name;
}

static void a_room_without_members_is_shared_by_all(void)
{
    struct tl_cluster cluster;
    start_broker(&cluster, 4, false);
    rmq_consumer_options options = options_of(&cluster);
    options.allocate_strategy = "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE";
    options.machine_room = room_of;
    struct share_goal goal = {.topic = cluster.topic, .counts = {2, 2}};
    options.client_ip = "11.0.0.1"; /* not in the broker's room */
    goal.consumers[0] = start(&cluster, &options);
    options.client_ip = "11.0.0.2";
    goal.consumers[1] = start(&cluster, &options);
    TL_CHECK(tl_wait(are_shared, &goal, 10000));
    rmq_consumer_destroy(goal.consumers[0]);
    rmq_consumer_destroy(goal.consumers[1]);
    stop_broker(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_condition_on_properties_is_kept_by_the_broker),
        TL_CASE(a_broker_without_sql_or_with_a_bad_condition_ends_the_start_with_its_words),
        TL_CASE(a_busy_broker_is_asked_about_the_condition_again),
        TL_CASE(a_condition_that_takes_the_place_of_a_bad_one_is_judged_by_itself),
        TL_CASE(tags_take_the_place_of_a_refused_condition_at_once),
        TL_CASE(an_unknown_expression_type_and_an_empty_condition_are_refused_at_once),
        TL_CASE(a_topic_that_is_given_up_goes_on_where_it_stopped),
        TL_CASE(a_suspended_queue_waits_while_the_others_go_on),
        TL_CASE(the_number_of_workers_changes_while_they_work),
        TL_CASE(an_own_function_shares_the_queues),
        TL_CASE(a_fixed_list_and_machine_rooms_are_options),
        TL_CASE(a_room_without_members_is_shared_by_all),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
