/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Message ids as hex text. Pure functions, any thread. */
#include "wire/msgid.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

void rq_hex_upper(const void *p, size_t n, char *out)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *bytes = p;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool rq_hex_parse(struct rq_slice text, void *out)
{
    unsigned char *bytes = out;
    if (text.n % 2) {
        return false;
    }
    for (size_t i = 0; i < text.n / 2; i++) {
        int high = hex_value(text.p[2 * i]);
        int low = hex_value(text.p[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static size_t finish(const unsigned char *bytes, size_t n, char *out)
{
    rq_hex_upper(bytes, n, out);
    out[2 * n] = '\0';
    return 2 * n;
}

size_t rq_msgid_of_offset(const struct rq_host *store_host, int64_t commit_log_offset,
                          char out[RQ_MSGID_MAX + 1])
{
    unsigned char bytes[RQ_MSGID_MAX / 2];
    size_t n = store_host->len;
    memcpy(bytes, store_host->addr, n);
    rq_store_be32(bytes + n, (uint32_t)store_host->port);
    rq_store_be64(bytes + n + 4, (uint64_t)commit_log_offset);
    return finish(bytes, n + 12, out);
}

rmq_status rq_msgid_parse_offset(struct rq_slice id, struct rq_host *store_host,
                                 int64_t *commit_log_offset, rmq_error **err)
{
    unsigned char bytes[RQ_MSGID_MAX / 2];
    if ((id.n != RQ_MSGID_V4 && id.n != RQ_MSGID_V6) || !rq_hex_parse(id, bytes)) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "message id \"%.*s\" is not %d or %d hex digits", (int)(id.n < 80 ? id.n : 80),
                            id.p ? id.p : "", RQ_MSGID_V4, RQ_MSGID_V6);
    }
    *store_host = (struct rq_host){.len = id.n == RQ_MSGID_V4 ? 4 : 16};
    size_t n = store_host->len;
    memcpy(store_host->addr, bytes, n);
    store_host->port = (int32_t)rq_load_be32(bytes + n);
    *commit_log_offset = (int64_t)rq_load_be64(bytes + n + 4);
    return RMQ_OK;
}

size_t rq_msgid_of_unique(const struct rq_unique_parts *parts, char out[RQ_MSGID_MAX + 1])
{
    unsigned char bytes[RQ_MSGID_MAX / 2];
    size_t n = parts->ip_len;
    memcpy(bytes, parts->ip, n);
    rq_store_be16(bytes + n, parts->pid);
    rq_store_be32(bytes + n + 2, parts->process);
    rq_store_be32(bytes + n + 6, parts->month_ms);
    rq_store_be16(bytes + n + 10, parts->counter);
    return finish(bytes, n + 12, out);
}

rmq_status rq_msgid_parse_unique(struct rq_slice id, struct rq_unique_parts *parts, rmq_error **err)
{
    unsigned char bytes[RQ_MSGID_MAX / 2];
    if ((id.n != RQ_MSGID_V4 && id.n != RQ_MSGID_V6) || !rq_hex_parse(id, bytes)) {
        return rq_error_set(err, RMQ_ERR_INVALID, "unique id \"%.*s\" is not %d or %d hex digits",
                            (int)(id.n < 80 ? id.n : 80), id.p ? id.p : "", RQ_MSGID_V4, RQ_MSGID_V6);
    }
    *parts = (struct rq_unique_parts){.ip_len = id.n == RQ_MSGID_V4 ? 4 : 16};
    size_t n = parts->ip_len;
    memcpy(parts->ip, bytes, n);
    parts->pid = rq_load_be16(bytes + n);
    parts->process = rq_load_be32(bytes + n + 2);
    parts->month_ms = rq_load_be32(bytes + n + 6);
    parts->counter = rq_load_be16(bytes + n + 10);
    return RMQ_OK;
}
