/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Delayed messages after damage, and when the levels change. */
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmq/log.h>

#include "base/sys.h"
#include "base/time.h"
#include "unit/broker/raw.h"

#define LOG_BYTES 1048576

static rmq_broker *broker;
static struct raw *raw;

static void start(const char *dir, const char *levels)
{
    const char *const pairs[] = {"storePathRootDir",
                                 dir,
                                 "mappedFileSizeCommitLog",
                                 "1048576",
                                 "messageDelayLevel",
                                 levels,
                                 NULL};
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
}

static void stop(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

static void send_delayed(int level, const char *body)
{
    char props[32];
    (void)snprintf(props, sizeof props, "DELAY\001%d\002", level);
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice_str(props));
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str(body))
            ->header.code,
        RQ_RESP_SUCCESS);
}

/* Whether these messages, and nothing else, came in this order; the last one is followed by NULL. */
static bool came(const char *const *bodies)
{
    struct rq_msg msgs[8];
    const struct raw_answer *answer = raw_pull_now(raw, "G", "T", 0, 0, "*");
    size_t count = answer->header.code == RQ_RESP_SUCCESS ? raw_messages(answer, msgs, 8) : 0;
    for (size_t i = 0; i < count; i++) {
        if (!bodies[i] || !rq_slice_eq_str(msgs[i].body, bodies[i])) {
            return false;
        }
    }
    return bodies[count] == NULL;
}

static const char *path_in(const char *dir, const char *name)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Changes a byte of a text in the commit log. */
static void spoil(const char *dir, const char *text)
{
    struct rq_buf log;
    const char *path = path_in(dir, "commitlog/00000000000000000000");
    rq_buf_init(&log, 0);
    ck_assert_int_eq(rq_sys_read_file(path, 2 * LOG_BYTES, &log, NULL), RMQ_OK);
    const char *at = memmem(log.data, log.len, text, strlen(text));
    ck_assert_ptr_nonnull(at);
    int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "?", 1, at - log.data), 1);
    close(fd);
    rq_buf_free(&log);
}

static atomic_int lost_lines;
static atomic_int good_lines; /* of these: level, first number and count are right */

static void count_lost(rmq_log_level level, const char *line, void *user)
{
    (void)user;
    if (level == RMQ_LOG_ERROR && strstr(line, "delayed messages are lost")) {
        atomic_fetch_add(&lost_lines, 1);
        atomic_fetch_add(&good_lines, strstr(line, " level=1 first=1 count=2") != NULL);
    }
}

START_TEST(lost_messages_are_told_once_and_do_not_hold_up_those_behind_them)
{
    char dir[] = "/tmp/rmq-unit-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(dir));
    start(dir, "1h");
    raw_create_topic(raw, "T", 1);
    send_delayed(1, "first");
    send_delayed(1, "second");
    send_delayed(1, "third");
    send_delayed(1, "fourth");
    stop();
    spoil(dir, "second");
    spoil(dir, "third");
    close(open(path_in(dir, "abort"), O_WRONLY | O_CREAT, 0644)); /* as after a crash */
    ck_assert_int_eq(unlink(path_in(dir, "checkpoint")), 0);
    rmq_log_set(RMQ_LOG_ERROR, count_lost, NULL);
    start(dir, "1s"); /* the entries are made anew, and due soon */
    ck_eventually(came((const char *const[]){"first", "fourth", NULL}));
    stop();
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    ck_assert_int_eq(atomic_load(&lost_lines), 1);
    ck_assert_int_eq(atomic_load(&good_lines), 1);
    ck_assert_int_eq(rq_sys_rmtree(dir), 0);
}
END_TEST

static void send_due(int level, const char *body)
{
    send_delayed(level, body);
    ck_assert_int_eq(rmq_broker_fault_clock_offset(broker, 60000, NULL), RMQ_OK);
}

START_TEST(a_level_that_was_taken_out_and_put_back_does_not_deliver_again)
{
    char dir[] = "/tmp/rmq-unit-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(dir));
    start(dir, "1s 1s 1s");
    raw_create_topic(raw, "T", 1);
    send_due(3, "third");
    ck_eventually(came((const char *const[]){"third", NULL}));
    stop();
    start(dir, "1s"); /* and its file is written, since something is delivered */
    send_due(1, "first");
    ck_eventually(came((const char *const[]){"third", "first", NULL}));
    stop();
    start(dir, "1s 1s 1s");
    send_due(3, "behind it");
    ck_eventually(came((const char *const[]){"third", "first", "behind it", NULL}));
    stop();
    ck_assert_int_eq(rq_sys_rmtree(dir), 0);
}
END_TEST

static char hidden_line[1024];

static void take_hidden(rmq_log_level level, const char *line, void *user)
{
    (void)level;
    if (strstr(line, user)) {
        (void)snprintf(hidden_line, sizeof hidden_line, "%s", line);
    }
}

/* Starts once more and gives the line that has these words, or "". */
static const char *line_of_start(const char *dir, const char *levels, char *words)
{
    hidden_line[0] = '\0';
    rmq_log_set(RMQ_LOG_WARN, take_hidden, words);
    start(dir, levels);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    stop();
    return hidden_line;
}

START_TEST(messages_in_levels_without_name_are_told_at_the_start)
{
    char dir[] = "/tmp/rmq-unit-XXXXXX";
    char words[] = "messageDelayLevel does not name";
    ck_assert_ptr_nonnull(mkdtemp(dir));
    start(dir, "1h 1h 1h");
    raw_create_topic(raw, "T", 1);
    send_delayed(2, "named");
    send_delayed(3, "a");
    send_delayed(3, "b");
    stop();
    ck_assert_str_eq(line_of_start(dir, "1h 1h 1h", words), "");
    ck_assert_ptr_nonnull(strstr(line_of_start(dir, "1h 1h", words), "messages=2 level=3 named=2"));
    ck_assert_int_eq(rq_sys_rmtree(dir), 0);
}
END_TEST

START_TEST(messages_of_topics_that_are_not_known_are_told_at_the_start)
{
    char dir[] = "/tmp/rmq-unit-XXXXXX";
    char words[] = "topics that are not known";
    ck_assert_ptr_nonnull(mkdtemp(dir));
    start(dir, "1s");
    raw_create_topic(raw, "T", 2);
    raw_produce(raw, "T", 0, NULL, "x");
    raw_produce(raw, "T", 0, NULL, "y");
    raw_produce(raw, "T", 1, NULL, "z");
    stop();
    ck_assert_str_eq(line_of_start(dir, "1s", words), "");
    ck_assert_int_eq(unlink(path_in(dir, "config/topics.json")), 0);
    (void)unlink(path_in(dir, "config/topics.json.bak"));
    ck_assert_ptr_nonnull(strstr(line_of_start(dir, "1s", words), "topic=T queues=2 messages=3"));
    start(dir, "1s");
    raw_create_topic(raw, "T", 2);
    ck_assert(came((const char *const[]){"x", "y", NULL}));
    stop();
    ck_assert_int_eq(rq_sys_rmtree(dir), 0);
}
END_TEST

Suite *schedule_suite(void);

Suite *schedule_suite(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tc = tcase_create("schedule");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, lost_messages_are_told_once_and_do_not_hold_up_those_behind_them);
    tcase_add_test(tc, a_level_that_was_taken_out_and_put_back_does_not_deliver_again);
    tcase_add_test(tc, messages_in_levels_without_name_are_told_at_the_start);
    tcase_add_test(tc, messages_of_topics_that_are_not_known_are_told_at_the_start);
    suite_add_tcase(suite, tc);
    return suite;
}
