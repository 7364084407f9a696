/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Times of brokers, name servers and clients that do not go with each other are told at the start. */
#include <string.h>

#include <rmq/log.h>

#include "unit/broker/raw.h"

/* The lines of a start that a client's or name server's times are in. */
static int lines;
static char last[1024];

static void take_line(rmq_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    if (strstr(line, "forgotten_ms=") || strstr(line, "heartbeat")) {
        lines++;
        snprintf(last, sizeof last, "%s", line);
    }
}

static void start_with(const char *const *pairs)
{
    lines = 0;
    last[0] = '\0';
    rmq_log_set(RMQ_LOG_WARN, take_line, NULL);
    rmq_broker *broker = start_broker(pairs);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    rmq_broker_stop(broker);
}

START_TEST(a_broker_tells_what_does_not_go_with_others)
{
    static const struct {
        const char *pairs[5];
        const char *first;
        const char *second;
    } rows[] = {
        {{"registerNameServerPeriod", "60000", "registerBrokerTimeoutMills", "60001", NULL},
         "registerNameServerPeriod=60000 registerBrokerTimeoutMills=60001",
         "forgotten_ms=120000"},
        {{"channelExpiredTimeout", "30000", NULL},
         "channelExpiredTimeout=30000",
         "heartbeatBrokerInterval=30000"},
        {{"serverChannelMaxIdleTimeSeconds", "20", NULL},
         "serverChannelMaxIdleTimeSeconds=20",
         "heartbeatBrokerInterval=30000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start_with(rows[i].pairs);
        ck_assert_int_eq(lines, 1);
        ck_assert_msg(strstr(last, rows[i].first) && strstr(last, rows[i].second), "%s", last);
    }
}
END_TEST

START_TEST(a_broker_whose_times_go_with_others_tells_nothing)
{
    static const char *const edge[] = {"registerNameServerPeriod",
                                       "60000",
                                       "registerBrokerTimeoutMills",
                                       "60000",
                                       "channelExpiredTimeout",
                                       "30001",
                                       "serverChannelMaxIdleTimeSeconds",
                                       "31",
                                       NULL};
    static const char *const never[] = {"serverChannelMaxIdleTimeSeconds", "0", NULL};
    start_with(NULL);
    ck_assert_msg(lines == 0, "%s", last);
    start_with(edge);
    ck_assert_msg(lines == 0, "%s", last);
    start_with(never);
    ck_assert_msg(lines == 0, "%s", last);
}
END_TEST

START_TEST(a_name_server_tells_that_it_looks_seldom)
{
    rmq_namesrv *namesrv = NULL;
    lines = 0;
    rmq_log_set(RMQ_LOG_WARN, take_line, NULL);
    ck_assert_int_eq(rmq_namesrv_start_properties(NULL, 0, "scanNotActiveBrokerInterval=120000\n",
                                                  &namesrv, NULL),
                     RMQ_OK);
    rmq_namesrv_stop(namesrv);
    ck_assert_msg(lines == 0, "%s", last);
    ck_assert_int_eq(rmq_namesrv_start_properties(NULL, 0, "scanNotActiveBrokerInterval=120001\n",
                                                  &namesrv, NULL),
                     RMQ_OK);
    rmq_namesrv_stop(namesrv);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    ck_assert_int_eq(lines, 1);
    ck_assert_ptr_nonnull(strstr(last, "scanNotActiveBrokerInterval=120001 forgotten_ms=120000"));
}
END_TEST

Suite *intervals_suite(void);

Suite *intervals_suite(void)
{
    Suite *suite = suite_create("intervals");
    TCase *tc = tcase_create("intervals");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, a_broker_tells_what_does_not_go_with_others);
    tcase_add_test(tc, a_broker_whose_times_go_with_others_tells_nothing);
    tcase_add_test(tc, a_name_server_tells_that_it_looks_seldom);
    suite_add_tcase(suite, tc);
    return suite;
}
