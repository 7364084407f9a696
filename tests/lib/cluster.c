/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Servers, producers and consumers of end-to-end tests. See cluster.h. */
#include "lib/cluster.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/port.h"
#include "lib/usage.h"

static void create_elsewhere(const struct tl_cluster *cluster, int queues)
{
    rmq_error *err = NULL;
    rmq_admin *admin = tl_admin(cluster);
    TL_OK(rmq_admin_create_topic(admin, NULL, cluster->topic, queues, queues, 6, 10000, &err));
    rmq_admin_destroy(admin);
}

static void start_own(struct tl_cluster *cluster, const char *const *options)
{
    rmq_error *err = NULL;
    rmq_broker_config *config = NULL;
    char port[16];
    TL_OK(rmq_broker_config_create(&config, &err));
    /* A disk that stands still for seconds must not decide a test. */
    TL_OK(rmq_broker_config_set(config, "osPageCacheBusyTimeOutMills", "60000", &err));
    /* Clients may look for it when it has gone. */
    snprintf(port, sizeof port, "%d", tl_port_kept(NULL, 0));
    TL_OK(rmq_broker_config_set(config, "listenPort", port, &err));
    for (; options && options[0]; options += 2) {
        TL_OK(rmq_broker_config_set(config, options[0], options[1], &err));
    }
    TL_OK(rmq_broker_start(config, &cluster->broker, &err));
    rmq_broker_config_destroy(config);
}

void tl_cluster_start(struct tl_cluster *cluster, int queues)
{
    tl_cluster_start_with(cluster, queues, NULL);
}

void tl_cluster_start_with(struct tl_cluster *cluster, int queues, const char *const *options)
{
    const char *elsewhere = getenv("RMQ_NAMESRV");
    rmq_error *err = NULL;
    memset(cluster, 0, sizeof *cluster);
    snprintf(cluster->topic, sizeof cluster->topic, "T-%lld-%d", (long long)time(NULL),
             (int)getpid());
    snprintf(cluster->group, sizeof cluster->group, "G-%lld-%d", (long long)time(NULL),
             (int)getpid());
    if (elsewhere != NULL && elsewhere[0] != '\0') {
        snprintf(cluster->namesrv, sizeof cluster->namesrv, "%s", elsewhere);
        create_elsewhere(cluster, queues);
        return;
    }
    start_own(cluster, options);
    TL_OK(rmq_broker_create_topic(cluster->broker, cluster->topic, queues, &err));
    snprintf(cluster->namesrv, sizeof cluster->namesrv, "%s",
             rmq_broker_namesrv_addr(cluster->broker));
}

static void serve(int out, int queues)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, queues);
    cluster.pid = getpid();
    if (write(out, &cluster, sizeof cluster) == sizeof cluster) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
    }
    _exit(1);
}

void tl_cluster_start_apart(struct tl_cluster *cluster, int queues)
{
    int fds[2];
    const char *elsewhere = getenv("RMQ_NAMESRV");
    if (elsewhere != NULL && elsewhere[0] != '\0') {
        tl_cluster_start(cluster, queues);
        return;
    }
    TL_EQUAL(pipe(fds), 0);
    pid_t child = fork();
    TL_CHECK(child >= 0);
    if (child == 0) {
        serve(fds[1], queues);
    }
    close(fds[1]);
    TL_EQUAL(read(fds[0], cluster, sizeof *cluster), sizeof *cluster);
    close(fds[0]);
    cluster->broker = NULL;
}

void tl_cluster_needs_own(const struct tl_cluster *cluster)
{
    if (cluster->broker == NULL) {
        tl_skip("the broker at %s is not in this process", cluster->namesrv);
    }
}

void tl_cluster_once(const struct tl_cluster *cluster, int deliveries, int messages)
{
    bool elsewhere = cluster->broker == NULL && cluster->pid == 0;
    if (deliveries < messages || (deliveries > messages && !elsewhere)) {
        tl_fail(__FILE__, __LINE__, "%d deliveries of %d messages", deliveries, messages);
    }
}

void tl_cluster_stop(struct tl_cluster *cluster)
{
    rmq_broker_stop(cluster->broker);
    cluster->broker = NULL;
    if (cluster->pid != 0) {
        kill(cluster->pid, SIGKILL);
        waitpid(cluster->pid, NULL, 0);
        cluster->pid = 0;
    }
}

void tl_producer_options_init(rmq_producer_options *options)
{
    rmq_producer_options_init(options, sizeof *options);
    options->send_msg_timeout_ms = 20000;
}

rmq_producer_options tl_producer_options(const struct tl_cluster *cluster)
{
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    return options;
}

rmq_producer *tl_producer(const struct tl_cluster *cluster)
{
    return tl_producer_on(cluster->namesrv, 0);
}

rmq_producer *tl_producer_on(const char *namesrv, int64_t timeout_ms)
{
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    tl_producer_options_init(&options);
    options.producer_group = "test-producers";
    options.namesrv_addr = namesrv;
    if (timeout_ms > 0) {
        options.send_msg_timeout_ms = timeout_ms;
    }
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

rmq_message *tl_message(const char *topic, const void *body, size_t size)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    TL_OK(rmq_message_create(topic, &message, &err));
    TL_EQUAL(rmq_message_copy_body(message, body, size), RMQ_OK);
    return message;
}

rmq_admin *tl_admin(const struct tl_cluster *cluster)
{
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    TL_OK(rmq_admin_create(cluster->namesrv, &admin, &err));
    return admin;
}

bool tl_has_line(const char *text, const char *line)
{
    size_t n = strlen(line);
    for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        if (strncmp(p, line, n) == 0 && p[n] == '\n') {
            return true;
        }
    }
    return false;
}

void tl_send(const struct tl_cluster *cluster, rmq_producer *producer, const char *prefix,
             int first, int count)
{
    for (int i = first; i < first + count; i++) {
        rmq_message *message = NULL;
        rmq_error *err = NULL;
        char text[64];
        char number[16];
        int n = snprintf(text, sizeof text, "%s-%d", prefix, i);
        snprintf(number, sizeof number, "%d", i);
        TL_OK(rmq_message_create(cluster->topic, &message, &err));
        TL_OK(rmq_message_set_property(message, "n", number));
        TL_OK(rmq_message_copy_body(message, text, (size_t)n));
        snprintf(text, sizeof text, "k-%d", i);
        TL_OK(rmq_message_add_key(message, text));
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
        rmq_message_destroy(message);
    }
}

void tl_send_some(const struct tl_cluster *cluster, int first, int count)
{
    rmq_producer *producer = tl_producer(cluster);
    tl_send(cluster, producer, "m", first, count);
    rmq_producer_destroy(producer);
}

rmq_consumer_options tl_consumer_options(const struct tl_cluster *cluster)
{
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    return options;
}

static rmq_consumer *start(const struct tl_cluster *cluster, const char *expression,
                           const rmq_consumer_options *options)
{
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_consumer_create(options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, cluster->topic, expression, &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    return consumer;
}

rmq_consumer *tl_consumer_start(const struct tl_cluster *cluster,
                                const rmq_consumer_options *options)
{
    return start(cluster, "*", options);
}

rmq_consumer *tl_consumer(const struct tl_cluster *cluster, const char *expression,
                          rmq_listener_fn listener, void *user)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.consume_thread_nums = 4;
    options.listener = listener;
    options.listener_user = user;
    return start(cluster, expression, &options);
}

void tl_seen_add(struct tl_seen *seen, const rmq_message_view *view)
{
    int n = atoi(rmq_message_view_property(view, "n"));
    if (n < 0 || n >= TL_SEEN_MAX) {
        tl_fail(__FILE__, __LINE__, "message number %d", n);
    }
    if (atomic_fetch_add(&seen->times[n], 1) == 0) {
        atomic_fetch_add(&seen->different, 1);
    }
    atomic_fetch_add(&seen->total, 1);
}

rmq_consume_result tl_seen_listener(const rmq_message_view *const *messages, size_t count,
                                    rmq_consume_context *context, void *user)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        tl_seen_add(user, messages[i]);
    }
    return RMQ_CONSUME_SUCCESS;
}

struct seen_goal {
    struct tl_seen *seen;
    int different;
};

static bool goal_reached(void *arg)
{
    const struct seen_goal *goal = arg;
    return atomic_load(&goal->seen->different) >= goal->different;
}

void tl_seen_wait(struct tl_seen *seen, int different, int64_t timeout_ms)
{
    struct seen_goal goal = {seen, different};
    if (!tl_wait(goal_reached, &goal, timeout_ms)) {
        tl_fail(__FILE__, __LINE__, "%d of %d messages after %lld ms",
                atomic_load(&seen->different), different, (long long)timeout_ms);
    }
}

int64_t tl_committed(const struct tl_cluster *cluster, int queue)
{
    rmq_admin *admin = NULL;
    rmq_error *err = NULL;
    rmq_queue_status *list = NULL;
    size_t count = 0;
    int64_t offset = -1;
    TL_OK(rmq_admin_create(cluster->namesrv, &admin, &err));
    TL_OK(rmq_admin_topic_status(admin, cluster->topic, 5000, &list, &count, &err));
    rmq_status st = rmq_admin_consumer_offset(admin, cluster->group, cluster->topic,
                                              list[queue].broker_name, queue, 5000, &offset, NULL);
    rmq_admin_queue_status_free(list, count);
    rmq_admin_destroy(admin);
    return st == RMQ_OK ? offset : -1;
}

/* The group is known once a member's heartbeat has come, so the first calls may fail. */
void tl_set_request_mode(const struct tl_cluster *cluster, rmq_message_request_mode mode)
{
    rmq_admin *admin = NULL;
    rmq_error *err = NULL;
    rmq_status st;
    int64_t deadline = tl_now_ms() + 15000;
    TL_OK(rmq_admin_create(cluster->namesrv, &admin, &err));
    do {
        st = rmq_admin_set_message_request_mode(admin, NULL, cluster->topic, cluster->group, mode,
                                                0, 0, NULL);
    } while (st != RMQ_OK && tl_now_ms() < deadline);
    TL_EQUAL(st, RMQ_OK);
    rmq_admin_destroy(admin);
}

int64_t tl_stored(const char *namesrv, const char *topic)
{
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    rmq_queue_status *list = NULL;
    size_t count = 0;
    int64_t sum = 0;
    TL_OK(rmq_admin_create(namesrv, &admin, &err));
    TL_OK(rmq_admin_topic_status(admin, topic, 10000, &list, &count, &err));
    for (size_t i = 0; i < count; i++) {
        sum += list[i].max_offset - list[i].min_offset;
    }
    rmq_admin_queue_status_free(list, count);
    rmq_admin_destroy(admin);
    return sum;
}

void tl_take_notice(rmq_events *events, rmq_event_type type, const char *words)
{
    int64_t deadline = tl_now_ms() + 10000;
    bool found = false;
    while (!found && tl_now_ms() < deadline) {
        rmq_event *event = NULL;
        if (rmq_events_take(events, &event, 1, 500) == 1) {
            found = rmq_event_get_type(event) == type && strstr(rmq_event_text(event), words);
            rmq_event_destroy(event);
        }
    }
    if (!found) {
        tl_fail(__FILE__, __LINE__, "no notice %d with %s", (int)type, words);
    }
}

size_t tl_lite_pull_take(rmq_lite_pull_consumer *consumer, struct tl_seen *to, int64_t timeout_ms)
{
    rmq_batch *batch = NULL;
    if (rmq_lite_pull_consumer_poll(consumer, &batch, timeout_ms, NULL) != RMQ_OK) {
        return 0;
    }
    size_t count = rmq_batch_count(batch);
    for (size_t i = 0; i < count; i++) {
        tl_seen_add(to, rmq_batch_at(batch, i));
    }
    rmq_batch_destroy(batch);
    return count;
}

void tl_lite_pull_take_until(rmq_lite_pull_consumer *consumer, struct tl_seen *to, int different)
{
    int64_t deadline = tl_now_ms() + 20000;
    while (atomic_load(&to->different) < different) {
        TL_CHECK(tl_now_ms() < deadline);
        tl_lite_pull_take(consumer, to, 500);
    }
}
