/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Runs the cases of an end-to-end test, each in a child. See cases.h. A failed check ends its child
 * at once, with threads of the libraries still running, so it leaves by _exit.
 */
#include "lib/cases.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/usage.h"

#define SKIPPED         77
#define DEFAULT_SECONDS 60

static const char *current;

static void leave(const char *verdict, const char *why, int code)
{
    printf("%s %s: %s\n", verdict, current, why);
    fflush(stdout);
    _exit(code);
}

void tl_fail(const char *file, int line, const char *format, ...)
{
    char why[2000];
    va_list args;
    int n = snprintf(why, sizeof why, "%s:%d: ", file, line);
    va_start(args, format);
    vsnprintf(why + n, sizeof why - (size_t)n, format, args);
    va_end(args);
    leave("FAIL", why, 1);
}

void tl_skip(const char *format, ...)
{
    char why[500];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    leave("skip", why, SKIPPED);
}

void tl_ok(const char *file, int line, const char *what, rmq_status st, rmq_error *err)
{
    if (st != RMQ_OK) {
        tl_fail(file, line, "%s: %s: %s", what, rmq_status_name(st), rmq_error_message(err));
    }
    rmq_error_destroy(err);
}

static bool chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return argc < 2;
}

static int slack(void)
{
    /* deadlines of slow runs (memcheck) are so many times longer */
    const char *text = getenv("TL_SLACK");
    int factor = text != NULL ? atoi(text) : 1;
    return factor > 0 ? factor : 1;
}

/* Not the wall clock: a test may set that. */
static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Waits for the child, kills it at the deadline. Returns its wait status, or -1 after a kill. */
static int await(pid_t child, int seconds)
{
    int status = 0;
    struct timespec pause = {.tv_nsec = 5000000};
    time_t end = now_s() + seconds;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_s() > end) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    return status;
}

static bool no_look_up(void *arg)
{
    char names[4096];
    (void)arg;
    tl_thread_names(0, names, sizeof names);
    return strstr(names, "rmq-resolve") == NULL;
}

/* A look-up that nobody waits for any more ends when the system's resolver lets it; the leak
 * sanitizer cannot see what that one holds. */
static void await_look_ups(void)
{
    (void)tl_wait(no_look_up, NULL, 30000);
}

/* 0 when the case passed or was skipped. The child itself prints the verdict of a check; the parent
 * that of a crash or hang. */
static int run_child(const struct tl_case *test)
{
    int seconds = (test->seconds > 0 ? test->seconds : DEFAULT_SECONDS) * slack();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        test->run();
        printf("ok %s\n", current);
        await_look_ups();
        exit(0); /* with atexit, so that the leak sanitizer looks */
    }
    int status = await(child, seconds);
    if (status == -1) {
        printf("FAIL %s: still running after %d s\n", test->name, seconds);
    } else if (WIFSIGNALED(status)) {
        printf("FAIL %s: killed by signal %d\n", test->name, WTERMSIG(status));
    } else if (WEXITSTATUS(status) > 1 && WEXITSTATUS(status) != SKIPPED) {
        printf("FAIL %s: ended with %d\n", test->name, WEXITSTATUS(status));
    }
    return status != -1 && WIFEXITED(status) &&
                   (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SKIPPED)
               ? 0
               : 1;
}

int tl_main(int argc, char **argv, const struct tl_case *cases, size_t count)
{
    const char *fork_text = getenv("TL_FORK");
    bool fork_each = fork_text == NULL || strcmp(fork_text, "no") != 0;
    int bad = 0;
    signal(SIGPIPE, SIG_DFL); /* a library that lets one through shall die here */
    for (size_t i = 0; i < count; i++) {
        if (!chosen(cases[i].name, argc, argv)) {
            continue;
        }
        current = cases[i].name;
        if (fork_each) {
            bad += run_child(&cases[i]);
        } else {
            cases[i].run();
            printf("ok %s\n", current);
        }
    }
    return bad ? 1 : 0;
}
