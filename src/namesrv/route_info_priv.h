/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tables of the name server that both halves of route_info share: the one that changes them and the
 * one that writes them out. */
#ifndef RQ_NAMESRV_ROUTE_INFO_PRIV_H
#define RQ_NAMESRV_ROUTE_INFO_PRIV_H

#include <stddef.h>
#include <stdint.h>

/* The queues of a topic on one broker. */
struct rq_live_queues {
    char *broker;
    int32_t read_queue_nums;
    int32_t write_queue_nums;
    int32_t perm;
    int32_t sys_flag;
};

struct rq_live_topic {
    struct rq_live_queues *queues;
    size_t count;
};

#endif
