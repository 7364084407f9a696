/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Signing of requests (see the header). */
#include "wire/sign.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/frame.h"

/* The fields in their binary form: 2 bytes length and name, 4 bytes length and value. */
static void add_fields(const struct rq_frame_spec *spec, struct rq_buf *out)
{
    bool first = true;
    if (spec->table) {
        rq_fields_encode(spec->table, spec->fields, RQ_SERIALIZE_BINARY, &first, out);
    }
    for (size_t i = 0; i < spec->extra_count; i++) {
        rq_ext_encode(spec->extra[i].name, spec->extra[i].value, RQ_SERIALIZE_BINARY, &first, out);
    }
}

static size_t list_fields(const struct rq_buf *plain, struct rq_ext fields[RQ_HEADER_MAX_EXT])
{
    size_t count = 0;
    const char *p = plain->data;
    const char *end = p + plain->len;
    while (p < end && count < RQ_HEADER_MAX_EXT) {
        struct rq_ext *field = &fields[count++];
        field->name = rq_slice(p + 2, rq_load_be16(p));
        p += 2 + field->name.n;
        field->value = rq_slice(p + 4, rq_load_be32(p));
        p += 4 + field->value.n;
    }
    return count;
}

static int by_name(const void *a, const void *b)
{
    const struct rq_ext *x = a;
    const struct rq_ext *y = b;
    return rq_slice_cmp(x->name, y->name);
}

static void add_pairs(const struct rq_buf *pairs, enum rq_serialize serialize, bool *first,
                      struct rq_buf *out)
{
    const char *p = pairs->data;
    const char *end = p + pairs->len;
    while (p < end) {
        const char *value = p + strlen(p) + 1;
        rq_ext_encode(rq_slice_str(p), rq_slice_str(value), serialize, first, out);
        p = value + strlen(value) + 1;
    }
}

void rq_sign_ext(const struct rq_frame_spec *spec, bool *first, struct rq_buf *out)
{
    struct rq_ext fields[RQ_HEADER_MAX_EXT];
    struct rq_buf plain, pairs;
    rq_buf_init(&plain, 0);
    rq_buf_init(&pairs, 0);
    add_fields(spec, &plain);
    rmq_status st = rq_buf_status(&plain);
    if (st == RMQ_OK) {
        size_t count = plain.len > 0 ? list_fields(&plain, fields) : 0;
        qsort(fields, count, sizeof fields[0], by_name);
        st = spec->signer->sign(spec->signer, fields, count, spec->signed_body, &pairs);
    }
    st = st == RMQ_OK ? rq_buf_status(&pairs) : st;
    if (st != RMQ_OK) {
        out->status = rq_buf_status(out) == RMQ_OK ? st : out->status;
    } else if (pairs.len > 0) {
        add_pairs(&pairs, spec->serialize, first, out);
    }
    rq_buf_free(&plain);
    rq_buf_free(&pairs);
}
