/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A broker behind a proxy, and a name server that sends everybody through it: the way to the broker
 * can then be made bad, and counted. */
#ifndef RQ_TESTS_LIB_DETOUR_H
#define RQ_TESTS_LIB_DETOUR_H

#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"

struct tl_detour {
    struct tl_cluster cluster; /* straight to the broker */
    /* the same through the proxy, for tl_producer, tl_consumer and options */
    struct tl_cluster through;
    struct tl_proxy *proxy;
    struct tl_namesrv *namesrv;
};

/* With a topic of so many queues and options of the broker as tl_cluster_start_with; every topic
 * has the route. Skips the case when the broker is not in this process. */
void tl_detour_start(struct tl_detour *detour, int queues, const char *const *options);
void tl_detour_stop(struct tl_detour *detour);

#endif
