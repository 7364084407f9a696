/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Mappings of static topics: their JSON, the rules for what may follow one, offsets of a queue that
 * has moved. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "broker/queue_mapping.h"
#include "broker/queue_mappings.h"

/* Queue 0 was on "a" up to 100, is on "b" from 10000 on; queue 1 is on "b" only. As Java writes it,
 * with bare keys. */
#define MOVED                                                                                      \
    "{\"bname\":\"b\",\"currIdMap\":{},\"dirty\":false,\"epoch\":7,\"hostedQueues\":{"             \
    "0:[{\"bname\":\"a\",\"endOffset\":-1,\"gen\":0,\"logicOffset\":0,\"queueId\":3,"              \
    "\"startOffset\":0,\"timeOfEnd\":-1,\"timeOfStart\":-1},"                                      \
    "{\"bname\":\"b\",\"endOffset\":-1,\"gen\":1,\"logicOffset\":10000,\"queueId\":1,"             \
    "\"startOffset\":0,\"timeOfEnd\":-1,\"timeOfStart\":-1}],"                                     \
    "1:[{\"bname\":\"b\",\"endOffset\":-1,\"gen\":0,\"logicOffset\":0,\"queueId\":0,"              \
    "\"startOffset\":0,\"timeOfEnd\":-1,\"timeOfStart\":-1}]},"                                    \
    "\"scope\":\"__global__\",\"topic\":\"T\",\"totalQueues\":2}"

static struct rq_queue_mapping *mapping_of(const char *text)
{
    cJSON *json = NULL;
    struct rq_queue_mapping *mapping = NULL;
    ck_assert_int_eq(rq_json_parse(rq_slice_str(text), &json, NULL), RMQ_OK);
    rmq_error *err = NULL;
    ck_assert_msg(rq_queue_mapping_parse(json, &mapping, &err) == RMQ_OK, "%s",
                  err ? rmq_error_message(err) : "");
    rq_json_free(json);
    return mapping;
}

/* The text with one word in the place of another, its first. */
static char *text_with(const char *text, const char *old, const char *word)
{
    struct rq_buf out;
    const char *at = strstr(text, old);
    ck_assert_msg(at != NULL, "no %s", old);
    rq_buf_init(&out, 0);
    rq_buf_add(&out, text, (size_t)(at - text));
    rq_buf_add_str(&out, word);
    rq_buf_add_str(&out, at + strlen(old));
    char *copy = strdup(rq_buf_cstr(&out));
    rq_buf_free(&out);
    return copy;
}

static struct rq_queue_mapping *mapping_with(const char *old, const char *word)
{
    char *text = text_with(MOVED, old, word);
    struct rq_queue_mapping *mapping = mapping_of(text);
    free(text);
    return mapping;
}

START_TEST(a_mapping_is_written_as_it_was_read)
{
    struct rq_buf out;
    struct rq_queue_mapping *mapping = mapping_of(MOVED);
    rq_buf_init(&out, 0);
    rq_queue_mapping_write(mapping, &out);
    char *quoted = text_with(MOVED, "{0:", "{\"0\":");
    char *all = text_with(quoted, ",1:[", ",\"1\":[");
    ck_assert_str_eq(rq_buf_cstr(&out), all);
    rq_buf_clear(&out);
    rq_queue_mapping_write_info(mapping, &out);
    ck_assert_str_eq(rq_buf_cstr(&out),
                     "{\"bname\":\"b\",\"currIdMap\":{\"0\":1,\"1\":0},\"dirty\":false,\"epoch\":7,"
                     "\"scope\":\"__global__\",\"topic\":\"T\",\"totalQueues\":2}");
    rq_buf_free(&out);
    free(quoted);
    free(all);
    rq_queue_mapping_release(mapping);
}
END_TEST

START_TEST(only_queues_that_the_broker_leads_are_told)
{
    struct rq_buf out;
    struct rq_queue_mapping *mapping = mapping_with("{\"bname\":\"b\"", "{\"bname\":\"a\"");
    rq_buf_init(&out, 0);
    ck_assert(!rq_queue_mapping_leads(mapping, rq_queue_mapping_find(mapping, 0)));
    ck_assert(!rq_queue_mapping_leads(mapping, rq_queue_mapping_find(mapping, 77)));
    rq_queue_mapping_write_info(mapping, &out);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&out), "\"currIdMap\":{}"));
    rq_buf_free(&out);
    rq_queue_mapping_release(mapping);
}
END_TEST

START_TEST(offsets_of_a_queue_that_moved_are_those_of_the_queue_they_fall_into)
{
    struct rq_queue_mapping *mapping = mapping_of(MOVED);
    const struct rq_mapped_queue *queue = rq_queue_mapping_find(mapping, 0);
    const struct rq_mapping_item *first = &queue->items[0];
    const struct rq_mapping_item *leader = rq_mapped_leader(queue);
    ck_assert_ptr_eq(rq_mapped_item_at(queue, 0), first);
    ck_assert_ptr_eq(rq_mapped_item_at(queue, 9999), first);
    ck_assert_ptr_eq(rq_mapped_item_at(queue, 10000), leader);
    ck_assert_ptr_eq(rq_mapped_item_at(queue, INT64_MAX), leader);
    ck_assert_ptr_eq(rq_mapped_item_at(queue, -5), first);
    ck_assert_ptr_eq(rq_mapped_item_after(queue, first), leader);
    ck_assert_ptr_null(rq_mapped_item_after(queue, leader));
    ck_assert_int_eq(rq_item_physical(leader, 10007), 7);
    ck_assert_int_eq(rq_item_logical(leader, 7), 10007);
    ck_assert_int_eq(rq_item_logical_bounded(leader, 7), 10007);
    ck_assert_int_eq(rq_item_logical_end(leader), 10000);
    rq_queue_mapping_release(mapping);
}
END_TEST

START_TEST(an_item_with_an_end_counts_up_to_it)
{
    const struct rq_mapping_item item = {
        .logic_offset = 1000, .start_offset = 10, .end_offset = 30};
    ck_assert(rq_item_has_end(&item));
    ck_assert_int_eq(rq_item_logical(&item, 5), 1000);
    ck_assert_int_eq(rq_item_logical(&item, 15), 1005);
    ck_assert_int_eq(rq_item_logical(&item, 40), 1030);
    ck_assert_int_eq(rq_item_logical_bounded(&item, 40), 1020);
    ck_assert_int_eq(rq_item_logical_end(&item), 1020);
    const struct rq_mapping_item open = {.logic_offset = -1, .start_offset = 0, .end_offset = -1};
    ck_assert(!rq_item_has_end(&open));
    ck_assert_int_eq(rq_item_logical_bounded(&open, 3), -1);
}
END_TEST

START_TEST(an_item_that_is_not_decided_is_passed_over)
{
    struct rq_queue_mapping *mapping = mapping_with("\"logicOffset\":10000", "\"logicOffset\":-1");
    const struct rq_mapped_queue *queue = rq_queue_mapping_find(mapping, 0);
    ck_assert_int_eq(rq_queue_mapping_check(mapping, NULL), RMQ_OK);
    ck_assert_ptr_eq(rq_mapped_item_at(queue, INT64_MAX), &queue->items[0]);
    ck_assert_ptr_null(rq_mapped_item_after(queue, &queue->items[0]));
    rq_queue_mapping_release(mapping);
}
END_TEST

START_TEST(mappings_that_cannot_be_are_refused)
{
    static const char *const wrong[][2] = {
        {"\"queueId\":3", "\"queueId\":-3"},
        {"\"startOffset\":0", "\"startOffset\":-1"},
        {"\"gen\":0", "\"gen\":1"},
        {"\"logicOffset\":0", "\"logicOffset\":-1"},
        {"\"logicOffset\":10000", "\"logicOffset\":0"},
        {"\"endOffset\":-1", "\"endOffset\":20000"},
        {"\"endOffset\":-1,\"gen\":0,\"logicOffset\":0,\"queueId\":3,\"startOffset\":0",
         "\"endOffset\":4,\"gen\":0,\"logicOffset\":0,\"queueId\":3,\"startOffset\":5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct rq_queue_mapping *mapping = mapping_with(wrong[i][0], wrong[i][1]);
        ck_assert_msg(rq_queue_mapping_check(mapping, NULL) == RMQ_ERR_INVALID, "%s", wrong[i][1]);
        rq_queue_mapping_release(mapping);
    }
}
END_TEST

START_TEST(json_that_is_no_mapping_is_refused)
{
    static const char *const texts[] = {
        "[]",
        ("{\"bname\":\"b\",\"topic\":\"T\",\"hostedQueues\":{\"1\":[{\"bname\":\"a\"}],"
         "\"+1\":[{\"bname\":\"a\"}]}}"),
        "3",
        "{}",
        "{\"topic\":\"T\"}",
        "{\"bname\":\"b\",\"topic\":\"\"}",
        "{\"bname\":\"b\",\"topic\":\"T\",\"hostedQueues\":{\"x\":[{\"bname\":\"a\"}]}}",
        "{\"bname\":\"b\",\"topic\":\"T\",\"hostedQueues\":{\"0\":[{}]}}",
        "{\"bname\":\"b\",\"topic\":\"T\",\"hostedQueues\":{\"0\":[{\"bname\":\"a\"},7]}}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cJSON *json = NULL;
        struct rq_queue_mapping *mapping = NULL;
        ck_assert_int_eq(rq_json_parse(rq_slice_str(texts[i]), &json, NULL), RMQ_OK);
        ck_assert_msg(rq_queue_mapping_parse(json, &mapping, NULL) == RMQ_ERR_PROTOCOL, "%s",
                      texts[i]);
        ck_assert_ptr_null(mapping);
        rq_json_free(json);
    }
}
END_TEST

/* Whether MOVED with one word changed may follow MOVED. */
static bool may_follow(const char *old_word, const char *word, bool force)
{
    struct rq_queue_mapping *old = mapping_of(MOVED);
    struct rq_queue_mapping *next = mapping_with(old_word, word);
    bool ok = rq_queue_mapping_succeed(next, old, force, NULL) == RMQ_OK;
    rq_queue_mapping_release(old);
    rq_queue_mapping_release(next);
    return ok;
}

START_TEST(a_mapping_is_followed_by_a_later_one_that_keeps_what_was)
{
    ck_assert(may_follow("\"epoch\":7", "\"epoch\":7", false));
    ck_assert(may_follow("\"epoch\":7", "\"epoch\":8", false));
    ck_assert(!may_follow("\"epoch\":7", "\"epoch\":6", false));
    ck_assert(may_follow("\"epoch\":7", "\"epoch\":6", true));
    ck_assert(!may_follow("__global__", "other", false));
    ck_assert(!may_follow("\"queueId\":3", "\"queueId\":4", false));
    ck_assert(!may_follow("\"logicOffset\":10000", "\"logicOffset\":20000", false));
    ck_assert(!may_follow("\"gen\":1", "\"gen\":2", false)); /* another leader, no other epoch */
}
END_TEST

START_TEST(an_offset_that_was_not_decided_may_be_decided_once)
{
    struct rq_queue_mapping *open = mapping_with("\"logicOffset\":10000", "\"logicOffset\":-1");
    struct rq_queue_mapping *next = mapping_of(MOVED);
    ck_assert_int_eq(rq_queue_mapping_succeed(next, open, false, NULL), RMQ_OK);
    rq_queue_mapping_release(open);
    rq_queue_mapping_release(next);
}
END_TEST

START_TEST(queues_that_are_not_named_stay)
{
    static const char one[] =
        "{\"bname\":\"b\",\"epoch\":9,\"hostedQueues\":{\"5\":[{\"bname\":\"b\"}]},"
        "\"topic\":\"T\",\"totalQueues\":6}";
    struct rq_queue_mapping *old = mapping_of(MOVED);
    struct rq_queue_mapping *next = mapping_of(one);
    ck_assert_int_eq(rq_queue_mapping_succeed(next, old, false, NULL), RMQ_OK);
    ck_assert_uint_eq(next->count, 3);
    ck_assert_uint_eq(rq_queue_mapping_find(next, 0)->count, 2);
    ck_assert_ptr_nonnull(rq_queue_mapping_find(next, 5));
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(next->queues[i].id, i == 2 ? 5 : (int)i);
    }
    rq_queue_mapping_release(next);
    next = mapping_of(one);
    next->epoch = old->epoch; /* then it would be another state with the same number */
    ck_assert_int_eq(rq_queue_mapping_succeed(next, old, false, NULL), RMQ_ERR_INVALID);
    rq_queue_mapping_release(old);
    rq_queue_mapping_release(next);
}
END_TEST

START_TEST(the_table_is_read_from_the_file_it_wrote_and_from_the_backup)
{
    char dir[] = "/tmp/rmq-mappings-test-XXXXXX";
    char path[128];
    struct rq_queue_mappings mappings;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/topicQueueMapping.json", dir);
    rq_queue_mappings_init(&mappings);
    ck_assert_ptr_null(rq_queue_mappings_get(&mappings, rq_slice_str("T")));
    ck_assert_int_eq(rq_queue_mappings_set_path(&mappings, path), RMQ_OK);
    for (int i = 0; i < 2; i++) { /* the second time what was there becomes the backup */
        struct rq_queue_mapping *mapping = mapping_of(MOVED);
        mapping->epoch += i;
        ck_assert_int_eq(rq_queue_mappings_put(&mappings, mapping, false, NULL), RMQ_OK);
        ck_assert_int_eq(rq_queue_mappings_persist(&mappings, NULL), RMQ_OK);
    }
    struct rq_data_version version = rq_queue_mappings_version(&mappings);
    rq_queue_mappings_free(&mappings);
    for (int broken = 0; broken < 2; broken++) {
        if (broken) {
            ck_assert_int_eq(rq_sys_write_file(path, "{", 1, false, NULL), RMQ_OK);
        }
        rq_queue_mappings_init(&mappings);
        ck_assert_int_eq(rq_queue_mappings_set_path(&mappings, path), RMQ_OK);
        ck_assert_int_eq(rq_queue_mappings_load(&mappings, NULL), RMQ_OK);
        struct rq_queue_mapping *mapping = rq_queue_mappings_get(&mappings, rq_slice_str("T"));
        ck_assert_ptr_nonnull(mapping);
        ck_assert_int_eq(mapping->epoch, broken ? 7 : 8);
        ck_assert(rq_queue_mappings_is_current(&mappings, mapping));
        struct rq_data_version again = rq_queue_mappings_version(&mappings);
        ck_assert_int_eq(again.counter, version.counter - broken);
        ck_assert(rq_queue_mappings_remove(&mappings, rq_slice_str("T")));
        ck_assert(!rq_queue_mappings_is_current(&mappings, mapping));
        rq_queue_mapping_release(mapping);
        rq_queue_mappings_free(&mappings);
    }
    (void)rq_sys_rmtree(dir);
}
END_TEST

Suite *queue_mapping_suite(void);

Suite *queue_mapping_suite(void)
{
    Suite *suite = suite_create("queue_mapping");
    TCase *tc = tcase_create("queue_mapping");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, a_mapping_is_written_as_it_was_read);
    tcase_add_test(tc, only_queues_that_the_broker_leads_are_told);
    tcase_add_test(tc, offsets_of_a_queue_that_moved_are_those_of_the_queue_they_fall_into);
    tcase_add_test(tc, an_item_with_an_end_counts_up_to_it);
    tcase_add_test(tc, an_item_that_is_not_decided_is_passed_over);
    tcase_add_test(tc, mappings_that_cannot_be_are_refused);
    tcase_add_test(tc, json_that_is_no_mapping_is_refused);
    tcase_add_test(tc, a_mapping_is_followed_by_a_later_one_that_keeps_what_was);
    tcase_add_test(tc, an_offset_that_was_not_decided_may_be_decided_once);
    tcase_add_test(tc, queues_that_are_not_named_stay);
    tcase_add_test(tc, the_table_is_read_from_the_file_it_wrote_and_from_the_backup);
    suite_add_tcase(suite, tc);
    return suite;
}
