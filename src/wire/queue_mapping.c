/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The mapping of a static topic's queues, as registrations and routes carry it. Any thread. */
#include "wire/queue_mapping.h"

#include "base/err.h"
#include "base/mem.h"
#include "wire/body_priv.h"

static rmq_status parse_ids(const cJSON *json, struct rq_queue_mapping_info *out, rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof *out->ids, &out->ids, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        struct rq_queue_mapping_id *id = &out->ids[out->id_count];
        int64_t physical = 0;
        if (item->string && rq_slice_to_i32(rq_slice_str(item->string), &id->logical) &&
            rq_json_value_i64(item, &physical) && physical >= 0 && physical <= INT32_MAX) {
            id->physical = (int32_t)physical;
            out->id_count++;
        }
    }
    return st;
}

rmq_status rq_queue_mapping_info_parse(const cJSON *json, struct rq_queue_mapping_info *out,
                                       rmq_error **err)
{
    *out =
        (struct rq_queue_mapping_info){.topic = rq_json_str(json, "topic", ""),
                                       .scope = rq_json_str(json, "scope", RQ_MAPPING_SCOPE_GLOBAL),
                                       .broker_name = rq_json_str(json, "bname", ""),
                                       .total_queues = rq_json_i32(json, "totalQueues", 0),
                                       .epoch = rq_json_i64(json, "epoch", 0),
                                       .dirty = rq_json_bool(json, "dirty", false)};
    if (!*out->broker_name) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "a queue mapping without a broker name");
    }
    return parse_ids(rq_json_get(json, "currIdMap"), out, err);
}

void rq_queue_mapping_info_clear(struct rq_queue_mapping_info *info)
{
    rq_free(info->ids);
    *info = (struct rq_queue_mapping_info){0};
}

void rq_queue_mapping_info_write(const struct rq_queue_mapping_info *info, bool bare_keys,
                                 struct rq_buf *out)
{
    const char *quote = bare_keys ? "" : "\"";
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_text(out, &first, "bname", info->broker_name);
    rq_json_add_member(out, &first, "currIdMap");
    rq_buf_add_char(out, '{');
    for (size_t i = 0; i < info->id_count; i++) {
        rq_body_next(out, i);
        rq_buf_addf(out, "%s%d%s:%d", quote, info->ids[i].logical, quote, info->ids[i].physical);
    }
    rq_buf_add_char(out, '}');
    rq_body_add_bool(out, &first, "dirty", info->dirty);
    rq_body_add_i64(out, &first, "epoch", info->epoch);
    rq_body_add_text(out, &first, "scope", info->scope);
    rq_body_add_text(out, &first, "topic", info->topic);
    rq_body_add_i64(out, &first, "totalQueues", info->total_queues);
    rq_buf_add_char(out, '}');
}
