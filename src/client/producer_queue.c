/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Which queue a send goes to when the program says so: a given one, one by choice, one by key. On
 * the sender's thread, before the operation is taken: a choice is the program's code and may do as
 * it likes. Counterparts: MessageQueueSelector and its implementations.
 */
#include "client/producer_queue.h"

#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/jhash.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/message.h"
#include "client/route_wait.h"
#include "wire/namespace.h"
#include "wire/names.h"
#include "wire/properties.h"

/* a thread that waits for a route looks so often whether the producer is closed */
#define ROUTE_SLICE_MS 200

struct rmq_queues {
    struct rq_route *route;
};

/* ---- routes ---- */

static bool is_closed(struct rmq_producer *producer)
{
    return atomic_load_explicit(&producer->closed, memory_order_relaxed);
}

rmq_status rq_producer_route(struct rmq_producer *producer, const char *topic, size_t topic_len,
                             int64_t deadline_ms, struct rq_route **out, rmq_error **err)
{
    *out = rq_instance_publish_route(producer->instance, rq_slice(topic, topic_len));
    rmq_error *why = NULL;
    rmq_status st = RMQ_OK;
    for (int64_t slice = 0; !*out && slice < deadline_ms && !is_closed(producer);) {
        int64_t now = rq_mono_ms();
        slice = now + ROUTE_SLICE_MS < deadline_ms ? now + ROUTE_SLICE_MS : deadline_ms;
        st = rq_route_wait(producer->instance, topic, producer->options.default_topic_queue_nums,
                           false, slice, out, &why);
        if (st != RMQ_OK && rq_mono_ms() < slice) {
            break; /* an answer, not the end of the slice */
        }
    }
    if (!*out && is_closed(producer)) {
        st = rq_error_set(&why, RMQ_ERR_CLOSED, "the producer is shut down");
    }
    if (st != RMQ_OK && err) {
        *err = why;
    } else {
        rmq_error_destroy(why);
    }
    return st;
}

/* ---- targets ---- */

void rmq_send_options_init(rmq_send_options *options, size_t size)
{
    if (!options || size < sizeof options->struct_size) {
        return;
    }
    memset(options, 0, size);
    options->struct_size = size;
}

rmq_status rq_target_set(struct rq_send_target *target, const rmq_send_options *from,
                         rmq_error **err)
{
    rmq_send_options all;
    rmq_send_options_init(&all, sizeof all);
    if (from && from->struct_size < sizeof from->struct_size) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "send options were not made by rmq_send_options_init");
    }
    if (from) {
        memcpy(&all, from, from->struct_size < sizeof all ? from->struct_size : sizeof all);
    }
    if ((all.broker_name != NULL) + (all.choice != NULL) + (all.sharding_key != NULL) > 1) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "send options: give one of broker name, choice and sharding key");
    }
    if (all.broker_name && all.queue_id < 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "queue %d of broker %s", (int)all.queue_id,
                            all.broker_name);
    }
    *target = (struct rq_send_target){.timeout_ms = all.timeout_ms,
                                      .broker_name = all.broker_name,
                                      .queue_id = all.queue_id,
                                      .choice = all.choice,
                                      .user = all.choice_user,
                                      .key = all.sharding_key};
    return RMQ_OK;
}

static rmq_status set_given(const struct rq_send_target *target, const struct rq_route *route,
                            struct rq_route_queue *queue, rmq_error **err)
{
    return rq_route_find_queue(route, target->broker_name, target->queue_id, queue)
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_NO_BROKER,
                              "broker %s is not in the route of topic %s, or not with queue %d",
                              target->broker_name, route->topic, (int)target->queue_id);
}

/* |hash mod n| in 32 bits, as Java has it. */
static size_t index_by_key(const char *key, size_t count)
{
    int32_t n = (int32_t)count;
    int32_t rest = rq_java_hash(rq_slice_str(key)) % n;
    return (size_t)(rest < 0 ? -rest : rest);
}

static size_t choose(const struct rq_send_target *target, const rmq_message *message,
                     struct rq_route *route)
{
    if (target->selector) {
        return target->selector(message, route->publish_count, target->user);
    }
    if (target->choice) {
        struct rmq_queues queues = {.route = route};
        return target->choice(message, &queues, target->user);
    }
    return index_by_key(target->key, route->publish_count);
}

static rmq_status set_chosen(const struct rmq_producer *producer,
                             const struct rq_send_target *target, const rmq_message *message,
                             struct rq_route *route, struct rq_route_queue *queue, rmq_error **err)
{
    size_t count = route->publish_count;
    if (count == 0) {
        return rq_error_set(err, RMQ_ERR_NO_ROUTE, "topic %s has no queue that takes messages",
                            route->topic);
    }
    const struct rmq_producer *before = rq_producer_set_asking(producer);
    size_t index = choose(target, message, route);
    (void)rq_producer_set_asking(before);
    if (index == SIZE_MAX) { /* as rmq_choose_by_hash without a key */
        return rq_error_set(err, RMQ_ERR_INVALID, "the selector chose none of the %zu queues",
                            count);
    }
    if (index >= count) {
        return rq_error_set(err, RMQ_ERR_INVALID, "the selector returned queue %zu of %zu", index,
                            count);
    }
    *queue = route->publish[index];
    return RMQ_OK;
}

/* The key of the messages' group, if they have one. */
static rmq_status take_group(struct rq_send_target *target, const rmq_message *const *messages,
                             size_t count, rmq_error **err)
{
    for (size_t i = 1; i < count; i++) {
        if (!rq_message_same_group(messages[0], messages[i])) {
            return rq_error_set(
                err, RMQ_ERR_INVALID,
                "message %zu of the batch has message group \"%s\", the first \"%s\": a batch "
                "goes to one queue",
                i, rmq_message_property(messages[i], RQ_PROP_SHARDING_KEY),
                rmq_message_property(messages[0], RQ_PROP_SHARDING_KEY));
        }
    }
    if (messages[0]->grouped) {
        target->key = rmq_message_property(messages[0], RQ_PROP_SHARDING_KEY);
    }
    return RMQ_OK;
}

rmq_status rq_target_find(struct rmq_producer *producer, struct rq_send_target *target,
                          const rmq_message *const *messages, size_t count, int64_t deadline_ms,
                          struct rq_route **route, struct rq_route_queue *queue, rmq_error **err)
{
    const rmq_message *message = messages[0];
    rmq_status st = rq_target_is_chosen(target) ? RMQ_OK : take_group(target, messages, count, err);
    if (st == RMQ_OK && !rq_target_is_chosen(target)) {
        *route = rq_instance_publish_route(producer->instance,
                                           rq_slice(message->text, message->topic_len));
        return RMQ_OK; /* without one, the operation looks it up */
    }
    if (st == RMQ_OK) {
        st =
            rq_producer_route(producer, message->text, message->topic_len, deadline_ms, route, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    st = target->broker_name ? set_given(target, *route, queue, err)
                             : set_chosen(producer, target, message, *route, queue, err);
    if (st != RMQ_OK) {
        rq_route_release(*route);
        *route = NULL;
    }
    return st;
}

/* ---- choices ---- */

size_t rmq_choose_by_hash(const rmq_message *message, const rmq_queues *queues, void *user)
{
    (void)message;
    size_t count = rmq_queues_count(queues);
    return count > 0 && user ? index_by_key(user, count) : SIZE_MAX;
}

/* A counter whose bits are mixed (the finalizer of MurmurHash3): threads share it, and neighbours
 * are far apart. */
static uint64_t next_random(void)
{
    static atomic_uint_fast64_t turn; /* atomic: relaxed */
    uint64_t x = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) + (uint64_t)rq_mono_us();
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

size_t rmq_choose_by_random(const rmq_message *message, const rmq_queues *queues, void *user)
{
    (void)message;
    (void)user;
    size_t count = rmq_queues_count(queues);
    return count > 0 ? (size_t)(next_random() % count) : SIZE_MAX;
}

/* Whether a broker "room@name" stands in one of the rooms "a,b". */
static bool is_in_room(const char *broker, const char *rooms)
{
    size_t n = strcspn(broker, "@");
    if (broker[n] != '@') {
        return false;
    }
    for (const char *p = rooms; *p; p += *p == ',') {
        size_t len = strcspn(p, ",");
        if (len == n && memcmp(p, broker, n) == 0) {
            return true;
        }
        p += len;
    }
    return false;
}

size_t rmq_choose_by_machine_room(const rmq_message *message, const rmq_queues *queues, void *user)
{
    static atomic_uint turn; /* atomic: relaxed */
    (void)message;
    size_t count = rmq_queues_count(queues);
    unsigned start = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
    size_t near = 0;
    for (size_t i = 0; user && i < count; i++) {
        near += is_in_room(rmq_queues_broker_name(queues, i), user);
    }
    if (near == 0) {
        return count > 0 ? start % count : SIZE_MAX;
    }
    size_t wanted = start % near;
    size_t i = 0;
    while (!is_in_room(rmq_queues_broker_name(queues, i), user) || wanted-- > 0) {
        i++;
    }
    return i;
}

/* ---- queues of a topic ---- */

rmq_status rmq_producer_publish_queues(rmq_producer *producer, const char *topic,
                                       int64_t timeout_ms, rmq_queues **out, rmq_error **err)
{
    if (!topic || !out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "publish queues: topic and out are required");
    }
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_route *route = NULL;
    char room[RQ_NAMESPACED_MAX];
    topic = rq_namespace_wrap(producer->options.namespace_name, topic, room);
    int64_t deadline = rq_producer_deadline_ms(producer, rq_mono_ms(), timeout_ms);
    st = rq_topic_check(rq_slice_str(topic), err);
    if (st == RMQ_OK) {
        st = rq_producer_route(producer, topic, strlen(topic), deadline, &route, err);
    }
    rq_producer_leave(producer);
    if (st != RMQ_OK) {
        return st;
    }
    struct rmq_queues *queues = rq_alloc(sizeof *queues);
    if (!queues) {
        rq_route_release(route);
        return rq_error_set(err, RMQ_ERR_NOMEM, "queues of topic %s", topic);
    }
    queues->route = route;
    *out = queues;
    return RMQ_OK;
}

size_t rmq_queues_count(const rmq_queues *queues)
{
    return queues ? queues->route->publish_count : 0;
}

const char *rmq_queues_broker_name(const rmq_queues *queues, size_t index)
{
    return index < rmq_queues_count(queues) ? queues->route->publish[index].broker_name : NULL;
}

int32_t rmq_queues_queue_id(const rmq_queues *queues, size_t index)
{
    return index < rmq_queues_count(queues) ? queues->route->publish[index].id : -1;
}

void rmq_queues_free(rmq_queues *queues)
{
    if (queues) {
        rq_route_release(queues->route);
        rq_free(queues);
    }
}
