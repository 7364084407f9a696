/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Notices of changed queues (see the header). Made on the I/O thread, told on the callback
 * thread. */
#include "client/owned.h"
#include "client/queue_notices.h"

#include "base/log.h"
#include "base/mem.h"
#include "client/consumer_priv.h"
#include "client/queue_list.h"
#include "client/subscribed.h"

struct notice {
    struct rq_work work;
    struct rq_callbacks *callbacks;
    rmq_queues_changed_fn fn;
    void *user;
    char *topic;
    rmq_queue_list *all;
    rmq_queue_list *mine;
};

rmq_status rq_queue_list_of_share(struct rq_subscribed *topic, struct rmq_queue_list **out)
{
    struct rmq_queue_list *list = NULL;
    rmq_status st = rmq_queue_list_create(&list, NULL);
    for (struct rq_list *node = topic->queues.next; st == RMQ_OK && node != &topic->queues;
         node = node->next) {
        struct rq_mq name = RQ_CONTAINER_OF(node, struct rq_owned, node)->name;
        name.topic = rq_consumer_plain(topic->consumer, name.topic);
        st = rq_queue_list_add(list, &name);
    }
    if (st != RMQ_OK) {
        rmq_queue_list_destroy(list);
        return st;
    }
    *out = list;
    return RMQ_OK;
}

static void free_notice(struct notice *notice)
{
    rmq_queue_list_destroy(notice->all);
    rmq_queue_list_destroy(notice->mine);
    rq_free(notice->topic);
    rq_free(notice);
}

static void tell(struct rq_work *work)
{
    struct notice *notice = RQ_CONTAINER_OF(work, struct notice, work);
    struct rq_callbacks *callbacks = notice->callbacks;
    if (!rq_callbacks_is_closed(callbacks)) {
        notice->fn(notice->topic, notice->all, notice->mine, notice->user);
    }
    free_notice(notice);
    rq_callbacks_leave(callbacks);
}

static rmq_status fill(struct notice *notice, struct rq_subscribed *topic)
{
    const char *plain = rq_consumer_plain(topic->consumer, topic->topic);
    notice->topic = rq_strdup(plain);
    rmq_status st = notice->topic ? RMQ_OK : RMQ_ERR_NOMEM;
    if (st == RMQ_OK) {
        st = topic->route ? rq_queue_list_of_route(topic->route, plain, &notice->all)
                          : rmq_queue_list_create(&notice->all, NULL);
    }
    return st == RMQ_OK ? rq_queue_list_of_share(topic, &notice->mine) : st;
}

void rq_queue_notices_post(struct rq_callbacks *callbacks, struct rq_subscribed *topic,
                           rmq_queues_changed_fn fn, void *user)
{
    struct notice *notice = rq_calloc(1, sizeof *notice);
    if (notice && fill(notice, topic) == RMQ_OK &&
        rq_callbacks_enter(callbacks, true, NULL) == RMQ_OK) {
        notice->work.run = tell;
        notice->callbacks = callbacks;
        notice->fn = fn;
        notice->user = user;
        rq_callbacks_post(callbacks, &notice->work);
        return;
    }
    if (!rq_callbacks_is_closed(callbacks)) {
        RQ_LOG(WARN, "a change of queues could not be told", "topic=%s", topic->topic);
    }
    if (notice) {
        free_notice(notice);
    }
}
