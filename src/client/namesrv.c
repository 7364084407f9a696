/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Queries to name servers with hedging (see the header). A query lives until the last of its calls has ended, which may be after its answer. */
#include "client/namesrv.h"

#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/resolve.h"

#define HEDGE_AFTER_MS 300 /* silence after which the next server is asked, too */
#define SERVERS_MAX    64

struct server {
    char *address;
    struct rq_peer *peer; /* NULL until first asked */
};

struct rq_namesrv {
    struct rq_loop *loop;
    struct rq_peers *peers;
    char *list;
    size_t count;
    struct server *servers;
    size_t good; /* owned by the loop: index of the server that answered last */
    bool down;   /* owned by the loop: nobody answered the last query; logged */
};

struct query;

struct attempt {
    struct rq_call call;
    struct query *query;
    size_t server;
};

struct query {
    struct rq_namesrv *servers;
    rq_namesrv_done *done; /* NULL once called */
    void *user;
    int64_t deadline_ms;
    struct rq_buf frame;
    struct rq_buf reasons;
    rmq_error *error; /* of the last server that answered with an error code */
    struct rq_timer hedge;
    struct rq_task task;
    size_t asked;   /* attempts begun */
    size_t pending; /* calls not ended */
    struct attempt attempts[];
};

static void free_servers(struct rq_namesrv *servers)
{
    for (size_t i = 0; i < servers->count; i++) {
        rq_peer_put(servers->servers[i].peer);
        rq_free(servers->servers[i].address);
    }
    rq_free(servers->servers);
    rq_free(servers->list);
    rq_free(servers);
}

static rmq_status add_server(struct rq_namesrv *servers, const char *text, size_t n,
                             rmq_error **err)
{
    char host[RQ_HOST_MAX];
    uint16_t port;
    if (servers->count == SERVERS_MAX) {
        return rq_error_set(err, RMQ_ERR_INVALID, "more than %d name servers", SERVERS_MAX);
    }
    char *address = rq_strndup(text, n);
    if (!address) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "name server list");
    }
    rmq_status st =
        strstr(address, "://")
            ? rq_error_set(err, RMQ_ERR_UNSUPPORTED,
                           "name server \"%s\": addresses with http:// are not supported, "
                           "give host:port",
                           address)
            : rq_address_split(address, host, &port, err);
    if (st != RMQ_OK) {
        rq_free(address);
        return st;
    }
    servers->servers[servers->count++].address = address;
    return RMQ_OK;
}

static rmq_status parse_list(struct rq_namesrv *servers, rmq_error **err)
{
    const char *p = servers->list;
    while (*p) {
        p += strspn(p, " \t;,");
        size_t n = strcspn(p, " \t;,");
        if (n == 0) {
            break;
        }
        rmq_status st = add_server(servers, p, n, err);
        if (st != RMQ_OK) {
            return st;
        }
        p += n;
    }
    if (servers->count == 0) {
        return rq_error_set(err, RMQ_ERR_NO_NAMESRV, "no name server in \"%s\"", servers->list);
    }
    return RMQ_OK;
}

rmq_status rq_namesrv_create(struct rq_loop *loop, struct rq_peers *peers, const char *list,
                             struct rq_namesrv **out, rmq_error **err)
{
    struct rq_namesrv *servers = rq_calloc(1, sizeof *servers);
    if (!servers) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "name server list");
    }
    servers->loop = loop;
    servers->peers = peers;
    servers->list = rq_strdup(list);
    servers->servers = rq_calloc(SERVERS_MAX, sizeof *servers->servers);
    rmq_status st = RMQ_OK;
    if (!servers->list || !servers->servers) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "name server list");
    } else {
        st = parse_list(servers, err);
    }
    if (st != RMQ_OK) {
        free_servers(servers);
        return st;
    }
    *out = servers;
    return RMQ_OK;
}

void rq_namesrv_destroy(struct rq_namesrv *servers)
{
    if (servers) {
        free_servers(servers);
    }
}

const char *rq_namesrv_list(const struct rq_namesrv *servers)
{
    return servers->list;
}

size_t rq_namesrv_count(const struct rq_namesrv *servers)
{
    return servers->count;
}

static void drop_query(struct query *query)
{
    if (query->pending > 0 || query->done) {
        return;
    }
    rq_timer_stop(&query->hedge);
    rq_buf_free(&query->frame);
    rq_buf_free(&query->reasons);
    rmq_error_destroy(query->error);
    rq_free(query);
}

/* The query's outcome. The caller still holds it: drop_query comes after. */
static void finish(struct query *query, struct rq_in *answer, const rmq_error *err)
{
    rq_namesrv_done *done = query->done;
    query->done = NULL;
    rq_timer_stop(&query->hedge);
    done(query->user, answer, err);
}

static void note_reason(struct query *query, const char *address, const char *words)
{
    rq_buf_addf(&query->reasons, "%s%s: %s", query->reasons.len ? "; " : "", address, words);
}

static void fail_query(struct query *query)
{
    struct rq_namesrv *servers = query->servers;
    rmq_error *err = query->error;
    query->error = NULL;
    if (!err) {
        rq_error_set(&err, RMQ_ERR_NO_NAMESRV, "no name server answered (%s)",
                     rq_buf_cstr(&query->reasons));
        rq_error_set_broker(err, servers->list);
    }
    if (!servers->down) {
        servers->down = true;
        RQ_LOG(WARN, "no name server answers", "%s", rmq_error_message(err));
    }
    finish(query, NULL, err);
    rmq_error_destroy(err);
}

static void ask_next(struct query *query);

/* This server is no use: the next one, or the end when all have been asked and nobody is left to answer. */
static void give_up_on(struct query *query)
{
    if (!query->done) {
        return;
    }
    if (query->asked < query->servers->count) {
        ask_next(query);
    } else if (query->pending == 0) {
        fail_query(query);
    }
}

static bool is_refusal(int32_t code)
{
    return code == RQ_RESP_SYSTEM_ERROR || code == RQ_RESP_SYSTEM_BUSY || code == RQ_RESP_GO_AWAY;
}

static void note_refusal(struct query *query, const char *address, const struct rq_header *header)
{
    rmq_error_destroy(query->error);
    query->error = NULL;
    rq_error_set_remote(&query->error, header->code, address, "name server %s answered %d %.*s",
                        address, header->code, (int)header->remark.n,
                        header->remark.p ? header->remark.p : "");
}

static void answer_came(struct rq_call *call, rmq_status status, struct rq_in *answer)
{
    struct attempt *attempt = call->user;
    struct query *query = attempt->query;
    struct rq_namesrv *servers = query->servers;
    struct server *server = &servers->servers[attempt->server];
    query->pending--;
    if (!query->done) {
        drop_query(query);
        return;
    }
    if (status == RMQ_OK && !is_refusal(answer->header->code)) {
        servers->good = attempt->server;
        if (servers->down) {
            servers->down = false;
            RQ_LOG(WARN, "name server answers again", "address=%s", server->address);
        }
        finish(query, answer, NULL);
    } else if (status == RMQ_OK) {
        note_refusal(query, server->address, answer->header);
        note_reason(query, server->address, rmq_error_message(query->error));
        give_up_on(query);
    } else {
        rmq_error *why = NULL;
        (void)rq_peer_error(server->peer, status, &why);
        note_reason(query, server->address, why ? rmq_error_message(why) : rmq_status_text(status));
        rmq_error_destroy(why);
        give_up_on(query);
    }
    drop_query(query);
}

static struct rq_out *copy_frame(const struct query *query)
{
    struct rq_out *out = rq_out_create(query->frame.len);
    if (!out) {
        return NULL;
    }
    rq_buf_add(&out->head, query->frame.data, query->frame.len);
    if (rq_buf_status(&out->head) != RMQ_OK) {
        rq_out_destroy(out);
        return NULL;
    }
    return out;
}

static rmq_status start_attempt(struct query *query, struct attempt *attempt)
{
    struct rq_namesrv *servers = query->servers;
    struct server *server = &servers->servers[attempt->server];
    if (!server->peer) {
        rmq_status st = rq_peer_get(servers->peers, server->address, &server->peer, NULL);
        if (st != RMQ_OK) {
            server->peer = NULL;
            return st;
        }
    }
    struct rq_out *out = copy_frame(query);
    if (!out) {
        return RMQ_ERR_NOMEM;
    }
    attempt->call = (struct rq_call){.done = answer_came, .user = attempt};
    enum rq_call_mode mode = servers->count > 1 ? RQ_FAIL_FAST : RQ_WAIT;
    return rq_peer_call(server->peer, &attempt->call, out, query->deadline_ms, mode);
}

/* Asks the next server; one that fails at once hands over to the one behind it. */
static void ask_next(struct query *query)
{
    struct rq_namesrv *servers = query->servers;
    while (query->asked < servers->count) {
        struct attempt *attempt = &query->attempts[query->asked];
        attempt->query = query;
        attempt->server = (servers->good + query->asked) % servers->count;
        query->asked++;
        query->pending++;
        rmq_status st = start_attempt(query, attempt);
        if (st == RMQ_OK) {
            rq_timer_start(servers->loop, &query->hedge, HEDGE_AFTER_MS);
            return;
        }
        query->pending--;
        note_reason(query, servers->servers[attempt->server].address, rmq_status_text(st));
    }
    if (query->pending == 0 && query->done) {
        fail_query(query);
    }
}

static void hedge(struct rq_timer *timer)
{
    struct query *query = RQ_CONTAINER_OF(timer, struct query, hedge);
    if (query->done && query->asked < query->servers->count) {
        ask_next(query);
        drop_query(query);
    }
}

static void begin(struct rq_task *task)
{
    struct query *query = RQ_CONTAINER_OF(task, struct query, task);
    ask_next(query);
    drop_query(query);
}

rmq_status rq_namesrv_ask(struct rq_namesrv *servers, const struct rq_frame_spec *spec,
                          int64_t timeout_ms, rq_namesrv_done *done, void *user)
{
    struct query *query = rq_calloc(1, sizeof *query + servers->count * sizeof query->attempts[0]);
    if (!query) {
        return RMQ_ERR_NOMEM;
    }
    rq_buf_init(&query->frame, 0);
    rq_buf_init(&query->reasons, 64 * 1024);
    rmq_status st = rq_frame_encode(&query->frame, spec, 0, NULL);
    if (st != RMQ_OK) {
        rq_buf_free(&query->frame);
        rq_free(query);
        return st;
    }
    query->servers = servers;
    query->done = done;
    query->user = user;
    query->deadline_ms = rq_deadline_ms(timeout_ms);
    rq_timer_init(&query->hedge, hedge);
    query->task.run = begin;
    (void)rq_loop_post(servers->loop, &query->task);
    return RMQ_OK;
}
