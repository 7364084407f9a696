/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Messages that go back to the broker: what the listener could not consume, what cannot be read,
 * and what has been in the same hands for longer than consumeTimeout. The broker stores a copy for
 * later delivery and confirms; only then is the message done, so its offset is held until then.
 * When that fails, the message stays and is offered to the listener again. Workers begin it, the
 * I/O thread carries it out. Counterparts: ConsumeMessageConcurrentlyService.sendMessageBack,
 * cleanExpiredMsg.
 */
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

#define DEFAULT_MAX_RECONSUME 16
#define EXPIRED_DELAY_LEVEL   3

struct rq_back {
    struct rq_list node; /* in consumer->backs, loop */
    struct rq_task task;
    struct rq_ask ask;
    struct rq_timer timer;
    struct rq_pulled *pulled; /* referenced */
    uint32_t index;
    int delay_level;
    bool dead; /* ordered: straight to the dead letters */
};

static struct rmq_consumer *consumer_of(const struct rq_pulled *pulled)
{
    return rq_owned_of(pulled->queue)->consumer;
}

/* Ordered: the queue waited for this message. */
static void go_on(const struct rq_back *back)
{
    struct rq_owned *owned = rq_owned_of(back->pulled->queue);
    if (owned->topic && owned->consumer->options.consume_orderly) {
        rq_order_submit(owned);
    }
}

static void end(struct rq_back *back)
{
    struct rmq_consumer *consumer = consumer_of(back->pulled);
    rq_timer_stop(&back->timer);
    rq_list_remove(&back->node);
    rq_pulled_release(back->pulled);
    rq_free(back);
    rq_close_check(consumer);
}

static void offer_again(struct rq_timer *timer)
{
    struct rq_back *back = RQ_CONTAINER_OF(timer, struct rq_back, timer);
    struct rq_pulled *pulled = back->pulled;
    struct rmq_consumer *consumer = consumer_of(pulled);
    rq_process_queue_end_back(pulled->queue, pulled->views[back->index]);
    if (consumer->options.consume_orderly) {
        go_on(back);
        end(back);
        return;
    }
    if (rq_pool_submit_again(&consumer->pool, pulled, back->index) != RMQ_OK) {
        rq_timer_start(consumer->loop, &back->timer, RQ_OFFER_AGAIN_MS);
        return;
    }
    rq_consumer_guard(consumer);
    rq_consumer_tell_taker(consumer);
    end(back);
}

static void note_failure(struct rq_back *back, rmq_status status, const struct rq_in *answer)
{
    rmq_error *err = NULL;
    rq_answer_error(status, answer ? answer->header : NULL,
                    back->pulled->views[back->index]->broker_name, "send-back", &err);
    rq_consumer_report(consumer_of(back->pulled),
                       "a message could not be sent back, it is offered again", err);
}

int32_t rq_consumer_most_reconsumes(const struct rmq_consumer *consumer)
{
    int32_t most = consumer->options.max_reconsume_times;
    return most < 0 ? DEFAULT_MAX_RECONSUME : most;
}

static int32_t times_of(const struct rmq_message_view *view)
{
    return atomic_load_explicit(&view->reconsume_times, memory_order_relaxed);
}

void rq_note_dead_letter(struct rmq_consumer *consumer, const struct rmq_message_view *view)
{
    rq_consumer_note(consumer, RMQ_EVENT_DEAD_LETTER, "%s %s:%d %lld %s reconsumed=%d", view->topic,
                     view->broker_name, (int)view->queue_id, (long long)view->queue_offset,
                     rmq_message_view_id(view), (int)times_of(view));
}

static void note_dead_letter(struct rq_back *back)
{
    struct rmq_consumer *consumer = consumer_of(back->pulled);
    const struct rmq_message_view *view = back->pulled->views[back->index];
    if (back->dead || back->delay_level < 0 ||
        times_of(view) >= rq_consumer_most_reconsumes(consumer)) {
        rq_note_dead_letter(consumer, view);
    }
}

static void on_answer(struct rq_ask *ask, rmq_status status, struct rq_in *answer)
{
    struct rq_back *back = RQ_CONTAINER_OF(ask, struct rq_back, ask);
    struct rmq_consumer *consumer = consumer_of(back->pulled);
    if (status == RMQ_OK && answer->header->code == RQ_RESP_SUCCESS) {
        note_dead_letter(back);
        rq_owned_done(back->pulled, back->index, back->index + 1);
        go_on(back);
        struct rq_subscribed *retry = rq_subscribed_find(consumer, consumer->retry_topic);
        if (retry && !retry->route) {
            rq_subscribed_refresh(retry); /* the broker has made it by now */
        }
        end(back);
        return;
    }
    if (consumer->closing || rq_process_queue_is_dropped(back->pulled->queue)) {
        end(back); /* not done: it is delivered again */
        return;
    }
    note_failure(back, status, answer);
    rq_timer_start(consumer->loop, &back->timer, RQ_OFFER_AGAIN_MS);
}

static struct rq_peer *broker_of(struct rmq_consumer *consumer, const struct rmq_message_view *view)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq queue = {
        .topic = rq_namespace_wrap(consumer->options.namespace_name, view->topic, room),
        .broker_name = view->broker_name,
        .queue_id = view->queue_id};
    struct rq_peer *peer =
        rq_instance_queue_broker(consumer->instance, &queue, RQ_PICK_MASTER, RQ_MASTER_ID);
    return peer ? peer : rq_instance_peer(consumer->instance, rmq_message_view_store_host(view));
}

void rq_send_back_ask(struct rmq_consumer *consumer, struct rq_ask *ask,
                      const struct rmq_message_view *view, int delay_level)
{
    char room[RQ_NAMESPACED_MAX];
    const char *topic = rq_namespace_wrap(consumer->options.namespace_name, view->topic, room);
    struct rq_hdr_send_back fields = {.offset = view->commit_log_offset,
                                      .group = rq_slice_str(consumer->options.consumer_group),
                                      .delay_level = delay_level,
                                      .origin_msg_id = rq_slice_str(rmq_message_view_id(view)),
                                      .origin_topic = rq_slice_str(topic)};
    RQ_SET(send_back, &fields, unit_mode, false);
    RQ_SET(send_back, &fields, max_reconsume_times, rq_consumer_most_reconsumes(consumer));
    rq_consumer_ask(consumer, ask, broker_of(consumer, view), RQ_REQ_CONSUMER_SEND_MSG_BACK,
                    &rq_tab_send_back, &fields, RQ_BACK_TIMEOUT_MS);
}

static void carry_out(struct rq_task *task)
{
    struct rq_back *back = RQ_CONTAINER_OF(task, struct rq_back, task);
    struct rmq_consumer *consumer = consumer_of(back->pulled);
    const struct rmq_message_view *view = back->pulled->views[back->index];
    rq_list_add_tail(&consumer->backs, &back->node);
    if (back->dead) {
        rq_dead_letter_send(&back->ask, consumer, broker_of(consumer, view), view);
    } else if (rq_is_sent_back_as_copy(view)) {
        rq_send_back_copy(&back->ask, consumer, broker_of(consumer, view), view, back->delay_level);
    } else {
        rq_send_back_ask(consumer, &back->ask, view, back->delay_level);
    }
}

static void begin(struct rq_pulled *pulled, uint32_t index, int delay_level, bool dead)
{
    struct rq_process_queue *queue = pulled->queue;
    if (!rq_process_queue_begin_back(queue, pulled->views[index])) {
        return;
    }
    atomic_fetch_add_explicit(&rq_owned_of(queue)->failed, 1, memory_order_relaxed);
    struct rq_back *back = rq_calloc(1, sizeof *back);
    if (!back) {
        /* The message stays; the search for expired messages comes back to it. */
        rq_process_queue_end_back(queue, pulled->views[index]);
        rq_process_queue_strand(queue, pulled->views[index]);
        return;
    }
    back->task.run = carry_out;
    back->ask.done = on_answer;
    back->pulled = pulled;
    back->index = index;
    back->delay_level = delay_level;
    back->dead = dead;
    rq_list_init(&back->node);
    rq_timer_init(&back->timer, offer_again);
    rq_pulled_retain(pulled);
    if (!rq_consumer_post(consumer_of(pulled), &back->task)) {
        rq_pulled_release(pulled);
        rq_free(back);
    }
}

bool rq_consumer_sends_back(const struct rmq_consumer *consumer)
{
    return consumer->kind->has_retry_topic && consumer->options.message_model == RMQ_CLUSTERING;
}

/* Broadcasting: a message that comes back would come to all members. */
static bool give_up(struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    struct rmq_consumer *consumer = consumer_of(pulled);
    if (consumer->options.message_model != RMQ_BROADCASTING) {
        return false;
    }
    int64_t now_ms = rq_mono_ms();
    if (now_ms >= atomic_load(&consumer->given_up_quiet_ms)) {
        atomic_store(&consumer->given_up_quiet_ms, now_ms + RQ_WARN_EVERY_MS);
        RQ_LOG(WARN, "a message could not be consumed, a broadcasting consumer gets it only once",
               "group=%s topic=%s queue=%d offset=%lld", consumer->options.consumer_group,
               pulled->views[from]->topic, (int)pulled->views[from]->queue_id,
               (long long)pulled->views[from]->queue_offset);
    }
    rq_owned_done(pulled, from, to);
    return true;
}

void rq_send_back(struct rq_pulled *pulled, uint32_t from, uint32_t to, int delay_level)
{
    if (from < to && pulled->popped) {
        rq_pop_later(pulled, from, to, delay_level);
        return;
    }
    if (from < to && give_up(pulled, from, to)) {
        return;
    }
    for (uint32_t i = from; i < to; i++) {
        begin(pulled, i, delay_level, false);
    }
}

void rq_send_dead(struct rq_pulled *pulled, uint32_t index)
{
    if (!give_up(pulled, index, index + 1)) {
        begin(pulled, index, 0, true);
    }
}

void rq_send_back_cancel_waiting(struct rmq_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->backs)
    {
        struct rq_back *back = RQ_CONTAINER_OF(node, struct rq_back, node);
        if (rq_timer_running(&back->timer)) {
            end(back);
        }
    }
}

/* ---- consumeTimeout ---- */

static void look_at(void *user, struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    (void)user;
    if (pulled->popped) {
        return; /* the broker gives it out again when its time is over */
    }
    for (uint32_t i = from; i < to && i < pulled->count; i++) {
        if (rq_process_queue_is_first(pulled->queue, pulled, i)) {
            RQ_LOG(WARN, "a message has been consumed for longer than consumeTimeout, it goes back",
                   "topic=%s queue=%d offset=%lld", pulled->views[i]->topic,
                   (int)pulled->views[i]->queue_id, (long long)pulled->views[i]->queue_offset);
            begin(pulled, i, EXPIRED_DELAY_LEVEL, false);
        }
    }
}

/* Messages that nobody could take further for want of memory. */
static void send_stranded(struct rmq_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_process_queue *queue = &RQ_CONTAINER_OF(item, struct rq_owned, node)->process;
            uint32_t index = 0;
            struct rq_pulled *pulled = rq_process_queue_stranded(queue, &index);
            if (pulled) {
                begin(pulled, index, 0, consumer->options.consume_orderly);
                rq_pulled_release(pulled);
            }
        }
    }
}

void rq_send_back_expired(struct rmq_consumer *consumer)
{
    if (!consumer->options.consume_orderly) {
        rq_pool_each_stuck(&consumer->pool, rq_loop_now(consumer->loop),
                           consumer->options.consume_timeout_ms, look_at, NULL);
    }
    send_stranded(consumer);
}
