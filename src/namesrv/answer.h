/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Answers of a server to requests, shared by name server and broker: nothing is sent for a one-way
 * request. Any thread that holds the connection. Counterpart: NettyRemotingAbstract.writeResponse.
 */
#ifndef RQ_NAMESRV_ANSWER_H
#define RQ_NAMESRV_ANSWER_H

#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "net/conn.h"
#include "wire/command.h"
#include "wire/frame.h"

/* What an answer needs of its request; survives the frame. */
struct rq_reply_to {
    enum rq_serialize serialize;
    int32_t opaque;
    bool oneway;
    bool lazy; /* set by who answers several at once: then the loop writes, all together */
};

static inline struct rq_reply_to rq_reply_to(const struct rq_header *request)
{
    return (struct rq_reply_to){.serialize = request->serialize,
                                .opaque = request->opaque,
                                .oneway = rq_header_is_oneway(request)};
}

/* The start of an answer's frame. */
struct rq_frame_spec rq_answer_spec(const struct rq_reply_to *to, int32_t code,
                                    const struct rq_fields *table, const void *fields);

/* Code and a remark, which may be NULL. */
void rq_answer_code(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                    const char *remark);
void rq_answer_text(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                    const char *fmt, ...) RMQ_PRINTF(4, 5);

/* Success with header fields. */
void rq_answer_fields(struct rq_conn *conn, const struct rq_reply_to *to,
                      const struct rq_fields *table, const void *fields);

/* A failure with header fields. */
void rq_answer_failed(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                      const char *remark, const struct rq_fields *table, const void *fields);

/* Success with a body, which is copied, or the buffer's failure. The buffer is freed. table may be
 * NULL. */
void rq_answer_body(struct rq_conn *conn, const struct rq_reply_to *to,
                    const struct rq_fields *table, const void *fields, struct rq_buf *body);

/* " request type N not supported". */
void rq_answer_unsupported(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code);

/* Decodes header fields, or answers the error and returns false. */
bool rq_answer_decode(struct rq_conn *conn, const struct rq_header *request,
                      const struct rq_fields *table, void *fields);

#endif
