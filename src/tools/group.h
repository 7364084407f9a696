/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the files of `rmq group` have of each other. Main thread only. */
#ifndef RQ_TOOLS_GROUP_H
#define RQ_TOOLS_GROUP_H

#include "tools/admin.h"

/* What the brokers know of the group's members, as JSON that is freed with rmq_string_free; NULL when
 * nobody is connected. TOOL_GO, or an exit code after a complaint. */
int tool_group_members(const struct tool_admin *a, char **json);

int tool_group_progress(int argc, char **argv);
int tool_group_reset(int argc, char **argv);

#endif
