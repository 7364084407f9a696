/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Trace records as text: those of Java's encoder (tests/vectors/trace.json), and what is left. */
#include <check.h>
#include <string.h>

#include "base/json.h"
#include "base/sys.h"
#include "client/trace_encode.h"

Suite *trace_suite(void);

START_TEST(a_send_is_fourteen_fields)
{
    struct rq_buf out;
    rq_buf_init(&out, 0);
    struct rq_trace_pub record = {.time_ms = 1700000000123,
                                  .region = rq_slice_str("DefaultRegion"),
                                  .group = rq_slice_str("g"),
                                  .topic = rq_slice_str("T"),
                                  .msg_id = rq_slice_str("ID"),
                                  .tags = rq_slice_str("tag"),
                                  .keys = rq_slice_str("k1 k2"),
                                  .store_host = rq_slice_str("10.0.0.1:10911"),
                                  .body_size = 12,
                                  .cost_ms = 3,
                                  .kind = RQ_TRACE_DELAY,
                                  .offset_msg_id = rq_slice_str("OFF"),
                                  .success = true};
    rq_trace_write_pub(&out, &record);
    ck_assert_str_eq(rq_buf_cstr(&out),
                     "Pub\0011700000000123\001DefaultRegion\001g\001T\001ID\001tag\001k1 k2\001"
                     "10.0.0.1:10911\00112\0013\0013\001OFF\001true\002");
    rq_buf_free(&out);
}
END_TEST

START_TEST(both_sides_of_a_consumption_share_the_request_id)
{
    struct rq_buf out;
    rq_buf_init(&out, 0);
    struct rq_trace_sub record = {.time_ms = 5,
                                  .region = rq_slice_str("R"),
                                  .group = rq_slice_str("g"),
                                  .request_id = rq_slice_str("REQ"),
                                  .msg_id = rq_slice_str("ID"),
                                  .keys = rq_slice_str(""),
                                  .retries = 2,
                                  .cost_ms = 7,
                                  .success = false,
                                  .outcome = RQ_TRACE_RETURN_FAILED};
    rq_trace_write_before(&out, &record);
    rq_trace_write_after(&out, &record);
    ck_assert_str_eq(rq_buf_cstr(&out),
                     "SubBefore\0015\001R\001g\001REQ\001ID\0012\001\002"
                     "SubAfter\001REQ\001ID\0017\001false\001\0014\0015\001g\002");
    rq_buf_free(&out);
}
END_TEST

START_TEST(an_ended_transaction_names_its_state)
{
    struct rq_buf out;
    rq_buf_init(&out, 0);
    struct rq_trace_end record = {.time_ms = 5,
                                  .region = rq_slice_str("R"),
                                  .group = rq_slice_str("g"),
                                  .topic = rq_slice_str("T"),
                                  .msg_id = rq_slice_str("ID"),
                                  .store_host = rq_slice_str("h:1"),
                                  .kind = RQ_TRACE_COMMIT,
                                  .transaction_id = rq_slice_str("TX"),
                                  .state = rq_slice_str("COMMIT_MESSAGE"),
                                  .from_check = true};
    rq_trace_write_end(&out, &record);
    ck_assert_str_eq(rq_buf_cstr(&out),
                     "EndTransaction\0015\001R\001g\001T\001ID\001\001\001h:1\0012"
                     "\001TX\001COMMIT_MESSAGE\001true\002");
    rq_buf_free(&out);
}
END_TEST

static struct rq_slice text_of(const cJSON *json, const char *name)
{
    return rq_slice_str(rq_json_str(json, name, ""));
}

static void write_pub(struct rq_buf *out, const cJSON *context, const cJSON *bean)
{
    struct rq_trace_pub record = {.time_ms = rq_json_i64(context, "timeStamp", 0),
                                  .region = text_of(context, "regionId"),
                                  .group = text_of(context, "groupName"),
                                  .topic = text_of(bean, "topic"),
                                  .msg_id = text_of(bean, "msgId"),
                                  .tags = text_of(bean, "tags"),
                                  .keys = text_of(bean, "keys"),
                                  .store_host = text_of(bean, "storeHost"),
                                  .body_size = (size_t)rq_json_i32(bean, "bodyLength", 0),
                                  .cost_ms = rq_json_i32(context, "costTime", 0),
                                  .kind =
                                      (enum rq_trace_kind)rq_json_i32(bean, "msgType_ordinal", -1),
                                  .offset_msg_id = text_of(bean, "offsetMsgId"),
                                  .success = cJSON_IsTrue(rq_json_get(context, "success"))};
    rq_trace_write_pub(out, &record);
}

static void write_sub(struct rq_buf *out, const cJSON *context, const cJSON *bean, bool before)
{
    struct rq_trace_sub record = {
        .time_ms = rq_json_i64(context, "timeStamp", 0),
        .region = text_of(context, "regionId"),
        .group = text_of(context, "groupName"),
        .request_id = text_of(context, "requestId"),
        .msg_id = text_of(bean, "msgId"),
        .keys = text_of(bean, "keys"),
        .retries = rq_json_i32(bean, "retryTimes", -1),
        .cost_ms = rq_json_i32(context, "costTime", 0),
        .success = cJSON_IsTrue(rq_json_get(context, "success")),
        .outcome = (enum rq_trace_return)rq_json_i32(context, "contextCode", -1)};
    if (before) {
        rq_trace_write_before(out, &record);
    } else {
        rq_trace_write_after(out, &record);
    }
}

static void write_end(struct rq_buf *out, const cJSON *context, const cJSON *bean)
{
    struct rq_trace_end record = {
        .time_ms = rq_json_i64(context, "timeStamp", 0),
        .region = text_of(context, "regionId"),
        .group = text_of(context, "groupName"),
        .topic = text_of(bean, "topic"),
        .msg_id = text_of(bean, "msgId"),
        .tags = text_of(bean, "tags"),
        .keys = text_of(bean, "keys"),
        .store_host = text_of(bean, "storeHost"),
        .kind = (enum rq_trace_kind)rq_json_i32(bean, "msgType_ordinal", -1),
        .transaction_id = text_of(bean, "transactionId"),
        .state = text_of(bean, "transactionState"),
        .from_check = cJSON_IsTrue(rq_json_get(bean, "fromTransactionCheck"))};
    rq_trace_write_end(out, &record);
}

/* Ours writes neither the text "null" for what is not there, nor the form for a cloud, nor
 * recalls. */
static bool is_written_by_us(const cJSON *row)
{
    const char *data = rq_json_str(row, "transData", "");
    const char *channel = rq_json_str(rq_json_get(row, "context"), "accessChannel", "");
    return strstr(data, "\001null\001") == NULL && strncmp(data, "Recall", 6) != 0 &&
           strcmp(channel, "CLOUD") != 0;
}

static void check_row(const cJSON *row)
{
    const cJSON *context = rq_json_get(row, "context");
    const char *type = rq_json_str(context, "traceType", "");
    const cJSON *bean = NULL;
    struct rq_buf out;
    rq_buf_init(&out, 0);
    cJSON_ArrayForEach(bean, rq_json_get(context, "beans"))
    {
        if (strcmp(type, "Pub") == 0) {
            write_pub(&out, context, bean);
        } else if (strcmp(type, "EndTransaction") == 0) {
            write_end(&out, context, bean);
        } else {
            write_sub(&out, context, bean, strcmp(type, "SubBefore") == 0);
        }
    }
    ck_assert_str_eq(rq_buf_cstr(&out), rq_json_str(row, "transData", NULL));
    rq_buf_free(&out);
}

START_TEST(records_are_those_that_the_java_encoder_writes)
{
    struct rq_buf text;
    cJSON *json = NULL;
    const cJSON *row = NULL;
    int rows = 0;
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file("tests/vectors/trace.json", 1 << 20, &text, NULL), RMQ_OK);
    ck_assert_int_eq(rq_json_parse(rq_slice(text.data, text.len), &json, NULL), RMQ_OK);
    cJSON_ArrayForEach(row, rq_json_get(json, "cases"))
    {
        if (is_written_by_us(row)) {
            check_row(row);
            rows++;
        }
    }
    ck_assert_int_eq(rows, 18);
    rq_json_free(json);
    rq_buf_free(&text);
}
END_TEST

START_TEST(a_separator_in_a_value_makes_no_field)
{
    struct rq_buf out;
    rq_buf_init(&out, 0);
    struct rq_trace_sub record = {.msg_id = rq_slice_str("a\001b\002c")};
    rq_trace_write_before(&out, &record);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&out), "\001a b c\001"));
    rq_buf_free(&out);
}
END_TEST

START_TEST(keys_are_listed_once)
{
    struct rq_buf keys;
    rq_buf_init(&keys, 0);
    rq_trace_add_keys(&keys, rq_slice_str("ID1"));
    rq_trace_add_keys(&keys, rq_slice_str("k1  k2 k1"));
    rq_trace_add_keys(&keys, rq_slice_str("ID1"));
    rq_trace_add_keys(&keys, rq_slice_str(""));
    rq_trace_add_keys(&keys, rq_slice_str("ID"));
    ck_assert_str_eq(rq_buf_cstr(&keys), "ID1 k1 k2 ID");
    rq_buf_free(&keys);
}
END_TEST

Suite *trace_suite(void)
{
    Suite *suite = suite_create("trace");
    TCase *cases = tcase_create("trace");
    tcase_add_test(cases, records_are_those_that_the_java_encoder_writes);
    tcase_add_test(cases, a_send_is_fourteen_fields);
    tcase_add_test(cases, both_sides_of_a_consumption_share_the_request_id);
    tcase_add_test(cases, an_ended_transaction_names_its_state);
    tcase_add_test(cases, a_separator_in_a_value_makes_no_field);
    tcase_add_test(cases, keys_are_listed_once);
    suite_add_tcase(suite, cases);
    return suite;
}
