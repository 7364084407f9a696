/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Messages that go back as copies, as new messages to the retry topic. One of an ordered consumer
 * that was tried too often has used up its retries, which makes the broker put it into the dead
 * letters; Java gives it the delay of a retry, too, which brokers of 5.x drop and those of 4.x
 * keep: the letter would lie there for minutes. One of an inner batch has no record of its own that
 * a broker could send back, and one of a logical queue is at a broker that its queue does not name.
 * The body goes as it was stored, compressed or not. I/O thread.
 * Counterparts: ConsumeMessageOrderlyService.sendMessageBack, DefaultMQPushConsumerImpl's
 * sendMessageBackAsNormalMessage.
 */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "wire/message.h"
#include "wire/properties.h"
#include "wire/static_topic.h"

#define DEFAULT_TOPIC     "TBW102"
#define DEFAULT_QUEUES    4
#define FIRST_DELAY_LEVEL 3 /* of the first retry, then one more for each */
#define BODY_FLAGS        (RQ_SYS_COMPRESSED | RQ_SYS_COMPRESSION_MASK)

static bool is_replaced(const char *name)
{
    static const char *const names[] = {RQ_PROP_DELAY,          RQ_PROP_TRAN_MSG,
                                        RQ_PROP_RETRY_TOPIC,    RQ_PROP_ORIGIN_MESSAGE_ID,
                                        RQ_PROP_RECONSUME_TIME, RQ_PROP_MAX_RECONSUME_TIMES};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void write_properties(const struct rmq_message_view *view, const char *name_space,
                             int delay_level, struct rq_buf *out)
{
    char room[RQ_NAMESPACED_MAX];
    char number[16];
    const char *topic = rq_namespace_wrap(name_space, view->topic, room);
    const char *origin = rq_view_property(view, RQ_PROP_ORIGIN_MESSAGE_ID);
    const char *at = view->properties;
    const char *end = at + view->properties_len;
    while (at < end) {
        const char *value = at + strlen(at) + 1;
        if (!is_replaced(at)) {
            rq_props_add_str(out, 0, at, rq_slice_str(value));
        }
        at = value + strlen(value) + 1;
    }
    rq_props_add_str(out, 0, RQ_PROP_ORIGIN_MESSAGE_ID,
                     rq_slice_str(origin && *origin ? origin : rmq_message_view_id(view)));
    rq_props_add_str(out, 0, RQ_PROP_RETRY_TOPIC, rq_slice_str(topic));
    if (delay_level > 0) {
        (void)snprintf(number, sizeof number, "%d", delay_level);
        rq_props_add_str(out, 0, RQ_PROP_DELAY, rq_slice_str(number));
    }
}

/* times beyond most: to the dead letters. */
static void send_copy(struct rq_ask *ask, struct rmq_consumer *consumer, struct rq_peer *peer,
                      const struct rmq_message_view *view, int32_t times, int32_t most,
                      int delay_level)
{
    struct rq_buf properties;
    rq_buf_init(&properties, 0);
    write_properties(view, consumer->options.namespace_name, delay_level, &properties);
    struct rq_hdr_send fields = {.producer_group = rq_slice_str(consumer->options.consumer_group),
                                 .topic = rq_slice_str(consumer->retry_topic),
                                 .default_topic = rq_slice_str(DEFAULT_TOPIC),
                                 .default_topic_queue_nums = DEFAULT_QUEUES,
                                 .queue_id = 0,
                                 .sys_flag = view->sys_flag & BODY_FLAGS,
                                 .born_timestamp = rq_wall_ms(),
                                 .flag = view->flag,
                                 .properties = rq_slice(properties.data, properties.len)};
    if (!rq_broker_name_is_logical(view->broker_name)) {
        fields.bname = rq_slice_str(view->broker_name);
    }
    RQ_SET(send, &fields, reconsume_times, times);
    RQ_SET(send, &fields, max_reconsume_times, most);
    RQ_SET(send, &fields, unit_mode, false);
    RQ_SET(send, &fields, batch, false);
    rq_consumer_ask_with(consumer, ask, peer, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &fields,
                         rq_slice(view->body, view->body_size), RQ_BACK_TIMEOUT_MS);
    rq_buf_free(&properties);
}

static int32_t next_time(const struct rmq_message_view *view)
{
    int32_t times = atomic_load_explicit(&view->reconsume_times, memory_order_relaxed);
    return times < INT32_MAX ? times + 1 : times;
}

void rq_dead_letter_send(struct rq_ask *ask, struct rmq_consumer *consumer, struct rq_peer *peer,
                         const struct rmq_message_view *view)
{
    int32_t most = consumer->options.max_reconsume_times;
    send_copy(ask, consumer, peer, view, next_time(view), most < 0 ? INT32_MAX : most, 0);
}

bool rq_is_sent_back_as_copy(const struct rmq_message_view *view)
{
    bool inner = (view->sys_flag & RQ_SYS_INNER_BATCH) && (view->sys_flag & RQ_SYS_UNWRAP);
    return inner || rq_broker_name_is_logical(view->broker_name);
}

void rq_send_back_copy(struct rq_ask *ask, struct rmq_consumer *consumer, struct rq_peer *peer,
                       const struct rmq_message_view *view, int delay_level)
{
    int32_t most = rq_consumer_most_reconsumes(consumer);
    int32_t times = next_time(view);
    bool dead = delay_level < 0 || times > most;
    if (dead && times <= most) {
        times = most < INT32_MAX ? most + 1 : most;
    }
    int level = delay_level > 0 ? delay_level : FIRST_DELAY_LEVEL + times - 1;
    send_copy(ask, consumer, peer, view, times, most, dead ? 0 : level);
}
