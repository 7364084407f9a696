/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Messages of a producer with a namespace: they go out as copies, with the same body, whose topic
 * has its full name. On the sender's thread; without a namespace nothing is done. Counterpart:
 * ClientConfig.withNamespace.
 */
#include "base/err.h"
#include "base/mem.h"
#include "client/message.h"
#include "client/producer.h"
#include "wire/namespace.h"
#include "wire/properties.h"

/* A reply goes to the topic of the cluster, which is in no namespace. */
static rmq_status name_message(const struct rmq_producer *producer, const rmq_message *message,
                               rmq_message **out, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const char *name_space = producer->options.namespace_name;
    const char *topic = rmq_message_topic(message);
    topic = message->reply ? topic : rq_namespace_wrap(name_space, topic, room);
    rmq_error *why = NULL;
    rmq_status st = rq_message_copy_to(message, topic, out, &why);
    if (st != RMQ_OK) {
        rq_error_set(err, st, "with its namespace \"%s\": %s", name_space, rmq_error_message(why));
        rmq_error_destroy(why);
        return st;
    }
    st = rq_message_put(*out, RQ_PROP_INSTANCE_ID, name_space);
    return st == RMQ_OK ? st : rq_error_set(err, st, "message of topic %s", topic);
}

rmq_status rq_producer_name(const struct rmq_producer *producer, const rmq_message *const *messages,
                            size_t count, struct rq_named *out, rmq_error **err)
{
    *out = (struct rq_named){.messages = messages};
    if (!producer->options.namespace_name) {
        return RMQ_OK;
    }
    out->copies = rq_calloc(count, sizeof(rmq_message *));
    if (!out->copies) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%zu messages", count);
    }
    out->count = count;
    out->messages = (const rmq_message *const *)out->copies;
    rmq_status st = RMQ_OK;
    for (size_t i = 0; st == RMQ_OK && i < count; i++) {
        st = name_message(producer, messages[i], &out->copies[i], err);
    }
    if (st != RMQ_OK) {
        rq_producer_unname(out);
    }
    return st;
}

void rq_producer_unname(struct rq_named *named)
{
    for (size_t i = 0; i < named->count; i++) {
        rmq_message_destroy(named->copies[i]);
    }
    rq_free(named->copies);
    *named = (struct rq_named){0};
}
