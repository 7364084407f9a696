/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Namespaces: with the first kind brokers know full names and the program plain ones, in every
 * client and in what it shows; the second kind goes with each request. The name server is asked by
 * an administrator who has no namespace.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/frame.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define WAIT_MS 20000
#define NS      "MQ_INST_1_a"
#define MANY    20

/* A plain topic whose full name exists, and plain groups. */
struct names {
    struct tl_cluster cluster;
    char full[128];
    const char *plain;
};

static void open_names(struct names *names, int queues)
{
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    tl_cluster_start(&names->cluster, queues);
    names->plain = names->cluster.topic;
    snprintf(names->full, sizeof names->full, NS "%%%s", names->plain);
    TL_OK(rmq_admin_create(names->cluster.namesrv, &admin, &err));
    TL_OK(rmq_admin_create_topic(admin, NULL, names->full, queues, queues, 6, 0, &err));
    rmq_admin_destroy(admin);
}

static rmq_producer *producer_of(const struct names *names)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    options = tl_producer_options(&names->cluster);
    options.namespace_name = NS;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static rmq_message *message_of(const struct names *names, int number)
{
    char text[16];
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    TL_OK(rmq_message_create(names->plain, &message, &err));
    snprintf(text, sizeof text, "%d", number);
    TL_OK(rmq_message_set_property(message, "n", text));
    TL_OK(rmq_message_copy_body(message, "body", 4));
    return message;
}

static void send_many(const struct names *names, int count)
{
    rmq_error *err = NULL;
    rmq_producer *producer = producer_of(names);
    for (int i = 0; i < count; i++) {
        rmq_send_result *result = NULL;
        rmq_message *message = message_of(names, i);
        TL_OK(rmq_producer_send(producer, message, WAIT_MS, &result, &err));
        TL_CHECK(strcmp(rmq_send_result_topic(result), names->plain) == 0);
        TL_CHECK(strcmp(rmq_message_topic(message), names->plain) == 0);
        rmq_send_result_destroy(result);
        rmq_message_destroy(message);
    }
    rmq_producer_destroy(producer);
}

/* ---- push: listeners see plain names, at first and when it comes again ---- */

struct reader {
    const struct names *names;
    struct tl_seen seen;
    atomic_int wrong; /* another topic than the plain one, or no INSTANCE_ID */
    bool once_later;
};

static rmq_consume_result read_plain(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    struct reader *reader = user;
    bool later = false;
    for (size_t i = 0; i < count; i++) {
        bool good = strcmp(rmq_message_view_topic(messages[i]), reader->names->plain) == 0 &&
                    strcmp(rmq_message_view_property(messages[i], "INSTANCE_ID"), NS) == 0;
        atomic_fetch_add(&reader->wrong, !good);
        later = reader->once_later && rmq_message_view_reconsume_times(messages[i]) == 0;
        if (!later) {
            tl_seen_add(&reader->seen, messages[i]);
        }
    }
    rmq_consume_context_set_delay_level(context, 1);
    return later ? RMQ_RECONSUME_LATER : RMQ_CONSUME_SUCCESS;
}

static rmq_consumer *consumer_of(const struct names *names, const char *group, const char *ns,
                                 const char *topic, rmq_listener_fn listener, void *user)
{
    rmq_error *err = NULL;
    rmq_consumer *consumer = NULL;
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = group;
    options.namesrv_addr = names->cluster.namesrv;
    options.namespace_name = ns;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.listener = listener;
    options.listener_user = user;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    return consumer;
}

static void a_listener_sees_plain_names_also_of_what_comes_again(void)
{
    static struct names names;
    static struct reader reader;
    rmq_error *err = NULL;
    char *assignment = NULL;
    char retry[192];
    open_names(&names, 2);
    send_many(&names, MANY);
    reader.names = &names;
    reader.once_later = true;
    rmq_consumer *consumer =
        consumer_of(&names, names.cluster.group, NS, names.plain, read_plain, &reader);
    tl_seen_wait(&reader.seen, MANY, 60000);
    TL_EQUAL(atomic_load(&reader.wrong), 0);
    TL_OK(rmq_consumer_assignment(consumer, &assignment, &err));
    TL_CHECK(strncmp(assignment, names.plain, strlen(names.plain)) == 0 ||
             strstr(assignment, "\n") != NULL);
    snprintf(retry, sizeof retry, "\n%s ", names.plain);
    TL_CHECK(strstr(assignment, retry) != NULL ||
             strncmp(assignment, retry + 1, strlen(retry + 1)) == 0);
    snprintf(retry, sizeof retry, "%%RETRY%%" NS "%%%s ", names.cluster.group);
    TL_CHECK(strstr(assignment, retry) != NULL); /* the group's full name is in the retry topic's */
    rmq_string_free(assignment);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&names.cluster);
}

static void who_has_no_namespace_sees_the_full_name(void)
{
    static struct names names;
    static struct tl_seen seen;
    rmq_error *err = NULL;
    open_names(&names, 2);
    send_many(&names, MANY);
    rmq_consumer *consumer =
        consumer_of(&names, names.cluster.group, NULL, names.full, tl_seen_listener, &seen);
    tl_seen_wait(&seen, MANY, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_admin *admin = NULL;
    rmq_queue_status *queues = NULL;
    size_t count = 0;
    int64_t stored = 0;
    TL_OK(rmq_admin_create(names.cluster.namesrv, &admin, &err));
    TL_OK(rmq_admin_topic_status(admin, names.plain, 0, &queues, &count, &err));
    for (size_t i = 0; i < count; i++) {
        stored += queues[i].max_offset;
    }
    TL_EQUAL(stored, 0); /* nothing went to the topic with the plain name */
    rmq_admin_queue_status_free(queues, count);
    rmq_admin_destroy(admin);
    tl_cluster_stop(&names.cluster);
}

/* ---- the ways of sending ---- */

static void note_sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    const char *plain = user;
    TL_CHECK(err == NULL);
    TL_CHECK(strcmp(rmq_send_result_topic(result), plain) == 0);
}

static rmq_transaction_state commit(const rmq_message *message, const char *id, void *user)
{
    (void)message;
    (void)id;
    (void)user;
    return RMQ_TRANSACTION_COMMIT;
}

static void every_way_of_sending_reaches_the_namespace(void)
{
    static struct names names;
    static struct reader reader;
    char plain[64];
    rmq_error *err = NULL;
    rmq_queues *queues = NULL;
    rmq_send_options keyed;
    rmq_message *messages[7];
    open_names(&names, 2);
    rmq_producer *producer = producer_of(&names);
    for (int i = 0; i < 7; i++) {
        messages[i] = message_of(&names, i);
    }
    snprintf(plain, sizeof plain, "%s", names.plain);
    rmq_send_options_init(&keyed, sizeof keyed);
    keyed.sharding_key = "key";
    TL_OK(rmq_producer_send_async(producer, messages[0], note_sent, plain, &err));
    TL_OK(rmq_producer_send_oneway(producer, messages[1], &err));
    TL_OK(rmq_producer_send_batch(producer, (const rmq_message *const *)&messages[2], 2, 0, NULL,
                                  &err));
    TL_OK(
        rmq_producer_send_in_transaction(producer, messages[4], commit, NULL, 0, NULL, NULL, &err));
    TL_OK(rmq_producer_send_with(producer, messages[5], &keyed, NULL, &err));
    TL_OK(rmq_producer_publish_queues(producer, names.plain, 0, &queues, &err));
    TL_EQUAL(rmq_queues_count(queues), 2);
    rmq_send_options chosen;
    rmq_send_options_init(&chosen, sizeof chosen);
    chosen.broker_name = rmq_queues_broker_name(queues, 0);
    TL_OK(rmq_producer_send_with(producer, messages[6], &chosen, NULL, &err));
    rmq_queues_free(queues);
    reader.names = &names;
    rmq_consumer *consumer =
        consumer_of(&names, names.cluster.group, NS, names.plain, read_plain, &reader);
    tl_seen_wait(&reader.seen, 7, WAIT_MS);
    TL_EQUAL(atomic_load(&reader.wrong), 0);
    rmq_consumer_destroy(consumer);
    for (int i = 0; i < 7; i++) {
        rmq_message_destroy(messages[i]);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&names.cluster);
}

/* ---- consumers that pull ---- */

static void a_pull_consumer_names_topics_plainly(void)
{
    static struct names names;
    rmq_error *err = NULL;
    rmq_pull_consumer *consumer = NULL;
    rmq_pull_consumer_options options;
    rmq_queue_list *queues = NULL;
    rmq_pull_result *result = NULL;
    int64_t offset = 0;
    open_names(&names, 1);
    send_many(&names, MANY);
    rmq_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = names.cluster.group;
    options.namesrv_addr = names.cluster.namesrv;
    options.namespace_name = NS;
    TL_OK(rmq_pull_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    TL_OK(rmq_pull_consumer_fetch_queues(consumer, names.plain, 0, &queues, &err));
    const char *topic = rmq_queue_list_topic(queues, 0);
    const char *broker = rmq_queue_list_broker_name(queues, 0);
    TL_CHECK(strcmp(topic, names.plain) == 0);
    TL_OK(rmq_pull_consumer_pull_block_if_not_found(consumer, topic, broker, 0, "*", 0, 32, &result,
                                                    &err));
    TL_CHECK(rmq_pull_result_count(result) > 0);
    TL_CHECK(strcmp(rmq_message_view_topic(rmq_pull_result_at(result, 0)), names.plain) == 0);
    rmq_pull_result_destroy(result);
    TL_OK(rmq_pull_consumer_max_offset(consumer, topic, broker, 0, 0, &offset, &err));
    TL_EQUAL(offset, MANY);
    TL_OK(rmq_pull_consumer_update_offset(consumer, topic, broker, 0, 7, &err));
    TL_OK(rmq_pull_consumer_persist_offsets(consumer, 0, &err));
    TL_OK(rmq_pull_consumer_fetch_offset(consumer, topic, broker, 0, true, 0, &offset, &err));
    TL_EQUAL(offset, 7);
    rmq_queue_list_destroy(queues);
    rmq_pull_consumer_destroy(consumer);
    tl_cluster_stop(&names.cluster);
}

/* One poll; its messages must be under their plain name. */
static void poll_plain(rmq_lite_pull_consumer *consumer, const char *plain)
{
    rmq_error *err = NULL;
    rmq_batch *batch = NULL;
    TL_OK(rmq_lite_pull_consumer_poll(consumer, &batch, WAIT_MS, &err));
    TL_CHECK(strcmp(rmq_message_view_topic(rmq_batch_at(batch, 0)), plain) == 0);
    rmq_batch_destroy(batch);
}

static void a_lite_pull_consumer_names_topics_plainly(void)
{
    static struct names names;
    rmq_error *err = NULL;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_lite_pull_consumer_options options;
    rmq_queue_list *queues = NULL;
    rmq_queue_list *mine = NULL;
    int64_t offset = -1;
    open_names(&names, 1);
    send_many(&names, MANY);
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = names.cluster.group;
    options.namesrv_addr = names.cluster.namesrv;
    options.namespace_name = NS;
    options.auto_commit = false;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    TL_OK(rmq_lite_pull_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    TL_OK(rmq_lite_pull_consumer_fetch_queues(consumer, names.plain, 0, &queues, &err));
    TL_OK(rmq_lite_pull_consumer_assign(consumer, queues, &err));
    poll_plain(consumer, names.plain);
    TL_OK(rmq_lite_pull_consumer_assignment(consumer, &mine, &err));
    TL_EQUAL(rmq_queue_list_count(mine), 1);
    TL_CHECK(strcmp(rmq_queue_list_topic(mine, 0), names.plain) == 0);
    const char *broker = rmq_queue_list_broker_name(mine, 0);
    TL_OK(rmq_lite_pull_consumer_commit_sync(consumer, queues, 0, &err));
    TL_OK(rmq_lite_pull_consumer_committed(consumer, names.plain, broker, 0, 0, &offset, &err));
    TL_CHECK(offset > 0);
    TL_OK(rmq_lite_pull_consumer_pause(consumer, queues, &err));
    TL_OK(rmq_lite_pull_consumer_seek_to_begin(consumer, names.plain, broker, 0, 0, &err));
    TL_OK(rmq_lite_pull_consumer_resume(consumer, queues, &err));
    poll_plain(consumer, names.plain);
    rmq_queue_list_destroy(mine);
    rmq_queue_list_destroy(queues);
    rmq_lite_pull_consumer_destroy(consumer);
    tl_cluster_stop(&names.cluster);
}

static void a_pop_consumer_names_topics_plainly(void)
{
    static struct names names;
    static struct tl_seen seen;
    rmq_error *err = NULL;
    rmq_pop_consumer *consumer = NULL;
    rmq_pop_consumer_options options;
    open_names(&names, 1);
    send_many(&names, MANY);
    rmq_pop_consumer_options_init(&options, sizeof options);
    options.consumer_group = names.cluster.group;
    options.namesrv_addr = names.cluster.namesrv;
    options.namespace_name = NS;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    TL_OK(rmq_pop_consumer_create(&options, &consumer, &err));
    int64_t deadline = tl_now_ms() + WAIT_MS;
    while (atomic_load(&seen.different) < MANY) {
        rmq_pop_result *result = NULL;
        TL_CHECK(tl_now_ms() < deadline);
        if (rmq_pop_consumer_pop(consumer, names.plain, "*", 32, 1000, &result, NULL) != RMQ_OK) {
            continue;
        }
        for (size_t i = 0; i < rmq_pop_result_count(result); i++) {
            const rmq_message_view *view = rmq_pop_result_at(result, i);
            TL_CHECK(strcmp(rmq_message_view_topic(view), names.plain) == 0);
            tl_seen_add(&seen, view);
            TL_OK(rmq_pop_consumer_ack(consumer, names.plain, rmq_pop_result_handle(result, i), 0,
                                       &err));
        }
        rmq_pop_result_destroy(result);
    }
    rmq_pop_consumer_destroy(consumer);
    tl_cluster_stop(&names.cluster);
}

/* ---- replies ---- */

static rmq_consume_result reply_all(const rmq_message_view *const *messages, size_t count,
                                    rmq_consume_context *context, void *user)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        rmq_error *err = NULL;
        TL_OK(rmq_producer_reply(user, messages[i], "reply", 5, WAIT_MS, &err));
    }
    return RMQ_CONSUME_SUCCESS;
}

static void requests_and_replies_pass_through_a_namespace(void)
{
    static struct names names;
    rmq_error *err = NULL;
    const rmq_message_view *reply = NULL;
    open_names(&names, 2);
    rmq_producer *producer = producer_of(&names);
    rmq_consumer *consumer =
        consumer_of(&names, names.cluster.group, NS, names.plain, reply_all, producer);
    rmq_message *message = message_of(&names, 1);
    TL_OK(rmq_producer_request(producer, message, WAIT_MS, &reply, &err));
    rmq_message_view_release(reply);
    rmq_message_destroy(message);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&names.cluster);
}

/* ---- names that cannot be ---- */

static void names_are_checked_with_their_namespace(void)
{
    static struct names names;
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    char topic[128];
    open_names(&names, 1);
    memset(topic, 't', sizeof topic - 1);
    topic[sizeof topic - 1] = '\0'; /* 127 characters, the most without a namespace */
    producer = producer_of(&names);
    TL_OK(rmq_message_create(topic, &message, &err));
    TL_OK(rmq_message_copy_body(message, "body", 4));
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, &err), RMQ_ERR_INVALID);
    TL_CHECK(strstr(rmq_error_message(err), "topic of 139 characters") != NULL);
    TL_CHECK(strstr(rmq_error_message(err), "with its namespace \"") != NULL);
    rmq_error_destroy(err);
    err = NULL;
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_producer_options_init(&options);
    options.producer_group = "group";
    options.namesrv_addr = names.cluster.namesrv;
    options.namespace_name = "a%b";
    TL_EQUAL(rmq_producer_create(&options, &producer, &err), RMQ_ERR_INVALID);
    TL_CHECK(strstr(rmq_error_message(err), "namespace \"a%b\"") != NULL);
    rmq_error_destroy(err);
    tl_cluster_stop(&names.cluster);
}

/* ---- the second kind ---- */

struct watch {
    atomic_int marked;
    atomic_int bare;
};

static void look(const char *frame, size_t n, void *user)
{
    struct watch *watch = user;
    char nsd[16];
    char ns[64];
    tl_frame_ext(frame, n, "nsd", nsd, sizeof nsd);
    tl_frame_ext(frame, n, "ns", ns, sizeof ns);
    bool marked = strcmp(nsd, "true") == 0 && strcmp(ns, "tenant-a") == 0;
    atomic_fetch_add(marked ? &watch->marked : &watch->bare, 1);
}

static void a_namespace_of_the_second_kind_goes_with_each_request(void)
{
    static struct watch watch;
    static struct tl_seen seen;
    struct tl_detour detour;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_consumer *consumer = NULL;
    rmq_producer_options options;
    rmq_consumer_options reading;
    tl_detour_start(&detour, 2, NULL);
    tl_proxy_watch(detour.proxy, look, &watch);
    struct tl_proxy *asking = tl_proxy_start(tl_namesrv_addr(detour.namesrv));
    tl_proxy_watch(asking, look, &watch);
    tl_producer_options_init(&options);
    options.producer_group = detour.cluster.group;
    options.namesrv_addr = tl_proxy_addr(asking);
    options.namespace_v2 = "tenant-a";
    TL_OK(rmq_producer_create(&options, &producer, &err));
    snprintf(detour.through.namesrv, sizeof detour.through.namesrv, "%s", tl_proxy_addr(asking));
    tl_send(&detour.through, producer, "m", 0, MANY);
    rmq_consumer_options_init(&reading, sizeof reading);
    reading.consumer_group = detour.cluster.group;
    reading.namesrv_addr = detour.through.namesrv;
    reading.namespace_v2 = "tenant-a";
    reading.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    reading.listener = tl_seen_listener;
    reading.listener_user = &seen;
    TL_OK(rmq_consumer_create(&reading, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, detour.cluster.topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    tl_seen_wait(&seen, MANY, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    TL_CHECK(atomic_load(&watch.marked) > MANY);
    TL_EQUAL(atomic_load(&watch.bare), 0);
    tl_proxy_stop(asking);
    tl_detour_stop(&detour);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_listener_sees_plain_names_also_of_what_comes_again),
        TL_CASE(who_has_no_namespace_sees_the_full_name),
        TL_CASE(every_way_of_sending_reaches_the_namespace),
        TL_CASE(a_pull_consumer_names_topics_plainly),
        TL_CASE(a_lite_pull_consumer_names_topics_plainly),
        TL_CASE(a_pop_consumer_names_topics_plainly),
        TL_CASE(requests_and_replies_pass_through_a_namespace),
        TL_CASE(names_are_checked_with_their_namespace),
        TL_CASE(a_namespace_of_the_second_kind_goes_with_each_request),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
