/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Messages by key and by place (12, 33). Answers refer to the store's mapped files. Loop thread.
 * Counterpart: QueryMessageProcessor. */
#include "base/log.h"
#include "broker/broker.h"

#define QUERY_MAX 64

static void release_file(void *file)
{
    rq_mapped_file_release(file);
}

/* Takes the references. */
static void answer_refs(const struct rq_request *request, const struct rq_fields *table,
                        const void *fields, struct rq_store_ref *refs, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += refs[i].n;
    }
    struct rq_frame_spec spec = rq_answer_spec(&request->to, RQ_RESP_SUCCESS, table, fields);
    struct rq_out *out = rq_out_create(0);
    rmq_status st = out ? rq_frame_encode(&out->head, &spec, bytes, NULL) : RMQ_ERR_NOMEM;
    size_t given = 0;
    while (!st && given < count) {
        st = rq_out_add(out, refs[given].p, refs[given].n, release_file, refs[given].file);
        given += st == RMQ_OK;
    }
    for (size_t i = given; i < count; i++) {
        rq_store_ref_release(&refs[i]);
    }
    if (!st && !request->to.oneway) {
        (void)rq_conn_send(request->conn, out);
        return;
    }
    rq_out_destroy(out);
    if (st) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, rmq_status_text(st));
    }
}

void rq_process_view_message(const struct rq_request *request)
{
    struct rq_hdr_view_message header;
    struct rq_store_ref ref;
    if (!rq_request_decode(request, &rq_tab_view_message, &header)) {
        return;
    }
    if (rq_store_view(request->broker->store, header.offset, &ref)) {
        answer_refs(request, NULL, NULL, &ref, 1);
        return;
    }
    rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                   "can not find message by the offset, %lld", (long long)header.offset);
}

void rq_process_query_message(const struct rq_request *request)
{
    struct rq_hdr_query_message header;
    struct rq_hdr_query_message_response fields = {0};
    struct rq_store_ref refs[QUERY_MAX];
    if (!rq_request_decode(request, &rq_tab_query_message, &header)) {
        return;
    }
    int32_t most = header.unique_key_query ? request->broker->settings.broker.default_query_max_num
                                           : header.max_num;
    size_t max = most <= 0 ? 0 : most < QUERY_MAX ? (size_t)most : QUERY_MAX;
    size_t count =
        rq_store_query(request->broker->store, header.topic, header.key, header.begin_timestamp,
                       header.end_timestamp, max, refs, &fields.index_last_update_timestamp,
                       &fields.index_last_update_phyoffset);
    if (count > 0) {
        answer_refs(request, &rq_tab_query_message_response, &fields, refs, count);
        return;
    }
    rq_answer_failed(request->conn, &request->to, RQ_RESP_QUERY_NOT_FOUND,
                     "can not find message, maybe time range not correct",
                     &rq_tab_query_message_response, &fields);
}
