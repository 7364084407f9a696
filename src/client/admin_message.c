/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Looking at single messages. Counterpart: MQAdminImpl.viewMessage, queryMessage.
 */
#include <stdio.h>

#include "base/err.h"
#include "client/admin_priv.h"
#include "client/message.h"
#include "wire/msgid.h"

#define VIEW_BODY_MAX ((size_t)64 << 20)

rmq_status rmq_admin_view_message(rmq_admin *admin, const char *offset_msg_id, int64_t timeout_ms,
                                  const rmq_message_view **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, offset_msg_id && out, "offset message id, out",
                                   timeout_ms, &deadline, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_host host;
    int64_t offset = 0;
    st = rq_msgid_parse_offset(rq_slice_str(offset_msg_id), &host, &offset, err);
    if (st != RMQ_OK) {
        return st;
    }
    char addr[RQ_HOST_TEXT];
    (void)rq_host_text(&host, addr);
    struct rq_hdr_view_message fields = {.offset = offset};
    char what[RQ_MSGID_MAX + 32];
    (void)snprintf(what, sizeof what, "message %.56s", offset_msg_id);
    const struct rq_admin_question ask = {.code = RQ_REQ_VIEW_MESSAGE_BY_ID,
                                          .table = &rq_tab_view_message,
                                          .fields = &fields,
                                          .what = what,
                                          .not_found = RQ_RESP_SYSTEM_ERROR};
    struct rq_reply reply;
    st = rq_admin_ask(admin, addr, &ask, deadline, &reply, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_views *views = NULL;
    st = rq_views_create(reply.ref, reply.body, "", &views, err);
    if (st != RMQ_OK) {
        rq_reply_free(&reply);
        return st;
    }
    if (views->count == 0) {
        st = rq_error_set(err, RMQ_ERR_NOT_FOUND, "%s: the broker's answer is empty", what);
    } else {
        st = rq_view_expand(&views->items[0], VIEW_BODY_MAX, err);
    }
    if (st != RMQ_OK) {
        rq_views_release(views);
        return st;
    }
    *out = &views->items[0];
    return RMQ_OK;
}
