/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Cost of the wire codec in CPU nanoseconds: headers of a send and its answer written and read in
 * both serializations, messages of a pull answer, stored messages written. One core, warm.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/frame.h"
#include "wire/message.h"
#include "wire/properties.h"

#define ROUNDS 2000000
#define BODY   1024

static volatile uint64_t sink;

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void report(const char *what, double begin, int rounds)
{
    printf("%-46s %8.0f ns\n", what, (cpu_ns() - begin) / rounds);
}

static const char properties[] = "KEYS\x01"
                                 "order-1234567\x02UNIQ_KEY\x01"
                                 "7F00000112345678ABCD000000000001\x02WAIT\x01true\x02"
                                 "TAGS\x01"
                                 "TagA\x02";

static struct rq_hdr_send send_fields(void)
{
    struct rq_hdr_send send = {.producer_group = rq_slice_str("bench-producer"),
                               .topic = rq_slice_str("BenchTopic"),
                               .default_topic = rq_slice_str("TBW102"),
                               .default_topic_queue_nums = 4,
                               .queue_id = 3,
                               .born_timestamp = INT64_C(1767225600123),
                               .properties = rq_slice_str(properties),
                               .bname = rq_slice_str("broker-a")};
    RQ_SET(send, &send, reconsume_times, 0);
    RQ_SET(send, &send, unit_mode, false);
    RQ_SET(send, &send, batch, false);
    return send;
}

static void bench_frame(const char *name, struct rq_frame_spec *spec, void *fields)
{
    struct rq_buf out;
    char what[80];
    rq_buf_init(&out, 0);
    double begin = cpu_ns();
    for (int i = 0; i < ROUNDS; i++) {
        rq_buf_clear(&out);
        rq_frame_encode(&out, spec, BODY, NULL);
        rq_frame_patch_opaque(out.data, i);
        sink += out.len;
    }
    snprintf(what, sizeof what, "%s, written (%zu bytes)", name, out.len);
    report(what, begin, ROUNDS);
    rq_frame_patch_body_len(out.data, 0, NULL);
    char *copy = malloc(out.len);
    begin = cpu_ns();
    for (int i = 0; i < ROUNDS; i++) {
        struct rq_frame frame;
        memcpy(copy, out.data, out.len); /* escapes are resolved in place */
        rq_frame_decode(copy, out.len, &frame, NULL);
        rq_fields_decode(spec->table, &frame.header, fields, NULL);
        sink += frame.header.ext_count;
    }
    snprintf(what, sizeof what, "%s, read with its fields", name);
    report(what, begin, ROUNDS);
    free(copy);
    rq_buf_free(&out);
}

static void bench_headers(enum rq_serialize serialize, const char *form)
{
    char name[64];
    struct rq_hdr_send send = send_fields();
    struct rq_hdr_send send_back;
    struct rq_frame_spec spec =
        rq_frame_request(serialize, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &send);
    snprintf(name, sizeof name, "%s send", form);
    bench_frame(name, &spec, &send_back);
    struct rq_hdr_send_response answer = {
        .msg_id = rq_slice_str("7F000001000051AF0000000000001000"),
        .transaction_id = rq_slice_str("7F00000112345678ABCD000000000001"),
        .msg_region = rq_slice_str("DefaultRegion"),
        .trace_on = rq_slice_str("true"),
        .queue_offset = 123456};
    struct rq_hdr_send_response answer_back;
    spec = rq_frame_request(serialize, RQ_RESP_SUCCESS, &rq_tab_send_response, &answer);
    spec.flag = RQ_FLAG_RESPONSE;
    snprintf(name, sizeof name, "%s send answer", form);
    bench_frame(name, &spec, &answer_back);
}

static void bench_messages(void)
{
    static char body[BODY];
    static char out[32 * (BODY + 512)];
    struct rq_msg msg = {.body = rq_slice(body, BODY),
                         .topic = rq_slice_str("BenchTopic"),
                         .properties = rq_slice_str(properties),
                         .born_host = {.len = 4},
                         .store_host = {.len = 4}};
    size_t size = rq_msg_encoded_size(&msg);
    double begin = cpu_ns();
    for (int i = 0; i < ROUNDS; i++) {
        rq_msg_encode(&msg, rq_msg_encoded_size(&msg), out + size * ((size_t)i % 32));
    }
    report("message of 1 KiB, encoded", begin, ROUNDS);
    begin = cpu_ns();
    for (int i = 0; i < ROUNDS / 32; i++) {
        struct rq_cursor c = rq_cursor(out, 32 * size);
        while (rq_cursor_left(&c) > 0 && rq_msg_decode(&c, &msg, NULL) == RMQ_OK) {
            sink += rq_props_get(msg.properties, RQ_PROP_TAGS).n;
        }
    }
    report("message of 1 KiB, decoded, tag found", begin, ROUNDS);
    begin = cpu_ns();
    for (int i = 0; i < ROUNDS; i++) {
        sink += (uint64_t)rq_msg_body_crc(rq_slice(body, BODY));
    }
    report("CRC of 1 KiB", begin, ROUNDS);
}

int main(void)
{
    bench_headers(RQ_SERIALIZE_JSON, "JSON");
    bench_headers(RQ_SERIALIZE_BINARY, "binary");
    bench_messages();
    return 0;
}
