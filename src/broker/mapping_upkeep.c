/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Upkeep of mappings (see the header): rounds, questions, and what their answers change. */
#include "broker/mapping_upkeep.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/bodies.h"

#define PERIOD_MS 300000

/* A question about a topic. */
struct job {
    struct rq_list node;
    enum job_kind {
        ASK_STATS,  /* a broker: which of its queues are empty */
        ASK_ROUTE,  /* a name server: who leads the queues that this broker has handed on */
        ASK_MAPPING /* a broker that leads some of them: the mapping as it has it */
    } kind;
    char *topic;
    char *broker_name; /* NULL: a name server */
};

static void free_job(struct job *job)
{
    rq_free(job->topic);
    rq_free(job->broker_name);
    rq_free(job);
}

static bool is_job(const struct job *job, enum job_kind kind, const char *topic,
                   const char *broker_name)
{
    return job->kind == kind && strcmp(job->topic, topic) == 0 &&
           (!broker_name || strcmp(job->broker_name, broker_name) == 0);
}

/* Once; without memory it waits for the next round. */
static void add_job(struct rq_mapping_upkeep *upkeep, enum job_kind kind, const char *topic,
                    const char *broker_name)
{
    RQ_LIST_FOREACH_SAFE(node, following, &upkeep->jobs)
    {
        if (is_job(RQ_CONTAINER_OF(node, struct job, node), kind, topic, broker_name)) {
            return;
        }
    }
    struct job *job = rq_calloc(1, sizeof *job);
    if (!job) {
        return;
    }
    job->kind = kind;
    job->topic = rq_strdup(topic);
    job->broker_name = broker_name ? rq_strdup(broker_name) : NULL;
    if (!job->topic || (broker_name && !job->broker_name)) {
        free_job(job);
        return;
    }
    rq_list_add_tail(&upkeep->jobs, &job->node);
}

/* ---- changes ---- */

/* How many of a queue's first items are to go; SIZE_MAX: the whole queue. */
typedef size_t (*judge)(const struct rq_queue_mapping *mapping, const struct rq_mapped_queue *queue,
                        const void *by);

/* Puts a mapping without what is to go in the place of the old one. */
static void change(struct rq_mapping_upkeep *upkeep, const struct rq_queue_mapping *old, judge skip,
                   const void *by)
{
    struct rq_queue_mapping *next = rq_queue_mapping_like(old);
    size_t gone = 0;
    rmq_status st = next ? RMQ_OK : RMQ_ERR_NOMEM;
    for (size_t i = 0; !st && i < old->count; i++) {
        size_t n = skip(old, &old->queues[i], by);
        gone += n > 0;
        st = n == SIZE_MAX ? RMQ_OK : rq_queue_mapping_add(next, &old->queues[i], n);
    }
    if (!st && gone > 0 && rq_queue_mappings_replace(&upkeep->broker->mappings, old, next)) {
        RQ_LOG(INFO, "what is no more was taken out of the mapping of a static topic",
               "topic=%s queues=%zu", old->topic, gone);
        rq_broker_persist_soon(upkeep->broker);
        return;
    }
    rq_queue_mapping_release(next);
}

/* A led queue whose first item is not its last. */
static bool has_past(const struct rq_queue_mapping *mapping, const struct rq_mapped_queue *queue)
{
    return queue->count > 1 && rq_queue_mapping_leads(mapping, queue);
}

/* by: the statistics of one broker's queues of the topic. */
static size_t skip_empty(const struct rq_queue_mapping *mapping,
                         const struct rq_mapped_queue *queue, const void *by)
{
    const struct rq_queue_table *stats = by;
    const struct rq_mapping_item *first = &queue->items[0];
    for (size_t i = 0; has_past(mapping, queue) && i < stats->count; i++) {
        const struct rq_queue_stat *row = &stats->rows[i];
        if (row->mq.queue_id == first->queue_id && row->mq.broker_name &&
            strcmp(row->mq.broker_name, first->broker_name) == 0) {
            return row->max_offset == row->min_offset || row->max_offset == 0;
        }
    }
    return 0;
}

/* by: the mapping as another broker has it. What that broker leads by now, and got from the one
 * that it was handed to, is no more of use here. */
static size_t skip_handed_on(const struct rq_queue_mapping *mapping,
                             const struct rq_mapped_queue *queue, const void *by)
{
    const struct rq_queue_mapping *remote = by;
    const struct rq_mapped_queue *there = rq_queue_mapping_find(remote, queue->id);
    bool same_state =
        remote->total_queues == mapping->total_queues && remote->epoch == mapping->epoch;
    bool is_gone = same_state && !rq_queue_mapping_leads(mapping, queue) &&
                   rq_queue_mapping_leads(remote, there) &&
                   !rq_queue_mapping_has_item(remote, rq_mapped_leader(queue));
    return is_gone ? SIZE_MAX : 0;
}

/* ---- answers ---- */

static void take_stats(struct rq_mapping_upkeep *upkeep, const struct rq_queue_mapping *mapping,
                       const struct rq_in *answer)
{
    struct rq_queue_table stats;
    if (rq_queue_table_parse(answer->body, RQ_QUEUE_TABLE_TOPIC_STATS, &stats, NULL) == RMQ_OK) {
        change(upkeep, mapping, skip_empty, &stats);
        rq_queue_table_clear(&stats);
    }
}

/* Asks whoever the route says leads a queue that this broker does not lead any more. */
static void take_route(struct rq_mapping_upkeep *upkeep, const struct rq_queue_mapping *mapping,
                       const struct rq_in *answer)
{
    cJSON *json = NULL;
    const cJSON *item;
    (void)rq_json_parse(answer->body, &json, NULL);
    cJSON_ArrayForEach(item, rq_json_get(json, "topicQueueMappingByBroker"))
    {
        struct rq_queue_mapping_info info;
        bool known = rq_queue_mapping_info_parse(item, &info, NULL) == RMQ_OK;
        for (size_t i = 0; known && i < info.id_count; i++) {
            const struct rq_mapped_queue *queue =
                rq_queue_mapping_find(mapping, info.ids[i].logical);
            if (queue && !rq_queue_mapping_leads(mapping, queue)) {
                add_job(upkeep, ASK_MAPPING, mapping->topic, info.broker_name);
                break;
            }
        }
        rq_queue_mapping_info_clear(&info);
    }
    rq_json_free(json);
}

static void take_mapping(struct rq_mapping_upkeep *upkeep, const struct rq_queue_mapping *mapping,
                         const struct rq_in *answer)
{
    cJSON *json = NULL;
    struct rq_queue_mapping *remote = NULL;
    (void)rq_json_parse(answer->body, &json, NULL);
    if (rq_queue_mapping_parse(rq_json_get(json, "mappingDetail"), &remote, NULL) == RMQ_OK) {
        change(upkeep, mapping, skip_handed_on, remote);
        rq_queue_mapping_release(remote);
    }
    rq_json_free(json);
}

static void take(struct rq_mapping_upkeep *upkeep, const struct job *job,
                 const struct rq_in *answer)
{
    struct rq_queue_mapping *mapping =
        rq_queue_mappings_get(&upkeep->broker->mappings, rq_slice_str(job->topic));
    if (mapping) {
        switch (job->kind) {
        case ASK_STATS:
            take_stats(upkeep, mapping, answer);
            break;
        case ASK_ROUTE:
            take_route(upkeep, mapping, answer);
            break;
        case ASK_MAPPING:
            take_mapping(upkeep, mapping, answer);
            break;
        }
    }
    rq_queue_mapping_release(mapping);
}

/* ---- questions ---- */

static void answered(struct rq_remote_call *call, rmq_status status, struct rq_in *answer)
{
    struct rq_mapping_upkeep *upkeep = RQ_CONTAINER_OF(call, struct rq_mapping_upkeep, call);
    struct job *job = RQ_CONTAINER_OF(rq_list_pop(&upkeep->jobs), struct job, node);
    bool ok = status == RMQ_OK && answer->header->code == RQ_RESP_SUCCESS;
    if (!ok && !upkeep->stopped) {
        RQ_LOG(WARN, "upkeep of a static topic's mapping got no answer",
               "topic=%s broker=%s why=%s", job->topic,
               job->broker_name ? job->broker_name : "(name server)",
               status ? rmq_status_text(status) : "refused");
    } else if (ok) {
        take(upkeep, job, answer);
    }
    free_job(job);
    (void)rq_loop_post(upkeep->loop, &upkeep->next);
}

static struct rq_out *make_request(const struct job *job)
{
    struct rq_hdr_topic header = {.topic = rq_slice_str(job->topic),
                                  .bname = rq_slice_str(job->broker_name)};
    int32_t code = job->kind == ASK_ROUTE   ? RQ_REQ_GET_ROUTEINFO_BY_TOPIC
                   : job->kind == ASK_STATS ? RQ_REQ_GET_TOPIC_STATS_INFO
                                            : RQ_REQ_GET_TOPIC_CONFIG;
    if (job->kind == ASK_ROUTE) {
        RQ_SET(topic, &header, accept_standard_json_only, true);
    } else {
        RQ_SET(topic, &header, lo, job->kind == ASK_MAPPING);
    }
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, code, &rq_tab_topic, &header);
    return rq_out_make(&spec, rq_slice(NULL, 0));
}

static void drop_jobs(struct rq_mapping_upkeep *upkeep)
{
    struct rq_list *node;
    while ((node = rq_list_pop(&upkeep->jobs))) {
        free_job(RQ_CONTAINER_OF(node, struct job, node));
    }
}

static void do_next(struct rq_task *task)
{
    struct rq_mapping_upkeep *upkeep = RQ_CONTAINER_OF(task, struct rq_mapping_upkeep, next);
    if (upkeep->stopped) {
        drop_jobs(upkeep);
    }
    if (rq_list_empty(&upkeep->jobs)) {
        return;
    }
    const struct job *job = RQ_CONTAINER_OF(upkeep->jobs.next, struct job, node);
    upkeep->call.done = answered;
    if (job->kind == ASK_ROUTE) {
        rq_remotes_ask_namesrv(&upkeep->broker->remotes, &upkeep->call, make_request(job));
    } else {
        rq_remotes_ask(&upkeep->broker->remotes, &upkeep->call, job->broker_name,
                       make_request(job));
    }
}

/* ---- rounds ---- */

static void add_jobs_of(struct rq_mapping_upkeep *upkeep, struct rq_slice topic)
{
    struct rq_queue_mapping *mapping = rq_queue_mappings_get(&upkeep->broker->mappings, topic);
    for (size_t i = 0; mapping && i < mapping->count; i++) {
        const struct rq_mapped_queue *queue = &mapping->queues[i];
        if (has_past(mapping, queue)) {
            add_job(upkeep, ASK_STATS, mapping->topic, queue->items[0].broker_name);
        } else if (!rq_queue_mapping_leads(mapping, queue)) {
            add_job(upkeep, ASK_ROUTE, mapping->topic, NULL);
        }
    }
    rq_queue_mapping_release(mapping);
}

static void begin_round(struct rq_mapping_upkeep *upkeep)
{
    struct rq_buf names;
    if (upkeep->stopped || !rq_list_empty(&upkeep->jobs)) {
        return;
    }
    rq_buf_init(&names, 0);
    rq_queue_mappings_names(&upkeep->broker->mappings, &names);
    for (size_t at = 0; rq_buf_status(&names) == RMQ_OK && at < names.len;) {
        struct rq_slice name = rq_slice_str(names.data + at);
        add_jobs_of(upkeep, name);
        at += name.n + 1;
    }
    rq_buf_free(&names);
    if (!rq_list_empty(&upkeep->jobs)) {
        (void)rq_loop_post(upkeep->loop, &upkeep->next);
    }
}

static void round_posted(struct rq_task *task)
{
    begin_round(RQ_CONTAINER_OF(task, struct rq_mapping_upkeep, round));
}

static void period_over(struct rq_timer *timer)
{
    struct rq_mapping_upkeep *upkeep = RQ_CONTAINER_OF(timer, struct rq_mapping_upkeep, timer);
    if (rq_store_is_cleaning_hour(upkeep->broker->store, rq_wall_ms())) {
        begin_round(upkeep);
    }
    rq_timer_start(upkeep->loop, &upkeep->timer, PERIOD_MS);
}

void rq_mapping_upkeep_init(struct rq_mapping_upkeep *upkeep, struct rmq_broker *broker,
                            struct rq_loop *background)
{
    memset(upkeep, 0, sizeof *upkeep);
    upkeep->broker = broker;
    upkeep->loop = background;
    rq_loop_retain(background);
    upkeep->round.run = round_posted;
    upkeep->next.run = do_next;
    rq_list_init(&upkeep->jobs);
    rq_timer_init(&upkeep->timer, period_over);
}

static void start_timer(void *arg)
{
    struct rq_mapping_upkeep *upkeep = arg;
    rq_timer_start(upkeep->loop, &upkeep->timer, PERIOD_MS);
}

void rq_mapping_upkeep_start(struct rq_mapping_upkeep *upkeep)
{
    (void)rq_loop_run(upkeep->loop, start_timer, upkeep);
}

void rq_mapping_upkeep_run(struct rq_mapping_upkeep *upkeep)
{
    (void)rq_loop_post(upkeep->loop, &upkeep->round);
}

static void stop(void *arg)
{
    struct rq_mapping_upkeep *upkeep = arg;
    upkeep->stopped = true;
    rq_timer_stop(&upkeep->timer);
}

void rq_mapping_upkeep_stop(struct rq_mapping_upkeep *upkeep)
{
    if (upkeep->loop) {
        (void)rq_loop_run(upkeep->loop, stop, upkeep);
    }
}

/* What was posted has run when this runs. */
static void drop(void *arg)
{
    drop_jobs(arg);
}

void rq_mapping_upkeep_free(struct rq_mapping_upkeep *upkeep)
{
    if (upkeep->loop) {
        (void)rq_loop_run(upkeep->loop, drop, upkeep);
        rq_loop_put(upkeep->loop);
    }
}
