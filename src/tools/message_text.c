/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A received message, or an error, as text. See message_text.h. */
#include "tools/message_text.h"

#include <string.h>

static void add_body(struct tool_text *line, const rmq_message_view *view)
{
    size_t size = 0;
    const void *body = rmq_message_view_body(view, &size);
    if (tool_is_utf8(body, size)) {
        tool_json_bytes(line, "body", size > 0 ? body : "", size);
    } else {
        tool_json_base64(line, "bodyBase64", body, size);
    }
    tool_json_sha1(line, "bodySha1", size > 0 ? body : "", size);
}

static void add_properties(struct tool_text *line, const rmq_message_view *view)
{
    struct tool_text inner = {0};
    tool_json_open(&inner);
    for (size_t i = 0; i < rmq_message_view_property_count(view); i++) {
        const char *name = rmq_message_view_property_name(view, i);
        const char *value = rmq_message_view_property_value(view, i);
        tool_text_puts(&inner, i > 0 ? "," : "");
        tool_json_string(&inner, name, strlen(name));
        tool_text_puts(&inner, ":");
        tool_json_string(&inner, value, strlen(value));
    }
    tool_json_close(&inner);
    tool_json_raw(line, "properties", inner.data);
    tool_text_free(&inner);
}

void tool_json_message(struct tool_text *line, const rmq_message_view *view)
{
    tool_json_open(line);
    tool_json_text(line, "topic", rmq_message_view_topic(view));
    tool_json_number(line, "queueId", rmq_message_view_queue_id(view));
    tool_json_number(line, "queueOffset", rmq_message_view_queue_offset(view));
    tool_json_text(line, "msgId", rmq_message_view_id(view));
    tool_json_text(line, "offsetMsgId", rmq_message_view_offset_id(view));
    tool_json_text(line, "brokerName", rmq_message_view_broker_name(view));
    tool_json_text(line, "tag", rmq_message_view_tag(view));
    tool_json_text(line, "keys", rmq_message_view_keys(view));
    add_properties(line, view);
    add_body(line, view);
    tool_json_text(line, "bornHost", rmq_message_view_born_host(view));
    tool_json_text(line, "storeHost", rmq_message_view_store_host(view));
    tool_json_number(line, "bornTimestamp", rmq_message_view_born_timestamp_ms(view));
    tool_json_number(line, "storeTimestamp", rmq_message_view_store_timestamp_ms(view));
    tool_json_number(line, "reconsumeTimes", rmq_message_view_reconsume_times(view));
    tool_json_close(line);
}

void tool_print_error(bool json, const char *what, rmq_status st, const rmq_error *err)
{
    struct tool_text line = {0};
    const char *words = err != NULL ? rmq_error_message(err) : rmq_status_text(st);
    if (json) {
        tool_json_open(&line);
        tool_json_text(&line, "error", words);
        tool_json_text(&line, "status", rmq_status_name(st));
        tool_json_number(&line, "remoteCode", rmq_error_remote_code(err));
        tool_json_raw(&line, "maybeStored", rmq_error_maybe_stored(err) ? "true" : "false");
        tool_json_close(&line);
        tool_text_flush(&line, stdout);
    } else {
        tool_text_format(&line, "rmq: %s: %s%s", what, words,
                         rmq_error_maybe_stored(err) ? " (it may be stored all the same)" : "");
        tool_text_flush(&line, stderr);
    }
    tool_text_free(&line);
}
