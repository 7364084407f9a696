/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What an answer to a pop says of its messages besides themselves: the handle of each, by which it
 * is acknowledged, and how long they are nobody else's. And what is asked about such messages
 * afterwards, made of their handles. Pure, any thread; what is made is immutable. Counterparts:
 * MQClientAPIImpl.processPopResponse, ExtraInfoUtil, BatchAck.
 */
#ifndef RQ_CLIENT_POPPED_H
#define RQ_CLIENT_POPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "client/message.h"
#include "wire/frame.h"
#include "wire/headers.h"
#include "wire/pop.h"

struct rq_popped {
    atomic_int refs; /* atomic: relaxed up, acq_rel down: the last one frees */
    /* monotonic: what is not acknowledged by then the broker gives to others */
    int64_t expires_ms;
    struct rq_buf handles; /* NUL-terminated texts */
    size_t at[];           /* where the handle of each view begins */
};

/* header: of the answer; now_ms: when it came. Messages of an ordered pop get their reconsume
 * times. Errors: RMQ_ERR_PROTOCOL, RMQ_ERR_NOMEM. */
rmq_status rq_popped_create(struct rq_views *views, const struct rq_header *header,
                            const char *broker_name, int64_t now_ms, struct rq_popped **out,
                            rmq_error **err);
void rq_popped_retain(struct rq_popped *popped);
void rq_popped_release(struct rq_popped *popped); /* NULL is accepted */

/* Borrowed. */
static inline const char *rq_popped_handle(const struct rq_popped *popped,
                                           const struct rmq_message_view *view)
{
    return popped->handles.data + popped->at[view - view->views->items];
}

/* ---- requests ---- */

/* A handle in pieces, and what is made of it. */
struct rq_pop_place {
    struct rq_pop_handle handle;
    char broker_name[RQ_NAME_MAX];
    char room[RQ_POP_TOPIC_ROOM];
    struct rq_slice topic; /* the real one: perhaps a retry topic */
};

/* false: the text is no handle of a popped message. */
bool rq_pop_place_read(const char *group, const char *topic, const char *handle,
                       struct rq_pop_place *out);

/* Header of ACK_MESSAGE and CHANGE_MESSAGE_INVISIBLETIME; borrows from all three. */
struct rq_hdr_ack rq_pop_place_header(const struct rq_pop_place *place, const char *group,
                                      const char *handle);

/* Acknowledgements that travel together, as far as they are of one broker. */
struct rq_pop_acks {
    const char *group;
    const char *topic;
    const char *const *handles;
    size_t count;
    bool *done; /* by handle */
};

/* Whether a handle that is not done may be in a request for the broker. */
bool rq_pop_acks_fits(const struct rq_pop_acks *acks, size_t i, struct rq_slice broker_name);

/* Body of BATCH_ACK_MESSAGE with all that fits; these are done then. */
void rq_pop_acks_write(struct rq_pop_acks *acks, struct rq_slice broker_name, struct rq_buf *out);

#endif
