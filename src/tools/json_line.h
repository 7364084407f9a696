/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A message as a line of JSON: {"body" or "bodyBase64", "tag", "keys", "properties", "delayLevel",
 * "messageGroup"}. Any other member is an error.
 */
#ifndef RQ_TOOLS_JSON_LINE_H
#define RQ_TOOLS_JSON_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include <rmq/message.h>

#define TOOL_PROBLEM_MAX 200

/* Adds what the line says to a message. False: problem says in words which member is wrong, and the
 * message is half filled. */
bool tool_json_line(rmq_message *message, const char *line, size_t length,
                    char problem[TOOL_PROBLEM_MAX]);

/* Adds keys that are separated by blanks, as the property holds them. */
rmq_status tool_add_keys(rmq_message *message, const char *keys);

#endif
