/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Members that fetch: pull (its share of the queues, one after the other), lite pull, pop. A
 * message that is to come again is left unacknowledged. */
#include <string.h>

#include "members/member.h"

#define MOST 32 /* messages of one request */

/* Where the group stands in a queue; a group without an offset begins at the first. */
static bool find_offset(rmq_pull_consumer *consumer, const struct member *member,
                        const char *broker, int32_t id, int64_t *out)
{
    rmq_error *err = NULL;
    rmq_status st =
        rmq_pull_consumer_fetch_offset(consumer, member->topic, broker, id, false, 0, out, &err);
    if (st == RMQ_ERR_NOT_FOUND) {
        rmq_error_destroy(err);
        err = NULL;
        st = rmq_pull_consumer_min_offset(consumer, member->topic, broker, id, 0, out, &err);
    }
    return member_good("offset", st, err);
}

/* One pull of one queue: how many messages were taken. */
static size_t pull_queue(rmq_pull_consumer *consumer, const struct member *member,
                         const char *broker, int32_t id)
{
    rmq_pull_result *result = NULL;
    rmq_error *err = NULL;
    int64_t offset = 0;
    if (!find_offset(consumer, member, broker, id, &offset)) {
        return 0;
    }
    if (!member_good("pull",
                     rmq_pull_consumer_pull(consumer, member->topic, broker, id, "*", offset, MOST,
                                            0, &result, &err),
                     err)) {
        return 0;
    }
    size_t count = rmq_pull_result_count(result);
    bool good = true;
    for (size_t i = 0; good && i < count; i++) {
        good = member_take(member, rmq_pull_result_at(result, i));
    }
    int64_t next = rmq_pull_result_next_begin_offset(result);
    rmq_pull_result_destroy(result);
    err = NULL;
    if (good) {
        member_good(
            "update",
            rmq_pull_consumer_update_offset(consumer, member->topic, broker, id, next, &err), err);
    }
    return count;
}

static size_t pull_share(rmq_pull_consumer *consumer, const struct member *member)
{
    rmq_queue_list *mine = NULL;
    size_t count = 0;
    rmq_error *err = NULL;
    if (!member_good("share",
                     rmq_pull_consumer_queues_in_balance(consumer, member->topic, &mine, &err),
                     err)) {
        return 0;
    }
    for (size_t i = 0; i < rmq_queue_list_count(mine) && !member_over(); i++) {
        count += pull_queue(consumer, member, rmq_queue_list_broker_name(mine, i),
                            rmq_queue_list_queue_id(mine, i));
    }
    rmq_queue_list_destroy(mine);
    return count;
}

static bool run_pull(rmq_pull_consumer *consumer, const struct member *member)
{
    rmq_error *err = NULL;
    if (!member_good("register", rmq_pull_consumer_register_topic(consumer, member->topic, &err),
                     err)) {
        return false;
    }
    err = NULL;
    if (!member_good("start", rmq_pull_consumer_start(consumer, &err), err)) {
        return false;
    }
    while (!member_over_within(pull_share(consumer, member) > 0 ? 0 : 20)) {
    }
    err = NULL;
    return member_good("shutdown", rmq_pull_consumer_shutdown(consumer, 0, &err), err);
}

bool member_pull(const struct member *member)
{
    rmq_pull_consumer_options options;
    rmq_pull_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = member->group;
    options.namesrv_addr = member->namesrv;
    options.persist_consumer_offset_interval_ms = 1000;
    bool good = member_good("consumer", rmq_pull_consumer_create(&options, &consumer, &err), err) &&
                run_pull(consumer, member);
    rmq_pull_consumer_destroy(consumer);
    return good;
}

static bool run_lite(rmq_lite_pull_consumer *consumer, const struct member *member)
{
    rmq_error *err = NULL;
    if (!member_good("subscribe",
                     rmq_lite_pull_consumer_subscribe(consumer, member->topic, "*", &err), err)) {
        return false;
    }
    err = NULL;
    if (!member_good("start", rmq_lite_pull_consumer_start(consumer, &err), err)) {
        return false;
    }
    while (!member_over()) {
        rmq_batch *batch = NULL;
        if (rmq_lite_pull_consumer_poll(consumer, &batch, 200, NULL) != RMQ_OK) {
            continue;
        }
        for (size_t i = 0; i < rmq_batch_count(batch); i++) {
            member_take(member, rmq_batch_at(batch, i));
        }
        rmq_batch_destroy(batch);
    }
    err = NULL;
    return member_good("shutdown", rmq_lite_pull_consumer_shutdown(consumer, 0, &err), err);
}

bool member_lite(const struct member *member)
{
    rmq_lite_pull_consumer_options options;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = member->group;
    options.namesrv_addr = member->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.auto_commit_interval_ms = 1000;
    bool good =
        member_good("consumer", rmq_lite_pull_consumer_create(&options, &consumer, &err), err) &&
        run_lite(consumer, member);
    rmq_lite_pull_consumer_destroy(consumer);
    return good;
}

/* What is not acknowledged is popped again when its time is over. */
static void take_popped(rmq_pop_consumer *consumer, const struct member *member,
                        const rmq_pop_result *result)
{
    const char *handles[MOST];
    size_t taken = 0;
    rmq_error *err = NULL;
    for (size_t i = 0; i < rmq_pop_result_count(result) && taken < MOST; i++) {
        if (member_take(member, rmq_pop_result_at(result, i))) {
            handles[taken++] = rmq_pop_result_handle(result, i);
        }
    }
    if (taken > 0) {
        member_good("acknowledge",
                    rmq_pop_consumer_ack_batch(consumer, member->topic, handles, taken, 0, &err),
                    err);
    }
}

static bool run_pop(rmq_pop_consumer *consumer, const struct member *member)
{
    rmq_error *err = NULL;
    while (!member_over()) {
        rmq_pop_result *result = NULL;
        rmq_status st =
            rmq_pop_consumer_pop(consumer, member->topic, "*", MOST, 500, &result, NULL);
        if (st == RMQ_OK) {
            take_popped(consumer, member, result);
            rmq_pop_result_destroy(result);
        } else if (st != RMQ_ERR_TIMEOUT) {
            member_over_within(100);
        }
    }
    return member_good("shutdown", rmq_pop_consumer_shutdown(consumer, &err), err);
}

bool member_pop(const struct member *member)
{
    rmq_pop_consumer_options options;
    rmq_pop_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_pop_consumer_options_init(&options, sizeof options);
    options.consumer_group = member->group;
    options.namesrv_addr = member->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.pop_invisible_time_ms = 5000;
    bool good = member_good("consumer", rmq_pop_consumer_create(&options, &consumer, &err), err) &&
                run_pop(consumer, member);
    rmq_pop_consumer_destroy(consumer);
    return good;
}
