/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The broker as a guest of a process: quick to start, small while idle, leaves nothing behind.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rmq/broker.h>

#include "lib/cases.h"
#include "lib/port.h"
#include "lib/usage.h"

/* Sanitizers and memcheck change what is measured; only the plain build is judged by numbers. */
static bool measured_build(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return false;
#endif
#endif
    return getenv("TL_SLACK") == NULL;
}

static void starts_in_50_ms(void)
{
    rmq_error *err = NULL;
    int64_t best = 1000000;
    for (int i = 0; i < 5; i++) {
        rmq_broker *broker = NULL;
        int64_t begin = tl_now_ms();
        TL_OK(rmq_broker_start(NULL, &broker, &err));
        int64_t took = tl_now_ms() - begin;
        best = took < best ? took : best;
        rmq_broker_stop(broker);
    }
    if (measured_build() && best >= 50) {
        tl_fail(__FILE__, __LINE__, "the quickest of five starts took %lld ms", (long long)best);
    }
}

/* A joined thread is seen in /proc for a moment longer, also at the time of the first look. */
static bool has_no_more(void *arg)
{
    const struct tl_usage *before = arg;
    struct tl_usage now = tl_usage_of(0);
    return now.threads <= before->threads && now.descriptors <= before->descriptors;
}

static void is_small_while_idle(void)
{
    rmq_broker *broker = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_broker_start(NULL, &broker, &err));
    rmq_broker_stop(broker); /* the thread sanitizer starts threads of its own with our first */
    struct tl_usage at_start = tl_usage_of(0);
    TL_OK(rmq_broker_start(NULL, &broker, &err));
    struct tl_usage usage = tl_usage_of(0);
    TL_CHECK(usage.threads - at_start.threads <= 8);
    if (measured_build()) {
        TL_CHECK(usage.rss_kb < 16 * 1024);
    }
    char names[1000];
    tl_thread_names(0, names, sizeof names);
    rmq_broker_stop(broker);
    TL_CHECK(tl_wait(has_no_more, &at_start, 2000));
}

static void leaves_nothing_behind(void)
{
    rmq_error *err = NULL;
    struct tl_usage before = {0};
    char path[4096] = "";
    for (int i = 0; i < 20; i++) {
        rmq_broker *broker = NULL;
        TL_OK(rmq_broker_start(NULL, &broker, &err));
        snprintf(path, sizeof path, "%s", rmq_broker_store_path(broker));
        struct stat info;
        TL_CHECK(stat(path, &info) == 0);
        rmq_broker_stop(broker);
        TL_CHECK(stat(path, &info) != 0); /* a temporary store goes with its broker */
        if (i == 2) {
            before = tl_usage_of(0);
        }
    }
    TL_CHECK(tl_wait(has_no_more, &before, 2000));
}

static void two_brokers_share_a_process(void)
{
    rmq_broker *one = NULL;
    rmq_broker *two = NULL;
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_broker_start(NULL, &one, &err));
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "brokerName", "second", &err));
    TL_OK(rmq_broker_config_set(config, "namesrvAddr", rmq_broker_namesrv_addr(one), &err));
    TL_OK(rmq_broker_start(config, &two, &err));
    TL_CHECK(strcmp(rmq_broker_addr(one), rmq_broker_addr(two)) != 0);
    TL_CHECK(strcmp(rmq_broker_namesrv_addr(one), rmq_broker_namesrv_addr(two)) == 0);
    rmq_broker_config_destroy(config);
    rmq_broker_stop(two);
    rmq_broker_stop(one);
}

static void a_port_in_use_is_an_error_with_its_address(void)
{
    rmq_namesrv *namesrv = NULL;
    rmq_namesrv *again = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_namesrv_start(NULL, 0, &namesrv, &err));
    const char *port = strrchr(rmq_namesrv_addr(namesrv), ':') + 1;
    TL_EQUAL(rmq_namesrv_start(NULL, atoi(port), &again, &err), RMQ_ERR_IO);
    TL_CHECK(strstr(rmq_error_message(err), port) != NULL);
    rmq_error_destroy(err);
    rmq_namesrv_stop(namesrv);
    rmq_namesrv_stop(NULL);
    rmq_broker_stop(NULL);
}

static void without_a_place_for_the_handle_nothing_starts(void)
{
    rmq_error *err = NULL;
    TL_EQUAL(rmq_broker_start(NULL, NULL, &err), RMQ_ERR_INVALID);
    rmq_error_destroy(err);
    TL_EQUAL(rmq_broker_config_create(NULL, NULL), RMQ_ERR_INVALID);
    TL_EQUAL(rmq_namesrv_start(NULL, 0, NULL, NULL), RMQ_ERR_INVALID);
}

static void an_unknown_property_names_the_nearest(void)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_EQUAL(rmq_broker_config_set(config, "brokerNamee", "x", &err), RMQ_ERR_INVALID);
    TL_CHECK(strstr(rmq_error_message(err), "brokerName") != NULL);
    rmq_error_destroy(err);
    err = NULL;
    TL_EQUAL(rmq_broker_config_set(config, "listenPort", "70000", &err), RMQ_ERR_INVALID);
    rmq_error_destroy(err);
    rmq_broker_config_destroy(config);
}

static void a_store_is_not_opened_twice(void)
{
    char path[] = "/tmp/rmq-twice-XXXXXX";
    rmq_broker *one = NULL;
    rmq_broker *two = NULL;
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    TL_CHECK(mkdtemp(path) != NULL);
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", path, &err));
    TL_OK(rmq_broker_start(config, &one, &err));
    TL_EQUAL(rmq_broker_start(config, &two, &err), RMQ_ERR_EXISTS);
    rmq_error_destroy(err);
    rmq_broker_stop(one);
    err = NULL;
    TL_OK(rmq_broker_start(config, &two, &err)); /* and again after the first has gone */
    rmq_broker_stop(two);
    rmq_broker_config_destroy(config);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", path);
    TL_EQUAL(system(command), 0);
}

static void a_forked_child_leaves_broker_and_store_alone(void)
{
    rmq_broker *broker = NULL;
    rmq_namesrv *namesrv = NULL;
    rmq_error *err = NULL;
    int status = 0;
    TL_OK(rmq_broker_start(NULL, &broker, &err));
    TL_OK(rmq_namesrv_start(NULL, 0, &namesrv, &err));
    pid_t child = fork();
    if (child == 0) {
        alarm(10); /* ends a child that waits for threads which only the parent has */
        rmq_broker_store_metrics figures = {0};
        rmq_broker_get_store_metrics(broker, &figures, sizeof figures);
        bool good = !figures.writable &&
                    rmq_broker_create_topic(broker, "Childs", 1, NULL) == RMQ_ERR_FORKED &&
                    rmq_broker_fault_refuse_connections(broker, true, NULL) == RMQ_ERR_FORKED;
        rmq_broker_fault_clear(broker);
        rmq_namesrv_stop(namesrv);
        rmq_broker_stop(broker);
        _exit(good ? 0 : 1);
    }
    TL_EQUAL(waitpid(child, &status, 0), child);
    TL_EQUAL(status, 0);
    TL_EQUAL(access(rmq_broker_store_path(broker), F_OK), 0);
    TL_OK(rmq_broker_create_topic(broker, "Parents", 1, &err));
    rmq_namesrv_stop(namesrv);
    rmq_broker_stop(broker);
}

/* A connection to a port of this machine, or -1 with errno. */
static int connect_to(int port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&in, sizeof in) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool is_refused(int port)
{
    int fd = connect_to(port);
    if (fd >= 0) {
        close(fd);
    }
    return fd < 0 && errno == ECONNREFUSED;
}

/* Whether the peer ends a connection, which is closed then. */
static bool ends(int fd)
{
    char bytes[4096];
    ssize_t n;
    const struct timeval patience = {.tv_sec = 30};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) {
    }
    bool ended = n == 0 || errno == ECONNRESET;
    close(fd);
    return ended;
}

/* A connection over which a page was read, and another one may be. */
static int read_health(int port)
{
    static const char get[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    char answer[4096];
    int fd = connect_to(port);
    TL_CHECK(fd >= 0);
    TL_EQUAL(send(fd, get, sizeof get - 1, MSG_NOSIGNAL), sizeof get - 1);
    TL_CHECK(recv(fd, answer, sizeof answer, 0) > 0);
    return fd;
}

/* A connection that a broker has taken: it answered, a request that it does not know. */
static int ask_broker(int port)
{
    static const char header[] =
        "{\"code\":9999,\"flag\":0,\"language\":\"CPP\",\"opaque\":1,\"version\":401}";
    enum { N = sizeof header - 1 };
    const uint32_t sizes[] = {htonl(N + 4), htonl(N)}; /* of what follows, and of the header */
    char frame[sizeof sizes + N];
    char answer[4096];
    int fd = connect_to(port);
    TL_CHECK(fd >= 0);
    memcpy(frame, sizes, sizeof sizes);
    memcpy(frame + sizeof sizes, header, N);
    TL_EQUAL(send(fd, frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    TL_CHECK(recv(fd, answer, sizeof answer, 0) > 0);
    return fd;
}

static int port_of(const char *addr)
{
    return atoi(strrchr(addr, ':') + 1);
}

static void set_number(rmq_broker_config *config, const char *name, int number)
{
    char text[16];
    rmq_error *err = NULL;
    snprintf(text, sizeof text, "%d", number);
    TL_OK(rmq_broker_config_set(config, name, text, &err));
}

/* As a worker that the host forks for its own purposes. When it returns the child runs, and has done
 * what a fork has to do in it. */
static pid_t fork_sleeper(void)
{
    char byte = 0;
    int fds[2];
    TL_EQUAL(pipe(fds), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        (void)!write(fds[1], &byte, 1);
        for (;;) {
            pause();
        }
    }
    TL_CHECK(child > 0);
    close(fds[1]);
    TL_EQUAL(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    return child;
}

static void a_child_that_lives_on_keeps_neither_ports_nor_store(void)
{
    char path[] = "/tmp/rmq-child-XXXXXX";
    rmq_broker *broker = NULL;
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    TL_CHECK(mkdtemp(path) != NULL);
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", path, &err));
    int port = tl_port_kept(NULL, 0);
    int metrics_port = tl_port_kept(NULL, 0);
    set_number(config, "listenPort", port);
    set_number(config, "metricsPort", metrics_port);
    TL_OK(rmq_broker_start(config, &broker, &err));
    int names_port = port_of(rmq_broker_namesrv_addr(broker));
    int health = read_health(metrics_port);
    pid_t child = fork_sleeper();
    rmq_broker_stop(broker);
    TL_CHECK(ends(health));
    TL_CHECK(is_refused(port));
    TL_CHECK(is_refused(names_port));
    TL_CHECK(is_refused(metrics_port));
    TL_OK(rmq_broker_start(config, &broker, &err));
    rmq_broker_stop(broker);
    rmq_broker_config_destroy(config);
    kill(child, SIGKILL);
    TL_EQUAL(waitpid(child, NULL, 0), child);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", path);
    TL_EQUAL(system(command), 0);
}

/* What the process with the broker tells. */
struct told {
    int port;
    pid_t sleeper;
};

/* Runs a broker; forks a sleeper when it is told to, and waits to be killed. */
static void run_until_killed(rmq_broker_config *config, int in, int out)
{
    char go;
    rmq_broker *broker = NULL;
    alarm(60);
    if (rmq_broker_start(config, &broker, NULL) != RMQ_OK) {
        _exit(1);
    }
    struct told told = {.port = port_of(rmq_broker_addr(broker))};
    if (write(out, &told, sizeof told) != sizeof told || read(in, &go, 1) != 1) {
        _exit(1);
    }
    told.sleeper = fork_sleeper();
    if (write(out, &told, sizeof told) != sizeof told) {
        _exit(1);
    }
    for (;;) {
        pause();
    }
}

static void a_child_that_outlives_a_killed_broker_keeps_neither_ports_nor_store(void)
{
    char path[] = "/tmp/rmq-killed-XXXXXX";
    int to[2], from[2];
    struct told told = {0};
    rmq_broker *broker = NULL;
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    TL_CHECK(mkdtemp(path) != NULL && pipe(to) == 0 && pipe(from) == 0);
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", path, &err));
    pid_t owner = fork();
    if (owner == 0) {
        run_until_killed(config, to[0], from[1]);
    }
    close(from[1]); /* else an owner that has failed would be waited for */
    TL_EQUAL(read(from[0], &told, sizeof told), sizeof told);
    int fd = ask_broker(told.port);
    TL_EQUAL(write(to[1], "g", 1), 1);
    TL_EQUAL(read(from[0], &told, sizeof told), sizeof told);
    TL_EQUAL(kill(owner, SIGKILL), 0);
    TL_EQUAL(waitpid(owner, NULL, 0), owner);
    TL_CHECK(ends(fd));
    TL_CHECK(is_refused(told.port));
    set_number(config, "listenPort", told.port);
    TL_OK(rmq_broker_start(config, &broker, &err));
    rmq_broker_stop(broker);
    rmq_broker_config_destroy(config);
    TL_EQUAL(kill(told.sleeper, SIGKILL), 0); /* it was there all the time */
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", path);
    TL_EQUAL(system(command), 0);
}

static const struct tl_case cases[] = {
    TL_CASE(starts_in_50_ms),
    TL_CASE(is_small_while_idle),
    TL_CASE(leaves_nothing_behind),
    TL_CASE(two_brokers_share_a_process),
    TL_CASE(a_port_in_use_is_an_error_with_its_address),
    TL_CASE(without_a_place_for_the_handle_nothing_starts),
    TL_CASE(an_unknown_property_names_the_nearest),
    TL_CASE(a_store_is_not_opened_twice),
    TL_CASE(a_forked_child_leaves_broker_and_store_alone),
    TL_CASE(a_child_that_lives_on_keeps_neither_ports_nor_store),
    TL_CASE(a_child_that_outlives_a_killed_broker_keeps_neither_ports_nor_store),
};

int main(int argc, char **argv)
{
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
