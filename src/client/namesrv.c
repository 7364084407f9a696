/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Queries to name servers with hedging (see the header). A query lives until the last of its calls
 * has ended, which may be after its answer. */
#include "client/namesrv.h"

#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/http_get.h"
#include "net/resolve.h"

#define HEDGE_AFTER_MS     300 /* silence after which the next server is asked, too */
#define SERVERS_MAX        64
#define ADDRESS_TIMEOUT_MS 3000 /* of the address server */

struct server {
    char *address;
    struct rq_peer *peer; /* NULL until first asked */
};

/* The servers of one list. Counted: the present one, and each query. Owned by the loop once it is
 * in use. */
struct server_set {
    unsigned refs;
    size_t count;
    size_t good; /* index of the server that answered last */
    struct server servers[SERVERS_MAX];
};

struct rq_namesrv {
    struct rq_loop *loop;
    struct rq_peers *peers;
    char *list; /* as given: addresses, or the URL of an address server */

    /* owned by the loop */
    struct server_set *set;
    bool down;   /* nobody answered the last query */
    bool told;   /* logged here, not by a connection */
    bool closed; /* queries end without an answer, which is no fault of a server */
    bool silent; /* the address server failed; logged */
    int64_t interval_ms;
    struct rq_timer timer;
    struct rq_http_fetch *fetch; /* under way */
};

struct query;

struct attempt {
    struct rq_call call;
    struct query *query;
    size_t server;
};

struct query {
    struct rq_namesrv *servers;
    struct server_set *set; /* held, from the beginning on the loop */
    rq_namesrv_done *done;  /* NULL once called */
    void *user;
    int64_t deadline_ms;
    struct rq_buf frame;
    struct rq_buf reasons;
    rmq_error *error; /* of the last server that answered with an error code */
    bool reached;     /* a server was connected, and yet gave no answer that helps */
    struct rq_timer hedge;
    struct rq_task task;
    size_t asked;             /* attempts begun */
    size_t pending;           /* calls not ended */
    struct attempt *attempts; /* one for each server */
};

static void release_set(struct server_set *set)
{
    if (!set || --set->refs > 0) {
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        rq_peer_put(set->servers[i].peer);
        rq_free(set->servers[i].address);
    }
    rq_free(set);
}

/* Java's endpoint form: what stands before the last slash means nothing. */
static const char *without_scheme(const char *address)
{
    const char *slash = strrchr(address, '/');
    return strncmp(address, "http://", 7) == 0 ? slash + 1 : address;
}

static rmq_status add_server(struct server_set *set, const char *text, size_t n, rmq_error **err)
{
    char host[RQ_HOST_MAX];
    uint16_t port;
    if (set->count == SERVERS_MAX) {
        return rq_error_set(err, RMQ_ERR_INVALID, "more than %d name servers", SERVERS_MAX);
    }
    char *given = rq_strndup(text, n);
    char *address = given ? rq_strdup(without_scheme(given)) : NULL;
    rq_free(given);
    if (!address) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "name server list");
    }
    rmq_status st =
        strncmp(address, "https://", 8) == 0
            ? rq_error_set(err, RMQ_ERR_INVALID,
                           "address \"%s\": there is no TLS, an address server is asked "
                           "with http://",
                           address)
            : rq_address_split(address, host, &port, err);
    if (st != RMQ_OK) {
        rq_free(address);
        return st;
    }
    set->servers[set->count++].address = address;
    return RMQ_OK;
}

/* One reference is the caller's. */
static rmq_status parse_list(const char *list, struct server_set **out, rmq_error **err)
{
    struct server_set *set = rq_calloc(1, sizeof *set);
    rmq_status st = set ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "name server list");
    for (const char *p = list; st == RMQ_OK && *p;) {
        p += strspn(p, " \t\r\n;,");
        size_t n = strcspn(p, " \t\r\n;,");
        st = n > 0 ? add_server(set, p, n, err) : st;
        p += n;
    }
    if (st == RMQ_OK && set->count == 0) {
        st = rq_error_set(err, RMQ_ERR_NO_NAMESRV, "no name server in \"%s\"", list);
    }
    if (set) {
        set->refs = 1;
    }
    if (st != RMQ_OK) {
        release_set(set);
        return st;
    }
    *out = set;
    return RMQ_OK;
}

bool rq_namesrv_is_url(const char *list)
{
    return strncmp(list, "http://", 7) == 0 && strchr(list + 7, '/') != NULL;
}

/* What an address server answered. */
static rmq_status parse_answer(const char *url, const char *list, struct server_set **out,
                               rmq_error **err)
{
    rmq_error *why = NULL;
    rmq_status st = parse_list(list, out, &why);
    if (st != RMQ_OK) {
        st = rq_error_set(err, st, "address server %s gave no list: %s", url,
                          rmq_error_message(why));
    }
    rmq_error_destroy(why);
    return st;
}

rmq_status rq_namesrv_look_up(const char *url, struct rq_buf *list, rmq_error **err)
{
    struct server_set *set = NULL;
    rmq_error *why = NULL;
    rmq_status st = rq_http_get(url, ADDRESS_TIMEOUT_MS, list, &why);
    if (st != RMQ_OK) {
        st = rq_error_set(err, st == RMQ_ERR_INVALID ? st : RMQ_ERR_NO_NAMESRV, "address server %s",
                          rmq_error_message(why));
    }
    rmq_error_destroy(why);
    if (st == RMQ_OK) { /* the first line counts */
        list->len = strcspn(rq_buf_cstr(list), "\r\n");
        st = parse_answer(url, rq_buf_cstr(list), &set, err);
        release_set(set);
    }
    return st;
}

/* ---- the address server: loop ---- */

static bool same_servers(const struct server_set *a, const struct server_set *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        same = strcmp(a->servers[i].address, b->servers[i].address) == 0;
    }
    return same;
}

static void take_list(struct rq_namesrv *servers, const char *list, rmq_error **err)
{
    struct server_set *set = NULL;
    if (parse_answer(servers->list, list, &set, err) != RMQ_OK) {
        return;
    }
    if (same_servers(set, servers->set)) {
        release_set(set);
        return;
    }
    RQ_LOG(INFO, "name servers have changed", "address server=%s list=%s", servers->list, list);
    release_set(servers->set);
    servers->set = set;
}

static void fetched(void *user, const char *body, const rmq_error *err)
{
    struct rq_namesrv *servers = user;
    rmq_error *bad = NULL;
    servers->fetch = NULL;
    if (!err) {
        char *line = rq_strndup(body, strcspn(body, "\r\n"));
        if (line) {
            take_list(servers, line, &bad);
        }
        rq_free(line);
        err = bad;
    }
    if (err && !servers->silent) {
        RQ_LOG(WARN, "address server fails, the known name servers stay", "%s",
               rmq_error_message(err));
    }
    servers->silent = err != NULL;
    rmq_error_destroy(bad);
    rq_timer_start(servers->loop, &servers->timer, servers->interval_ms);
}

static void fetch(struct rq_timer *timer)
{
    struct rq_namesrv *servers = RQ_CONTAINER_OF(timer, struct rq_namesrv, timer);
    servers->fetch =
        rq_http_fetch_start(servers->loop, servers->list, ADDRESS_TIMEOUT_MS, fetched, servers);
    if (!servers->fetch) {
        rq_timer_start(servers->loop, timer, servers->interval_ms);
    }
}

void rq_namesrv_start(struct rq_namesrv *servers, int64_t interval_ms)
{
    if (rq_namesrv_is_url(servers->list)) {
        servers->interval_ms = interval_ms;
        rq_timer_start(servers->loop, &servers->timer, interval_ms);
    }
}

void rq_namesrv_stop(struct rq_namesrv *servers)
{
    servers->closed = true;
    rq_timer_stop(&servers->timer);
    if (servers->fetch) {
        rq_http_fetch_cancel(servers->fetch);
        servers->fetch = NULL;
    }
}

/* ---- life ---- */

rmq_status rq_namesrv_create(struct rq_loop *loop, struct rq_peers *peers, const char *given,
                             const char *list, struct rq_namesrv **out, rmq_error **err)
{
    struct rq_namesrv *servers = rq_calloc(1, sizeof *servers);
    if (!servers) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "name server list");
    }
    servers->loop = loop;
    servers->peers = peers;
    rq_timer_init(&servers->timer, fetch);
    servers->list = rq_strdup(given);
    rmq_status st = servers->list ? parse_list(list, &servers->set, err)
                                  : rq_error_set(err, RMQ_ERR_NOMEM, "name server list");
    if (st != RMQ_OK) {
        rq_namesrv_destroy(servers);
        return st;
    }
    *out = servers;
    return RMQ_OK;
}

void rq_namesrv_destroy(struct rq_namesrv *servers)
{
    if (servers) {
        release_set(servers->set);
        rq_free(servers->list);
        rq_free(servers);
    }
}

const char *rq_namesrv_list(const struct rq_namesrv *servers)
{
    return servers->list;
}

void rq_namesrv_addresses(const struct rq_namesrv *servers, struct rq_buf *out)
{
    for (size_t i = 0; i < servers->set->count; i++) {
        rq_buf_addf(out, "%s\n", servers->set->servers[i].address);
    }
}

/* ---- queries ---- */

static void drop_query(struct query *query)
{
    if (query->pending > 0 || query->done) {
        return;
    }
    rq_timer_stop(&query->hedge);
    rq_buf_free(&query->frame);
    rq_buf_free(&query->reasons);
    rmq_error_destroy(query->error);
    release_set(query->set);
    rq_free(query->attempts);
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

/* words name the address. */
static void note_reason(struct query *query, const char *words)
{
    rq_buf_addf(&query->reasons, "%s%s", query->reasons.len ? "; " : "", words);
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
    /* That the only one cannot be connected has been told by the connection. */
    bool told = query->set && query->set->count == 1 && !query->reached;
    if (!servers->down && !told && !servers->closed) {
        servers->told = true;
        RQ_LOG(WARN, "no name server answers", "%s", rq_buf_cstr(&query->reasons));
    }
    servers->down = true;
    finish(query, NULL, err);
    rmq_error_destroy(err);
}

static void ask_next(struct query *query);

/* This server is no use: the next one, or the end when all have been asked and nobody is left to
 * answer. */
static void give_up_on(struct query *query)
{
    if (!query->done) {
        return;
    }
    if (query->asked < query->set->count) {
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
    struct server *server = &query->set->servers[attempt->server];
    query->pending--;
    if (!query->done) {
        drop_query(query);
        return;
    }
    if (status == RMQ_OK && !is_refusal(answer->header->code)) {
        query->set->good = attempt->server;
        servers->down = false;
        if (servers->told) {
            servers->told = false;
            RQ_LOG(WARN, "name server answers again", "address=%s", server->address);
        }
        finish(query, answer, NULL);
    } else if (status == RMQ_OK) {
        query->reached = true;
        note_refusal(query, server->address, answer->header);
        note_reason(query, rmq_error_message(query->error));
        give_up_on(query);
    } else {
        rmq_error *why = NULL;
        query->reached |= status != RMQ_ERR_CONNECT && status != RMQ_ERR_RESOLVE;
        (void)rq_peer_error(server->peer, status, &why);
        note_reason(query, rmq_error_message(why));
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
    struct server *server = &query->set->servers[attempt->server];
    if (!server->peer) {
        rmq_status st = rq_peer_get(servers->peers, server->address, &server->peer, NULL);
        if (st != RMQ_OK) {
            server->peer = NULL;
            return st;
        }
        rq_peer_set_role(server->peer, "namesrv");
    }
    struct rq_out *out = copy_frame(query);
    if (!out) {
        return RMQ_ERR_NOMEM;
    }
    attempt->call = (struct rq_call){.done = answer_came, .user = attempt};
    enum rq_call_mode mode = query->set->count > 1 ? RQ_FAIL_FAST : RQ_WAIT;
    return rq_peer_call(server->peer, &attempt->call, out, query->deadline_ms, mode);
}

/* Asks the next server; one that fails at once hands over to the one behind it. */
static void ask_next(struct query *query)
{
    struct rq_namesrv *servers = query->servers;
    while (query->asked < query->set->count) {
        struct attempt *attempt = &query->attempts[query->asked];
        attempt->query = query;
        attempt->server = (query->set->good + query->asked) % query->set->count;
        query->asked++;
        query->pending++;
        rmq_status st = start_attempt(query, attempt);
        if (st == RMQ_OK) {
            rq_timer_start(servers->loop, &query->hedge, HEDGE_AFTER_MS);
            return;
        }
        query->pending--;
        query->reached = true;
        rq_buf_addf(&query->reasons, "%s%s: %s", query->reasons.len ? "; " : "",
                    query->set->servers[attempt->server].address, rmq_status_text(st));
    }
    if (query->pending == 0 && query->done) {
        fail_query(query);
    }
}

static void hedge(struct rq_timer *timer)
{
    struct query *query = RQ_CONTAINER_OF(timer, struct query, hedge);
    if (query->done && query->asked < query->set->count) {
        ask_next(query);
        drop_query(query);
    }
}

static void begin(struct rq_task *task)
{
    struct query *query = RQ_CONTAINER_OF(task, struct query, task);
    struct server_set *set = query->servers->set;
    query->attempts = rq_calloc(set->count, sizeof *query->attempts);
    if (!query->attempts) {
        rq_error_set(&query->error, RMQ_ERR_NOMEM, "query to a name server");
        fail_query(query);
        drop_query(query);
        return;
    }
    set->refs++;
    query->set = set;
    ask_next(query);
    drop_query(query);
}

rmq_status rq_namesrv_ask(struct rq_namesrv *servers, const struct rq_frame_spec *spec,
                          int64_t timeout_ms, rq_namesrv_done *done, void *user)
{
    struct query *query = rq_calloc(1, sizeof *query);
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
