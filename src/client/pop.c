/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The pop of a queue that the broker shared out for popping: one request at a time, parked by the
 * broker until there is something. What comes goes into the process queue, which only counts here,
 * and to the pool; there is no offset: each message ends by its handle (pop_end.c). On the I/O
 * thread. Counterparts: PopRequest, PopProcessQueue, DefaultMQPushConsumerImpl.popMessage.
 */
#include "base/err.h"
#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

#define CLIENT_GRACE_MS 10000 /* beyond the time that the broker parks a pop */

struct rq_owned *rq_owned_create_popped(struct rq_subscribed *topic, const struct rq_mq *name)
{
    struct rq_owned *owned = rq_owned_create(topic, name);
    if (owned) {
        owned->pops = true;
        rq_owned_set_limits(owned);
    }
    return owned;
}

static void take_messages(struct rq_owned *owned, struct rq_in *answer)
{
    struct rq_views *views = NULL;
    struct rq_popped *popped = NULL;
    struct rq_pulled *pulled = NULL;
    rmq_error *err = NULL;
    struct rq_subscription *sub = owned->topic->sub;
    rmq_status st = rq_receive_decode(owned, answer, &views, &err);
    if (st == RMQ_OK) {
        st = rq_popped_create(views, answer->header, owned->name.broker_name, rq_mono_ms(), &popped,
                              &err);
    }
    if (st == RMQ_OK) {
        rq_pop_ack_unwanted(owned, popped, views, rq_receive_wants, sub);
        st = rq_pulled_create(views, RQ_ANY_ORDER, answer->size, rq_receive_wants, sub, &pulled);
    }
    if (st != RMQ_OK) { /* the broker gives them out again when their time is over */
        if (!err) {
            rq_error_set(&err, st, "pop answer of %zu bytes", answer->size);
        }
        rq_consumer_report(owned->consumer, "a pop answer could not be kept", err);
        rq_popped_release(popped);
        rq_views_release(views);
        rq_owned_retry(owned);
        return;
    }
    owned->delay_ms = RQ_RETRY_FIRST_MS;
    if (!pulled) {
        rq_popped_release(popped);
        return;
    }
    pulled->popped = popped;
    owned->pulls++;
    owned->pulled += pulled->count;
    owned->pull_ms += rq_loop_now(owned->consumer->loop) - owned->asked_ms;
    rq_receive_hand_over(owned, pulled, -1);
    if (owned->consumer->options.pull_interval_ms > 0) {
        rq_pull_after(owned, owned->consumer->options.pull_interval_ms);
    }
}

static void take_answer(struct rq_owned *owned, struct rq_in *answer)
{
    switch (answer->header->code) {
    case RQ_RESP_SUCCESS:
        if (answer->body.n > 0) {
            take_messages(owned, answer);
            return;
        }
        rq_receive_nothing(owned);
        return;
    case RQ_RESP_PULL_NOT_FOUND:
    case RQ_RESP_POLLING_TIMEOUT:
        rq_receive_nothing(owned);
        return;
    default:
        rq_receive_refusal(owned, RMQ_OK, answer);
    }
}

static void on_popped(struct rq_ask *ask, rmq_status status, struct rq_in *answer)
{
    struct rq_owned *owned = RQ_CONTAINER_OF(ask, struct rq_owned, ask);
    rq_receive_ended(owned, status, answer, take_answer);
    rq_owned_release(owned);
}

void rq_pop(struct rq_owned *owned)
{
    struct rmq_consumer *consumer = owned->consumer;
    const rmq_consumer_options *options = &consumer->options;
    const struct rq_subscription *sub = owned->topic->sub;
    bool from_first = options->consume_from_where == RMQ_CONSUME_FROM_FIRST_OFFSET;
    struct rq_hdr_pop fields = {.consumer_group = rq_slice_str(options->consumer_group),
                                .topic = rq_slice_str(owned->name.topic),
                                .queue_id = owned->name.queue_id,
                                .max_msg_nums = options->pop_batch_nums,
                                .invisible_time = options->pop_invisible_time_ms,
                                .poll_time = options->broker_suspend_max_time_ms,
                                .init_mode = from_first ? RQ_POP_FROM_MIN : RQ_POP_FROM_MAX};
    RQ_SET(pop, &fields, born_time, rq_wall_ms());
    RQ_SET(pop, &fields, exp, rq_slice_str(sub->sub_string));
    RQ_SET(pop, &fields, exp_type, rq_slice_str(sub->expression_type));
    RQ_SET(pop, &fields, order, false);
    struct rq_peer *peer =
        rq_instance_broker(consumer->instance, rq_slice_str(owned->name.broker_name),
                           RQ_PICK_MASTER, RQ_MASTER_ID, NULL);
    owned->asking = true;
    owned->asked_ms = rq_loop_now(consumer->loop);
    owned->ask.done = on_popped;
    rq_owned_retain(owned);
    rq_consumer_ask(consumer, &owned->ask, peer, RQ_REQ_POP_MESSAGE, &rq_tab_pop, &fields,
                    options->broker_suspend_max_time_ms + CLIENT_GRACE_MS);
}
