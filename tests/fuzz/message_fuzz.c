/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Stored messages, back to back: each that decodes is encoded to the same bytes; its body is
 * expanded within a bound. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/compress.h"
#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_OUT 65536

static void expand(const struct rq_msg *msg)
{
    enum rq_compression type;
    char *plain = NULL;
    size_t n = 0;
    if ((msg->sys_flag & RQ_SYS_COMPRESSED) &&
        rq_compression_of_sys_flag(msg->sys_flag, &type, NULL) == RMQ_OK &&
        rq_decompress(type, msg->body.p, msg->body.n, MAX_OUT, &plain, &n, NULL) == RMQ_OK) {
        if (n > MAX_OUT || plain[n] != '\0') {
            abort();
        }
        rq_free(plain);
    }
}

/* A short topic in a message of version 2 is written in version 1: only then may the bytes
 * differ. */
static void encode_again(const struct rq_msg *msg, const char *start)
{
    if (msg->magic == RQ_MSG_MAGIC_V2 && msg->topic.n <= RQ_MSG_TOPIC_MAX_V1) {
        return;
    }
    size_t n = rq_msg_encoded_size(msg);
    char *out = malloc(n ? n : 1);
    if (n != (size_t)msg->total_size) {
        abort();
    }
    rq_msg_encode(msg, n, out);
    if (memcmp(out, start, n) != 0) {
        abort();
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rq_cursor c = rq_cursor(data, size);
    struct rq_msg msg;
    const char *start = c.p;
    while (rq_cursor_left(&c) > 0 && rq_msg_decode(&c, &msg, NULL) == RMQ_OK) {
        encode_again(&msg, start);
        expand(&msg);
        rq_msg_crc_ok(&msg);
        start = c.p;
    }
    return 0;
}
