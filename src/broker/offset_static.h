/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Questions about offsets of static topics (14, 15, 29 … 32): each is put to the physical queues
 * that the logical one consists of, here or on other brokers. On the thread of the request, which
 * goes on as for an ordinary topic when false is returned. Counterparts: ConsumerManageProcessor,
 * AdminBrokerProcessor, rewriteRequestForStaticTopic and its like.
 */
#ifndef RQ_BROKER_OFFSET_STATIC_H
#define RQ_BROKER_OFFSET_STATIC_H

#include <stdbool.h>

#include "broker/broker.h"

/* true: answered, or the answer will come. false: the header names a physical queue now, and a
 * physical offset. */
bool rq_static_query_offset(const struct rq_request *request,
                            struct rq_hdr_query_consumer_offset *header);
bool rq_static_update_offset(const struct rq_request *request,
                             struct rq_hdr_update_consumer_offset *header);

/* true: answered, or the answer will come. */
bool rq_static_search_offset(const struct rq_request *request,
                             const struct rq_hdr_search_offset *header);
bool rq_static_queue_offset(const struct rq_request *request,
                            const struct rq_hdr_queue *header); /* 30, 31, 32 */

/* The boundary of a search: the last offset that is not later, instead of the first not earlier. */
bool rq_search_is_upper(const struct rq_hdr_search_offset *header);

#endif
