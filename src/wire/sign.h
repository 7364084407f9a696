/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Signing of requests: the place where a signer sees what is about to be written, all extFields and
 * the body as they are on the wire, and adds fields of its own. Pure but for the signer. Any
 * thread. Counterpart: RPCHook.doBeforeRequest as AclClientRPCHook uses it.
 */
#ifndef RQ_WIRE_SIGN_H
#define RQ_WIRE_SIGN_H

#include "base/buf.h"
#include "base/slice.h"
#include "wire/header.h"

struct rq_frame_spec; /* wire/frame.h */

struct rq_signer {
    /* Appends "name NUL value NUL" for each field to add. fields are sorted by name, in the order
     * of a Java TreeMap; a null value is p == NULL. Any thread, several at a time. An error, NOMEM
     * say, ends the request. */
    rmq_status (*sign)(const struct rq_signer *signer, const struct rq_ext *fields, size_t count,
                       struct rq_slice body, struct rq_buf *out);
};

/* Writes the fields that the spec's signer adds, behind all others of the frame; first as in
 * rq_ext_encode. A failure is out's. */
void rq_sign_ext(const struct rq_frame_spec *spec, bool *first, struct rq_buf *out);

#endif
