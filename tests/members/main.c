/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * run KIND key=value...: a member of KIND push, ordered, popping, broadcast, pull, lite or pop,
 * until SIGTERM. Words: ns topic group instance offsets strategy later pause, and
 * broker=NAME@HOST:PORT queues=N script=RULES: then the member reaches that broker through a proxy
 * of its own with these rules (lib/proxy.h).
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "members/member.h"

static int signals = -1;

bool member_over_within(int64_t ms)
{
    struct pollfd wait = {.fd = signals, .events = POLLIN};
    return poll(&wait, 1, (int)ms) > 0;
}

bool member_over(void)
{
    return member_over_within(0);
}

bool member_good(const char *what, rmq_status st, rmq_error *err)
{
    if (st != RMQ_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, rmq_status_name(st), rmq_error_message(err));
    }
    rmq_error_destroy(err);
    return st == RMQ_OK;
}

/* One write a line: what is there after a kill is whole lines. The time is that of the system,
 * which all members share. */
static bool write_line(const rmq_message_view *view, const char *idx)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char line[1024];
    struct timespec now;
    pthread_mutex_lock(&lock);
    clock_gettime(CLOCK_REALTIME, &now);
    int n = snprintf(
        line, sizeof line,
        "{\"at\":%" PRId64 ",\"queueId\":%d,\"queueOffset\":%" PRId64
        ",\"reconsumeTimes\":%d,\"msgId\":\"%s\",\"key\":\"%s\",\"properties\":{\"idx\":\"%s\"}}\n",
        (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, rmq_message_view_queue_id(view),
        rmq_message_view_queue_offset(view), rmq_message_view_reconsume_times(view),
        rmq_message_view_id(view), rmq_message_view_property(view, "__SHARDINGKEY"), idx);
    bool good = n > 0 && (size_t)n < sizeof line && write(STDOUT_FILENO, line, (size_t)n) == n;
    pthread_mutex_unlock(&lock);
    return good;
}

bool member_take(const struct member *member, const rmq_message_view *view)
{
    const char *idx = rmq_message_view_property(view, "idx");
    struct timespec pause = {.tv_sec = member->pause_ms / 1000,
                             .tv_nsec = member->pause_ms % 1000 * 1000000};
    if (member->later > 0 && rmq_message_view_reconsume_times(view) == 0 &&
        strtoll(idx, NULL, 10) % member->later == 0) {
        return false;
    }
    nanosleep(&pause, NULL);
    return write_line(view, idx);
}

static const char *word(int argc, char **argv, const char *key)
{
    size_t n = strlen(key);
    for (int i = 2; i < argc; i++) {
        if (strncmp(argv[i], key, n) == 0 && argv[i][n] == '=') {
            return argv[i] + n + 1;
        }
    }
    return NULL;
}

static int64_t number(int argc, char **argv, const char *key)
{
    const char *value = word(argc, argv, key);
    return value != NULL ? strtoll(value, NULL, 10) : 0;
}

/* A proxy before the broker, and a name server that tells of nothing else. The address of the
 * latter, or NULL. */
static const char *behind_proxy(int argc, char **argv, const char *broker, const char *group)
{
    char route[192];
    char retry[256];
    const char *at = strchr(broker, '@');
    const char *script = word(argc, argv, "script");
    if (at == NULL) {
        return NULL;
    }
    struct tl_proxy *proxy = tl_proxy_start(at + 1);
    struct tl_namesrv *namesrv = tl_namesrv_start();
    snprintf(route, sizeof route, "%.*s@%s", (int)(at - broker), broker, tl_proxy_addr(proxy));
    tl_namesrv_brokers(namesrv, NULL, route, (int)number(argc, argv, "queues"));
    snprintf(retry, sizeof retry, "%%RETRY%%%s", group);
    tl_namesrv_brokers(namesrv, retry, route, 1);
    return script == NULL || tl_proxy_script(proxy, script) ? tl_namesrv_addr(namesrv) : NULL;
}

static const struct {
    const char *name;
    bool (*run)(const struct member *);
} kinds[] = {{"push", member_push},       {"ordered", member_ordered},
             {"popping", member_popping}, {"broadcast", member_broadcast},
             {"pull", member_pull},       {"lite", member_lite},
             {"pop", member_pop}};

int main(int argc, char **argv)
{
    struct member member = {.namesrv = word(argc, argv, "ns"),
                            .topic = word(argc, argv, "topic"),
                            .group = word(argc, argv, "group"),
                            .instance = word(argc, argv, "instance"),
                            .offsets = word(argc, argv, "offsets"),
                            .strategy = word(argc, argv, "strategy"),
                            .later = number(argc, argv, "later"),
                            .pause_ms = number(argc, argv, "pause")};
    const char *broker = word(argc, argv, "broker");
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stop, NULL); /* before any thread, so that none takes them */
    signals = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
    if (broker != NULL && member.group != NULL) {
        member.namesrv = behind_proxy(argc, argv, broker, member.group);
    }
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[1], kinds[i].name) == 0 && member.namesrv && member.topic && member.group) {
            return kinds[i].run(&member) ? 0 : 1;
        }
    }
    fprintf(stderr,
            "run push|ordered|popping|broadcast|pull|lite|pop ns=HOST:PORT topic=T group=G ...\n");
    return 2;
}
