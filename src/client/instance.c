/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Life of client instances (see instance.h). The registry of instances by client id is the
 * process's; one that was inherited through fork is left behind. Counterparts: MQClientManager,
 * MQClientInstance.
 */
#include "client/instance.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "client/client_id.h"
#include "client/fork_mark.h"
#include "client/instance_priv.h"
#include "client/options.h"

#define MAX_QUEUED_DEFAULT ((size_t)256 << 20)
/* an address server is asked every fourth route interval: two minutes */
#define ADDRESS_POLLS 4

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

/* ---- life ---- */

/* What the program gave, and the addresses that it means. */
struct addresses {
    const char *given;
    const char *list;
};

static void free_instance(struct rq_instance *instance)
{
    rq_instance_topics_free(instance);
    rq_brokers_free(instance);
    rq_namesrv_destroy(instance->namesrv);
    rq_loop_put(instance->loop);
    rq_mutex_destroy(&instance->line_lock);
    rq_mutex_destroy(&instance->route_lock);
    rq_free(instance->client_id);
    rq_free(instance->namespace_v2);
    rq_free(instance);
}

static void on_connected(void *user, struct rq_peer *peer)
{
    rq_beats_connected(user, peer);
}

static void on_disconnected(void *user, struct rq_peer *peer, rmq_status why)
{
    if (why != RMQ_ERR_TIMEOUT) { /* that is idleness */
        rq_beats_disconnected(user, peer);
    }
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
        .on_request = rq_instance_on_request,
        .on_connected = on_connected,
        .on_disconnected = on_disconnected,
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
    rq_beats_start(instance);
}

static void stop_on_loop(void *arg)
{
    struct rq_instance *instance = arg;
    instance->closing = true;
    rq_namesrv_stop(instance->namesrv);
    rq_topics_stop(instance);
    rq_beats_stop(instance);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* One that has been started. */
static void close_instance(struct rq_instance *instance)
{
    (void)rq_loop_run(instance->loop, stop_on_loop, instance);
    rq_peers_destroy(instance->peers);
    /* What was posted to the loop before finds the instance closing; wait until it has. */
    (void)rq_loop_run(instance->loop, nothing, NULL);
    free_instance(instance);
}

/* Counterpart: NamespaceRpcHook. */
static bool set_marks(struct rq_instance *instance, const char *namespace_v2)
{
    if (!namespace_v2 || !*namespace_v2) {
        return true;
    }
    instance->namespace_v2 = rq_strdup(namespace_v2);
    instance->marks[0] = (struct rq_ext){rq_slice_str("nsd"), rq_slice_str("true")};
    instance->marks[1] = (struct rq_ext){rq_slice_str("ns"), rq_slice_str(instance->namespace_v2)};
    instance->mark_count = 2;
    return instance->namespace_v2 != NULL;
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
    instance->signer = options->signer;
    instance->poll_interval_ms = options->poll_name_server_interval_ms;
    instance->heartbeat_interval_ms = options->heartbeat_broker_interval_ms;
    rq_mutex_init(&instance->line_lock);
    rq_mutex_init(&instance->route_lock);
    rq_map_init(&instance->topics);
    rq_map_init(&instance->brokers);
    rq_map_init(&instance->healths);
    rq_list_init(&instance->members);
    instance->client_id = rq_strdup(client_id);
    rmq_status st = instance->client_id && set_marks(instance, options->namespace_v2)
                        ? connect_parts(instance, options, namesrv, err)
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

/* A client of the same id has its own name servers: to share it would lead to their brokers. */
static rmq_status check_namesrv(const struct rq_instance *instance, const char *given,
                                rmq_error **err)
{
    const char *servers = rq_namesrv_list(instance->namesrv);
    if (strcmp(servers, given) == 0) {
        return RMQ_OK;
    }
    return rq_error_set(err, RMQ_ERR_EXISTS,
                        "client %s is there already with name servers %s: one for %s needs another "
                        "instanceName",
                        instance->client_id, servers, given);
}

/* What all requests of a client have in common: its namespace, and the ports to which it sends. */
static rmq_status check_common(const struct rq_instance *instance,
                               const struct rq_instance_options *wanted, rmq_error **err)
{
    const char *have = instance->namespace_v2 ? instance->namespace_v2 : "";
    const char *want = wanted->namespace_v2 ? wanted->namespace_v2 : "";
    if (strcmp(have, want) != 0) {
        return rq_error_set(err, RMQ_ERR_EXISTS,
                            "client %s is there already with namespaceV2 \"%s\": one with \"%s\" "
                            "needs another instanceName",
                            instance->client_id, have, want);
    }
    if (wanted->sends && wanted->vip_channel != instance->vip) {
        return rq_error_set(err, RMQ_ERR_EXISTS,
                            "client %s is there already with vipChannelEnabled=%s: one with %s "
                            "needs another instanceName",
                            instance->client_id, instance->vip ? "true" : "false",
                            wanted->vip_channel ? "true" : "false");
    }
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
    if (instance) {
        st = check_namesrv(instance, namesrv->given, err);
        st = st == RMQ_OK ? check_common(instance, options, err) : st;
    } else {
        st = make_instance(options, namesrv, client_id, &instance, err);
        if (st == RMQ_OK) {
            st = rq_map_put(&registry->instances, rq_slice_str(client_id), instance);
            if (st != RMQ_OK) {
                close_instance(instance);
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
    rq_client_id_write(options, namesrv->list, &id);
    rmq_status st = rq_buf_status(&id);
    const char *client_id = rq_buf_cstr(&id);
    st = st == RMQ_OK ? get_by_id(options, namesrv, client_id, out, err)
                      : rq_error_set(err, st, "client id: %s", rmq_status_text(st));
    rq_buf_free(&id);
    return st;
}

static const char *namesrv_of(const struct rq_instance_options *options)
{
    if (options->namesrv_addr && *options->namesrv_addr) {
        return options->namesrv_addr;
    }
    const char *env = getenv("NAMESRV_ADDR");
    return env && *env ? env : NULL;
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
    if (st == RMQ_OK && (rq_buf_status(&given) != RMQ_OK || rq_buf_status(&list) != RMQ_OK)) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "name servers %s", namesrv);
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
    close_instance(instance);
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

rmq_status rq_instance_run(struct rq_instance *instance, void (*fn)(void *arg), void *arg)
{
    return rq_loop_run(instance->loop, fn, arg) ? RMQ_OK : RMQ_ERR_FORKED;
}

void rq_instance_suspect(struct rq_instance *instance, const char *topic)
{
    rq_beats_probe(instance);
    rq_topics_refresh_soon(instance, topic);
}
