/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq group progress|reset`: how far a group has come in each queue, and where it goes on.
 * Counterparts: mqadmin consumerProgress, resetOffsetByTime.
 */
#include <stdio.h>
#include <string.h>

#include "tools/group.h"
#include "tools/text.h"

/* ---- progress ---- */

static void print_row(const struct tool_admin *a, const char *topic, const rmq_queue_status *queue,
                      bool known, int64_t offset)
{
    struct tool_text line = {0};
    long long lag = (long long)(queue->max_offset - offset);
    if (a->json) {
        tool_json_open(&line);
        tool_json_text(&line, "topic", topic);
        tool_json_text(&line, "brokerName", queue->broker_name);
        tool_json_number(&line, "queueId", queue->queue_id);
        tool_json_number(&line, "brokerOffset", queue->max_offset);
        if (known) {
            tool_json_number(&line, "consumerOffset", offset);
            tool_json_number(&line, "lag", lag);
        }
        tool_json_close(&line);
    } else if (known) {
        tool_text_format(&line, "%-20s %5d %12lld %12lld %12lld", queue->broker_name,
                         queue->queue_id, (long long)queue->max_offset, (long long)offset, lag);
    } else {
        tool_text_format(&line, "%-20s %5d %12lld %12s %12s", queue->broker_name, queue->queue_id,
                         (long long)queue->max_offset, "none", "-");
    }
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
}

/* One queue with the group's offset. "none" is an answer; a failure is not shown as one. */
static int show_queue(const struct tool_admin *a, const char *topic, const rmq_queue_status *queue)
{
    rmq_error *err = NULL;
    int64_t offset = 0;
    rmq_status st =
        rmq_admin_consumer_offset(a->admin, a->group, topic, queue->broker_name, queue->queue_id,
                                  TOOL_ADMIN_TIMEOUT_MS, &offset, &err);
    if (st != RMQ_OK && st != RMQ_ERR_NOT_FOUND) {
        return tool_fail("offset", st, err);
    }
    rmq_error_destroy(err);
    print_row(a, topic, queue, st == RMQ_OK, offset);
    return TOOL_DONE;
}

static int show_topic(const struct tool_admin *a, const char *topic)
{
    rmq_error *err = NULL;
    rmq_queue_status *queues = NULL;
    size_t count = 0;
    rmq_status st =
        rmq_admin_topic_status(a->admin, topic, TOOL_ADMIN_TIMEOUT_MS, &queues, &count, &err);
    if (st == RMQ_ERR_NO_ROUTE && a->topic == NULL) {
        rmq_error_destroy(err); /* the offsets of a topic that is gone */
        return TOOL_DONE;
    }
    if (st != RMQ_OK) {
        return tool_fail("topic", st, err);
    }
    if (!a->json) {
        printf("Topic %s:\n%-20s %5s %12s %12s %12s\n", topic, "BROKER", "QUEUE", "END", "GROUP",
               "LAG");
    }
    int rc = TOOL_DONE;
    for (size_t i = 0; i < count && rc == TOOL_DONE; i++) {
        rc = show_queue(a, topic, &queues[i]);
    }
    rmq_admin_queue_status_free(queues, count);
    return rc;
}

static int show_all_topics(const struct tool_admin *a)
{
    rmq_error *err = NULL;
    char *topics = NULL;
    char *rest = NULL;
    rmq_status st =
        rmq_admin_group_topics(a->admin, a->group, TOOL_ADMIN_TIMEOUT_MS, &topics, &err);
    if (st != RMQ_OK) {
        return tool_fail("topics", st, err);
    }
    int rc = TOOL_DONE;
    if (topics[0] == '\0') {
        fprintf(stderr, "rmq: group %s has no offset in any topic\n", a->group);
        rc = TOOL_FAILED;
    }
    for (const char *topic = strtok_r(topics, "\n", &rest);
         topic != NULL && rc == TOOL_DONE && !ferror(stdout); topic = strtok_r(NULL, "\n", &rest)) {
        rc = show_topic(a, topic);
    }
    rmq_string_free(topics);
    return rc;
}

/* Each member once, however many brokers it is connected to. */
static void print_ids(const char *json)
{
    cJSON *all = cJSON_Parse(json);
    cJSON *told = cJSON_CreateObject();
    const cJSON *broker = NULL;
    const cJSON *client = NULL;
    cJSON_ArrayForEach(broker, all)
    {
        cJSON_ArrayForEach(client, cJSON_GetObjectItemCaseSensitive(broker, "connectionSet"))
        {
            const char *id = tool_member(client, "clientId");
            if (cJSON_GetObjectItemCaseSensitive(told, id) == NULL) {
                puts(id);
                cJSON_AddTrueToObject(told, id);
            }
        }
    }
    cJSON_Delete(told);
    cJSON_Delete(all);
}

static int print_members(const struct tool_admin *a)
{
    char *json = NULL;
    int rc = tool_group_members(a, &json);
    if (rc != TOOL_GO) {
        return rc;
    }
    puts("Members now:");
    if (json != NULL) {
        print_ids(json);
    } else {
        puts("none");
    }
    rmq_string_free(json);
    return TOOL_DONE;
}

int tool_group_progress(int argc, char **argv)
{
    struct tool_admin a = {0};
    const struct tool_option options[] = {TOOL_OPTION_NAMESRV(&a.namesrv),
                                          TOOL_OPTION_GROUP(&a.group),
                                          {'t', "topic", TOOL_TEXT, &a.topic, "TOPIC",
                                           "only this topic; default all of the group", 0, 0},
                                          TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        .synopsis = "group progress -g GROUP [options]",
        .text = "Shows who is in a consumer group now, and how far it has come in each queue: the "
                "topic's "
                "end, the group's\noffset, and how many messages lie between.",
        .examples = "    rmq group progress -g billing -t Orders\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, false, true);
    if (rc != TOOL_GO) {
        return rc;
    }
    rc = a.json ? TOOL_DONE : print_members(&a);
    if (rc == TOOL_DONE) {
        rc = a.topic != NULL ? show_topic(&a, a.topic) : show_all_topics(&a);
    }
    tool_admin_close(&a);
    return rc;
}

/* ---- reset ---- */

static void print_offsets(const struct tool_admin *a, const rmq_queue_offset *list, size_t count)
{
    struct tool_text line = {0};
    if (!a->json) {
        printf("%-20s %5s %12s\n", "BROKER", "QUEUE", "OFFSET");
    }
    for (size_t i = 0; i < count; i++) {
        if (a->json) {
            tool_json_open(&line);
            tool_json_text(&line, "brokerName", list[i].broker_name);
            tool_json_number(&line, "queueId", list[i].queue_id);
            tool_json_number(&line, "offset", list[i].offset);
            tool_json_close(&line);
        } else {
            tool_text_format(&line, "%-20s %5d %12lld", list[i].broker_name, list[i].queue_id,
                             (long long)list[i].offset);
        }
        tool_text_flush(&line, stdout);
    }
    tool_text_free(&line);
}

/* false after a complaint */
static bool read_place(const char *to, int64_t *timestamp_ms)
{
    if (to == NULL) {
        tool_wrong("say where the group goes on: --to first, --to last or --to TIME");
        return false;
    }
    *timestamp_ms = strcmp(to, "first") == 0  ? 0
                    : strcmp(to, "last") == 0 ? -1
                                              : tool_read_time(to);
    if (*timestamp_ms < 0 && strcmp(to, "last") != 0) {
        tool_wrong("--to is first, last, milliseconds or YYYY-MM-DD HH:MM:SS, not '%s'", to);
        return false;
    }
    return true;
}

int tool_group_reset(int argc, char **argv)
{
    struct tool_admin a = {0};
    const char *to = NULL;
    int64_t timestamp_ms = 0;
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&a.namesrv),
        TOOL_OPTION_GROUP(&a.group),
        TOOL_OPTION_TOPIC(&a.topic),
        {0, "to", TOOL_TEXT, &to, "WHERE",
         "first, last, or a time: milliseconds since 1970 or YYYY-MM-DD HH:MM:SS", 0, 0},
        TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        .synopsis = "group reset -g GROUP -t TOPIC --to WHERE [options]",
        .text = "Lets a group go on in a topic from its first message, behind its last, or from "
                "what was "
                "stored at a time or later.\nMembers that run follow by themselves.",
        .examples = "    rmq group reset -g billing -t Orders --to first\n"
                    "    rmq group reset -g billing -t Orders --to '2026-01-31 12:00:00'\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, true, true);
    if (rc == TOOL_GO && !read_place(to, &timestamp_ms)) {
        rc = TOOL_USAGE;
    }
    if (rc == TOOL_GO) {
        rmq_error *err = NULL;
        rmq_queue_offset *list = NULL;
        size_t count = 0;
        rmq_status st = rmq_admin_reset_offset(a.admin, a.group, a.topic, timestamp_ms,
                                               TOOL_ADMIN_TIMEOUT_MS, &list, &count, &err);
        if (st == RMQ_OK) {
            print_offsets(&a, list, count);
        }
        rc = st == RMQ_OK ? TOOL_DONE : tool_fail("reset", st, err);
        rmq_admin_queue_offsets_free(list, count);
    }
    tool_admin_close(&a);
    return rc;
}
