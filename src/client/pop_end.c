/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * How popped messages end: acknowledged, made visible again after a while, or sent to the dead
 * letters. Workers begin it, the I/O thread carries it out: one request with acknowledgements of a
 * queue at a time, which takes along all that have come meanwhile; the others one by one. What
 * fails is left to the broker, which gives the message out again when its time is over; so nothing
 * is lost. Counterparts: ConsumeMessagePopConcurrentlyService.processConsumeResult,
 * DefaultMQPushConsumerImpl.ackAsync, changePopInvisibleTimeAsync.
 */
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"

#define ACKS_MOST 256 /* of one request */

/* Seconds until a message is seen again, by its reconsume times. */
static const int32_t later_s[] = {10,  30,  60,  120, 180,  240,  300,  360,
                                  420, 480, 540, 600, 1200, 1800, 3600, 7200};

/* How far the message is that goes to the dead letters. */
enum burial { NOT_BURIED, BURIED, REFUSED };

struct rq_pop_end {
    struct rq_list node; /* loop: in the queue's acks or acks_sent, else alone */
    struct rq_task task;
    struct rq_ask ask;
    struct rq_owned *owned;   /* referenced, */
    struct rq_popped *popped; /* as are these */
    struct rq_views *views;
    bool acks;
    int delay_level;
    enum burial burial; /* of the message at `at` */
    uint32_t at;        /* which message's turn it is, when they go one by one */
    uint32_t count;
    uint32_t index[]; /* of views */
};

static void step(struct rq_pop_end *end);

/* ---- making one: any thread ---- */

static struct rq_pop_end *make_end(struct rq_owned *owned, struct rq_popped *popped,
                                   struct rq_views *views, size_t room)
{
    struct rq_pop_end *end = rq_alloc(sizeof *end + room * sizeof end->index[0]);
    if (!end) {
        return NULL; /* as if it had failed: the broker gives the messages out again */
    }
    *end = (struct rq_pop_end){.owned = owned, .popped = popped, .views = views};
    rq_list_init(&end->node);
    rq_owned_retain(owned);
    rq_popped_retain(popped);
    rq_views_retain(views);
    return end;
}

static void free_end(struct rq_pop_end *end)
{
    rq_list_remove(&end->node);
    rq_popped_release(end->popped);
    rq_views_release(end->views);
    rq_owned_release(end->owned);
    rq_free(end);
}

/* ---- the loop's part ---- */

static void finish(struct rq_pop_end *end)
{
    struct rmq_consumer *consumer = end->owned->consumer;
    free_end(end);
    consumer->commits--;
    rq_close_check(consumer);
}

static void finish_all(struct rq_list *ends)
{
    RQ_LIST_FOREACH_SAFE(node, next, ends)
    {
        finish(RQ_CONTAINER_OF(node, struct rq_pop_end, node));
    }
}

static const struct rmq_message_view *view_of(const struct rq_pop_end *end, uint32_t i)
{
    return &end->views->items[end->index[i]];
}

static bool is_success(rmq_status status, const struct rq_in *answer)
{
    return status == RMQ_OK && answer->header->code == RQ_RESP_SUCCESS;
}

static void note_failure(struct rq_owned *owned, const char *what, rmq_status status,
                         const struct rq_in *answer)
{
    struct rmq_consumer *consumer = owned->consumer;
    int64_t now = rq_loop_now(consumer->loop);
    if (status == RMQ_ERR_CLOSED || now < consumer->quiet_until_ms) {
        return;
    }
    consumer->quiet_until_ms = now + RQ_WARN_EVERY_MS;
    rmq_error *err = NULL;
    rq_answer_error(status, answer ? answer->header : NULL, owned->name.broker_name, what, &err);
    RQ_LOG(WARN, "popped messages come again, the broker did not take their end",
           "group=%s topic=%s why=%s", consumer->options.consumer_group, owned->name.topic,
           rmq_error_message(err));
    rmq_error_destroy(err);
}

static struct rq_peer *broker_of(const struct rq_owned *owned)
{
    return rq_instance_broker(owned->consumer->instance, rq_slice_str(owned->name.broker_name),
                              RQ_PICK_MASTER, RQ_MASTER_ID, NULL);
}

/* ---- together ---- */

/* Adds the handles of an end; false: there is no room. *fits: this broker takes them together, and
 * one request does. */
static bool gather(struct rq_pop_acks *acks, const char **handles, const struct rq_pop_end *end,
                   bool *fits)
{
    struct rq_slice broker_name = rq_slice_str(end->owned->name.broker_name);
    size_t first = acks->count;
    *fits = end->count <= ACKS_MOST;
    if (*fits && first + end->count > ACKS_MOST) {
        return false;
    }
    for (uint32_t i = 0; *fits && i < end->count; i++) {
        handles[acks->count] = rq_popped_handle(end->popped, view_of(end, i));
        *fits = rq_pop_acks_fits(acks, acks->count, broker_name);
        acks->count++;
    }
    acks->count = *fits ? acks->count : first;
    return true;
}

static void on_acked(struct rq_ask *ask, rmq_status status, struct rq_in *answer);

/* The next request with acknowledgements, when none is under way. */
static void flush(struct rq_owned *owned)
{
    struct rmq_consumer *consumer = owned->consumer;
    const char *handles[ACKS_MOST];
    bool done[ACKS_MOST] = {false};
    struct rq_pop_acks acks = {.group = consumer->options.consumer_group,
                               .topic = owned->name.topic,
                               .handles = handles,
                               .done = done};
    if (!rq_list_empty(&owned->acks_sent)) {
        return;
    }
    RQ_LIST_FOREACH_SAFE(node, next, &owned->acks)
    {
        struct rq_pop_end *end = RQ_CONTAINER_OF(node, struct rq_pop_end, node);
        bool fits;
        if (!gather(&acks, handles, end, &fits)) {
            break;
        }
        rq_list_remove(node);
        if (fits) {
            rq_list_add_tail(&owned->acks_sent, node);
        } else {
            step(end);
        }
    }
    if (acks.count == 0) {
        return;
    }
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_pop_acks_write(&acks, rq_slice_str(owned->name.broker_name), &body);
    owned->acks_ask.done = on_acked;
    rq_owned_retain(owned);
    rq_consumer_ask_with(consumer, &owned->acks_ask, broker_of(owned), RQ_REQ_BATCH_ACK_MESSAGE,
                         NULL, NULL, rq_slice(body.data, body.len), RQ_ASK_TIMEOUT_MS);
    rq_buf_free(&body);
}

static void on_acked(struct rq_ask *ask, rmq_status status, struct rq_in *answer)
{
    struct rq_owned *owned = RQ_CONTAINER_OF(ask, struct rq_owned, acks_ask);
    if (status == RMQ_OK && answer->header->code == RQ_RESP_REQUEST_CODE_NOT_SUPPORTED) {
        owned->consumer->acks_alone = true;
        for (struct rq_list *node = rq_list_pop(&owned->acks_sent); node;
             node = rq_list_pop(&owned->acks_sent)) {
            step(RQ_CONTAINER_OF(node, struct rq_pop_end, node));
        }
    } else if (!is_success(status, answer)) {
        note_failure(owned, "acknowledgement", status, answer);
    }
    finish_all(&owned->acks_sent);
    if (status == RMQ_ERR_CLOSED) {
        finish_all(&owned->acks);
    } else {
        flush(owned);
    }
    rq_owned_release(owned);
}

/* ---- one by one ---- */

static void go_on(struct rq_pop_end *end)
{
    end->at++;
    end->burial = NOT_BURIED;
    step(end);
}

/* What follows a request; but a broker that is away is not waited for message by message by who
 * closes, and nothing is asked any more by who has closed. */
static void end_step(struct rq_pop_end *end, rmq_status status,
                     void (*next)(struct rq_pop_end *end))
{
    if (status != RMQ_OK && end->owned->consumer->closing) {
        finish(end);
    } else {
        next(end);
    }
}

static void on_stepped(struct rq_ask *ask, rmq_status status, struct rq_in *answer)
{
    struct rq_pop_end *end = RQ_CONTAINER_OF(ask, struct rq_pop_end, ask);
    if (!is_success(status, answer)) {
        note_failure(end->owned, end->acks ? "acknowledgement" : "change of the invisible time",
                     status, answer);
    }
    end_step(end, status, go_on);
}

static void on_buried(struct rq_ask *ask, rmq_status status, struct rq_in *answer)
{
    struct rq_pop_end *end = RQ_CONTAINER_OF(ask, struct rq_pop_end, ask);
    if (is_success(status, answer)) {
        end->burial = BURIED;
        rq_note_dead_letter(end->owned->consumer, view_of(end, end->at));
    } else {
        end->burial = REFUSED;
        note_failure(end->owned, "send-back to the dead letters", status, answer);
    }
    end_step(end, status, step);
}

static int64_t later_ms(const struct rq_pop_end *end, const struct rmq_message_view *view)
{
    int32_t most = (int32_t)(sizeof later_s / sizeof later_s[0]) - 1;
    int32_t level = end->delay_level > 0
                        ? end->delay_level
                        : atomic_load_explicit(&view->reconsume_times, memory_order_relaxed);
    level = level < 0 ? 0 : level;
    return (int64_t)later_s[level < most ? level : most] * 1000;
}

static bool is_dead(const struct rq_pop_end *end, const struct rmq_message_view *view)
{
    return !end->acks && (end->delay_level < 0 ||
                          atomic_load_explicit(&view->reconsume_times, memory_order_relaxed) >=
                              rq_consumer_most_reconsumes(end->owned->consumer));
}

/* The next request of the message whose turn it is; false: nothing can be said of it. */
static bool ask(struct rq_pop_end *end)
{
    struct rq_owned *owned = end->owned;
    struct rmq_consumer *consumer = owned->consumer;
    const struct rmq_message_view *view = view_of(end, end->at);
    const char *handle = rq_popped_handle(end->popped, view);
    struct rq_pop_place place;
    if (end->burial == NOT_BURIED && is_dead(end, view)) {
        end->ask.done = on_buried;
        rq_send_back_ask(consumer, &end->ask, view, -1);
        return true;
    }
    if (!rq_pop_place_read(consumer->options.consumer_group, owned->name.topic, handle, &place)) {
        return false;
    }
    struct rq_hdr_ack fields =
        rq_pop_place_header(&place, consumer->options.consumer_group, handle);
    bool acks = end->acks || end->burial == BURIED;
    if (!acks) {
        RQ_SET(ack, &fields, invisible_time, later_ms(end, view));
    }
    end->ask.done = on_stepped;
    rq_consumer_ask(consumer, &end->ask, broker_of(owned),
                    acks ? RQ_REQ_ACK_MESSAGE : RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &rq_tab_ack,
                    &fields, RQ_ASK_TIMEOUT_MS);
    return true;
}

static void step(struct rq_pop_end *end)
{
    for (; end->at < end->count; end->at++) {
        if (ask(end)) {
            return;
        }
        end->burial = NOT_BURIED;
    }
    finish(end);
}

static void begin(struct rq_pop_end *end)
{
    struct rq_owned *owned = end->owned;
    owned->consumer->commits++;
    if (end->acks && !owned->consumer->acks_alone) {
        rq_list_add_tail(&owned->acks, &end->node);
        rq_owned_retain(owned); /* the end of the last one gives a dropped queue up */
        flush(owned);
        rq_owned_release(owned);
    } else {
        step(end);
    }
}

static void on_task(struct rq_task *task)
{
    begin(RQ_CONTAINER_OF(task, struct rq_pop_end, task));
}

/* ---- what workers say ---- */

/* To the loop, unless the consumer is gone. A queue that is not ours any more makes no difference:
 * the handle is. */
static void post(struct rq_pop_end *end)
{
    end->task.run = on_task;
    if (!rq_consumer_post(end->owned->consumer, &end->task)) {
        free_end(end);
    }
}

static void end_messages(struct rq_pulled *pulled, uint32_t from, uint32_t to, bool acks,
                         int delay_level)
{
    struct rq_pop_end *end =
        make_end(rq_owned_of(pulled->queue), pulled->popped, pulled->owner, to - from);
    if (!end) {
        return;
    }
    end->acks = acks;
    end->delay_level = delay_level;
    for (uint32_t i = from; i < to; i++) {
        end->index[end->count++] = (uint32_t)(pulled->views[i] - pulled->owner->items);
    }
    post(end);
}

void rq_pop_ack(struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    end_messages(pulled, from, to, true, 0);
}

void rq_pop_later(struct rq_pulled *pulled, uint32_t from, uint32_t to, int delay_level)
{
    atomic_fetch_add_explicit(&rq_owned_of(pulled->queue)->failed, (int64_t)to - from,
                              memory_order_relaxed);
    if (!rq_pop_is_over(pulled)) { /* else somebody has them by now, and gets on with them */
        end_messages(pulled, from, to, false, delay_level);
    }
    rq_owned_leave(pulled, from, to);
}

void rq_pop_ack_unwanted(struct rq_owned *owned, struct rq_popped *popped, struct rq_views *views,
                         bool (*keep)(const struct rmq_message_view *view, void *user), void *user)
{
    struct rq_pop_end *end = NULL;
    for (size_t i = 0; i < views->count; i++) {
        if (keep(&views->items[i], user)) {
            continue;
        }
        end = end ? end : make_end(owned, popped, views, views->count);
        if (end) {
            end->index[end->count++] = (uint32_t)i;
        }
    }
    if (end) {
        end->acks = true;
        begin(end);
    }
}

bool rq_pop_is_over(const struct rq_pulled *pulled)
{
    return rq_mono_ms() >= pulled->popped->expires_ms;
}
