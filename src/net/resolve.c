/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Host names to addresses: see the header for why evdns. A look-up ends with evdns's callback, which comes after a cancel, too; its base is
 * freed some turns of the loop later, when nothing that evdns has deferred can touch it any more, and the loop does not end before. A name
 * without any name server is refused at once: evdns would let it wait. Loop thread.
 */
#include "net/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <event2/dns.h>
#include <event2/util.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/slice.h"
#include "net/loop_priv.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define HOSTS       "/etc/hosts"
#define REST_TURNS  3 /* of the loop between the answer and freeing the base */

struct rq_resolve {
    struct rq_loop *loop;
    struct evdns_base *base;
    struct evdns_getaddrinfo_request *request; /* NULL once it has called back */
    struct rq_task task;
    struct rq_timer timer;
    rq_resolve_done *done; /* NULL after cancel, and once it was called */
    void *user;
    rmq_status status;
    int count;
    bool answered;
    int rest;
    uint16_t port;
    union rq_sockaddr addrs[RQ_RESOLVE_MAX];
    char host[RQ_HOST_MAX];
    char reason[RQ_HOST_MAX + 64];
};

rmq_status rq_address_split(const char *address, char *host, uint16_t *port, rmq_error **err)
{
    const char *colon = strrchr(address, ':');
    const char *end = colon;
    const char *begin = address;
    if (*address == '[') {
        begin = address + 1;
        end = strchr(address, ']');
        if (!end || end + 1 != colon) {
            return rq_error_set(err, RMQ_ERR_INVALID, "address \"%s\" is not [v6]:port", address);
        }
    }
    int32_t number = 0;
    if (!colon || !rq_slice_to_i32(rq_slice_str(colon + 1), &number) || number < 1 ||
        number > UINT16_MAX) {
        return rq_error_set(err, RMQ_ERR_INVALID, "address \"%s\" has no port", address);
    }
    size_t n = (size_t)(end - begin);
    if (n == 0 || n >= RQ_HOST_MAX || (begin == address && memchr(begin, ':', n))) {
        return rq_error_set(err, RMQ_ERR_INVALID, "address \"%s\" is not host:port", address);
    }
    memcpy(host, begin, n);
    host[n] = '\0';
    *port = (uint16_t)number;
    return RMQ_OK;
}

static void set_port(union rq_sockaddr *addr, uint16_t port)
{
    if (addr->any.sa_family == AF_INET6) {
        addr->v6.sin6_port = htons(port);
    } else {
        addr->v4.sin_port = htons(port);
    }
}

bool rq_address_literal(const char *host, uint16_t port, union rq_sockaddr *out)
{
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
        out->any.sa_family = AF_INET;
        set_port(out, port);
        return true;
    }
    if (!strchr(host, ':')) {
        return false;
    }
    /* getaddrinfo reads the scope, too, and does not look anything up with AI_NUMERICHOST. */
    const struct addrinfo hints = {
        .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *list = NULL;
    if (getaddrinfo(host, NULL, &hints, &list) != 0 || !list) {
        return false;
    }
    memcpy(&out->v6, list->ai_addr, sizeof out->v6);
    freeaddrinfo(list);
    set_port(out, port);
    return true;
}

static void free_resolve(struct rq_resolve *resolve)
{
    if (resolve->base) {
        evdns_base_free(resolve->base, 0);
    }
    resolve->loop->busy--;
    rq_free(resolve);
}

/* A later turn: nothing of evdns is on the stack any more. */
static void deliver(struct rq_task *task)
{
    struct rq_resolve *resolve = RQ_CONTAINER_OF(task, struct rq_resolve, task);
    if (resolve->done) {
        rq_resolve_done *done = resolve->done;
        resolve->done = NULL;
        done(resolve->user, resolve->status, resolve->addrs, resolve->count, resolve->reason);
    }
    if (resolve->base && resolve->rest++ < REST_TURNS) {
        rq_loop_post(resolve->loop, task);
        return;
    }
    free_resolve(resolve);
}

static void finish(struct rq_resolve *resolve)
{
    resolve->answered = true;
    rq_timer_stop(&resolve->timer);
    rq_loop_post(resolve->loop, &resolve->task);
}

static void fail(struct rq_resolve *resolve, const char *why)
{
    resolve->status = RMQ_ERR_RESOLVE;
    snprintf(resolve->reason, sizeof resolve->reason, "%s: %s", resolve->host, why);
}

static void take_family(struct rq_resolve *resolve, const struct evutil_addrinfo *list, int family)
{
    for (const struct evutil_addrinfo *p = list; p; p = p->ai_next) {
        if (p->ai_family == family && p->ai_addr && resolve->count < RQ_RESOLVE_MAX &&
            p->ai_addrlen <= sizeof(union rq_sockaddr)) {
            union rq_sockaddr *addr = &resolve->addrs[resolve->count++];
            memcpy(addr, p->ai_addr, p->ai_addrlen);
            set_port(addr, resolve->port);
        }
    }
}

static void on_answer(int error, struct evutil_addrinfo *list, void *arg)
{
    struct rq_resolve *resolve = arg;
    resolve->request = NULL;
    if (error == 0) {
        take_family(resolve, list, AF_INET);
        take_family(resolve, list, AF_INET6);
    }
    if (list) {
        evutil_freeaddrinfo(list);
    }
    if (resolve->count > 0) {
        resolve->status = RMQ_OK;
    } else if (resolve->status != RMQ_ERR_RESOLVE) {
        fail(resolve, error ? evutil_gai_strerror(error) : "no address");
    }
    finish(resolve);
}

static void on_timeout(struct rq_timer *timer)
{
    struct rq_resolve *resolve = RQ_CONTAINER_OF(timer, struct rq_resolve, timer);
    fail(resolve, "the name servers did not answer in time");
    evdns_getaddrinfo_cancel(resolve->request); /* on_answer comes with EVUTIL_EAI_CANCEL */
}

/* "localhost" needs no server, even where /etc/hosts is missing. */
static bool is_localhost(const char *host)
{
    return strcasecmp(host, "localhost") == 0;
}

static void take_localhost(struct rq_resolve *resolve)
{
    resolve->count = 2;
    rq_address_literal("127.0.0.1", resolve->port, &resolve->addrs[0]);
    rq_address_literal("::1", resolve->port, &resolve->addrs[1]);
    resolve->status = RMQ_OK;
}

static bool open_base(struct rq_resolve *resolve)
{
    resolve->base = evdns_base_new(resolve->loop->base, 0);
    if (!resolve->base) {
        return false;
    }
    /* Some servers answer in lower case whatever was asked, and would be taken for forgers. */
    evdns_base_set_option(resolve->base, "randomize-case", "0");
    /* A server that is dead, or that never answers the question for IPv6, costs little; resolv.conf may say otherwise. */
    evdns_base_set_option(resolve->base, "timeout", "2");
    evdns_base_set_option(resolve->base, "getaddrinfo-allow-skew", "0.5");
    int flags = DNS_OPTIONS_ALL & ~DNS_OPTION_HOSTSFILE;
#ifdef DNS_OPTION_NAMESERVERS_NO_DEFAULT
    flags |= DNS_OPTION_NAMESERVERS_NO_DEFAULT;
#endif
    evdns_base_resolv_conf_parse(resolve->base, flags, RESOLV_CONF);
    evdns_base_load_hosts(resolve->base, HOSTS);
    return true;
}

static void ask(struct rq_resolve *resolve)
{
    const struct evutil_addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP};
    struct evdns_getaddrinfo_request *request =
        evdns_getaddrinfo(resolve->base, resolve->host, NULL, &hints, on_answer, resolve);
    if (!resolve->answered) {
        resolve->request = request;
        if (evdns_base_count_nameservers(resolve->base) == 0) {
            fail(resolve, "no name server in " RESOLV_CONF);
            evdns_getaddrinfo_cancel(request);
        }
    }
}

struct rq_resolve *rq_resolve_start(struct rq_loop *loop, const char *host, uint16_t port,
                                    int64_t timeout_ms, rq_resolve_done *done, void *user)
{
    struct rq_resolve *resolve = rq_calloc(1, sizeof *resolve);
    if (!resolve) {
        return NULL;
    }
    loop->busy++;
    resolve->loop = loop;
    resolve->port = port;
    resolve->done = done;
    resolve->user = user;
    resolve->task.run = deliver;
    rq_timer_init(&resolve->timer, on_timeout);
    snprintf(resolve->host, sizeof resolve->host, "%s", host);
    if (rq_address_literal(host, port, &resolve->addrs[0])) {
        resolve->count = 1;
        finish(resolve);
    } else if (is_localhost(host)) {
        take_localhost(resolve);
        finish(resolve);
    } else if (!open_base(resolve)) {
        fail(resolve, "out of memory");
        finish(resolve);
    } else {
        rq_timer_start(loop, &resolve->timer, timeout_ms);
        ask(resolve);
    }
    return resolve;
}

void rq_resolve_cancel(struct rq_resolve *resolve)
{
    resolve->done = NULL;
    rq_timer_stop(&resolve->timer);
    if (!resolve->answered) {
        evdns_getaddrinfo_cancel(resolve->request);
    }
}
