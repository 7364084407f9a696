/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Helpers that most subcommands use: errors for a person, clock, signals.
 */
#include "tools/tool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

int tool_fail(const char *what, rmq_status st, rmq_error *err)
{
    const char *detail = rmq_error_message(err);
    fprintf(stderr, "rmq: %s: %s\n", what, detail[0] != '\0' ? detail : rmq_status_text(st));
    rmq_error_destroy(err);
    return TOOL_FAILED;
}

int tool_refuse(const char *what, rmq_status st, rmq_error *err)
{
    (void)tool_fail(what, st, err);
    return st == RMQ_ERR_INVALID ? TOOL_USAGE : TOOL_FAILED;
}

const char *tool_namesrv_addr(const char *given)
{
    const char *set = getenv("NAMESRV_ADDR");
    if (given != NULL && given[0] != '\0') {
        return given;
    }
    return set != NULL && set[0] != '\0' ? set : TOOL_NAMESRV;
}

bool tool_output(const char *given, bool *json)
{
    *json = given != NULL && strcmp(given, "json") == 0;
    if (given != NULL && !*json && strcmp(given, "text") != 0) {
        tool_wrong("--output is text or json, not '%s'", given);
        return false;
    }
    return true;
}

int64_t tool_read_time(const char *words)
{
    struct tm parts = {.tm_isdst = -1};
    const char *end =
        strptime(words, strlen(words) == 14 ? "%Y%m%d%H%M%S" : "%Y-%m-%d %H:%M:%S", &parts);
    if (end != NULL && *end == '\0') {
        int day = parts.tm_mday;
        time_t at = mktime(&parts);
        return parts.tm_mday == day ? (int64_t)at * 1000 : -1; /* there is no 31 February */
    }
    char *rest = NULL;
    errno = 0;
    long long ms = strtoll(words, &rest, 10);
    return rest != words && *rest == '\0' && errno == 0 ? ms : -1;
}

int64_t tool_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void tool_sleep_until_us(int64_t at)
{
    struct timespec until = {.tv_sec = at / 1000000, .tv_nsec = at % 1000000 * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
}

bool tool_reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

int tool_signals(void)
{
    struct sigaction hangup;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
        sigaddset(&set, SIGHUP);
    }
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool tool_wait_signal(int signals, int64_t timeout_ms)
{
    struct pollfd wait = {.fd = signals, .events = POLLIN};
    int64_t end = tool_now_us() + timeout_ms * 1000;
    for (;;) {
        int64_t left = (end - tool_now_us()) / 1000;
        int most = timeout_ms < 0 ? -1 : left > 3600000 ? 3600000 : (int)(left > 0 ? left : 0);
        if (poll(&wait, 1, most) > 0) {
            return true;
        }
        if (timeout_ms >= 0 && tool_now_us() >= end) {
            return false;
        }
    }
}
