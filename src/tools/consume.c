/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq consume`: receives messages and prints them, a line each. Workers poll the consumer, so that
 * exactly --count messages are taken; the main thread waits for a signal, the deadline, the last
 * message, or the end of who reads, and prints events meanwhile. Counterpart: mqadmin
 * consumeMessage.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rmq/consumer.h>

#include "tools/message_text.h"
#include "tools/text.h"
#include "tools/tool.h"

#define MOST_THREADS 256
#define POLL_MS      200

struct consume {
    const char *namesrv, *topic, *group, *expression, *sql, *from, *time, *output, *serialize;
    const char *strategy, *instance, *offsets, *name_space;
    bool orderly, broadcast;
    struct tool_list settings;
    int64_t count, timeout_s, threads, time_ms;
    bool json, show_events;
    rmq_consumer *consumer;
    rmq_events *events;
    pthread_t workers[MOST_THREADS];
    int done_fd; /* readable when a worker has something to say to the main thread */
    pthread_mutex_t lock;
    int64_t claimed; /* guarded by lock: messages printed or being waited for */
    int64_t printed; /* guarded by lock */
    bool stop;       /* guarded by lock */
    bool broken;     /* guarded by lock: poll or printing failed */
};

static bool print_json(const rmq_message_view *view)
{
    struct tool_text line = {0};
    tool_json_message(&line, view);
    bool good = tool_text_flush(&line, stdout);
    tool_text_free(&line);
    return good;
}

static bool print_text(const rmq_message_view *view)
{
    struct tool_text line = {0};
    size_t size = 0;
    const void *body = rmq_message_view_body(view, &size);
    const char *tag = rmq_message_view_tag(view);
    const char *keys = rmq_message_view_keys(view);
    tool_text_format(&line, "%s:%d@%" PRId64, rmq_message_view_broker_name(view),
                     rmq_message_view_queue_id(view), rmq_message_view_queue_offset(view));
    tool_text_format(&line, "%s%s", tag[0] != '\0' ? "  tag=" : "", tag);
    tool_text_format(&line, "%s%s  ", keys[0] != '\0' ? "  keys=" : "", keys);
    if (tool_is_utf8(body, size)) {
        tool_text_add(&line, body, size);
    } else {
        tool_text_format(&line, "(%zu bytes)", size);
    }
    bool good = tool_text_flush(&line, stdout);
    tool_text_free(&line);
    return good;
}

/* A worker takes a message only with a claim, so that no more than --count are taken. */
static bool claim(struct consume *c)
{
    pthread_mutex_lock(&c->lock);
    bool go = !c->stop && (c->count < 0 || c->claimed < c->count);
    c->claimed += go;
    pthread_mutex_unlock(&c->lock);
    return go;
}

static void settle(struct consume *c, int64_t printed, bool broken)
{
    pthread_mutex_lock(&c->lock);
    c->claimed += printed - 1;
    c->printed += printed;
    c->broken = c->broken || broken;
    bool wake = c->broken || (c->count >= 0 && c->printed >= c->count);
    pthread_mutex_unlock(&c->lock);
    if (wake) {
        uint64_t one = 1;
        ssize_t n = write(c->done_fd, &one, sizeof one);
        (void)n;
    }
}

/* false when standard output does not take it: then the messages do not count as consumed. */
static bool print_batch(const struct consume *c, const rmq_batch *batch)
{
    bool good = true;
    for (size_t i = 0; good && i < rmq_batch_count(batch); i++) {
        good = c->json ? print_json(rmq_batch_at(batch, i)) : print_text(rmq_batch_at(batch, i));
    }
    return good;
}

/* One claim: true while there may be more to do. */
static bool work_once(struct consume *c)
{
    rmq_batch *batch = NULL;
    rmq_error *err = NULL;
    rmq_status st = rmq_consumer_poll(c->consumer, &batch, POLL_MS, &err);
    if (st == RMQ_OK) {
        bool good = print_batch(c, batch);
        int64_t n = good ? (int64_t)rmq_batch_count(batch) : 0;
        if (!good && errno != EPIPE) {
            tool_wrong("standard output: %s", strerror(errno));
        }
        rmq_consumer_finish(c->consumer, batch, good ? RMQ_CONSUME_SUCCESS : RMQ_RECONSUME_LATER,
                            NULL);
        rmq_batch_destroy(batch);
        settle(c, n, !good);
        return good;
    } else {
        bool closed = st == RMQ_ERR_CLOSED;
        settle(c, 0, st != RMQ_ERR_TIMEOUT && !closed);
        if (st != RMQ_ERR_TIMEOUT && !closed) {
            tool_fail("receiving", st, err);
            return false;
        }
        rmq_error_destroy(err);
        return !closed;
    }
    return true;
}

static void *work(void *user)
{
    struct consume *c = user;
    struct timespec pause = {.tv_nsec = 10000000};
    for (;;) {
        pthread_mutex_lock(&c->lock);
        bool over = c->stop || c->broken || (c->count >= 0 && c->printed >= c->count);
        pthread_mutex_unlock(&c->lock);
        if (over) {
            return NULL;
        }
        if (!claim(c)) {
            nanosleep(&pause, NULL); /* another worker holds the last claim and may give it back */
        } else if (!work_once(c)) {
            return NULL;
        }
    }
}

/* {"event":"rebalanced","topic":T,"queues":["broker:0",…]} from the assignment "topic broker
 * queueId\n…". */
static void print_assignment(const struct consume *c)
{
    char *assignment = NULL;
    if (rmq_consumer_assignment(c->consumer, &assignment, NULL) != RMQ_OK) {
        return;
    }
    struct tool_text line = {0};
    struct tool_text queues = {0};
    char *rest = NULL;
    for (char *row = strtok_r(assignment, "\n", &rest); row != NULL;
         row = strtok_r(NULL, "\n", &rest)) {
        char *inner = NULL;
        const char *topic = strtok_r(row, " ", &inner);
        const char *broker = strtok_r(NULL, " ", &inner);
        const char *id = strtok_r(NULL, " ", &inner);
        if (id != NULL && strcmp(topic, c->topic) == 0) {
            tool_text_format(&queues, "%s\"%s:%s\"", queues.size > 0 ? "," : "", broker, id);
        }
    }
    tool_json_open(&line);
    tool_json_text(&line, "event", "rebalanced");
    tool_json_text(&line, "topic", c->topic);
    tool_text_format(&line, ",\"queues\":[%s]", queues.data != NULL ? queues.data : "");
    tool_json_close(&line);
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
    tool_text_free(&queues);
    rmq_string_free(assignment);
}

static void take_events(const struct consume *c)
{
    rmq_event *list[64];
    bool rebalanced = false;
    size_t n = rmq_events_take(c->events, list, 64, 0);
    for (size_t i = 0; i < n; i++) {
        rebalanced = rebalanced || rmq_event_get_type(list[i]) == RMQ_EVENT_REBALANCED;
        if (rmq_event_get_type(list[i]) == RMQ_EVENT_ERROR) {
            fprintf(stderr, "rmq: %s\n", rmq_error_message(rmq_event_error(list[i])));
        }
        rmq_event_destroy(list[i]);
    }
    if (rebalanced) {
        print_assignment(c);
    }
}

enum reason { BY_SIGNAL, BY_WORKER, BY_READER, BY_TIME };

/* When no worker is left. */
static int outcome(const struct consume *c, enum reason reason)
{
    bool reached = c->count >= 0 && c->printed >= c->count;
    if (c->broken || (reason == BY_READER && !reached)) {
        return TOOL_FAILED;
    }
    if (reason == BY_TIME && c->count >= 0 && !reached) {
        fprintf(stderr, "rmq: %lld of %lld messages in %lld s\n", (long long)c->printed,
                (long long)c->count, (long long)c->timeout_s);
        return TOOL_FAILED;
    }
    return TOOL_DONE;
}

/* The main thread until a signal, the deadline, a word from a worker, or until nobody reads what is
 * printed (of which poll tells unasked). */
static enum reason wait_for_end(const struct consume *c, int signals)
{
    struct pollfd wait[] = {
        {.fd = signals, .events = POLLIN},
        {.fd = c->done_fd, .events = POLLIN},
        {.fd = c->events != NULL ? rmq_events_fd(c->events) : -1, .events = POLLIN},
        {.fd = STDOUT_FILENO}};
    int64_t end = tool_now_us() + c->timeout_s * 1000000;
    for (;;) {
        int64_t left = c->timeout_s > 0 ? (end - tool_now_us() + 999) / 1000 : 3600000;
        if (left <= 0) {
            return BY_TIME;
        }
        poll(wait, TOOL_COUNT(wait), left < 3600000 ? (int)left : 3600000);
        if (wait[2].revents != 0) {
            take_events(c);
        }
        if (wait[0].revents != 0 || wait[1].revents != 0) {
            return wait[0].revents != 0 ? BY_SIGNAL : BY_WORKER;
        }
        if (wait[3].revents != 0) {
            return BY_READER;
        }
    }
}

static void stop_workers(struct consume *c, int64_t started)
{
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_mutex_unlock(&c->lock);
    for (int64_t i = 0; i < started; i++) {
        pthread_join(c->workers[i], NULL);
    }
}

static int run(struct consume *c, int signals)
{
    rmq_error *err = NULL;
    int64_t started = 0;
    rmq_status st = rmq_consumer_subscribe_selector(
        c->consumer, c->topic, c->sql != NULL ? RMQ_EXPRESSION_SQL92 : RMQ_EXPRESSION_TAG,
        c->sql != NULL          ? c->sql
        : c->expression != NULL ? c->expression
                                : "*",
        &err);
    if (st == RMQ_OK) {
        st = rmq_consumer_start(c->consumer, &err);
    }
    if (st != RMQ_OK) {
        return tool_refuse("start", st, err);
    }
    while (started < c->threads && pthread_create(&c->workers[started], NULL, work, c) == 0) {
        started++;
    }
    enum reason reason = started > 0 ? wait_for_end(c, signals) : BY_WORKER;
    stop_workers(c, started);
    int rc = started > 0 ? outcome(c, reason) : TOOL_FAILED;
    st = rmq_consumer_shutdown(c->consumer, 0, &err);
    if (st != RMQ_OK) {
        return tool_fail("shutdown", st, err);
    }
    return rc;
}

/* Options that mean nothing without another one, or beside it. */
static int check_pairs(const struct consume *c)
{
    bool from_time = strcmp(c->from, "timestamp") == 0;
    if (from_time != (c->time != NULL)) {
        return from_time ? tool_wrong("--from timestamp needs --timestamp")
                         : tool_wrong("--timestamp needs --from timestamp");
    }
    if (c->expression != NULL && c->sql != NULL) {
        return tool_wrong("--expression and --sql exclude each other");
    }
    if (c->offsets != NULL && !c->broadcast) {
        return tool_wrong("--offsets needs --broadcast");
    }
    return TOOL_GO;
}

static int check_options(struct consume *c)
{
    if (c->topic == NULL || c->group == NULL) {
        return tool_wrong("a topic and a group are needed: -t TOPIC -g GROUP");
    }
    if (strcmp(c->from, "first") != 0 && strcmp(c->from, "last") != 0 &&
        strcmp(c->from, "timestamp") != 0) {
        return tool_wrong("--from is first, last or timestamp, not '%s'", c->from);
    }
    int rc = check_pairs(c);
    if (rc != TOOL_GO) {
        return rc;
    }
    c->time_ms = c->time != NULL ? tool_read_time(c->time) : 0;
    if (c->time_ms < 0) {
        return tool_wrong("--timestamp is milliseconds or YYYY-MM-DD HH:MM:SS, not '%s'", c->time);
    }
    if (!tool_output(c->output, &c->json)) {
        return TOOL_USAGE;
    }
    return tool_check_settings(&c->settings);
}

/* The command's own options as those of the client, where they were given; --set comes after them.
 * With --count each message is taken for itself, since a batch could pass the count. */
static rmq_status configure(const struct consume *c, rmq_config *config, rmq_error **err)
{
    char time[24];
    snprintf(time, sizeof time, "%lld", (long long)c->time_ms);
    const struct {
        const char *name, *value;
    } options[] = {
        {"namesrvAddr", tool_namesrv_addr(c->namesrv)},
        {"consumerGroup", c->group},
        {"consumeFromWhere", strcmp(c->from, "first") == 0  ? "CONSUME_FROM_FIRST_OFFSET"
                             : strcmp(c->from, "last") == 0 ? "CONSUME_FROM_LAST_OFFSET"
                                                            : "CONSUME_FROM_TIMESTAMP"},
        {"consumeTimestamp", c->time != NULL ? time : NULL},
        {"serializeType", c->serialize},
        {"consumeOrderly", c->orderly ? "true" : NULL},
        {"messageModel", c->broadcast ? "BROADCASTING" : NULL},
        {"localOffsetStoreDir", c->offsets},
        {"namespace", c->name_space},
        {"allocateMessageQueueStrategy", c->strategy},
        {"instanceName", c->instance},
    };
    rmq_status st = rmq_config_set_events(config, c->events, err);
    for (size_t i = 0; st == RMQ_OK && i < TOOL_COUNT(options); i++) {
        if (options[i].value != NULL) {
            st = rmq_config_set(config, options[i].name, options[i].value, err);
        }
    }
    if (st == RMQ_OK) {
        st = tool_set_options(&c->settings, config, err);
    }
    return st == RMQ_OK && c->count >= 0
               ? rmq_config_set(config, "consumeMessageBatchMaxSize", "1", err)
               : st;
}

static int make_consumer(struct consume *c)
{
    rmq_config *config = NULL;
    rmq_error *err = NULL;
    rmq_status st = c->show_events ? rmq_events_create(&c->events, &err) : RMQ_OK;
    if (st == RMQ_OK) {
        st = rmq_config_create(RMQ_CONFIG_CONSUMER, &config, &err);
    }
    if (st == RMQ_OK) {
        st = configure(c, config, &err);
    }
    if (st == RMQ_OK) {
        st = rmq_consumer_create_from_config(config, NULL, NULL, &c->consumer, &err);
    }
    rmq_config_destroy(config);
    return st == RMQ_OK ? TOOL_GO : tool_refuse("consumer", st, err);
}

static const char text[] = "Receives messages as a member of a consumer group and prints each as a "
                           "line. Runs until --count messages, --timeout\n"
                           "seconds, SIGTERM or Ctrl-C, or until nobody reads any more (| head); "
                           "offsets are committed then, so the next\n"
                           "run of the group goes on where this one ended.";
static const char examples[] =
    "    rmq consume -t Orders -g readers --from first\n"
    "    rmq consume -t Orders -g billing --expression 'paid || refunded' -o json\n"
    "    rmq consume -t Orders -g ledger --orderly --threads 4\n"
    "    rmq consume -t Orders -g big --sql 'amount > 1000'\n"
    "    rmq consume -t Orders -g shop --set clientRebalance=false\n"
    "    rmq consume -t Orders -g check --from timestamp --timestamp '2026-01-31 12:00:00' --count "
    "10 --timeout 30\n";
static const char exits[] =
    "0 --count messages came, or there was no --count; also after SIGTERM. 1 --timeout passed\n"
    "    before --count messages, nobody reads any more, or the consumer failed. 2 wrong command "
    "line.";

static int parse(struct consume *c, int argc, char **argv)
{
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&c->namesrv),
        TOOL_OPTION_TOPIC(&c->topic),
        {'g', "group", TOOL_TEXT, &c->group, "GROUP", "consumer group", 0, 0},
        {'e', "expression", TOOL_TEXT, &c->expression, "TAGS", "tags: 'a || b'; default all", 0, 0},
        {0, "sql", TOOL_TEXT, &c->sql, "CONDITION",
         "SQL92 condition on properties: \"n > 5 AND colour = 'red'\"", 0, 0},
        {0, "orderly", TOOL_FLAG, &c->orderly, NULL,
         "one message of a queue after the other, under the broker's lock", 0, 0},
        {0, "broadcast", TOOL_FLAG, &c->broadcast, NULL,
         "all messages, whoever else is in the group; offsets in a local file", 0, 0},
        {0, "offsets", TOOL_TEXT, &c->offsets, "FOLDER",
         "for --broadcast: instead of ~/.rocketmq_offsets", 0, 0},
        {0, "namespace", TOOL_TEXT, &c->name_space, "NAME", "namespace of topic and group", 0, 0},
        {0, "instance", TOOL_TEXT, &c->instance, "NAME",
         "name of this member in its client id; default unique", 0, 0},
        {0, "strategy", TOOL_TEXT, &c->strategy, "NAME",
         "how members share queues: AVG (default), AVG_BY_CIRCLE, CONSISTENT_HASH", 0, 0},
        {0, "from", TOOL_TEXT, &c->from, "WHERE",
         "first, last (default) or timestamp: where a group without offset begins; in a queue "
         "whose "
         "first message is still there and in memory, with that one",
         0, 0},
        {0, "timestamp", TOOL_TEXT, &c->time, "TIME",
         "for --from timestamp: milliseconds since 1970 or YYYY-MM-DD HH:MM:SS", 0, 0},
        {'c', "count", TOOL_NUMBER, &c->count, "N", "end after so many messages, taken singly", 1,
         INT64_MAX},
        {0, "timeout", TOOL_NUMBER, &c->timeout_s, "SECONDS", "end after so many seconds", 1,
         1000000000},
        {0, "threads", TOOL_NUMBER, &c->threads, "N",
         "workers that print; default 1, which keeps queue order", 1, MOST_THREADS},
        {0, "events", TOOL_FLAG, &c->show_events, NULL,
         "also print which queues this member owns, as JSON lines", 0, 0},
        {0, "serialize", TOOL_TEXT, &c->serialize, "WAY", "headers as JSON (default) or ROCKETMQ",
         0, 0},
        {0, "set", TOOL_LIST, &c->settings, "NAME=VALUE",
         "any option of `rmq options consumer`; may be repeated", 0, 0},
        TOOL_OPTION_OUTPUT(&c->output),
    };
    const struct tool_usage usage = {
        .synopsis = "consume -t TOPIC -g GROUP [options]",
        .text = text,
        .examples = examples,
        .exits = exits,
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_parse(&usage, argc, argv);
    return rc == TOOL_GO ? check_options(c) : rc;
}

int tool_consume(int argc, char **argv)
{
    struct consume c = {.from = "last",
                        .count = -1,
                        .threads = 1,
                        .done_fd = -1,
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    int rc = parse(&c, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    int signals = tool_signals();
    c.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = make_consumer(&c);
    if (rc == TOOL_GO) {
        rc = run(&c, signals);
    }
    rmq_consumer_destroy(c.consumer);
    rmq_events_destroy(c.events);
    close(c.done_fd);
    close(signals);
    return rc;
}
