/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* `rmq request`: sends requests, one after the other, and prints the reply to each. Counterpart:
 * the requestReply examples of the Java client. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmq/producer.h>

#include "tools/input.h"
#include "tools/message_text.h"
#include "tools/text.h"
#include "tools/tool.h"

struct request {
    const char *namesrv, *topic, *group, *body, *output;
    struct tool_input input;
    struct tool_list properties;
    int64_t count, timeout_ms;
    bool lines, json_lines, json;
    rmq_producer *producer;
    int64_t replied, failed;
};

static void print_reply(const struct request *r, const rmq_message_view *reply)
{
    struct tool_text line = {0};
    size_t size = 0;
    const void *body = rmq_message_view_body(reply, &size);
    if (!r->json) {
        (void)fwrite(body, 1, size, stdout);
        (void)fputc('\n', stdout);
        (void)fflush(stdout); /* the reader may have the next request to make of it */
        return;
    }
    tool_json_open(&line);
    tool_json_text(&line, "msgId", rmq_message_view_id(reply));
    tool_json_text(&line, "topic", rmq_message_view_topic(reply));
    if (tool_is_utf8(body, size)) {
        tool_json_bytes(&line, "body", size > 0 ? body : "", size);
    } else {
        tool_json_base64(&line, "bodyBase64", body, size);
    }
    tool_json_sha1(&line, "bodySha1", size > 0 ? body : "", size);
    tool_json_close(&line);
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
}

static void ask(struct request *r, const rmq_message *message)
{
    const rmq_message_view *reply = NULL;
    rmq_error *err = NULL;
    rmq_status st = rmq_producer_request(r->producer, message, r->timeout_ms, &reply, &err);
    if (st == RMQ_OK) {
        print_reply(r, reply);
        rmq_message_view_release(reply);
        r->replied++;
    } else {
        tool_print_error(r->json, "request", st, err);
        rmq_error_destroy(err);
        r->failed++;
    }
}

static int ask_all(struct request *r)
{
    for (bool bad = false;; bad = false) {
        rmq_message *message = tool_input_next(&r->input, &bad);
        if (message != NULL) {
            ask(r, message);
            rmq_message_destroy(message);
        } else if (bad) {
            r->failed++;
        } else {
            break;
        }
    }
    return r->failed == 0 ? TOOL_DONE : TOOL_FAILED;
}

static int check_options(struct request *r)
{
    struct tool_input *input = &r->input;
    if (!tool_output(r->output, &r->json)) {
        return TOOL_USAGE;
    }
    if (r->topic == NULL) {
        return tool_wrong("a topic is needed: -t TOPIC");
    }
    if (r->lines + r->json_lines + (r->body != NULL) != 1) {
        return tool_wrong("give one of: a body, --lines, --json-lines");
    }
    input->topic = r->topic;
    input->properties = &r->properties;
    input->kind = r->json_lines ? TOOL_INPUT_JSON_LINES
                  : r->lines    ? TOOL_INPUT_LINES
                                : TOOL_INPUT_BODY;
    input->left = r->body != NULL && r->count < 0 ? 1 : r->count;
    input->body = r->body;
    input->body_size = r->body != NULL ? strlen(r->body) : 0;
    return tool_input_check(input) ? TOOL_GO : TOOL_USAGE;
}

static int start_producer(struct request *r)
{
    rmq_producer_options options;
    rmq_error *err = NULL;
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = r->group;
    options.namesrv_addr = tool_namesrv_addr(r->namesrv);
    rmq_status st = rmq_producer_create(&options, &r->producer, &err);
    return st == RMQ_OK ? TOOL_GO : tool_refuse("producer", st, err);
}

int tool_request(int argc, char **argv)
{
    struct request r = {.group = "rmq-request", .count = -1, .timeout_ms = 10000};
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&r.namesrv),
        TOOL_OPTION_TOPIC(&r.topic),
        {'g', "group", TOOL_TEXT, &r.group, "GROUP", "producer group; default rmq-request", 0, 0},
        {'b', "body", TOOL_TEXT, &r.body, "TEXT", "the body, as the bare word would be", 0, 0},
        {0, "lines", TOOL_FLAG, &r.lines, NULL, "each line of standard input is a body", 0, 0},
        {0, "json-lines", TOOL_FLAG, &r.json_lines, NULL,
         "each line is a message, as for rmq produce", 0, 0},
        {0, "tag", TOOL_TEXT, &r.input.tag, "TAG", "tag of the requests", 0, 0},
        {'k', "key", TOOL_TEXT, &r.input.key, "KEY",
         "key of the requests; several with blanks between", 0, 0},
        {'p', "property", TOOL_LIST, &r.properties, "NAME=VALUE", "user property; may be repeated",
         0, 0},
        {'c', "count", TOOL_NUMBER, &r.count, "N", "requests to send; default 1, or all lines", 1,
         INT64_MAX},
        {0, "timeout", TOOL_NUMBER, &r.timeout_ms, "MS",
         "how long to wait for a reply; default 10000", 1, 600000},
        TOOL_OPTION_OUTPUT(&r.output),
    };
    const struct tool_usage usage = {
        .synopsis = "request -t TOPIC [options] [BODY]",
        .text = "Sends requests to a topic, one after the other, and prints the reply of the "
                "consumer that "
                "answers each.",
        .examples = "    rmq request -t Prices 'how much is an apple?'\n"
                    "    seq 10 | rmq request -t Squares --lines -o json\n",
        .exits = "0 each request got its reply, 1 some did not, 2 wrong command line.",
        .options = options,
        .count = TOOL_COUNT(options),
        .positional = &r.body,
    };
    int rc = tool_parse(&usage, argc, argv);
    rc = rc == TOOL_GO ? check_options(&r) : rc;
    rc = rc == TOOL_GO ? start_producer(&r) : rc;
    if (rc == TOOL_GO) {
        rc = ask_all(&r);
    }
    rmq_producer_destroy(r.producer);
    tool_input_free(&r.input);
    return rc;
}
