/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Requests that brokers send to a client: each goes to the member that it is for (see instance.h).
 * Counterpart: ClientRemotingProcessor.
 */
#include <stdio.h>

#include "base/log.h"
#include "client/instance_priv.h"
#include "wire/message.h"
#include "wire/properties.h"

static void refuse(struct rq_instance *instance, struct rq_peer *peer,
                   const struct rq_header *header)
{
    char remark[64];
    (void)snprintf(remark, sizeof remark, " request type %d not supported", header->code);
    rq_instance_answer(instance, peer, header->opaque, header->flag,
                       RQ_RESP_REQUEST_CODE_NOT_SUPPORTED, remark, rq_slice(NULL, 0));
}

static void ids_changed(struct rq_instance *instance, const struct rq_header *header)
{
    struct rq_member *member =
        rq_instance_member(instance, rq_header_ext(header, "consumerGroup"), true);
    if (member && member->ops->ids_changed) {
        member->ops->ids_changed(member);
    }
}

/* 220 and 221 name the group "group", 307 and 309 "consumerGroup". */
static bool member_request(struct rq_instance *instance, struct rq_peer *peer, struct rq_in *in)
{
    const struct rq_header *header = in->header;
    struct rq_slice group = rq_header_ext(header, "consumerGroup");
    if (!group.p) {
        group = rq_header_ext(header, "group");
    }
    struct rq_member *member = rq_instance_member(instance, group, true);
    return member && member->ops->request && member->ops->request(member, peer, header, in);
}

/* The group is a property of the half message in the body. */
static void check_transaction(struct rq_instance *instance, struct rq_peer *peer, struct rq_in *in)
{
    struct rq_cursor cursor = rq_cursor(in->body.p, in->body.n);
    struct rq_msg msg;
    if (rq_msg_decode(&cursor, &msg, NULL) != RMQ_OK) {
        RQ_LOG(WARN, "a question about a transaction cannot be read", "broker=%s",
               rq_peer_address(peer));
        return;
    }
    struct rq_member *member =
        rq_instance_member(instance, rq_props_get(msg.properties, RQ_PROP_PGROUP), false);
    if (member && member->ops->request) {
        (void)member->ops->request(member, peer, in->header, in);
    }
}

/* A reply is for the producer that has the request; one that came too late is dropped, and still
 * answered well, as there. */
static void take_reply(struct rq_instance *instance, struct rq_peer *peer, struct rq_in *in)
{
    bool taken = false;
    RQ_LIST_FOREACH_SAFE(node, next, &instance->members)
    {
        struct rq_member *member = RQ_CONTAINER_OF(node, struct rq_member, node);
        taken = taken || (!member->is_consumer && member->ops->request &&
                          member->ops->request(member, peer, in->header, in));
    }
    if (!taken) {
        RQ_LOG(INFO, "a reply is for no request that waits", "broker=%s", rq_peer_address(peer));
    }
    rq_instance_answer(instance, peer, in->header->opaque, in->header->flag, RQ_RESP_SUCCESS, NULL,
                       rq_slice(NULL, 0));
}

void rq_instance_on_request(void *user, struct rq_peer *peer, struct rq_in *in)
{
    struct rq_instance *instance = user;
    switch (in->header->code) {
    case RQ_REQ_NOTIFY_CONSUMER_IDS_CHANGED:
        ids_changed(instance, in->header);
        break;
    case RQ_REQ_PUSH_REPLY_MESSAGE_TO_CLIENT:
        take_reply(instance, peer, in);
        break;
    case RQ_REQ_CHECK_TRANSACTION_STATE:
        check_transaction(instance, peer, in);
        break;
    case RQ_REQ_RESET_CONSUMER_CLIENT_OFFSET:
    case RQ_REQ_GET_CONSUMER_STATUS_FROM_CLIENT:
    case RQ_REQ_GET_CONSUMER_RUNNING_INFO:
    case RQ_REQ_CONSUME_MESSAGE_DIRECTLY:
        if (!member_request(instance, peer, in)) {
            refuse(instance, peer, in->header);
        }
        break;
    default:
        refuse(instance, peer, in->header);
        break;
    }
}
