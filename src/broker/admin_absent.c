/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What administrators may ask a classic master about parts that it runs without: RocksDB (354,
 * 355), the pop store in it (200056), users and rights (3001 … 3010). The answers are those of a
 * Java broker whose configuration has none of them. Loop thread. Counterpart: AdminBrokerProcessor.
 */
#include "base/log.h"
#include "broker/broker.h"

/* The Java broker looks in the background and writes what it found, here that there is nothing, to
 * its log. */
void rq_process_rocksdb_progress(const struct rq_request *request)
{
    static const char in_progress[] = "{\"checkStatus\":2}";
    struct rq_buf body;
    RQ_LOG(INFO, "queues are not written to RocksDB: there is no progress to check", "remote=%s",
           rq_conn_remote(request->conn));
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, in_progress);
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

/* The tables are JSON files already. */
void rq_process_rocksdb_export(const struct rq_request *request)
{
    rq_request_answer(request, RQ_RESP_SUCCESS, "export done.");
}

/* Checkpoints of pops are in the revive topic, where this would move them. */
void rq_process_pop_rollback(const struct rq_request *request)
{
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
}

static bool names_user(int32_t code)
{
    return code == RQ_REQ_AUTH_CREATE_USER || code == RQ_REQ_AUTH_UPDATE_USER ||
           code == RQ_REQ_AUTH_GET_USER;
}

void rq_process_users_and_rights(const struct rq_request *request)
{
    struct rq_hdr_user header;
    if (!rq_request_decode(request, &rq_tab_user, &header)) {
        return;
    }
    if (names_user(request->in->header->code) && header.username.n == 0) {
        rq_request_answer(request, RQ_RESP_INVALID_PARAMETER, "The username is blank");
        return;
    }
    rq_request_answer(request, RQ_RESP_SYSTEM_ERROR,
                      "The authenticationMetadataProvider is not configured");
}
