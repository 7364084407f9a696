/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Removal of topics: first from the brokers, which would tell the name servers of it again, then
 * from every name server. Counterpart: DefaultMQAdminExtImpl.deleteTopic.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/admin_priv.h"
#include "client/namesrv.h"

struct listing {
    struct rq_instance *instance;
    struct rq_buf addresses;
};

static void list_name_servers(void *arg)
{
    struct listing *listing = arg;
    rq_namesrv_addresses(rq_instance_namesrv(listing->instance), &listing->addresses);
}

/* Every name server is told, also when one before it could not be: the first failure is returned.
 * lines is cut into its lines. */
static rmq_status tell_each(rmq_admin *admin, char *lines, const struct rq_admin_question *ask,
                            int64_t deadline_ms, rmq_error **err)
{
    rmq_status first = RMQ_OK;
    char *rest = NULL;
    for (char *addr = strtok_r(lines, "\n", &rest); addr; addr = strtok_r(NULL, "\n", &rest)) {
        struct rq_reply reply;
        rmq_status st = rq_admin_ask(admin, addr, ask, deadline_ms, &reply, NULL);
        if (st == RMQ_OK) {
            rq_reply_free(&reply);
        } else if (first == RMQ_OK) {
            first = rq_error_set(err, st, "%s: gone from the brokers, but name server %s: %s",
                                 ask->what, addr, rmq_status_text(st));
        }
    }
    return first;
}

static rmq_status tell_name_servers(rmq_admin *admin, const struct rq_admin_question *about,
                                    int64_t deadline_ms, rmq_error **err)
{
    struct listing listing = {.instance = admin->instance};
    struct rq_admin_question ask = *about;
    char *lines = NULL;
    ask.code = RQ_REQ_DELETE_TOPIC_IN_NAMESRV;
    rq_buf_init(&listing.addresses, 0);
    rmq_status st = rq_instance_run(admin->instance, list_name_servers, &listing);
    if (st == RMQ_OK) {
        st = rq_admin_hand_out(&listing.addresses, &lines, ask.what, err);
    }
    if (st == RMQ_OK) {
        st = tell_each(admin, lines, &ask, deadline_ms, err);
    }
    rq_free(lines);
    return st;
}

rmq_status rmq_admin_delete_topic(rmq_admin *admin, const char *cluster, const char *topic,
                                  int64_t timeout_ms, rmq_error **err)
{
    int64_t deadline;
    struct rq_route_data route = {0};
    rmq_status st = rq_admin_begin(admin, topic, "topic", timeout_ms, &deadline, err);
    if (st == RMQ_OK) {
        st = rq_topic_check(rq_slice_str(topic), err);
    }
    rmq_status known = st == RMQ_OK ? rq_admin_route(admin, topic, deadline, &route, err) : st;
    if (known != RMQ_OK && known != RMQ_ERR_NO_ROUTE) {
        return known;
    }
    rq_route_data_clear(&route);
    struct rq_hdr_topic fields = {.topic = rq_slice_str(topic)};
    if (cluster) {
        RQ_SET(topic, &fields, cluster_name, rq_slice_str(cluster));
    }
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "removal of topic %s", topic);
    const struct rq_admin_question ask = {.code = RQ_REQ_DELETE_TOPIC_IN_BROKER,
                                          .table = &rq_tab_topic,
                                          .fields = &fields,
                                          .what = what};
    st = rq_admin_ask_cluster(admin, cluster, &ask, deadline, err);
    if (st == RMQ_OK) {
        st = tell_name_servers(admin, &ask, deadline, err);
    }
    return st == RMQ_OK ? known : st;
}
