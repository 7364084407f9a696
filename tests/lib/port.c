/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* See port.h. */
#include "lib/port.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "lib/cases.h"

int tl_port_silent(char *addr, size_t room)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TL_CHECK(fd >= 0);
    TL_EQUAL(bind(fd, (struct sockaddr *)&in, size), 0);
    TL_EQUAL(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    snprintf(addr, room, "127.0.0.1:%d", ntohs(in.sin_port));
    TL_EQUAL(listen(fd, 64), 0);
    return fd;
}
