/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The name servers of an instance. A query goes to the one that answered last; when it fails, or is silent for 300 ms, the next is asked at the
 * same time, and the first answer wins. Only when none has answered does a query fail, with every host and its reason. Loop thread
 * unless said otherwise. Counterpart: NettyRemotingClient.getAndCreateNameserverChannel.
 */
#ifndef RQ_CLIENT_NAMESRV_H
#define RQ_CLIENT_NAMESRV_H

#include <rmq/error.h>

#include "net/client.h"
#include "wire/frame.h"

struct rq_namesrv;

/* list: "host:port;host:port", checked here. Any thread. Errors: RMQ_ERR_INVALID with the address, RMQ_ERR_NOMEM. */
rmq_status rq_namesrv_create(struct rq_loop *loop, struct rq_peers *peers, const char *list,
                             struct rq_namesrv **out, rmq_error **err);

/* Completes what is under way with RMQ_ERR_CLOSED; the peers must have been destroyed before, so that no call is left. Any thread then. */
void rq_namesrv_destroy(struct rq_namesrv *servers);

const char *rq_namesrv_list(const struct rq_namesrv *servers); /* as given; immutable */

/* Asks. done is called once, on the loop, never within this call, unless the status is not RMQ_OK: then not at all. answer is NULL when err
 * is not; an answer may have any code but SYSTEM_ERROR, SYSTEM_BUSY and GO_AWAY, which count as failures of that server. */
typedef void rq_namesrv_done(void *user, struct rq_in *answer, const rmq_error *err);
rmq_status rq_namesrv_ask(struct rq_namesrv *servers, const struct rq_frame_spec *spec,
                          int64_t timeout_ms, rq_namesrv_done *done, void *user);

/* Number of the servers, and the address of one: for requests that every server must get. Immutable. */
size_t rq_namesrv_count(const struct rq_namesrv *servers);

#endif
