/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A broker behind a proxy. See detour.h. */
#include "lib/detour.h"

#include <stdio.h>

void tl_detour_start(struct tl_detour *detour, int queues, const char *const *options)
{
    char brokers[160];
    tl_cluster_start_with(&detour->cluster, queues, options);
    tl_cluster_needs_own(&detour->cluster);
    detour->proxy = tl_proxy_start(rmq_broker_addr(detour->cluster.broker));
    detour->namesrv = tl_namesrv_start();
    snprintf(brokers, sizeof brokers, "broker-a@%s", tl_proxy_addr(detour->proxy));
    tl_namesrv_brokers(detour->namesrv, NULL, brokers, queues);
    detour->through = detour->cluster;
    snprintf(detour->through.namesrv, sizeof detour->through.namesrv, "%s",
             tl_namesrv_addr(detour->namesrv));
}

void tl_detour_stop(struct tl_detour *detour)
{
    tl_namesrv_stop(detour->namesrv);
    tl_proxy_stop(detour->proxy);
    tl_cluster_stop(&detour->cluster);
}
