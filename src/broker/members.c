/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What the brokers of one name and their controller tell each other (905, 906, 907, 908, 1007,
 * 1008). This one is a master to which no slave is connected, so it answers what such a master
 * answers. Loop thread. Counterparts: AdminBrokerProcessor, HAService.getRuntimeInfo.
 */
#include "base/log.h"
#include "broker/broker.h"

/* 905: a name server says who has the smallest id of the group. Only a slave acts on it; a master
 * knows its own. */
void rq_process_min_broker_id(const struct rq_request *request)
{
    struct rq_hdr_min_broker_id_change header;
    if (!rq_request_decode(request, &rq_tab_min_broker_id_change, &header)) {
        return;
    }
    RQ_LOG(INFO, "smallest id of the broker group", "id=%lld addr=%.*s offline=%.*s",
           (long long)header.min_broker_id, RQ_TEXT(header.min_broker_addr),
           RQ_TEXT(header.offline_broker_addr));
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
}

/* 906: whoever says nothing of itself asks where the master is and what it had when it started. */
void rq_process_ha_info(const struct rq_request *request)
{
    const struct rmq_broker *broker = request->broker;
    struct rq_hdr_ha_info header;
    struct rq_hdr_ha_info answer = {0};
    if (!rq_request_decode(request, &rq_tab_ha_info, &header)) {
        return;
    }
    if (RQ_HAS(ha_info, &header, master_ha_address)) {
        rq_request_answer(request, RQ_RESP_SUCCESS, NULL); /* news for a slave */
        return;
    }
    if (broker->settings.broker.broker_id == 0) {
        answer.master_ha_address = rq_slice_str(broker->ha_addr);
        answer.master_address = rq_slice_str(broker->addr);
        RQ_SET(ha_info, &answer, master_flush_offset, broker->first_commit_log_offset);
    }
    rq_answer_fields(request->conn, &request->to, &rq_tab_ha_info, &answer);
}

/* 907 */
void rq_process_ha_status(const struct rq_request *request)
{
    struct rq_store_info info;
    struct rq_buf body;
    rq_store_info(request->broker->store, &info);
    rq_buf_init(&body, 0);
    rq_buf_addf(&body,
                "{\"haClientRuntimeInfo\":{\"lastReadTimestamp\":0,\"lastWriteTimestamp\":0,"
                "\"masterFlushOffset\":0,\"maxOffset\":0,\"transferredByteInSecond\":0},"
                "\"haConnectionInfo\":[],\"inSyncSlaveNums\":0,\"master\":true,"
                "\"masterCommitLogMaxOffset\":%lld}",
                (long long)info.max_commit_log_offset);
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

/* 908: only a slave keeps what its master has flushed. 1008: only a broker with a controller
 * changes its role. */
void rq_process_nothing_to_change(const struct rq_request *request)
{
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
}

/* 1007 */
void rq_process_epochs(const struct rq_request *request)
{
    rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, "this request only for controllerMode ");
}
