/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Questions to other brokers, by name: their addresses come from a name server and are asked for
 * anew when they are some seconds old. On the background loop, asked from any thread. Counterparts:
 * RpcClientImpl, ClientMetadata.
 */
#ifndef RQ_BROKER_REMOTES_H
#define RQ_BROKER_REMOTES_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/map.h"
#include "base/thread.h"
#include "net/client.h"

struct rmq_broker;

struct rq_remotes {
    struct rmq_broker *broker;
    struct rq_loop *loop; /* background; a reference */
    struct rq_peers *peers;
    struct rq_mutex lock; /* rank: broker tables; guards all below */
    struct rq_map addrs;  /* broker name -> address of its master */
    int64_t known_ms;     /* monotonic: when a name server told them; 0 = never */
    size_t next_namesrv;  /* the one to ask, modulo their count: another one when that fails */
    bool closed;
};

/* One question. Embedded by who asks; it must live until done. */
struct rq_remote_call {
    /* Once, on the background loop or within the asking call. answer is NULL unless status is
     * RMQ_OK, its code may be any; it is valid during the call. RMQ_ERR_NOT_FOUND: nobody knows
     * that broker. */
    void (*done)(struct rq_remote_call *call, rmq_status status, struct rq_in *answer);

    /* private */
    struct rq_remotes *remotes;
    struct rq_call call;
    struct rq_peer *peer; /* who is asked; a reference */
    struct rq_out *out;   /* while the address is looked for */
    size_t namesrv;       /* next_namesrv when a name server was asked */
    char *broker_name;
};

/* addresses: of name servers, "host:port;host:port"; they live as long as this. */
rmq_status rq_remotes_init(struct rq_remotes *remotes, struct rmq_broker *broker,
                           struct rq_loop *background, rmq_error **err);
/* Questions that wait end with RMQ_ERR_CLOSED, as further ones do. Not on the background loop. */
void rq_remotes_close(struct rq_remotes *remotes);
void rq_remotes_free(struct rq_remotes *remotes); /* after close */

/* Asks the master of that name. Takes out, which may be NULL: out of memory. Any thread. */
void rq_remotes_ask(struct rq_remotes *remotes, struct rq_remote_call *call,
                    const char *broker_name, struct rq_out *out);

/* Asks a name server, which may be any of them; after a failure the next question goes to another
 * one. Takes out as above. Any thread. */
void rq_remotes_ask_namesrv(struct rq_remotes *remotes, struct rq_remote_call *call,
                            struct rq_out *out);

#endif
