/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Parts of a broker's life, in the order in which start.c uses them. Called by the thread that
 * starts or stops the broker. */
#ifndef RQ_BROKER_SERVER_H
#define RQ_BROKER_SERVER_H

#include <stdio.h>

#include "broker/broker.h"

void rq_broker_init_background(struct rmq_broker *broker);
rmq_status rq_broker_make_loops(struct rmq_broker *broker, rmq_error **err);
void rq_broker_hear_arrivals(struct rmq_broker *broker);
rmq_status rq_broker_listen(struct rmq_broker *broker, rmq_error **err);
void rq_broker_start_background(struct rmq_broker *broker);

void rq_broker_stop_background(struct rmq_broker *broker);
void rq_broker_drain_loops(struct rmq_broker *broker); /* what was posted has run */
void rq_broker_persist(struct rmq_broker *broker);     /* all tables that have changed */

#endif
