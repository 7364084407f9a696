/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * From message to operation: checks, unique id, properties in wire form, compression. On the
 * sender's thread, once per send: what is made here is the same in all attempts. Batches are in
 * send_batch.c. Counterparts: Validators, DefaultMQProducerImpl.tryToCompressMessage.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/producer.h"
#include "client/send_priv.h"
#include "client/unique_id.h"
#include "wire/compress.h"
#include "wire/message.h"
#include "wire/names.h"
#include "wire/properties.h"

static const char *topic_of(const rmq_message *message)
{
    return message->text;
}

rmq_status rq_send_check_topic(const rmq_message *message, rmq_error **err)
{
    if (rq_topic_is_forbidden(rq_slice_str(topic_of(message)))) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "topic %s belongs to the broker: nothing may be sent to it",
                            topic_of(message));
    }
    return RMQ_OK;
}

rmq_status rq_send_check(const struct rmq_producer *producer, const rmq_message *message,
                         rmq_error **err)
{
    if (!message) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message is NULL");
    }
    rmq_status st = rq_send_check_topic(message, err);
    if (st != RMQ_OK) {
        return st;
    }
    size_t size = message->body ? message->body->size : 0;
    if (size == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message of topic %s has no body",
                            topic_of(message));
    }
    if (size > (size_t)producer->options.max_message_size) {
        return rq_error_set(err, RMQ_ERR_TOO_LARGE, "body of %zu bytes, maxMessageSize is %d", size,
                            (int)producer->options.max_message_size);
    }
    return RMQ_OK;
}

static bool is_retry_count(const char *name)
{
    return strcmp(name, RQ_PROP_RECONSUME_TIME) == 0 ||
           strcmp(name, RQ_PROP_MAX_RECONSUME_TIMES) == 0;
}

/* In wire form they are as long as in the message: each NUL becomes a separator. */
static void add_pairs(struct rq_buf *out, struct rq_slice pairs)
{
    if (pairs.n == 0 || !rq_buf_reserve(out, pairs.n)) {
        return;
    }
    char *p = out->data + out->len;
    char *end = p + pairs.n;
    memcpy(p, pairs.p, pairs.n);
    while (p < end) {
        p += strlen(p);
        *p++ = RQ_PROP_NAME_END;
        p += strlen(p);
        *p++ = RQ_PROP_VALUE_END;
    }
    out->len += pairs.n;
}

void rq_send_add_pairs(struct rq_buf *out, struct rq_slice pairs, bool counts_too)
{
    if (counts_too) {
        add_pairs(out, pairs);
        return;
    }
    while (pairs.n > 0) {
        size_t value_at = strlen(pairs.p) + 1;
        size_t n = value_at + strlen(pairs.p + value_at) + 1;
        if (!is_retry_count(pairs.p)) {
            add_pairs(out, rq_slice(pairs.p, n));
        }
        pairs = rq_slice(pairs.p + n, pairs.n - n);
    }
}

void rq_send_add_own(struct rq_buf *out, const char *unique_id, size_t unique_n, bool wait,
                     int32_t delay_level)
{
    static const char wait_true[] = RQ_PROP_WAIT "\001true\002" RQ_PROP_UNIQ_KEY "\001";
    static const char wait_false[] = RQ_PROP_WAIT "\001false\002" RQ_PROP_UNIQ_KEY "\001";
    const char *begin = wait ? wait_true : wait_false;
    size_t begin_n = (wait ? sizeof wait_true : sizeof wait_false) - 1;
    if (rq_buf_reserve(out, begin_n + unique_n + 1)) {
        char *p = out->data + out->len;
        memcpy(p, begin, begin_n);
        memcpy(p + begin_n, unique_id, unique_n);
        p[begin_n + unique_n] = RQ_PROP_VALUE_END;
        out->len += begin_n + unique_n + 1;
    }
    if (delay_level > 0) {
        rq_buf_add_str(out, RQ_PROP_DELAY "\001");
        rq_buf_add_i64(out, delay_level);
        rq_buf_add_char(out, RQ_PROP_VALUE_END);
    }
}

rmq_status rq_send_check_properties(size_t size, const char *topic, rmq_error **err)
{
    if (size > RQ_MSG_PROPERTIES_MAX) {
        return rq_error_set(err, RMQ_ERR_TOO_LARGE,
                            "properties of a message of topic %s have %zu bytes, the limit is %d",
                            topic, size, RQ_MSG_PROPERTIES_MAX);
    }
    return RMQ_OK;
}

static bool goes_to_retry(const rmq_message *message)
{
    return message->text[0] == '%' && rq_topic_is_retry(rq_slice_str(topic_of(message)));
}

/* Counts of a message that goes to a retry topic travel in the header. */
static void take_retry_counts(struct rq_send_op *op, const rmq_message *message)
{
    op->reconsume_times = 0;
    op->max_reconsume_times = -1;
    if (!goes_to_retry(message)) {
        return;
    }
    int32_t number;
    if (rq_slice_to_i32(rq_slice_str(rmq_message_property(message, RQ_PROP_RECONSUME_TIME)),
                        &number)) {
        op->reconsume_times = number;
    }
    if (rq_slice_to_i32(rq_slice_str(rmq_message_property(message, RQ_PROP_MAX_RECONSUME_TIMES)),
                        &number)) {
        op->max_reconsume_times = number;
    }
}

static void release_packed(void *data, void *user)
{
    (void)user;
    rq_free(data);
}

struct rq_body *rq_send_wrap_buf(struct rq_buf *buf)
{
    struct rq_body *body = rq_alloc(sizeof *body);
    size_t size = buf->len;
    char *data = body ? rq_buf_detach(buf) : NULL;
    if (!data) {
        rq_free(body);
        return NULL;
    }
    *body = (struct rq_body){.data = data, .size = size, .free_fn = release_packed};
    atomic_init(&body->refs, 1);
    return body;
}

/* A body that does not shrink goes as it is: it may be as large as the broker allows, and nobody
 * must expand it. (Java sends the larger one.) */
static rmq_status compress_body(struct rq_send_op *op, const struct rmq_producer *producer,
                                rmq_error **err)
{
    const struct rq_body *plain = op->body;
    if (!producer->compression ||
        plain->size < (size_t)producer->options.compress_msg_body_over_howmuch) {
        return RMQ_OK;
    }
    enum rq_compression type = (enum rq_compression)producer->compression;
    struct rq_buf packed;
    rq_buf_init(&packed, 0);
    rmq_status st = rq_compress(type, producer->options.compress_level,
                                rq_slice(plain->data, plain->size), &packed, err);
    if (st == RMQ_OK && packed.len >= plain->size) {
        rq_buf_free(&packed);
        return RMQ_OK;
    }
    struct rq_body *body = st == RMQ_OK ? rq_send_wrap_buf(&packed) : NULL;
    rq_buf_free(&packed);
    if (st != RMQ_OK || !body) {
        return st != RMQ_OK ? st : rq_error_set(err, RMQ_ERR_NOMEM, "compressed body");
    }
    rq_body_release(op->body);
    op->body = body;
    op->sys_flag |= rq_compression_sys_flag(type);
    return RMQ_OK;
}

void rq_send_begin_text(struct rq_send_op *op, const rmq_message *message)
{
    rq_buf_clear(&op->text);
    op->topic_len = message->topic_len;
    rq_buf_add(&op->text, topic_of(message), message->topic_len + 1);
    op->born_ms = rq_wall_ms();
    op->sys_flag = 0;
    op->flag = message->flag;
}

rmq_status rq_send_end_text(struct rq_send_op *op, rmq_error **err)
{
    rmq_status st = rq_buf_status(&op->text);
    if (st != RMQ_OK) {
        return rq_error_set(err, st, "properties of a message of topic %s",
                            op->text.data ? op->text.data : "");
    }
    op->properties_len = op->text.len - op->topic_len - 1;
    return rq_send_check_properties(op->properties_len, op->text.data, err);
}

static void make_half(struct rq_send_op *op)
{
    rq_buf_add_str(&op->text, RQ_PROP_TRAN_MSG "\001true\002" RQ_PROP_PGROUP "\001");
    rq_buf_add_str(&op->text, op->producer->options.producer_group);
    rq_buf_add_char(&op->text, RQ_PROP_VALUE_END);
    op->sys_flag |= RQ_SYS_TRANSACTION_PREPARED;
}

rmq_status rq_send_prepare(struct rq_send_op *op, const rmq_message *message, rmq_error **err)
{
    rq_send_begin_text(op, message);
    op->reply = message->reply;
    take_retry_counts(op, message);
    size_t n = rq_unique_id(op->started_ms, op->unique_id);
    rq_send_add_pairs(&op->text, rq_message_pairs(message), !goes_to_retry(message));
    rq_send_add_pairs(&op->text, op->more_pairs, true);
    rq_send_add_own(&op->text, op->unique_id, n, message->wait_store_ok,
                    op->half ? 0 : message->delay_level);
    if (op->half) {
        make_half(op);
    }
    rmq_status st = rq_send_end_text(op, err);
    if (st != RMQ_OK) {
        return st;
    }
    op->body = rq_body_retain(message->body);
    return compress_body(op, op->producer, err);
}
