/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A static topic's mapping with its 1st, 2nd … Nth allocation failing: it is taken or refused as a
 * whole, nothing is leaked, and the table is as it was. cJSON allocates through the same functions
 * here. */
#include <check.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "base/mem.h"
#include "broker/queue_mappings.h"

#define MAPPING(epoch, queue)                                                                      \
    "{\"bname\":\"b\",\"epoch\":" #epoch ",\"hostedQueues\":{\"" #queue "\":[{\"bname\":\"a\","    \
    "\"gen\":0},{\"bname\":\"b\",\"gen\":1,\"logicOffset\":100}]},\"topic\":\"T\"}"

Suite *broker_suite(void);

static rmq_status put(struct rq_queue_mappings *mappings, const char *text)
{
    cJSON *json = NULL;
    struct rq_queue_mapping *mapping = NULL;
    rmq_status st = rq_json_parse(rq_slice_str(text), &json, NULL);
    st = st ? st : rq_queue_mapping_parse(json, &mapping, NULL);
    st = st ? st : rq_queue_mappings_put(mappings, mapping, false, NULL);
    if (st) {
        rq_queue_mapping_release(mapping);
    }
    rq_json_free(json);
    return st;
}

/* Returns whether the nth allocation was reached. */
static bool run_failing(struct rq_queue_mappings *mappings, size_t n)
{
    struct rq_queue_mapping *old = rq_queue_mappings_get(mappings, rq_slice_str("T"));
    size_t before = rq_mem_fail_at(n);
    rmq_status st = put(mappings, MAPPING(2, 1));
    bool reached = rq_mem_fail_at(0) - before >= n;
    ck_assert_int_eq(rq_queue_mappings_is_current(mappings, old), st != RMQ_OK);
    /* a failure inside cJSON is reported as text that does not parse */
    ck_assert(st == RMQ_OK || st == RMQ_ERR_NOMEM || st == RMQ_ERR_PROTOCOL);
    ck_assert(reached || st == RMQ_OK);
    rq_queue_mapping_release(old);
    return reached;
}

START_TEST(a_mapping_is_taken_whole_or_not_at_all)
{
    cJSON_Hooks hooks = {.malloc_fn = rq_alloc, .free_fn = rq_free};
    struct rq_queue_mappings mappings;
    cJSON_InitHooks(&hooks);
    rq_mem_count(1);
    size_t live = rq_mem_live();
    size_t n = 1;
    bool reached = true;
    for (; reached; n++) {
        rq_queue_mappings_init(&mappings);
        ck_assert_int_eq(put(&mappings, MAPPING(1, 0)), RMQ_OK);
        reached = run_failing(&mappings, n);
        struct rq_queue_mapping *mapping = rq_queue_mappings_get(&mappings, rq_slice_str("T"));
        ck_assert_uint_eq(mapping->count, mapping->epoch == 2 ? 2 : 1);
        rq_queue_mapping_release(mapping);
        rq_queue_mappings_free(&mappings);
        ck_assert_uint_eq(rq_mem_live(), live);
    }
    ck_assert_uint_gt(n, 10);
    rq_mem_count(0);
    cJSON_InitHooks(NULL);
}
END_TEST

Suite *broker_suite(void)
{
    Suite *suite = suite_create("broker");
    TCase *tc = tcase_create("broker");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_mapping_is_taken_whole_or_not_at_all);
    suite_add_tcase(suite, tc);
    return suite;
}
