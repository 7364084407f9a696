/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A blocking look-up of a route (see the header). The look-up always completes, at its deadline at
 * the latest. */
#include "client/route_wait.h"

#include "base/err.h"
#include "base/list.h"
#include "client/waiter.h"

struct waiting {
    struct rq_lookup lookup;
    struct rq_waiter waiter;
    struct rq_route *route;
    rmq_error *err;
};

static void looked_up(struct rq_lookup *lookup, struct rq_route *route, const rmq_error *err)
{
    struct waiting *waiting = RQ_CONTAINER_OF(lookup, struct waiting, lookup);
    if (route) {
        rq_route_retain(route);
        waiting->route = route;
    } else {
        waiting->err = rq_error_copy(err);
    }
    rq_waiter_done(&waiting->waiter);
}

rmq_status rq_route_wait(struct rq_instance *instance, const char *topic, int32_t default_queues,
                         bool refresh, int64_t deadline_ms, struct rq_route **out, rmq_error **err)
{
    struct waiting waiting = {
        .lookup = {.done = looked_up, .default_queues = default_queues, .refresh = refresh},
    };
    rq_waiter_init(&waiting.waiter);
    rq_instance_lookup(instance, &waiting.lookup, topic, deadline_ms);
    rq_waiter_wait(&waiting.waiter);
    if (waiting.route) {
        *out = waiting.route;
        return RMQ_OK;
    }
    rmq_status st = rmq_error_status(waiting.err);
    if (err) {
        rmq_error_destroy(*err);
        *err = waiting.err;
    } else {
        rmq_error_destroy(waiting.err);
    }
    return st;
}
