/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What happens to a group when its members come and go. Any thread. */
#ifndef RQ_BROKER_CLIENT_MANAGE_H
#define RQ_BROKER_CLIENT_MANAGE_H

#include "base/slice.h"
#include "net/conn.h"

struct rmq_broker;

/* The connection of a client has ended. */
void rq_client_closed(struct rmq_broker *broker, const struct rq_conn *conn);

#endif
