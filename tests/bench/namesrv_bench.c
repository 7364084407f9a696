/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Cost of a name server with 1,000 topics of 8 queues on 4 brokers, in CPU time: a full
 * registration (body read, tables written), the same again with nothing new, a route answer, the
 * list of topics. One core, warm.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "namesrv/route_info.h"
#include "wire/bodies.h"

#define TOPICS  1000
#define BROKERS 4
#define ROUTES  200000

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void make_body(struct rq_buf *out, int counter)
{
    rq_buf_addf(
        out,
        "{\"filterServerList\":[],\"topicConfigSerializeWrapper\":{\"dataVersion\":{\"counter\":%d,"
        "\"stateVersion\":0,\"timestamp\":1767225600123},\"topicConfigTable\":{",
        counter);
    for (int i = 0; i < TOPICS; i++) {
        rq_buf_addf(
            out,
            "%s\"Topic%d\":{\"attributes\":{},\"order\":false,\"perm\":6,\"readQueueNums\":8,"
            "\"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"Topic%d\",\"topicSysFlag\":0,"
            "\"writeQueueNums\":8}",
            i ? "," : "", i, i);
    }
    rq_buf_add_str(out, "}}}");
}

static double enroll(struct rq_route_info *info, int broker, int counter)
{
    char name[32];
    char addr[32];
    struct rq_buf body;
    struct rq_topic_table topics;
    const struct rq_live_addr *master = NULL;
    snprintf(name, sizeof name, "broker-%d", broker);
    snprintf(addr, sizeof addr, "10.0.0.%d:10911", broker + 1);
    rq_buf_init(&body, 0);
    make_body(&body, counter);
    const struct rq_hdr_register_broker header = {.broker_name = rq_slice_str(name),
                                                  .broker_addr = rq_slice_str(addr),
                                                  .cluster_name = rq_slice_str("C"),
                                                  .ha_server_addr = rq_slice_str(addr)};
    double begin = cpu_us();
    if (rq_register_body_parse(rq_slice(body.data, body.len), false, 479, (size_t)64 << 20, &topics,
                               NULL) ||
        rq_route_info_register(info, &header, &topics, info, 0, &master) != RQ_REGISTERED) {
        abort();
    }
    rq_topic_table_clear(&topics);
    double took = cpu_us() - begin;
    rq_buf_free(&body);
    return took;
}

static double routes(const struct rq_route_info *info)
{
    const struct rq_route_form form = {0};
    char topic[32];
    struct rq_buf out;
    rq_buf_init(&out, 0);
    double begin = cpu_us();
    for (int i = 0; i < ROUTES; i++) {
        int n = snprintf(topic, sizeof topic, "Topic%d", i % TOPICS);
        rq_buf_clear(&out);
        if (!rq_route_info_write_route(info, rq_slice(topic, (size_t)n), &form, &out)) {
            abort();
        }
    }
    double took = cpu_us() - begin;
    rq_buf_free(&out);
    return took / ROUTES;
}

int main(void)
{
    struct rq_route_info info;
    double first = 0;
    double again = 0;
    double changed = 0;
    rq_route_info_init(&info);
    for (int i = 0; i < BROKERS; i++) {
        first += enroll(&info, i, 1);
    }
    for (int i = 0; i < BROKERS; i++) {
        again += enroll(&info, i, 1);
        changed += enroll(&info, i, 2);
    }
    printf("%-46s %8.2f ms\n", "registration, 1000 topics, new broker", first / BROKERS / 1e3);
    printf("%-46s %8.2f ms\n", "registration, nothing new", again / BROKERS / 1e3);
    printf("%-46s %8.2f ms\n", "registration, new version", changed / BROKERS / 1e3);
    printf("%-46s %8.2f us\n", "route of a topic on 4 brokers", routes(&info));
    rq_route_info_free(&info);
    return 0;
}
