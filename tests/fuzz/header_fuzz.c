/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Headers: the first byte chooses the form, the rest is the header. What decodes is read through
 * every table of fields. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/command.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_bytes(void *user, struct rq_slice name, struct rq_slice value)
{
    size_t *sum = user;
    for (size_t i = 0; i < value.n; i++) {
        *sum += (unsigned char)value.p[i];
    }
    *sum += name.n;
}

static void read_through(const struct rq_fields *table, const struct rq_header *header, size_t *sum)
{
    void *fields = malloc(table->size);
    if (rq_fields_decode(table, header, fields, NULL) == RMQ_OK) {
        rq_fields_each(table, fields, count_bytes, sum);
    }
    free(fields);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    char *bytes = malloc(size);
    memcpy(bytes, data, size);
    char *exact = malloc(size - 1 ? size - 1 : 1);
    memcpy(exact, bytes + 1, size - 1);
    struct rq_header header;
    size_t sum = 0;
    if (rq_header_decode((enum rq_serialize)(bytes[0] & 1), exact, size - 1, &header, NULL) ==
        RMQ_OK) {
#define READ_(name, rows) read_through(&rq_tab_##name, &header, &sum);
        RQ_HEADERS(READ_)
#undef READ_
        read_through(&rq_tab_send, &header, &sum);
        read_through(&rq_tab_send_v2, &header, &sum);
        for (size_t i = 0; i < header.ext_count; i++) {
            count_bytes(&sum, header.ext[i].name, header.ext[i].value);
        }
        count_bytes(&sum, header.remark, header.remark);
    }
    free(exact);
    free(bytes);
    return sum == SIZE_MAX ? 1 : 0;
}
