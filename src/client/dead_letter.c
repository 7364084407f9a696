/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A message of an ordered consumer that was tried too often goes to the retry topic as a new
 * message that has used up its retries, which makes the broker put it into the dead letters. The
 * body goes as it was stored, compressed or not. Java gives it the delay of a retry, too, which
 * brokers of 5.x drop and those of 4.x keep: the letter would lie there for minutes. I/O thread.
 * Counterpart: ConsumeMessageOrderlyService.sendMessageBack.
 */
#include <string.h>

#include "base/time.h"
#include "client/consumer_priv.h"
#include "wire/message.h"
#include "wire/properties.h"

#define DEFAULT_TOPIC  "TBW102"
#define DEFAULT_QUEUES 4
#define BODY_FLAGS     (RQ_SYS_COMPRESSED | RQ_SYS_COMPRESSION_MASK)

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
                             struct rq_buf *out)
{
    char room[RQ_NAMESPACED_MAX];
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
}

void rq_dead_letter_send(struct rq_ask *ask, struct rmq_consumer *consumer, struct rq_peer *peer,
                         const struct rmq_message_view *view)
{
    int32_t most = consumer->options.max_reconsume_times;
    int32_t times = atomic_load_explicit(&view->reconsume_times, memory_order_relaxed);
    struct rq_buf properties;
    rq_buf_init(&properties, 0);
    write_properties(view, consumer->options.namespace_name, &properties);
    struct rq_hdr_send fields = {.producer_group = rq_slice_str(consumer->options.consumer_group),
                                 .topic = rq_slice_str(consumer->retry_topic),
                                 .default_topic = rq_slice_str(DEFAULT_TOPIC),
                                 .default_topic_queue_nums = DEFAULT_QUEUES,
                                 .queue_id = 0,
                                 .sys_flag = view->sys_flag & BODY_FLAGS,
                                 .born_timestamp = rq_wall_ms(),
                                 .flag = view->flag,
                                 .properties = rq_slice(properties.data, properties.len),
                                 .bname = rq_slice_str(view->broker_name)};
    RQ_SET(send, &fields, reconsume_times, times < INT32_MAX ? times + 1 : times);
    RQ_SET(send, &fields, max_reconsume_times, most < 0 ? INT32_MAX : most);
    RQ_SET(send, &fields, unit_mode, false);
    RQ_SET(send, &fields, batch, false);
    rq_consumer_ask_with(consumer, ask, peer, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &fields,
                         rq_slice(view->body, view->body_size), RQ_BACK_TIMEOUT_MS);
    rq_buf_free(&properties);
}
