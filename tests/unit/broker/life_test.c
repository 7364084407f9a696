/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Start and stop, what stays behind, restart on the same store, bad input on the ports,
 * misbehaviour on request, administration. */
#include "unit/broker/raw.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <rmq/log.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/time.h"
#include "lib/port.h"

static int count_entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) {
        count++;
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

START_TEST(fifty_rounds_leave_no_thread_no_descriptor_and_no_directory)
{
    int threads = 0;
    int fds = 0;
    char store[4096];
    const char *const pairs[] = {"listenPort", "0", NULL};
    for (int i = 0; i < 50; i++) {
        rmq_broker *broker = start_broker(pairs);
        struct raw *raw = raw_open(rmq_broker_addr(broker));
        ck_assert_int_eq(raw_produce(raw, "T", 0, NULL, "x")->header.code, RQ_RESP_SUCCESS);
        raw_close(raw);
        snprintf(store, sizeof store, "%s", rmq_broker_store_path(broker));
        rmq_broker_stop(broker);
        ck_assert_int_ne(access(store, F_OK), 0);
        if (i == 4) {
            threads = count_entries("/proc/self/task");
            fds = count_entries("/proc/self/fd");
        }
    }
    ck_eventually(count_entries("/proc/self/task") <= threads);
    ck_assert_int_le(count_entries("/proc/self/fd"), fds);
}
END_TEST

START_TEST(a_broker_starts_again_on_its_store_with_all_it_knew)
{
    char dir[] = "/tmp/rmq-broker-test-XXXXXX";
    struct rq_msg msgs[2];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    const char *const pairs[] = {"storePathRootDir", dir, "mappedFileSizeCommitLog", "1048576",
                                 NULL};
    rmq_broker *broker = start_broker(pairs);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    ck_assert_int_eq(rmq_broker_create_topic(broker, "Kept", 3, NULL), RMQ_OK);
    raw_produce(raw, "Kept", 2, "A", "stays");
    struct rq_hdr_update_consumer_offset commit = {.consumer_group = rq_slice_str("G"),
                                                   .topic = rq_slice_str("Kept"),
                                                   .queue_id = 2,
                                                   .commit_offset = 1};
    raw_heartbeat(raw, "one", "G", "Kept", "*", 1);
    raw_call(raw, RQ_REQ_UPDATE_CONSUMER_OFFSET, &rq_tab_update_consumer_offset, &commit,
             rq_slice(NULL, 0));
    raw_close(raw);
    rmq_broker_stop(broker);

    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
    ck_assert_uint_eq(raw_messages(raw_pull_now(raw, "H", "Kept", 2, 0, "*"), msgs, 2), 1);
    ck_assert(rq_slice_eq_str(msgs[0].body, "stays"));
    ck_assert_int_eq(raw_pull_now(raw, "H", "Kept", 3, 0, "*")->header.code,
                     RQ_RESP_INVALID_PARAMETER);
    struct rq_hdr_query_consumer_offset query = {
        .consumer_group = rq_slice_str("G"), .topic = rq_slice_str("Kept"), .queue_id = 2};
    ck_assert_int_eq(raw_i64(raw_call(raw, RQ_REQ_QUERY_CONSUMER_OFFSET,
                                      &rq_tab_query_consumer_offset, &query, rq_slice(NULL, 0)),
                             "offset"),
                     1);
    raw_close(raw);
    rmq_broker *second = NULL;
    rmq_broker_config *config = NULL;
    rmq_broker_config_create(&config, NULL);
    rmq_broker_config_set(config, "storePathRootDir", dir, NULL);
    ck_assert_int_ne(rmq_broker_start(config, &second, NULL), RMQ_OK);
    rmq_broker_config_destroy(config);
    rmq_broker_stop(broker);
    rq_sys_rmtree(dir);
}
END_TEST

#define TEN   "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s "
#define SIXTY TEN TEN TEN TEN TEN TEN

START_TEST(settings_with_which_messages_would_go_astray_are_refused_at_the_start)
{
    static const char *const pairs[][3] = {
        {"messageDelayLevel", "", "no delay"},
        {"messageDelayLevel", SIXTY "1s 1s 1s 1s 9s", "\"9s\" is one more than 64 delays"},
        {"brokerName", "../x", "\"../x\": nothing before a dot"},
        {"brokerName", "x.", "\"x.\": nothing behind a dot"},
        {"namesrvAddr", ";;", "no server"},
        {"namesrvAddr", ",\t;", "no server"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        rmq_broker_config *config = NULL;
        rmq_broker *none = NULL;
        rmq_error *err = NULL;
        rmq_broker_config_create(&config, NULL);
        ck_assert_int_eq(rmq_broker_config_set(config, pairs[i][0], pairs[i][1], NULL), RMQ_OK);
        ck_assert_int_eq(rmq_broker_start(config, &none, &err), RMQ_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(rmq_error_message(err), pairs[i][0]));
        ck_assert_ptr_nonnull(strstr(rmq_error_message(err), pairs[i][2]));
        rmq_error_destroy(err);
        rmq_broker_config_destroy(config);
    }
}
END_TEST

START_TEST(a_broker_with_a_relative_store_stays_there_when_its_host_changes_the_directory)
{
    char dir[] = "/tmp/rmq-broker-test-XXXXXX";
    static const char *const pairs[] = {"storePathRootDir", "store", NULL};
    int home = open(".", O_RDONLY | O_DIRECTORY);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
    rmq_broker *broker = start_broker(pairs);
    ck_assert_int_eq(mkdir("elsewhere", 0755), 0);
    ck_assert_int_eq(chdir("elsewhere"), 0);
    ck_assert_int_eq(rmq_broker_create_topic(broker, "Kept", 3, NULL), RMQ_OK);
    rmq_broker_stop(broker);
    ck_assert_int_eq(chdir(dir), 0);
    ck_assert_int_eq(rmdir("elsewhere"), 0); /* nothing is in it */
    struct rq_buf topics;
    rq_buf_init(&topics, 0);
    ck_assert_int_eq(rq_sys_read_file("store/config/topics.json", 1000000, &topics, NULL), RMQ_OK);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&topics), "\"Kept\""));
    rq_buf_free(&topics);
    ck_assert_int_eq(fchdir(home), 0);
    close(home);
    rq_sys_rmtree(dir);
}
END_TEST

START_TEST(a_template_that_an_earlier_run_left_makes_no_topics_when_that_is_switched_off)
{
    char dir[] = "/tmp/rmq-broker-test-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int off = 0; off < 2; off++) {
        const char *const pairs[] = {"storePathRootDir", dir, "autoCreateTopicEnable",
                                     off ? "false" : "true", NULL};
        rmq_broker *broker = start_broker(pairs);
        struct raw *raw = raw_open(rmq_broker_addr(broker));
        ck_assert_int_eq(raw_produce(raw, off ? "Second" : "First", 0, NULL, "x")->header.code,
                         off ? RQ_RESP_TOPIC_NOT_EXIST : RQ_RESP_SUCCESS);
        raw_close(raw);
        rmq_broker_stop(broker);
    }
    rq_sys_rmtree(dir);
}
END_TEST

START_TEST(a_master_has_the_id_of_one_whatever_was_set)
{
    const char *const pairs[] = {"brokerId", "7", NULL};
    rmq_broker *broker = start_broker(pairs);
    struct raw *ns = raw_open(rmq_broker_namesrv_addr(broker));
    char text[128];
    snprintf(text, sizeof text, "\"brokerAddrs\":{\"0\":\"%s\"}", rmq_broker_addr(broker));
    ck_assert(raw_has(raw_route(ns, RQ_TOPIC_DEFAULT), text));
    raw_close(ns);
    rmq_broker_stop(broker);
}
END_TEST

START_TEST(a_port_in_use_is_an_error_that_names_it)
{
    rmq_broker *broker = start_broker(NULL);
    rmq_broker *second = NULL;
    rmq_error *err = NULL;
    const char *port = strrchr(rmq_broker_addr(broker), ':') + 1;
    rmq_broker_config *config = NULL;
    rmq_broker_config_create(&config, NULL);
    rmq_broker_config_set(config, "listenPort", port, NULL);
    ck_assert_int_eq(rmq_broker_start(config, &second, &err), RMQ_ERR_IO);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), port));
    rmq_error_destroy(err);
    rmq_broker_config_destroy(config);
    rmq_broker_stop(broker);
}
END_TEST

START_TEST(an_ipv6_address_is_registered_in_brackets)
{
    const char *const pairs[] = {"brokerIP1", _i ? "[::1]" : "::1", NULL};
    rmq_broker *broker = start_broker(pairs);
    struct rq_msg msgs[1];
    ck_assert_int_eq(strncmp(rmq_broker_addr(broker), "[::1]:", 6), 0);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    struct raw_answer *answer = raw_produce(raw, "T", 0, NULL, "six");
    ck_assert_uint_eq(rq_header_ext(&answer->header, "msgId").n, 56);
    ck_assert_uint_eq(raw_messages(raw_pull_now(raw, "G", "T", 0, 0, "*"), msgs, 1), 1);
    ck_assert_int_eq(msgs[0].born_host.len, 16);
    struct raw *ns = raw_open(rmq_broker_namesrv_addr(broker));
    ck_assert(raw_has(raw_route(ns, RQ_TOPIC_DEFAULT), rmq_broker_addr(broker)));
    raw_close(ns);
    raw_close(raw);
    rmq_broker_stop(broker);
}
END_TEST

START_TEST(a_broker_registers_at_several_name_servers_and_bears_a_dead_one)
{
    rmq_namesrv *one = NULL;
    rmq_namesrv *two = NULL;
    char list[256];
    ck_assert_int_eq(rmq_namesrv_start(NULL, 0, &one, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_namesrv_start(NULL, 0, &two, NULL), RMQ_OK);
    snprintf(list, sizeof list, "%s;127.0.0.1:1;%s", rmq_namesrv_addr(one), rmq_namesrv_addr(two));
    const char *const pairs[] = {"namesrvAddr", list, "brokerName", "b2", NULL};
    rmq_broker *broker = start_broker(pairs);
    struct raw *first = raw_open(rmq_namesrv_addr(one));
    struct raw *second = raw_open(rmq_namesrv_addr(two));
    ck_assert_int_eq(raw_route(first, RQ_TOPIC_DEFAULT)->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_route(second, RQ_TOPIC_DEFAULT)->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(rmq_broker_create_topic(broker, "Made", 2, NULL), RMQ_OK);
    ck_assert_int_eq(raw_route(second, "Made")->header.code, RQ_RESP_SUCCESS);
    rmq_broker_stop(broker);
    ck_assert_int_eq(raw_route(first, RQ_TOPIC_DEFAULT)->header.code, RQ_RESP_TOPIC_NOT_EXIST);
    raw_close(first);
    raw_close(second);
    rmq_namesrv_stop(one);
    rmq_namesrv_stop(two);
}
END_TEST

START_TEST(a_name_server_that_comes_back_is_told_at_once)
{
    rmq_namesrv *ns = NULL;
    int port = tl_port_kept(NULL, 0);
    ck_assert_int_eq(rmq_namesrv_start(NULL, port, &ns, NULL), RMQ_OK);
    const char *const pairs[] = {"namesrvAddr", rmq_namesrv_addr(ns), NULL};
    rmq_broker *broker = start_broker(pairs);
    rmq_namesrv_stop(ns);
    ck_assert_int_eq(rmq_namesrv_start(NULL, port, &ns, NULL), RMQ_OK);
    struct raw *raw = raw_open(rmq_namesrv_addr(ns));
    ck_eventually(raw_route(raw, RQ_TOPIC_DEFAULT)->header.code == RQ_RESP_SUCCESS);
    raw_close(raw);
    rmq_broker_stop(broker);
    rmq_namesrv_stop(ns);
}
END_TEST

START_TEST(with_synchronous_flush_a_send_is_answered_and_seen_when_it_is_on_disk)
{
    const char *const pairs[] = {"flushDiskType", "SYNC_FLUSH", NULL};
    rmq_broker *broker = start_broker(pairs);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    struct raw *consumer = raw_open(rmq_broker_addr(broker));
    struct raw_answer answer;
    struct rq_msg msgs[4];
    raw_create_topic(raw, "T", 1);
    raw_pull(consumer, "G", "T", 0, 0, "*", 60000);
    const struct raw_answer *sent = raw_produce(raw, "T", 0, "A", "safe");
    ck_assert_int_eq(sent->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(sent, "queueOffset"), 0);
    ck_assert_uint_eq(rq_header_ext(&sent->header, "msgId").n, 32);
    ck_assert(rq_header_ext(&sent->header, "transactionId").n > 0);
    ck_assert(raw_next(consumer, &answer, RAW_WAIT_MS));
    ck_assert_uint_eq(raw_messages(&answer, msgs, 4), 1);
    ck_assert(rq_slice_eq_str(msgs[0].body, "safe"));
    raw_close(consumer);
    raw_close(raw);
    rmq_broker_stop(broker);
}
END_TEST

START_TEST(a_start_without_enough_memory_fails_cleanly)
{
    int failed = 0;
    rq_mem_count(1);
    size_t before = rq_mem_live();
    rmq_log_set(RMQ_LOG_OFF, NULL, NULL);
    for (size_t n = 1;; n++) {
        rmq_broker *broker = NULL;
        rmq_error *err = NULL;
        size_t made = rq_mem_fail_at(n);
        rmq_status st = rmq_broker_start(NULL, &broker, &err);
        bool reached = rq_mem_fail_at(0) - made >= n;
        failed += st != RMQ_OK;
        ck_assert((st == RMQ_OK) == (broker != NULL));
        rmq_error_destroy(err);
        rmq_broker_stop(broker);
        ck_assert_msg(rq_mem_live() == before, "allocation %zu: %zu left", n,
                      rq_mem_live() - before);
        if (!reached) {
            break;
        }
    }
    ck_assert_int_gt(failed, 50);
}
END_TEST

/* Appends a request's bytes. */
static void add_request(struct rq_buf *out, int32_t code, const struct rq_fields *table,
                        const void *fields, struct rq_slice body)
{
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, code, table, fields);
    ck_assert_int_eq(rq_frame_encode(out, &spec, body.n, NULL), RMQ_OK);
    rq_buf_add_slice(out, body);
}

/* Reads until so many frames are there, the peer closes, or nothing comes; allocates nothing. */
static void read_answers(int fd, int frames)
{
    static unsigned char bytes[1 << 20];
    size_t n = 0;
    for (size_t at = 0; frames > 0;) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        ssize_t got = poll(&pfd, 1, 300) > 0 ? recv(fd, bytes + n, sizeof bytes - n, 0) : 0;
        if (got <= 0) {
            return;
        }
        n += (size_t)got;
        while (n - at >= 4 && n - at >= 4 + rq_load_be32(bytes + at)) {
            at += 4 + rq_load_be32(bytes + at);
            frames--;
        }
    }
}

START_TEST(requests_without_enough_memory_harm_their_connection_at_most)
{
    static const char heartbeat[] =
        "{\"clientID\":\"c\",\"consumerDataSet\":[{\"groupName\":\"G\",\"subscriptionDataSet\":[{"
        "\"topic\":\"T\",\"subString\":\"A\",\"tagsSet\":[\"A\"],\"codeSet\":[65],\"subVersion\":1}"
        "]}],"
        "\"producerDataSet\":[{\"groupName\":\"P\"}]}";
    struct rq_buf bytes;
    struct rq_hdr_send send_header =
        raw_send_header("T", 0, rq_slice_str("TAGS\001A\002DELAY\0011\002"));
    struct rq_hdr_send now_header = raw_send_header("T", 0, rq_slice_str("TAGS\001A\002"));
    struct rq_hdr_pull pull = {.consumer_group = rq_slice_str("G"),
                               .topic = rq_slice_str("T"),
                               .max_msg_nums = 32,
                               .sys_flag = RQ_PULL_SUBSCRIPTION,
                               .subscription = rq_slice_str("A || B")};
    struct rq_hdr_update_consumer_offset commit = {
        .consumer_group = rq_slice_str("G"), .topic = rq_slice_str("T"), .commit_offset = 1};
    rmq_broker *broker = start_broker(NULL);
    struct raw *good = raw_open(rmq_broker_addr(broker));
    raw_produce(good, "T", 0, "A", "x");
    rmq_log_set(RMQ_LOG_OFF, NULL, NULL);
    rq_buf_init(&bytes, 0);
    add_request(&bytes, RQ_REQ_HEART_BEAT, NULL, NULL, rq_slice_str(heartbeat));
    add_request(&bytes, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &now_header, rq_slice_str("now"));
    add_request(&bytes, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &send_header,
                rq_slice_str("later"));
    add_request(&bytes, RQ_REQ_PULL_MESSAGE, &rq_tab_pull, &pull, rq_slice(NULL, 0));
    add_request(&bytes, RQ_REQ_UPDATE_CONSUMER_OFFSET, &rq_tab_update_consumer_offset, &commit,
                rq_slice(NULL, 0));
    for (size_t n = 1;; n++) {
        struct raw *raw = raw_open(rmq_broker_addr(broker));
        size_t made = rq_mem_fail_at(n);
        raw_bytes(raw, bytes.data, bytes.len);
        read_answers(raw->fd, 6); /* five answers and a notice of change */
        bool reached = rq_mem_fail_at(0) - made >= n;
        raw_close(raw);
        if (!reached) {
            break;
        }
    }
    ck_assert_int_eq(raw_produce(good, "T", 0, "A", "x")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_pull_now(good, "G", "T", 0, 0, "*")->header.code, RQ_RESP_SUCCESS);
    raw_close(good);
    rq_buf_free(&bytes);
    rmq_broker_stop(broker);
}
END_TEST

static void feed(const char *addr, const void *p, size_t n)
{
    struct raw *raw = raw_open(addr);
    raw_bytes(raw, p, n);
    ck_assert(raw_is_closed(raw));
    raw_close(raw);
}

START_TEST(bad_bytes_close_their_connection_and_no_other)
{
    rmq_broker *broker = start_broker(NULL);
    struct raw *good = raw_open(rmq_broker_addr(broker));
    struct raw *ns = raw_open(rmq_broker_namesrv_addr(broker));
    static const char garbage[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const unsigned char zero[8] = {0};
    static const unsigned char negative[8] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1};
    static const unsigned char huge[8] = {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1};
    static const unsigned char long_header[12] = {0, 0, 0, 8, 0, 0, 0xff, 0xff, 1, 2, 3, 4};
    static const unsigned char no_json[12] = {0, 0, 0, 8, 0, 0, 0, 4, '{', '{', '{', '{'};
    const char *addrs[] = {rmq_broker_addr(broker), rmq_broker_namesrv_addr(broker)};
    for (size_t i = 0; i < 2; i++) {
        feed(addrs[i], garbage, sizeof garbage - 1);
        feed(addrs[i], zero, sizeof zero);
        feed(addrs[i], negative, sizeof negative);
        feed(addrs[i], huge, sizeof huge);
        feed(addrs[i], long_header, sizeof long_header);
        feed(addrs[i], no_json, sizeof no_json);
    }
    ck_assert_int_eq(raw_produce(good, "T", 0, NULL, "fine")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_route(ns, RQ_TOPIC_DEFAULT)->header.code, RQ_RESP_SUCCESS);
    raw_close(ns);
    raw_close(good);
    rmq_broker_stop(broker);
}
END_TEST

START_TEST(every_code_bears_a_request_without_fields_and_with_nonsense)
{
    rmq_broker *broker = start_broker(NULL);
    const char *addrs[] = {rmq_broker_addr(broker), rmq_broker_namesrv_addr(broker)};
    static const char *const bodies[] = {NULL, "{", "[1,2", "{\"a\":[[[[", "\001\002\003\377",
                                         "{}"};
    for (size_t a = 0; a < 2; a++) {
        struct raw *raw = raw_open(addrs[a]);
        for (int32_t code = 0; code < 1000; code++) {
            for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
                ck_assert(raw_call(raw, code, NULL, NULL, rq_slice_str(bodies[i]))->header.code >=
                          0);
            }
        }
        raw_close(raw);
    }
    rmq_broker_stop(broker);
}
END_TEST

START_TEST(faults_act_as_often_as_asked_and_then_no_more)
{
    rmq_broker *broker = start_broker(NULL);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(NULL, 0));
    struct raw_answer answer;
    raw_produce(raw, "T", 0, NULL, "x");

    ck_assert_int_eq(rmq_broker_fault_answer(broker, 310, 2, 14, "try later", NULL), RMQ_OK);
    const struct raw_answer *got = raw_produce(raw, "T", 0, NULL, "x");
    ck_assert_int_eq(got->header.code, 14);
    ck_assert(rq_slice_eq_str(got->header.remark, "try later"));
    ck_assert_int_eq(raw_produce(raw, "T", 0, NULL, "x")->header.code, 14);
    ck_assert_int_eq(raw_i64(raw_produce(raw, "T", 0, NULL, "x"), "queueOffset"), 1);

    /* A dropped answer is that of a message which has been stored. */
    ck_assert_int_eq(rmq_broker_fault_drop(broker, 310, 1, NULL), RMQ_OK);
    raw_send(raw, RQ_REQ_SEND_MESSAGE_V2, 0, &rq_tab_send_v2, &header, rq_slice_str("x"));
    ck_assert(!raw_next(raw, &answer, 50));
    ck_assert_int_eq(raw_i64(raw_produce(raw, "T", 0, NULL, "x"), "queueOffset"), 3);

    ck_assert_int_eq(rmq_broker_fault_delay(broker, 310, 1, 150, NULL), RMQ_OK);
    int64_t start_ms = rq_mono_ms();
    ck_assert_int_eq(raw_i64(raw_produce(raw, "T", 0, NULL, "x"), "queueOffset"), 4);
    ck_assert_int_ge(rq_mono_ms() - start_ms, 140);

    ck_assert_int_eq(rmq_broker_fault_answer(broker, -1, -1, 2, NULL, NULL), RMQ_OK);
    ck_assert_int_eq(raw_produce(raw, "T", 0, NULL, "x")->header.code, 2);
    rmq_broker_fault_clear(broker);
    ck_assert_int_eq(raw_produce(raw, "T", 0, NULL, "x")->header.code, RQ_RESP_SUCCESS);

    ck_assert_int_eq(rmq_broker_fault_cut(broker, 310, 1, NULL), RMQ_OK);
    raw_send(raw, RQ_REQ_SEND_MESSAGE_V2, 0, &rq_tab_send_v2, &header, rq_slice_str("x"));
    ck_assert(raw_is_closed(raw));
    raw_close(raw);
    rmq_broker_stop(broker);
}
END_TEST

START_TEST(a_delayed_request_does_not_outlive_its_connection_or_the_broker)
{
    rmq_broker *broker = start_broker(NULL);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    struct raw *other = raw_open(rmq_broker_addr(broker));
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(NULL, 0));
    ck_assert_int_eq(rmq_broker_fault_delay(broker, 310, 2, 60000, NULL), RMQ_OK);
    raw_send(raw, RQ_REQ_SEND_MESSAGE_V2, 0, &rq_tab_send_v2, &header, rq_slice_str("x"));
    raw_send(other, RQ_REQ_SEND_MESSAGE_V2, 0, &rq_tab_send_v2, &header, rq_slice_str("x"));
    raw_close(raw);
    ck_assert_int_eq(raw_call(other, 9999, NULL, NULL, rq_slice(NULL, 0))->header.code,
                     RQ_RESP_REQUEST_CODE_NOT_SUPPORTED);
    rmq_broker_stop(broker);
    raw_close(other);
}
END_TEST

START_TEST(topics_can_be_created_listed_and_deleted_by_request)
{
    rmq_broker *broker = start_broker(NULL);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    struct raw *ns = raw_open(rmq_broker_namesrv_addr(broker));
    struct rq_hdr_topic topic = {.topic = rq_slice_str("New")};
    ck_assert_int_eq(raw_create_topic(raw, "New", 5)->header.code, RQ_RESP_SUCCESS);
    ck_assert(raw_has(raw_route(ns, "New"), "\"writeQueueNums\":5"));
    ck_assert_int_eq(raw_create_topic(raw, "New", 6)->header.code, RQ_RESP_SUCCESS);
    ck_assert(raw_has(raw_route(ns, "New"), "\"writeQueueNums\":6"));
    ck_assert_int_eq(raw_create_topic(raw, RQ_TOPIC_SCHEDULE, 5)->header.code,
                     RQ_RESP_INVALID_PARAMETER);
    ck_assert_int_eq(raw_create_topic(raw, "bad name", 5)->header.code, RQ_RESP_INVALID_PARAMETER);
    ck_assert_int_eq(raw_create_topic(raw, "Many", 100000)->header.code, RQ_RESP_INVALID_PARAMETER);
    ck_assert(raw_has(raw_call(raw, RQ_REQ_GET_ALL_TOPIC_CONFIG, NULL, NULL, rq_slice(NULL, 0)),
                      "\"New\""));
    ck_assert(
        raw_has(raw_call(raw, RQ_REQ_GET_TOPIC_CONFIG, &rq_tab_topic, &topic, rq_slice(NULL, 0)),
                "\"readQueueNums\":6"));
    raw_produce(raw, "New", 5, NULL, "x");
    ck_assert(raw_has(
        raw_call(raw, RQ_REQ_GET_TOPIC_STATS_INFO, &rq_tab_topic, &topic, rq_slice(NULL, 0)),
        "\"maxOffset\":1"));
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_DELETE_TOPIC_IN_BROKER, &rq_tab_topic, &topic, rq_slice(NULL, 0))
            ->header.code,
        RQ_RESP_SUCCESS);
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_GET_TOPIC_CONFIG, &rq_tab_topic, &topic, rq_slice(NULL, 0))
            ->header.code,
        RQ_RESP_TOPIC_NOT_EXIST);
    raw_close(ns);
    raw_close(raw);
    rmq_broker_stop(broker);
}
END_TEST

START_TEST(a_broker_tells_about_itself)
{
    rmq_broker *broker = start_broker(NULL);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    struct rq_kv_table table;
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_GET_BROKER_RUNTIME_INFO, NULL, NULL, rq_slice(NULL, 0));
    ck_assert_int_eq(rq_kv_table_parse(answer->body, &table, NULL), RMQ_OK);
    ck_assert_uint_ge(table.count, 50);
    rq_kv_table_clear(&table);
    answer = raw_call(raw, RQ_REQ_GET_BROKER_CONFIG, NULL, NULL, rq_slice(NULL, 0));
    ck_assert(raw_has(answer, "brokerName=broker-a\n"));
    ck_assert(raw_has(answer, "maxMessageSize=4194304\n"));
    raw_close(raw);
    rmq_broker_stop(broker);
}
END_TEST

Suite *life_suite(void)
{
    Suite *suite = suite_create("broker/life");
    TCase *tc = tcase_create("life");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, fifty_rounds_leave_no_thread_no_descriptor_and_no_directory);
    tcase_add_test(tc, a_broker_starts_again_on_its_store_with_all_it_knew);
    tcase_add_test(tc, settings_with_which_messages_would_go_astray_are_refused_at_the_start);
    tcase_add_test(tc,
                   a_template_that_an_earlier_run_left_makes_no_topics_when_that_is_switched_off);
    tcase_add_test(tc,
                   a_broker_with_a_relative_store_stays_there_when_its_host_changes_the_directory);
    tcase_add_test(tc, a_master_has_the_id_of_one_whatever_was_set);
    tcase_add_test(tc, a_port_in_use_is_an_error_that_names_it);
    tcase_add_loop_test(tc, an_ipv6_address_is_registered_in_brackets, 0, 2);
    tcase_add_test(tc, a_broker_registers_at_several_name_servers_and_bears_a_dead_one);
    tcase_add_test(tc, a_name_server_that_comes_back_is_told_at_once);
    tcase_add_test(tc, with_synchronous_flush_a_send_is_answered_and_seen_when_it_is_on_disk);
    tcase_add_test(tc, a_start_without_enough_memory_fails_cleanly);
    tcase_add_test(tc, requests_without_enough_memory_harm_their_connection_at_most);
    tcase_add_test(tc, bad_bytes_close_their_connection_and_no_other);
    tcase_add_test(tc, every_code_bears_a_request_without_fields_and_with_nonsense);
    tcase_add_test(tc, faults_act_as_often_as_asked_and_then_no_more);
    tcase_add_test(tc, a_delayed_request_does_not_outlive_its_connection_or_the_broker);
    tcase_add_test(tc, topics_can_be_created_listed_and_deleted_by_request);
    tcase_add_test(tc, a_broker_tells_about_itself);
    suite_add_tcase(suite, tc);
    return suite;
}
