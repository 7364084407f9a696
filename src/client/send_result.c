/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Results of sends: what a program reads, and the copy that a blocking send hands out. Any
 * thread. */
#include "client/send_result.h"

#include <string.h>

#include "base/mem.h"
#include "wire/codes.h"

bool rq_send_status_of(int32_t code, rmq_send_status *out)
{
    switch (code) {
    case RQ_RESP_SUCCESS:
        *out = RMQ_SEND_OK;
        return true;
    case RQ_RESP_FLUSH_DISK_TIMEOUT:
        *out = RMQ_SEND_FLUSH_DISK_TIMEOUT;
        return true;
    case RQ_RESP_FLUSH_SLAVE_TIMEOUT:
        *out = RMQ_SEND_FLUSH_SLAVE_TIMEOUT;
        return true;
    case RQ_RESP_SLAVE_NOT_AVAILABLE:
        *out = RMQ_SEND_SLAVE_NOT_AVAILABLE;
        return true;
    default:
        return false;
    }
}

static const char *put_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *start = *at;
    memcpy(start, text, size);
    *at += size;
    return start;
}

rmq_send_result *rq_send_result_copy(const rmq_send_result *from)
{
    size_t text = strlen(from->msg_id) + strlen(from->offset_msg_id) + strlen(from->topic) +
                  strlen(from->broker_name) + strlen(from->recall_handle) + 5;
    struct rmq_send_result *copy = rq_alloc(sizeof *copy + text);
    if (!copy) {
        return NULL;
    }
    char *at = (char *)(copy + 1);
    *copy = *from;
    copy->msg_id = put_text(&at, from->msg_id);
    copy->offset_msg_id = put_text(&at, from->offset_msg_id);
    copy->topic = put_text(&at, from->topic);
    copy->broker_name = put_text(&at, from->broker_name);
    copy->recall_handle = put_text(&at, from->recall_handle);
    return copy;
}

rmq_send_status rmq_send_result_status(const rmq_send_result *result)
{
    return result ? result->status : RMQ_SEND_OK;
}

const char *rmq_send_result_status_name(const rmq_send_result *result)
{
    static const char *const names[] = {"SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT",
                                        "SLAVE_NOT_AVAILABLE"};
    return result ? names[result->status] : "";
}

const char *rmq_send_result_msg_id(const rmq_send_result *result)
{
    return result ? result->msg_id : "";
}

const char *rmq_send_result_offset_msg_id(const rmq_send_result *result)
{
    return result ? result->offset_msg_id : "";
}

const char *rmq_send_result_topic(const rmq_send_result *result)
{
    return result ? result->topic : "";
}

const char *rmq_send_result_broker_name(const rmq_send_result *result)
{
    return result ? result->broker_name : "";
}

const char *rmq_send_result_recall_handle(const rmq_send_result *result)
{
    return result ? result->recall_handle : "";
}

int32_t rmq_send_result_queue_id(const rmq_send_result *result)
{
    return result ? result->queue_id : -1;
}

int64_t rmq_send_result_queue_offset(const rmq_send_result *result)
{
    return result ? result->queue_offset : -1;
}

void rmq_send_result_destroy(rmq_send_result *result)
{
    rq_free(result);
}
