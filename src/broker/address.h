/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Addresses of a broker: where it listens, what it tells others, how it stands in messages. At
 * start; pure but for a name look-up. */
#ifndef RQ_BROKER_ADDRESS_H
#define RQ_BROKER_ADDRESS_H

#include <sys/socket.h>

#include <rmq/error.h>

#include "broker/options.h"
#include "wire/message.h"

/* "host:port", with brackets around an IPv6 literal; an rq_free'd string, or NULL without
 * memory. */
char *rq_address_text(const char *host, int port);

/* Where to listen: bindAddress, else brokerIP1 when that is a loop-back address, else NULL for
 * every address. */
const char *rq_address_to_bind(const struct rq_broker_options *options);

/* brokerIP1 as the store host of messages; a name is looked up, which may block. */
rmq_status rq_address_store_host(const char *host, int port, struct rq_host *out, rmq_error **err);

/* A peer's address as the born host of messages; an IPv4 address inside IPv6 becomes IPv4. */
void rq_address_of_peer(const struct sockaddr *addr, struct rq_host *out);

#endif
