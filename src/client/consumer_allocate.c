/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * How a consumer shares the queues with the other members: its options made into the input of
 * rq_allocate, or the program's own function. Options are read at create, shares computed on the
 * I/O thread. Counterparts: AllocateMessageQueueStrategy and its implementations.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/consumer_priv.h"

#define NEARBY         "MACHINE_ROOM_NEARBY"
#define BETWEEN_ROOMS  ","
#define BETWEEN_QUEUES ";\n"

/* ---- options ---- */

/* The most pieces that a text can have. */
static size_t count_pieces(const char *text, const char *separators)
{
    size_t count = text && *text ? 1 : 0;
    for (const char *at = text; count > 0 && *at; at++) {
        count += strchr(separators, *at) ? 1 : 0;
    }
    return count;
}

/* "room1,room2" */
static rmq_status read_rooms(struct rq_sharing *sharing, const char *text, rmq_error **err)
{
    size_t count = count_pieces(text, BETWEEN_ROOMS);
    if (count == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "MACHINE_ROOM needs the option machineRooms");
    }
    sharing->rooms_text = rq_strdup(text);
    sharing->rooms = rq_calloc(count, sizeof *sharing->rooms);
    if (!sharing->rooms_text || !sharing->rooms) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "machineRooms");
    }
    char *rest = NULL;
    for (char *room = strtok_r(sharing->rooms_text, BETWEEN_ROOMS, &rest); room;
         room = strtok_r(NULL, BETWEEN_ROOMS, &rest)) {
        sharing->rooms[sharing->room_count++] = room;
    }
    return RMQ_OK;
}

/* "topic broker queueId" */
static bool read_queue(char *text, struct rq_mq *out)
{
    char *rest = NULL;
    char *end = NULL;
    char *topic = strtok_r(text, " ", &rest);
    char *broker = strtok_r(NULL, " ", &rest);
    char *id = strtok_r(NULL, " ", &rest);
    long number = id ? strtol(id, &end, 10) : -1;
    *out = (struct rq_mq){.topic = topic, .broker_name = broker, .queue_id = (int32_t)number};
    return id && *end == '\0' && number >= 0 && number <= INT32_MAX;
}

static rmq_status read_queues(struct rq_sharing *sharing, const char *text, rmq_error **err)
{
    size_t count = count_pieces(text, BETWEEN_QUEUES);
    if (count == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "CONFIG needs the option messageQueues");
    }
    sharing->queues_text = rq_strdup(text);
    sharing->queues = rq_calloc(count, sizeof *sharing->queues);
    if (!sharing->queues_text || !sharing->queues) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "messageQueues");
    }
    char *rest = NULL;
    for (char *item = strtok_r(sharing->queues_text, BETWEEN_QUEUES, &rest); item;
         item = strtok_r(NULL, BETWEEN_QUEUES, &rest)) {
        if (!read_queue(item, &sharing->queues[sharing->queue_count++])) {
            return rq_error_set(err, RMQ_ERR_INVALID,
                                "messageQueues: item %zu is not \"topic broker queueId\"",
                                sharing->queue_count);
        }
    }
    return RMQ_OK;
}

/* MACHINE_ROOM_NEARBY, or with the strategy within a room: MACHINE_ROOM_NEARBY-CONSISTENT_HASH. */
static bool read_strategy(struct rq_sharing *sharing, const char *name)
{
    size_t n = strlen(NEARBY);
    sharing->inner = RQ_ALLOCATE_AVG;
    if (strncmp(name, NEARBY "-", n + 1) == 0) {
        sharing->strategy = RQ_ALLOCATE_MACHINE_ROOM_NEARBY;
        return rq_allocate_strategy_find(name + n + 1, &sharing->inner) &&
               sharing->inner <= RQ_ALLOCATE_CONSISTENT_HASH;
    }
    return rq_allocate_strategy_find(name, &sharing->strategy);
}

rmq_status rq_sharing_init(struct rmq_consumer *consumer, rmq_error **err)
{
    const rmq_consumer_options *options = &consumer->options;
    struct rq_sharing *sharing = &consumer->sharing;
    const char *name = options->allocate_strategy ? options->allocate_strategy : "AVG";
    if (!read_strategy(sharing, name)) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "allocateMessageQueueStrategy '%s' is none of AVG, AVG_BY_CIRCLE, "
                            "CONSISTENT_HASH, MACHINE_ROOM, MACHINE_ROOM_NEARBY, "
                            "MACHINE_ROOM_NEARBY-<one of the first three>, CONFIG",
                            name);
    }
    switch (sharing->strategy) {
    case RQ_ALLOCATE_MACHINE_ROOM:
        return read_rooms(sharing, options->machine_rooms, err);
    case RQ_ALLOCATE_CONFIG:
        return read_queues(sharing, options->message_queues, err);
    case RQ_ALLOCATE_MACHINE_ROOM_NEARBY:
        return options->machine_room
                   ? RMQ_OK
                   : rq_error_set(err, RMQ_ERR_INVALID,
                                  "MACHINE_ROOM_NEARBY needs the function machine_room");
    default:
        return RMQ_OK;
    }
}

void rq_sharing_clear(struct rq_sharing *sharing)
{
    rq_free(sharing->rooms);
    rq_free(sharing->rooms_text);
    rq_free(sharing->queues);
    rq_free(sharing->queues_text);
}

/* ---- shares ---- */

static struct rq_slice room_of(const char *name, void *user)
{
    const struct rmq_consumer *consumer = user;
    size_t n = 0;
    const char *room = consumer->options.machine_room(name, &n, consumer->options.allocate_user);
    return rq_slice(room ? room : "", room ? n : 0);
}

static size_t index_of(const struct rq_allocate *in, const struct rmq_queue_list *list, size_t at)
{
    struct rq_mq name = {.topic = rmq_queue_list_topic(list, at),
                         .broker_name = rmq_queue_list_broker_name(list, at),
                         .queue_id = rmq_queue_list_queue_id(list, at)};
    size_t i = 0;
    while (i < in->queue_count && !rq_mq_equal(&in->queues[i], &name)) {
        i++;
    }
    return i;
}

/* Queues that the topic does not have are left out, and those that were named twice. */
static size_t take_chosen(const struct rq_allocate *in, const struct rmq_queue_list *mine,
                          size_t *picked)
{
    size_t count = 0;
    for (size_t i = 0; i < rmq_queue_list_count(mine); i++) {
        size_t at = index_of(in, mine, i);
        size_t k = 0;
        while (k < count && picked[k] != at) {
            k++;
        }
        if (at < in->queue_count && k == count) {
            picked[count++] = at;
        }
    }
    return count;
}

static rmq_status ask_program(struct rmq_consumer *consumer, const struct rq_allocate *in,
                              size_t *picked, size_t *count)
{
    rmq_queue_list *all = NULL;
    rmq_queue_list *mine = NULL;
    rmq_status st = rmq_queue_list_create(&all, NULL);
    if (st == RMQ_OK) {
        st = rmq_queue_list_create(&mine, NULL);
    }
    for (size_t i = 0; st == RMQ_OK && i < in->queue_count; i++) {
        st = rmq_queue_list_add(all, in->queues[i].topic, in->queues[i].broker_name,
                                in->queues[i].queue_id, NULL);
    }
    if (st == RMQ_OK) {
        st = consumer->options.allocate(in->client_id, all, in->clients, in->client_count, mine,
                                        consumer->options.allocate_user);
    }
    if (st == RMQ_OK) {
        *count = take_chosen(in, mine, picked);
    }
    rmq_queue_list_destroy(all);
    rmq_queue_list_destroy(mine);
    return st;
}

rmq_status rq_sharing_compute(struct rmq_consumer *consumer, struct rq_allocate *in, size_t *picked,
                              size_t *count)
{
    const struct rq_sharing *sharing = &consumer->sharing;
    if (consumer->options.message_model == RMQ_BROADCASTING) {
        return rq_allocate(RQ_ALLOCATE_AVG, in, picked, count, NULL);
    }
    if (consumer->options.allocate) {
        return ask_program(consumer, in, picked, count);
    }
    in->virtual_nodes = RQ_ALLOCATE_VIRTUAL_NODES;
    in->rooms = sharing->rooms;
    in->room_count = sharing->room_count;
    in->inner = sharing->inner;
    in->room_of = room_of;
    in->room_user = consumer;
    in->configured = sharing->queues;
    in->configured_count = sharing->queue_count;
    return rq_allocate(sharing->strategy, in, picked, count, NULL);
}
