/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* See port.h. */
#include "lib/port.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static void must(bool holds, const char *what)
{
    if (!holds) {
        perror(what);
        abort();
    }
}

/* A socket that is bound and does not listen. Others that set SO_REUSEADDR may ask for its port by
 * number; no socket is given it that asks for any, and none that connects. */
static int bind_any(char *addr, size_t room, int *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    const int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0, "socket");
    must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0, "SO_REUSEADDR");
    must(bind(fd, (struct sockaddr *)&in, size) == 0, "bind");
    must(getsockname(fd, (struct sockaddr *)&in, &size) == 0, "getsockname");
    *port = ntohs(in.sin_port);
    if (addr) {
        (void)snprintf(addr, room, "127.0.0.1:%d", *port);
    }
    return fd;
}

int tl_port_silent(char *addr, size_t room)
{
    int port;
    int fd = bind_any(addr, room, &port);
    must(listen(fd, 64) == 0, "listen");
    return fd;
}

int tl_port_kept(char *addr, size_t room)
{
    int port;
    (void)bind_any(addr, room, &port); /* the end of the process closes it */
    return port;
}
