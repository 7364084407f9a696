/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The stored offset cannot be read for half a minute, longer than a round of the rebalance: no pull
 * and no commit goes out meanwhile, and then the group goes on where it was.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define PULL                   11
#define QUERY_CONSUMER_OFFSET  14
#define UPDATE_CONSUMER_OFFSET 15
#define OUTAGE_MS              30000
#define BEFORE                 100
#define BEHIND                 20

static struct tl_seen seen;

struct wire {
    uint64_t asked;
    uint64_t pulls;
    uint64_t commits;
};

static struct wire wire_of(struct tl_detour *detour)
{
    return (struct wire){.asked = tl_proxy_seen(detour->proxy, QUERY_CONSUMER_OFFSET),
                         .pulls = tl_proxy_seen(detour->proxy, PULL),
                         .commits = tl_proxy_seen(detour->proxy, UPDATE_CONSUMER_OFFSET)};
}

static rmq_consumer *start_push(const struct tl_cluster *cluster)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.persist_consumer_offset_interval_ms = 1000;
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    return tl_consumer_start(cluster, &options);
}

static rmq_lite_pull_consumer *start_lite(const struct tl_cluster *cluster)
{
    rmq_error *err = NULL;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_lite_pull_consumer_options options;
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.auto_commit_interval_ms = 1000;
    TL_OK(rmq_lite_pull_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_lite_pull_consumer_subscribe(consumer, cluster->topic, "*", &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    return consumer;
}

/* The group has consumed all there is, and more comes while nobody is there. */
static void prepare(struct tl_detour *detour, const char *fault)
{
    tl_detour_start(detour, 4, NULL);
    rmq_consumer *consumer = start_push(&detour->cluster);
    tl_send_some(&detour->cluster, 0, BEFORE);
    tl_seen_wait(&seen, BEFORE, 20000);
    rmq_consumer_destroy(consumer);
    tl_send_some(&detour->cluster, BEFORE, BEHIND);
    TL_CHECK(tl_proxy_script(detour->proxy, fault));
}

static void nothing_went_out(struct tl_detour *detour)
{
    struct wire now = wire_of(detour);
    printf("in 30 s: asked %llu times\n", (unsigned long long)now.asked);
    TL_CHECK(now.asked > 1);
    TL_EQUAL(now.pulls, 0);
    TL_EQUAL(now.commits, 0);
    TL_EQUAL(atomic_load(&seen.total), BEFORE);
    tl_proxy_clear(detour->proxy);
}

static void push_for_half_a_minute(const char *fault)
{
    struct tl_detour detour;
    prepare(&detour, fault);
    int64_t end = tl_now_ms() + OUTAGE_MS;
    rmq_consumer *consumer = start_push(&detour.through);
    tl_pause(end - tl_now_ms());
    nothing_went_out(&detour);
    tl_seen_wait(&seen, BEFORE + BEHIND, 30000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), BEFORE + BEHIND);
    tl_detour_stop(&detour);
}

static void a_push_consumer_whose_offset_is_refused_for_half_a_minute(void)
{
    push_for_half_a_minute("answer request 14 code 1 remark busy");
}

static void a_push_consumer_whose_offset_is_not_answered_for_half_a_minute(void)
{
    push_for_half_a_minute("drop request 14");
}

static void a_lite_pull_consumer_whose_offset_is_refused_for_half_a_minute(void)
{
    struct tl_detour detour;
    prepare(&detour, "answer request 14 code 1 remark busy");
    rmq_lite_pull_consumer *consumer = start_lite(&detour.through);
    TL_EQUAL(tl_lite_pull_take(consumer, &seen, OUTAGE_MS), 0);
    nothing_went_out(&detour);
    tl_lite_pull_take_until(consumer, &seen, BEFORE + BEHIND);
    rmq_lite_pull_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), BEFORE + BEHIND);
    tl_detour_stop(&detour);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"a_push_consumer_whose_offset_is_refused_for_half_a_minute",
         a_push_consumer_whose_offset_is_refused_for_half_a_minute, 150},
        {"a_push_consumer_whose_offset_is_not_answered_for_half_a_minute",
         a_push_consumer_whose_offset_is_not_answered_for_half_a_minute, 150},
        {"a_lite_pull_consumer_whose_offset_is_refused_for_half_a_minute",
         a_lite_pull_consumer_whose_offset_is_refused_for_half_a_minute, 150},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
