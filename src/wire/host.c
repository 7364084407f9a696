/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Hosts of messages as text and back: numeric addresses only, IPv6 in brackets. Any thread. */
#include <arpa/inet.h>
#include <string.h>

#include "base/err.h"
#include "wire/message.h"

/* Splits "addr:port", "[addr]:port"; false when there is no port. Brackets are for IPv6, and IPv6
 * needs them. */
static bool split(struct rq_slice text, struct rq_slice *addr, struct rq_slice *port, bool *v6)
{
    size_t i = text.n;
    while (i > 0 && text.p[i - 1] != ':') {
        i--;
    }
    if (i < 2) {
        return false;
    }
    *port = rq_slice(text.p + i, text.n - i);
    *addr = rq_slice(text.p, i - 1);
    *v6 = addr->n >= 2 && addr->p[0] == '[' && addr->p[addr->n - 1] == ']';
    if (*v6) {
        *addr = rq_slice(addr->p + 1, addr->n - 2);
    }
    return true;
}

rmq_status rq_host_parse(struct rq_slice text, struct rq_host *out, rmq_error **err)
{
    struct rq_slice addr;
    struct rq_slice port;
    char name[INET6_ADDRSTRLEN];
    memset(out, 0, sizeof *out);
    bool v6;
    bool ok = split(text, &addr, &port, &v6) && addr.n < sizeof name &&
              !memchr(addr.p, 0, addr.n) && rq_slice_to_i32(port, &out->port) && out->port >= 0 &&
              out->port <= UINT16_MAX;
    if (ok) {
        memcpy(name, addr.p, addr.n);
        name[addr.n] = '\0';
        ok = inet_pton(v6 ? AF_INET6 : AF_INET, name, out->addr) == 1;
        out->len = v6 ? 16 : 4;
    }
    if (!ok) {
        return rq_error_set(err, RMQ_ERR_INVALID, "\"%.*s\" is no numeric address with a port",
                            text.n > 80 ? 80 : (int)text.n, text.p ? text.p : "");
    }
    return RMQ_OK;
}

size_t rq_host_text(const struct rq_host *host, char out[RQ_HOST_TEXT])
{
    bool v6 = host->len == 16;
    size_t n = 0;
    if (v6) {
        out[n++] = '[';
    }
    if (!inet_ntop(v6 ? AF_INET6 : AF_INET, host->addr, out + n, INET6_ADDRSTRLEN)) {
        out[n] = '\0';
    }
    n += strlen(out + n);
    if (v6) {
        out[n++] = ']';
    }
    out[n++] = ':';
    n += rq_i64_to_text(host->port, out + n);
    out[n] = '\0';
    return n;
}

bool rq_host_equal(const struct rq_host *a, const struct rq_host *b)
{
    return a->len == b->len && a->port == b->port && memcmp(a->addr, b->addr, a->len) == 0;
}
