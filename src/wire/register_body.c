/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Body of REGISTER_BROKER, which brokers send every 30 s: as JSON, or as a zlib stream of texts
 * with 4-byte lengths: data version, topics, filter servers, from version 5.0 queue mappings.
 * Counterpart: RegisterBrokerBody.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/mem.h"
#include "wire/bodies_priv.h"
#include "wire/body_priv.h"
#include "wire/compress.h"
#include "wire/frame.h"

#define REGISTER_LEVEL   9
#define MAPPING_MIN_SIZE 6  /* length, and "{}" */
#define TOPIC_MIN_SIZE   13 /* length, and the shortest text "t 1 1 6 X": bounds the count */

/* Cuts the next word off and puts a NUL behind it; false at the end. */
static bool next_word(char **p, char *end, struct rq_slice *word)
{
    if (*p >= end) {
        return false;
    }
    char *blank = memchr(*p, ' ', (size_t)(end - *p));
    size_t n = (size_t)((blank ? blank : end) - *p);
    *word = rq_slice(*p, n);
    if (blank) {
        *blank = '\0';
    }
    *p += blank ? n + 1 : n;
    return true;
}

/* "name read write perm SINGLE_TAG {…}"; the attributes' JSON is added to the table's holder. An
 * unreadable sixth part is ignored. */
static rmq_status parse_topic_text(char *p, size_t n, struct rq_topic_table *table, rmq_error **err)
{
    struct rq_topic_config *topic = &table->topics[table->count];
    char *end = p + n;
    struct rq_slice name = {0};
    struct rq_slice words[4];
    bool ok = next_word(&p, end, &name) && name.n < n;
    for (size_t i = 0; i < 4; i++) {
        ok = ok && next_word(&p, end, &words[i]);
    }
    if (!ok || !rq_slice_to_i32(words[0], &topic->read_queue_nums) ||
        !rq_slice_to_i32(words[1], &topic->write_queue_nums) ||
        !rq_slice_to_i32(words[2], &topic->perm)) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "registration: topic %zu is unreadable",
                            table->count);
    }
    topic->name = name.p;
    topic->multi_tag = rq_slice_eq_str(words[3], "MULTI_TAG");
    table->count++;
    cJSON *attributes = NULL;
    if (p < end && rq_json_parse(rq_slice(p, (size_t)(end - p)), &attributes, NULL) == RMQ_OK) {
        cJSON_AddItemToArray(table->json, attributes);
        return rq_topic_attributes_parse(attributes, topic, err);
    }
    return RMQ_OK;
}

static rmq_status parse_topics(struct rq_cursor *c, struct rq_topic_table *out, rmq_error **err)
{
    uint32_t count = rq_cursor_be32(c);
    if (count > rq_cursor_left(c) / TOPIC_MIN_SIZE) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "registration: %u topics in %zu bytes", count,
                            rq_cursor_left(c));
    }
    rmq_status st = rq_body_array(count, sizeof *out->topics, &out->topics, err);
    for (uint32_t i = 0; i < count && st == RMQ_OK; i++) {
        struct rq_slice text = rq_cursor_slice(c, rq_cursor_be32(c));
        if (!rq_cursor_ok(c)) {
            return rq_error_set(err, RMQ_ERR_PROTOCOL, "registration: topic %u of %u is cut", i,
                                count);
        }
        size_t at = (size_t)(text.p - (char *)out->texts);
        st = parse_topic_text((char *)out->texts + at, text.n, out, err);
    }
    return st;
}

/* What follows the filter servers. Each JSON tree goes to the table's holder. A mapping that cannot
 * be read is passed over. */
static rmq_status parse_mappings(struct rq_cursor *c, struct rq_topic_table *out, rmq_error **err)
{
    (void)rq_cursor_slice(c, rq_cursor_be32(c)); /* filter servers */
    uint32_t count = rq_cursor_be32(c);
    if (!rq_cursor_ok(c) || count > rq_cursor_left(c) / MAPPING_MIN_SIZE) {
        return RMQ_OK; /* a sender that has none of this */
    }
    rmq_status st = rq_body_array(count, sizeof *out->mappings, &out->mappings, err);
    for (uint32_t i = 0; i < count && st == RMQ_OK; i++) {
        struct rq_slice text = rq_cursor_slice(c, rq_cursor_be32(c));
        cJSON *json = NULL;
        if (rq_cursor_ok(c) && rq_json_parse(text, &json, NULL) == RMQ_OK) {
            cJSON_AddItemToArray(out->json, json);
            st = rq_topic_mapping_read(json, out, err);
        }
    }
    return st;
}

static rmq_status parse_compressed(struct rq_slice body, int32_t version, size_t max_out,
                                   struct rq_topic_table *out, rmq_error **err)
{
    char *plain = NULL;
    size_t n = 0;
    rmq_status st = rq_decompress(RQ_COMPRESSION_ZLIB, body.p, body.n, max_out, &plain, &n, err);
    if (st) {
        return st;
    }
    out->texts = plain;
    struct rq_cursor c = rq_cursor(plain, n);
    struct rq_slice data_version = rq_cursor_slice(&c, rq_cursor_be32(&c));
    cJSON *json = NULL;
    if (!data_version.p) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "registration of %zu bytes is cut", n);
    }
    st = rq_json_parse(data_version, &json, err);
    if (st) {
        return st;
    }
    rq_data_version_parse(json, &out->version);
    rq_json_free(json);
    out->json = cJSON_CreateArray();
    if (!out->json) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a registration");
    }
    st = parse_topics(&c, out, err);
    return st || version < RQ_VERSION_V5_0_0 ? st : parse_mappings(&c, out, err);
}

static rmq_status parse_json(struct rq_slice body, struct rq_topic_table *out, rmq_error **err)
{
    rmq_status st = rq_body_open(body, "registration", &out->json, err);
    if (st == RMQ_OK) {
        st = rq_topic_table_read(rq_json_get(out->json, "topicConfigSerializeWrapper"), out, err);
    }
    return st;
}

rmq_status rq_register_body_parse(struct rq_slice body, bool compressed, int32_t version,
                                  size_t max_out, struct rq_topic_table *out, rmq_error **err)
{
    *out = (struct rq_topic_table){0};
    rmq_status st = compressed ? parse_compressed(body, version, max_out, out, err)
                               : parse_json(body, out, err);
    if (st) {
        rq_topic_table_clear(out);
    }
    return st;
}

void rq_register_body_write(const struct rq_topic_table *table, struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"filterServerList\":[],\"topicConfigSerializeWrapper\":");
    rq_topic_table_write(table, out);
    rq_buf_add_char(out, '}');
}

/* Appends a length and what was written behind its place. */
static void close_text(struct rq_buf *out, size_t at)
{
    if (rq_buf_status(out) == RMQ_OK) {
        rq_store_be32(out->data + at, (uint32_t)(out->len - at - 4));
    }
}

rmq_status rq_register_body_write_compressed(const struct rq_topic_table *table, struct rq_buf *out,
                                             rmq_error **err)
{
    struct rq_buf plain;
    rq_buf_init(&plain, 0);
    rq_buf_add_be32(&plain, 0);
    rq_data_version_write(&table->version, &plain);
    close_text(&plain, 0);
    rq_buf_add_be32(&plain, (uint32_t)table->count);
    for (size_t i = 0; i < table->count; i++) {
        size_t at = plain.len;
        rq_buf_add_be32(&plain, 0);
        rq_topic_config_write_text(&table->topics[i], &plain);
        close_text(&plain, at);
    }
    rq_buf_add_be32(&plain, 2);
    rq_buf_add(&plain, "[]", 2);
    rq_buf_add_be32(&plain, (uint32_t)table->mapping_count); /* our version is above V5_0_0 */
    for (size_t i = 0; i < table->mapping_count; i++) {
        size_t at = plain.len;
        rq_buf_add_be32(&plain, 0);
        rq_queue_mapping_info_write(&table->mappings[i], false, &plain);
        close_text(&plain, at);
    }
    rmq_status st = rq_buf_status(&plain);
    if (st == RMQ_OK) {
        st = rq_compress(RQ_COMPRESSION_ZLIB, REGISTER_LEVEL, rq_slice(plain.data, plain.len), out,
                         err);
    } else {
        rq_error_set(err, st, "registration of %zu topics", table->count);
    }
    rq_buf_free(&plain);
    return st;
}
