/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Messages from the command line, from lines and from JSON lines (json_line.c). See input.h.
 */
#include "tools/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json_line.h"
#include "tools/text.h"

/* far above what a broker takes, far below what a machine has */
#define FILE_MOST ((size_t)64 << 20)

void *tool_read_file(const char *path, size_t *size)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (file == NULL) {
        tool_wrong("%s: %s", path, strerror(errno));
        return NULL;
    }
    struct tool_text text = {0};
    char part[65536];
    size_t n = 0;
    while (text.size <= FILE_MOST && (n = fread(part, 1, sizeof part, file)) > 0) {
        tool_text_add(&text, part, n);
    }
    tool_text_add(&text, "", 0);
    bool large = text.size > FILE_MOST;
    bool good = !large && ferror(file) == 0;
    if (file != stdin) {
        fclose(file);
    }
    if (!good) {
        tool_wrong(large ? "%s: more than 64 MiB" : "%s: cannot be read", path);
        tool_text_free(&text);
        return NULL;
    }
    *size = text.size;
    return text.data;
}

static rmq_status set_property(rmq_message *message, const char *pair)
{
    const char *equals = strchr(pair, '=');
    if (equals == NULL) {
        return RMQ_ERR_INVALID;
    }
    char *name = strndup(pair, (size_t)(equals - pair));
    rmq_status st =
        name != NULL ? rmq_message_set_property(message, name, equals + 1) : RMQ_ERR_NOMEM;
    free(name);
    return st;
}

static rmq_status set_properties(const struct tool_input *input, rmq_message *message)
{
    rmq_status st = RMQ_OK;
    for (size_t i = 0; st == RMQ_OK && i < input->properties->count; i++) {
        st = set_property(message, input->properties->items[i]);
        if (st != RMQ_OK) {
            tool_wrong("--property '%s': %s", input->properties->items[i],
                       st != RMQ_ERR_INVALID
                           ? rmq_status_text(st)
                           : "not name=value, or a reserved name, or a byte 1 or 2 in it");
        }
    }
    return st;
}

/* At most one of them is given. */
static rmq_status set_delay(const struct tool_input *input, rmq_message *message)
{
    if (input->delay_ms > 0) {
        return rmq_message_set_delay_time_ms(message, input->delay_ms);
    }
    if (input->deliver_at_ms > 0) {
        return rmq_message_set_deliver_time_ms(message, input->deliver_at_ms);
    }
    return rmq_message_set_delay_level(message, (int)input->delay_level);
}

static rmq_status set_tag_and_key(const struct tool_input *input, rmq_message *message)
{
    rmq_status st = input->tag != NULL ? rmq_message_set_tag(message, input->tag) : RMQ_OK;
    if (st == RMQ_OK && input->key != NULL) {
        st = tool_add_keys(message, input->key);
    }
    if (st != RMQ_OK) {
        tool_wrong("--tag or --key: %s", rmq_status_text(st));
    }
    return st;
}

/* A message with what the command line says. */
static rmq_message *start_message(const struct tool_input *input)
{
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    rmq_status st = rmq_message_create(input->topic, &message, &err);
    if (st != RMQ_OK) {
        tool_fail("topic", st, err);
        return NULL;
    }
    st = set_tag_and_key(input, message);
    st = st == RMQ_OK ? set_properties(input, message) : st;
    st = st == RMQ_OK ? set_delay(input, message) : st;
    if (st != RMQ_OK) {
        rmq_message_destroy(message);
        return NULL;
    }
    return message;
}

bool tool_input_check(const struct tool_input *input)
{
    if ((input->delay_level > 0) + (input->delay_ms > 0) + (input->deliver_at_ms > 0) > 1) {
        tool_wrong("give one of: --delay-level, --delay-ms, --deliver-at");
        return false;
    }
    rmq_message *message = start_message(input);
    rmq_message_destroy(message);
    return message != NULL;
}

/* False: problem says why the line is not a message. */
static bool fill_message(struct tool_input *input, rmq_message *message, size_t length,
                         char problem[TOOL_PROBLEM_MAX])
{
    if (input->kind == TOOL_INPUT_JSON_LINES) {
        return tool_json_line(message, input->line, length, problem);
    }
    rmq_status st = RMQ_OK;
    if (input->kind == TOOL_INPUT_BODY) {
        st = rmq_message_borrow_body(message, input->body, input->body_size);
    } else if (length > 0) {
        st = rmq_message_copy_body(message, input->line, length);
    } else {
        snprintf(problem, TOOL_PROBLEM_MAX, "empty, and a message needs a body");
        return false;
    }
    snprintf(problem, TOOL_PROBLEM_MAX, "%s", rmq_status_text(st));
    return st == RMQ_OK;
}

/* Next line without its end into input->line; false at the end of the input, and when it cannot be
 * read, which is bad. */
static bool read_line(struct tool_input *input, size_t *length, bool *bad)
{
    ssize_t n = getline(&input->line, &input->line_room, stdin);
    if (n < 0) {
        *bad = feof(stdin) == 0;
        if (*bad) {
            tool_wrong("standard input: %s", strerror(errno));
            input->left = 0;
        }
        return false;
    }
    input->line_number++;
    *length = (size_t)n;
    if (n > 0 && input->line[n - 1] == '\n') {
        input->line[--*length] = '\0';
    }
    return true;
}

rmq_message *tool_input_next(struct tool_input *input, bool *bad)
{
    size_t length = 0;
    *bad = false;
    if (input->left == 0) {
        return NULL;
    }
    if (input->kind != TOOL_INPUT_BODY && !read_line(input, &length, bad)) {
        return NULL;
    }
    if (input->left > 0) {
        input->left--;
    }
    char problem[TOOL_PROBLEM_MAX];
    rmq_message *message = start_message(input);
    if (message != NULL && fill_message(input, message, length, problem)) {
        return message;
    }
    if (message != NULL) {
        tool_wrong("line %lld: %s", (long long)input->line_number, problem);
    }
    rmq_message_destroy(message);
    *bad = true;
    return NULL;
}

void tool_input_free(struct tool_input *input)
{
    free(input->line);
    input->line = NULL;
}
