/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Commands of `rmq group` that are in files of their own. Main thread only. */
#ifndef RQ_TOOLS_GROUP_H
#define RQ_TOOLS_GROUP_H

#include "tools/admin.h"

int tool_group_progress(int argc, char **argv);
int tool_group_reset(int argc, char **argv);

#endif
