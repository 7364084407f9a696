/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Runs of the rmq command: see the header. */
#include "lib/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/cases.h"

#define OUT_MAX 100000

void tl_expect(const char *namesrv, const char *words, int exit_code, const char *text)
{
    static char out[OUT_MAX];
    char command[1024];
    const char *build = getenv("B");
    snprintf(command, sizeof command, "NAMESRV_ADDR='%s' %s/rmq %s", namesrv,
             build ? build : "build/release", words);
    FILE *in = popen(command, "r");
    TL_CHECK(in != NULL);
    size_t n = fread(out, 1, sizeof out - 1, in);
    out[n] = '\0';
    int status = pclose(in);
    TL_CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) != exit_code || !strstr(out, text)) {
        tl_fail(__FILE__, __LINE__, "rmq %s: exit code %d, expected %d and \"%s\": %.400s", words,
                WEXITSTATUS(status), exit_code, text, out);
    }
}
