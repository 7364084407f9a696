/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Property strings: what the reader finds is written and read again, and must be the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/properties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rq_slice props = rq_slice(data, size);
    struct rq_slice rest = props;
    struct rq_prop prop;
    struct rq_buf out;
    rq_buf_init(&out, 0);
    size_t count = 0;
    while (rq_props_next(&rest, &prop)) {
        rq_props_add(&out, 0, prop.name, prop.value);
        count++;
    }
    struct rq_slice again = rq_slice(out.data, out.len);
    rest = props;
    struct rq_prop other;
    while (rq_props_next(&again, &other)) {
        if (!rq_props_next(&rest, &prop) || !rq_slice_eq(prop.name, other.name) ||
            !rq_slice_eq(prop.value, other.value)) {
            abort();
        }
        count--;
    }
    if (count != 0) {
        abort();
    }
    rq_props_get(props, RQ_PROP_TAGS);
    rq_props_get_i64(props, RQ_PROP_DELAY, 0);
    rq_buf_free(&out);
    return 0;
}
