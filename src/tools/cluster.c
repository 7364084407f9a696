/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq cluster list|config|status`: brokers, their settings, their figures. Counterparts: mqadmin
 * clusterList, getBrokerConfig, updateBrokerConfig, brokerStatus.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/admin.h"
#include "tools/text.h"

#define OPTION_BROKER(target)                                                                      \
    {                                                                                              \
        'b', "broker", TOOL_TEXT, target, "NAME|HOST:PORT",                                        \
            "the broker; default the only one that the name server knows", 0, 0                    \
    }

/* ---- list ---- */

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

static int show_cluster(const struct tool_admin *a, rmq_status st, rmq_error *err, char *info)
{
    return tool_admin_show(a, "cluster", st, err, info, print_cluster);
}

static int list(int argc, char **argv)
{
    return tool_admin_ask("cluster list [options]", "Lists the brokers that the name server knows.",
                          "    rmq cluster list -n 10.0.0.1:9876\n", rmq_admin_cluster_info,
                          show_cluster, argc, argv);
}

/* ---- one broker ---- */

/* The master of that name, or with NULL of the only one there is; a copy, or NULL. */
static char *master_of(const char *info, const char *name)
{
    cJSON *root = cJSON_Parse(info);
    const cJSON *brokers = cJSON_GetObjectItemCaseSensitive(root, "brokerAddrTable");
    const cJSON *broker = NULL;
    if (name != NULL) {
        broker = cJSON_GetObjectItemCaseSensitive(brokers, name);
    } else if (cJSON_GetArraySize(brokers) == 1) {
        broker = brokers->child;
    }
    const char *addr = tool_member(cJSON_GetObjectItemCaseSensitive(broker, "brokerAddrs"), "0");
    char *copy = addr[0] != '\0' ? strdup(addr) : NULL;
    cJSON_Delete(root);
    return copy;
}

/* TOOL_GO with the address, which is freed with free, or an exit code after a complaint. */
static int find_broker(const struct tool_admin *a, const char *broker, char **addr)
{
    rmq_error *err = NULL;
    char *info = NULL;
    if (broker != NULL && strchr(broker, ':') != NULL) {
        *addr = strdup(broker);
        return *addr != NULL ? TOOL_GO : tool_fail("broker", RMQ_ERR_NOMEM, NULL);
    }
    rmq_status st = rmq_admin_cluster_info(a->admin, TOOL_ADMIN_TIMEOUT_MS, &info, &err);
    if (st != RMQ_OK) {
        return tool_fail("cluster", st, err);
    }
    *addr = master_of(info, broker);
    rmq_string_free(info);
    if (*addr != NULL) {
        return TOOL_GO;
    }
    if (broker == NULL) {
        return tool_wrong(
            "the name server knows no broker, or several: say which with -b NAME or -b "
            "HOST:PORT; see rmq cluster list");
    }
    fprintf(stderr, "rmq: no master of the name %s is registered; see rmq cluster list\n", broker);
    return TOOL_FAILED;
}

/* Lines "name=value" as they are, or as an object of texts. */
static void print_settings(const struct tool_admin *a, char *lines)
{
    struct tool_text out = {0};
    char *rest = NULL;
    if (!a->json) {
        fputs(lines, stdout);
        return;
    }
    tool_json_open(&out);
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (equals != NULL) {
            *equals = '\0';
            tool_json_text(&out, line, equals + 1);
        }
    }
    tool_json_close(&out);
    tool_text_flush(&out, stdout);
    tool_text_free(&out);
}

static int show_settings(const struct tool_admin *a, const char *addr)
{
    rmq_error *err = NULL;
    char *lines = NULL;
    rmq_status st = rmq_admin_broker_config(a->admin, addr, TOOL_ADMIN_TIMEOUT_MS, &lines, &err);
    if (st != RMQ_OK) {
        return tool_fail("config", st, err);
    }
    print_settings(a, lines);
    rmq_string_free(lines);
    return TOOL_DONE;
}

/* Whether one of the lines begins as the setting does, up to the equals sign. */
static bool is_listed(const char *lines, const char *setting)
{
    size_t n = strcspn(setting, "=") + 1;
    for (const char *line = lines; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, setting, n) == 0) {
            return true;
        }
    }
    return false;
}

/* What every broker has, and Java's does not list while it is not set. */
static bool may_be_unset(const char *setting)
{
    return strncmp(setting, "namesrvAddr=", 12) == 0 ||
           strncmp(setting, "haMasterAddress=", 16) == 0;
}

/* Misbehaviour that is asked for; in no list of settings. */
static bool is_fault(const char *setting)
{
    return strncmp(setting, "fault=", 6) == 0;
}

static bool are_faults(const struct tool_list *settings)
{
    size_t i = 0;
    while (i < settings->count && is_fault(settings->items[i])) {
        i++;
    }
    return i == settings->count;
}

/* Brokers pass over what they do not know; what they know is in their list. It is asked for before a
 * change, which is then made as a whole or not at all, and which may be a fault that it would
 * meet. */
static int check_known(const struct tool_admin *a, const char *addr,
                       const struct tool_list *settings)
{
    rmq_error *err = NULL;
    char *lines = NULL;
    int rc = TOOL_DONE;
    rmq_status st = rmq_admin_broker_config(a->admin, addr, TOOL_ADMIN_TIMEOUT_MS, &lines, &err);
    if (st != RMQ_OK) {
        return tool_fail("config", st, err);
    }
    for (size_t i = 0; i < settings->count; i++) {
        const char *setting = settings->items[i];
        if (!is_fault(setting) && !may_be_unset(setting) && !is_listed(lines, setting)) {
            fprintf(stderr, "rmq: broker %s has no setting %.*s\n", addr,
                    (int)strcspn(setting, "="), setting);
            rc = TOOL_FAILED;
        }
    }
    rmq_string_free(lines);
    return rc;
}

static int change_settings(const struct tool_admin *a, const char *addr,
                           const struct tool_list *settings)
{
    rmq_error *err = NULL;
    struct tool_text lines = {0};
    int rc = are_faults(settings) ? TOOL_DONE : check_known(a, addr, settings);
    if (rc != TOOL_DONE) {
        return rc;
    }
    for (size_t i = 0; i < settings->count; i++) {
        tool_text_format(&lines, "%s\n", settings->items[i]);
    }
    rmq_status st =
        rmq_admin_update_broker_config(a->admin, addr, lines.data, TOOL_ADMIN_TIMEOUT_MS, &err);
    tool_text_free(&lines);
    return st == RMQ_OK ? tool_print_done(a, "broker", addr, "changed")
                        : tool_fail("config", st, err);
}

static int config(int argc, char **argv)
{
    struct tool_admin a = {0};
    const char *broker = NULL;
    char *addr = NULL;
    struct tool_list settings = {0};
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&a.namesrv),
        OPTION_BROKER(&broker),
        {0, "set", TOOL_LIST, &settings, "KEY=VALUE", "changes a setting; may be repeated", 0, 0},
        TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        .synopsis = "cluster config [options]",
        .text =
            "Shows the settings of a running broker, or changes some of them. A broker that was "
            "started "
            "with\nfaultInjectionEnable=true misbehaves when fault is set.",
        .examples = "    rmq cluster config -b broker-a --set fileReservedTime=48\n"
                    "    rmq cluster config --set 'fault=answer 310 times=2 code=2 remark=busy'\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, false, false);
    if (rc == TOOL_GO) {
        rc = tool_check_settings(&settings);
    }
    if (rc == TOOL_GO) {
        rc = find_broker(&a, broker, &addr);
    }
    if (rc == TOOL_GO) {
        rc = settings.count > 0 ? change_settings(&a, addr, &settings) : show_settings(&a, addr);
    }
    free(addr);
    tool_admin_close(&a);
    return rc;
}

static void print_figures(const char *json)
{
    cJSON *root = cJSON_Parse(json);
    const cJSON *figure = NULL;
    cJSON_ArrayForEach(figure, cJSON_GetObjectItemCaseSensitive(root, "table"))
    {
        printf("%-36s %s\n", figure->string, cJSON_IsString(figure) ? figure->valuestring : "");
    }
    cJSON_Delete(root);
}

static int status(int argc, char **argv)
{
    struct tool_admin a = {0};
    const char *broker = NULL;
    char *addr = NULL;
    char *json = NULL;
    rmq_error *err = NULL;
    const struct tool_option options[] = {TOOL_OPTION_NAMESRV(&a.namesrv), OPTION_BROKER(&broker),
                                          TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        .synopsis = "cluster status [options]",
        .text = "Shows the figures of a running broker: version, messages, "
                "rates, disk, offsets.",
        .examples = "    rmq cluster status -b broker-a\n",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, false, false);
    if (rc == TOOL_GO) {
        rc = find_broker(&a, broker, &addr);
    }
    if (rc == TOOL_GO) {
        rmq_status st =
            rmq_admin_broker_runtime_info(a.admin, addr, TOOL_ADMIN_TIMEOUT_MS, &json, &err);
        rc = tool_admin_show(&a, "status", st, err, json, print_figures);
    }
    free(addr);
    tool_admin_close(&a);
    return rc;
}

static const struct tool_command commands[] = {
    {"list", "lists the brokers", list},
    {"config", "shows or changes the settings of a broker", config},
    {"status", "shows the figures of a broker", status},
};

int tool_cluster(int argc, char **argv)
{
    /* alone, or with options only, it lists */
    if (argc == 1 ||
        (argv[1][0] == '-' && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)) {
        return list(argc, argv);
    }
    return tool_dispatch("rmq cluster", "Brokers that run. rmq cluster alone lists them.\n",
                         commands, TOOL_COUNT(commands), argc, argv);
}
