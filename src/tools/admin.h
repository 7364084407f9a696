/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What the subcommands that ask servers (topic, cluster, group, message) have in common. Main
 * thread only.
 */
#ifndef RQ_TOOLS_ADMIN_H
#define RQ_TOOLS_ADMIN_H

#include <cjson/cJSON.h>

#include <rmq/admin.h>
#include <rmq/consumer.h> /* rmq_string_free */

#include "tools/tool.h"

#define TOOL_ADMIN_TIMEOUT_MS 5000

struct tool_admin {
    const char *namesrv, *topic, *group, *output;
    bool json;
    rmq_admin *admin;
};

/* Reads the options, checks that what is needed was given, and connects: TOOL_GO or an exit
 * code. */
int tool_admin_open(struct tool_admin *a, const struct tool_usage *usage, int argc, char **argv,
                    bool needs_topic, bool needs_group);
void tool_admin_close(struct tool_admin *a);

/* Text of a member of a JSON object, "" when there is none. */
const char *tool_member(const cJSON *object, const char *name);

/* Says what happened to a thing of that name, "topic Orders deleted" or {"topic":"Orders"}; returns
 * TOOL_DONE. */
int tool_print_done(const struct tool_admin *a, const char *thing, const char *name,
                    const char *words);

/* Shows what a server told, a JSON text that is freed here: as it is, or by print. Returns an exit
 * code; without an answer after a complaint about what was tried. */
int tool_admin_show(const struct tool_admin *a, const char *what, rmq_status st, rmq_error *err,
                    char *json, void (*print)(const char *json));

/* Shows lines of text, which are freed here: in alphabetical order, or as a JSON array of strings.
 * Returns an exit code. */
int tool_admin_show_lines(const struct tool_admin *a, rmq_status st, rmq_error *err, char *lines);

/* Runs a command that asks one thing and shows the answer. Returns an exit code. */
int tool_admin_ask(const char *synopsis, const char *text, const char *examples,
                   rmq_status (*ask)(rmq_admin *admin, int64_t timeout_ms, char **out,
                                     rmq_error **err),
                   int (*show)(const struct tool_admin *a, rmq_status st, rmq_error *err,
                               char *answer),
                   int argc, char **argv);

#endif
