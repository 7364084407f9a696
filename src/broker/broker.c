/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the parts of a broker have in common (see the header): clock, counts, and telling others what
 * has changed. */
#include "broker/broker.h"

#include "store/disk.h"

int64_t rq_broker_now_ms(const struct rmq_broker *broker)
{
    return rq_disk_now_ms(rq_store_disk(broker->store));
}

static struct rq_slice cluster_of(const struct rmq_broker *broker)
{
    return rq_slice_str(broker->settings.broker.broker_cluster_name);
}

void rq_broker_count_put(const struct rq_request *request, struct rq_slice topic, int32_t queue_id,
                         const struct rq_store_put *put, uint64_t nums)
{
    rq_stats_put(&request->broker->stats, &request->session->loop->gathered,
                 cluster_of(request->broker), topic, queue_id, nums,
                 (uint64_t)(put->next_commit_log_offset - put->commit_log_offset));
}

void rq_broker_count_own_put(struct rmq_broker *broker, struct rq_slice topic, int32_t queue_id,
                             const struct rq_store_put *put)
{
    struct rq_stats_gathered one = {0};
    rq_stats_put(&broker->stats, &one, cluster_of(broker), topic, queue_id, 1,
                 (uint64_t)(put->next_commit_log_offset - put->commit_log_offset));
    rq_stats_flush(&broker->stats, &one, cluster_of(broker));
}

void rq_broker_count_acks(struct rmq_broker *broker, struct rq_slice topic, struct rq_slice group,
                          uint64_t count)
{
    rq_stats_add_group(&broker->stats, RQ_STATS_GROUP_ACK_NUMS, topic, group, count);
    rq_stats_add(&broker->stats, RQ_STATS_BROKER_ACK_NUMS, cluster_of(broker), count, 1);
}

void rq_broker_count_checkpoint(struct rmq_broker *broker, struct rq_slice topic,
                                struct rq_slice group)
{
    rq_stats_add_group(&broker->stats, RQ_STATS_GROUP_CK_NUMS, topic, group, 1);
    rq_stats_add(&broker->stats, RQ_STATS_BROKER_CK_NUMS, cluster_of(broker), 1, 1);
}

void rq_broker_count_gathered(struct rq_broker_loop *loop)
{
    rq_stats_flush(&loop->broker->stats, &loop->gathered, cluster_of(loop->broker));
}

void rq_broker_dispatch_soon(const struct rq_request *request)
{
    struct rq_broker_loop *loop = request->session->loop;
    if (!loop->dispatch_posted) { /* cheaper than to post it for each message */
        loop->dispatch_posted = true;
        (void)rq_loop_post(loop->loop, &loop->dispatch);
    }
}

void rq_broker_persist_soon(struct rmq_broker *broker)
{
    (void)rq_loop_post(broker->background, &broker->persist_task);
}

void rq_broker_topics_changed(struct rmq_broker *broker)
{
    rq_broker_persist_soon(broker);
    rq_registration_ask(&broker->registration, NULL);
}
