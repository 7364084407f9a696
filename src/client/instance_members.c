/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Members of a client instance: producer and consumer groups that come, are found and leave (see
 * instance.h). Counterparts: MQClientInstance's registerConsumer, registerProducer,
 * unregisterClient.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/instance_priv.h"

struct rq_member *rq_instance_member(struct rq_instance *instance, struct rq_slice group,
                                     bool consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &instance->members)
    {
        struct rq_member *member = RQ_CONTAINER_OF(node, struct rq_member, node);
        if (member->is_consumer == consumer && rq_slice_eq_str(group, member->group)) {
            return member;
        }
    }
    return NULL;
}

rmq_status rq_instance_add(struct rq_instance *instance, struct rq_member *member, rmq_error **err)
{
    if (rq_instance_member(instance, rq_slice_str(member->group), member->is_consumer)) {
        return rq_error_set(err, RMQ_ERR_EXISTS, "client %s has a %s of group %s already",
                            instance->client_id, member->is_consumer ? "consumer" : "producer",
                            member->group);
    }
    rq_list_add_tail(&instance->members, &member->node);
    rq_instance_heartbeat(instance);
    return RMQ_OK;
}

/* Unregistering: one request per broker address. */
struct leave {
    size_t pending;
    void (*done)(void *user);
    void *user;
    struct rq_task task;
    struct leave_call {
        struct rq_request request;
        struct leave *leave;
    } calls[];
};

static void leave_ended(struct leave *leave)
{
    if (leave->done) {
        leave->done(leave->user);
    }
    rq_free(leave);
}

static void leave_answered(struct rq_request *request, rmq_status status, struct rq_in *answer)
{
    struct leave *leave = RQ_CONTAINER_OF(request, struct leave_call, request)->leave;
    (void)status;
    (void)answer;
    if (--leave->pending == 0) {
        leave_ended(leave);
    }
}

static void leave_at_once(struct rq_task *task)
{
    leave_ended(RQ_CONTAINER_OF(task, struct leave, task));
}

static size_t count_connected(struct rq_instance *instance, struct rq_peer **peers)
{
    size_t count = 0;
    size_t i = 0;
    struct rq_map_entry *item;
    while ((item = rq_map_next(&instance->brokers, &i))) {
        struct rq_broker_entry *entry = item->value;
        for (size_t k = 0; k < entry->addr_count; k++) {
            struct rq_peer *peer = entry->addrs[k].peer;
            if (peer && rq_peer_connected(peer)) {
                if (peers) {
                    peers[count] = peer;
                }
                count++;
            }
        }
    }
    return count;
}

static void send_leave(struct rq_instance *instance, const struct rq_member *member,
                       struct leave *leave, struct rq_peer **peers, size_t count,
                       int64_t timeout_ms)
{
    struct rq_hdr_unregister_client fields = {.client_id = rq_slice_str(instance->client_id)};
    if (member->is_consumer) {
        fields.consumer_group = rq_slice_str(member->group);
    } else {
        fields.producer_group = rq_slice_str(member->group);
    }
    leave->pending = count;
    for (size_t i = 0; i < count; i++) {
        leave->calls[i].leave = leave;
        leave->calls[i].request.done = leave_answered;
        rq_instance_request(instance, peers[i], &leave->calls[i].request, RQ_REQ_UNREGISTER_CLIENT,
                            &rq_tab_unregister_client, &fields, rq_slice(NULL, 0), timeout_ms);
    }
}

void rq_instance_remove(struct rq_instance *instance, struct rq_member *member, int64_t timeout_ms,
                        void (*done)(void *user), void *user)
{
    rq_list_remove(&member->node);
    /* A broker that is not connected knows nothing of us any more: it forgets with the
     * connection. */
    size_t count = count_connected(instance, NULL);
    struct leave *leave = rq_calloc(1, sizeof *leave + count * sizeof leave->calls[0]);
    struct rq_peer **peers = rq_calloc(count ? count : 1, sizeof(struct rq_peer *));
    if (!leave || !peers) {
        rq_free(leave);
        rq_free(peers);
        if (done) {
            done(user);
        }
        return;
    }
    leave->done = done;
    leave->user = user;
    if (count == 0) {
        leave->task.run = leave_at_once;
        (void)rq_loop_post(instance->loop, &leave->task);
    } else {
        (void)count_connected(instance, peers);
        send_leave(instance, member, leave, peers, count,
                   timeout_ms < RQ_API_TIMEOUT_MS ? timeout_ms : RQ_API_TIMEOUT_MS);
    }
    rq_free(peers);
}
