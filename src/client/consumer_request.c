/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What brokers ask a consumer for, most of it on behalf of an administrator: running info (307),
 * consume this message now (309), go on from these offsets (220), how far are you (221). I/O
 * thread. Counterpart: ClientRemotingProcessor.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"
#include "wire/bodies.h"

static void answer(struct rmq_consumer *consumer, struct rq_peer *peer,
                   const struct rq_header *header, rmq_status st, struct rq_buf *body)
{
    bool good = st == RMQ_OK && rq_buf_status(body) == RMQ_OK;
    rq_instance_answer(consumer->instance, peer, header->opaque, header->flag,
                       good ? RQ_RESP_SUCCESS : RQ_RESP_SYSTEM_ERROR,
                       good ? NULL : rmq_status_text(st == RMQ_OK ? rq_buf_status(body) : st),
                       good ? rq_slice(body->data, body->len) : rq_slice(NULL, 0));
}

/* ---- 220 ---- */

static void reset_queue(struct rq_owned *owned, int64_t offset)
{
    RQ_LOG(INFO, "the offset of a queue is reset",
           "group=%s topic=%s broker=%s queue=%d offset=%lld",
           owned->consumer->options.consumer_group, owned->name.topic, owned->name.broker_name,
           (int)owned->name.queue_id, (long long)offset);
    rq_owned_restart(owned, offset);
}

/* Queues that are not ours are their owner's to reset. */
static void reset_offsets(struct rmq_consumer *consumer, const struct rq_header *header,
                          const struct rq_in *frame)
{
    struct rq_slice topic = rq_header_ext(header, "topic");
    struct rq_queue_table table;
    rmq_error *err = NULL;
    if (rq_queue_table_parse(frame->body, RQ_QUEUE_TABLE_OFFSETS, &table, &err) != RMQ_OK) {
        RQ_LOG(WARN, "offsets to go on from cannot be read", "group=%s why=%s",
               consumer->options.consumer_group, rmq_error_message(err));
        rmq_error_destroy(err);
        return;
    }
    for (size_t i = 0; i < table.count; i++) {
        struct rq_owned *owned = table.rows[i].offset >= 0 && table.rows[i].mq.topic &&
                                         rq_slice_eq_str(topic, table.rows[i].mq.topic)
                                     ? rq_owned_find(consumer, &table.rows[i].mq)
                                     : NULL;
        if (owned && !owned->pops) {
            reset_queue(owned, table.rows[i].offset);
        }
    }
    rq_queue_table_clear(&table);
}

/* ---- 221 ---- */

static rmq_status write_status(struct rmq_consumer *consumer, struct rq_slice topic_name,
                               struct rq_buf *out)
{
    char name[RQ_NAME_MAX];
    size_t count = 0;
    snprintf(name, sizeof name, "%.*s", (int)topic_name.n, topic_name.p ? topic_name.p : "");
    struct rq_subscribed *topic = rq_subscribed_find(consumer, name);
    size_t room = topic ? topic->queue_count : 0;
    struct rq_queue_stat *rows = rq_calloc(room + 1, sizeof *rows);
    if (!rows) {
        return RMQ_ERR_NOMEM;
    }
    for (struct rq_list *node = topic ? topic->queues.next : NULL; node && node != &topic->queues;
         node = node->next) {
        struct rq_owned *owned = RQ_CONTAINER_OF(node, struct rq_owned, node);
        int64_t offset = rq_process_queue_commit_offset(&owned->process);
        if (offset >= 0) {
            rows[count++] = (struct rq_queue_stat){.mq = owned->name, .offset = offset};
        }
    }
    struct rq_queue_table table = {.rows = rows, .count = count};
    rq_queue_table_write(&table, RQ_QUEUE_TABLE_STATUS, out);
    rq_free(rows);
    return RMQ_OK;
}

bool rq_consumer_request(struct rq_member *member, struct rq_peer *peer,
                         const struct rq_header *header, struct rq_in *frame)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(member, struct rmq_consumer, member);
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rmq_status st = RMQ_OK;
    switch (header->code) {
    case RQ_REQ_RESET_CONSUMER_CLIENT_OFFSET:
        if (consumer->kind->type == RQ_CONSUME_PASSIVELY && consumer->running) {
            reset_offsets(consumer, header, frame);
        }
        return true;
    case RQ_REQ_GET_CONSUMER_STATUS_FROM_CLIENT:
        st = write_status(consumer, rq_header_ext(header, "topic"), &body);
        break;
    case RQ_REQ_GET_CONSUMER_RUNNING_INFO:
        rq_running_info_write(consumer, &body);
        break;
    case RQ_REQ_CONSUME_MESSAGE_DIRECTLY:
        rq_consume_directly(consumer, peer, header, frame);
        return true;
    default:
        return false;
    }
    answer(consumer, peer, header, st, &body);
    rq_buf_free(&body);
    return true;
}
