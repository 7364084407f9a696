/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The broker's figures in the text form of Prometheus (/metrics) and whether it is well (/health),
 * on a port that is only there when metricsPort is given. Names, types and meanings stand in one
 * table, from which docs/metrics.md is made. Runs on the background loop.
 */
#ifndef RQ_BROKER_METRICS_H
#define RQ_BROKER_METRICS_H

#include <rmq/error.h>

#include "base/buf.h"

struct rmq_broker;

rmq_status rq_metrics_start(struct rmq_broker *broker, rmq_error **err);
void rq_metrics_stop(struct rmq_broker *broker); /* not on the background loop */

#endif
