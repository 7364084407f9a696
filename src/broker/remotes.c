/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Questions to other brokers (see the header): address, question, answer. */
#include "broker/remotes.h"

#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/bodies.h"

#define KNOWN_FOR_MS 5000 /* then the addresses are asked for anew */
#define MASTER_ID    0

rmq_status rq_remotes_init(struct rq_remotes *remotes, struct rmq_broker *broker,
                           struct rq_loop *background, rmq_error **err)
{
    const struct rq_peers_options options = {.hidden = true};
    memset(remotes, 0, sizeof *remotes);
    remotes->broker = broker;
    rq_mutex_init(&remotes->lock);
    rq_map_init(&remotes->addrs);
    remotes->loop = background;
    rq_loop_retain(background);
    return rq_peers_create(background, &options, &remotes->peers, err);
}

void rq_remotes_close(struct rq_remotes *remotes)
{
    if (!remotes->loop) {
        return;
    }
    rq_mutex_lock(&remotes->lock);
    remotes->closed = true;
    rq_mutex_unlock(&remotes->lock);
    rq_peers_destroy(remotes->peers);
    remotes->peers = NULL;
}

void rq_remotes_free(struct rq_remotes *remotes)
{
    if (!remotes->loop) {
        return;
    }
    rq_remotes_close(remotes);
    rq_loop_put(remotes->loop);
    rq_map_free(&remotes->addrs, rq_free);
    rq_mutex_destroy(&remotes->lock);
}

/* ---- one request to one address ---- */

static rmq_status find_peer(struct rq_remotes *remotes, const char *addr, struct rq_peer **out)
{
    rmq_status st = RMQ_ERR_CLOSED;
    rq_mutex_lock(&remotes->lock);
    if (!remotes->closed) {
        st = rq_peer_get(remotes->peers, addr, out, NULL);
    }
    rq_mutex_unlock(&remotes->lock);
    return st;
}

static void end_call(struct rq_remote_call *call, rmq_status status, struct rq_in *answer)
{
    struct rq_peer *peer = call->peer;
    call->peer = NULL;
    rq_out_destroy(call->out);
    rq_free(call->broker_name);
    call->done(call, status, answer); /* the call is gone from here on */
    rq_peer_put(peer);
}

/* Takes out. */
static void send_to(struct rq_remote_call *call, const char *addr, struct rq_out *out,
                    void (*done)(struct rq_call *call, rmq_status status, struct rq_in *answer))
{
    struct rq_remotes *remotes = call->remotes;
    int64_t wait_ms = remotes->broker->settings.broker.forward_timeout;
    rmq_status st = out ? find_peer(remotes, addr, &call->peer) : RMQ_ERR_NOMEM;
    if (!st) {
        call->call = (struct rq_call){.done = done};
        st = rq_peer_call(call->peer, &call->call, out, rq_deadline_ms(wait_ms), RQ_WAIT);
        out = NULL;
    }
    rq_out_destroy(out);
    if (st) {
        end_call(call, st, NULL);
    }
}

static void answered(struct rq_call *base, rmq_status status, struct rq_in *answer)
{
    end_call(RQ_CONTAINER_OF(base, struct rq_remote_call, call), status, answer);
}

/* ---- addresses ---- */

/* A copy of what is known and not old; NULL: a name server must be asked. */
static char *known_addr(struct rq_remotes *remotes, const char *broker_name)
{
    char *addr = NULL;
    rq_mutex_lock(&remotes->lock);
    if (remotes->known_ms && rq_mono_ms() - remotes->known_ms < KNOWN_FOR_MS) {
        addr = rq_map_get(&remotes->addrs, rq_slice_str(broker_name));
        addr = addr ? rq_strdup(addr) : NULL;
    }
    rq_mutex_unlock(&remotes->lock);
    return addr;
}

static void note_masters(struct rq_remotes *remotes, const struct rq_cluster_info *info)
{
    rq_mutex_lock(&remotes->lock);
    rq_map_free(&remotes->addrs, rq_free);
    rq_map_init(&remotes->addrs);
    for (size_t i = 0; i < info->broker_count; i++) {
        const struct rq_route_broker_data *broker = &info->brokers[i];
        bool has_master = broker->addr_count && broker->addrs[0].id == MASTER_ID;
        char *addr = has_master ? rq_strdup(broker->addrs[0].addr) : NULL;
        if (addr && (rq_map_get(&remotes->addrs, rq_slice_str(broker->broker_name)) ||
                     rq_map_put(&remotes->addrs, rq_slice_str(broker->broker_name), addr))) {
            rq_free(addr);
        }
    }
    remotes->known_ms = rq_mono_ms();
    rq_mutex_unlock(&remotes->lock);
}

/* The name server was asked in vain: the next question goes to the next one. Of several that asked
 * it, the first one moves on. */
static void skip_namesrv(const struct rq_remote_call *call)
{
    struct rq_remotes *remotes = call->remotes;
    rq_mutex_lock(&remotes->lock);
    remotes->next_namesrv += remotes->next_namesrv == call->namesrv;
    rq_mutex_unlock(&remotes->lock);
}

static char *namesrv_addr(struct rq_remote_call *call)
{
    struct rq_remotes *remotes = call->remotes;
    const struct rq_registration *registration = &remotes->broker->registration;
    rq_mutex_lock(&remotes->lock);
    size_t at = call->namesrv = remotes->next_namesrv;
    rq_mutex_unlock(&remotes->lock);
    struct rq_slice rest = rq_slice_str(remotes->broker->namesrv_addr);
    struct rq_slice piece = {0};
    at = registration->count > 0 ? at % (size_t)registration->count : 0;
    for (size_t i = 0; i <= at && rest.n > 0;) {
        size_t n = strcspn(rest.p, ";, \t");
        piece = rq_slice(rest.p, n);
        i += n > 0;
        rest = rq_slice(rest.p + n + (n < rest.n), rest.n - n - (n < rest.n));
    }
    return rq_slice_dup(piece);
}

/* ---- questions ---- */

static void on_masters(struct rq_call *base, rmq_status status, struct rq_in *answer)
{
    struct rq_remote_call *call = RQ_CONTAINER_OF(base, struct rq_remote_call, call);
    struct rq_cluster_info info;
    struct rq_out *out = call->out;
    char *addr = NULL;
    rq_peer_put(call->peer);
    call->peer = NULL;
    call->out = NULL;
    if (status == RMQ_OK && answer->header->code == RQ_RESP_SUCCESS &&
        rq_cluster_info_parse(answer->body, &info, NULL) == RMQ_OK) {
        note_masters(call->remotes, &info);
        rq_cluster_info_clear(&info);
        addr = known_addr(call->remotes, call->broker_name);
    } else {
        skip_namesrv(call);
    }
    if (addr) {
        send_to(call, addr, out, answered);
        rq_free(addr);
    } else {
        rq_out_destroy(out);
        end_call(call, status ? status : RMQ_ERR_NOT_FOUND, NULL);
    }
}

static void ask_for_masters(struct rq_remote_call *call)
{
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_GET_BROKER_CLUSTER_INFO, NULL, NULL);
    char *addr = namesrv_addr(call);
    if (addr) {
        send_to(call, addr, rq_out_make(&spec, rq_slice(NULL, 0)), on_masters);
    } else {
        end_call(call, RMQ_ERR_NOMEM, NULL);
    }
    rq_free(addr);
}

void rq_remotes_ask(struct rq_remotes *remotes, struct rq_remote_call *call,
                    const char *broker_name, struct rq_out *out)
{
    char *addr = known_addr(remotes, broker_name);
    call->remotes = remotes;
    call->peer = NULL;
    call->out = NULL;
    call->broker_name = rq_strdup(broker_name);
    if (addr) {
        send_to(call, addr, out, answered);
    } else if (out && call->broker_name) {
        call->out = out;
        ask_for_masters(call);
    } else {
        rq_out_destroy(out);
        end_call(call, RMQ_ERR_NOMEM, NULL);
    }
    rq_free(addr);
}

static void on_namesrv(struct rq_call *base, rmq_status status, struct rq_in *answer)
{
    struct rq_remote_call *call = RQ_CONTAINER_OF(base, struct rq_remote_call, call);
    if (status) {
        skip_namesrv(call);
    }
    end_call(call, status, answer);
}

void rq_remotes_ask_namesrv(struct rq_remotes *remotes, struct rq_remote_call *call,
                            struct rq_out *out)
{
    call->remotes = remotes;
    call->peer = NULL;
    call->out = NULL;
    call->broker_name = NULL;
    char *addr = namesrv_addr(call);
    send_to(call, addr ? addr : "", out, on_namesrv);
    rq_free(addr);
}
