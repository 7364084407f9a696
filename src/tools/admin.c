/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What the subcommands share that ask servers: `rmq topic`, `cluster`, `group`, `message`.
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
    return st == RMQ_OK ? TOOL_GO : tool_refuse("connect", st, err);
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

int tool_print_done(const struct tool_admin *a, const char *thing, const char *name,
                    const char *words)
{
    struct tool_text line = {0};
    if (a->json) {
        tool_json_open(&line);
        tool_json_text(&line, thing, name);
        tool_json_close(&line);
    } else {
        tool_text_format(&line, "%s %s %s", thing, name, words);
    }
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
    return TOOL_DONE;
}

int tool_admin_show(const struct tool_admin *a, const char *what, rmq_status st, rmq_error *err,
                    char *json, void (*print)(const char *json))
{
    if (st != RMQ_OK) {
        return tool_fail(what, st, err);
    }
    if (a->json) {
        puts(json);
    } else {
        print(json);
    }
    rmq_string_free(json);
    return TOOL_DONE;
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

static void print_lines(const struct tool_admin *a, char *lines)
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

int tool_admin_show_lines(const struct tool_admin *a, rmq_status st, rmq_error *err, char *lines)
{
    if (st != RMQ_OK) {
        return tool_fail("list", st, err);
    }
    print_lines(a, lines);
    rmq_string_free(lines);
    return TOOL_DONE;
}

int tool_admin_ask(const char *synopsis, const char *text, const char *examples,
                   rmq_status (*ask)(rmq_admin *admin, int64_t timeout_ms, char **out,
                                     rmq_error **err),
                   int (*show)(const struct tool_admin *a, rmq_status st, rmq_error *err,
                               char *answer),
                   int argc, char **argv)
{
    struct tool_admin a = {0};
    const struct tool_option options[] = {TOOL_OPTION_NAMESRV(&a.namesrv),
                                          TOOL_OPTION_OUTPUT(&a.output)};
    const struct tool_usage usage = {
        .synopsis = synopsis,
        .text = text,
        .examples = examples,
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_admin_open(&a, &usage, argc, argv, false, false);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    char *answer = NULL;
    rmq_status st = ask(a.admin, TOOL_ADMIN_TIMEOUT_MS, &answer, &err);
    rc = show(&a, st, err, answer);
    tool_admin_close(&a);
    return rc;
}
