/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Texts and hosts of addresses. */
#include "broker/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"

char *rq_address_text(const char *host, int port)
{
    struct rq_buf text;
    bool bare_v6 = strchr(host, ':') && host[0] != '[';
    rq_buf_init(&text, 0);
    rq_buf_addf(&text, bare_v6 ? "[%s]:%d" : "%s:%d", host, port);
    return rq_buf_detach(&text);
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

const char *rq_address_to_bind(const struct rq_broker_options *options)
{
    if (options->bind_address && *options->bind_address) {
        return options->bind_address;
    }
    return is_loopback(options->broker_ip1) ? options->broker_ip1 : NULL;
}

void rq_address_of_peer(const struct sockaddr *addr, struct rq_host *out)
{
    memset(out, 0, sizeof *out);
    if (addr->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)addr;
        memcpy(out->addr, &v4->sin_addr, 4);
        out->len = 4;
        out->port = ntohs(v4->sin_port);
    } else if (addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
        out->len = mapped ? 4 : 16;
        memcpy(out->addr, v6->sin6_addr.s6_addr + (mapped ? 12 : 0), out->len);
        out->port = ntohs(v6->sin6_port);
    } else {
        out->len = 4;
    }
}

rmq_status rq_address_store_host(const char *host, int port, struct rq_host *out, rmq_error **err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int failed = getaddrinfo(host, NULL, &hints, &list);
    if (failed) {
        return rq_error_set(err, RMQ_ERR_INVALID, "brokerIP1 \"%s\": %s", host,
                            gai_strerror(failed));
    }
    rq_address_of_peer(list->ai_addr, out);
    out->port = port;
    freeaddrinfo(list);
    return RMQ_OK;
}
