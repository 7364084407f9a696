/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Field case B19, as far as it goes without ACL: a signer sees every request of an instance, with
 * its header values in the order of their names and its body as it is on the wire, also a binary
 * one. The server computes the signature anew from what it got.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmq/producer.h>

#include "base/crc.h"
#include "base/time.h"
#include "client/ask.h"
#include "client/instance.h"
#include "unit/client/signed_server.h"

Suite *signing_suite(void);

#define SIGNATURE "Signature"
#define INSTANCE  "signed"
#define TIMEOUT   20000

static struct signed_server server;
static const char *secret; /* what the client signs with */

/* Over the key, the values in the order of their names, and the body. */
static uint32_t sign_fields(const char *key, const struct rq_ext *fields, size_t count,
                            struct rq_slice body)
{
    uint32_t crc = rq_crc32(0, key, strlen(key));
    for (size_t i = 0; i < count; i++) {
        crc = fields[i].value.n > 0 ? rq_crc32(crc, fields[i].value.p, fields[i].value.n) : crc;
    }
    return body.n > 0 ? rq_crc32(crc, body.p, body.n) : crc;
}

static rmq_status sign(const struct rq_signer *signer, const struct rq_ext *fields, size_t count,
                       struct rq_slice body, struct rq_buf *out)
{
    (void)signer;
    for (size_t i = 1; i < count; i++) {
        ck_assert_int_lt(rq_slice_cmp(fields[i - 1].name, fields[i].name), 0);
    }
    rq_buf_addf(out, SIGNATURE "%c%08x%c", 0, sign_fields(secret, fields, count, body), 0);
    return rq_buf_status(out);
}

static int by_name(const void *a, const void *b)
{
    return rq_slice_cmp(((const struct rq_ext *)a)->name, ((const struct rq_ext *)b)->name);
}

static bool is_good(const struct rq_frame *frame)
{
    struct rq_ext fields[RQ_HEADER_MAX_EXT];
    struct rq_slice got = rq_slice(NULL, 0);
    char want[16];
    size_t count = 0;
    for (size_t i = 0; i < frame->header.ext_count; i++) {
        if (rq_slice_eq_str(frame->header.ext[i].name, SIGNATURE)) {
            got = frame->header.ext[i].value;
        } else {
            fields[count++] = frame->header.ext[i];
        }
    }
    qsort(fields, count, sizeof fields[0], by_name);
    snprintf(want, sizeof want, "%08x", sign_fields("right", fields, count, frame->body));
    return got.p && rq_slice_eq_str(got, want);
}

/* An instance that signs, which the producer shares. */
static void open_signed(const char *key, const char *serialize, struct rq_instance **instance,
                        rmq_producer **producer)
{
    static const struct rq_signer signer = {.sign = sign};
    rmq_error *err = NULL;
    rmq_producer_options options;
    secret = key;
    signed_server_start(&server, is_good);
    const struct rq_instance_options wanted = {.namesrv_addr = server.addr,
                                               .client_ip = "127.0.0.1",
                                               .instance_name = INSTANCE,
                                               .poll_name_server_interval_ms = 1000,
                                               .heartbeat_broker_interval_ms = 1000,
                                               .serialize_type = serialize,
                                               .signer = &signer};
    ck_assert_int_eq(rq_instance_get(&wanted, instance, &err), RMQ_OK);
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "signers";
    options.namesrv_addr = server.addr;
    options.client_ip = "127.0.0.1";
    options.instance_name = INSTANCE;
    options.enable_msg_trace = true;
    options.compress_msg_body_over_howmuch = 1000;
    ck_assert_int_eq(rmq_producer_create(&options, producer, &err), RMQ_OK);
}

static void close_signed(struct rq_instance *instance, rmq_producer *producer)
{
    rmq_producer_destroy(producer);
    rq_instance_put(instance);
    signed_server_stop(&server);
}

static rmq_message *message_of(const void *body, size_t size)
{
    rmq_message *message = NULL;
    ck_assert_int_eq(rmq_message_create("T", &message, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_message_set_property(message, "name",
                                              "gr\xc3\xb6\xc3\x9f"
                                              "e \"1\" \\"),
                     RMQ_OK);
    ck_assert_int_eq(rmq_message_copy_body(message, body, size), RMQ_OK);
    return message;
}

static rmq_transaction_state commit(const rmq_message *message, const char *id, void *user)
{
    (void)message;
    (void)id;
    (void)user;
    return RMQ_TRANSACTION_COMMIT;
}

static void send_all_kinds(rmq_producer *producer)
{
    static char large[20000]; /* referenced by its frame, and compressed */
    unsigned char bytes[256];
    rmq_error *err = NULL;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (unsigned char)i;
    }
    rmq_message *binary = message_of(bytes, sizeof bytes);
    rmq_message *compressed = message_of(large, sizeof large);
    const rmq_message *batch[] = {binary, binary};
    ck_assert_int_eq(rmq_producer_send(producer, binary, TIMEOUT, NULL, &err), RMQ_OK);
    ck_assert_int_eq(rmq_producer_send(producer, compressed, TIMEOUT, NULL, &err), RMQ_OK);
    ck_assert_int_eq(rmq_producer_send_batch(producer, batch, 2, TIMEOUT, NULL, &err), RMQ_OK);
    ck_assert_int_eq(
        rmq_producer_send_in_transaction(producer, binary, commit, NULL, TIMEOUT, NULL, NULL, &err),
        RMQ_OK);
    ck_assert_int_eq(rmq_producer_send_oneway(producer, binary, &err), RMQ_OK);
    /* the trace, and unregistering */
    ck_assert_int_eq(rmq_producer_shutdown(producer, TIMEOUT, &err), RMQ_OK);
    rmq_message_destroy(binary);
    rmq_message_destroy(compressed);
}

static void every_request_is_signed(const char *serialize)
{
    static const int codes[] = {RQ_REQ_GET_ROUTEINFO_BY_TOPIC, RQ_REQ_HEART_BEAT,
                                RQ_REQ_SEND_MESSAGE_V2,        RQ_REQ_SEND_BATCH_MESSAGE,
                                RQ_REQ_END_TRANSACTION,        RQ_REQ_UNREGISTER_CLIENT,
                                RQ_REQ_GET_BROKER_CLUSTER_INFO};
    struct rq_instance *instance = NULL;
    rmq_producer *producer = NULL;
    struct rq_reply reply;
    rmq_error *err = NULL;
    open_signed("right", serialize, &instance, &producer);
    send_all_kinds(producer);
    struct rq_frame_spec spec =
        rq_instance_frame(instance, RQ_REQ_GET_BROKER_CLUSTER_INFO, NULL, NULL);
    ck_assert_int_eq(
        rq_ask_namesrv(instance, &spec, "cluster", rq_mono_ms() + TIMEOUT, &reply, &err),
        RMQ_OK); /* an administrator's */
    rq_reply_free(&reply);
    close_signed(instance, producer);
    ck_assert_int_eq(atomic_load(&server.bad), 0);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        ck_assert_msg(atomic_load(&server.seen[codes[i] % SIGNED_CODES]) > 0, "no request %d",
                      codes[i]);
    }
    /* Two, one without an answer, a half message, and one with the trace of them. */
    ck_assert_int_ge(atomic_load(&server.seen[RQ_REQ_SEND_MESSAGE_V2]), 5);
}

START_TEST(b19_every_request_is_signed_over_sorted_values_and_the_raw_body)
{
    every_request_is_signed("JSON");
    every_request_is_signed("ROCKETMQ");
}
END_TEST

START_TEST(b19_a_wrong_key_shows_the_words_of_the_broker_and_is_not_tried_again)
{
    struct rq_instance *instance = NULL;
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    open_signed("wrong", "JSON", &instance, &producer);
    rmq_message *message = message_of("body", 4);
    ck_assert_int_eq(rmq_producer_send(producer, message, TIMEOUT, NULL, &err), RMQ_ERR_BROKER);
    ck_assert_int_eq(rmq_error_remote_code(err), RQ_RESP_NO_PERMISSION);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "signature does not match"));
    ck_assert(!rmq_error_maybe_stored(err));
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    close_signed(instance, producer);
    ck_assert_int_eq(atomic_load(&server.seen[RQ_REQ_SEND_MESSAGE_V2]), 1);
}
END_TEST

Suite *signing_suite(void)
{
    Suite *suite = suite_create("signing");
    TCase *tcase = tcase_create("b19");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, b19_every_request_is_signed_over_sorted_values_and_the_raw_body);
    tcase_add_test(tcase, b19_a_wrong_key_shows_the_words_of_the_broker_and_is_not_tried_again);
    suite_add_tcase(suite, tcase);
    return suite;
}
