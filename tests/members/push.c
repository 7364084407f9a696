/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Push members: concurrent, ordered, broadcasting; a listener on four workers. */
#include "members/member.h"

static rmq_consume_result take_all(const rmq_message_view *const *messages, size_t count,
                                   rmq_consume_context *context, void *user)
{
    for (size_t i = 0; i < count; i++) {
        if (!member_take(user, messages[i])) {
            rmq_consume_context_set_delay_level(context, 1);
            return RMQ_RECONSUME_LATER;
        }
    }
    return RMQ_CONSUME_SUCCESS;
}

static rmq_consume_result take_in_order(const rmq_message_view *const *messages, size_t count,
                                        rmq_consume_context *context, void *user)
{
    for (size_t i = 0; i < count; i++) {
        if (!member_take(user, messages[i])) {
            rmq_consume_context_set_suspend_ms(context, 50);
            return RMQ_SUSPEND_CURRENT_QUEUE_A_MOMENT;
        }
    }
    return RMQ_CONSUME_SUCCESS;
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

static bool push(const struct member *member, bool orderly, rmq_message_model model)
{
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    struct member copy = *member; /* a listener's user is not const */
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = member->group;
    options.namesrv_addr = member->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 4;
    options.listener = orderly ? take_in_order : take_all;
    options.listener_user = &copy;
    options.consume_orderly = orderly;
    options.message_model = model;
    options.local_offset_store_dir = member->offsets;
    if (member->instance != NULL) {
        options.instance_name = member->instance;
    }
    if (member->strategy != NULL) {
        options.allocate_strategy = member->strategy;
    }
    bool good = member_good("consumer", rmq_consumer_create(&options, &consumer, &err), err) &&
                run(consumer, member);
    rmq_consumer_destroy(consumer);
    return good;
}

bool member_push(const struct member *member)
{
    return push(member, false, RMQ_CLUSTERING);
}

bool member_ordered(const struct member *member)
{
    return push(member, true, RMQ_CLUSTERING);
}

bool member_broadcast(const struct member *member)
{
    return push(member, false, RMQ_BROADCASTING);
}
