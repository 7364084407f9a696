/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Answers to sends, some of which wait for the disk. Counterpart:
 * SendMessageProcessor.handlePutMessageResult. */
#include "broker/send_answer.h"

#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/mem.h"
#include "broker/put.h"
#include "wire/msgid.h"

struct answer {
    struct rq_slice msg_id;
    struct rq_slice unique_key;
    struct rq_slice recall_handle;
    int32_t queue_id;
    int64_t queue_offset;
    const char *region;
    bool trace_on;
    bool code_only;
};

/* An answer that waits for the flush: owns its texts. */
struct waiting {
    struct rq_store_waiter waiter;
    struct rmq_broker *broker;
    struct rq_conn *conn; /* a reference */
    struct rq_reply_to to;
    struct answer answer;
    char text[];
};

static void send_stored(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                        const char *remark, const struct answer *answer)
{
    if (answer->code_only) {
        rq_answer_code(conn, to, code, remark);
        return;
    }
    struct rq_hdr_send_response fields = {
        .msg_id = answer->msg_id,
        .queue_id = answer->queue_id,
        .queue_offset = answer->queue_offset,
        .transaction_id = answer->unique_key,
        .recall_handle = answer->recall_handle.n ? answer->recall_handle : rq_slice(NULL, 0),
        .msg_region = rq_slice_str(answer->region),
        .trace_on = answer->trace_on ? rq_slice("true", 4) : rq_slice("false", 5),
    };
    rq_answer_failed(conn, to, code, remark, &rq_tab_send_response, &fields);
}

static void flushed(struct rq_store_waiter *waiter, enum rq_put_status st)
{
    struct waiting *waiting = RQ_CONTAINER_OF(waiter, struct waiting, waiter);
    struct rq_store_put put = {.status = st};
    const char *remark;
    int32_t code = rq_put_response_code(&put, &remark);
    waiting->to.lazy = waiter->more; /* the flush thread goes on to the next sync meanwhile */
    char words[RQ_PUT_REASON_MAX + 64] = "";
    if (code != RQ_RESP_SUCCESS && code != RQ_RESP_FLUSH_DISK_TIMEOUT) {
        (void)rq_store_refuses(waiting->broker->store, put.reason);
        (void)snprintf(words, sizeof words, "%s%s", remark ? remark : "", put.reason);
    }
    /* Its place tells the client that the message is in the log, whatever the code is. */
    send_stored(waiting->conn, &waiting->to, code, words[0] ? words : NULL, &waiting->answer);
    rq_conn_release(waiting->conn);
    rq_free(waiting);
}

/* true: the answer will come from the flush thread. */
static bool wait_for_disk(const struct rq_request *request, const struct rq_store_put *put,
                          const struct answer *answer)
{
    struct rmq_broker *broker = request->broker;
    if (broker->settings.store.flush_disk_type != RQ_FLUSH_SYNC) {
        return false;
    }
    struct waiting *waiting = rq_alloc(sizeof *waiting + answer->msg_id.n + answer->unique_key.n +
                                       answer->recall_handle.n);
    if (!waiting) {
        rq_request_answer(request, RQ_RESP_FLUSH_DISK_TIMEOUT, "out of memory");
        return true;
    }
    waiting->waiter = (struct rq_store_waiter){.done = flushed};
    waiting->broker = broker;
    waiting->conn = rq_conn_retain(request->conn);
    waiting->to = request->to;
    waiting->answer = *answer;
    if (answer->msg_id.n) {
        memcpy(waiting->text, answer->msg_id.p, answer->msg_id.n);
    }
    if (answer->unique_key.n) {
        memcpy(waiting->text + answer->msg_id.n, answer->unique_key.p, answer->unique_key.n);
    }
    char *handle = waiting->text + answer->msg_id.n + answer->unique_key.n;
    if (answer->recall_handle.n) {
        memcpy(handle, answer->recall_handle.p, answer->recall_handle.n);
    }
    waiting->answer.recall_handle = rq_slice(handle, answer->recall_handle.n);
    waiting->answer.msg_id = rq_slice(waiting->text, answer->msg_id.n);
    waiting->answer.unique_key = rq_slice(
        answer->unique_key.p ? waiting->text + answer->msg_id.n : NULL, answer->unique_key.n);
    if (!rq_store_park(broker->store, put->next_commit_log_offset, &waiting->waiter)) {
        flushed(&waiting->waiter, RQ_PUT_OK);
    }
    return true;
}

static void finish(const struct rq_request *request, const struct rq_store_put *put,
                   struct answer *answer)
{
    const char *remark;
    int32_t code = rq_put_response_code(put, &remark);
    if (code != RQ_RESP_SUCCESS) {
        rq_answer_text(request->conn, &request->to, code, "%s%s", remark ? remark : "",
                       put->reason);
        return;
    }
    if (request->to.oneway) {
        return;
    }
    answer->queue_offset = put->queue_offset;
    answer->region = request->broker->settings.broker.region_id;
    answer->trace_on = request->broker->settings.broker.trace_on;
    if (!wait_for_disk(request, put, answer)) {
        send_stored(request->conn, &request->to, code, NULL, answer);
    }
}

void rq_send_answer_one(const struct rq_request *request, const struct rq_store_put *put,
                        int32_t queue_id, struct rq_slice unique_key, struct rq_slice recall_handle)
{
    char id[RQ_MSGID_MAX + 1];
    size_t n = put->status == RQ_PUT_OK
                   ? rq_msgid_of_offset(&request->broker->store_host, put->commit_log_offset, id)
                   : 0;
    struct answer answer = {.msg_id = rq_slice(id, n),
                            .unique_key = unique_key,
                            .recall_handle = recall_handle,
                            .queue_id = queue_id};
    finish(request, put, &answer);
}

void rq_send_answer_batch(const struct rq_request *request, const struct rq_store_put *put,
                          int32_t queue_id, struct rq_slice unique_key, const int64_t *offsets,
                          size_t count)
{
    struct rq_buf ids;
    char id[RQ_MSGID_MAX + 1];
    rq_buf_init(&ids, 0);
    for (size_t i = 0; put->status == RQ_PUT_OK && i < count; i++) {
        size_t n = rq_msgid_of_offset(&request->broker->store_host, offsets[i], id);
        rq_buf_add_str(&ids, i ? "," : "");
        rq_buf_add(&ids, id, n);
    }
    struct answer answer = {
        .msg_id = rq_slice(ids.data, ids.len), .unique_key = unique_key, .queue_id = queue_id};
    if (rq_buf_status(&ids)) {
        answer.msg_id = rq_slice("", 0);
    }
    finish(request, put, &answer);
    rq_buf_free(&ids);
}

void rq_put_answer_code(const struct rq_request *request, const struct rq_store_put *put)
{
    struct answer answer = {.code_only = true};
    finish(request, put, &answer);
}
