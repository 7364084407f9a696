/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What the subcommands of `rmq` share: the table of commands, exit codes, options, small helpers. A
 * subcommand is one file with one function `tool_<name>`; it sees only the public headers.
 * Everything here runs on the main thread unless said otherwise.
 */
#ifndef RQ_TOOLS_TOOL_H
#define RQ_TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/config.h>
#include <rmq/error.h>

/* Exit codes of every subcommand; documented in its --help. */
enum tool_exit {
    TOOL_DONE = 0,   /* all that was asked for happened */
    TOOL_FAILED = 1, /* something failed, or not everything came in time */
    TOOL_USAGE = 2   /* the command line is wrong; nothing was done */
};

#define TOOL_COUNT(list) (sizeof(list) / sizeof((list)[0]))

#define TOOL_GO      (-1) /* tool_parse: go on */
#define TOOL_NAMESRV "127.0.0.1:9876"

struct tool_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the name of the command */
};

int tool_produce(int argc, char **argv);
int tool_request(int argc, char **argv);
int tool_consume(int argc, char **argv);
int tool_topic(int argc, char **argv);
int tool_cluster(int argc, char **argv);
int tool_group(int argc, char **argv);
int tool_message(int argc, char **argv);
int tool_broker(int argc, char **argv);
int tool_namesrv(int argc, char **argv);
int tool_bench(int argc, char **argv);
int tool_bench_produce(int argc, char **argv);
int tool_bench_consume(int argc, char **argv);
int tool_options(int argc, char **argv);
int tool_store(int argc, char **argv);
int tool_demo(int argc, char **argv);

/* Runs the command of a table that argv[1] names; without one, or with --help, prints the table. */
int tool_dispatch(const char *name, const char *text, const struct tool_command *commands,
                  size_t count, int argc, char **argv);

enum tool_option_type {
    TOOL_FLAG,   /* bool */
    TOOL_TEXT,   /* const char * */
    TOOL_NUMBER, /* int64_t, between min and max */
    TOOL_LIST    /* struct tool_list: may be given several times */
};

struct tool_list {
    const char *items[64];
    size_t count;
};

struct tool_option {
    char letter; /* 0: only the long form */
    const char *name;
    enum tool_option_type type;
    void *target;
    const char *value; /* name of the value in the help */
    const char *help;
    int64_t min, max;
};

#define TOOL_OPTION_NAMESRV(target)                                                                \
    {                                                                                              \
        'n', "namesrv", TOOL_TEXT, target, "HOST:PORT[;…]",                                        \
            "name servers; else $NAMESRV_ADDR, else " TOOL_NAMESRV, 0, 0                           \
    }
#define TOOL_OPTION_TOPIC(target)                                                                  \
    {                                                                                              \
        't', "topic", TOOL_TEXT, target, "TOPIC", "the topic", 0, 0                                \
    }
#define TOOL_OPTION_GROUP(target)                                                                  \
    {                                                                                              \
        'g', "group", TOOL_TEXT, target, "GROUP", "consumer group", 0, 0                           \
    }
#define TOOL_OPTION_CLUSTER(target)                                                                \
    {                                                                                              \
        'c', "cluster", TOOL_TEXT, target, "NAME", "only on this cluster; default all", 0, 0       \
    }
#define TOOL_OPTION_OUTPUT(target)                                                                 \
    {                                                                                              \
        'o', "output", TOOL_TEXT, target, "text|json", "how to print; default text", 0, 0          \
    }

struct tool_usage {
    const char *synopsis; /* "produce -t TOPIC [options] [BODY]" */
    const char *text;     /* what it does, in sentences */
    const char *examples; /* lines */
    const char *exits;    /* what the exit codes mean */
    const struct tool_option *options;
    size_t count;
    const char **positional; /* where one bare word goes, or NULL when none is allowed */
};

/* Reads the options. Returns TOOL_GO, or the exit code after printing help or what is wrong. */
int tool_parse(const struct tool_usage *usage, int argc, char **argv);

/* Gives each "name=value" of the list to set, until one is refused; a value may hold any
 * character. RMQ_ERR_NOMEM, and what set returns. */
typedef rmq_status (*tool_set_fn)(void *target, const char *name, const char *value,
                                  rmq_error **err);
rmq_status tool_apply_settings(const struct tool_list *settings, tool_set_fn set, void *target,
                               rmq_error **err);

/* The same for a configuration of a client. */
rmq_status tool_set_options(const struct tool_list *settings, rmq_config *config, rmq_error **err);

/* TOOL_USAGE after a complaint when one of the words is not "name=value". */
int tool_check_settings(const struct tool_list *settings);

/* Prints "rmq: …" to standard error and returns TOOL_USAGE. */
int tool_wrong(const char *format, ...) RMQ_PRINTF(1, 2);

/* Prints the error with what was tried, frees it and returns TOOL_FAILED. */
int tool_fail(const char *what, rmq_status st, rmq_error *err);

/* The same for what was made of the command line alone: a value that the library refuses is
 * TOOL_USAGE. */
int tool_refuse(const char *what, rmq_status st, rmq_error *err);

/* $NAMESRV_ADDR or the default when none was given. */
const char *tool_namesrv_addr(const char *given);

/* Sets *json; false after a complaint when the output is neither text nor json. */
bool tool_output(const char *given, bool *json);

/* Milliseconds since 1970, or "YYYY-MM-DD HH:MM:SS" in local time, as Java's yyyyMMddHHmmss too; -1
 * when it is neither. */
int64_t tool_read_time(const char *words);

int64_t tool_now_us(void); /* monotonic */
void tool_sleep_until_us(int64_t at);

/* Whether nobody reads standard output any more, as behind `| head -1`. */
bool tool_reader_is_gone(void);

/* Signals SIGTERM, SIGINT and SIGHUP (unless it is ignored, as by nohup) as a descriptor that
 * becomes readable. Blocks them in this thread and in all that are started later, so it comes
 * first. */
int tool_signals(void);

/* Waits until a signal came or the time (-1 = for ever) is over; true for a signal. */
bool tool_wait_signal(int signals, int64_t timeout_ms);

#endif
