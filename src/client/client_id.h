/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The client id "<address>@<instance name>[@<unit>]", by which brokers and the members of a group
 * know a client: instances with the same id are one. Counterpart: ClientConfig.buildMQClientId.
 */
#ifndef RQ_CLIENT_CLIENT_ID_H
#define RQ_CLIENT_CLIENT_ID_H

#include "base/buf.h"
#include "client/instance.h"

/* Appends the id of a client with these options; namesrv: the list of addresses, whose first
 * decides which address of ours is told. Any thread. */
void rq_client_id_write(const struct rq_instance_options *options, const char *namesrv,
                        struct rq_buf *out);

#endif
