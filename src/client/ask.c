/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Blocking questions (see the header): the asynchronous ones, with a thread that sleeps. */
#include "client/ask.h"

#include <stdio.h>

#include "base/err.h"
#include "base/time.h"
#include "client/namesrv.h"
#include "client/waiter.h"

struct asked {
    struct rq_waiter waiter;
    struct rq_reply *reply;
    rmq_error *err;
    rmq_status status;
};

static void namesrv_answered(void *user, struct rq_in *answer, const rmq_error *err)
{
    struct asked *asked = user;
    if (err) {
        asked->err = rq_error_copy(err);
        asked->status = rmq_error_status(err);
    } else {
        struct rq_reply *reply = asked->reply;
        reply->ref = rq_in_keep(answer);
        reply->body = answer->body;
        reply->header = *answer->header;
        asked->status = reply->ref ? RMQ_OK : RMQ_ERR_NOMEM;
    }
    rq_waiter_done(&asked->waiter);
}

/* An answer that is not SUCCESS becomes an error, and is freed. */
static rmq_status check_answer(struct rq_reply *reply, const char *addr, const char *what,
                               int32_t not_found, rmq_error **err)
{
    if (reply->header.code == RQ_RESP_SUCCESS) {
        return RMQ_OK;
    }
    rmq_status st = rq_answer_error(RMQ_OK, &reply->header, addr, what, err);
    if (not_found != 0 && reply->header.code == not_found) {
        st = rq_error_set(err, RMQ_ERR_NOT_FOUND, "%s: not known to %s", what, addr);
    }
    rq_reply_free(reply);
    *reply = (struct rq_reply){0};
    return st;
}

rmq_status rq_ask_namesrv(struct rq_instance *instance, const struct rq_frame_spec *spec,
                          const char *what, int64_t deadline_ms, struct rq_reply *reply,
                          rmq_error **err)
{
    struct rq_namesrv *servers = rq_instance_namesrv(instance);
    struct asked asked = {.reply = reply};
    *reply = (struct rq_reply){0};
    rq_waiter_init(&asked.waiter);
    rmq_status st =
        rq_namesrv_ask(servers, spec, rq_left_ms(deadline_ms), namesrv_answered, &asked);
    if (st != RMQ_OK) {
        return rq_error_set(err, st, "%s: %s", what, rmq_status_text(st));
    }
    rq_waiter_wait(&asked.waiter);
    if (asked.status == RMQ_OK) {
        int32_t not_found =
            spec->code == RQ_REQ_GET_ROUTEINFO_BY_TOPIC ? RQ_RESP_TOPIC_NOT_EXIST : 0;
        return check_answer(reply, rq_namesrv_list(servers), what, not_found, err);
    }
    if (err && asked.err) {
        rmq_error_destroy(*err);
        *err = asked.err;
        return asked.status;
    }
    rmq_error_destroy(asked.err);
    return rq_error_set(err, asked.status, "%s: %s", what, rmq_status_text(asked.status));
}

static rmq_status call_failed(struct rq_peer *peer, rmq_status st, const char *what,
                              rmq_error **err)
{
    rmq_error *why = NULL;
    if (st == RMQ_ERR_CONNECT || st == RMQ_ERR_RESOLVE) {
        (void)rq_peer_error(peer, st, &why);
    }
    rq_error_set(err, st, "%s: broker %s: %s", what, rq_peer_address(peer),
                 why ? rmq_error_message(why) : rmq_status_text(st));
    if (err) {
        rq_error_set_broker(*err, rq_peer_address(peer));
    }
    rmq_error_destroy(why);
    return st;
}

rmq_status rq_ask_broker(struct rq_instance *instance, const char *addr,
                         const struct rq_frame_spec *spec, struct rq_slice body, const char *what,
                         int32_t not_found, int64_t deadline_ms, struct rq_reply *reply,
                         rmq_error **err)
{
    *reply = (struct rq_reply){0};
    struct rq_peer *peer = NULL;
    rmq_status st = rq_peer_get(rq_instance_peers(instance), addr, &peer, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_out *out = rq_out_create(0);
    if (!out) {
        rq_peer_put(peer);
        return rq_error_set(err, RMQ_ERR_NOMEM, "%s", what);
    }
    st = rq_out_encode(out, spec, body, err);
    if (st != RMQ_OK) {
        rq_out_destroy(out);
    } else {
        st = rq_peer_call_reply(peer, out, deadline_ms, RQ_WAIT, reply);
        st = st == RMQ_OK ? check_answer(reply, addr, what, not_found, err)
                          : call_failed(peer, st, what, err);
    }
    rq_peer_put(peer);
    return st;
}
