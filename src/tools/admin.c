/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Asking servers: what `rmq topic`, `cluster`, `group` and `message` share, and the latter three
 * themselves, which are small. Counterparts: mqadmin clusterList, consumerProgress, queryMsgById.
 */
#include "tools/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/text.h"

int tool_admin_open(struct tool_admin *a, const struct tool_usage *usage, int argc, char **argv,
                    bool needs_topic, bool needs_group)
{
    int rc = tool_parse(usage, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    if (needs_topic && a->topic == NULL) {
        return tool_wrong("a topic is needed: -t TOPIC");
    }
    if (needs_group && a->group == NULL) {
        return tool_wrong("a group is needed: -g GROUP");
    }
    if (!tool_output(a->output, &a->json)) {
        return TOOL_USAGE;
    }
    rmq_error *err = NULL;
    rmq_status st = rmq_admin_create(tool_namesrv_addr(a->namesrv), &a->admin, &err);
    return st == RMQ_OK ? TOOL_GO : tool_fail("connect", st, err);
}

void tool_admin_close(struct tool_admin *a)
{
    rmq_admin_destroy(a->admin);
    a->admin = NULL;
}

const char *tool_member(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "";
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The lines of a text, which is cut into them, in alphabetical order; freed with free. */
static const char **sort_lines(char *lines, size_t *count)
{
    const char **list = calloc(strlen(lines) / 2 + 1, sizeof *list);
    char *rest = NULL;
    *count = 0;
    for (const char *line = strtok_r(lines, "\n", &rest); line != NULL && list != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        list[(*count)++] = line;
    }
    if (*count > 0) {
        qsort(list, *count, sizeof *list, by_text);
    }
    return list;
}

void tool_print_lines(const struct tool_admin *a, char *lines)
{
    struct tool_text out = {0};
    size_t count = 0;
    const char **list = sort_lines(lines, &count);
    for (size_t i = 0; i < count && !a->json; i++) {
        puts(list[i]);
    }
    if (a->json) {
        tool_text_puts(&out, "[");
        for (size_t i = 0; i < count; i++) {
            tool_text_puts(&out, i > 0 ? "," : "");
            tool_json_string(&out, list[i], strlen(list[i]));
        }
        tool_text_puts(&out, "]");
        tool_text_flush(&out, stdout);
        tool_text_free(&out);
    }
    free(list);
}

static void print_cluster(const char *info)
{
    cJSON *root = cJSON_Parse(info);
    const cJSON *broker = NULL;
    const cJSON *addr = NULL;
    printf("%-20s %-20s %-4s %s\n", "CLUSTER", "BROKER", "ID", "ADDRESS");
    cJSON_ArrayForEach(broker, cJSON_GetObjectItemCaseSensitive(root, "brokerAddrTable"))
    {
        cJSON_ArrayForEach(addr, cJSON_GetObjectItemCaseSensitive(broker, "brokerAddrs"))
        {
            printf("%-20s %-20s %-4s %s\n", tool_member(broker, "cluster"),
                   tool_member(broker, "brokerName"), addr->string,
                   cJSON_IsString(addr) ? addr->valuestring : "");
        }
    }
    cJSON_Delete(root);
}

int tool_cluster(int argc, char **argv)
{
    struct tool_admin a = {0};
    const struct tool_option options[] = {TOOL_OPTION_NAMESRV(&a.namesrv),
                                          TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {"cluster [options]",
                                     "Lists the brokers that the name server knows.",
                                     "    rmq cluster -n 10.0.0.1:9876\n",
                                     NULL,
                                     options,
                                     2,
                                     NULL};
    int rc = tool_admin_open(&a, &usage, argc, argv, false, false);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    char *info = NULL;
    rmq_status st = rmq_admin_cluster_info(a.admin, TOOL_ADMIN_TIMEOUT_MS, &info, &err);
    rc = st == RMQ_OK ? TOOL_DONE : tool_fail("cluster", st, err);
    if (rc == TOOL_DONE && a.json) {
        puts(info);
    } else if (rc == TOOL_DONE) {
        print_cluster(info);
    }
    rmq_string_free(info);
    tool_admin_close(&a);
    return rc;
}

/* One queue with the group's offset. "none" is an answer; a failure is not shown as one. */
static int print_progress(struct tool_admin *a, const rmq_queue_status *queue)
{
    rmq_error *err = NULL;
    int64_t offset = 0;
    rmq_status st =
        rmq_admin_consumer_offset(a->admin, a->group, a->topic, queue->broker_name, queue->queue_id,
                                  TOOL_ADMIN_TIMEOUT_MS, &offset, &err);
    if (st != RMQ_OK && st != RMQ_ERR_NOT_FOUND) {
        return tool_fail("offset", st, err);
    }
    rmq_error_destroy(err);
    struct tool_text line = {0};
    if (a->json) {
        tool_json_open(&line);
        tool_json_text(&line, "brokerName", queue->broker_name);
        tool_json_number(&line, "queueId", queue->queue_id);
        tool_json_number(&line, "brokerOffset", queue->max_offset);
        if (st == RMQ_OK) {
            tool_json_number(&line, "consumerOffset", offset);
            tool_json_number(&line, "lag", queue->max_offset - offset);
        }
        tool_json_close(&line);
    } else if (st == RMQ_OK) {
        tool_text_format(&line, "%-20s %5d %12lld %12lld %12lld", queue->broker_name,
                         queue->queue_id, (long long)queue->max_offset, (long long)offset,
                         (long long)(queue->max_offset - offset));
    } else {
        tool_text_format(&line, "%-20s %5d %12lld %12s %12s", queue->broker_name, queue->queue_id,
                         (long long)queue->max_offset, "none", "-");
    }
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
    return TOOL_DONE;
}

static int show_group(struct tool_admin *a)
{
    rmq_error *err = NULL;
    rmq_queue_status *queues = NULL;
    size_t count = 0;
    char *members = NULL;
    rmq_status st =
        rmq_admin_topic_status(a->admin, a->topic, TOOL_ADMIN_TIMEOUT_MS, &queues, &count, &err);
    if (st != RMQ_OK) {
        return tool_fail("topic", st, err);
    }
    if (!a->json) {
        st = rmq_admin_group_members(a->admin, a->group, a->topic, TOOL_ADMIN_TIMEOUT_MS, &members,
                                     NULL);
        printf("Members now:\n%s\n", st == RMQ_OK && members[0] != '\0' ? members : "none");
        printf("%-20s %5s %12s %12s %12s\n", "BROKER", "QUEUE", "END", "GROUP", "LAG");
        rmq_string_free(members);
    }
    int rc = TOOL_DONE;
    for (size_t i = 0; i < count && rc == TOOL_DONE; i++) {
        rc = print_progress(a, &queues[i]);
    }
    rmq_admin_queue_status_free(queues, count);
    return rc;
}

int tool_group(int argc, char **argv)
{
    struct tool_admin a = {0};
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&a.namesrv),
        TOOL_OPTION_TOPIC(&a.topic),
        {'g', "group", TOOL_TEXT, &a.group, "GROUP", "consumer group", 0, 0},
        TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        "group -g GROUP -t TOPIC [options]",
        "Shows who is in a consumer group now, and how far it has come in each queue of a topic.",
        "    rmq group -g billing -t Orders\n",
        NULL,
        options,
        4,
        NULL};
    int rc = tool_admin_open(&a, &usage, argc, argv, true, true);
    if (rc == TOOL_GO) {
        rc = show_group(&a);
        tool_admin_close(&a);
    }
    return rc;
}
