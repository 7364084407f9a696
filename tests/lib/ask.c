/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A request over a plain socket. See ask.h. */
#include "lib/ask.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/frame.h"

#define ANSWER_MAX (1 << 20)

static int connect_to(const char *addr)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct timeval limit = {.tv_sec = 15};
    char host[64];
    const char *colon = strrchr(addr, ':');
    snprintf(host, sizeof host, "%.*s", (int)(colon - addr), addr);
    to.sin_port = htons((unsigned short)atoi(colon + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && (inet_pton(AF_INET, host, &to.sin_addr) != 1 ||
                    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
                    connect(fd, (struct sockaddr *)&to, sizeof to) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The body lies behind length, header length and header. */
static int take_answer(const char *p, size_t n, char *out, unsigned long room)
{
    struct tl_header header;
    const unsigned char *bytes = (const unsigned char *)p;
    if (!tl_frame_header(p, n, &header)) {
        return -1;
    }
    size_t at = 8 + ((size_t)bytes[5] << 16 | (size_t)bytes[6] << 8 | bytes[7]);
    size_t left = at < n ? n - at : 0;
    left = left < room ? left : room - 1;
    memcpy(out, p + at, left);
    out[left] = '\0';
    return header.code;
}

int tl_ask(const char *addr, int code, const char *ext, char *out, unsigned long room)
{
    return tl_ask_with(addr, code, ext, "", out, room);
}

int tl_ask_with(const char *addr, int code, const char *ext, const char *body, char *out,
                unsigned long room)
{
    struct tl_header header = {.code = code, .opaque = 1};
    size_t size = 0;
    size_t have = 0;
    int result = -1;
    int fd = connect_to(addr);
    char *frame = tl_frame_make(&header, NULL, ext, body, strlen(body), &size);
    char *answer = malloc(ANSWER_MAX);
    out[0] = '\0';
    bool going = fd >= 0 && frame && answer && write(fd, frame, size) == (ssize_t)size;
    while (going) {
        ssize_t n = read(fd, answer + have, ANSWER_MAX - have);
        have += n > 0 ? (size_t)n : 0;
        long whole = tl_frame_size(answer, have);
        if (whole > 0) {
            result = take_answer(answer, (size_t)whole, out, room);
        }
        going = n > 0 && whole == 0 && have < ANSWER_MAX;
    }
    free(frame);
    free(answer);
    if (fd >= 0) {
        close(fd);
    }
    return result;
}
