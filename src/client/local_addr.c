/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Local addresses (see the header). A connected datagram socket tells which source address the
 * kernel would use; nothing is sent. */
#include "client/local_addr.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct host_port {
    char host[256];
    char port[8];
};

static bool split(const char *text, struct host_port *out)
{
    const char *colon = strrchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof out->host ||
        strlen(colon + 1) >= sizeof out->port) {
        return false;
    }
    size_t n = (size_t)(colon - text);
    const char *host = text;
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    }
    memcpy(out->host, host, n);
    out->host[n] = '\0';
    memcpy(out->port, colon + 1, strlen(colon + 1) + 1);
    return true;
}

static bool source_address(const char *namesrv, struct sockaddr_storage *out)
{
    struct host_port to;
    if (!namesrv || !split(namesrv, &to)) {
        return false;
    }
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_DGRAM};
    struct addrinfo *list = NULL;
    if (getaddrinfo(to.host, to.port, &hints, &list) != 0) {
        return false;
    }
    socklen_t size = sizeof *out;
    int fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 &&
              getsockname(fd, (struct sockaddr *)out, &size) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    freeaddrinfo(list);
    return ok;
}

enum kind {
    KIND_NONE,
    KIND_LOOPBACK,
    KIND_LINK_LOCAL,
    KIND_PRIVATE_V4,
    KIND_PUBLIC_V6,
    KIND_PUBLIC_V4
};

static enum kind kind_of_v4(const struct sockaddr_storage *addr)
{
    struct sockaddr_in in;
    memcpy(&in, addr, sizeof in);
    uint32_t ip = ntohl(in.sin_addr.s_addr);
    if (ip >> 24 == 127) {
        return KIND_LOOPBACK;
    }
    if (ip >> 16 == 0xA9FE) {
        return KIND_LINK_LOCAL;
    }
    bool is_private = ip >> 24 == 10 || ip >> 20 == 0xAC1 || ip >> 16 == 0xC0A8;
    return is_private ? KIND_PRIVATE_V4 : KIND_PUBLIC_V4;
}

static enum kind kind_of(const struct sockaddr_storage *addr)
{
    if (addr->ss_family == AF_INET) {
        return kind_of_v4(addr);
    }
    if (addr->ss_family != AF_INET6) {
        return KIND_NONE;
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, addr, sizeof in6);
    if (IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr)) {
        return KIND_LOOPBACK;
    }
    return IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) ? KIND_LINK_LOCAL : KIND_PUBLIC_V6;
}

/* The first address of the best kind among the interfaces that are up. */
static bool best_address(struct sockaddr_storage *out)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) {
        return false;
    }
    enum kind best = KIND_NONE;
    for (struct ifaddrs *it = list; it; it = it->ifa_next) {
        if (!it->ifa_addr || !(it->ifa_flags & IFF_UP)) {
            continue;
        }
        int family = it->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) {
            continue;
        }
        struct sockaddr_storage addr = {0};
        memcpy(&addr, it->ifa_addr,
               family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        enum kind kind = kind_of(&addr);
        if (kind > best) {
            best = kind;
            *out = addr;
        }
    }
    freeifaddrs(list);
    return best != KIND_NONE;
}

void rq_local_addr_text(const char *namesrv, char out[RQ_ADDR_TEXT])
{
    struct sockaddr_storage addr = {0};
    bool known = source_address(namesrv, &addr) || best_address(&addr);
    char text[INET6_ADDRSTRLEN] = "127.0.0.1";
    if (known && addr.ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &addr, sizeof in);
        (void)inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    } else if (known && addr.ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, &addr, sizeof in6);
        (void)inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text);
    }
    for (char *p = text; *p; p++) {
        if (*p == ':') {
            *p = '-';
        }
    }
    (void)snprintf(out, RQ_ADDR_TEXT, "%s", text);
}

size_t rq_local_addr_bytes(uint8_t out[16])
{
    struct sockaddr_storage addr = {0};
    if (!best_address(&addr)) {
        memcpy(out, "\x7f\x00\x00\x01", 4);
        return 4;
    }
    if (addr.ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, &addr, sizeof in6);
        memcpy(out, &in6.sin6_addr, 16);
        return 16;
    }
    struct sockaddr_in in;
    memcpy(&in, &addr, sizeof in);
    memcpy(out, &in.sin_addr, 4);
    return 4;
}
