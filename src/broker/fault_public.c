/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* rmq_broker_fault_*: faults of requests, connections and the clock, asked for in the process. Any
 * thread. Those of the disk are in fault_disk.c. */
#include <rmq/broker.h>

#include "base/err.h"
#include "broker/broker.h"
#include "store/disk.h"

static rmq_status add(rmq_broker *broker, const struct rq_fault_rule *rule, rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    if (st) {
        return st;
    }
    if (rule->code < -1 || rule->times < -1 || rule->delay_ms < 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "fault rule: code %d, times %d, delay %lld ms",
                            rule->code, rule->times, (long long)rule->delay_ms);
    }
    st = rq_fault_add(&broker->fault, rule);
    return st ? rq_error_set(err, st, "fault rule: out of memory") : RMQ_OK;
}

rmq_status rmq_broker_fault_answer(rmq_broker *broker, int code, int times, int response_code,
                                   const char *remark, rmq_error **err)
{
    const struct rq_fault_rule rule = {.kind = RQ_FAULT_ANSWER,
                                       .code = code,
                                       .times = times,
                                       .response_code = response_code,
                                       .remark = remark};
    return add(broker, &rule, err);
}

rmq_status rmq_broker_fault_delay(rmq_broker *broker, int code, int times, int64_t delay_ms,
                                  rmq_error **err)
{
    const struct rq_fault_rule rule = {
        .kind = RQ_FAULT_DELAY, .code = code, .times = times, .delay_ms = delay_ms};
    return add(broker, &rule, err);
}

rmq_status rmq_broker_fault_drop(rmq_broker *broker, int code, int times, rmq_error **err)
{
    const struct rq_fault_rule rule = {.kind = RQ_FAULT_DROP, .code = code, .times = times};
    return add(broker, &rule, err);
}

rmq_status rmq_broker_fault_cut(rmq_broker *broker, int code, int times, rmq_error **err)
{
    const struct rq_fault_rule rule = {.kind = RQ_FAULT_CUT, .code = code, .times = times};
    return add(broker, &rule, err);
}

void rmq_broker_fault_clear(rmq_broker *broker)
{
    if (rq_broker_check(broker, NULL) == RMQ_OK) {
        rq_fault_clear(&broker->fault);
        atomic_store_explicit(&broker->fault.refused, 0, memory_order_relaxed);
        rq_fault_refuse_connections_for(&broker->fault, 0);
        rq_disk_set_clock_offset(rq_store_disk(broker->store), 0);
        rq_disk_clear(rq_store_disk(broker->store));
        rq_store_retry(broker->store);
        rq_store_pause_dispatch(broker->store, false);
    }
}

static void close_conn(struct rq_conn *conn, void *arg)
{
    (void)arg;
    rq_conn_close(conn, RMQ_ERR_CLOSED);
}

rmq_status rmq_broker_fault_refuse_connections(rmq_broker *broker, bool refuse, rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    if (st) {
        return st;
    }
    rq_fault_refuse(&broker->fault, RQ_REFUSE_CONNECTIONS, refuse);
    if (refuse) {
        rq_server_each(broker->server, close_conn, NULL);
    }
    return RMQ_OK;
}

rmq_status rmq_broker_fault_refuse_writes(rmq_broker *broker, bool refuse, rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    if (st) {
        return st;
    }
    rq_fault_refuse(&broker->fault, RQ_REFUSE_WRITES, refuse);
    return RMQ_OK;
}

rmq_status rmq_broker_fault_clock_offset(rmq_broker *broker, int64_t offset_ms, rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    if (st) {
        return st;
    }
    rq_disk_set_clock_offset(rq_store_disk(broker->store), offset_ms);
    rq_schedule_look(&broker->schedule);
    return RMQ_OK;
}
