/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* One record of the commit log: what is taken for good has all its parts inside, and is a
 * message. */
#include <stdint.h>
#include <stdlib.h>

#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(const uint8_t *data, size_t size, struct rq_slice part)
{
    const char *from = (const char *)data;
    if (part.n > 0 && (part.p < from || part.n > size || part.p + part.n > from + size)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rq_record record;
    struct rq_record_properties properties;
    struct rq_slice key;
    if (rq_record_read((const char *)data, size, true, &record) == RQ_RECORD_GOOD &&
        rq_record_read((const char *)data, size, false, &record) != RQ_RECORD_GOOD) {
        abort();
    }
    if (rq_record_read((const char *)data, size, false, &record) == RQ_RECORD_GOOD) {
        inside(data, size, record.body);
        inside(data, size, record.topic);
        inside(data, size, record.properties);
        rq_record_properties(record.properties, &properties);
        inside(data, size, properties.tags);
        inside(data, size, properties.keys);
        inside(data, size, properties.unique_key);
        struct rq_slice keys = properties.keys;
        while (rq_record_next_key(&keys, &key)) {
            inside(data, size, key);
        }
    }
    struct rq_slice all = rq_slice(data, size);
    rq_record_properties(all, &properties);
    return 0;
}
