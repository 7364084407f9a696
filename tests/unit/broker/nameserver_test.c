/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The name server over sockets: settings that outlive it, options by request, routes for old and
 * new readers. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/time.h"
#include "unit/broker/raw.h"

static char dir[64];
static rmq_namesrv *namesrv;
static struct raw *raw;

static void open_with(const char *properties)
{
    rmq_error *err = NULL;
    ck_assert_msg(rmq_namesrv_start_properties(NULL, 0, properties, &namesrv, &err) == RMQ_OK, "%s",
                  err ? rmq_error_message(err) : "");
    raw = raw_open(rmq_namesrv_addr(namesrv));
}

static void close_it(void)
{
    raw_close(raw);
    rmq_namesrv_stop(namesrv);
}

static void setup(void)
{
    strcpy(dir, "/tmp/rmq-namesrv-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    rq_sys_rmtree(dir);
}

static struct raw_answer *kv(int32_t code, const char *key, const char *value)
{
    struct rq_hdr_kv header = {
        .namespace = rq_slice_str("SPACE"), .key = rq_slice_str(key), .value = rq_slice_str(value)};
    return raw_call(raw, code, &rq_tab_kv, &header, rq_slice(NULL, 0));
}

START_TEST(key_value_settings_outlive_the_name_server)
{
    char properties[128];
    snprintf(properties, sizeof properties, "# a comment\nkvConfigPath = %s/kvConfig.json\n", dir);
    open_with(properties);
    ck_assert_int_eq(kv(RQ_REQ_PUT_KV_CONFIG, "one", "1 \"quoted\"")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(kv(RQ_REQ_PUT_KV_CONFIG, "two", "2")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(kv(RQ_REQ_DELETE_KV_CONFIG, "two", NULL)->header.code, RQ_RESP_SUCCESS);
    close_it();
    open_with(properties);
    struct raw_answer *answer = kv(RQ_REQ_GET_KV_CONFIG, "one", NULL);
    ck_assert(rq_slice_eq_str(rq_header_ext(&answer->header, "value"), "1 \"quoted\""));
    ck_assert_int_eq(kv(RQ_REQ_GET_KV_CONFIG, "two", NULL)->header.code, RQ_RESP_QUERY_NOT_FOUND);
    ck_assert_int_eq(kv(RQ_REQ_DELETE_KV_CONFIG, "one", NULL)->header.code, RQ_RESP_SUCCESS);
    close_it();
    open_with(properties);
    ck_assert(raw_has(kv(RQ_REQ_GET_KVLIST_BY_NAMESPACE, NULL, NULL), "{\"table\":{}}"));
    close_it();
}
END_TEST

static void write_text(const char *path, const char *text)
{
    ck_assert_int_eq(rq_sys_write_file(path, text, strlen(text), false, NULL), RMQ_OK);
}

START_TEST(key_value_settings_whose_backup_is_broken_too_are_a_damaged_file)
{
    char properties[256];
    char path[128];
    char bak[140];
    rmq_error *err = NULL;
    rmq_namesrv *other = NULL;
    snprintf(path, sizeof path, "%s/kvConfig.json", dir);
    snprintf(bak, sizeof bak, "%s.bak", path);
    snprintf(properties, sizeof properties, "kvConfigPath = %s\n", path);
    write_text(path, "{\"configTable\":");
    write_text(bak, "nothing");
    ck_assert_int_eq(rmq_namesrv_start_properties(NULL, 0, properties, &other, &err),
                     RMQ_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), path));
    rmq_error_destroy(err);
}
END_TEST

/* What a power cut or a hand may leave of a file: nothing, zeros, its first half, no file, one that
 * cannot be read. */
static void abuse(const char *path, int kind)
{
    char zeros[64] = {0};
    struct rq_buf text;
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file(path, 65536, &text, NULL), RMQ_OK);
    ck_assert_int_eq(unlink(path), 0);
    if (kind == 4) {
        ck_assert_int_eq(rq_sys_mkdirs(path), 0);
    } else if (kind != 3) {
        size_t n = kind == 0 ? 0 : kind == 1 ? sizeof zeros : text.len / 2;
        ck_assert_int_eq(rq_sys_write_file(path, kind == 1 ? zeros : text.data, n, false, NULL),
                         RMQ_OK);
    }
    rq_buf_free(&text);
}

START_TEST(key_value_settings_come_from_the_backup_whatever_became_of_the_file)
{
    char properties[256];
    char path[128];
    char bak[140];
    snprintf(path, sizeof path, "%s/kvConfig.json", dir);
    snprintf(bak, sizeof bak, "%s.bak", path);
    snprintf(properties, sizeof properties, "kvConfigPath = %s\n", path);
    open_with(properties);
    ck_assert_int_eq(kv(RQ_REQ_PUT_KV_CONFIG, "k", "before")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(kv(RQ_REQ_PUT_KV_CONFIG, "k", "after")->header.code, RQ_RESP_SUCCESS);
    close_it();
    abuse(path, _i);
    open_with(properties);
    struct raw_answer *answer = kv(RQ_REQ_GET_KV_CONFIG, "k", NULL);
    ck_assert(rq_slice_eq_str(rq_header_ext(&answer->header, "value"), "before"));
    close_it();
    ck_assert_int_eq(unlink(bak), 0);
    if (_i == 4) { /* there may be a whole table in it */
        ck_assert_int_eq(rmq_namesrv_start_properties(NULL, 0, properties, &namesrv, NULL),
                         RMQ_ERR_IO);
        return;
    }
    open_with(properties); /* without a backup it begins with nothing */
    ck_assert_int_eq(kv(RQ_REQ_GET_KV_CONFIG, "k", NULL)->header.code, RQ_RESP_QUERY_NOT_FOUND);
    ck_assert_int_eq(kv(RQ_REQ_PUT_KV_CONFIG, "k", "new")->header.code, RQ_RESP_SUCCESS);
    close_it();
    open_with(properties);
    answer = kv(RQ_REQ_GET_KV_CONFIG, "k", NULL);
    ck_assert(rq_slice_eq_str(rq_header_ext(&answer->header, "value"), "new"));
    close_it();
}
END_TEST

START_TEST(relative_paths_stay_where_they_began_when_the_directory_changes)
{
    char path[128];
    int home = open(".", O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(chdir(dir), 0);
    open_with("kvConfigPath = kvConfig.json\nconfigStorePath = namesrv.conf\n");
    ck_assert_int_eq(fchdir(home), 0);
    close(home);
    ck_assert_int_eq(kv(RQ_REQ_PUT_KV_CONFIG, "one", "1")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_UPDATE_NAMESRV_CONFIG, NULL, NULL,
                              rq_slice_str("orderMessageEnable=true\n"))
                         ->header.code,
                     RQ_RESP_SUCCESS);
    close_it();
    snprintf(path, sizeof path, "%s/kvConfig.json", dir);
    ck_assert_int_eq(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/namesrv.conf", dir);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(options_are_told_and_changed_by_request)
{
    char properties[128];
    struct rq_buf stored;
    snprintf(properties, sizeof properties, "configStorePath=%s/namesrv.properties", dir);
    open_with(properties);
    struct raw_answer *answer = raw_call(raw, RQ_REQ_UPDATE_NAMESRV_CONFIG, NULL, NULL,
                                         rq_slice_str("enableTopicList=false\nunknownOne=7\n"));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert(raw_has(raw_call(raw, RQ_REQ_GET_NAMESRV_CONFIG, NULL, NULL, rq_slice(NULL, 0)),
                      "enableTopicList=false\n"));
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_GET_SYSTEM_TOPIC_LIST_FROM_NS, NULL, NULL, rq_slice(NULL, 0))
            ->header.code,
        RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_UPDATE_NAMESRV_CONFIG, NULL, NULL, rq_slice_str("kvConfigPath=/x\n"))
            ->header.code,
        RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_UPDATE_NAMESRV_CONFIG, NULL, NULL,
                              rq_slice_str("scanNotActiveBrokerInterval=often\n"))
                         ->header.code,
                     RQ_RESP_SYSTEM_ERROR);
    close_it();
    snprintf(properties, sizeof properties, "%s/namesrv.properties", dir);
    rq_buf_init(&stored, 0);
    ck_assert_int_eq(rq_sys_read_file(properties, 1 << 16, &stored, NULL), RMQ_OK);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&stored), "enableTopicList=false\n"));
    rq_buf_free(&stored);
}
END_TEST

static int32_t update(const char *lines)
{
    return raw_call(raw, RQ_REQ_UPDATE_NAMESRV_CONFIG, NULL, NULL, rq_slice_str(lines))
        ->header.code;
}

START_TEST(a_black_list_adds_to_what_a_request_may_never_change)
{
    open_with("configBlackList=enableTopicList;other\n");
    ck_assert_int_eq(update("enableTopicList=false\n"), RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(update("kvConfigPath=/x\n"), RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(update("configStorePath=/x\n"), RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(update("configBlackList=x\n"), RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(update("rocketmqHome=/x\n"), RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(update("enableAllTopicList=false\n"), RQ_RESP_SUCCESS);
    close_it();
}
END_TEST

START_TEST(a_name_server_told_to_wait_tells_no_route)
{
    open_with("needWaitForService=true\nwaitSecondsForService=3600\n");
    struct rq_hdr_topic header = {.topic = rq_slice_str("T")};
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_GET_ROUTEINFO_BY_TOPIC, &rq_tab_topic, &header, rq_slice(NULL, 0));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
    close_it();
}
END_TEST

START_TEST(an_option_out_of_range_is_an_error_at_start)
{
    rmq_error *err = NULL;
    ck_assert_int_eq(
        rmq_namesrv_start_properties(NULL, 0, "scanNotActiveBrokerInterval=0", &namesrv, &err),
        RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "scanNotActiveBrokerInterval"));
    rmq_error_destroy(err);
}
END_TEST

/* A file whose text is written to it, for rmq_namesrv_start_file. */
static const char *conf_file(const char *text, size_t n)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/namesrv.conf", dir);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

START_TEST(an_error_in_a_file_names_file_and_line)
{
    static const struct {
        const char *text;
        const char *place;
        const char *why;
    } rows[] = {
        {"# one\nlistenPort=0\nscanNotActiveBrokerInterval=0\n", ":3: ", "0"},
        {"\xEF\xBB\xBF\nsupportActingMaster=perhaps\n", ":2: ", "perhaps"},
        {"listenPort=0\n\n\norderMessageEnable\n", ":4: ", "no \"=\""},
    };
    char want[256];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rmq_error *err = NULL;
        const char *path = conf_file(rows[i].text, strlen(rows[i].text));
        snprintf(want, sizeof want, "%s%s", path, rows[i].place);
        ck_assert_int_eq(rmq_namesrv_start_file(NULL, 0, path, &namesrv, &err), RMQ_ERR_INVALID);
        const char *message = rmq_error_message(err);
        ck_assert_msg(strncmp(message, want, strlen(want)) == 0, "%s", message);
        ck_assert_msg(strstr(message, rows[i].why) != NULL, "%s", message);
        rmq_error_destroy(err);
        err = NULL;
        ck_assert_int_eq(rmq_namesrv_start_properties(NULL, 0, rows[i].text, &namesrv, &err),
                         RMQ_ERR_INVALID);
        snprintf(want, sizeof want, "line %s", rows[i].place + 1);
        message = rmq_error_message(err);
        ck_assert_msg(strncmp(message, want, strlen(want)) == 0, "%s", message);
        rmq_error_destroy(err);
    }
    rmq_error *err = NULL;
    const char *path = conf_file("listenPort=0\0\n", 14);
    ck_assert_int_eq(rmq_namesrv_start_file(NULL, 0, path, &namesrv, &err), RMQ_ERR_INVALID);
    ck_assert_msg(strstr(rmq_error_message(err), "byte 12 is zero"), "%s", rmq_error_message(err));
    rmq_error_destroy(err);
    ck_assert_int_eq(unlink(path), 0);
    err = NULL;
    ck_assert_int_eq(rmq_namesrv_start_file(NULL, 0, path, &namesrv, &err), RMQ_ERR_IO);
    ck_assert_int_eq(rmq_error_status(err), RMQ_ERR_IO);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), path));
    rmq_error_destroy(err);
    ck_assert_int_eq(rmq_namesrv_start_file(NULL, 0, path, &namesrv, NULL), RMQ_ERR_IO);
}
END_TEST

START_TEST(options_changed_by_request_are_written_to_the_file_that_was_read)
{
    char text[1024] = "";
    const char *path = conf_file("# mine\nunknownThing=1\n", 22);
    ck_assert_int_eq(rmq_namesrv_start_file(NULL, 0, path, &namesrv, NULL), RMQ_OK);
    raw = raw_open(rmq_namesrv_addr(namesrv));
    ck_assert_int_eq(raw_call(raw, RQ_REQ_UPDATE_NAMESRV_CONFIG, NULL, NULL,
                              rq_slice_str("orderMessageEnable=true\n"))
                         ->header.code,
                     RQ_RESP_SUCCESS);
    close_it();
    FILE *file = fopen(path, "r");
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_str_eq(text, "# mine\nunknownThing=1\norderMessageEnable=true\n");
}
END_TEST

START_TEST(port_and_address_are_those_of_the_properties_unless_they_are_given)
{
    char properties[128];
    char want[64];
    rmq_namesrv *other = NULL;
    open_with(NULL);
    const char *port = strrchr(rmq_namesrv_addr(namesrv), ':') + 1;
    snprintf(want, sizeof want, "127.0.0.2:%s", port);
    snprintf(properties, sizeof properties, "bindAddress=127.0.0.2\nlistenPort=%s\n", port);
    ck_assert_int_eq(rmq_namesrv_start_properties(NULL, -1, properties, &other, NULL), RMQ_OK);
    ck_assert_str_eq(rmq_namesrv_addr(other), want);
    rmq_namesrv_stop(other);
    ck_assert_int_eq(rmq_namesrv_start_properties("127.0.0.1", 0, properties, &other, NULL),
                     RMQ_OK);
    ck_assert_ptr_nonnull(strstr(rmq_namesrv_addr(other), "127.0.0.1:"));
    rmq_namesrv_stop(other);
    ck_assert_int_eq(rmq_namesrv_start(NULL, -1, &other, NULL), RMQ_ERR_INVALID);
    close_it();
}
END_TEST

static struct raw_answer *route(int32_t version, bool standard)
{
    struct rq_hdr_topic header = {.topic = rq_slice_str("TBW102")};
    raw->version = version;
    if (standard) {
        RQ_SET(topic, &header, accept_standard_json_only, true);
    }
    return raw_call(raw, RQ_REQ_GET_ROUTEINFO_BY_TOPIC, &rq_tab_topic, &header, rq_slice(NULL, 0));
}

START_TEST(integer_keys_are_bare_for_old_readers_and_quoted_for_new_ones)
{
    open_with(NULL);
    const char *const pairs[] = {"namesrvAddr", rmq_namesrv_addr(namesrv), NULL};
    rmq_broker *broker = start_broker(pairs);
    ck_assert(raw_has(route(300, false), "\"brokerAddrs\":{0:\""));
    ck_assert(raw_has(route(300, true), "\"brokerAddrs\":{\"0\":\""));
    ck_assert(raw_has(route(479, false), "\"brokerAddrs\":{\"0\":\""));
    rmq_broker_stop(broker);
    close_it();
}
END_TEST

START_TEST(the_order_configuration_of_a_topic_is_told_where_it_is_wanted)
{
    open_with("orderMessageEnable=true");
    const char *const pairs[] = {"namesrvAddr", rmq_namesrv_addr(namesrv), NULL};
    rmq_broker *broker = start_broker(pairs);
    struct rq_hdr_kv header = {.namespace = rq_slice_str("ORDER_TOPIC_CONFIG"),
                               .key = rq_slice_str("TBW102"),
                               .value = rq_slice_str("broker-a:4")};
    raw_call(raw, RQ_REQ_PUT_KV_CONFIG, &rq_tab_kv, &header, rq_slice(NULL, 0));
    ck_assert(raw_has(route(479, true), "\"orderTopicConf\":\"broker-a:4\""));
    rmq_broker_stop(broker);
    close_it();
}
END_TEST

Suite *nameserver_suite(void);

Suite *nameserver_suite(void)
{
    Suite *suite = suite_create("nameserver");
    TCase *tc = tcase_create("nameserver");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, key_value_settings_outlive_the_name_server);
    tcase_add_test(tc, key_value_settings_whose_backup_is_broken_too_are_a_damaged_file);
    tcase_add_loop_test(tc, key_value_settings_come_from_the_backup_whatever_became_of_the_file, 0,
                        5);
    tcase_add_test(tc, relative_paths_stay_where_they_began_when_the_directory_changes);
    tcase_add_test(tc, options_are_told_and_changed_by_request);
    tcase_add_test(tc, a_black_list_adds_to_what_a_request_may_never_change);
    tcase_add_test(tc, a_name_server_told_to_wait_tells_no_route);
    tcase_add_test(tc, an_option_out_of_range_is_an_error_at_start);
    tcase_add_test(tc, an_error_in_a_file_names_file_and_line);
    tcase_add_test(tc, options_changed_by_request_are_written_to_the_file_that_was_read);
    tcase_add_test(tc, port_and_address_are_those_of_the_properties_unless_they_are_given);
    tcase_add_test(tc, integer_keys_are_bare_for_old_readers_and_quoted_for_new_ones);
    tcase_add_test(tc, the_order_configuration_of_a_topic_is_told_where_it_is_wanted);
    suite_add_tcase(suite, tc);
    return suite;
}
