/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Public switches for faults of the disk below a broker. Any thread. */
#include <rmq/broker.h>

#include "base/err.h"
#include "broker/broker.h"
#include "store/disk.h"

static const enum rq_disk_op ops[] = {
    [RMQ_DISK_WRITE] = RQ_DISK_WRITE,
    [RMQ_DISK_SYNC] = RQ_DISK_SYNC,
    [RMQ_DISK_MAP] = RQ_DISK_MAP,
    [RMQ_DISK_ALLOCATE] = RQ_DISK_ALLOCATE,
};

rmq_status rmq_broker_fault_disk(rmq_broker *broker, rmq_disk_op op, int nth, int times,
                                 int error_number, rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    if (st) {
        return st;
    }
    if ((int)op < 0 || (size_t)op >= sizeof ops / sizeof ops[0] || nth < 1 || times < -1 ||
        (times != 0 && error_number <= 0)) {
        return rq_error_set(err, RMQ_ERR_INVALID, "disk fault: op %d, nth %d, times %d, errno %d",
                            (int)op, nth, times, error_number);
    }
    rq_disk_fail(rq_store_disk(broker->store), ops[op], (uint64_t)nth - 1, times, error_number);
    if (times == 0) {
        rq_store_retry(broker->store);
    }
    return RMQ_OK;
}

rmq_status rmq_broker_fault_disk_used(rmq_broker *broker, int percent, rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    if (st) {
        return st;
    }
    if (percent < -1 || percent > 100) {
        return rq_error_set(err, RMQ_ERR_INVALID, "disk in use: %d percent", percent);
    }
    rq_disk_pretend_used(rq_store_disk(broker->store), percent);
    (void)rq_store_clean(broker->store, false);
    return RMQ_OK;
}

rmq_status rmq_broker_fault_tear(rmq_broker *broker, int nth, size_t bytes, rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    if (st) {
        return st;
    }
    if (nth < 1) {
        return rq_error_set(err, RMQ_ERR_INVALID, "torn write: nth %d", nth);
    }
    rq_disk_tear(rq_store_disk(broker->store), (uint64_t)nth - 1, bytes);
    return RMQ_OK;
}

rmq_status rmq_broker_fault_pause_dispatch(rmq_broker *broker, bool paused, rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    if (st) {
        return st;
    }
    rq_store_pause_dispatch(broker->store, paused);
    return RMQ_OK;
}

rmq_status rmq_broker_fault_record_power(rmq_broker *broker, rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    return st ? st : rq_store_record_power(broker->store, err);
}

rmq_status rmq_broker_fault_power_cut(rmq_broker *broker, const char *dir, uint64_t seed,
                                      rmq_error **err)
{
    rmq_status st = rq_broker_check(broker, err);
    if (st || !dir) {
        return st ? st : rq_error_set(err, RMQ_ERR_INVALID, "directory must be given");
    }
    return rq_disk_image(rq_store_disk(broker->store), dir, seed, err);
}
