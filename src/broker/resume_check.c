/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A transaction that was given up is asked about again (323): its message goes back from
 * TRANS_CHECK_MAX_TIME_TOPIC to the half topic, with no question asked yet. Loop thread.
 * Counterpart: AdminBrokerProcessor.resumeCheckHalfMessage.
 */
#include "broker/broker.h"
#include "wire/msgid.h"
#include "wire/names.h"
#include "wire/properties.h"

#define FAILED "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."

/* The message that an offset id names, if it was given up. Release ref. */
static bool find(const struct rq_request *request, struct rq_slice id, struct rq_store_ref *ref,
                 struct rq_msg *msg)
{
    struct rq_host host;
    int64_t offset = 0;
    if (rq_msgid_parse_offset(id, &host, &offset, NULL) ||
        !rq_store_view(request->broker->store, offset, ref)) {
        return false;
    }
    struct rq_cursor cursor = rq_cursor(ref->p, ref->n);
    if (rq_msg_decode(&cursor, msg, NULL) || !rq_slice_eq_str(msg->topic, RQ_TOPIC_CHECK_MAX) ||
        rq_props_get(msg->properties, RQ_PROP_REAL_TOPIC).n == 0) {
        rq_store_ref_release(ref);
        return false;
    }
    return true;
}

static bool put_back(const struct rq_request *request, struct rq_msg *msg)
{
    static const char *const replaced[] = {RQ_PROP_TRANSACTION_CHECK_TIMES};
    struct rq_slice unique_key = rq_props_get(msg->properties, RQ_PROP_UNIQ_KEY);
    struct rq_store_put put = {.status = RQ_PUT_UNKNOWN_ERROR};
    struct rq_buf props;
    rq_buf_init(&props, 0);
    rq_props_copy_without(&props, 0, msg->properties, replaced, 1);
    rq_props_add_i64(&props, 0, RQ_PROP_TRANSACTION_CHECK_TIMES, 0);
    if (!rq_buf_status(&props)) {
        msg->topic = rq_slice_str(RQ_TOPIC_HALF);
        msg->queue_id = 0;
        msg->properties = rq_slice(props.data, props.len);
        msg->body.p = msg->body.p ? msg->body.p : "";
        (void)rq_store_append_own(request->broker->store, msg, &put);
    }
    if (put.status == RQ_PUT_OK) { /* an end that comes yet, by the first offsets, counts for it */
        rq_transaction_moved(&request->broker->transactions, unique_key, put.queue_offset);
        rq_broker_dispatch_soon(request);
    }
    rq_buf_free(&props);
    return put.status == RQ_PUT_OK;
}

void rq_process_resume_check(const struct rq_request *request)
{
    struct rq_hdr_resume_check header;
    struct rq_store_ref ref;
    struct rq_msg msg;
    if (!rq_request_decode(request, &rq_tab_resume_check, &header)) {
        return;
    }
    if (!find(request, header.msg_id, &ref, &msg)) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, FAILED);
        return;
    }
    bool done = put_back(request, &msg);
    rq_request_answer(request, done ? RQ_RESP_SUCCESS : RQ_RESP_SYSTEM_ERROR, done ? NULL : FAILED);
    rq_store_ref_release(&ref);
}
