/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What `rmq produce` sends: one body given many times, a file, lines, or JSON objects, one a line.
 * Belongs to one thread.
 */
#ifndef RQ_TOOLS_INPUT_H
#define RQ_TOOLS_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/message.h>

#include "tools/tool.h"

enum tool_input_kind { TOOL_INPUT_BODY, TOOL_INPUT_LINES, TOOL_INPUT_JSON_LINES };

struct tool_input {
    enum tool_input_kind kind;
    const char *topic;
    const char *tag; /* these are the defaults of each message */
    const char *key;
    const struct tool_list *properties; /* "name=value" */
    int64_t delay_level;
    int64_t delay_ms;      /* 0 = none */
    int64_t deliver_at_ms; /* since 1970; 0 = none */
    const void *body;      /* TOOL_INPUT_BODY */
    size_t body_size;
    int64_t left; /* messages still to give; -1 = as many as there are lines */
    int64_t line_number;
    char *line;
    size_t line_room;
};

/* The next message, to be destroyed by the caller; NULL at the end. *bad is set when a line could
 * not be used or read; what is wrong has been said on standard error, and the next call goes on. */
rmq_message *tool_input_next(struct tool_input *input, bool *bad);
/* Whether messages can be made with topic, tag, key and properties as they are; false after a
 * complaint. */
bool tool_input_check(const struct tool_input *input);
void tool_input_free(struct tool_input *input);

/* Whole file, "-" for standard input; freed with free. NULL after a complaint. */
void *tool_read_file(const char *path, size_t *size);

#endif
