/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Message ids as upper-case hex and back. Called by producers for each message, by brokers for each
 * answer. Counterparts: MessageDecoder, MessageClientIDSetter, UtilAll.
 */
#include "wire/msgid.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/text.h"

void rq_hex_upper(const void *p, size_t n, char *out)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *bytes = p;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

bool rq_hex_parse(struct rq_slice text, void *out)
{
    unsigned char *bytes = out;
    if (text.n % 2) {
        return false;
    }
    for (size_t i = 0; i < text.n / 2; i++) {
        int high = rq_hex_digit(text.p[2 * i]);
        int low = rq_hex_digit(text.p[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static size_t to_text(const char *bytes, size_t n, char *out)
{
    rq_hex_upper(bytes, n, out);
    out[2 * n] = '\0';
    return 2 * n;
}

size_t rq_msgid_of_offset(const struct rq_host *store_host, int64_t commit_log_offset,
                          char out[RQ_MSGID_MAX + 1])
{
    char bytes[RQ_MSGID_MAX / 2];
    size_t n = store_host->len == 16 ? 16 : 4;
    memcpy(bytes, store_host->addr, n);
    rq_store_be32(bytes + n, (uint32_t)store_host->port);
    rq_store_be64(bytes + n + 4, (uint64_t)commit_log_offset);
    return to_text(bytes, n + 12, out);
}

/* Bytes of an id; 0 after an error. */
static size_t to_bytes(struct rq_slice id, char bytes[RQ_MSGID_MAX / 2], rmq_error **err)
{
    if ((id.n != RQ_MSGID_V4 && id.n != RQ_MSGID_V6) || !rq_hex_parse(id, bytes)) {
        rq_error_set(err, RMQ_ERR_INVALID, "\"%.*s\" is no message id of %d or %d hex digits",
                     id.n > 80 ? 80 : (int)id.n, id.p ? id.p : "", RQ_MSGID_V4, RQ_MSGID_V6);
        return 0;
    }
    return id.n / 2;
}

rmq_status rq_msgid_parse_offset(struct rq_slice id, struct rq_host *store_host,
                                 int64_t *commit_log_offset, rmq_error **err)
{
    char bytes[RQ_MSGID_MAX / 2];
    size_t n = to_bytes(id, bytes, err);
    if (n == 0) {
        return RMQ_ERR_INVALID;
    }
    memset(store_host, 0, sizeof *store_host);
    store_host->len = (uint8_t)(n - 12);
    memcpy(store_host->addr, bytes, n - 12);
    store_host->port = (int32_t)rq_load_be32(bytes + n - 12);
    *commit_log_offset = (int64_t)rq_load_be64(bytes + n - 8);
    return RMQ_OK;
}

size_t rq_msgid_of_unique(const struct rq_unique_parts *parts, char out[RQ_MSGID_MAX + 1])
{
    char bytes[RQ_MSGID_MAX / 2];
    size_t n = parts->ip_len == 16 ? 16 : 4;
    memcpy(bytes, parts->ip, n);
    rq_store_be16(bytes + n, parts->pid);
    rq_store_be32(bytes + n + 2, parts->process);
    rq_store_be32(bytes + n + 6, parts->month_ms);
    rq_store_be16(bytes + n + 10, parts->counter);
    return to_text(bytes, n + 12, out);
}

rmq_status rq_msgid_parse_unique(struct rq_slice id, struct rq_unique_parts *parts, rmq_error **err)
{
    char bytes[RQ_MSGID_MAX / 2];
    size_t n = to_bytes(id, bytes, err);
    if (n == 0) {
        return RMQ_ERR_INVALID;
    }
    memset(parts, 0, sizeof *parts);
    parts->ip_len = (uint8_t)(n - 12);
    memcpy(parts->ip, bytes, n - 12);
    parts->pid = rq_load_be16(bytes + n - 12);
    parts->process = rq_load_be32(bytes + n - 10);
    parts->month_ms = rq_load_be32(bytes + n - 6);
    parts->counter = rq_load_be16(bytes + n - 2);
    return RMQ_OK;
}
