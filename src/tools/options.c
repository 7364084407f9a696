/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq options producer|consumer|broker`: the option tables of the libraries, for people and for the reference page in docs/, which is made
 * from the JSON output.
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

static void print_row(const struct row *row, bool json)
{
    struct tool_text line = {0};
    if (json) {
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

static void print_client(rmq_config_kind kind, bool json)
{
    for (size_t i = 0; i < rmq_config_field_count(kind); i++) {
        const rmq_config_field *field = rmq_config_field_at(kind, i);
        const struct row row = {rmq_config_field_name(field), rmq_config_field_type(field),
                                rmq_config_field_default(field), rmq_config_field_range(field),
                                rmq_config_field_help(field)};
        print_row(&row, json);
    }
}

static void print_broker(bool json)
{
    struct row row = {0};
    for (size_t i = 0; rmq_broker_config_field(i, &row.name, &row.type, &row.def, &row.range, &row.help); i++) {
        print_row(&row, json);
    }
}

int tool_options(int argc, char **argv)
{
    const char *what = NULL;
    const char *output = NULL;
    bool json = false;
    const struct tool_option options[] = {TOOL_OPTION_OUTPUT(&output)};
    const struct tool_usage usage = {
        "options producer|consumer|broker [-o json]",
        "Lists the options of a producer, a consumer or a broker: name, default, type, range, meaning.",
        "    rmq options broker\n", NULL, options, 1, &what};
    int rc = tool_parse(&usage, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    if (!tool_output(output, &json)) {
        return TOOL_USAGE;
    }
    if (what == NULL) {
        return tool_wrong("say which: producer, consumer or broker");
    }
    if (strcmp(what, "producer") == 0) {
        print_client(RMQ_CONFIG_PRODUCER, json);
    } else if (strcmp(what, "consumer") == 0) {
        print_client(RMQ_CONFIG_CONSUMER, json);
    } else if (strcmp(what, "broker") == 0) {
        print_broker(json);
    } else {
        return tool_wrong("'%s' is not producer, consumer or broker", what);
    }
    return TOOL_DONE;
}
