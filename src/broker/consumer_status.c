/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * How far each consumer of a group is (223): every member is asked (221), the answers are put
 * together, and the last one to come ends it. Loop thread of the administrator and those of the
 * consumers. Counterpart: Broker2Client.getConsumeStatus.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "base/json.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"

#define ANSWER_WAIT_MS 5000

struct gathering {
    struct rq_conn *asker; /* a reference */
    struct rq_reply_to to;
    _Atomic int open;     /* atomic: acq_rel; calls without an answer, and one for who asks */
    struct rq_mutex lock; /* rank: connection; guards all below */
    struct rq_buf body;
    bool first;
    char problem[256]; /* of the last one that failed; "" */
};

struct question {
    struct rq_call call;
    struct gathering *gathering;
    char *client_id;
};

/* Answers and frees with the last one. */
static void done(struct gathering *gathering)
{
    if (atomic_fetch_sub_explicit(&gathering->open, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (gathering->first && gathering->problem[0]) {
        rq_answer_code(gathering->asker, &gathering->to, RQ_RESP_SYSTEM_ERROR, gathering->problem);
        rq_buf_free(&gathering->body);
    } else {
        rq_buf_add_str(&gathering->body, "},\"messageQueueTable\":{}}");
        rq_answer_body(gathering->asker, &gathering->to, NULL, NULL, &gathering->body);
    }
    rq_conn_release(gathering->asker);
    rq_mutex_destroy(&gathering->lock);
    rq_free(gathering);
}

static void note_problem(struct gathering *gathering, const char *client_id, const char *what)
{
    rq_mutex_lock(&gathering->lock);
    (void)snprintf(gathering->problem, sizeof gathering->problem, "client %s: %s", client_id, what);
    rq_mutex_unlock(&gathering->lock);
}

/* A table by message queues, whose keys the reader has made text of, as the JSON of Java again. */
static void add_offsets(struct gathering *gathering, const char *client_id, const cJSON *table)
{
    bool first = true;
    const cJSON *item;
    rq_mutex_lock(&gathering->lock);
    rq_json_add_member(&gathering->body, &gathering->first, client_id);
    rq_buf_add_char(&gathering->body, '{');
    cJSON_ArrayForEach(item, table)
    {
        int64_t offset = 0;
        if (rq_json_value_i64(item, &offset)) {
            rq_buf_addf(&gathering->body, "%s%s:%lld", first ? "" : ",", item->string,
                        (long long)offset);
            first = false;
        }
    }
    rq_buf_add_char(&gathering->body, '}');
    rq_mutex_unlock(&gathering->lock);
}

static void answered(struct rq_call *call, rmq_status status, struct rq_in *answer)
{
    struct question *question = RQ_CONTAINER_OF(call, struct question, call);
    struct gathering *gathering = question->gathering;
    cJSON *json = NULL;
    if (status || answer->header->code != RQ_RESP_SUCCESS) {
        note_problem(gathering, question->client_id,
                     status ? rmq_status_text(status) : "it answered with an error");
    } else if (rq_json_parse(answer->body, &json, NULL)) {
        note_problem(gathering, question->client_id, "its answer cannot be read");
    } else {
        add_offsets(gathering, question->client_id, rq_json_get(json, "messageQueueTable"));
    }
    rq_json_free(json);
    rq_free(question->client_id);
    rq_free(question);
    done(gathering);
}

static struct rq_out *make_request(const struct rq_hdr_consumer_status *header)
{
    struct rq_frame_spec spec = rq_frame_request(
        RQ_SERIALIZE_JSON, RQ_REQ_GET_CONSUMER_STATUS_FROM_CLIENT, &rq_tab_consumer_status, header);
    return rq_out_make(&spec, rq_slice(NULL, 0));
}

static void ask(struct gathering *gathering, const struct rq_hdr_consumer_status *header,
                struct rq_conn *conn, const char *client_id)
{
    struct question *question = rq_calloc(1, sizeof *question);
    char *id = rq_strdup(client_id);
    struct rq_out *out = make_request(header);
    rmq_status st = RMQ_ERR_NOMEM;
    atomic_fetch_add_explicit(&gathering->open, 1, memory_order_acq_rel);
    if (question && id && out) {
        *question =
            (struct question){.call.done = answered, .gathering = gathering, .client_id = id};
        st = rq_call_start(conn, &question->call, out, rq_deadline_ms(ANSWER_WAIT_MS));
        out = NULL;
    }
    if (st) {
        rq_out_destroy(out);
        rq_free(id);
        rq_free(question);
        note_problem(gathering, client_id, rmq_status_text(st));
        done(gathering);
    }
}

static struct gathering *begin(const struct rq_request *request)
{
    struct gathering *gathering = rq_calloc(1, sizeof *gathering);
    if (gathering) {
        gathering->asker = rq_conn_retain(request->conn);
        gathering->to = request->to;
        gathering->first = true;
        atomic_init(&gathering->open, 1);
        rq_mutex_init(&gathering->lock);
        rq_buf_init(&gathering->body, 0);
        rq_buf_add_str(&gathering->body, "{\"consumerTable\":{");
    }
    return gathering;
}

void rq_process_consumer_status(const struct rq_request *request)
{
    struct rq_hdr_consumer_status header;
    if (!rq_request_decode(request, &rq_tab_consumer_status, &header)) {
        return;
    }
    size_t count = 0;
    struct rq_buf ids;
    rq_buf_init(&ids, 0);
    struct rq_conn **conns =
        rq_clients_conns_and_ids(&request->broker->clients, header.group, &count, &ids);
    struct gathering *gathering = count ? begin(request) : NULL;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const char *id = rq_buf_status(&ids) ? "" : ids.data + at;
        if (gathering && (!header.client_addr.n || rq_slice_eq_str(header.client_addr, id))) {
            ask(gathering, &header, conns[i], id);
        }
        at += strlen(id) + 1;
        rq_conn_release(conns[i]);
    }
    rq_free(conns);
    rq_buf_free(&ids);
    if (gathering) {
        done(gathering);
    } else if (count) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, "out of memory");
    } else {
        rq_answer_text(request->conn, &request->to, RQ_RESP_CONSUMER_NOT_ONLINE,
                       "No Any Consumer online in the consumer group: [%.*s]",
                       RQ_TEXT(header.group));
    }
}
