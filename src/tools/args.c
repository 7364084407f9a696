/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Command line of the subcommands: options from a table (-x VALUE, --long VALUE, --long=VALUE),
 * help made from the same table, and the choice of a subcommand.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

#define HELP_COLUMN 32

int tool_wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("rmq: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return TOOL_USAGE;
}

int tool_check_settings(const struct tool_list *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (strchr(settings->items[i], '=') == NULL) {
            return tool_wrong("--set needs name=value, not '%s'", settings->items[i]);
        }
    }
    return TOOL_GO;
}

rmq_status tool_apply_settings(const struct tool_list *settings, tool_set_fn set, void *target,
                               rmq_error **err)
{
    rmq_status st = RMQ_OK;
    for (size_t i = 0; st == RMQ_OK && i < settings->count; i++) {
        const char *setting = settings->items[i];
        const char *equals = strchr(setting, '=');
        char *name = strndup(setting, (size_t)(equals - setting));
        st = name != NULL ? set(target, name, equals + 1, err) : RMQ_ERR_NOMEM;
        free(name);
    }
    return st;
}

static rmq_status set_option(void *config, const char *name, const char *value, rmq_error **err)
{
    return rmq_config_set(config, name, value, err);
}

rmq_status tool_set_options(const struct tool_list *settings, rmq_config *config, rmq_error **err)
{
    return tool_apply_settings(settings, set_option, config, err);
}

/* Columns that a text takes: bytes but those that go on a character of UTF-8. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0U) != 0x80;
    }
    return width;
}

static void print_option(const struct tool_option *option)
{
    char head[128];
    char letter[5] = "";
    if (option->letter != 0) {
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    }
    snprintf(head, sizeof head, "    %s--%s %s", letter, option->name,
             option->value != NULL ? option->value : "");
    printf("%s%*s  %s\n", head, HELP_COLUMN > width_of(head) ? HELP_COLUMN - width_of(head) : 0, "",
           option->help);
}

static int print_help(const struct tool_usage *usage)
{
    printf("Usage: rmq %s\n\n%s\n\nOptions:\n", usage->synopsis, usage->text);
    for (size_t i = 0; i < usage->count; i++) {
        print_option(&usage->options[i]);
    }
    printf("%-*s  %s\n", HELP_COLUMN, "    -h, --help", "this text");
    if (usage->examples != NULL) {
        printf("\nExamples:\n%s", usage->examples);
    }
    printf("\nExit codes: %s\n",
           usage->exits != NULL ? usage->exits : "0 done, 1 failed, 2 wrong command line.");
    return TOOL_DONE;
}

static const struct tool_option *find_option(const struct tool_usage *usage, const char *word,
                                             size_t length)
{
    for (size_t i = 0; i < usage->count; i++) {
        const struct tool_option *option = &usage->options[i];
        bool same_letter = length == 2 && word[0] == '-' && word[1] == option->letter;
        bool same_name = length > 2 && word[1] == '-' && strlen(option->name) == length - 2 &&
                         strncmp(word + 2, option->name, length - 2) == 0;
        if (same_letter || same_name) {
            return option;
        }
    }
    return NULL;
}

static int store_number(const struct tool_option *option, const char *value)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0') {
        return tool_wrong("--%s needs a number, not '%s'", option->name, value);
    }
    if (number < option->min || number > option->max) {
        return tool_wrong("--%s %s is not between %lld and %lld", option->name, value,
                          (long long)option->min, (long long)option->max);
    }
    *(int64_t *)option->target = number;
    return TOOL_GO;
}

static int store_value(const struct tool_option *option, const char *value)
{
    if (option->type == TOOL_NUMBER) {
        return store_number(option, value);
    }
    if (option->type == TOOL_LIST) {
        struct tool_list *list = option->target;
        if (list->count == sizeof list->items / sizeof list->items[0]) {
            return tool_wrong("--%s is given too often", option->name);
        }
        list->items[list->count++] = value;
        return TOOL_GO;
    }
    *(const char **)option->target = value;
    return TOOL_GO;
}

/* Length of the command in its synopsis, "topic create" of "topic create -t TOPIC [options]". */
static int command_length(const char *synopsis)
{
    size_t length = 0;
    for (size_t next = 0;;) {
        next += strspn(synopsis + next, "abcdefghijklmnopqrstuvwxyz");
        if (synopsis[next] != ' ' && synopsis[next] != '\0') {
            return (int)length;
        }
        length = next;
        if (synopsis[next] == '\0' || strchr("-[", synopsis[next + 1]) != NULL) {
            return (int)length;
        }
        next++;
    }
}

/* One option at argv[*at]; *at moves on to its value when that is a word of its own. */
static int take_option(const struct tool_usage *usage, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct tool_option *option = find_option(usage, word, length);
    if (option == NULL) {
        return tool_wrong("there is no option %.*s; see rmq %.*s --help", (int)length, word,
                          command_length(usage->synopsis), usage->synopsis);
    }
    if (option->type == TOOL_FLAG) {
        *(bool *)option->target = true;
        return equals == NULL ? TOOL_GO : tool_wrong("--%s takes no value", option->name);
    }
    if (equals != NULL) {
        return store_value(option, equals + 1);
    }
    if (*at + 1 >= argc) {
        return tool_wrong("%s needs a value: %s", word, option->value);
    }
    *at += 1;
    return store_value(option, argv[*at]);
}

int tool_parse(const struct tool_usage *usage, int argc, char **argv)
{
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int rc = TOOL_GO;
        if (!only_words && strcmp(word, "--") == 0) {
            only_words = true;
        } else if (!only_words && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            return print_help(usage);
        } else if (!only_words && word[0] == '-' && word[1] != '\0') {
            rc = take_option(usage, argc, argv, &i);
        } else if (usage->positional == NULL || *usage->positional != NULL) {
            rc = tool_wrong("'%s' is not expected here; see rmq %.*s --help", word,
                            command_length(usage->synopsis), usage->synopsis);
        } else {
            *usage->positional = word;
        }
        if (rc != TOOL_GO) {
            return rc;
        }
    }
    return TOOL_GO;
}

static int print_commands(const char *name, const char *text, const struct tool_command *commands,
                          size_t count)
{
    printf("Usage: %s COMMAND [options]\n\n%s\nCommands:\n", name, text);
    for (size_t i = 0; i < count; i++) {
        printf("    %-10s  %s\n", commands[i].name, commands[i].summary);
    }
    printf("\n%s COMMAND --help explains one.\n", name);
    return TOOL_DONE;
}

int tool_dispatch(const char *name, const char *text, const struct tool_command *commands,
                  size_t count, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "--help";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_commands(name, text, commands, count);
        return argc > 1 ? TOOL_DONE : TOOL_USAGE;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(commands[i].name, word) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    return tool_wrong("there is no command '%s'; see %s --help", word, name);
}
