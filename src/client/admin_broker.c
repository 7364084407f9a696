/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Questions of rmq_admin to one broker: its settings and figures. Counterparts:
 * DefaultMQAdminExt.getBrokerConfig, updateBrokerConfig, fetchBrokerRuntimeStats.
 */
#include "base/err.h"
#include "client/admin_priv.h"

/* Asks, and hands the answer's body out as text. */
static rmq_status ask_text(rmq_admin *admin, const char *broker_addr, int code, const char *what,
                           int64_t timeout_ms, char **out, rmq_error **err)
{
    int64_t deadline;
    struct rq_reply reply;
    rmq_status st = rq_admin_begin(admin, broker_addr && out, "broker address, out", timeout_ms,
                                   &deadline, err);
    if (st == RMQ_OK) {
        const struct rq_admin_question ask = {.code = code, .what = what};
        st = rq_admin_ask(admin, broker_addr, &ask, deadline, &reply, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rq_buf_add_slice(&text, reply.body);
    rq_reply_free(&reply);
    return rq_admin_hand_out(&text, out, what, err);
}

rmq_status rmq_admin_broker_config(rmq_admin *admin, const char *broker_addr, int64_t timeout_ms,
                                   char **out, rmq_error **err)
{
    return ask_text(admin, broker_addr, RQ_REQ_GET_BROKER_CONFIG, "settings of a broker",
                    timeout_ms, out, err);
}

rmq_status rmq_admin_broker_runtime_info(rmq_admin *admin, const char *broker_addr,
                                         int64_t timeout_ms, char **out, rmq_error **err)
{
    return ask_text(admin, broker_addr, RQ_REQ_GET_BROKER_RUNTIME_INFO, "figures of a broker",
                    timeout_ms, out, err);
}

rmq_status rmq_admin_update_broker_config(rmq_admin *admin, const char *broker_addr,
                                          const char *properties, int64_t timeout_ms,
                                          rmq_error **err)
{
    int64_t deadline;
    struct rq_reply reply;
    rmq_status st = rq_admin_begin(admin, broker_addr && properties, "broker address, properties",
                                   timeout_ms, &deadline, err);
    if (st == RMQ_OK) {
        const struct rq_admin_question ask = {.code = RQ_REQ_UPDATE_BROKER_CONFIG,
                                              .body = rq_slice_str(properties),
                                              .what = "change of a broker's settings"};
        st = rq_admin_ask(admin, broker_addr, &ask, deadline, &reply, err);
    }
    if (st == RMQ_OK) {
        rq_reply_free(&reply);
    }
    return st;
}
