/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Making and sending of answers. Counterpart: NettyRemotingAbstract.writeResponse. */
#include "namesrv/answer.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"

#define REMARK_MAX 512

struct rq_frame_spec rq_answer_spec(const struct rq_reply_to *to, int32_t code,
                                    const struct rq_fields *table, const void *fields)
{
    return (struct rq_frame_spec){.serialize = to->serialize,
                                  .code = code,
                                  .flag = RQ_FLAG_RESPONSE,
                                  .opaque = to->opaque,
                                  .version = RQ_VERSION_OURS,
                                  .language = RQ_LANGUAGE_OURS,
                                  .table = table,
                                  .fields = fields};
}

static void send_spec(struct rq_conn *conn, const struct rq_reply_to *to,
                      const struct rq_frame_spec *spec, struct rq_slice body)
{
    struct rq_out *out = rq_out_create(body.n + REMARK_MAX);
    rmq_error *err = NULL;
    rmq_status st = out ? rq_frame_encode(&out->head, spec, body.n, &err) : RMQ_ERR_NOMEM;
    if (!st) {
        rq_buf_add(&out->head, body.p, body.n);
        st = rq_buf_status(&out->head);
    }
    if (st) {
        RQ_LOG(WARN, "an answer could not be made, the connection is closed",
               "remote=%s code=%d status=%s detail=%s", rq_conn_remote(conn), spec->code,
               rmq_status_name(st), err ? rmq_error_message(err) : "-");
        rq_out_destroy(out);
        rq_conn_close(conn, st);
    } else {
        out->lazy = to->lazy;
        (void)rq_conn_send(conn, out);
    }
    rmq_error_destroy(err);
}

void rq_answer_code(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                    const char *remark)
{
    if (to->oneway) {
        return;
    }
    struct rq_frame_spec spec = rq_answer_spec(to, code, NULL, NULL);
    spec.remark = rq_slice_str(remark);
    send_spec(conn, to, &spec, rq_slice(NULL, 0));
}

void rq_answer_text(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                    const char *fmt, ...)
{
    char remark[REMARK_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(remark, sizeof remark, fmt, args);
    va_end(args);
    rq_answer_code(conn, to, code, remark);
}

void rq_answer_fields(struct rq_conn *conn, const struct rq_reply_to *to,
                      const struct rq_fields *table, const void *fields)
{
    if (!to->oneway) {
        struct rq_frame_spec spec = rq_answer_spec(to, RQ_RESP_SUCCESS, table, fields);
        send_spec(conn, to, &spec, rq_slice(NULL, 0));
    }
}

void rq_answer_failed(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                      const char *remark, const struct rq_fields *table, const void *fields)
{
    if (!to->oneway) {
        struct rq_frame_spec spec = rq_answer_spec(to, code, table, fields);
        spec.remark = rq_slice_str(remark);
        send_spec(conn, to, &spec, rq_slice(NULL, 0));
    }
}

void rq_answer_body(struct rq_conn *conn, const struct rq_reply_to *to,
                    const struct rq_fields *table, const void *fields, struct rq_buf *body)
{
    if (rq_buf_status(body)) {
        rq_answer_code(conn, to, RQ_RESP_SYSTEM_ERROR, rmq_status_text(rq_buf_status(body)));
    } else if (!to->oneway) {
        struct rq_frame_spec spec = rq_answer_spec(to, RQ_RESP_SUCCESS, table, fields);
        send_spec(conn, to, &spec, rq_slice(body->data, body->len));
    }
    rq_buf_free(body);
}

void rq_answer_unsupported(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code)
{
    rq_answer_text(conn, to, RQ_RESP_REQUEST_CODE_NOT_SUPPORTED, " request type %d not supported",
                   code);
}

bool rq_answer_decode(struct rq_conn *conn, const struct rq_header *request,
                      const struct rq_fields *table, void *fields)
{
    rmq_error *err = NULL;
    if (rq_fields_decode(table, request, fields, &err) == RMQ_OK) {
        return true;
    }
    struct rq_reply_to to = rq_reply_to(request);
    rq_answer_code(conn, &to, RQ_RESP_SYSTEM_ERROR, rmq_error_message(err));
    rmq_error_destroy(err);
    return false;
}
