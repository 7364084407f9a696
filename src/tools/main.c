/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The `rmq` command: picks the subcommand. Counterpart: mqadmin, with the client's examples and
 * benchmarks.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rmq/version.h>

#include "tools/tool.h"

static int version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("rmq %s\n", rmq_version_string());
    return TOOL_DONE;
}

static const struct tool_command commands[] = {
    {"demo", "shows a message going through, with everything in this process", tool_demo},
    {"produce", "sends messages", tool_produce},
    {"request", "sends requests and prints the replies", tool_request},
    {"consume", "receives messages", tool_consume},
    {"topic", "creates, deletes, lists and describes topics", tool_topic},
    {"cluster", "brokers: list, settings, figures", tool_cluster},
    {"group", "consumer groups: settings, members, progress, reset", tool_group},
    {"message", "shows messages by id or key", tool_message},
    {"broker", "runs a broker, and a name server beside it", tool_broker},
    {"namesrv", "runs a name server", tool_namesrv},
    {"bench", "measures sending and receiving", tool_bench},
    {"store", "looks into stores on disk, checks and mends them", tool_store},
    {"options", "lists the options of producer, consumer or broker", tool_options},
    {"version", "prints the version", version},
};

static const char text[] =
    "rmq talks to Apache RocketMQ, or is a small broker of its own.\n"
    "\n"
    "First steps, in two terminals:\n"
    "    rmq broker                                    name server on port 9876, broker on 10911\n"
    "    rmq consume -t Hello -g readers --from first  in another terminal: prints what comes\n"
    "    rmq produce -t Hello 'my first message'\n";

/* A standard descriptor that is closed would become a socket or a file of the store, and what is
 * printed would go there. */
static void keep_standard_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            /* The wrong way round, so that using it fails. */
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        return version(argc, argv);
    }
    keep_standard_open();
    /* a write that fails is noticed, and then everything is put in order */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit (ulimit -f) is an error like a full disk */
    int rc = tool_dispatch("rmq", text, commands, TOOL_COUNT(commands), argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == TOOL_DONE) {
        if (!tool_reader_is_gone()) {
            tool_wrong("not everything could be written to standard output");
        }
        rc = TOOL_FAILED;
    }
    return rc;
}
