/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq options producer|consumer|broker|namesrv|…`: the option tables of the libraries, for people
 * and for the reference page in docs/, which is made from the output as Markdown.
 */
#include <stdio.h>
#include <string.h>

#include <rmq/broker.h>
#include <rmq/config.h>

#include "tools/text.h"
#include "tools/tool.h"

struct row {
    const char *name, *type, *def, *range, *help;
};

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

enum form { FORM_TEXT, FORM_JSON, FORM_MARKDOWN };

/* A cell of a Markdown table: a bar would end it. */
static void add_cell(struct tool_text *line, const char *text, bool code)
{
    const char *quote = code && text[0] != '\0' ? "`" : "";
    tool_text_format(line, " %s", quote);
    for (; *text != '\0'; text++) {
        tool_text_puts(line, *text == '|' ? "\\" : "");
        tool_text_add(line, text, 1);
    }
    tool_text_format(line, "%s |", quote);
}

static void print_row(const struct row *row, enum form form)
{
    struct tool_text line = {0};
    if (form == FORM_MARKDOWN) {
        tool_text_puts(&line, "|");
        add_cell(&line, or_empty(row->name), true);
        add_cell(&line, or_empty(row->type), false);
        add_cell(&line, or_empty(row->def), true);
        add_cell(&line, or_empty(row->range), false);
        add_cell(&line, or_empty(row->help), false);
    } else if (form == FORM_JSON) {
        tool_json_open(&line);
        tool_json_text(&line, "name", or_empty(row->name));
        tool_json_text(&line, "type", or_empty(row->type));
        tool_json_text(&line, "default", or_empty(row->def));
        tool_json_text(&line, "range", or_empty(row->range));
        tool_json_text(&line, "help", or_empty(row->help));
        tool_json_close(&line);
    } else {
        tool_text_format(&line, "%s = %s\n    %s%s%s. %s", or_empty(row->name), or_empty(row->def),
                         or_empty(row->type), or_empty(row->range)[0] != '\0' ? ", " : "",
                         or_empty(row->range), or_empty(row->help));
    }
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
}

static void print_client(rmq_config_kind kind, enum form form)
{
    for (size_t i = 0; i < rmq_config_field_count(kind); i++) {
        const rmq_config_field *field = rmq_config_field_at(kind, i);
        const struct row row = {rmq_config_field_name(field), rmq_config_field_type(field),
                                rmq_config_field_default(field), rmq_config_field_range(field),
                                rmq_config_field_help(field)};
        print_row(&row, form);
    }
}

typedef bool server_field(size_t index, const char **name, const char **type, const char **def,
                          const char **range, const char **help);

static void print_server(server_field *field, enum form form)
{
    struct row row = {0};
    for (size_t i = 0; field(i, &row.name, &row.type, &row.def, &row.range, &row.help); i++) {
        print_row(&row, form);
    }
}

/* ["topic","group"] for the table's "topic,group". */
static void add_labels(struct tool_text *line, const char *labels)
{
    struct tool_text list = {0};
    tool_text_puts(&list, "[");
    for (size_t n; *labels != '\0'; labels += n + (labels[n] == ',')) {
        n = strcspn(labels, ",");
        tool_text_puts(&list, list.size > 1 ? "," : "");
        tool_json_string(&list, labels, n);
    }
    tool_text_puts(&list, "]");
    tool_json_raw(line, "labels", list.data);
    tool_text_free(&list);
}

static void print_metric(const char *name, const char *type, const char *labels, const char *help,
                         enum form form)
{
    struct tool_text line = {0};
    if (form == FORM_MARKDOWN) {
        tool_text_puts(&line, "|");
        add_cell(&line, name, true);
        add_cell(&line, type, false);
        add_cell(&line, labels, true);
        add_cell(&line, help, false);
    } else if (form == FORM_JSON) {
        tool_json_open(&line);
        tool_json_text(&line, "name", name);
        tool_json_text(&line, "type", type);
        add_labels(&line, labels);
        tool_json_text(&line, "help", help);
        tool_json_close(&line);
    } else {
        tool_text_format(&line, "%s%s%s%s\n    %s. %s", name, labels[0] != '\0' ? "{" : "", labels,
                         labels[0] != '\0' ? "}" : "", type, help);
    }
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
}

static void print_metrics(enum form form)
{
    const char *name = NULL, *type = NULL, *labels = NULL, *help = NULL;
    for (size_t i = 0; rmq_broker_metric_at(i, &name, &type, &labels, &help); i++) {
        print_metric(or_empty(name), or_empty(type), or_empty(labels), or_empty(help), form);
    }
}

/* False when there is no such kind. */
static bool print_kind(const char *what, enum form form)
{
    static const struct {
        const char *name;
        rmq_config_kind kind;
    } clients[] = {{"producer", RMQ_CONFIG_PRODUCER},
                   {"consumer", RMQ_CONFIG_CONSUMER},
                   {"pull-consumer", RMQ_CONFIG_PULL_CONSUMER},
                   {"lite-pull-consumer", RMQ_CONFIG_LITE_PULL_CONSUMER},
                   {"pop-consumer", RMQ_CONFIG_POP_CONSUMER}};
    for (size_t i = 0; i < TOOL_COUNT(clients); i++) {
        if (strcmp(what, clients[i].name) == 0) {
            print_client(clients[i].kind, form);
            return true;
        }
    }
    if (strcmp(what, "broker") == 0) {
        print_server(rmq_broker_config_field, form);
        return true;
    }
    if (strcmp(what, "namesrv") == 0) {
        print_server(rmq_namesrv_config_field, form);
        return true;
    }
    if (strcmp(what, "metrics") == 0) {
        print_metrics(form);
        return true;
    }
    return false;
}

int tool_options(int argc, char **argv)
{
    const char *what = NULL;
    const char *output = NULL;
    const struct tool_option options[] = {
        {'o', "output", TOOL_TEXT, &output, "FORM", "text (default), json or markdown", 0, 0}};
    const struct tool_usage usage = {
        .synopsis = "options "
                    "producer|consumer|pull-consumer|lite-pull-consumer|pop-consumer|broker|"
                    "namesrv|metrics "
                    "[-o json]",
        .text =
            "Lists the options of a producer, a kind of consumer, a broker or a name server: name, "
            "default, type, range, meaning; or what a broker\n"
            "tells on /metrics: name, labels, type, meaning.",
        .examples = "    rmq options broker\n",
        .options = options,
        .count = 1,
        .positional = &what,
    };
    int rc = tool_parse(&usage, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    enum form form = FORM_MARKDOWN;
    if (output == NULL || strcmp(output, "markdown") != 0) {
        form = output != NULL && strcmp(output, "json") == 0 ? FORM_JSON : FORM_TEXT;
        if (form == FORM_TEXT && output != NULL && strcmp(output, "text") != 0) {
            return tool_wrong("--output is text, json or markdown, not '%s'", output);
        }
    }
    if (what == NULL || !print_kind(what, form)) {
        return tool_wrong("say which: producer, consumer, pull-consumer, lite-pull-consumer, "
                          "pop-consumer, broker, namesrv or metrics");
    }
    return TOOL_DONE;
}
