/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Appending of messages, with the detour of delayed ones. Any thread. Counterpart:
 * HookUtils.handleScheduleMessage. */
#include "broker/put.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "broker/broker.h"
#include "wire/names.h"
#include "wire/properties.h"

/* The message as the schedule topic holds it. props is the caller's, to be freed after the
 * append. */
static void divert(const struct rmq_broker *broker, struct rq_msg *msg, int level,
                   struct rq_buf *props)
{
    int highest = broker->schedule.level_count;
    level = level > highest ? highest : level;
    rq_buf_add_slice(props, msg->properties);
    if (props->len && props->data[props->len - 1] != RQ_PROP_VALUE_END) {
        rq_buf_add_char(props, RQ_PROP_VALUE_END);
    }
    rq_buf_add_slice(props, msg->more_properties);
    rq_props_add_str(props, 0, RQ_PROP_REAL_TOPIC, msg->topic);
    rq_props_add_i64(props, 0, RQ_PROP_REAL_QID, msg->queue_id);
    msg->properties = rq_slice(props->data, props->len);
    msg->more_properties = rq_slice(NULL, 0);
    msg->topic = rq_slice_str(RQ_TOPIC_SCHEDULE);
    msg->queue_id = level - 1;
}

/* A level beyond the highest is the highest, and the stored property says so, because the store
 * reads it again. */
static void clamp_level(const struct rmq_broker *broker, struct rq_buf *props)
{
    static const char *const names[] = {RQ_PROP_DELAY};
    struct rq_buf copy;
    rq_buf_init(&copy, 0);
    rq_props_copy_without(&copy, 0, rq_slice(props->data, props->len), names, 1);
    rq_props_add_i64(&copy, 0, RQ_PROP_DELAY, broker->schedule.level_count);
    rq_buf_free(props);
    *props = copy;
}

enum rq_put_status rq_broker_put(struct rmq_broker *broker, struct rq_msg *msg, int delay_level,
                                 struct rq_store_put *out)
{
    if (delay_level <= 0 || broker->schedule.level_count == 0) {
        return rq_store_append(broker->store, msg, out);
    }
    struct rq_buf props;
    rq_buf_init(&props, 0);
    divert(broker, msg, delay_level, &props);
    if (delay_level > broker->schedule.level_count) {
        clamp_level(broker, &props);
        msg->properties = rq_slice(props.data, props.len);
    }
    if (rq_buf_status(&props)) {
        memset(out, 0, sizeof *out);
        out->status = RQ_PUT_UNKNOWN_ERROR;
        (void)snprintf(out->reason, sizeof out->reason, "out of memory");
    } else {
        (void)rq_store_append(broker->store, msg, out);
    }
    msg->properties = rq_slice(NULL, 0); /* they were in props */
    rq_buf_free(&props);
    return out->status;
}

static const struct {
    int32_t code;
    const char *remark;
} responses[] = {
    [RQ_PUT_OK] = {RQ_RESP_SUCCESS, NULL},
    [RQ_PUT_FLUSH_DISK_TIMEOUT] = {RQ_RESP_FLUSH_DISK_TIMEOUT, NULL},
    [RQ_PUT_SERVICE_NOT_AVAILABLE] = {RQ_RESP_SERVICE_NOT_AVAILABLE, "service not available now. "},
    [RQ_PUT_CREATE_MAPPED_FILE_FAILED] = {RQ_RESP_SYSTEM_ERROR,
                                          "create mapped file failed, server is busy or broken."},
    [RQ_PUT_MESSAGE_ILLEGAL] = {RQ_RESP_MESSAGE_ILLEGAL, "the message is illegal: "},
    [RQ_PUT_PROPERTIES_SIZE_EXCEEDED] = {RQ_RESP_MESSAGE_ILLEGAL, "the message is illegal: "},
    [RQ_PUT_OS_PAGE_CACHE_BUSY] = {RQ_RESP_SYSTEM_BUSY,
                                   "[PC_SYNCHRONIZED]broker busy, start flow control for a while"},
    [RQ_PUT_UNKNOWN_ERROR] = {RQ_RESP_SYSTEM_ERROR, "UNKNOWN_ERROR "},
};

int32_t rq_put_response_code(const struct rq_store_put *put, const char **remark)
{
    *remark = responses[put->status].remark;
    return responses[put->status].code;
}
