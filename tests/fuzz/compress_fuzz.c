/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Compressed bytes: the first byte chooses the type, the rest is expanded within a bound; and the
 * compressed registration body. */
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/bodies.h"
#include "wire/compress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_OUT 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    enum rq_compression type = (enum rq_compression)(RQ_COMPRESSION_LZ4 + data[0] % 3);
    char *plain = NULL;
    size_t n = 0;
    if (rq_decompress(type, data + 1, size - 1, MAX_OUT, &plain, &n, NULL) == RMQ_OK) {
        if (n > MAX_OUT || plain[n] != '\0') {
            abort();
        }
        rq_free(plain);
    }
    struct rq_topic_table table;
    if (rq_register_body_parse(rq_slice(data + 1, size - 1), true, 479, MAX_OUT, &table, NULL) ==
        RMQ_OK) {
        rq_topic_table_clear(&table);
    }
    return 0;
}
