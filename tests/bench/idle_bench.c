/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What idle consumers cost a broker: CONNECTIONS connections with two parked pulls each; memory,
 * CPU while nothing happens, and how soon a message wakes the pulls that wait for its queue. The
 * broker is a process of its own; the connections are bare sockets. Needs 12,000 descriptors
 * (ulimit -n).
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rmq/broker.h>

#define CONNECTIONS 10000
#define QUEUES      1000
#define IDLE_S      5
#define ROUNDS      400 /* messages, each to another queue */
#define WAITERS     (2 * CONNECTIONS / QUEUES)

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The broker's process: tells its port, and ends when the pipe does. */
static void serve(int port_fd, int end_fd)
{
    rmq_broker *broker = NULL;
    char c;
    if (rmq_broker_start(NULL, &broker, NULL) ||
        rmq_broker_create_topic(broker, "Idle", QUEUES, NULL)) {
        abort();
    }
    int port = atoi(strrchr(rmq_broker_addr(broker), ':') + 1);
    if (write(port_fd, &port, sizeof port) != sizeof port) {
        abort();
    }
    while (read(end_fd, &c, 1) > 0) {
    }
    rmq_broker_stop(broker);
    exit(0);
}

static void send_frame(int fd, int code, int opaque, const char *fields, const char *body)
{
    char frame[2048];
    int head = snprintf(frame + 8, sizeof frame - 8,
                        "{\"code\":%d,\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,\"version\":"
                        "479,\"extFields\":{%s}}",
                        code, opaque, fields);
    uint32_t size = htonl((uint32_t)(4 + head + (int)strlen(body)));
    uint32_t head_size = htonl((uint32_t)head);
    memcpy(frame, &size, 4);
    memcpy(frame + 4, &head_size, 4);
    memcpy(frame + 8 + head, body, strlen(body));
    size_t n = 8 + (size_t)head + strlen(body);
    if (write(fd, frame, n) != (ssize_t)n) {
        abort();
    }
}

static void park(int fd, int queue)
{
    char fields[512];
    snprintf(fields, sizeof fields,
             "\"consumerGroup\":\"G\",\"topic\":\"Idle\",\"queueId\":\"%d\",\"queueOffset\":\"0\","
             "\"maxMsgNums\":\"32\","
             "\"sysFlag\":\"6\",\"commitOffset\":\"0\",\"suspendTimeoutMillis\":\"600000\","
             "\"subscription\":\"*\",\"subVersion\":\"0\"",
             queue);
    send_frame(fd, 11, queue, fields, "");
}

static int dial(int port)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof in)) {
        perror("connect");
        exit(1);
    }
    return fd;
}

static long status_kb(pid_t pid, const char *name)
{
    char path[64];
    char line[256];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kb = strtol(line + strlen(name) + 1, NULL, 10);
        }
    }
    if (in) {
        fclose(in);
    }
    return kb;
}

static double cpu_ms(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) {
        return 0;
    }
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Reads what has come; an answer is small, so it comes whole. */
static void drain(int fd)
{
    char bytes[4096];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
}

/* Milliseconds from the sending of a message to a queue to the answer of the last pull that waits
 * for it: those of two connections in QUEUES. */
static double wake(int producer, const int *fds, int queue)
{
    char fields[256];
    snprintf(fields, sizeof fields,
             "\"a\":\"P\",\"b\":\"Idle\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"%d\",\"f\":\"0\","
             "\"g\":\"1\",\"h\":\"0\",\"i\":\"\","
             "\"j\":\"0\",\"k\":\"false\",\"m\":\"false\"",
             queue);
    double begin = now_ms();
    send_frame(producer, 310, 1, fields, "hello");
    for (int i = 0; i < WAITERS; i++) {
        /* as park has shared them out: queue, and half of all further */
        int at = (queue + i * QUEUES / 2) % CONNECTIONS;
        struct pollfd ready = {.fd = fds[at], .events = POLLIN};
        if (poll(&ready, 1, 10000) != 1) {
            printf("%-46s none within 10 s\n", "a message wakes its pulls");
            exit(1);
        }
    }
    double spent = now_ms() - begin;
    for (int i = 0; i < WAITERS; i++) {
        drain(fds[(queue + i * QUEUES / 2) % CONNECTIONS]);
    }
    struct pollfd answer = {.fd = producer, .events = POLLIN};
    (void)poll(&answer, 1, 10000);
    drain(producer);
    return spent;
}

static void wake_all(int producer, const int *fds)
{
    static double spent[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        spent[i] = wake(producer, fds, i);
    }
    qsort(spent, ROUNDS, sizeof spent[0], by_number);
    printf("%-46s %.2f ms least, %.2f median, %.2f p99, %.2f most\n",
           "a message wakes its 20 pulls", spent[0], spent[ROUNDS / 2], spent[ROUNDS * 99 / 100],
           spent[ROUNDS - 1]);
}

int main(void)
{
    static int fds[CONNECTIONS];
    int port_pipe[2];
    int end_pipe[2];
    int port = 0;
    struct rlimit files = {.rlim_cur = CONNECTIONS + 2000, .rlim_max = CONNECTIONS + 2000};
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (pipe(port_pipe) || pipe(end_pipe)) {
        abort();
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(end_pipe[1]);
        serve(port_pipe[1], end_pipe[0]);
    }
    close(end_pipe[0]);
    if (read(port_pipe[0], &port, sizeof port) != sizeof port) {
        abort();
    }
    long before_kb = status_kb(pid, "VmRSS:");
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = dial(port);
        park(fds[i], i % QUEUES);
        park(fds[i], (i + QUEUES / 2) % QUEUES);
    }
    int producer = dial(port);
    sleep(2);
    double begin_ms = cpu_ms(pid);
    sleep(IDLE_S);
    double used = (cpu_ms(pid) - begin_ms) / (IDLE_S * 10.0);
    printf("%-46s %ld MB (%ld MB before)\n", "10,000 connections, 20,000 parked pulls",
           status_kb(pid, "VmRSS:") / 1024, before_kb / 1024);
    printf("%-46s %.2f %%\n", "CPU while idle", used);
    wake_all(producer, fds);
    close(end_pipe[1]);
    (void)waitpid(pid, NULL, 0);
    return 0;
}
