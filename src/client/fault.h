/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Which queue a send takes, and what is remembered of brokers that were slow or dead. Pure
 * functions over a route snapshot and the health records of its brokers; time is passed in. Any
 * thread. Counterparts: MQFaultStrategy, LatencyFaultToleranceImpl, TopicPublishInfo.
 */
#ifndef RQ_CLIENT_FAULT_H
#define RQ_CLIENT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/route.h"

#define RQ_FAULT_LATENCY_MS 10000 /* what a failed attempt counts as */

/* ms for which a broker that took latency_ms is passed over. */
int64_t rq_fault_pause_ms(int64_t latency_ms);

/* An attempt ended: answered (whatever the code) after latency_ms, or not at all. */
void rq_fault_answered(struct rq_broker_health *health, int64_t now_ms, int64_t latency_ms);
void rq_fault_failed(struct rq_broker_health *health, int64_t now_ms);

/* The broker answered with a code that says "not now": passed over for a while, but known to be
 * alive. */
void rq_fault_refused(struct rq_broker_health *health, int64_t now_ms);

/* A probe or any other request was answered. Returns whether it was suspect before. */
bool rq_fault_alive(struct rq_broker_health *health);

bool rq_fault_usable(const struct rq_broker_health *health, int64_t now_ms);

/* The queue to send to: round robin from index over the publish queues. Preferred in this order:
 * usable and not of broker `avoid` (the last failed one, or NULL), not suspect and not avoid, not
 * avoid, any. NULL only when there are no queues. */
const struct rq_route_queue *rq_fault_pick(const struct rq_route *route, uint32_t index,
                                           const struct rq_broker_health *avoid, bool use_faults,
                                           int64_t now_ms);

/* Whether another broker than this one could take a message of the topic now. */
bool rq_fault_has_spare(const struct rq_route *route, const struct rq_broker_health *broker,
                        int64_t now_ms);

/* Most ms that the next attempt may take: left_ms, attempts that may follow it, the option
 * sendMsgMaxTimeoutPerRequest, and whether another broker could take over. Never more than
 * left_ms. */
int64_t rq_fault_share_ms(int64_t left_ms, int attempts_after, int64_t max_per_request_ms,
                          bool spare);

#endif
