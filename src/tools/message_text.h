/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A received message as JSON, the same for every command that shows messages.
 */
#ifndef RQ_TOOLS_MESSAGE_TEXT_H
#define RQ_TOOLS_MESSAGE_TEXT_H

#include <rmq/message.h>

#include "tools/text.h"

/* Adds one object with all that the message tells; a body that is no UTF-8 is "bodyBase64". */
void tool_json_message(struct tool_text *line, const rmq_message_view *view);

#endif
