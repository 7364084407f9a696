/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Messages for any time over sockets: delivered then and once, also after restarts; recalled;
 * refused; written anew in time. */
#include "unit/broker/raw.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rmq/log.h>

#include "base/bytes.h"
#include "base/sys.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/recall.h"

static rmq_broker *broker;
static struct raw *raw;
static char handle_text[512];

static void start(const char *const *pairs)
{
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
}

static void stop(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

static int32_t produce_with(const char *body, const char *name, int64_t value, size_t more_bytes)
{
    struct rq_buf props;
    static char filler[RQ_MSG_PROPERTIES_MAX];
    memset(filler, 'x', sizeof filler);
    rq_buf_init(&props, 0);
    rq_props_add_str(&props, 0, RQ_PROP_UNIQ_KEY, rq_slice_str(body));
    if (more_bytes) {
        rq_props_add_str(&props, 0, "more", rq_slice(filler, more_bytes));
    }
    rq_props_add_i64(&props, 0, name, value);
    struct rq_hdr_send header = raw_send_header("T", 1, rq_slice(props.data, props.len));
    const struct raw_answer *answer =
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str(body));
    struct rq_slice handle = rq_header_ext(&answer->header, "recallHandle");
    snprintf(handle_text, sizeof handle_text, "%.*s", (int)handle.n, handle.p ? handle.p : "");
    rq_buf_free(&props);
    return answer->header.code;
}

static int32_t produce(const char *body, const char *name, int64_t value)
{
    return produce_with(body, name, value, 0);
}

static const char *bodies(void)
{
    static char text[512];
    struct rq_msg msgs[32];
    const struct raw_answer *answer = raw_pull_now(raw, "CG", "T", 1, 0, "*");
    size_t count = answer->header.code == RQ_RESP_SUCCESS ? raw_messages(answer, msgs, 32) : 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        strncat(text, msgs[i].body.p, msgs[i].body.n);
        strcat(text, " ");
    }
    return text;
}

static int32_t recall(const char *topic, const char *handle)
{
    struct rq_hdr_recall header = {.topic = rq_slice_str(topic),
                                   .recall_handle = rq_slice_str(handle)};
    return raw_call(raw, RQ_REQ_RECALL_MESSAGE, &rq_tab_recall, &header, rq_slice(NULL, 0))
        ->header.code;
}

START_TEST(messages_are_delivered_in_the_order_of_their_times)
{
    struct rq_msg msg;
    start(NULL);
    int64_t now_ms = rq_wall_ms();
    ck_assert_int_eq(produce("third", RQ_PROP_TIMER_DELAY_SEC, 1), RQ_RESP_SUCCESS);
    ck_assert_int_eq(produce("second", RQ_PROP_TIMER_DELAY_MS, 600), RQ_RESP_SUCCESS);
    ck_assert_int_eq(produce("first", RQ_PROP_TIMER_DELIVER_MS, now_ms + 300), RQ_RESP_SUCCESS);
    ck_assert_int_eq(produce("now", RQ_PROP_TIMER_DELIVER_MS, now_ms - 5), RQ_RESP_SUCCESS);
    ck_assert_str_eq(handle_text, "");
    ck_eventually(strcmp(bodies(), "now first second third ") == 0);
    ck_assert_int_ge(rq_wall_ms(), now_ms + 1000);
    ck_assert_uint_eq(raw_messages(raw_pull_now(raw, "CG", "T", 1, 1, "*"), &msg, 1), 1);
    ck_assert_int_ge(msg.store_timestamp_ms, now_ms + 300);
    ck_assert_int_eq(rq_props_get_i64(msg.properties, RQ_PROP_TIMER_OUT_MS, 0), now_ms + 300);
    ck_assert_int_ge(rq_props_get_i64(msg.properties, RQ_PROP_TIMER_DEQUEUE_MS, 0), now_ms + 300);
    stop();
}
END_TEST

START_TEST(times_too_far_ahead_and_none_are_refused)
{
    const char *const off[] = {"timerWheelEnable", "false", NULL};
    start(NULL);
    ck_assert_int_eq(produce("far", RQ_PROP_TIMER_DELAY_SEC, 259201), RQ_RESP_MESSAGE_ILLEGAL);
    ck_assert_int_eq(produce("huge", RQ_PROP_TIMER_DELAY_SEC, INT64_MAX), RQ_RESP_MESSAGE_ILLEGAL);
    ck_assert_int_eq(produce("near", RQ_PROP_TIMER_DELAY_SEC, 259199), RQ_RESP_SUCCESS);
    stop();
    start(off);
    ck_assert_int_eq(produce("off", RQ_PROP_TIMER_DELAY_SEC, 1), RQ_RESP_SYSTEM_ERROR);
    stop();
}
END_TEST

START_TEST(a_recalled_message_is_not_delivered)
{
    const char *const pairs[] = {"recallMessageEnable", "true", NULL};
    struct rq_recall_handle handle;
    struct rq_buf text;
    char first[512];
    start(pairs);
    ck_assert_int_eq(produce("gone", RQ_PROP_TIMER_DELAY_MS, 2000), RQ_RESP_SUCCESS);
    snprintf(first, sizeof first, "%s", handle_text);
    rq_buf_init(&text, 0);
    ck_assert(rq_recall_handle_read(rq_slice_str(first), &text, &handle));
    ck_assert(rq_slice_eq_str(handle.topic, "T"));
    ck_assert(rq_slice_eq_str(handle.broker_name, "broker-a"));
    ck_assert(rq_slice_eq_str(handle.message_id, "gone"));
    rq_buf_free(&text);
    ck_assert_int_eq(produce("stays", RQ_PROP_TIMER_DELAY_MS, 2000), RQ_RESP_SUCCESS);
    ck_assert_int_eq(recall("U", first), RQ_RESP_TOPIC_NOT_EXIST);
    ck_assert_int_eq(recall("T", "nonsense"), RQ_RESP_ILLEGAL_OPERATION);
    ck_assert_int_eq(recall("T", first), RQ_RESP_SUCCESS);
    ck_assert_int_eq(recall("T", first), RQ_RESP_ILLEGAL_OPERATION);
    ck_eventually(strcmp(bodies(), "stays ") == 0);
    stop();
    start(NULL);
    raw_produce(raw, "T", 1, NULL, "x");
    ck_assert_int_eq(recall("T", first), RQ_RESP_NO_PERMISSION);
    stop();
}
END_TEST

START_TEST(a_message_in_a_write_buffer_only_is_recalled)
{
    static const char *const pairs[] = {"recallMessageEnable", "true", RAW_IN_BUFFERS, NULL};
    start(pairs);
    ck_assert_int_eq(produce("gone", RQ_PROP_TIMER_DELAY_SEC, 600), RQ_RESP_SUCCESS);
    ck_assert_int_eq(recall("T", handle_text), RQ_RESP_SUCCESS);
    ck_assert_int_eq(recall("T", handle_text), RQ_RESP_ILLEGAL_OPERATION);
    stop();
}
END_TEST

START_TEST(a_recall_of_what_has_no_queue_entry_yet_is_to_be_repeated)
{
    const char *const pairs[] = {"recallMessageEnable", "true", NULL};
    start(pairs);
    ck_assert_int_eq(rmq_broker_fault_pause_dispatch(broker, true, NULL), RMQ_OK);
    ck_assert_int_eq(produce("gone", RQ_PROP_TIMER_DELAY_SEC, 600), RQ_RESP_SUCCESS);
    ck_assert_int_eq(recall("T", handle_text), RQ_RESP_SYSTEM_BUSY);
    ck_assert_int_eq(rmq_broker_fault_pause_dispatch(broker, false, NULL), RMQ_OK);
    ck_assert_int_eq(recall("T", handle_text), RQ_RESP_SUCCESS);
    stop();
}
END_TEST

START_TEST(what_waits_is_told_by_topic)
{
    const char *const pairs[] = {"recallMessageEnable", "true", NULL};
    struct rq_slice none = rq_slice(NULL, 0);
    start(pairs);
    ck_assert_int_eq(produce("first", RQ_PROP_TIMER_DELAY_SEC, 600), RQ_RESP_SUCCESS);
    ck_assert_int_eq(produce("second", RQ_PROP_TIMER_DELAY_SEC, 600), RQ_RESP_SUCCESS);
    ck_eventually(raw_has(raw_call(raw, RQ_REQ_GET_TIMER_METRICS, NULL, NULL, none),
                          "\"timingCount\":{\"T\":{\"count\":2,\"timeStamp\":"));
    ck_assert_int_eq(recall("T", handle_text), RQ_RESP_SUCCESS);
    ck_assert(raw_has(raw_call(raw, RQ_REQ_GET_TIMER_METRICS, NULL, NULL, none), "{\"count\":1,"));
    ck_assert(raw_has(raw_call(raw, RQ_REQ_GET_BROKER_RUNTIME_INFO, NULL, NULL, none),
                      "\"timerCongestNum\":\"1\""));
    const struct raw_answer *answer = raw_call(raw, RQ_REQ_GET_TIMER_CHECK_POINT, NULL, NULL, none);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(answer->body.n, 56);
    ck_assert_int_eq((int64_t)rq_load_be64(answer->body.p + 16), 2); /* place in the timer topic */
    ck_assert_int_eq(produce("soon", RQ_PROP_TIMER_DELAY_MS, 20), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies(), "soon ") == 0);
    ck_assert(raw_has(raw_call(raw, RQ_REQ_GET_TIMER_METRICS, NULL, NULL, none), "{\"count\":1,"));
    rq_stats_sample(&broker->stats, rq_wall_ms());
    ck_assert(!raw_has(raw_call(raw, RQ_REQ_GET_BROKER_RUNTIME_INFO, NULL, NULL, none),
                       "\"timerEnqueueTps\":\"0.0\""));
    const struct rq_hdr_stats header = {.stats_name = rq_slice_str("TIMER_DEQUEUE_NUMS"),
                                        .stats_key = rq_slice_str(RQ_TOPIC_TIMER)};
    ck_assert(raw_has(raw_call(raw, RQ_REQ_VIEW_BROKER_STATS_DATA, &rq_tab_stats, &header, none),
                      "\"statsMinute\":{\"avgpt\":1.0000,\"sum\":1,"));
    stop();
}
END_TEST

/* How many messages a queue has had. */
static int64_t stored(const char *topic, int32_t queue_id)
{
    struct rq_hdr_queue header = {.topic = rq_slice_str(topic), .queue_id = queue_id};
    return raw_i64(raw_call(raw, RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &header, rq_slice(NULL, 0)),
                   "offset");
}

START_TEST(what_waits_survives_restarts_and_is_delivered_once)
{
    char path[] = "/tmp/rmq-unit-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    const char *const pairs[] = {"storePathRootDir", path, "recallMessageEnable", "true", NULL};
    start(pairs);
    ck_assert_int_eq(produce("early", RQ_PROP_TIMER_DELAY_MS, 100), RQ_RESP_SUCCESS);
    ck_assert_int_eq(produce("late", RQ_PROP_TIMER_DELAY_MS, 1500), RQ_RESP_SUCCESS);
    ck_assert_int_eq(produce("recalled", RQ_PROP_TIMER_DELAY_MS, 1500), RQ_RESP_SUCCESS);
    ck_assert_int_eq(recall("T", handle_text), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies(), "early ") == 0);
    stop();
    start(pairs);
    ck_eventually(strcmp(bodies(), "early late ") == 0);
    stop();
    start(pairs);
    ck_assert_int_eq(produce("last", RQ_PROP_TIMER_DELAY_MS, 100), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies(), "early late last ") == 0);
    stop();
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

#define MANY 1000

/* One waits, the others are done. */
static void deliver_many(void)
{
    ck_assert_int_eq(produce("waits", RQ_PROP_TIMER_DELAY_SEC, 3600), RQ_RESP_SUCCESS);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(produce("done", RQ_PROP_TIMER_DELAY_MS, 300), RQ_RESP_SUCCESS);
    }
    ck_eventually(stored("T", 1) == MANY);
}

/* As it was before it had bits. */
static void write_old_journal(const char *file)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rq_buf_add(&text, "rqtimer1\0\0\0\0\0\0\0\0", 16);
    for (int64_t offset = 1; offset <= MANY; offset++) {
        rq_buf_add_be64(&text, (uint64_t)offset);
    }
    ck_assert_int_eq(rq_sys_write_file(file, text.data, text.len, false, NULL), RMQ_OK);
    rq_buf_free(&text);
}

START_TEST(what_is_done_behind_one_that_waits_takes_a_bit_each)
{
    char path[] = "/tmp/rmq-unit-XXXXXX";
    char file[64];
    struct stat info;
    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(file, sizeof file, "%s/config/timerDone", path);
    const char *const pairs[] = {"storePathRootDir", path, NULL};
    start(pairs);
    deliver_many();
    stop();
    for (int times = 1; times <= 3; times++) {
        start(pairs);
        ck_assert_int_eq(stat(file, &info), 0);
        ck_assert_int_lt(info.st_size, MANY);
        /* what came before it would be delivered before it */
        ck_assert_int_eq(produce("last", RQ_PROP_TIMER_DELAY_MS, 50), RQ_RESP_SUCCESS);
        ck_eventually(stored("T", 1) >= MANY + times);
        ck_assert_int_eq(stored("T", 1), MANY + times);
        stop();
    }
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

START_TEST(what_an_older_file_says_to_be_done_is_not_delivered_again)
{
    char path[] = "/tmp/rmq-unit-XXXXXX";
    char file[64];
    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(file, sizeof file, "%s/config/timerDone", path);
    const char *const pairs[] = {"storePathRootDir", path, NULL};
    start(pairs);
    deliver_many();
    stop();
    write_old_journal(file);
    start(pairs);
    ck_assert_int_eq(produce("last", RQ_PROP_TIMER_DELAY_MS, 50), RQ_RESP_SUCCESS);
    ck_eventually(stored("T", 1) >= MANY + 1);
    ck_assert_int_eq(stored("T", 1), MANY + 1);
    stop();
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

static int count_of(struct rq_slice properties, const char *name)
{
    struct rq_prop prop;
    int count = 0;
    while (rq_props_next(&properties, &prop)) {
        count += rq_slice_eq_str(prop.name, name);
    }
    return count;
}

START_TEST(a_message_that_waits_long_is_written_anew_and_delivered_once)
{
    const char *const pairs[] = {"timerRollWindowSlot", "2", NULL};
    struct rq_msg msg;
    start(pairs);
    ck_assert_int_eq(produce("long", RQ_PROP_TIMER_DELAY_MS, 4500), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies(), "long ") == 0);
    ck_assert_uint_eq(raw_messages(raw_pull_now(raw, "CG", "T", 1, 0, "*"), &msg, 1), 1);
    int64_t times = rq_props_get_i64(msg.properties, RQ_PROP_TIMER_ROLL_TIMES, 0);
    ck_assert_int_ge(times, 1);
    ck_assert_int_eq(count_of(msg.properties, RQ_PROP_TIMER_ROLL_TIMES), 1);
    ck_assert_int_eq(count_of(msg.properties, RQ_PROP_TIMER_DEQUEUE_MS), 1);
    ck_assert_int_eq(stored(RQ_TOPIC_TIMER, 0), 1 + times);
    stop();
}
END_TEST

/* Near the limit it is either refused or delivered, and both happens. */
START_TEST(a_message_without_room_for_what_it_gets_later_is_refused_when_it_comes)
{
    int64_t taken = 0;
    int64_t refused = 0;
    start(NULL);
    for (size_t less = 420; less > 60; less -= 12) {
        if (produce_with("large", RQ_PROP_TIMER_DELAY_MS, 300, RQ_MSG_PROPERTIES_MAX - less) ==
            RQ_RESP_SUCCESS) {
            taken++;
        } else {
            refused++;
        }
    }
    ck_assert_int_gt(taken, 0);
    ck_assert_int_gt(refused, 0);
    ck_eventually(stored("T", 1) == taken);
    stop();
}
END_TEST

START_TEST(a_message_in_a_log_that_is_kept_for_no_time_is_not_written_anew)
{
    const char *const pairs[] = {"fileReservedTime", "0", NULL};
    start(pairs);
    ck_assert_int_eq(produce("once", RQ_PROP_TIMER_DELAY_MS, 500), RQ_RESP_SUCCESS);
    ck_eventually(strcmp(bodies(), "once ") == 0);
    ck_assert_int_eq(stored(RQ_TOPIC_TIMER, 0), 1);
    stop();
}
END_TEST

START_TEST(what_is_stored_is_delivered_when_maxMessageSize_is_lowered_meanwhile)
{
    start(NULL);
    ck_assert_int_eq(produce("more than ten bytes", RQ_PROP_DELAY, 1), RQ_RESP_SUCCESS);
    ck_assert_int_eq(produce("so are these", RQ_PROP_TIMER_DELAY_MS, 1000), RQ_RESP_SUCCESS);
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_UPDATE_BROKER_CONFIG, NULL, NULL, rq_slice_str("maxMessageSize=10"))
            ->header.code,
        RQ_RESP_SUCCESS);
    ck_assert_int_eq(produce("too many bytes", RQ_PROP_DELAY, 1), RQ_RESP_MESSAGE_ILLEGAL);
    ck_eventually(stored("T", 1) == 2);
    stop();
}
END_TEST

/* Descriptors of the file of what is done, in this process. Makes no call of Check. */
static int journals(void)
{
    char path[300];
    char target[512];
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        count += strstr(target, "/config/timerDone") != NULL;
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

START_TEST(a_child_of_fork_does_not_have_the_file_of_what_is_done)
{
    int status = 0;
    char path[] = "/tmp/rmq-unit-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    const char *const pairs[] = {"storePathRootDir", path, NULL};
    start(pairs);
    ck_assert_int_eq(journals(), 1);
    pid_t child = fork();
    if (child == 0) {
        _exit(journals());
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(journals(), 1);
    stop();
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

static int unknown_lines;

static void count_unknown(rmq_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    unknown_lines += strstr(line, "they come again") != NULL;
}

START_TEST(a_file_of_what_is_done_that_says_nothing_is_told)
{
    char path[] = "/tmp/rmq-unit-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    const char *const pairs[] = {"storePathRootDir", path, NULL};
    write_config(path, "timerDone", "what a disk may leave of it");
    rmq_log_set(RMQ_LOG_WARN, count_unknown, NULL);
    for (int i = 0; i < 2; i++) { /* the second finds what the first one wrote */
        start(pairs);
        stop();
        ck_assert_int_eq(unknown_lines, 1);
    }
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

Suite *timers_suite(void)
{
    Suite *suite = suite_create("timers");
    TCase *tcase = tcase_create("broker");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, messages_are_delivered_in_the_order_of_their_times);
    tcase_add_test(tcase, times_too_far_ahead_and_none_are_refused);
    tcase_add_test(tcase, a_recalled_message_is_not_delivered);
    tcase_add_test(tcase, a_message_in_a_write_buffer_only_is_recalled);
    tcase_add_test(tcase, a_recall_of_what_has_no_queue_entry_yet_is_to_be_repeated);
    tcase_add_test(tcase, what_waits_is_told_by_topic);
    tcase_add_test(tcase, what_waits_survives_restarts_and_is_delivered_once);
    tcase_add_test(tcase, what_is_done_behind_one_that_waits_takes_a_bit_each);
    tcase_add_test(tcase, what_an_older_file_says_to_be_done_is_not_delivered_again);
    tcase_add_test(tcase, a_message_that_waits_long_is_written_anew_and_delivered_once);
    tcase_add_test(tcase, a_message_without_room_for_what_it_gets_later_is_refused_when_it_comes);
    tcase_add_test(tcase, a_message_in_a_log_that_is_kept_for_no_time_is_not_written_anew);
    tcase_add_test(tcase, what_is_stored_is_delivered_when_maxMessageSize_is_lowered_meanwhile);
    tcase_add_test(tcase, a_child_of_fork_does_not_have_the_file_of_what_is_done);
    tcase_add_test(tcase, a_file_of_what_is_done_that_says_nothing_is_told);
    suite_add_tcase(suite, tcase);
    return suite;
}
