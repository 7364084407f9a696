/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq group list|create|config|delete|members|progress|reset`; the latter two are in
 * group_progress.c. Counterparts: mqadmin updateSubGroup, deleteSubGroup, getConsumerConfig,
 * consumerConnection.
 */
#include "tools/group.h"

#include <stdio.h>
#include <string.h>

#include "tools/text.h"

static int list(int argc, char **argv)
{
    return tool_admin_ask(
        "group list [options]", "Lists all consumer groups that the brokers know.",
        "    rmq group list\n", rmq_admin_group_list, tool_admin_show_lines, argc, argv);
}

static int create(int argc, char **argv)
{
    struct tool_admin a = {0};
    rmq_group_options group;
    const char *cluster = NULL;
    int64_t retries;
    int64_t retry_queues;
    bool disabled = false;
    bool no_broadcast = false;
    rmq_group_options_init(&group, sizeof group);
    retries = group.retry_max_times;
    retry_queues = group.retry_queue_nums;
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&a.namesrv),
        TOOL_OPTION_GROUP(&a.group),
        TOOL_OPTION_CLUSTER(&cluster),
        {'r', "retries", TOOL_NUMBER, &retries, "N",
         "times a message comes again until it is dead; default 16", -1, INT32_MAX},
        {0, "retry-queues", TOOL_NUMBER, &retry_queues, "N", "queues of the retry topic; default 1",
         0, 65535},
        {0, "orderly", TOOL_FLAG, &group.consume_message_orderly, NULL,
         "what is popped comes in order", 0, 0},
        {0, "disabled", TOOL_FLAG, &disabled, NULL, "members get no messages", 0, 0},
        {0, "no-broadcast", TOOL_FLAG, &no_broadcast, NULL, "broadcasting members get no messages",
         0, 0},
        TOOL_OPTION_OUTPUT(&a.output),
    };
    const struct tool_usage usage = {
        .synopsis = "group create -g GROUP [options]",
        .text = "Creates a consumer group on every master broker, or replaces "
                "its settings. Brokers create groups by\nthemselves unless "
                "autoCreateSubscriptionGroup is false. --retries is for clients that send no\n"
                "number: push consumers of librmq and Java always send maxReconsumeTimes, 16 when "
                "it is not set.",
        .examples = "    rmq group create -g billing --retries 3\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, false, true);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    group.retry_max_times = (int32_t)retries;
    group.retry_queue_nums = (int32_t)retry_queues;
    group.consume_enable = !disabled;
    group.consume_broadcast_enable = !no_broadcast;
    rmq_status st =
        rmq_admin_create_group(a.admin, cluster, a.group, &group, TOOL_ADMIN_TIMEOUT_MS, &err);
    rc = st == RMQ_OK ? tool_print_done(&a, "group", a.group, "created")
                      : tool_fail("create", st, err);
    tool_admin_close(&a);
    return rc;
}

/* ---- settings ---- */

/* Each broker's settings as a table of names and values. */
static void print_config(const char *json)
{
    cJSON *all = cJSON_Parse(json);
    const cJSON *broker = NULL;
    const cJSON *setting = NULL;
    cJSON_ArrayForEach(broker, all)
    {
        printf("%s\n", broker->string);
        cJSON_ArrayForEach(setting, broker)
        {
            char *value = cJSON_PrintUnformatted(setting);
            printf("    %-32s %s\n", setting->string, value != NULL ? value : "");
            cJSON_free(value);
        }
    }
    cJSON_Delete(all);
}

static int config(int argc, char **argv)
{
    struct tool_admin a = {0};
    const struct tool_option options[] = {TOOL_OPTION_NAMESRV(&a.namesrv),
                                          TOOL_OPTION_GROUP(&a.group),
                                          TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        .synopsis = "group config -g GROUP [options]",
        .text = "Shows the settings of a consumer group at each broker.",
        .examples = "    rmq group config -g billing\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, false, true);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    char *json = NULL;
    rmq_status st = rmq_admin_group_config(a.admin, a.group, TOOL_ADMIN_TIMEOUT_MS, &json, &err);
    rc = tool_admin_show(&a, "config", st, err, json, print_config);
    tool_admin_close(&a);
    return rc;
}

/* ---- removal ---- */

/* The topic of that prefix and the group's name; that there is none is as good. */
static int delete_topic_of(struct tool_admin *a, const char *prefix, const char *cluster)
{
    rmq_error *err = NULL;
    struct tool_text name = {0};
    tool_text_format(&name, "%s%s", prefix, a->group);
    rmq_status st =
        rmq_admin_delete_topic(a->admin, cluster, name.data, TOOL_ADMIN_TIMEOUT_MS, &err);
    tool_text_free(&name);
    if (st != RMQ_OK && st != RMQ_ERR_NO_ROUTE) {
        return tool_fail("delete", st, err);
    }
    rmq_error_destroy(err);
    return TOOL_DONE;
}

static int drop(int argc, char **argv)
{
    struct tool_admin a = {0};
    const char *cluster = NULL;
    bool offsets = false;
    bool topics = false;
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&a.namesrv),
        TOOL_OPTION_GROUP(&a.group),
        TOOL_OPTION_CLUSTER(&cluster),
        {0, "offsets", TOOL_FLAG, &offsets, NULL, "its offsets, too: it would begin anew", 0, 0},
        {0, "topics", TOOL_FLAG, &topics, NULL, "its retry and dead letter topics, too", 0, 0},
        TOOL_OPTION_OUTPUT(&a.output),
    };
    const struct tool_usage usage = {
        .synopsis = "group delete -g GROUP [options]",
        .text = "Removes a consumer group from every master broker. One that "
                "has members comes back by itself.",
        .examples = "    rmq group delete -g billing --offsets --topics\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, false, true);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    rmq_status st =
        rmq_admin_delete_group(a.admin, cluster, a.group, offsets, TOOL_ADMIN_TIMEOUT_MS, &err);
    rc = st == RMQ_OK ? TOOL_DONE : tool_fail("delete", st, err);
    if (topics && rc == TOOL_DONE) {
        rc = delete_topic_of(&a, "%RETRY%", cluster);
    }
    if (topics && rc == TOOL_DONE) {
        rc = delete_topic_of(&a, "%DLQ%", cluster);
    }
    if (rc == TOOL_DONE) {
        rc = tool_print_done(&a, "group", a.group, "deleted");
    }
    tool_admin_close(&a);
    return rc;
}

/* ---- members ---- */

static void print_clients(const cJSON *broker)
{
    const cJSON *client = NULL;
    cJSON_ArrayForEach(client, cJSON_GetObjectItemCaseSensitive(broker, "connectionSet"))
    {
        printf("%-20s %-44s %-22s %s\n", broker->string, tool_member(client, "clientId"),
               tool_member(client, "clientAddr"), tool_member(client, "language"));
    }
}

static void print_subscriptions(const cJSON *broker)
{
    const cJSON *topic = NULL;
    cJSON_ArrayForEach(topic, cJSON_GetObjectItemCaseSensitive(broker, "subscriptionTable"))
    {
        printf("%-20s %-44s %s\n", broker->string, topic->string, tool_member(topic, "subString"));
    }
}

static void print_members(const char *json)
{
    cJSON *all = cJSON_Parse(json);
    const cJSON *broker = NULL;
    printf("%-20s %-44s %-22s %s\n", "BROKER", "CLIENT", "ADDRESS", "LANGUAGE");
    cJSON_ArrayForEach(broker, all)
    {
        print_clients(broker);
    }
    printf("%-20s %-44s %s\n", "BROKER", "TOPIC", "EXPRESSION");
    cJSON_ArrayForEach(broker, all)
    {
        print_subscriptions(broker);
    }
    cJSON_Delete(all);
}

int tool_group_members(const struct tool_admin *a, char **json)
{
    rmq_error *err = NULL;
    *json = NULL;
    rmq_status st =
        rmq_admin_group_connections(a->admin, a->group, TOOL_ADMIN_TIMEOUT_MS, json, &err);
    if (st != RMQ_OK && st != RMQ_ERR_NOT_FOUND) {
        return tool_fail("members", st, err);
    }
    rmq_error_destroy(err);
    return TOOL_GO;
}

static int show_members(const struct tool_admin *a)
{
    char *json = NULL;
    int rc = tool_group_members(a, &json);
    if (rc != TOOL_GO) {
        return rc;
    }
    if (a->json) {
        puts(json != NULL ? json : "{}");
    } else if (json != NULL) {
        print_members(json);
    } else {
        printf("no member of group %s is connected\n", a->group);
    }
    rmq_string_free(json);
    return TOOL_DONE;
}

static int members(int argc, char **argv)
{
    struct tool_admin a = {0};
    const struct tool_option options[] = {TOOL_OPTION_NAMESRV(&a.namesrv),
                                          TOOL_OPTION_GROUP(&a.group),
                                          TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        .synopsis = "group members -g GROUP [options]",
        .text = "Shows who is in a consumer group now, from where, and what it has subscribed to.",
        .examples = "    rmq group members -g billing\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, false, true);
    if (rc == TOOL_GO) {
        rc = show_members(&a);
        tool_admin_close(&a);
    }
    return rc;
}

static const struct tool_command commands[] = {
    {"list", "lists all groups", list},
    {"create", "creates a group or replaces its settings", create},
    {"config", "shows its settings", config},
    {"delete", "removes a group", drop},
    {"members", "shows who is in it now", members},
    {"progress", "shows how far it has come", tool_group_progress},
    {"reset", "lets it go on from another place", tool_group_reset},
};

int tool_group(int argc, char **argv)
{
    /* without a command's name: what is asked most */
    if (argc > 1 && argv[1][0] == '-' && strcmp(argv[1], "--help") != 0 &&
        strcmp(argv[1], "-h") != 0) {
        return tool_group_progress(argc, argv);
    }
    return tool_dispatch(
        "rmq group",
        "Consumer groups: members share the messages of topics. rmq group -g GROUP "
        "shows the progress of one.\n",
        commands, TOOL_COUNT(commands), argc, argv);
}
