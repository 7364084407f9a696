/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Life of client instances, their members, and requests both ways (see instance.h). The registry of instances by client id is the process's; one that
 * was inherited through fork is left behind. Counterparts: MQClientManager, MQClientInstance, ClientRemotingProcessor.
 */
#include "client/instance.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "client/fork_mark.h"
#include "client/instance_priv.h"
#include "client/local_addr.h"
#include "client/options.h"
#include "wire/message.h"
#include "wire/properties.h"

#define MAX_QUEUED_DEFAULT ((size_t)256 << 20)
#define ADDRESS_POLLS      4 /* an address server is asked every fourth route interval: two minutes */

/* ---- registry ---- */

struct registry {
    uint64_t mark;
    struct rq_mutex lock;    /* rank 20 */
    struct rq_map instances; /* guarded by lock: client id → rq_instance */
};

static _Atomic(struct registry *) current_registry;

static struct registry *find_registry(void)
{
    struct registry *registry = atomic_load_explicit(&current_registry, memory_order_acquire);
    if (registry && !rq_forked_since(registry->mark)) {
        return registry;
    }
    struct registry *made = rq_calloc(1, sizeof *made);
    if (!made) {
        return NULL;
    }
    made->mark = rq_fork_mark();
    rq_mutex_init(&made->lock);
    rq_map_init(&made->instances);
    if (!atomic_compare_exchange_strong_explicit(&current_registry, &registry, made,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        rq_mutex_destroy(&made->lock);
        rq_free(made);
        return registry;
    }
    return made;
}

/* ---- name servers ---- */

/* What the program gave, and the addresses that it means. */
struct addresses {
    const char *given;
    const char *list;
};

/* ---- client id ---- */

static const char *namesrv_of(const struct rq_instance_options *options)
{
    if (options->namesrv_addr && *options->namesrv_addr) {
        return options->namesrv_addr;
    }
    const char *env = getenv("NAMESRV_ADDR");
    return env && *env ? env : NULL;
}

/* The part after '@': what was given, or for DEFAULT pid and a number that no other handle of the process has. */
static void write_instance_name(const struct rq_instance_options *options, struct rq_buf *out)
{
    static atomic_uint_fast32_t serial;
    const char *name =
        options->instance_name && *options->instance_name ? options->instance_name : "DEFAULT";
    if (strcmp(name, "DEFAULT") != 0 || options->keep_default_name) {
        rq_buf_add_str(out, name);
        return;
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t nanos = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    rq_buf_addf(
        out, "%d#%llu", (int)getpid(),
        (unsigned long long)(nanos + atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed)));
}

static void write_client_id(const struct rq_instance_options *options, const char *namesrv,
                            struct rq_buf *out)
{
    char first[256] = "";
    size_t n = strcspn(namesrv, " \t;,");
    (void)snprintf(first, sizeof first, "%.*s", (int)(n < sizeof first ? n : sizeof first - 1),
                   namesrv);
    if (options->client_ip && *options->client_ip) {
        rq_buf_add_str(out, options->client_ip);
    } else {
        char addr[RQ_ADDR_TEXT];
        rq_local_addr_text(first, addr);
        rq_buf_add_str(out, addr);
    }
    rq_buf_add_char(out, '@');
    write_instance_name(options, out);
    if (options->unit_name && *options->unit_name) {
        rq_buf_add_char(out, '@');
        rq_buf_add_str(out, options->unit_name);
    }
}

/* ---- requests of brokers ---- */

static struct rq_member *find_member(struct rq_instance *instance, struct rq_slice group,
                                     bool consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &instance->members)
    {
        struct rq_member *member = RQ_CONTAINER_OF(node, struct rq_member, node);
        if (member->is_consumer == consumer && rq_slice_eq_str(group, member->group)) {
            return member;
        }
    }
    return NULL;
}

static void refuse(struct rq_instance *instance, struct rq_peer *peer,
                   const struct rq_header *header)
{
    char remark[64];
    (void)snprintf(remark, sizeof remark, " request type %d not supported", header->code);
    rq_instance_answer(instance, peer, header->opaque, header->flag,
                       RQ_RESP_REQUEST_CODE_NOT_SUPPORTED, remark, rq_slice(NULL, 0));
}

static void ids_changed(struct rq_instance *instance, const struct rq_header *header)
{
    struct rq_member *member = find_member(instance, rq_header_ext(header, "consumerGroup"), true);
    if (member && member->ops->ids_changed) {
        member->ops->ids_changed(member);
    }
}

/* 220 and 221 name the group "group", 307 and 309 "consumerGroup". */
static bool member_request(struct rq_instance *instance, struct rq_peer *peer, struct rq_in *in)
{
    const struct rq_header *header = in->header;
    struct rq_slice group = rq_header_ext(header, "consumerGroup");
    if (!group.p) {
        group = rq_header_ext(header, "group");
    }
    struct rq_member *member = find_member(instance, group, true);
    return member && member->ops->request && member->ops->request(member, peer, header, in);
}

/* The group is a property of the half message in the body. */
static void check_transaction(struct rq_instance *instance, struct rq_peer *peer, struct rq_in *in)
{
    struct rq_cursor cursor = rq_cursor(in->body.p, in->body.n);
    struct rq_msg msg;
    if (rq_msg_decode(&cursor, &msg, NULL) != RMQ_OK) {
        RQ_LOG(WARN, "a question about a transaction cannot be read", "broker=%s",
               rq_peer_address(peer));
        return;
    }
    struct rq_member *member =
        find_member(instance, rq_props_get(msg.properties, RQ_PROP_PGROUP), false);
    if (member && member->ops->request) {
        (void)member->ops->request(member, peer, in->header, in);
    }
}

/* A reply is for the producer that has the request; one that came too late is dropped, and still answered well, as there. */
static void take_reply(struct rq_instance *instance, struct rq_peer *peer, struct rq_in *in)
{
    bool taken = false;
    RQ_LIST_FOREACH_SAFE(node, next, &instance->members)
    {
        struct rq_member *member = RQ_CONTAINER_OF(node, struct rq_member, node);
        taken = taken || (!member->is_consumer && member->ops->request &&
                          member->ops->request(member, peer, in->header, in));
    }
    if (!taken) {
        RQ_LOG(INFO, "a reply is for no request that waits", "broker=%s", rq_peer_address(peer));
    }
    rq_instance_answer(instance, peer, in->header->opaque, in->header->flag, RQ_RESP_SUCCESS, NULL,
                       rq_slice(NULL, 0));
}

static void on_request(void *user, struct rq_peer *peer, struct rq_in *in)
{
    struct rq_instance *instance = user;
    switch (in->header->code) {
    case RQ_REQ_NOTIFY_CONSUMER_IDS_CHANGED:
        ids_changed(instance, in->header);
        break;
    case RQ_REQ_PUSH_REPLY_MESSAGE_TO_CLIENT:
        take_reply(instance, peer, in);
        break;
    case RQ_REQ_CHECK_TRANSACTION_STATE:
        check_transaction(instance, peer, in);
        break;
    case RQ_REQ_RESET_CONSUMER_CLIENT_OFFSET:
    case RQ_REQ_GET_CONSUMER_STATUS_FROM_CLIENT:
    case RQ_REQ_GET_CONSUMER_RUNNING_INFO:
    case RQ_REQ_CONSUME_MESSAGE_DIRECTLY:
        if (!member_request(instance, peer, in)) {
            refuse(instance, peer, in->header);
        }
        break;
    default:
        refuse(instance, peer, in->header);
        break;
    }
}

static void on_connected(void *user, struct rq_peer *peer)
{
    rq_brokers_connected(user, peer);
}

/* ---- life ---- */

static void free_instance(struct rq_instance *instance)
{
    rq_instance_topics_free(instance);
    rq_brokers_free(instance);
    rq_namesrv_destroy(instance->namesrv);
    rq_loop_put(instance->loop);
    rq_mutex_destroy(&instance->route_lock);
    rq_free(instance->client_id);
    rq_free(instance);
}

static rmq_status connect_parts(struct rq_instance *instance,
                                const struct rq_instance_options *wanted,
                                const struct addresses *namesrv, rmq_error **err)
{
    rmq_status st = rq_loop_shared_get(&instance->loop, err);
    if (st != RMQ_OK) {
        return st;
    }
    const struct rq_peers_options options = {
        .on_request = on_request,
        .on_connected = on_connected,
        .user = instance,
        .max_async = INT32_MAX,
        .max_queued = wanted->max_queued_bytes ? wanted->max_queued_bytes : MAX_QUEUED_DEFAULT};
    st = rq_peers_create(instance->loop, &options, &instance->peers, err);
    if (st != RMQ_OK) {
        return st;
    }
    return rq_namesrv_create(instance->loop, instance->peers, namesrv->given, namesrv->list,
                             &instance->namesrv, err);
}

static void start_on_loop(void *arg)
{
    struct rq_instance *instance = arg;
    rq_namesrv_start(instance->namesrv, instance->poll_interval_ms * ADDRESS_POLLS);
    rq_topics_start(instance);
    rq_brokers_start(instance);
}

static rmq_status make_instance(const struct rq_instance_options *options,
                                const struct addresses *namesrv, const char *client_id,
                                struct rq_instance **out, rmq_error **err)
{
    struct rq_instance *instance = rq_calloc(1, sizeof *instance);
    if (!instance) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "client %s", client_id);
    }
    bool binary = false;
    (void)rq_option_serialize(options->serialize_type, &binary);
    instance->serialize = binary ? RQ_SERIALIZE_BINARY : RQ_SERIALIZE_JSON;
    instance->vip = options->vip_channel;
    instance->poll_interval_ms = options->poll_name_server_interval_ms;
    instance->heartbeat_interval_ms = options->heartbeat_broker_interval_ms;
    rq_mutex_init(&instance->route_lock);
    rq_map_init(&instance->topics);
    rq_map_init(&instance->brokers);
    rq_map_init(&instance->healths);
    rq_list_init(&instance->members);
    instance->client_id = rq_strdup(client_id);
    rmq_status st = instance->client_id ? connect_parts(instance, options, namesrv, err)
                                        : rq_error_set(err, RMQ_ERR_NOMEM, "client %s", client_id);
    if (st == RMQ_OK && !rq_loop_run(instance->loop, start_on_loop, instance)) {
        st = rq_error_set(err, RMQ_ERR_FORKED, "client %s", client_id);
    }
    if (st != RMQ_OK) {
        rq_peers_destroy(instance->peers);
        free_instance(instance);
        return st;
    }
    *out = instance;
    return RMQ_OK;
}

static rmq_status get_by_id(const struct rq_instance_options *options,
                            const struct addresses *namesrv, const char *client_id,
                            struct rq_instance **out, rmq_error **err)
{
    struct registry *registry = find_registry();
    if (!registry) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "client %s", client_id);
    }
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&registry->lock);
    struct rq_instance *instance = rq_map_get(&registry->instances, rq_slice_str(client_id));
    if (!instance) {
        st = make_instance(options, namesrv, client_id, &instance, err);
        if (st == RMQ_OK) {
            st = rq_map_put(&registry->instances, rq_slice_str(client_id), instance);
            if (st != RMQ_OK) {
                rq_peers_destroy(instance->peers);
                free_instance(instance);
                rq_error_set(err, st, "client %s", client_id);
            }
        }
    }
    if (st == RMQ_OK) {
        instance->users++;
        *out = instance;
    }
    rq_mutex_unlock(&registry->lock);
    return st;
}

static rmq_status get_for(const struct rq_instance_options *options,
                          const struct addresses *namesrv, struct rq_instance **out,
                          rmq_error **err)
{
    struct rq_buf id;
    rq_buf_init(&id, 4096);
    write_client_id(options, namesrv->list, &id);
    rmq_status st = rq_buf_status(&id);
    const char *client_id = rq_buf_cstr(&id);
    st = st == RMQ_OK ? get_by_id(options, namesrv, client_id, out, err)
                      : rq_error_set(err, st, "client id: %s", rmq_status_text(st));
    rq_buf_free(&id);
    return st;
}

rmq_status rq_instance_get(const struct rq_instance_options *options, struct rq_instance **out,
                           rmq_error **err)
{
    const char *namesrv = namesrv_of(options);
    if (!namesrv) {
        return rq_error_set(
            err, RMQ_ERR_NO_NAMESRV,
            "no name server: set namesrvAddr or the environment variable NAMESRV_ADDR");
    }
    struct rq_buf given, list;
    rq_buf_init(&given, 0);
    rq_buf_init(&list, 0);
    rq_buf_add_str(&given, namesrv);
    rmq_status st = RMQ_OK;
    if (rq_namesrv_is_url(namesrv)) {
        if (options->unit_name && *options->unit_name) { /* each unit has a list of its own */
            rq_buf_addf(&given, "-%s?nofix=1", options->unit_name);
        }
        st = rq_namesrv_look_up(rq_buf_cstr(&given), &list, err);
    } else {
        rq_buf_add_str(&list, namesrv);
    }
    if (st == RMQ_OK) {
        const struct addresses addresses = {rq_buf_cstr(&given), rq_buf_cstr(&list)};
        st = get_for(options, &addresses, out, err);
    }
    rq_buf_free(&given);
    rq_buf_free(&list);
    return st;
}

void rq_instance_retain(struct rq_instance *instance)
{
    struct registry *registry = find_registry();
    rq_mutex_lock(&registry->lock);
    instance->users++;
    rq_mutex_unlock(&registry->lock);
}

static void stop_on_loop(void *arg)
{
    struct rq_instance *instance = arg;
    instance->closing = true;
    rq_namesrv_stop(instance->namesrv);
    rq_topics_stop(instance);
    rq_brokers_stop(instance);
}

static void nothing(void *arg)
{
    (void)arg;
}

void rq_instance_put(struct rq_instance *instance)
{
    if (!instance || rq_instance_forked(instance)) {
        return; /* the child leaves the parent's instance alone */
    }
    struct registry *registry = find_registry();
    rq_mutex_lock(&registry->lock);
    bool last = --instance->users == 0;
    if (last) {
        (void)rq_map_remove(&registry->instances, rq_slice_str(instance->client_id));
    }
    rq_mutex_unlock(&registry->lock);
    if (!last) {
        return;
    }
    (void)rq_loop_run(instance->loop, stop_on_loop, instance);
    rq_peers_destroy(instance->peers);
    /* What was posted to the loop before finds the instance closing; wait until it has. */
    (void)rq_loop_run(instance->loop, nothing, NULL);
    free_instance(instance);
}

const char *rq_instance_client_id(const struct rq_instance *instance)
{
    return instance->client_id;
}

struct rq_loop *rq_instance_loop(struct rq_instance *instance)
{
    return instance->loop;
}

struct rq_peers *rq_instance_peers(struct rq_instance *instance)
{
    return instance->peers;
}

struct rq_namesrv *rq_instance_namesrv(struct rq_instance *instance)
{
    return instance->namesrv;
}

bool rq_instance_forked(const struct rq_instance *instance)
{
    return rq_loop_forked(instance->loop);
}

enum rq_serialize rq_instance_serialize(const struct rq_instance *instance)
{
    return instance->serialize;
}

rmq_status rq_instance_run(struct rq_instance *instance, void (*fn)(void *arg), void *arg)
{
    return rq_loop_run(instance->loop, fn, arg) ? RMQ_OK : RMQ_ERR_FORKED;
}

void rq_instance_suspect(struct rq_instance *instance, const char *topic)
{
    rq_brokers_probe(instance);
    rq_topics_refresh_soon(instance, topic);
}

/* ---- members ---- */

rmq_status rq_instance_add(struct rq_instance *instance, struct rq_member *member, rmq_error **err)
{
    if (find_member(instance, rq_slice_str(member->group), member->is_consumer)) {
        return rq_error_set(err, RMQ_ERR_EXISTS, "client %s has a %s of group %s already",
                            instance->client_id, member->is_consumer ? "consumer" : "producer",
                            member->group);
    }
    rq_list_add_tail(&instance->members, &member->node);
    rq_instance_heartbeat(instance);
    return RMQ_OK;
}

/* Unregistering: one request per broker address. */
struct leave {
    size_t pending;
    void (*done)(void *user);
    void *user;
    struct rq_task task;
    struct leave_call {
        struct rq_request request;
        struct leave *leave;
    } calls[];
};

static void leave_ended(struct leave *leave)
{
    if (leave->done) {
        leave->done(leave->user);
    }
    rq_free(leave);
}

static void leave_answered(struct rq_request *request, rmq_status status, struct rq_in *answer)
{
    struct leave *leave = RQ_CONTAINER_OF(request, struct leave_call, request)->leave;
    (void)status;
    (void)answer;
    if (--leave->pending == 0) {
        leave_ended(leave);
    }
}

static void leave_at_once(struct rq_task *task)
{
    leave_ended(RQ_CONTAINER_OF(task, struct leave, task));
}

static size_t count_connected(struct rq_instance *instance, struct rq_peer **peers)
{
    size_t count = 0;
    size_t i = 0;
    struct rq_map_entry *item;
    while ((item = rq_map_next(&instance->brokers, &i))) {
        struct rq_broker_entry *entry = item->value;
        for (size_t k = 0; k < entry->addr_count; k++) {
            struct rq_peer *peer = entry->addrs[k].peer;
            if (peer && rq_peer_connected(peer)) {
                if (peers) {
                    peers[count] = peer;
                }
                count++;
            }
        }
    }
    return count;
}

static void send_leave(struct rq_instance *instance, const struct rq_member *member,
                       struct leave *leave, struct rq_peer **peers, size_t count,
                       int64_t timeout_ms)
{
    struct rq_hdr_unregister_client fields = {.client_id = rq_slice_str(instance->client_id)};
    if (member->is_consumer) {
        fields.consumer_group = rq_slice_str(member->group);
    } else {
        fields.producer_group = rq_slice_str(member->group);
    }
    leave->pending = count;
    for (size_t i = 0; i < count; i++) {
        leave->calls[i].leave = leave;
        leave->calls[i].request.done = leave_answered;
        rq_instance_request(instance, peers[i], &leave->calls[i].request, RQ_REQ_UNREGISTER_CLIENT,
                            &rq_tab_unregister_client, &fields, rq_slice(NULL, 0), timeout_ms);
    }
}

void rq_instance_remove(struct rq_instance *instance, struct rq_member *member, int64_t timeout_ms,
                        void (*done)(void *user), void *user)
{
    rq_list_remove(&member->node);
    /* A broker that is not connected knows nothing of us any more: it forgets with the connection. */
    size_t count = count_connected(instance, NULL);
    struct leave *leave = rq_calloc(1, sizeof *leave + count * sizeof leave->calls[0]);
    struct rq_peer **peers = rq_calloc(count ? count : 1, sizeof(struct rq_peer *));
    if (!leave || !peers) {
        rq_free(leave);
        rq_free(peers);
        if (done) {
            done(user);
        }
        return;
    }
    leave->done = done;
    leave->user = user;
    if (count == 0) {
        leave->task.run = leave_at_once;
        (void)rq_loop_post(instance->loop, &leave->task);
    } else {
        (void)count_connected(instance, peers);
        send_leave(instance, member, leave, peers, count,
                   timeout_ms < RQ_API_TIMEOUT_MS ? timeout_ms : RQ_API_TIMEOUT_MS);
    }
    rq_free(peers);
}

/* ---- requests to brokers ---- */

static void call_done(struct rq_call *call, rmq_status status, struct rq_in *answer)
{
    struct rq_request *request = RQ_CONTAINER_OF(call, struct rq_request, call);
    request->done(request, status, answer);
}

static void fail_early(struct rq_task *task)
{
    struct rq_request *request = RQ_CONTAINER_OF(task, struct rq_request, task);
    request->done(request, request->early, NULL);
}

static void post_failure(struct rq_instance *instance, struct rq_request *request,
                         rmq_status status)
{
    request->early = status;
    request->task.run = fail_early;
    (void)rq_loop_post(instance->loop, &request->task);
}

void rq_instance_send(struct rq_instance *instance, struct rq_peer *peer,
                      struct rq_request *request, const struct rq_frame_spec *spec,
                      struct rq_slice body, int64_t timeout_ms)
{
    struct rq_out *out = peer ? rq_out_create(0) : NULL;
    if (!out) {
        post_failure(instance, request, peer ? RMQ_ERR_NOMEM : RMQ_ERR_NO_BROKER);
        return;
    }
    rmq_status st = rq_out_encode(out, spec, body, NULL);
    if (st != RMQ_OK) {
        rq_out_destroy(out);
        post_failure(instance, request, st);
        return;
    }
    request->call = (struct rq_call){.done = call_done};
    st = rq_peer_call(peer, &request->call, out, rq_deadline_ms(timeout_ms), RQ_WAIT);
    if (st != RMQ_OK) {
        post_failure(instance, request, st);
    }
}

void rq_instance_request(struct rq_instance *instance, struct rq_peer *peer,
                         struct rq_request *request, int code, const struct rq_fields *table,
                         const void *fields, struct rq_slice body, int64_t timeout_ms)
{
    struct rq_frame_spec spec = rq_frame_request(instance->serialize, code, table, fields);
    rq_instance_send(instance, peer, request, &spec, body, timeout_ms);
}

void rq_instance_oneway(struct rq_instance *instance, struct rq_peer *peer, int code,
                        const struct rq_fields *table, const void *fields, struct rq_slice body)
{
    struct rq_out *out = peer ? rq_out_create(0) : NULL;
    if (!out) {
        return;
    }
    struct rq_frame_spec spec = rq_frame_request(instance->serialize, code, table, fields);
    spec.flag = RQ_FLAG_ONEWAY;
    if (rq_out_encode(out, &spec, body, NULL) != RMQ_OK) {
        rq_out_destroy(out);
        return;
    }
    (void)rq_peer_oneway(peer, out, rq_deadline_ms(RQ_API_TIMEOUT_MS));
}

void rq_instance_answer(struct rq_instance *instance, struct rq_peer *peer, int32_t opaque,
                        int32_t flag, int code, const char *remark, struct rq_slice body)
{
    if (flag & RQ_FLAG_ONEWAY) {
        return;
    }
    struct rq_out *out = rq_out_create(0);
    if (!out) {
        return;
    }
    struct rq_frame_spec spec = rq_frame_request(instance->serialize, code, NULL, NULL);
    spec.flag = RQ_FLAG_RESPONSE;
    spec.opaque = opaque;
    spec.remark = rq_slice_str(remark);
    if (rq_out_encode(out, &spec, body, NULL) != RMQ_OK) {
        rq_out_destroy(out);
        return;
    }
    (void)rq_peer_send(peer, out);
}

rmq_status rq_answer_error(rmq_status status, const struct rq_header *header, const char *addr,
                           const char *what, rmq_error **err)
{
    if (status != RMQ_OK || !header) {
        rmq_status st = status == RMQ_OK ? RMQ_ERR_INTERNAL : status;
        rq_error_set(err, st, "%s: broker %s: %s", what, addr, rmq_status_text(st));
        if (err) {
            rq_error_set_broker(*err, addr);
        }
        return st;
    }
    return rq_error_set_remote(err, header->code, addr, "%s: broker %s answered %d %s %.*s", what,
                               addr, header->code, rq_response_name(header->code),
                               (int)header->remark.n, header->remark.p ? header->remark.p : "");
}
