/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Thresholds for cold data by request (2001, 2002, 2003), and how old data is read (2004). Loop
 * thread. */
#include "broker/cold_data.h"

#include <sys/mman.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/propfile.h"
#include "broker/broker.h"

#define GROUP_THRESHOLD  3145728 /* bytes a second, Java's defaults */
#define GLOBAL_THRESHOLD 104857600

struct threshold {
    int64_t bytes;
};

void rq_cold_data_init(struct rq_cold_data *cold)
{
    rq_mutex_init(&cold->lock);
    rq_map_init(&cold->thresholds);
}

void rq_cold_data_free(struct rq_cold_data *cold)
{
    rq_map_free(&cold->thresholds, rq_free);
    rq_mutex_destroy(&cold->lock);
}

static rmq_status put(struct rq_cold_data *cold, struct rq_slice group, int64_t bytes)
{
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&cold->lock);
    struct threshold *threshold = rq_map_get(&cold->thresholds, group);
    if (!threshold) {
        threshold = rq_alloc(sizeof *threshold);
        st = threshold ? rq_map_put(&cold->thresholds, group, threshold) : RMQ_ERR_NOMEM;
        if (st) {
            rq_free(threshold);
            threshold = NULL;
        }
    }
    if (threshold) {
        threshold->bytes = bytes;
    }
    rq_mutex_unlock(&cold->lock);
    return st;
}

/* Properties group=bytes; what is no number is passed over, as in Java. */
void rq_process_put_cold_data(const struct rq_request *request)
{
    struct rq_propfile lines;
    rmq_status st = RMQ_OK;
    rq_propfile_init(&lines, request->in->body);
    while (!st && rq_propfile_next(&lines)) {
        struct rq_slice group = rq_slice(lines.key.data, lines.key.len);
        int64_t bytes = 0;
        if (group.n && rq_slice_to_i64(rq_slice(lines.value.data, lines.value.len), &bytes)) {
            st = put(&request->broker->cold_data, group, bytes);
        }
    }
    st = st ? st : rq_propfile_status(&lines);
    rq_propfile_free(&lines);
    rq_request_answer(request, st ? RQ_RESP_SYSTEM_ERROR : RQ_RESP_SUCCESS,
                      st ? rmq_status_text(st) : NULL);
}

void rq_process_remove_cold_data(const struct rq_request *request)
{
    struct rq_cold_data *cold = &request->broker->cold_data;
    rq_mutex_lock(&cold->lock);
    rq_free(rq_map_remove(&cold->thresholds, request->in->body));
    rq_mutex_unlock(&cold->lock);
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
}

void rq_process_get_cold_data(const struct rq_request *request)
{
    struct rq_cold_data *cold = &request->broker->cold_data;
    struct rq_buf body;
    bool first = true;
    rq_buf_init(&body, 0);
    rq_buf_addf(&body, "{\"cgColdReadThreshold\":%d,\"configTable\":{", GROUP_THRESHOLD);
    rq_mutex_lock(&cold->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&cold->thresholds, &i));) {
        const struct threshold *threshold = entry->value;
        rq_json_add_member(&body, &first, entry->key);
        rq_buf_add_i64(&body, threshold->bytes);
    }
    rq_mutex_unlock(&cold->lock);
    rq_buf_addf(&body, "},\"globalAcc\":0,\"globalColdReadThreshold\":%d,\"runtimeTable\":{}}",
                GLOBAL_THRESHOLD);
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

/* Only the two modes that the Java broker takes, by their numbers in Linux. */
void rq_process_read_ahead(const struct rq_request *request)
{
    struct rq_hdr_read_ahead header;
    int32_t mode = 0;
    if (!rq_request_decode(request, &rq_tab_read_ahead, &header)) {
        return;
    }
    if (!rq_slice_to_i32(header.mode, &mode)) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR,
                          "set commitlog readahead mode param error");
    } else if (mode != MADV_NORMAL && mode != MADV_RANDOM) {
        rq_request_answer(request, RQ_RESP_INVALID_PARAMETER,
                          "set commitlog readahead mode param value error");
    } else {
        rq_store_set_read_ahead(request->broker->store, mode == MADV_NORMAL);
        rq_answer_text(request->conn, &request->to, RQ_RESP_SUCCESS,
                       "set commitlog readahead mode success, mode: %d", mode);
    }
}
