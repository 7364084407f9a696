/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Pulls of static topics (see the header). Loop thread of the connection; the answers of other
 * brokers come on the background loop. */
#include "broker/pull_static.h"

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"

struct rq_pull_static *rq_pull_static_retain(struct rq_pull_static *mapped)
{
    if (mapped) {
        atomic_fetch_add_explicit(&mapped->refs, 1, memory_order_relaxed);
    }
    return mapped;
}

void rq_pull_static_release(struct rq_pull_static *mapped)
{
    if (mapped && atomic_fetch_sub_explicit(&mapped->refs, 1, memory_order_acq_rel) == 1) {
        rq_queue_mapping_release(mapped->logical.mapping);
        rq_free(mapped);
    }
}

bool rq_pull_static_is_outdated(struct rmq_broker *broker, const struct rq_pull_static *mapped)
{
    return !rq_queue_mappings_is_current(&broker->mappings, mapped->logical.mapping);
}

/* ---- what is told ---- */

/* Nothing was found behind a queue that leads no more: the next one has what follows, when it is
 * known where that begins. */
static int32_t go_on(const struct rq_pull_static *mapped, const struct rq_mapping_item **item,
                     struct rq_pull_offsets *offsets)
{
    const struct rq_mapping_item *next = rq_mapped_item_after(mapped->logical.queue, *item);
    if (!next) {
        return RQ_RESP_PULL_NOT_FOUND;
    }
    *item = next;
    *offsets = (struct rq_pull_offsets){
        .next_begin = next->start_offset, .min = next->start_offset, .max = next->start_offset};
    return RQ_RESP_PULL_RETRY_IMMEDIATELY;
}

/* The physical queue has nothing at the offset: the code for the logical queue, and the item that
 * the offsets are of. */
static int32_t tell_nothing(const struct rq_pull_static *mapped, int64_t offset, int32_t code,
                            const struct rq_mapping_item **item, struct rq_pull_offsets *offsets)
{
    bool leads = *item == rq_mapped_leader(mapped->logical.queue);
    bool is_first = *item == rq_mapped_item_at(mapped->logical.queue, 0);
    if (offset < offsets->min) { /* its messages are gone; before a later queue there are others */
        offsets->next_begin = offsets->min;
        return is_first ? RQ_RESP_PULL_OFFSET_MOVED : RQ_RESP_PULL_RETRY_IMMEDIATELY;
    }
    if (!leads && offset >= offsets->max) {
        return go_on(mapped, item, offsets);
    }
    if (code == RQ_RESP_PULL_OFFSET_MOVED && offset > offsets->max) {
        offsets->next_begin = offsets->max;
    }
    return code;
}

int32_t rq_pull_static_tell(const struct rq_pull_static *mapped, int64_t offset, int32_t code,
                            struct rq_pull_offsets *offsets)
{
    const struct rq_mapping_item *item = mapped->item;
    if (code != RQ_RESP_SUCCESS) {
        code = tell_nothing(mapped, offset, code, &item, offsets);
    }
    if (rq_item_has_end(item) && offsets->next_begin > item->end_offset) {
        offsets->next_begin = item->end_offset;
    }
    int64_t end = rq_item_logical_end(rq_mapped_leader(mapped->logical.queue));
    int64_t max = rq_item_logical(item, offsets->max);
    offsets->next_begin = rq_item_logical(item, offsets->next_begin);
    offsets->min = rq_item_logical(item, offsets->min);
    offsets->max = max > end ? max : end;
    return code;
}

int64_t rq_pull_static_delta(const struct rq_pull_static *mapped)
{
    return mapped->item->logic_offset - mapped->item->start_offset;
}

/* ---- another broker has it ---- */

struct remote_pull {
    struct rq_remote_call remote;
    struct rq_conn *conn; /* a reference */
    struct rq_reply_to to;
    struct rq_pull_static *mapped; /* a reference */
    int64_t offset;                /* physical */
};

static void free_remote_pull(struct remote_pull *pull)
{
    rq_conn_release(pull->conn);
    rq_pull_static_release(pull->mapped);
    rq_free(pull);
}

static void release_frame(void *frame)
{
    rq_frame_ref_release(frame);
}

/* The messages stay in the frame that they came with. */
static rmq_status pass_on(const struct remote_pull *pull, int32_t code,
                          struct rq_hdr_pull_response *fields, struct rq_in *answer)
{
    struct rq_frame_spec spec = rq_answer_spec(&pull->to, code, &rq_tab_pull_response, fields);
    spec.remark = answer->header->remark;
    struct rq_out *out = rq_out_create(0);
    struct rq_frame_ref *frame = NULL;
    rmq_status st = out ? rq_frame_encode(&out->head, &spec, answer->body.n, NULL) : RMQ_ERR_NOMEM;
    if (!st && answer->body.n > 0) {
        frame = rq_in_keep(answer);
        st = frame ? rq_out_add(out, answer->body.p, answer->body.n, release_frame, frame)
                   : RMQ_ERR_NOMEM;
    }
    if (st) {
        rq_frame_ref_release(frame);
        rq_out_destroy(out);
        return st;
    }
    return rq_conn_send(pull->conn, out);
}

static bool is_answer_to_pull(int32_t code)
{
    return code == RQ_RESP_SUCCESS || code == RQ_RESP_PULL_NOT_FOUND ||
           code == RQ_RESP_PULL_RETRY_IMMEDIATELY || code == RQ_RESP_PULL_OFFSET_MOVED;
}

static void pulled(struct rq_remote_call *remote, rmq_status status, struct rq_in *answer)
{
    struct remote_pull *pull = RQ_CONTAINER_OF(remote, struct remote_pull, remote);
    struct rq_hdr_pull_response fields;
    if (status || !is_answer_to_pull(answer->header->code) ||
        rq_fields_decode(&rq_tab_pull_response, answer->header, &fields, NULL)) {
        rq_logical_failed(pull->conn, &pull->to, pull->mapped->item, status, answer);
        free_remote_pull(pull);
        return;
    }
    struct rq_pull_offsets offsets = {
        .next_begin = fields.next_begin_offset, .min = fields.min_offset, .max = fields.max_offset};
    int32_t code = rq_pull_static_tell(pull->mapped, pull->offset, answer->header->code, &offsets);
    fields.next_begin_offset = offsets.next_begin;
    fields.min_offset = offsets.min;
    fields.max_offset = offsets.max;
    fields.suggest_which_broker_id = 0; /* that is the other broker's word about itself */
    RQ_SET(pull_response, &fields, offset_delta, rq_pull_static_delta(pull->mapped));
    rmq_status st = pass_on(pull, code, &fields, answer);
    if (st == RMQ_ERR_NOMEM || st == RMQ_ERR_TOO_LARGE) {
        rq_answer_code(pull->conn, &pull->to, RQ_RESP_SYSTEM_ERROR, rmq_status_text(st));
    }
    free_remote_pull(pull);
}

/* Takes mapped. It does not wait there: what comes is stored by the leader. */
static void ask_remote(const struct rq_request *request, struct rq_hdr_pull *header,
                       struct rq_pull_static *mapped)
{
    struct remote_pull *pull = request->to.oneway ? NULL : rq_calloc(1, sizeof *pull);
    if (!pull) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, "out of memory");
        rq_pull_static_release(mapped);
        return;
    }
    header->sys_flag &= ~(RQ_PULL_SUSPEND | RQ_PULL_COMMIT_OFFSET);
    header->bname = rq_slice_str(mapped->item->broker_name);
    pull->remote.done = pulled;
    pull->conn = rq_conn_retain(request->conn);
    pull->to = request->to;
    pull->mapped = mapped;
    pull->offset = header->queue_offset;
    rq_remotes_ask(&request->broker->remotes, &pull->remote, mapped->item->broker_name,
                   rq_logical_request(RQ_REQ_PULL_MESSAGE, &rq_tab_pull, header));
}

/* ---- the request ---- */

/* A logical offset that is to be committed belongs to the physical queue that it falls into. That
 * of another broker is left to the consumer's own commits. */
static void map_commit(const struct rq_logical_queue *logical, const struct rq_mapping_item *item,
                       struct rq_hdr_pull *header)
{
    if (header->sys_flag & RQ_PULL_COMMIT_OFFSET) {
        if (rq_mapped_item_at(logical->queue, header->commit_offset) == item) {
            header->commit_offset = rq_item_physical(item, header->commit_offset);
        } else {
            header->sys_flag &= ~RQ_PULL_COMMIT_OFFSET;
        }
    }
}

/* Takes the reference of logical. NULL: it was refused. */
static struct rq_pull_static *make_static(const struct rq_request *request,
                                          struct rq_logical_queue *logical, int64_t offset)
{
    const struct rq_mapping_item *item = rq_logical_item(request, logical, offset);
    if (!item) {
        return NULL;
    }
    struct rq_pull_static *mapped = rq_calloc(1, sizeof *mapped);
    if (!mapped) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR, "%s-%d: out of memory",
                       logical->mapping->topic, logical->id);
        rq_queue_mapping_release(logical->mapping);
        return NULL;
    }
    atomic_init(&mapped->refs, 1);
    mapped->logical = *logical;
    mapped->item = item;
    return mapped;
}

bool rq_pull_map(const struct rq_request *request, struct rq_hdr_pull *header,
                 struct rq_pull_static **out)
{
    struct rq_logical_queue logical;
    *out = NULL;
    if (!rq_logical_find(request, header->topic, header->queue_id, &logical)) {
        return true;
    }
    if (!rq_logical_leads(request, &logical)) {
        return false;
    }
    struct rq_pull_static *mapped = make_static(request, &logical, header->queue_offset);
    if (!mapped) {
        return false;
    }
    const struct rq_mapping_item *item = mapped->item;
    map_commit(&logical, item, header);
    header->queue_id = item->queue_id;
    header->queue_offset = rq_item_physical(item, header->queue_offset);
    int64_t length = item->end_offset - item->start_offset;
    if (rq_item_has_end(item) && length < header->max_msg_nums) {
        header->max_msg_nums = (int32_t)length;
    }
    if (!rq_queue_mapping_has_item(logical.mapping, item)) {
        ask_remote(request, header, mapped);
        return false;
    }
    *out = mapped;
    return true;
}
