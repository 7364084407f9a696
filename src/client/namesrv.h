/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The name servers of an instance. A query goes to the one that answered last; when it fails, or is
 * silent for 300 ms, the next is asked at the same time, and the first answer wins. Only when none
 * has answered does a query fail, with every host and its reason. Loop thread unless said
 * otherwise. Counterpart: NettyRemotingClient.getAndCreateNameserverChannel.
 */
#ifndef RQ_CLIENT_NAMESRV_H
#define RQ_CLIENT_NAMESRV_H

#include <stdbool.h>

#include <rmq/error.h>

#include "net/client.h"
#include "wire/frame.h"

struct rq_namesrv;

/* Whether it is the URL of an address server, http://host[:port]/path; http://host:port alone is a
 * name server's. */
bool rq_namesrv_is_url(const char *list);

/* Asks an address server for its list; blocks up to 3 s. Errors: RMQ_ERR_INVALID (URL),
 * RMQ_ERR_NO_NAMESRV. */
rmq_status rq_namesrv_look_up(const char *url, struct rq_buf *list, rmq_error **err);

/* list: "host:port;host:port", checked here; given: the same, or the URL from which it comes. Any
 * thread. Errors: RMQ_ERR_INVALID with the address, RMQ_ERR_NO_NAMESRV, RMQ_ERR_NOMEM. */
rmq_status rq_namesrv_create(struct rq_loop *loop, struct rq_peers *peers, const char *given,
                             const char *list, struct rq_namesrv **out, rmq_error **err);

/* Loop. Asks the address server, if there is one, so often, until the stop. Counterpart:
 * TopAddressing. */
void rq_namesrv_start(struct rq_namesrv *servers, int64_t interval_ms);
void rq_namesrv_stop(struct rq_namesrv *servers);

/* Completes what is under way with RMQ_ERR_CLOSED; the peers must have been destroyed before, so
 * that no call is left. Any thread then. */
void rq_namesrv_destroy(struct rq_namesrv *servers);

const char *rq_namesrv_list(const struct rq_namesrv *servers); /* as given; immutable */

/* The addresses that are in use now, one a line. */
void rq_namesrv_addresses(const struct rq_namesrv *servers, struct rq_buf *out);

/* Asks. done is called once, on the loop, never within this call, unless the status is not RMQ_OK:
 * then not at all. answer is NULL when err is not; an answer may have any code but SYSTEM_ERROR,
 * SYSTEM_BUSY and GO_AWAY, which count as failures of that server. */
typedef void rq_namesrv_done(void *user, struct rq_in *answer, const rmq_error *err);
rmq_status rq_namesrv_ask(struct rq_namesrv *servers, const struct rq_frame_spec *spec,
                          int64_t timeout_ms, rq_namesrv_done *done, void *user);

#endif
