/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Received messages: fields, texts in place, damaged answers, expansion, counting. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client/message.h"
#include "wire/compress.h"
#include "wire/message.h"

Suite *message_view_suite(void);

struct answer {
    char *data;
    size_t size;
};

static void add(struct answer *answer, const struct rq_msg *msg)
{
    size_t n = rq_msg_encoded_size(msg);
    answer->data = realloc(answer->data, answer->size + n);
    rq_msg_encode(msg, n, answer->data + answer->size);
    answer->size += n;
}

static struct rq_msg simple(const char *body, const char *properties)
{
    struct rq_msg msg = {.queue_id = 3,
                         .flag = 7,
                         .queue_offset = 42,
                         .commit_log_offset = 12345,
                         .born_timestamp_ms = 1000,
                         .store_timestamp_ms = 2000,
                         .reconsume_times = 2,
                         .body = rq_slice_str(body),
                         .topic = rq_slice_str("Topic"),
                         .properties = rq_slice_str(properties)};
    ck_assert_int_eq(rq_host_parse(rq_slice_str("10.1.2.3:4711"), &msg.born_host, NULL), RMQ_OK);
    ck_assert_int_eq(rq_host_parse(rq_slice_str("192.168.1.2:10911"), &msg.store_host, NULL),
                     RMQ_OK);
    return msg;
}

static struct rq_views *views_of(struct answer *answer)
{
    struct rq_views *views = NULL;
    ck_assert_int_eq(
        rq_views_create(NULL, rq_slice(answer->data, answer->size), "broker-a", &views, NULL),
        RMQ_OK);
    return views;
}

START_TEST(every_field_is_its_own)
{
    struct answer answer = {0};
    struct rq_msg msg = simple(
        "hello", "TAGS\001TagA\002KEYS\001k1 k2\002UNIQ_KEY\001ID\002DELAY\0013\002n\001v\002");
    add(&answer, &msg);
    struct rq_views *views = views_of(&answer);
    const rmq_message_view *view = &views->items[0];
    size_t size = 0;
    ck_assert_uint_eq(views->count, 1);
    ck_assert_str_eq(rmq_message_view_topic(view), "Topic");
    ck_assert_str_eq(rmq_message_view_tag(view), "TagA");
    ck_assert_str_eq(rmq_message_view_keys(view), "k1 k2");
    ck_assert_str_eq(rmq_message_view_id(view), "ID");
    ck_assert_str_eq(rmq_message_view_offset_id(view), "C0A8010200002A9F0000000000003039");
    ck_assert_str_eq(rmq_message_view_born_host(view), "10.1.2.3:4711");
    ck_assert_str_eq(rmq_message_view_store_host(view), "192.168.1.2:10911");
    ck_assert_str_eq(rmq_message_view_broker_name(view), "broker-a");
    ck_assert_str_eq(rmq_message_view_property(view, "n"), "v");
    ck_assert_str_eq(rmq_message_view_property(view, "m"), "");
    ck_assert_uint_eq(rmq_message_view_property_count(view), 5);
    ck_assert_str_eq(rmq_message_view_property_name(view, 4), "n");
    ck_assert_str_eq(rmq_message_view_property_value(view, 4), "v");
    ck_assert_ptr_null(rmq_message_view_property_name(view, 5));
    ck_assert_int_eq(rmq_message_view_queue_id(view), 3);
    ck_assert(rmq_message_view_queue_offset(view) == 42);
    ck_assert(rmq_message_view_commit_log_offset(view) == 12345);
    ck_assert(rmq_message_view_born_timestamp_ms(view) == 1000);
    ck_assert(rmq_message_view_store_timestamp_ms(view) == 2000);
    ck_assert_int_eq(rmq_message_view_reconsume_times(view), 2);
    ck_assert_int_eq(rmq_message_view_flag(view), 7);
    ck_assert_int_eq(rmq_message_view_delay_level(view), 3);
    ck_assert(memcmp(rmq_message_view_body(view, &size), "hello", 5) == 0 && size == 5);
    rq_views_release(views);
    free(answer.data);
}
END_TEST

START_TEST(absent_fields_are_empty_texts)
{
    struct answer answer = {0};
    struct rq_msg msg = simple("b", "");
    add(&answer, &msg);
    struct rq_views *views = views_of(&answer);
    const rmq_message_view *view = &views->items[0];
    ck_assert_str_eq(rmq_message_view_tag(view), "");
    ck_assert_str_eq(rmq_message_view_keys(view), "");
    ck_assert_str_eq(rmq_message_view_id(view), rmq_message_view_offset_id(view));
    ck_assert_uint_eq(rmq_message_view_property_count(view), 0);
    ck_assert_int_eq(rmq_message_view_delay_level(view), 0);
    ck_assert_str_eq(rmq_message_view_topic(NULL), "");
    rq_views_release(views);
    free(answer.data);
}
END_TEST

START_TEST(odd_property_strings_are_read_as_java_reads_them)
{
    static const struct {
        const char *text;
        size_t n;
        const char *name, *value;
        size_t count;
    } cases[] = {
        {"a\001b", 3, "a", "b", 1},                      /* the last separator is optional */
        {"TAGS\001x\002a\001b", 10, "a", "b", 2},        /* likewise behind others */
        {"a\001b\001c\002", 6, "a", "b\001c", 1},        /* the first 0x01 splits */
        {"\001b\002a\001c\002", 7, "a", "c", 1},         /* without a name */
        {"b\001\002a\001c\002", 7, "a", "c", 1},         /* without a value */
        {"junk\002a\001c\002", 9, "a", "c", 1},          /* no pair */
        {"\002\002a\001c\002\002", 7, "a", "c", 1},      /* empty pieces */
        {"a\001old\002a\001new\002", 12, "a", "new", 2}, /* the later one wins */
        {"a\001v\000w\002b\001c\002", 10, "a", "v", 2},  /* a NUL ends a value */
        {"x\000y\001v\002a\001c\002", 10, "a", "c", 1},  /* and makes a name none */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct answer answer = {0};
        struct rq_msg msg = simple("body", "");
        msg.properties = rq_slice(cases[i].text, cases[i].n);
        add(&answer, &msg);
        msg = simple("next", "k\001v\002");
        add(&answer, &msg);
        struct rq_views *views = views_of(&answer);
        ck_assert_uint_eq(views->count, 2);
        ck_assert_str_eq(rmq_message_view_property(&views->items[0], cases[i].name),
                         cases[i].value);
        ck_assert_uint_eq(rmq_message_view_property_count(&views->items[0]), cases[i].count);
        ck_assert_str_eq(rmq_message_view_property(&views->items[1], "k"), "v");
        ck_assert_str_eq(rmq_message_view_topic(&views->items[1]), "Topic");
        rq_views_release(views);
        free(answer.data);
    }
}
END_TEST

/* Reads everything that a program could. */
static size_t read_all(const struct rq_views *views)
{
    size_t sum = 0;
    for (size_t i = 0; i < views->count; i++) {
        const rmq_message_view *view = &views->items[i];
        size_t size = 0;
        (void)rmq_message_view_body(view, &size);
        sum += size + strlen(rmq_message_view_topic(view)) + strlen(rmq_message_view_id(view)) +
               strlen(rmq_message_view_tag(view)) + strlen(rmq_message_view_born_host(view));
        for (size_t k = 0; k < rmq_message_view_property_count(view); k++) {
            sum += strlen(rmq_message_view_property_name(view, k)) +
                   strlen(rmq_message_view_property_value(view, k));
        }
    }
    return sum;
}

static void make_views_of_copy(const struct answer *answer, size_t size, size_t flip,
                               unsigned char with)
{
    struct rq_views *views = NULL;
    char *copy = malloc(size ? size : 1); /* exactly as large: a read behind it is seen */
    memcpy(copy, answer->data, size);
    if (flip < size) {
        copy[flip] = (char)(copy[flip] ^ with);
    }
    rmq_status st = rq_views_create(NULL, rq_slice(copy, size), "b", &views, NULL);
    if (st == RMQ_OK) {
        ck_assert(read_all(views) < 100000);
        rq_views_release(views);
    } else {
        ck_assert_int_eq(st, RMQ_ERR_PROTOCOL);
    }
    free(copy);
}

START_TEST(damaged_answers_give_the_messages_before_the_damage)
{
    struct answer answer = {0};
    struct rq_msg msg = simple("first", "TAGS\001a\002UNIQ_KEY\001X");
    add(&answer, &msg);
    size_t first = answer.size;
    msg = simple("second", "TAGS\001b\002");
    add(&answer, &msg);
    for (size_t n = 0; n <= answer.size; n++) {
        make_views_of_copy(&answer, n, SIZE_MAX, 0);
    }
    for (size_t i = 0; i < answer.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            make_views_of_copy(&answer, answer.size, i, (unsigned char)(1 << bit));
        }
    }
    struct answer cut = {answer.data, answer.size - 3};
    struct rq_views *views = views_of(&cut);
    ck_assert_uint_eq(views->count, 1);
    ck_assert(views->damaged);
    ck_assert_uint_eq(views->body_bytes, 5);
    ck_assert_str_eq(rmq_message_view_tag(&views->items[0]), "a");
    rq_views_release(views);
    struct rq_views *none = NULL;
    ck_assert_int_eq(rq_views_create(NULL, rq_slice(answer.data, first - 1), "b", &none, NULL),
                     RMQ_ERR_PROTOCOL);
    ck_assert_int_eq(rq_views_create(NULL, rq_slice(NULL, 0), "b", &none, NULL), RMQ_OK);
    ck_assert_uint_eq(none->count, 0);
    rq_views_release(none);
    free(answer.data);
}
END_TEST

/* ---- inner batches ---- */

/* A record of so many items "0", "1", …, each with its property n; the last without a separator. */
static void add_batch(struct answer *answer, int items, int64_t queue_offset)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    for (int i = 0; i < items; i++) {
        char text[16];
        char properties[32];
        snprintf(text, sizeof text, "%d", i);
        snprintf(properties, sizeof properties, "n\001%d%s", i, i + 1 < items ? "\002" : "");
        struct rq_batch_item item = {
            .flag = 20 + i, .body = rq_slice_str(text), .properties = rq_slice_str(properties)};
        ck_assert_int_eq(rq_batch_add(&body, &item), RMQ_OK);
    }
    struct rq_msg msg = simple("", "INNER_NUM\0013\002");
    msg.body = rq_slice(body.data, body.len);
    msg.sys_flag = RQ_SYS_UNWRAP | RQ_SYS_INNER_BATCH;
    msg.queue_offset = queue_offset;
    add(answer, &msg);
    rq_buf_free(&body);
}

static void check_item(const rmq_message_view *view, int i, int64_t queue_offset)
{
    size_t size = 0;
    char text[16];
    snprintf(text, sizeof text, "%d", i);
    const char *body = rmq_message_view_body(view, &size);
    ck_assert(size == 1 && body[0] == text[0]);
    ck_assert_str_eq(rmq_message_view_property(view, "n"), text);
    ck_assert_uint_eq(rmq_message_view_property_count(view), 1);
    ck_assert_int_eq(rmq_message_view_flag(view), 20 + i);
    ck_assert_int_eq((int)rmq_message_view_queue_offset(view), (int)queue_offset);
    ck_assert_str_eq(rmq_message_view_topic(view), "Topic");
    ck_assert_int_eq(rmq_message_view_queue_id(view), 3);
}

START_TEST(an_inner_batch_that_was_pulled_is_its_messages)
{
    struct answer answer = {0};
    struct rq_msg msg = simple("between", "n\001v\002");
    struct rq_views *views = NULL;
    add_batch(&answer, 3, 40);
    add(&answer, &msg);
    add_batch(&answer, 2, 43);
    ck_assert_int_eq(
        rq_views_create_pulled(NULL, rq_slice(answer.data, answer.size), "broker-a", &views, NULL),
        RMQ_OK);
    ck_assert_uint_eq(views->count, 6);
    ck_assert(!views->damaged);
    for (int i = 0; i < 3; i++) {
        check_item(&views->items[i], i, 40 + i);
    }
    ck_assert_str_eq(rmq_message_view_property(&views->items[3], "n"), "v");
    check_item(&views->items[4], 0, 43);
    check_item(&views->items[5], 1, 44);
    rq_views_release(views);
    free(answer.data);
}
END_TEST

START_TEST(an_inner_batch_that_was_popped_stays_one)
{
    struct answer answer = {0};
    add_batch(&answer, 3, 40);
    struct rq_views *views = views_of(&answer);
    ck_assert_uint_eq(views->count, 1);
    ck_assert_str_eq(rmq_message_view_property(&views->items[0], "INNER_NUM"), "3");
    rq_views_release(views);
    free(answer.data);
}
END_TEST

/* Any byte of it: what is there is read without a step outside, and what is before it counts. */
START_TEST(a_damaged_inner_batch_gives_the_messages_before_the_damage)
{
    struct answer answer = {0};
    struct rq_msg msg = simple("first", "n\001v\002");
    add(&answer, &msg);
    size_t first = answer.size;
    add_batch(&answer, 3, 43);
    for (size_t at = first; at < answer.size; at++) {
        char *copy = malloc(answer.size);
        struct rq_views *views = NULL;
        memcpy(copy, answer.data, answer.size);
        copy[at] = (char)~copy[at];
        ck_assert_int_eq(
            rq_views_create_pulled(NULL, rq_slice(copy, answer.size), "broker-a", &views, NULL),
            RMQ_OK);
        ck_assert_uint_ge(views->count, 1);
        ck_assert_str_eq(rmq_message_view_property(&views->items[0], "n"), "v");
        for (size_t i = 0; i < views->count; i++) {
            (void)rmq_message_view_property(&views->items[i], "none");
        }
        rq_views_release(views);
        free(copy);
    }
    free(answer.data);
}
END_TEST

/* What comes after an offset is found by adding to it. */
START_TEST(offsets_that_no_queue_has_are_damage)
{
    struct answer answer = {0};
    struct rq_msg msg = simple("first", "n\001v\002");
    struct rq_views *views = NULL;
    add(&answer, &msg);
    add_batch(&answer, 2, INT64_MAX);
    ck_assert_int_eq(
        rq_views_create_pulled(NULL, rq_slice(answer.data, answer.size), "broker-a", &views, NULL),
        RMQ_OK);
    ck_assert_uint_eq(views->count, 1);
    ck_assert(views->damaged);
    rq_views_place(views, 3, 10);
    ck_assert_int_eq(rmq_message_view_queue_id(&views->items[0]), 3);
    ck_assert(rmq_message_view_queue_offset(&views->items[0]) == 52);
    rq_views_place(views, 3, INT64_MAX);
    rq_views_place(views, 3, INT64_MIN);
    ck_assert(rmq_message_view_queue_offset(&views->items[0]) == 52);
    rq_views_release(views);
    free(answer.data);
}
END_TEST

static const char *body_text(const rmq_message_view *view)
{
    return rmq_message_view_body(view, NULL);
}

START_TEST(a_body_that_is_text_may_be_used_as_such)
{
    struct answer answer = {0};
    struct rq_msg msg = simple("some text", "n\001v\002");
    struct rq_msg empty = simple("", "");
    struct rq_views *views = NULL;
    add(&answer, &msg);
    add(&answer, &empty);
    add_batch(&answer, 2, 40);
    ck_assert_int_eq(
        rq_views_create_pulled(NULL, rq_slice(answer.data, answer.size), "broker-a", &views, NULL),
        RMQ_OK);
    ck_assert_uint_eq(views->count, 4);
    ck_assert_str_eq(body_text(&views->items[0]), "some text");
    ck_assert_str_eq(rmq_message_view_topic(&views->items[0]), "Topic");
    ck_assert_str_eq(rmq_message_view_property(&views->items[0], "n"), "v");
    ck_assert_str_eq(body_text(&views->items[1]), "");
    ck_assert_str_eq(body_text(&views->items[2]), "0");
    ck_assert_str_eq(body_text(&views->items[3]), "1");
    rq_views_release(views);
    free(answer.data);
}
END_TEST

START_TEST(compressed_bodies_are_expanded_once_and_bounded)
{
    static const enum rq_compression types[] = {RQ_COMPRESSION_ZLIB, RQ_COMPRESSION_LZ4,
                                                RQ_COMPRESSION_ZSTD};
    char plain[20000];
    memset(plain, 'p', sizeof plain);
    for (size_t i = 0; i < 3; i++) {
        struct answer answer = {0};
        struct rq_buf packed;
        rq_buf_init(&packed, 0);
        ck_assert_int_eq(rq_compress(types[i], 5, rq_slice(plain, sizeof plain), &packed, NULL),
                         RMQ_OK);
        struct rq_msg msg = simple("", "");
        msg.body = rq_slice(packed.data, packed.len);
        msg.sys_flag = rq_compression_sys_flag(types[i]);
        add(&answer, &msg);
        struct rq_views *views = views_of(&answer);
        struct rmq_message_view *view = &views->items[0];
        size_t size = 0;
        ck_assert_int_eq(rq_view_expand(view, 19999, NULL), RMQ_ERR_TOO_LARGE);
        ck_assert_int_eq(rq_view_expand(view, 20000, NULL), RMQ_OK);
        ck_assert_int_eq(rq_view_expand(view, 1, NULL), RMQ_OK);
        ck_assert(memcmp(rmq_message_view_body(view, &size), plain, sizeof plain) == 0);
        ck_assert_uint_eq(size, sizeof plain);
        ck_assert_uint_eq(strlen(body_text(view)), sizeof plain);
        ck_assert_int_eq(rmq_message_view_sys_flag(view) & RQ_SYS_COMPRESSED, 0);
        rq_views_release(views);
        free(answer.data);
        rq_buf_free(&packed);
    }
    struct answer answer = {0};
    struct rq_msg msg = simple("this is not compressed", "");
    msg.sys_flag = rq_compression_sys_flag(RQ_COMPRESSION_ZLIB);
    add(&answer, &msg);
    struct rq_views *views = views_of(&answer);
    ck_assert_int_eq(rq_view_expand(&views->items[0], 1 << 20, NULL), RMQ_ERR_CORRUPT);
    rq_views_release(views);
    free(answer.data);
}
END_TEST

static void *read_and_release(void *arg)
{
    const rmq_message_view *view = arg;
    ck_assert_str_eq(rmq_message_view_born_host(view), "10.1.2.3:4711");
    ck_assert_str_eq(rmq_message_view_id(view), "C0A8010200002A9F0000000000003039");
    rmq_message_view_release(view);
    return NULL;
}

START_TEST(a_view_outlives_its_batch_and_may_be_read_by_any_thread)
{
    for (int round = 0; round < 50; round++) {
        struct answer answer = {0};
        struct rq_msg msg = simple("x", "a\001b\002");
        add(&answer, &msg);
        struct rq_views *views = views_of(&answer);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            union {
                const rmq_message_view *in;
                void *out;
            } cast = {.in = rmq_message_view_retain(&views->items[0])};
            ck_assert_int_eq(pthread_create(&threads[i], NULL, read_and_release, cast.out), 0);
        }
        rq_views_release(views);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
        }
        free(answer.data);
    }
    rmq_message_view_release(NULL);
    ck_assert_ptr_null(rmq_message_view_retain(NULL));
}
END_TEST

Suite *message_view_suite(void)
{
    Suite *suite = suite_create("message_view");
    TCase *cases = tcase_create("message_view");
    tcase_set_timeout(cases, 30);
    tcase_add_test(cases, every_field_is_its_own);
    tcase_add_test(cases, absent_fields_are_empty_texts);
    tcase_add_test(cases, odd_property_strings_are_read_as_java_reads_them);
    tcase_add_test(cases, damaged_answers_give_the_messages_before_the_damage);
    tcase_add_test(cases, an_inner_batch_that_was_pulled_is_its_messages);
    tcase_add_test(cases, an_inner_batch_that_was_popped_stays_one);
    tcase_add_test(cases, a_damaged_inner_batch_gives_the_messages_before_the_damage);
    tcase_add_test(cases, offsets_that_no_queue_has_are_damage);
    tcase_add_test(cases, a_body_that_is_text_may_be_used_as_such);
    tcase_add_test(cases, compressed_bodies_are_expanded_once_and_bounded);
    tcase_add_test(cases, a_view_outlives_its_batch_and_may_be_read_by_any_thread);
    suite_add_tcase(suite, cases);
    return suite;
}
