/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Consumers whose broker shares the queues out, pulled and popped: what is consumed is gone, what
 * is not comes again, and a group is switched while it runs. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define INVISIBLE_MS 60000 /* longer than any case: what is not acknowledged stays away */
#define SOON_MS      4000  /* where it shall come again */

#define CODE_PULL             11
#define CODE_UPDATE_OFFSET    15
#define CODE_ASSIGNMENT       400
#define CODE_NOT_SUPPORTED    3
#define CODE_POP              200050
#define CODE_ACK              200051
#define CODE_CHANGE_INVISIBLE 200053
#define CODE_BATCH_ACK        200151

static struct tl_seen seen;
static struct tl_seen others;

static rmq_consumer_options options_of(const struct tl_cluster *cluster)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.consume_thread_nums = 4;
    options.client_rebalance = false;
    options.rebalance_interval_ms = 200;
    /* the retry topic, with what was popped and not consumed, is new in the middle of a case */
    options.poll_name_server_interval_ms = 1000;
    options.broker_suspend_max_time_ms = 1000;
    options.pop_invisible_time_ms = INVISIBLE_MS;
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    return options;
}

static rmq_consumer *start(const struct tl_cluster *cluster, const rmq_consumer_options *options,
                           const char *expression)
{
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_consumer_create(options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, cluster->topic, expression, &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    return consumer;
}

struct shares {
    const struct tl_cluster *cluster;
    rmq_consumer *consumer;
    int popped; /* wanted: brokers that are popped as a whole, */
    int pulled; /* queues of the topic that are pulled */
};

static bool shares_are(void *arg)
{
    const struct shares *wanted = arg;
    char *text = NULL;
    int popped = 0;
    int pulled = 0;
    if (rmq_consumer_assignment(wanted->consumer, &text, NULL) != RMQ_OK) {
        return false;
    }
    size_t length = strlen(wanted->cluster->topic);
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, wanted->cluster->topic, length) == 0 && line[length] == ' ') {
            bool pops = strcmp(strrchr(line, ' '), " -1") == 0;
            popped += pops ? 1 : 0;
            pulled += pops ? 0 : 1;
        }
    }
    rmq_string_free(text);
    return popped == wanted->popped && pulled == wanted->pulled;
}

static void wait_shares(const struct tl_cluster *cluster, rmq_consumer *consumer, int popped,
                        int pulled)
{
    struct shares wanted = {cluster, consumer, popped, pulled};
    TL_CHECK(tl_wait(shares_are, &wanted, 20000));
}

/* A started consumer that pops. */
static rmq_consumer *start_popping(const struct tl_cluster *cluster,
                                   const rmq_consumer_options *options, const char *expression)
{
    rmq_consumer *consumer = start(cluster, options, expression);
    tl_set_request_mode(cluster, RMQ_REQUEST_POP);
    wait_shares(cluster, consumer, 1, 0);
    return consumer;
}

/* Nothing comes that came before, for longer than a message stays invisible. */
static void check_all_is_gone(const struct tl_cluster *cluster)
{
    rmq_consumer_options options = options_of(cluster);
    options.listener_user = &others;
    options.pop_invisible_time_ms = SOON_MS;
    rmq_consumer *consumer = start(cluster, &options, "*");
    tl_pause(SOON_MS + 1000);
    TL_EQUAL(atomic_load(&others.total), 0);
    rmq_consumer_destroy(consumer);
}

static void the_broker_shares_the_queues_out(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    rmq_consumer_options options = options_of(&cluster);
    rmq_consumer *first = start(&cluster, &options, "*");
    rmq_consumer *second = start(&cluster, &options, "*");
    rmq_producer *producer = tl_producer(&cluster);
    wait_shares(&cluster, first, 0, 2);
    wait_shares(&cluster, second, 0, 2);
    tl_send(&cluster, producer, "m", 0, 100);
    tl_seen_wait(&seen, 100, 20000);
    TL_EQUAL(atomic_load(&seen.total), 100);
    rmq_consumer_destroy(second);
    wait_shares(&cluster, first, 0, 4);
    rmq_consumer_destroy(first);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void what_a_popping_group_consumed_is_gone(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_consumer_options options = options_of(&cluster);
    options.pop_threshold_for_queue = 8; /* far fewer than there are */
    options.pop_batch_nums = 8;
    options.pop_invisible_time_ms = SOON_MS;
    rmq_consumer *first = start_popping(&cluster, &options, "*");
    rmq_consumer *second = start(&cluster, &options, "*");
    wait_shares(&cluster, second, 1, 0);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 300);
    tl_seen_wait(&seen, 300, 20000);
    TL_OK(rmq_consumer_shutdown(first, 0, &err));
    TL_OK(rmq_consumer_shutdown(second, 0, &err));
    rmq_consumer_destroy(first);
    rmq_consumer_destroy(second);
    check_all_is_gone(&cluster);
    TL_EQUAL(atomic_load(&seen.total), 300);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_group_is_switched_between_pull_and_pop_without_loss(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    rmq_consumer_options options = options_of(&cluster);
    options.pop_invisible_time_ms = 1000;
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *first = start(&cluster, &options, "*");
    rmq_consumer *second = start(&cluster, &options, "*");
    for (int round = 0; round < 4; round++) {
        bool pops = round % 2 == 0;
        tl_send(&cluster, producer, "m", round * 200, 100);
        tl_set_request_mode(&cluster, pops ? RMQ_REQUEST_POP : RMQ_REQUEST_PULL);
        tl_send(&cluster, producer, "m", round * 200 + 100, 100);
        wait_shares(&cluster, first, pops ? 1 : 0, pops ? 0 : 2);
        wait_shares(&cluster, second, pops ? 1 : 0, pops ? 0 : 2);
    }
    tl_seen_wait(&seen, 800,
                 90000); /* a real broker looks after what was popped in steps of 10 s */
    printf("%d deliveries of 800\n", atomic_load(&seen.total));
    rmq_consumer_destroy(first);
    rmq_consumer_destroy(second);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* ---- polled ---- */

static void popped_messages_are_polled_and_come_again_under_their_topic(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_consumer_options options = options_of(&cluster);
    options.listener = NULL;
    options.pop_invisible_time_ms = 1000;
    rmq_consumer *consumer = start_popping(&cluster, &options, "*");
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1);
    rmq_batch *batch = NULL;
    TL_OK(rmq_consumer_poll(consumer, &batch, 15000, &err));
    rmq_batch *again = NULL;
    TL_OK(rmq_consumer_poll(consumer, &again, 20000, &err)); /* the first was kept for too long */
    const rmq_message_view *view = rmq_batch_at(again, 0);
    TL_EQUAL(rmq_message_view_reconsume_times(view), 1);
    TL_EQUAL(strcmp(rmq_message_view_topic(view), cluster.topic), 0);
    TL_OK(rmq_consumer_finish(consumer, again, RMQ_CONSUME_SUCCESS, &err));
    TL_OK(rmq_consumer_finish(consumer, batch, RMQ_RECONSUME_LATER, &err)); /* too late to matter */
    rmq_batch_destroy(again);
    rmq_batch_destroy(batch);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* ---- what is said of messages ---- */

static rmq_consume_result later_listener(const rmq_message_view *const *messages, size_t count,
                                         rmq_consume_context *context, void *user)
{
    (void)tl_seen_listener(messages, count, context, user);
    return RMQ_RECONSUME_LATER;
}

/* ---- with a proxy between the consumer and its broker ---- */

static rmq_consumer *detour_pop(struct tl_detour *detour, const rmq_consumer_options *options,
                                const char *expression)
{
    rmq_consumer *consumer = start(&detour->through, options, expression);
    tl_set_request_mode(&detour->cluster, RMQ_REQUEST_POP);
    wait_shares(&detour->through, consumer, 1, 0);
    return consumer;
}

static void what_came_too_often_goes_to_the_dead_letters(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    rmq_events *events = NULL;
    tl_detour_start(&detour, 1, NULL);
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer_options options = options_of(&detour.through);
    options.listener = later_listener;
    options.max_reconsume_times = 0;
    options.events = events;
    rmq_consumer *consumer = detour_pop(&detour, &options, "*");
    rmq_producer *producer = tl_producer(&detour.cluster);
    tl_send(&detour.cluster, producer, "m", 0, 1);
    tl_take_notice(events, RMQ_EVENT_DEAD_LETTER, detour.through.topic);
    rmq_consumer_destroy(consumer); /* waits for the acknowledgement */
    TL_EQUAL(tl_proxy_seen(detour.proxy, CODE_ACK), 1);
    TL_EQUAL(tl_proxy_seen(detour.proxy, CODE_CHANGE_INVISIBLE), 0);
    TL_EQUAL(atomic_load(&seen.total), 1);
    rmq_events_destroy(events);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

static void acknowledgements_travel_together_or_alone_when_the_broker_is_old(void)
{
    struct tl_detour detour;
    const struct tl_rule old = {.action = TL_ANSWER,
                                .code = CODE_BATCH_ACK,
                                .times = -1,
                                .answer_code = CODE_NOT_SUPPORTED};
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer_options options = options_of(&detour.through);
    rmq_consumer *consumer = detour_pop(&detour, &options, "*");
    rmq_producer *producer = tl_producer(&detour.cluster);
    tl_send(&detour.cluster, producer, "m", 0, 64);
    tl_seen_wait(&seen, 64, 20000);
    rmq_consumer_destroy(consumer); /* waits for the acknowledgements */
    TL_CHECK(tl_proxy_seen(detour.proxy, CODE_BATCH_ACK) > 0);
    TL_EQUAL(tl_proxy_seen(detour.proxy, CODE_ACK), 0);
    tl_proxy_add(detour.proxy, &old);
    consumer = start(&detour.through, &options, "*");
    tl_send(&detour.cluster, producer, "m", 64, 64);
    tl_seen_wait(&seen, 128, 20000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(tl_proxy_seen(detour.proxy, CODE_ACK), 64);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

static void a_popping_consumer_neither_needs_nor_touches_stored_offsets(void)
{
    struct tl_detour detour;
    tl_detour_start(&detour, 2, NULL);
    TL_CHECK(tl_proxy_script(detour.proxy, "answer request 14 code 1 remark busy"));
    rmq_consumer_options options = options_of(&detour.through);
    rmq_consumer *consumer = detour_pop(&detour, &options, "*");
    rmq_producer *producer = tl_producer(&detour.cluster);
    tl_send(&detour.cluster, producer, "m", 0, 50);
    tl_seen_wait(&seen, 50, 20000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(tl_proxy_seen(detour.proxy, CODE_PULL), 0);
    TL_EQUAL(tl_proxy_seen(detour.proxy, CODE_UPDATE_OFFSET), 0);
    TL_EQUAL(atomic_load(&seen.total), 50);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

static bool later_was_asked(void *arg)
{
    return tl_proxy_seen(arg, CODE_CHANGE_INVISIBLE) == 1;
}

static void what_is_wanted_later_is_kept_invisible_and_not_acknowledged(void)
{
    struct tl_detour detour;
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer_options options = options_of(&detour.through);
    options.listener = later_listener;
    rmq_consumer *consumer = detour_pop(&detour, &options, "*");
    rmq_producer *producer = tl_producer(&detour.cluster);
    tl_send(&detour.cluster, producer, "m", 0, 1);
    TL_CHECK(tl_wait(later_was_asked, detour.proxy, 20000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 1);
    TL_EQUAL(tl_proxy_seen(detour.proxy, CODE_BATCH_ACK) + tl_proxy_seen(detour.proxy, CODE_ACK),
             0);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

static bool acknowledged(void *arg)
{
    return tl_proxy_seen(arg, CODE_BATCH_ACK) > 0;
}

/* Java's String.hashCode of both tags is the same: the broker gives out either. */
static void a_message_that_only_looks_wanted_is_acknowledged_and_not_handed_out(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer_options options = options_of(&detour.through);
    rmq_consumer *consumer = detour_pop(&detour, &options, "Aa");
    rmq_producer *producer = tl_producer(&detour.cluster);
    TL_OK(rmq_message_create(detour.cluster.topic, &message, &err));
    TL_OK(rmq_message_set_tag(message, "BB"));
    TL_OK(rmq_message_copy_body(message, "b", 1));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_CHECK(tl_wait(acknowledged, detour.proxy, 20000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 0);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

static struct {
    atomic_bool held;
    atomic_bool may_return;
} hands;

static bool is_set(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

static rmq_consume_result hold(const rmq_message_view *const *messages, size_t count,
                               rmq_consume_context *context, void *user)
{
    atomic_store(&hands.held, true);
    TL_CHECK(tl_wait(is_set, &hands.may_return, 30000));
    return RMQ_CONSUME_SUCCESS;
}

/* On the thread that carries acknowledgements out: the worker is done with everything before it
 * comes to them. */
static rmq_status hold_the_loop(const char *client_id, const rmq_queue_list *queues,
                                const char *const *clients, size_t client_count,
                                rmq_queue_list *mine, void *user)
{
    atomic_store(&hands.may_return, true);
    tl_pause(300);
    return RMQ_OK;
}

/* The property's name is made POP_CK on its way, so that "x" is taken for a handle: 88 bytes of
 * the record and the body are before the topic. */
static void send_with_a_bad_handle(const struct tl_detour *detour)
{
    rmq_error *err = NULL;
    struct tl_rule rule = {.action = TL_ALTER,
                           .responses = true,
                           .code = CODE_POP,
                           .times = -1,
                           .alter_with = 'J' ^ 'K'};
    rule.alter_at = 88 + 1 + 1 + (long)strlen(detour->cluster.topic) + 2 + 5;
    tl_proxy_add(detour->proxy, &rule);
    rmq_producer *producer = tl_producer(&detour->cluster);
    rmq_message *message = tl_message(detour->cluster.topic, "b", 1);
    TL_OK(rmq_message_set_property(message, "POP_CJ", "x"));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
}

static void a_message_without_a_handle_may_end_after_its_topic_was_given_up(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer_options options = options_of(&detour.through);
    options.listener = hold;
    rmq_consumer *consumer = detour_pop(&detour, &options, "*");
    send_with_a_bad_handle(&detour);
    TL_CHECK(tl_wait(is_set, &hands.held, 20000));
    TL_OK(rmq_consumer_unsubscribe(consumer, detour.cluster.topic, &err));
    options.consumer_group = "another";
    options.client_rebalance = true;
    options.allocate = hold_the_loop;
    rmq_consumer *other = start(&detour.through, &options, "*");
    TL_CHECK(tl_wait(is_set, &hands.may_return, 20000));
    rmq_consumer_destroy(other);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(tl_proxy_seen(detour.proxy, CODE_BATCH_ACK) + tl_proxy_seen(detour.proxy, CODE_ACK),
             0);
    tl_detour_stop(&detour);
}

static void with_a_broker_that_makes_no_assignments_the_members_share_themselves(void)
{
    struct tl_detour detour;
    const struct tl_rule old = {.action = TL_ANSWER,
                                .code = CODE_ASSIGNMENT,
                                .times = -1,
                                .answer_code = CODE_NOT_SUPPORTED};
    tl_detour_start(&detour, 4, NULL);
    tl_proxy_add(detour.proxy, &old);
    rmq_consumer_options options = options_of(&detour.through);
    rmq_consumer *consumer = start(&detour.through, &options, "*");
    rmq_producer *producer = tl_producer(&detour.cluster);
    wait_shares(&detour.through, consumer, 0, 4);
    tl_send(&detour.cluster, producer, "m", 0, 20);
    tl_seen_wait(&seen, 20, 20000);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(the_broker_shares_the_queues_out),
        {"what_a_popping_group_consumed_is_gone", what_a_popping_group_consumed_is_gone, 60},
        {"a_group_is_switched_between_pull_and_pop_without_loss",
         a_group_is_switched_between_pull_and_pop_without_loss, 180},
        {"popped_messages_are_polled_and_come_again_under_their_topic",
         popped_messages_are_polled_and_come_again_under_their_topic, 60},
        {"what_came_too_often_goes_to_the_dead_letters",
         what_came_too_often_goes_to_the_dead_letters, 60},
        {"acknowledgements_travel_together_or_alone_when_the_broker_is_old",
         acknowledgements_travel_together_or_alone_when_the_broker_is_old, 60},
        {"a_popping_consumer_neither_needs_nor_touches_stored_offsets",
         a_popping_consumer_neither_needs_nor_touches_stored_offsets, 60},
        TL_CASE(what_is_wanted_later_is_kept_invisible_and_not_acknowledged),
        TL_CASE(a_message_that_only_looks_wanted_is_acknowledged_and_not_handed_out),
        TL_CASE(a_message_without_a_handle_may_end_after_its_topic_was_given_up),
        TL_CASE(with_a_broker_that_makes_no_assignments_the_members_share_themselves),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
