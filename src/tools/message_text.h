/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A received message as JSON, the same for every command that shows messages, and what became of
 * one that could not be sent.
 */
#ifndef RQ_TOOLS_MESSAGE_TEXT_H
#define RQ_TOOLS_MESSAGE_TEXT_H

#include <rmq/message.h>

#include "tools/text.h"

/* Adds one object with all that the message tells; a body that is no UTF-8 is "bodyBase64". */
void tool_json_message(struct tool_text *line, const rmq_message_view *view);

/* An object to standard output, or "rmq: what: …" to standard error. */
void tool_print_error(bool json, const char *what, rmq_status st, const rmq_error *err);

#endif
