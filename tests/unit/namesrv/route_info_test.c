/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tests of the name server's tables: registration, its rules, expiry, the bodies made of them. Time
 * is given. */
#include <check.h>
#include <errno.h>
#include <rmq/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "namesrv/kv.h"
#include "namesrv/route_info.h"

static struct rq_route_info info;

static void setup(void)
{
    rq_route_info_init(&info);
}

static void teardown(void)
{
    rq_route_info_free(&info);
}

static struct rq_slice name(const char *text)
{
    return rq_slice_str(text);
}

static enum rq_register_result enroll(const char *broker, int64_t id, const char *addr,
                                      int64_t counter, const char *second_topic, int32_t queues,
                                      int64_t now_ms)
{
    struct rq_topic_config topics[] = {
        {.name = "TBW102", .read_queue_nums = 8, .write_queue_nums = 8, .perm = 7},
        {.name = second_topic, .read_queue_nums = queues, .write_queue_nums = queues, .perm = 6},
    };
    const struct rq_topic_table table = {
        .topics = topics, .count = second_topic ? 2 : 1, .version = {.counter = counter}};
    const struct rq_hdr_register_broker header = {.broker_name = name(broker),
                                                  .broker_addr = name(addr),
                                                  .cluster_name = name("C"),
                                                  .ha_server_addr = name("ha"),
                                                  .broker_id = id};
    const struct rq_live_addr *master = NULL;
    return rq_route_info_register(&info, &header, &table, addr, now_ms, &master);
}

static const char *route(const char *topic, bool bare)
{
    static char text[4096];
    struct rq_buf out;
    rq_buf_init(&out, 0);
    const struct rq_route_form form = {.bare_keys = bare};
    bool found = rq_route_info_write_route(&info, name(topic), &form, &out);
    snprintf(text, sizeof text, "%s", found ? rq_buf_cstr(&out) : "");
    rq_buf_free(&out);
    return text;
}

static int warnings;

static void count_warning(rmq_log_level level, const char *line, void *user)
{
    (void)user;
    warnings += level == RMQ_LOG_WARN && strstr(line, "10.0.0.2:10911") != NULL;
}

static void count_broker(rmq_log_level level, const char *line, void *user)
{
    (void)user;
    warnings +=
        level == RMQ_LOG_WARN &&
        strstr(line, "heartbeatTimeoutMillis=10000 scanNotActiveBrokerInterval=10001") != NULL;
}

START_TEST(two_brokers_of_one_name_are_told_once)
{
    rmq_log_set(RMQ_LOG_WARN, count_warning, NULL);
    enroll("b", 0, "10.0.0.1:10911", 1, "T", 4, 0);
    enroll("b", 0, "10.0.0.1:10911", 2, "T", 4, 0);
    enroll("b", 1, "10.0.0.3:10911", 1, "T", 4, 0);
    ck_assert_int_eq(warnings, 0);
    for (int i = 0; i < 3; i++) {
        enroll("b", 0, "10.0.0.2:10911", 3 + i, "T", 4, 0);
        enroll("b", 0, "10.0.0.1:10911", 3 + i, "T", 4, 0);
    }
    ck_assert_int_eq(warnings, 1);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
}
END_TEST

START_TEST(a_broker_that_asks_for_a_quicker_look_than_there_is_is_told_once)
{
    const struct rq_topic_table table = {0};
    struct rq_hdr_register_broker header = {
        .broker_name = name("b"), .broker_addr = name("10.0.0.2:10911"), .cluster_name = name("C")};
    const struct rq_live_addr *master = NULL;
    RQ_SET(register_broker, &header, heartbeat_timeout_ms, 10000);
    info.scan_ms = 10000;
    warnings = 0;
    rmq_log_set(RMQ_LOG_WARN, count_broker, NULL);
    rq_route_info_register(&info, &header, &table, "x", 0, &master);
    ck_assert_int_eq(warnings, 0);
    rq_route_info_unregister(&info, name("b"), name("10.0.0.2:10911"));
    info.scan_ms = 10001;
    for (int64_t i = 0; i < 3; i++) {
        rq_route_info_register(&info, &header, &table, "x", i, &master);
    }
    ck_assert_int_eq(warnings, 1);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
}
END_TEST

START_TEST(a_registered_broker_is_in_the_route_of_its_topics)
{
    ck_assert_int_eq(enroll("a", 0, "1:1", 1, "T", 4, 0), RQ_REGISTERED);
    ck_assert_str_eq(
        route("T", true),
        "{\"brokerDatas\":[{\"brokerAddrs\":{0:\"1:1\"},\"brokerName\":\"a\",\"cluster\":\"C\","
        "\"enableActingMaster\":false}],\"filterServerTable\":{},\"queueDatas\":["
        "{\"brokerName\":\"a\",\"perm\":6,\"readQueueNums\":4,\"topicSysFlag\":0,"
        "\"writeQueueNums\":4}]}");
    ck_assert_ptr_nonnull(strstr(route("T", false), "{\"0\":\"1:1\"}"));
    ck_assert_str_eq(route("None", true), "");
}
END_TEST

START_TEST(a_route_of_ours_is_read_by_our_own_parser)
{
    struct rq_route_data data;
    enroll("a", 0, "1:1", 1, "T", 4, 0);
    enroll("a", 1, "1:2", 1, "T", 4, 0);
    enroll("b", 0, "2:1", 1, "T", 2, 0);
    for (int bare = 0; bare < 2; bare++) {
        ck_assert_int_eq(rq_route_data_parse(name(route("T", bare)), &data, NULL), RMQ_OK);
        ck_assert_uint_eq(data.broker_count, 2);
        ck_assert_uint_eq(data.queue_count, 2);
        ck_assert_uint_eq(data.brokers[0].addr_count + data.brokers[1].addr_count, 3);
        rq_route_data_clear(&data);
    }
}
END_TEST

/* Broker "a" or "b" says that it leads a logical queue of topic T. */
static void map_queue(const char *broker, int64_t counter, int32_t logical, int64_t epoch)
{
    struct rq_topic_config topics[] = {{.name = "TBW102"}, {.name = "T", .read_queue_nums = 1}};
    struct rq_queue_mapping_id id = {.logical = logical, .physical = 0};
    struct rq_queue_mapping_info mapping = {.topic = "T",
                                            .scope = RQ_MAPPING_SCOPE_GLOBAL,
                                            .broker_name = broker,
                                            .total_queues = 2,
                                            .epoch = epoch,
                                            .ids = &id,
                                            .id_count = 1};
    const struct rq_topic_table table = {.topics = topics,
                                         .count = 2,
                                         .mappings = &mapping,
                                         .mapping_count = 1,
                                         .version = {.counter = counter}};
    const struct rq_hdr_register_broker header = {.broker_name = name(broker),
                                                  .broker_addr = name(broker),
                                                  .cluster_name = name("C"),
                                                  .ha_server_addr = name("ha")};
    const struct rq_live_addr *master = NULL;
    ck_assert_int_eq(rq_route_info_register(&info, &header, &table, broker, 0, &master),
                     RQ_REGISTERED);
}

#define MAPPED(broker, key, epoch)                                                                 \
    "\"" broker "\":{\"bname\":\"" broker "\",\"currIdMap\":{" key                                 \
    ":0},\"dirty\":false,\"epoch\":" epoch                                                         \
    ",\"scope\":\"__global__\",\"topic\":\"T\",\"totalQueues\":2}"

START_TEST(the_route_of_a_static_topic_tells_who_leads_its_queues)
{
    map_queue("a", 1, 0, 5);
    map_queue("b", 1, 1, 5);
    ck_assert_ptr_nonnull(
        strstr(route("T", false), "],\"topicQueueMappingByBroker\":{" MAPPED(
                                      "a", "\"0\"", "5") "," MAPPED("b", "\"1\"", "5") "}}"));
    ck_assert_ptr_nonnull(strstr(route("T", true), MAPPED("a", "0", "5")));
    map_queue("b", 1, 0, 6); /* the version has not changed: nor has anything else */
    ck_assert_ptr_nonnull(strstr(route("T", true), MAPPED("b", "1", "5")));
    map_queue("b", 2, 0, 6);
    ck_assert_ptr_nonnull(strstr(route("T", true), MAPPED("b", "0", "6")));
    ck_assert_ptr_null(strstr(route("TBW102", true), "topicQueueMappingByBroker"));
}
END_TEST

START_TEST(what_a_broker_has_told_of_a_static_topic_stays_until_the_topic_goes)
{
    map_queue("a", 1, 0, 5);
    map_queue("b", 1, 1, 5);
    rq_route_info_unregister(&info, name("b"), name("b"));
    ck_assert_ptr_nonnull(strstr(route("T", true), MAPPED("b", "1", "5")));
    rq_route_info_remove_topic(&info, name("T"), name(""));
    enroll("a", 0, "a", 2, "T", 4, 0);
    ck_assert_ptr_nonnull(strstr(route("T", true), "\"queueDatas\":[{"));
    ck_assert_ptr_null(strstr(route("T", true), "topicQueueMappingByBroker"));
}
END_TEST

START_TEST(a_first_registration_with_a_single_topic_is_refused)
{
    ck_assert_int_eq(enroll("a", 0, "1:1", 1, NULL, 0, 0), RQ_REGISTER_REFUSED);
    ck_assert_str_eq(route("TBW102", true), "");
    enroll("a", 0, "1:1", 1, "T", 4, 0);
    ck_assert_int_eq(enroll("a", 0, "1:1", 2, NULL, 0, 0), RQ_REGISTERED);
}
END_TEST

START_TEST(a_name_with_a_nul_inside_is_refused)
{
    struct rq_topic_config topics[] = {
        {.name = "T", .read_queue_nums = 8, .write_queue_nums = 8, .perm = 7},
        {.name = "U", .read_queue_nums = 8, .write_queue_nums = 8, .perm = 7},
    };
    const struct rq_topic_table table = {.topics = topics, .count = 2};
    const struct rq_hdr_register_broker header = {
        .broker_name = rq_slice("a\0b", 3), .broker_addr = name("1:1"), .cluster_name = name("C")};
    const struct rq_live_addr *master = NULL;
    ck_assert_int_eq(rq_route_info_register(&info, &header, &table, &info, 0, &master),
                     RQ_REGISTER_REFUSED);
    rq_route_info_conn_closed(&info, &info);
    ck_assert_uint_eq(info.brokers.count, 0);
    ck_assert_str_eq(route("T", true), "");
}
END_TEST

START_TEST(queues_change_only_with_the_version_of_the_table)
{
    enroll("a", 0, "1:1", 1, "T", 4, 0);
    enroll("a", 0, "1:1", 1, "T", 8, 0);
    ck_assert_ptr_nonnull(strstr(route("T", true), "\"writeQueueNums\":4"));
    enroll("a", 0, "1:1", 2, "T", 8, 0);
    ck_assert_ptr_nonnull(strstr(route("T", true), "\"writeQueueNums\":8"));
    enroll("a", 0, "1:1", 2, "U", 3, 0); /* unknown for this broker: taken all the same */
    ck_assert_ptr_nonnull(strstr(route("U", true), "\"writeQueueNums\":3"));
}
END_TEST

START_TEST(the_topics_of_a_slave_do_not_count)
{
    enroll("a", 0, "1:1", 1, "T", 4, 0);
    enroll("a", 1, "1:2", 9, "S", 4, 0);
    ck_assert_str_eq(route("S", true), "");
    ck_assert_ptr_nonnull(strstr(route("T", true), "{0:\"1:1\",1:\"1:2\"}"));
}
END_TEST

START_TEST(an_address_that_changes_its_id_has_only_the_new_one)
{
    enroll("a", 1, "1:2", 1, "T", 4, 0);
    enroll("a", 0, "1:2", 2, "T", 4, 0);
    ck_assert_ptr_nonnull(strstr(route("T", true), "{0:\"1:2\"}"));
}
END_TEST

START_TEST(a_broker_not_heard_for_two_minutes_is_gone)
{
    enroll("a", 0, "1:1", 1, "T", 4, 0);
    enroll("b", 0, "2:1", 1, "T", 4, 100000);
    ck_assert_int_eq(rq_route_info_expire(&info, RQ_BROKER_EXPIRES_MS), 0);
    ck_assert_int_eq(rq_route_info_expire(&info, RQ_BROKER_EXPIRES_MS + 1), 1);
    ck_assert_ptr_null(strstr(route("T", true), "\"a\""));
    ck_assert_ptr_nonnull(strstr(route("T", true), "\"b\""));
    ck_assert_ptr_nonnull(rq_route_info_touch(&info, name("b"), name("2:1"), 200000));
    ck_assert_int_eq(rq_route_info_expire(&info, 300000), 0);
    ck_assert_int_eq(rq_route_info_expire(&info, 400000), 1);
    ck_assert_str_eq(route("T", true), "");
}
END_TEST

START_TEST(a_closed_connection_and_an_unregistration_take_the_broker_away)
{
    static const char addr[] = "1:1";
    enroll("a", 0, addr, 1, "T", 4, 0);
    rq_route_info_conn_closed(&info, "another");
    ck_assert_str_ne(route("T", true), "");
    rq_route_info_conn_closed(&info, addr);
    ck_assert_str_eq(route("T", true), "");
    enroll("a", 0, addr, 1, "T", 4, 0);
    rq_route_info_unregister(&info, name("a"), name("9:9"));
    ck_assert_str_ne(route("T", true), "");
    rq_route_info_unregister(&info, name("a"), name(addr));
    ck_assert_str_eq(route("T", true), "");
}
END_TEST

START_TEST(clusters_and_lists_of_topics_can_be_read)
{
    struct rq_buf out;
    struct rq_cluster_info cluster;
    enroll("a", 0, "1:1", 1, "T", 4, 0);
    enroll("b", 0, "2:1", 1, "U", 4, 0);
    rq_buf_init(&out, 0);
    rq_route_info_write_clusters(&info, &out);
    ck_assert_int_eq(rq_cluster_info_parse(rq_slice(out.data, out.len), &cluster, NULL), RMQ_OK);
    ck_assert_uint_eq(cluster.broker_count, 2);
    ck_assert_uint_eq(cluster.cluster_count, 1);
    ck_assert_uint_eq(cluster.clusters[0].broker_count, 2);
    rq_cluster_info_clear(&cluster);
    rq_buf_clear(&out);
    rq_route_info_write_topics(&info, RQ_LIST_CLUSTER, name("C"), &out);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&out), "\"U\""));
    rq_buf_clear(&out);
    rq_route_info_write_topics(&info, RQ_LIST_CLUSTER, name("D"), &out);
    ck_assert_str_eq(rq_buf_cstr(&out), "{\"topicList\":[]}");
    rq_buf_clear(&out);
    rq_route_info_write_topics(&info, RQ_LIST_SYSTEM, name(NULL), &out);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&out), "\"C\""));
    ck_assert_ptr_nonnull(strstr(out.data, "\"brokerAddr\":"));
    rq_buf_free(&out);
}
END_TEST

START_TEST(a_topic_can_be_removed_and_write_permission_taken_and_given)
{
    enroll("a", 0, "1:1", 1, "T", 4, 0);
    ck_assert_int_eq(rq_route_info_set_write(&info, name("a"), false), 2);
    ck_assert_ptr_nonnull(strstr(route("T", true), "\"perm\":4"));
    ck_assert_int_eq(rq_route_info_set_write(&info, name("a"), true), 2);
    ck_assert_ptr_nonnull(strstr(route("T", true), "\"perm\":6"));
    rq_route_info_remove_topic(&info, name("T"), name("Other"));
    ck_assert_str_ne(route("T", true), "");
    rq_route_info_remove_topic(&info, name("T"), name(NULL));
    ck_assert_str_eq(route("T", true), "");
}
END_TEST

START_TEST(settings_are_kept_by_namespace)
{
    struct rq_kv kv;
    struct rq_buf out;
    rq_kv_init(&kv);
    rq_buf_init(&out, 0);
    ck_assert_int_eq(rq_kv_put(&kv, name("n"), name("k"), name("v")), RMQ_OK);
    ck_assert_int_eq(rq_kv_put(&kv, name("n"), name("k"), name("w")), RMQ_OK);
    ck_assert_int_eq(rq_kv_put(&kv, name("nn"), name("k"), name("x")), RMQ_OK);
    ck_assert_str_eq(rq_kv_get(&kv, name("n"), name("k")), "w");
    ck_assert_ptr_null(rq_kv_get(&kv, name("n"), name("other")));
    ck_assert(rq_kv_write(&kv, name("n"), &out));
    ck_assert_str_eq(rq_buf_cstr(&out), "{\"table\":{\"k\":\"w\"}}");
    rq_kv_remove(&kv, name("n"), name("k"));
    rq_buf_clear(&out);
    ck_assert(rq_kv_write(&kv, name("n"), &out));
    ck_assert_str_eq(rq_buf_cstr(&out), "{\"table\":{}}");
    ck_assert(!rq_kv_write(&kv, name("another"), &out));
    rq_buf_free(&out);
    rq_kv_free(&kv);
}
END_TEST

static void write_text(const char *path, const char *text)
{
    ck_assert_int_eq(rq_sys_write_file(path, text, strlen(text), false, NULL), RMQ_OK);
}

START_TEST(the_good_backup_of_broken_settings_stays_until_there_is_a_good_file)
{
    char dir[] = "/tmp/rmq-kv-test-XXXXXX";
    char path[64];
    char bak[80];
    struct rq_kv kv;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/kvConfig.json", dir);
    snprintf(bak, sizeof bak, "%s.bak", path);
    for (uint64_t failing = 1; failing <= 2; failing++) {
        write_text(path, "{\"configTable\":{\"n\"");
        write_text(bak, "{\"configTable\":{\"n\":{\"k\":\"kept\"}}}");
        for (int round = 0; round < 2; round++) { /* the first cannot write */
            rq_kv_init(&kv);
            ck_assert_int_eq(rq_kv_open(&kv, path, NULL), RMQ_OK);
            ck_assert_ptr_nonnull(rq_kv_get(&kv, name("n"), name("k")));
            ck_assert_str_eq(rq_kv_get(&kv, name("n"), name("k")), "kept");
            rq_sys_fail(RQ_SYS_RENAME, round == 0 ? failing : 0, EIO, false);
            ck_assert_int_eq(rq_kv_put(&kv, name("n"), name("new"), name("v")), RMQ_OK);
            rq_sys_fail(RQ_SYS_RENAME, 0, 0, false);
            rq_kv_free(&kv);
        }
    }
    rq_sys_rmtree(dir);
}
END_TEST

static const char *route_in(const char *topic, const struct rq_route_form *form)
{
    static char text[4096];
    struct rq_buf out;
    rq_buf_init(&out, 0);
    bool found = rq_route_info_write_route(&info, name(topic), form, &out);
    snprintf(text, sizeof text, "%s", found ? rq_buf_cstr(&out) : "");
    rq_buf_free(&out);
    return text;
}

static void enroll_for(const char *broker, int64_t id, const char *addr, const char *zone,
                       bool acting, bool without_topic)
{
    struct rq_topic_config topics[] = {
        {.name = "TBW102", .read_queue_nums = 8, .write_queue_nums = 8, .perm = 7},
        {.name = "X", .read_queue_nums = 8, .write_queue_nums = 8, .perm = 6},
        {.name = "T", .read_queue_nums = 4, .write_queue_nums = 4, .perm = 6},
    };
    const struct rq_topic_table table = {.topics = topics, .count = without_topic ? 2 : 3};
    struct rq_hdr_register_broker header = {.broker_name = name(broker),
                                            .broker_addr = name(addr),
                                            .cluster_name = name("C"),
                                            .ha_server_addr = name("ha"),
                                            .broker_id = id,
                                            .zone_name = name(zone)};
    const struct rq_live_addr *master = NULL;
    RQ_SET(register_broker, &header, enable_acting_master, acting);
    ck_assert_int_eq(rq_route_info_register(&info, &header, &table, addr, 0, &master),
                     RQ_REGISTERED);
}

START_TEST(the_lowest_slave_stands_for_a_missing_master_where_that_is_allowed)
{
    const struct rq_route_form acting = {.acting_master = true};
    const struct rq_route_form plain = {0};
    enroll_for("a", 1, "1:1", NULL, true, false);
    enroll_for("a", 2, "2:2", NULL, true, false);
    ck_assert_ptr_nonnull(strstr(route_in("T", &acting), "{\"0\":\"1:1\",\"2\":\"2:2\"}"));
    ck_assert_ptr_nonnull(strstr(route_in("T", &plain), "{\"1\":\"1:1\",\"2\":\"2:2\"}"));
}
END_TEST

START_TEST(the_topics_of_a_slave_without_master_count_unless_it_is_older_than_that)
{
    const struct rq_route_form plain = {0};
    enroll_for("a", 1, "1:1", NULL, false, false);
    enroll("b", 1, "2:2", 1, "T", 4, 0);
    ck_assert_ptr_nonnull(strstr(route_in("T", &plain), "{\"1\":\"1:1\"}"));
    ck_assert_ptr_nonnull(strstr(route_in("T", &plain), "\"perm\":6"));
    ck_assert_ptr_null(strstr(route_in("T", &plain), "2:2"));
}
END_TEST

START_TEST(a_slave_stands_for_a_master_that_has_gone_until_one_comes_back)
{
    const struct rq_route_form acting = {.acting_master = true};
    enroll_for("a", 0, "1:1", NULL, true, false);
    enroll_for("a", 1, "2:2", NULL, true, false);
    ck_assert_ptr_nonnull(strstr(route_in("T", &acting), "{\"0\":\"1:1\",\"1\":\"2:2\"}"));
    rq_route_info_unregister(&info, name("a"), name("1:1"));
    ck_assert_ptr_nonnull(strstr(route_in("T", &acting), "{\"0\":\"2:2\"}"));
    ck_assert_ptr_nonnull(strstr(route_in("T", &acting), "\"perm\":4"));
    enroll_for("a", 0, "1:1", NULL, true, false);
    ck_assert_ptr_nonnull(strstr(route_in("T", &acting), "{\"0\":\"1:1\",\"1\":\"2:2\"}"));
    ck_assert_ptr_nonnull(strstr(route_in("T", &acting), "\"perm\":6"));
}
END_TEST

START_TEST(a_zone_sees_its_own_brokers_and_those_without_a_master)
{
    const struct rq_route_form zone = {.zone = name("East")};
    enroll_for("a", 0, "1:1", "east", false, false);
    enroll_for("b", 0, "2:2", "west", false, false);
    enroll_for("c", 1, "3:3", "west", true, false);
    const char *text = route_in("T", &zone);
    ck_assert_ptr_nonnull(strstr(text, "1:1"));
    ck_assert_ptr_null(strstr(text, "2:2"));
    ck_assert_ptr_nonnull(strstr(text, "3:3"));
    ck_assert_ptr_null(strstr(text, "{\"brokerName\":\"b\""));
    const struct rq_route_form acting = {.zone = name("East"), .acting_master = true};
    ck_assert_ptr_null(strstr(route_in("T", &acting), "3:3"));
    ck_assert_ptr_nonnull(strstr(route_in("T", &acting), "1:1"));
}
END_TEST

START_TEST(a_topic_that_is_not_registered_any_more_goes_when_that_is_wanted)
{
    enroll_for("a", 0, "1:1", NULL, false, false);
    enroll_for("a", 0, "1:1", NULL, false, true);
    ck_assert_str_ne(route("T", false), "");
    info.drop_missing = true;
    enroll_for("a", 0, "1:1", NULL, false, true);
    ck_assert_str_eq(route("T", false), "");
    ck_assert_str_ne(route("X", false), "");
}
END_TEST

START_TEST(queues_can_be_registered_for_a_known_broker_only)
{
    const struct rq_topic_config topic = {
        .name = "New", .read_queue_nums = 3, .write_queue_nums = 3, .perm = 6};
    enroll_for("a", 0, "1:1", NULL, false, false);
    ck_assert_int_eq(rq_route_info_put_queues(&info, "a", &topic), RMQ_OK);
    ck_assert_int_eq(rq_route_info_put_queues(&info, "nobody", &topic), RMQ_OK);
    ck_assert_ptr_nonnull(strstr(route("New", false), "\"readQueueNums\":3"));
    ck_assert_ptr_null(strstr(route("New", false), "nobody"));
}
END_TEST

Suite *route_info_suite(void)
{
    Suite *suite = suite_create("namesrv/route_info");
    TCase *tc = tcase_create("route_info");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_lowest_slave_stands_for_a_missing_master_where_that_is_allowed);
    tcase_add_test(tc, the_topics_of_a_slave_without_master_count_unless_it_is_older_than_that);
    tcase_add_test(tc, a_slave_stands_for_a_master_that_has_gone_until_one_comes_back);
    tcase_add_test(tc, a_zone_sees_its_own_brokers_and_those_without_a_master);
    tcase_add_test(tc, a_topic_that_is_not_registered_any_more_goes_when_that_is_wanted);
    tcase_add_test(tc, queues_can_be_registered_for_a_known_broker_only);
    tcase_add_test(tc, a_broker_that_asks_for_a_quicker_look_than_there_is_is_told_once);
    tcase_add_test(tc, a_registered_broker_is_in_the_route_of_its_topics);
    tcase_add_test(tc, two_brokers_of_one_name_are_told_once);
    tcase_add_test(tc, a_route_of_ours_is_read_by_our_own_parser);
    tcase_add_test(tc, the_route_of_a_static_topic_tells_who_leads_its_queues);
    tcase_add_test(tc, what_a_broker_has_told_of_a_static_topic_stays_until_the_topic_goes);
    tcase_add_test(tc, a_first_registration_with_a_single_topic_is_refused);
    tcase_add_test(tc, a_name_with_a_nul_inside_is_refused);
    tcase_add_test(tc, queues_change_only_with_the_version_of_the_table);
    tcase_add_test(tc, the_topics_of_a_slave_do_not_count);
    tcase_add_test(tc, an_address_that_changes_its_id_has_only_the_new_one);
    tcase_add_test(tc, a_broker_not_heard_for_two_minutes_is_gone);
    tcase_add_test(tc, a_closed_connection_and_an_unregistration_take_the_broker_away);
    tcase_add_test(tc, clusters_and_lists_of_topics_can_be_read);
    tcase_add_test(tc, a_topic_can_be_removed_and_write_permission_taken_and_given);
    tcase_add_test(tc, settings_are_kept_by_namespace);
    tcase_add_test(tc, the_good_backup_of_broken_settings_stays_until_there_is_a_good_file);
    suite_add_tcase(suite, tc);
    return suite;
}
