/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What a client instance sends: requests with an answer, without one, answers to brokers; and the
 * error that an answer means (see instance.h). Counterpart: MQClientAPIImpl.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/instance_priv.h"

static void call_done(struct rq_call *call, rmq_status status, struct rq_in *answer)
{
    struct rq_request *request = RQ_CONTAINER_OF(call, struct rq_request, call);
    request->done(request, status, answer);
}

static void fail_early(struct rq_task *task)
{
    struct rq_request *request = RQ_CONTAINER_OF(task, struct rq_request, task);
    request->done(request, request->early, NULL);
}

static void post_failure(struct rq_instance *instance, struct rq_request *request,
                         rmq_status status)
{
    request->early = status;
    request->task.run = fail_early;
    (void)rq_loop_post(instance->loop, &request->task);
}

struct rq_frame_spec rq_instance_frame(const struct rq_instance *instance, int32_t code,
                                       const struct rq_fields *table, const void *fields)
{
    struct rq_frame_spec spec = rq_frame_request(instance->serialize, code, table, fields);
    spec.extra = instance->marks;
    spec.extra_count = instance->mark_count;
    spec.signer = instance->signer;
    return spec;
}

/* Sends a request made from extFields alone. */
static void send_fields(struct rq_instance *instance, struct rq_peer *peer,
                        struct rq_request *request, const struct rq_frame_spec *spec,
                        struct rq_slice body, int64_t timeout_ms)
{
    struct rq_out *out = peer ? rq_out_create(0) : NULL;
    if (!out) {
        post_failure(instance, request, peer ? RMQ_ERR_NOMEM : RMQ_ERR_NO_BROKER);
        return;
    }
    rmq_status st = rq_out_encode(out, spec, body, NULL);
    if (st != RMQ_OK) {
        rq_out_destroy(out);
        post_failure(instance, request, st);
        return;
    }
    request->call = (struct rq_call){.done = call_done};
    st = rq_peer_call(peer, &request->call, out, rq_deadline_ms(timeout_ms), RQ_WAIT);
    if (st != RMQ_OK) {
        post_failure(instance, request, st);
    }
}

void rq_instance_request(struct rq_instance *instance, struct rq_peer *peer,
                         struct rq_request *request, int code, const struct rq_fields *table,
                         const void *fields, struct rq_slice body, int64_t timeout_ms)
{
    struct rq_frame_spec spec = rq_instance_frame(instance, code, table, fields);
    send_fields(instance, peer, request, &spec, body, timeout_ms);
}

void rq_instance_oneway(struct rq_instance *instance, struct rq_peer *peer, int code,
                        const struct rq_fields *table, const void *fields, struct rq_slice body)
{
    struct rq_frame_spec spec = rq_instance_frame(instance, code, table, fields);
    spec.flag = RQ_FLAG_ONEWAY;
    struct rq_out *out = peer ? rq_out_make(&spec, body) : NULL;
    if (out) {
        (void)rq_peer_oneway(peer, out, rq_deadline_ms(RQ_API_TIMEOUT_MS), NULL, NULL);
    }
}

void rq_instance_answer(struct rq_instance *instance, struct rq_peer *peer, int32_t opaque,
                        int32_t flag, int code, const char *remark, struct rq_slice body)
{
    if (flag & RQ_FLAG_ONEWAY) {
        return;
    }
    struct rq_frame_spec spec = rq_frame_request(instance->serialize, code, NULL, NULL);
    spec.flag = RQ_FLAG_RESPONSE;
    spec.opaque = opaque;
    spec.remark = rq_slice_str(remark);
    struct rq_out *out = rq_out_make(&spec, body);
    if (out) {
        (void)rq_peer_send(peer, out);
    }
}

rmq_status rq_answer_error(rmq_status status, const struct rq_header *header, const char *addr,
                           const char *what, rmq_error **err)
{
    if (status != RMQ_OK || !header) {
        rmq_status st = status == RMQ_OK ? RMQ_ERR_INTERNAL : status;
        rq_error_set(err, st, "%s: broker %s: %s", what, addr, rmq_status_text(st));
        if (err) {
            rq_error_set_broker(*err, addr);
        }
        return st;
    }
    return rq_error_set_remote(err, header->code, addr, "%s: broker %s answered %d %s %.*s", what,
                               addr, header->code, rq_response_name(header->code),
                               (int)header->remark.n, header->remark.p ? header->remark.p : "");
}
