/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Options as text, and the way from a program's struct to a checked copy. */
#include <check.h>
#include <string.h>

#include <rmq/config.h>

#include "client/options.h"

Suite *config_suite(void);

static rmq_config *make(rmq_config_kind kind)
{
    rmq_config *config = NULL;
    ck_assert_int_eq(rmq_config_create(kind, &config, NULL), RMQ_OK);
    return config;
}

START_TEST(every_option_has_a_readable_default_a_range_and_a_help_text)
{
    const rmq_config_kind kinds[] = {RMQ_CONFIG_PRODUCER, RMQ_CONFIG_CONSUMER,
                                     RMQ_CONFIG_PULL_CONSUMER, RMQ_CONFIG_LITE_PULL_CONSUMER};
    for (int k = 0; k < 4; k++) {
        rmq_config *config = make(kinds[k]);
        size_t n = rmq_config_field_count(kinds[k]);
        ck_assert(n > 12);
        for (size_t i = 0; i < n; i++) {
            const rmq_config_field *field = rmq_config_field_at(kinds[k], i);
            const char *name = rmq_config_field_name(field);
            ck_assert_str_eq(rmq_config_get(config, name), rmq_config_field_default(field));
            ck_assert(strlen(rmq_config_field_help(field)) > 10);
            if (strncmp(rmq_config_field_type(field), "int", 3) == 0) {
                ck_assert_ptr_nonnull(strstr(rmq_config_field_range(field), " … "));
            }
        }
        ck_assert_ptr_null(rmq_config_field_at(kinds[k], n));
        rmq_config_destroy(config);
    }
}
END_TEST

START_TEST(defaults_are_those_of_the_java_client)
{
    rmq_producer_options p;
    rmq_producer_options_init(&p, sizeof p);
    ck_assert(p.send_msg_timeout_ms == 3000 && p.retry_times_when_send_failed == 2);
    ck_assert(p.compress_msg_body_over_howmuch == 4096 && p.max_message_size == 4194304);
    ck_assert(p.default_topic_queue_nums == 4 && p.send_latency_fault_enable &&
              p.async_wait_when_full);
    ck_assert_str_eq(p.create_topic_key, "TBW102");
    rmq_consumer_options c;
    rmq_consumer_options_init(&c, sizeof c);
    ck_assert(c.consume_thread_nums == 20 && c.pull_batch_size == 32 &&
              c.max_reconsume_times == -1);
    ck_assert(c.pull_threshold_for_queue == 1000 && c.consume_concurrently_max_span == 2000);
    ck_assert(c.consume_from_where == RMQ_CONSUME_FROM_LAST_OFFSET &&
              c.broker_suspend_max_time_ms == 15000);
}
END_TEST

START_TEST(an_unknown_key_is_an_error_that_names_the_nearest)
{
    rmq_config *config = make(RMQ_CONFIG_PRODUCER);
    rmq_error *err = NULL;
    ck_assert_int_eq(rmq_config_set(config, "sendMsgTimeOut", "3000", &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "sendMsgTimeout"));
    rmq_error_destroy(err);
    ck_assert_ptr_null(rmq_config_get(config, "sendMsgTimeOut"));
    rmq_config_destroy(config);
}
END_TEST

START_TEST(a_value_out_of_range_is_an_error_with_value_and_range)
{
    rmq_config *config = make(RMQ_CONFIG_CONSUMER);
    rmq_error *err = NULL;
    ck_assert_int_eq(rmq_config_set(config, "consumeThreadNums", "1001", &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "1001"));
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "1000"));
    ck_assert_str_eq(rmq_config_get(config, "consumeThreadNums"), "20");
    rmq_error_destroy(err);
    rmq_config_destroy(config);
}
END_TEST

START_TEST(a_text_that_is_none_of_the_words_is_an_error_with_the_words)
{
    rmq_config *config = make(RMQ_CONFIG_PRODUCER);
    rmq_error *err = NULL;
    ck_assert_int_eq(rmq_config_set(config, "compressType", "bad", &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(
        strstr(rmq_error_message(err), "\"bad\" is not one of ZLIB|LZ4|ZSTD|NONE"));
    rmq_error_destroy(err);
    ck_assert_int_eq(rmq_config_set(config, "serializeType", "XML", NULL), RMQ_ERR_INVALID);
    ck_assert_str_eq(rmq_config_get(config, "compressType"), "ZLIB");
    ck_assert_int_eq(rmq_config_set(config, "compressType", "lz4", NULL), RMQ_OK);
    ck_assert_str_eq(rmq_config_get(config, "compressType"), "lz4");
    rmq_config_destroy(config);
}
END_TEST

START_TEST(several_options_are_parsed_with_escaped_semicolons)
{
    rmq_config *config = make(RMQ_CONFIG_PRODUCER);
    ck_assert_int_eq(
        rmq_config_parse(config,
                         " producerGroup = g ; namesrvAddr=10.0.0.1:9876\\;10.0.0.2:9876;"
                         "sendMsgTimeout=5000;;",
                         NULL),
        RMQ_OK);
    ck_assert_str_eq(rmq_config_get(config, "producerGroup"), "g");
    ck_assert_str_eq(rmq_config_get(config, "namesrvAddr"), "10.0.0.1:9876;10.0.0.2:9876");
    ck_assert_str_eq(rmq_config_get(config, "sendMsgTimeout"), "5000");
    const rmq_producer_options *options = rq_config_producer(config);
    ck_assert_ptr_nonnull(options);
    ck_assert(options->send_msg_timeout_ms == 5000);
    ck_assert_ptr_null(rq_config_consumer(config));
    rmq_config_destroy(config);
}
END_TEST

START_TEST(parsing_stops_at_the_first_error_and_keeps_what_came_before)
{
    rmq_config *config = make(RMQ_CONFIG_CONSUMER);
    rmq_error *err = NULL;
    ck_assert_int_eq(rmq_config_parse(config, "pullBatchSize=16;nonsense;pullInterval=7", &err),
                     RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "nonsense"));
    ck_assert_str_eq(rmq_config_get(config, "pullBatchSize"), "16");
    ck_assert_str_eq(rmq_config_get(config, "pullInterval"), "0");
    rmq_error_destroy(err);
    rmq_config_destroy(config);
}
END_TEST

static void expect_refused(const rmq_producer_options *options, const char *words)
{
    rmq_producer_options copy;
    rmq_error *err = NULL;
    ck_assert_int_eq(rq_producer_options_load(options, &copy, &err), RMQ_ERR_INVALID);
    ck_assert_msg(strstr(rmq_error_message(err), words), "\"%s\" lacks \"%s\"",
                  rmq_error_message(err), words);
    rmq_error_destroy(err);
}

START_TEST(a_programs_struct_is_checked)
{
    rmq_producer_options o;
    rmq_producer_options_init(&o, sizeof o);
    expect_refused(&o, "producerGroup");
    o.producer_group = "bad group!";
    expect_refused(&o, "bad group!");
    o.producer_group = "g";
    o.max_message_size = 0;
    expect_refused(&o, "maxMessageSize");
    o.max_message_size = 1024;
    o.compress_type = "RAR";
    expect_refused(&o, "RAR");
    o.compress_type = "zstd";
    o.serialize_type = "XML";
    expect_refused(&o, "XML");
    o.serialize_type = "JSON";
    o.retry_response_codes = "1,two";
    expect_refused(&o, "1,two");
}
END_TEST

START_TEST(a_text_that_is_null_is_the_default)
{
    rmq_producer_options o;
    rmq_producer_options copy;
    rmq_producer_options_init(&o, sizeof o);
    o.producer_group = "g";
    o.create_topic_key = NULL;
    o.retry_response_codes = NULL;
    ck_assert_int_eq(rq_producer_options_load(&o, &copy, NULL), RMQ_OK);
    ck_assert_str_eq(copy.create_topic_key, "TBW102");
    ck_assert_str_eq(copy.retry_response_codes, "1,2,14,16,17,204,205,1500");
    rq_table_free(&rq_producer_table, &copy);
}
END_TEST

START_TEST(times_with_which_no_send_could_succeed_are_refused)
{
    rmq_producer_options o;
    rmq_producer_options_init(&o, sizeof o);
    o.producer_group = "g";
    o.send_msg_max_timeout_per_request_ms = 0;
    expect_refused(&o, "sendMsgMaxTimeoutPerRequest: 0 ms");
    o.send_msg_max_timeout_per_request_ms = -1;
    o.auto_batch = true;
    o.batch_max_delay_ms = 3000;
    expect_refused(&o, "batchMaxDelayMs: 3000 ms, but sends end after 3000 ms");
}
END_TEST

START_TEST(events_belong_to_what_posts_them)
{
    static const struct {
        rmq_config_kind kind;
        rmq_status status;
    } kinds[] = {{RMQ_CONFIG_PRODUCER, RMQ_OK},
                 {RMQ_CONFIG_CONSUMER, RMQ_OK},
                 {RMQ_CONFIG_LITE_PULL_CONSUMER, RMQ_OK},
                 {RMQ_CONFIG_PULL_CONSUMER, RMQ_ERR_INVALID},
                 {RMQ_CONFIG_POP_CONSUMER, RMQ_ERR_INVALID}};
    rmq_events *events = NULL;
    ck_assert_int_eq(rmq_events_create(&events, NULL), RMQ_OK);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        rmq_config *config = NULL;
        ck_assert_int_eq(rmq_config_create(kinds[i].kind, &config, NULL), RMQ_OK);
        ck_assert_int_eq(rmq_config_set_events(config, events, NULL), kinds[i].status);
        rmq_config_destroy(config);
    }
    ck_assert_int_eq(rmq_config_set_events(NULL, events, NULL), RMQ_ERR_INVALID);
    rmq_events_destroy(events);
}
END_TEST

START_TEST(a_shorter_struct_of_an_old_program_gets_the_new_defaults)
{
    size_t old_size = offsetof(rmq_producer_options, max_async_in_flight);
    rmq_producer_options o;
    memset(&o, 0x55, sizeof o);
    rmq_producer_options_init(&o, old_size);
    ck_assert_int_eq(o.max_async_in_flight, 0x55555555); /* not ours to write */
    o.producer_group = "g";
    rmq_producer_options copy;
    ck_assert_int_eq(rq_producer_options_load(&o, &copy, NULL), RMQ_OK);
    ck_assert_int_eq(copy.max_async_in_flight, 10000);
    ck_assert_ptr_ne(copy.producer_group, o.producer_group);
    rq_table_free(&rq_producer_table, &copy);
}
END_TEST

Suite *config_suite(void)
{
    Suite *suite = suite_create("config");
    TCase *cases = tcase_create("config");
    tcase_add_test(cases, every_option_has_a_readable_default_a_range_and_a_help_text);
    tcase_add_test(cases, defaults_are_those_of_the_java_client);
    tcase_add_test(cases, an_unknown_key_is_an_error_that_names_the_nearest);
    tcase_add_test(cases, a_value_out_of_range_is_an_error_with_value_and_range);
    tcase_add_test(cases, a_text_that_is_none_of_the_words_is_an_error_with_the_words);
    tcase_add_test(cases, several_options_are_parsed_with_escaped_semicolons);
    tcase_add_test(cases, parsing_stops_at_the_first_error_and_keeps_what_came_before);
    tcase_add_test(cases, a_programs_struct_is_checked);
    tcase_add_test(cases, a_text_that_is_null_is_the_default);
    tcase_add_test(cases, times_with_which_no_send_could_succeed_are_refused);
    tcase_add_test(cases, events_belong_to_what_posts_them);
    tcase_add_test(cases, a_shorter_struct_of_an_old_program_gets_the_new_defaults);
    suite_add_tcase(suite, cases);
    return suite;
}
