/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq produce`: sends messages and says what the broker answered, a line each. The main thread
 * reads and sends; answers of asynchronous sends are printed by the library's callback thread.
 * Counterpart: mqadmin sendMessage.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmq/producer.h>

#include "tools/input.h"
#include "tools/message_text.h"
#include "tools/text.h"
#include "tools/tool.h"

#define MOST_BATCH 10000

struct produce {
    const char *namesrv, *topic, *group, *mode, *compress, *file, *body, *output, *serialize,
        *sharding_key;
    struct tool_input input;
    struct tool_list properties, settings;
    int64_t count, rate, batch, timeout_ms;
    bool lines, json_lines, json, quiet;
    rmq_producer *producer;
    void *loaded;
    int64_t begin_us, sent;
    atomic_llong acknowledged; /* atomic: relaxed, read after shutdown has joined the callbacks */
    atomic_llong failed;       /* atomic: relaxed, as above */
};

/* The i-th of the ids that a batch answers with, separated by commas: n bytes. */
static const char *find_id(const char *ids, size_t i, size_t *n)
{
    while (i > 0 && strchr(ids, ',') != NULL) {
        ids = strchr(ids, ',') + 1;
        i--;
    }
    *n = strcspn(ids, ",");
    return ids;
}

static void add_id(struct tool_text *line, const char *name, const char *ids, size_t i)
{
    size_t n = 0;
    const char *id = find_id(ids, i, &n);
    tool_json_bytes(line, name, id, n);
}

static void print_result(const struct produce *p, const rmq_send_result *result, size_t i)
{
    struct tool_text line = {0};
    int64_t offset = rmq_send_result_queue_offset(result) + (int64_t)i;
    if (p->json) {
        tool_json_open(&line);
        add_id(&line, "msgId", rmq_send_result_msg_id(result), i);
        add_id(&line, "offsetMsgId", rmq_send_result_offset_msg_id(result), i);
        tool_json_text(&line, "brokerName", rmq_send_result_broker_name(result));
        tool_json_number(&line, "queueId", rmq_send_result_queue_id(result));
        tool_json_number(&line, "queueOffset", offset);
        tool_json_text(&line, "status", rmq_send_result_status_name(result));
        if (*rmq_send_result_recall_handle(result)) {
            tool_json_text(&line, "recallHandle", rmq_send_result_recall_handle(result));
        }
        tool_json_close(&line);
    } else {
        size_t n = 0;
        const char *id = find_id(rmq_send_result_msg_id(result), i, &n);
        tool_text_format(&line, "%s  %.*s  queue %d of %s, offset %lld",
                         rmq_send_result_status_name(result), (int)n, id,
                         rmq_send_result_queue_id(result), rmq_send_result_broker_name(result),
                         (long long)offset);
    }
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
}

static void note_result(struct produce *p, const rmq_send_result *result, size_t count)
{
    atomic_fetch_add_explicit(&p->acknowledged, (long long)count, memory_order_relaxed);
    for (size_t i = 0; !p->quiet && i < count; i++) {
        print_result(p, result, i);
    }
}

static void note_error(struct produce *p, rmq_status st, const rmq_error *err, size_t count)
{
    atomic_fetch_add_explicit(&p->failed, (long long)count, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        tool_print_error(p->json, "not sent", st, err);
    }
}

static void on_sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct produce *p = user;
    if (err != NULL) {
        note_error(p, rmq_error_status(err), err, 1);
    } else {
        note_result(p, result, 1);
    }
}

static void send_one(struct produce *p, const rmq_message *message)
{
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    rmq_status st;
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    how.timeout_ms = p->timeout_ms;
    how.sharding_key = p->sharding_key;
    if (strcmp(p->mode, "async") == 0) {
        st = rmq_producer_send_async_with(p->producer, message, &how, on_sent, p, &err);
    } else if (strcmp(p->mode, "oneway") == 0) {
        st = rmq_producer_send_oneway_with(p->producer, message, &how, &err);
        atomic_fetch_add_explicit(&p->acknowledged, st == RMQ_OK, memory_order_relaxed);
    } else {
        st = rmq_producer_send_with(p->producer, message, &how, &result, &err);
        if (st == RMQ_OK) {
            note_result(p, result, 1);
        }
    }
    if (st != RMQ_OK) {
        note_error(p, st, err, 1);
    }
    rmq_send_result_destroy(result);
    rmq_error_destroy(err);
}

static void send_batch(struct produce *p, rmq_message *const *messages, size_t count)
{
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    const rmq_message **list = calloc(count, sizeof *list);
    rmq_status st = RMQ_ERR_NOMEM;
    if (list != NULL) {
        memcpy(list, messages, count * sizeof *list);
        st = rmq_producer_send_batch(p->producer, list, count, p->timeout_ms, &result, &err);
    }
    if (st == RMQ_OK) {
        note_result(p, result, count);
    } else {
        note_error(p, st, err, count);
    }
    free(list);
    rmq_send_result_destroy(result);
    rmq_error_destroy(err);
}

static void keep_pace(const struct produce *p)
{
    if (p->rate > 0) {
        tool_sleep_until_us(p->begin_us + p->sent * 1000000 / p->rate);
    }
}

/* Up to p->batch messages into the list. */
static size_t gather(struct produce *p, rmq_message **list, bool *end)
{
    size_t n = 0;
    while (n < (size_t)p->batch) {
        bool bad = false;
        list[n] = tool_input_next(&p->input, &bad);
        if (list[n] != NULL) {
            n++;
        } else if (bad) {
            atomic_fetch_add_explicit(&p->failed, 1, memory_order_relaxed);
        } else {
            *end = true;
            break;
        }
    }
    return n;
}

static int send_all(struct produce *p)
{
    rmq_message **list = calloc((size_t)p->batch, sizeof *list);
    bool end = list == NULL;
    p->begin_us = tool_now_us();
    while (!end) {
        size_t n = gather(p, list, &end);
        if (n > 0) {
            keep_pace(p);
        }
        if (n > 0 && p->batch > 1) {
            send_batch(p, list, n);
        } else if (n > 0) {
            send_one(p, list[0]);
        }
        p->sent += (int64_t)n;
        for (size_t i = 0; i < n; i++) {
            rmq_message_destroy(list[i]);
        }
    }
    free(list);
    rmq_error *err = NULL;
    rmq_status st = rmq_producer_shutdown(p->producer, p->timeout_ms + 1000, &err);
    if (st != RMQ_OK) {
        tool_fail("shutdown", st, err);
    }
    long long acknowledged = atomic_load_explicit(&p->acknowledged, memory_order_relaxed);
    long long failed = atomic_load_explicit(&p->failed, memory_order_relaxed);
    if (!p->json) {
        fprintf(stderr, "%lld %s, %lld failed, %.2f s\n", acknowledged,
                strcmp(p->mode, "oneway") == 0 ? "sent without waiting for an answer"
                                               : "acknowledged",
                failed, (double)(tool_now_us() - p->begin_us) / 1e6);
    }
    return failed == 0 && acknowledged == p->sent ? TOOL_DONE : TOOL_FAILED;
}

static bool among(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(word, *words) != 0) {
        words++;
    }
    return *words != NULL;
}

static int check_options(struct produce *p)
{
    static const char *const modes[] = {"sync", "async", "oneway", NULL};
    static const char *const ways[] = {"zlib", "lz4", "zstd", "none", NULL};
    int sources = (p->body != NULL) + (p->file != NULL) + p->lines + p->json_lines;
    if (p->topic == NULL) {
        return tool_wrong("a topic is needed: -t TOPIC");
    }
    if (!among(p->mode, modes)) {
        return tool_wrong("--mode is sync, async or oneway, not '%s'", p->mode);
    }
    if (p->compress != NULL && !among(p->compress, ways)) {
        return tool_wrong("--compress is zlib, lz4, zstd or none, not '%s'", p->compress);
    }
    if (p->batch > 1 && strcmp(p->mode, "sync") != 0) {
        return tool_wrong("--batch goes with --mode sync only");
    }
    if (p->batch > 1 && p->sharding_key != NULL) {
        return tool_wrong("--sharding-key does not go with --batch");
    }
    if (p->batch > 1 &&
        (p->input.delay_level > 0 || p->input.delay_ms > 0 || p->input.deliver_at_ms > 0)) {
        return tool_wrong("a delay does not go with --batch");
    }
    if (sources > 1) {
        return tool_wrong("give one of: a body, --file, --lines, --json-lines");
    }
    if (!tool_output(p->output, &p->json)) {
        return TOOL_USAGE;
    }
    return tool_check_settings(&p->settings);
}

/* Standard input is read only when that was asked for: a forgotten body shall not wait for one. */
static int choose_input(struct produce *p)
{
    struct tool_input *input = &p->input;
    input->topic = p->topic;
    input->properties = &p->properties;
    input->left = p->count;
    if (!tool_input_check(input)) {
        return TOOL_USAGE;
    }
    if (p->json_lines || p->lines) {
        input->kind = p->json_lines ? TOOL_INPUT_JSON_LINES : TOOL_INPUT_LINES;
        return TOOL_GO;
    }
    if (p->body == NULL && p->file == NULL) {
        return tool_wrong("nothing to send: give a body, --file, --lines or --json-lines");
    }
    input->kind = TOOL_INPUT_BODY;
    input->left = p->count < 0 ? 1 : p->count;
    input->body = p->body;
    input->body_size = p->body != NULL ? strlen(p->body) : 0;
    if (p->file != NULL) {
        p->loaded = tool_read_file(p->file, &input->body_size);
        input->body = p->loaded;
    }
    return input->body != NULL ? TOOL_GO : TOOL_FAILED;
}

static rmq_status set_compression(rmq_config *config, const char *way, rmq_error **err)
{
    char name[8] = "";
    for (size_t i = 0; i < sizeof name - 1 && way[i] != '\0'; i++) {
        name[i] = (char)(way[i] >= 'a' && way[i] <= 'z' ? way[i] - 'a' + 'A' : way[i]);
    }
    return rmq_config_set(config, "compressType", name, err);
}

static int start_producer(struct produce *p)
{
    rmq_config *config = NULL;
    rmq_error *err = NULL;
    rmq_status st = rmq_config_create(RMQ_CONFIG_PRODUCER, &config, &err);
    if (st == RMQ_OK) {
        st = rmq_config_set(config, "namesrvAddr", tool_namesrv_addr(p->namesrv), &err);
    }
    if (st == RMQ_OK) {
        st = rmq_config_set(config, "producerGroup", p->group, &err);
    }
    if (st == RMQ_OK && p->compress != NULL) {
        st = set_compression(config, p->compress, &err);
    }
    if (st == RMQ_OK && p->serialize != NULL) {
        st = rmq_config_set(config, "serializeType", p->serialize, &err);
    }
    if (st == RMQ_OK) {
        st = tool_set_options(&p->settings, config, &err);
    }
    if (st == RMQ_OK) {
        st = rmq_producer_create_from_config(config, &p->producer, &err);
    }
    rmq_config_destroy(config);
    return st == RMQ_OK ? TOOL_GO : tool_refuse("producer", st, err);
}

static const char text[] =
    "Sends messages to a topic and prints what the broker answered, a line for each message.\n"
    "The body is the last word, or comes from --file, --lines or --json-lines.";
static const char examples[] =
    "    rmq produce -t Orders 'order 17 is paid'\n"
    "    rmq produce -t Orders --tag paid --key order-17 --property region=EU --file order.json\n"
    "    rmq produce -t Load --body x --count 10000 --mode async --quiet\n"
    "    seq 100 | rmq produce -t Numbers --lines --rate 10 -o json\n"
    "    echo '{\"body\":\"b\",\"tag\":\"a\",\"keys\":\"k1 k2\",\"properties\":{\"p\":\"v\"}}' | "
    "rmq produce -t T --json-lines\n";
static const char exits[] =
    "0 all messages were acknowledged, 1 some were not, 2 wrong command line.";

static int parse(struct produce *p, int argc, char **argv)
{
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&p->namesrv),
        TOOL_OPTION_TOPIC(&p->topic),
        {'g', "group", TOOL_TEXT, &p->group, "GROUP", "producer group; default rmq-produce", 0, 0},
        {'b', "body", TOOL_TEXT, &p->body, "TEXT", "the body, as the bare word would be", 0, 0},
        {'f', "file", TOOL_TEXT, &p->file, "FILE", "the body is a file; - is standard input", 0, 0},
        {0, "lines", TOOL_FLAG, &p->lines, NULL, "each line of standard input is a body", 0, 0},
        {0, "json-lines", TOOL_FLAG, &p->json_lines, NULL,
         "each line is {\"body\" or \"bodyBase64\", \"tag\", \"keys\", \"properties\", "
         "\"delayLevel\", \"messageGroup\"}",
         0, 0},
        {0, "tag", TOOL_TEXT, &p->input.tag, "TAG", "tag of the messages", 0, 0},
        {'k', "key", TOOL_TEXT, &p->input.key, "KEY",
         "key of the messages; several with blanks between", 0, 0},
        {'p', "property", TOOL_LIST, &p->properties, "NAME=VALUE", "user property; may be repeated",
         0, 0},
        {0, "sharding-key", TOOL_TEXT, &p->sharding_key, "KEY",
         "to the queue of this key, as Java's hash selector has it", 0, 0},
        {'c', "count", TOOL_NUMBER, &p->count, "N", "messages to send; default 1, or all lines", 1,
         INT64_MAX},
        {0, "rate", TOOL_NUMBER, &p->rate, "N", "at most so many messages a second", 1, 1000000},
        {0, "mode", TOOL_TEXT, &p->mode, "MODE", "sync (default), async, or oneway: no answer", 0,
         0},
        {0, "batch", TOOL_NUMBER, &p->batch, "N", "messages of one request", 1, MOST_BATCH},
        {0, "compress", TOOL_TEXT, &p->compress, "WAY",
         "zlib (default), lz4, zstd or none, for bodies of 4096 bytes and more", 0, 0},
        {0, "delay-level", TOOL_NUMBER, &p->input.delay_level, "L", "1 (1 s) to 18 (2 h)", 0, 18},
        {0, "delay-ms", TOOL_NUMBER, &p->input.delay_ms, "MS",
         "deliver after so many ms (brokers of 5.x)", 0, INT64_MAX},
        {0, "deliver-at", TOOL_NUMBER, &p->input.deliver_at_ms, "MS",
         "deliver at this time, in ms since 1970 (brokers of 5.x)", 0, INT64_MAX},
        {0, "serialize", TOOL_TEXT, &p->serialize, "WAY", "headers as JSON (default) or ROCKETMQ",
         0, 0},
        {0, "timeout", TOOL_NUMBER, &p->timeout_ms, "MS", "deadline of one send; default 3000", 1,
         600000},
        {0, "set", TOOL_LIST, &p->settings, "NAME=VALUE",
         "any option of `rmq options producer`; may be repeated", 0, 0},
        {'q', "quiet", TOOL_FLAG, &p->quiet, NULL, "no line for a message that went well", 0, 0},
        TOOL_OPTION_OUTPUT(&p->output),
    };
    const struct tool_usage usage = {
        .synopsis = "produce -t TOPIC [options] [BODY]",
        .text = text,
        .examples = examples,
        .exits = exits,
        .options = options,
        .count = TOOL_COUNT(options),
        .positional = &p->body,
    };
    int rc = tool_parse(&usage, argc, argv);
    return rc == TOOL_GO ? check_options(p) : rc;
}

int tool_produce(int argc, char **argv)
{
    struct produce p = {
        .mode = "sync", .group = "rmq-produce", .count = -1, .batch = 1, .timeout_ms = 3000};
    int rc = parse(&p, argc, argv);
    rc = rc == TOOL_GO ? choose_input(&p) : rc;
    rc = rc == TOOL_GO ? start_producer(&p) : rc;
    if (rc == TOOL_GO) {
        rc = send_all(&p);
    }
    rmq_producer_destroy(p.producer);
    tool_input_free(&p.input);
    free(p.loaded);
    return rc;
}
