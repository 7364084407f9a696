/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Hostile peers of broker and name server: a bad frame costs its connection and a log line; others
 * go on, memory stays small.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <rmq/broker.h>

#include "lib/bad_frames.h"
#include "lib/cases.h"
#include "lib/frame.h"
#include "lib/usage.h"

static int connect_to(const char *addr)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 5};
    to.sin_port = htons((uint16_t)atoi(strrchr(addr, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TL_CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    TL_CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

/* Sends and expects that the other side closes, without an answer first. */
static void expect_close(const char *addr, const char *what, const void *bytes, size_t n)
{
    char answer[256];
    int fd = connect_to(addr);
    if (send(fd, bytes, n, MSG_NOSIGNAL) < 0) {
        close(fd);
        return;
    }
    ssize_t got = recv(fd, answer, sizeof answer, 0);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))) {
        tl_fail(__FILE__, __LINE__, "%s: %s", what,
                got > 0 ? "answered" : "the connection stays open");
    }
    close(fd);
}

/* A good request on a connection of its own is answered. */
static void expect_service(const char *addr, int code)
{
    struct tl_header header = {.code = code, .opaque = 77};
    struct tl_header got = {0};
    char answer[65536];
    size_t have = 0;
    size_t n = 0;
    char *frame = tl_frame_make(&header, NULL, "{}", NULL, 0, &n);
    int fd = connect_to(addr);
    TL_EQUAL(send(fd, frame, n, MSG_NOSIGNAL), n);
    while (tl_frame_size(answer, have) == 0) {
        ssize_t more = recv(fd, answer + have, sizeof answer - have, 0);
        TL_CHECK(more > 0);
        have += (size_t)more;
    }
    TL_CHECK(tl_frame_header(answer, have, &got));
    TL_EQUAL(got.opaque, 77);
    TL_EQUAL(got.flag & 1, 1);
    free(frame);
    close(fd);
}

/* How many connections that cost. */
static int bad_frames(const char *addr)
{
    unsigned char frame[TL_BAD_FRAME];
    char what[64];
    int count = 0;
    for (; tl_bad_frame(count, frame, what); count++) {
        expect_close(addr, what, frame, sizeof frame);
    }
    return count;
}

static void garbage(const char *addr)
{
    unsigned char bytes[4096];
    uint32_t state = 12345;
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * 1664525U + 1013904223U;
            bytes[i] = (unsigned char)(state >> 24);
        }
        /* most have a length beyond any limit */
        bytes[0] = (unsigned char)(round % 4 == 0 ? 0 : bytes[0] | 1);
        int fd = connect_to(addr);
        if (send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) < 0) {
            TL_CHECK(errno == EPIPE || errno == ECONNRESET);
        }
        close(fd);
    }
}

/* Connections that begin a large frame and stay: what they have not sent must not cost memory. */
static void slow_senders(const char *addr)
{
    int fds[100];
    unsigned char begin[100] = {0x00, 0xf0, 0x00, 0x00, 0x00, 0x00, 0x00, 50};
    for (int i = 0; i < 100; i++) {
        fds[i] = connect_to(addr);
        TL_EQUAL(send(fds[i], begin, sizeof begin, MSG_NOSIGNAL), sizeof begin);
    }
    expect_service(addr, 28);
    for (int i = 0; i < 100; i++) {
        close(fds[i]);
    }
}

/* The broker's library writes its lines to standard error: they go to a file from here on. */
static FILE *keep_log(void)
{
    FILE *log = tmpfile();
    TL_CHECK(log != NULL);
    TL_CHECK(dup2(fileno(log), STDERR_FILENO) == STDERR_FILENO);
    return log;
}

/* Lines of the log so far; *closed: those about connections that were closed for their bytes. */
static int log_lines(FILE *log, int *closed)
{
    char line[1024];
    int lines = 0;
    *closed = 0;
    int fd = dup(fileno(log)); /* shares its place with standard error, which is at the end again */
    TL_CHECK(fd >= 0 && lseek(fd, 0, SEEK_SET) == 0);
    FILE *reader = fdopen(fd, "r");
    TL_CHECK(reader != NULL);
    while (fgets(line, sizeof line, reader)) {
        lines++;
        *closed += strstr(line, "connection closed: bad bytes") != NULL;
    }
    fclose(reader);
    return lines;
}

static void abuse_server(const char *addr, int good_code, FILE *log)
{
    int before = 0;
    int after = 0;
    int lines = log_lines(log, &before);
    int connections = bad_frames(addr);
    expect_service(addr, good_code);
    TL_EQUAL(log_lines(log, &after) - lines, connections);
    TL_EQUAL(after - before, connections);
    garbage(addr);
    expect_service(addr, good_code);
    slow_senders(addr);
}

static void bad_frames_cost_their_connection_only(void)
{
    rmq_broker *broker = NULL;
    rmq_error *err = NULL;
    int terminal = dup(STDERR_FILENO);
    FILE *log = keep_log();
    TL_OK(rmq_broker_start(NULL, &broker, &err));
    abuse_server(rmq_broker_addr(broker), 28, log);
    abuse_server(rmq_broker_namesrv_addr(broker), 106, log);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    TL_CHECK(getenv("TL_SLACK") != NULL || tl_usage_of(0).peak_rss_kb < 64 * 1024);
#endif
    rmq_broker_stop(broker);
    TL_EQUAL(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
    close(terminal);
    fclose(log);
}

static void an_unknown_request_is_refused_by_its_code(void)
{
    rmq_broker *broker = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_broker_start(NULL, &broker, &err));
    expect_service(rmq_broker_addr(broker), 31337);
    expect_service(rmq_broker_namesrv_addr(broker), 31337);
    rmq_broker_stop(broker);
}

static const struct tl_case cases[] = {
    {"bad_frames_cost_their_connection_only", bad_frames_cost_their_connection_only, 100},
    TL_CASE(an_unknown_request_is_refused_by_its_code),
};

int main(int argc, char **argv)
{
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
