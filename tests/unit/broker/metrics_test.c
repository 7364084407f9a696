/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* /metrics and /health over HTTP. */
#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "unit/broker/raw.h"

static rmq_broker *broker;
static struct raw *raw;
static char text[1 << 16];

static void setup(void)
{
    const char *const pairs[] = {"metricsPort", "0", NULL};
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
}

static void teardown(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

/* The whole answer, head and body. */
static const char *get(const char *method, const char *path)
{
    char addr[64];
    snprintf(addr, sizeof addr, "127.0.0.1:%d", rmq_broker_metrics_port(broker));
    struct raw *http = raw_open(addr);
    char head[256];
    snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method,
             path);
    raw_bytes(http, head, strlen(head));
    raw_text(http, text, sizeof text);
    raw_close(http);
    return text;
}

START_TEST(figures_are_told_in_the_text_form_of_prometheus)
{
    raw_create_topic(raw, "T", 1);
    raw_produce(raw, "T", 0, NULL, "one");
    raw_produce(raw, "T", 0, NULL, "two");
    raw_heartbeat(raw, "c", "G", "T", "*", 1);
    struct rq_hdr_update_consumer_offset commit = {
        .consumer_group = rq_slice_str("G"), .topic = rq_slice_str("T"), .commit_offset = 1};
    raw_call(raw, RQ_REQ_UPDATE_CONSUMER_OFFSET, &rq_tab_update_consumer_offset, &commit,
             rq_slice(NULL, 0));
    const char *page = get("GET", "/metrics");
    ck_assert_ptr_nonnull(strstr(page, "HTTP/1.1 200"));
    ck_assert_ptr_nonnull(
        strstr(page, "# TYPE rmq_put_messages_total counter\nrmq_put_messages_total 2\n"));
    ck_assert_ptr_nonnull(strstr(page, "rmq_topic_put_messages_total{topic=\"T\"} 2\n"));
    ck_assert_ptr_nonnull(strstr(page, "rmq_group_lag_messages{topic=\"T\",group=\"G\"} 1\n"));
    ck_assert_ptr_nonnull(strstr(page, "rmq_put_seconds_bucket{le=\"+Inf\"} 2\n"));
    ck_assert_ptr_nonnull(strstr(page, "rmq_store_writable 1\n"));
}
END_TEST

START_TEST(every_row_of_the_table_is_told)
{
    const char *name, *type, *labels, *help;
    char line[256];
    const char *page = get("GET", "/metrics");
    for (size_t i = 0; rmq_broker_metric_at(i, &name, &type, &labels, &help); i++) {
        snprintf(line, sizeof line, "# TYPE %s %s\n", name, type);
        ck_assert_msg(strstr(page, line) != NULL, "%s", name);
    }
}
END_TEST

START_TEST(a_broker_that_cannot_store_is_not_well)
{
    ck_assert_ptr_nonnull(strstr(get("GET", "/health"), "HTTP/1.1 200"));
    ck_assert_ptr_nonnull(strstr(get("GET", "/health"), "ok\n"));
    ck_assert_int_eq(rmq_broker_fault_disk_used(broker, 99, NULL), RMQ_OK);
    ck_assert_ptr_nonnull(strstr(get("GET", "/health"), "HTTP/1.1 503"));
    ck_assert_int_eq(rmq_broker_fault_disk_used(broker, -1, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_fault_disk(broker, RMQ_DISK_WRITE, 1, -1, EROFS, NULL), RMQ_OK);
    raw_create_topic(raw, "T", 1);
    ck_assert_int_eq(raw_produce(raw, "T", 0, NULL, "one")->header.code,
                     RQ_RESP_SERVICE_NOT_AVAILABLE);
    const char *page = get("GET", "/health");
    ck_assert_ptr_nonnull(strstr(page, "HTTP/1.1 503"));
    ck_assert_msg(strstr(page, strerror(EROFS)) != NULL, "%s", page);
}
END_TEST

START_TEST(other_paths_and_methods_are_refused)
{
    ck_assert_ptr_nonnull(strstr(get("GET", "/"), "HTTP/1.1 404"));
    ck_assert_ptr_null(strstr(get("POST", "/metrics"), "HTTP/1.1 200"));
    ck_assert_ptr_null(strstr(get("DELETE", "/health"), "HTTP/1.1 200"));
}
END_TEST

START_TEST(without_a_port_nothing_is_served)
{
    teardown();
    broker = start_broker(NULL);
    raw = raw_open(rmq_broker_addr(broker));
    ck_assert_int_eq(rmq_broker_metrics_port(broker), -1);
}
END_TEST

START_TEST(an_address_that_is_none_is_told_with_the_reason)
{
    rmq_broker_config *config = NULL;
    rmq_broker *second = NULL;
    rmq_error *err = NULL;
    rmq_broker_config_create(&config, NULL);
    rmq_broker_config_set(config, "metricsPort", "0", NULL);
    rmq_broker_config_set(config, "metricsAddress", "no-such-host.invalid", NULL);
    ck_assert_int_eq(rmq_broker_start(config, &second, &err), RMQ_ERR_RESOLVE);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "no-such-host.invalid"));
    ck_assert_ptr_null(strstr(rmq_error_message(err), "in progress"));
    rmq_error_destroy(err);
    rmq_broker_config_destroy(config);
}
END_TEST

Suite *metrics_suite(void);

Suite *metrics_suite(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tc = tcase_create("metrics");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, figures_are_told_in_the_text_form_of_prometheus);
    tcase_add_test(tc, every_row_of_the_table_is_told);
    tcase_add_test(tc, a_broker_that_cannot_store_is_not_well);
    tcase_add_test(tc, an_address_that_is_none_is_told_with_the_reason);
    tcase_add_test(tc, other_paths_and_methods_are_refused);
    tcase_add_test(tc, without_a_port_nothing_is_served);
    suite_add_tcase(suite, tc);
    return suite;
}
