/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq topic create|delete|list|route|status`. Counterparts: mqadmin updateTopic, deleteTopic,
 * topicList, topicRoute, topicStatus.
 */
#include <stdio.h>
#include <string.h>

#include "tools/admin.h"
#include "tools/text.h"

static void print_created(const struct tool_admin *a, int64_t queues)
{
    struct tool_text line = {0};
    if (a->json) {
        tool_json_open(&line);
        tool_json_text(&line, "topic", a->topic);
        tool_json_number(&line, "queues", queues);
        tool_json_close(&line);
    } else {
        tool_text_format(&line, "topic %s with %lld queues on each broker", a->topic,
                         (long long)queues);
    }
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
}

static int create(int argc, char **argv)
{
    struct tool_admin a = {0};
    int64_t queues = 8;
    int64_t perm = 6;
    const char *cluster = NULL;
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&a.namesrv),
        TOOL_OPTION_TOPIC(&a.topic),
        {'q', "queues", TOOL_NUMBER, &queues, "N", "queues on each broker; default 8", 1, 65535},
        TOOL_OPTION_CLUSTER(&cluster),
        {0, "perm", TOOL_NUMBER, &perm, "N", "2 write, 4 read, 6 both (default)", 2, 6},
        TOOL_OPTION_OUTPUT(&a.output),
    };
    const struct tool_usage usage = {
        .synopsis = "topic create -t TOPIC [options]",
        .text = "Creates a topic on every master broker, or changes its "
                "queues, and waits until the name server knows it.",
        .examples = "    rmq topic create -t Orders -q 8\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, true, false);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    rmq_status st =
        rmq_admin_create_topic(a.admin, cluster, a.topic, (int32_t)queues, (int32_t)queues,
                               (int32_t)perm, TOOL_ADMIN_TIMEOUT_MS * 2, &err);
    rc = st == RMQ_OK ? TOOL_DONE : tool_fail("create", st, err);
    if (rc == TOOL_DONE) {
        print_created(&a, queues);
    }
    tool_admin_close(&a);
    return rc;
}

static int drop(int argc, char **argv)
{
    struct tool_admin a = {0};
    const char *cluster = NULL;
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&a.namesrv),
        TOOL_OPTION_TOPIC(&a.topic),
        TOOL_OPTION_CLUSTER(&cluster),
        TOOL_OPTION_OUTPUT(&a.output),
    };
    const struct tool_usage usage = {
        .synopsis = "topic delete -t TOPIC [options]",
        .text = "Removes a topic with its messages from every master broker "
                "and from all name servers. A producer that goes on\nsending to "
                "it creates it anew, unless autoCreateTopicEnable is false.",
        .examples = "    rmq topic delete -t Orders\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, true, false);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    rmq_status st = rmq_admin_delete_topic(a.admin, cluster, a.topic, TOOL_ADMIN_TIMEOUT_MS, &err);
    rc = st == RMQ_OK ? tool_print_done(&a, "topic", a.topic, "deleted")
                      : tool_fail("delete", st, err);
    tool_admin_close(&a);
    return rc;
}

static int list(int argc, char **argv)
{
    return tool_admin_ask("topic list [options]", "Lists all topics that the name server knows.",
                          "    rmq topic list\n", rmq_admin_topic_list, tool_admin_show_lines, argc,
                          argv);
}

static int member_number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valueint : 0;
}

/* Addresses of the broker of that name, "0=host:port 1=host:port". */
static void add_addresses(struct tool_text *line, const cJSON *route, const char *name)
{
    const cJSON *broker = NULL;
    const cJSON *addr = NULL;
    cJSON_ArrayForEach(broker, cJSON_GetObjectItemCaseSensitive(route, "brokerDatas"))
    {
        if (strcmp(tool_member(broker, "brokerName"), name) != 0) {
            continue;
        }
        cJSON_ArrayForEach(addr, cJSON_GetObjectItemCaseSensitive(broker, "brokerAddrs"))
        {
            tool_text_format(line, " %s=%s", addr->string,
                             cJSON_IsString(addr) ? addr->valuestring : "");
        }
    }
}

static void print_route(const char *json)
{
    cJSON *route = cJSON_Parse(json);
    const cJSON *queue = NULL;
    printf("%-20s %6s %6s %5s  %s\n", "BROKER", "READ", "WRITE", "PERM",
           "ADDRESSES (0 is the master)");
    cJSON_ArrayForEach(queue, cJSON_GetObjectItemCaseSensitive(route, "queueDatas"))
    {
        struct tool_text line = {0};
        const char *name = tool_member(queue, "brokerName");
        tool_text_format(&line, "%-20s %6d %6d %5d ", name, member_number(queue, "readQueueNums"),
                         member_number(queue, "writeQueueNums"), member_number(queue, "perm"));
        add_addresses(&line, route, name);
        tool_text_flush(&line, stdout);
        tool_text_free(&line);
    }
    cJSON_Delete(route);
}

static int route(int argc, char **argv)
{
    struct tool_admin a = {0};
    const struct tool_option options[] = {TOOL_OPTION_NAMESRV(&a.namesrv),
                                          TOOL_OPTION_TOPIC(&a.topic),
                                          TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        .synopsis = "topic route -t TOPIC [options]",
        .text = "Shows which brokers hold a topic, with how many queues, and where they listen.",
        .examples = "    rmq topic route -t Orders\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, true, false);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    char *json = NULL;
    rmq_status st = rmq_admin_topic_route(a.admin, a.topic, TOOL_ADMIN_TIMEOUT_MS, &json, &err);
    rc = tool_admin_show(&a, "route", st, err, json, print_route);
    tool_admin_close(&a);
    return rc;
}

static void print_status(const struct tool_admin *a, const rmq_queue_status *queue)
{
    struct tool_text line = {0};
    if (a->json) {
        tool_json_open(&line);
        tool_json_text(&line, "brokerName", queue->broker_name);
        tool_json_number(&line, "queueId", queue->queue_id);
        tool_json_number(&line, "minOffset", queue->min_offset);
        tool_json_number(&line, "maxOffset", queue->max_offset);
        tool_json_number(&line, "lastUpdateTimestamp", queue->last_update_ms);
        tool_json_close(&line);
    } else {
        tool_text_format(&line, "%-20s %5d %12lld %12lld %12lld", queue->broker_name,
                         queue->queue_id, (long long)queue->min_offset,
                         (long long)queue->max_offset,
                         (long long)(queue->max_offset - queue->min_offset));
    }
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
}

static int status(int argc, char **argv)
{
    struct tool_admin a = {0};
    const struct tool_option options[] = {TOOL_OPTION_NAMESRV(&a.namesrv),
                                          TOOL_OPTION_TOPIC(&a.topic),
                                          TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        .synopsis = "topic status -t TOPIC [options]",
        .text = "Shows the offsets of each queue of a topic: how many messages it holds.",
        .examples = "    rmq topic status -t Orders\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, true, false);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    rmq_queue_status *queues = NULL;
    size_t count = 0;
    rmq_status st =
        rmq_admin_topic_status(a.admin, a.topic, TOOL_ADMIN_TIMEOUT_MS, &queues, &count, &err);
    rc = st == RMQ_OK ? TOOL_DONE : tool_fail("status", st, err);
    if (rc == TOOL_DONE && !a.json) {
        printf("%-20s %5s %12s %12s %12s\n", "BROKER", "QUEUE", "BEGIN", "END", "MESSAGES");
    }
    for (size_t i = 0; i < count; i++) {
        print_status(&a, &queues[i]);
    }
    rmq_admin_queue_status_free(queues, count);
    tool_admin_close(&a);
    return rc;
}

static const struct tool_command commands[] = {
    {"create", "creates a topic or changes its queues", create},
    {"delete", "removes a topic with its messages", drop},
    {"list", "lists all topics", list},
    {"route", "shows the brokers of a topic", route},
    {"status", "shows the offsets of its queues", status},
};

int tool_topic(int argc, char **argv)
{
    return tool_dispatch("rmq topic", "Topics: a topic has queues on one or more brokers.\n",
                         commands, TOOL_COUNT(commands), argc, argv);
}
