/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq message`: single messages by offset id, unique id or key. Counterparts: mqadmin
 * queryMsgById, queryMsgByUniqueKey, queryMsgByKey.
 */
#include <stdio.h>
#include <string.h>

#include "tools/admin.h"
#include "tools/message_text.h"
#include "tools/text.h"

static void add_text(struct tool_text *text, const rmq_message_view *view)
{
    size_t size = 0;
    const void *body = rmq_message_view_body(view, &size);
    tool_text_format(text, "topic %s, queue %d, offset %lld\nid %s\ntag %s\nkeys %s\n",
                     rmq_message_view_topic(view), rmq_message_view_queue_id(view),
                     (long long)rmq_message_view_queue_offset(view), rmq_message_view_id(view),
                     rmq_message_view_tag(view), rmq_message_view_keys(view));
    for (size_t i = 0; i < rmq_message_view_property_count(view); i++) {
        tool_text_format(text, "property %s=%s\n", rmq_message_view_property_name(view, i),
                         rmq_message_view_property_value(view, i));
    }
    tool_text_format(text, "born %s at %lld, stored %s at %lld\n", rmq_message_view_born_host(view),
                     (long long)rmq_message_view_born_timestamp_ms(view),
                     rmq_message_view_store_host(view),
                     (long long)rmq_message_view_store_timestamp_ms(view));
    if (tool_is_utf8(body, size)) {
        tool_text_add(text, body, size);
    } else {
        tool_text_format(text, "(%zu bytes)", size);
    }
}

static void print_message(const struct tool_admin *a, const rmq_message_view *view)
{
    struct tool_text text = {0};
    if (a->json) {
        tool_json_message(&text, view);
    } else {
        add_text(&text, view);
    }
    tool_text_flush(&text, stdout);
    tool_text_free(&text);
}

static int show_all(const struct tool_admin *a, const rmq_message_view **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && !a->json) {
            puts("");
        }
        print_message(a, list[i]);
    }
    rmq_admin_messages_free(list, count);
    return TOOL_DONE;
}

static int show_by_offset_id(const struct tool_admin *a, const char *id)
{
    rmq_error *err = NULL;
    const rmq_message_view *view = NULL;
    rmq_status st = rmq_admin_view_message(a->admin, id, TOOL_ADMIN_TIMEOUT_MS, &view, &err);
    if (st != RMQ_OK) {
        (void)tool_fail("message", st, err);
        fputs("rmq: a unique id (the msgId of a send) looks alike, but needs its topic: -t TOPIC\n",
              stderr);
        return TOOL_FAILED;
    }
    print_message(a, view);
    rmq_message_view_release(view);
    return TOOL_DONE;
}

/* With a topic the word is a unique id: it looks like an offset id. */
static int show(const struct tool_admin *a, const char *id, const char *key, int64_t most)
{
    rmq_error *err = NULL;
    const rmq_message_view **list = NULL;
    size_t count = 0;
    if (a->topic == NULL) {
        return show_by_offset_id(a, id);
    }
    rmq_status st = id != NULL
                        ? rmq_admin_query_unique_id(a->admin, a->topic, id, TOOL_ADMIN_TIMEOUT_MS,
                                                    &list, &count, &err)
                        : rmq_admin_query_message(a->admin, a->topic, key, (int32_t)most, 0, 0,
                                                  TOOL_ADMIN_TIMEOUT_MS, &list, &count, &err);
    return st == RMQ_OK ? show_all(a, list, count) : tool_fail("message", st, err);
}

int tool_message(int argc, char **argv)
{
    struct tool_admin a = {0};
    const char *id = NULL;
    const char *key = NULL;
    int64_t most = 64;
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&a.namesrv),
        TOOL_OPTION_TOPIC(&a.topic),
        {'k', "key", TOOL_TEXT, &key, "KEY", "messages of the topic with this key", 0, 0},
        {'c', "count", TOOL_NUMBER, &most, "N",
         "with --key: at most so many of each broker; default 64", 1, 64},
        TOOL_OPTION_OUTPUT(&a.output),
    };
    const struct tool_usage usage = {
        .synopsis = "message [options] [ID]",
        .text = "Shows messages: the one behind an offset id (the offsetMsgId "
                "of rmq produce and consume), or, with a topic, that of\n"
                "a unique id (the msgId) or all that carry a key.",
        .examples = "    rmq message 7F00000100002A9F0000000000000000\n"
                    "    rmq message -t Orders 7F000001000070DEA4E8A8A80C5E0000\n"
                    "    rmq message -t Orders --key order-17\n",
        .options = options,
        .count = TOOL_COUNT(options),
        .positional = &id,
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, false, false);
    if (rc == TOOL_GO && (id != NULL) == (key != NULL)) {
        rc = tool_wrong("give an id, or a topic and --key");
    } else if (rc == TOOL_GO && key != NULL && a.topic == NULL) {
        rc = tool_wrong("--key needs a topic: -t TOPIC");
    }
    if (rc == TOOL_GO) {
        rc = show(&a, id, key, most);
    }
    tool_admin_close(&a);
    return rc;
}
