/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Push members: concurrent, ordered, popping, broadcasting; a listener on four workers. */
#include "members/member.h"

static bool take_each(const rmq_message_view *const *messages, size_t count, void *user)
{
    for (size_t i = 0; i < count; i++) {
        if (!member_take(user, messages[i])) {
            return false;
        }
    }
    return true;
}

static rmq_consume_result take_all(const rmq_message_view *const *messages, size_t count,
                                   rmq_consume_context *context, void *user)
{
    rmq_consume_context_set_delay_level(context, 1);
    return take_each(messages, count, user) ? RMQ_CONSUME_SUCCESS : RMQ_RECONSUME_LATER;
}

static rmq_consume_result take_popped(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    (void)context; /* what is asked for again is hidden for ten seconds, the least there is */
    return take_each(messages, count, user) ? RMQ_CONSUME_SUCCESS : RMQ_RECONSUME_LATER;
}

static rmq_consume_result take_in_order(const rmq_message_view *const *messages, size_t count,
                                        rmq_consume_context *context, void *user)
{
    rmq_consume_context_set_suspend_ms(context, 50);
    return take_each(messages, count, user) ? RMQ_CONSUME_SUCCESS
                                            : RMQ_SUSPEND_CURRENT_QUEUE_A_MOMENT;
}

static bool run(rmq_consumer *consumer, const struct member *member)
{
    rmq_error *err = NULL;
    if (!member_good("subscribe", rmq_consumer_subscribe(consumer, member->topic, "*", &err),
                     err)) {
        return false;
    }
    err = NULL;
    if (!member_good("start", rmq_consumer_start(consumer, &err), err)) {
        return false;
    }
    while (!member_over_within(60000)) {
    }
    err = NULL;
    return member_good("shutdown", rmq_consumer_shutdown(consumer, 0, &err), err);
}

/* What all of them have in common. */
static rmq_consumer_options options_of(const struct member *member, rmq_listener_fn listener)
{
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = member->group;
    options.namesrv_addr = member->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 4;
    options.listener = listener;
    options.local_offset_store_dir = member->offsets;
    if (member->instance != NULL) {
        options.instance_name = member->instance;
    }
    if (member->strategy != NULL) {
        options.allocate_strategy = member->strategy;
    }
    return options;
}

static bool push(const struct member *member, rmq_consumer_options *options)
{
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    struct member copy = *member; /* a listener's user is not const */
    options->listener_user = &copy;
    bool good = member_good("consumer", rmq_consumer_create(options, &consumer, &err), err) &&
                run(consumer, member);
    rmq_consumer_destroy(consumer);
    return good;
}

bool member_push(const struct member *member)
{
    rmq_consumer_options options = options_of(member, take_all);
    return push(member, &options);
}

bool member_ordered(const struct member *member)
{
    rmq_consumer_options options = options_of(member, take_in_order);
    options.consume_orderly = true;
    return push(member, &options);
}

bool member_popping(const struct member *member)
{
    rmq_consumer_options options = options_of(member, take_popped);
    options.client_rebalance = false;
    options.pop_invisible_time_ms = 5000;
    return push(member, &options);
}

bool member_broadcast(const struct member *member)
{
    rmq_consumer_options options = options_of(member, take_all);
    options.message_model = RMQ_BROADCASTING;
    return push(member, &options);
}
