/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The server: the first loop accepts and deals connections out to all loops in turn. Each loop
 * keeps the list of its own connections, so that nothing is locked. Out of descriptors, accepting
 * pauses for a moment instead of spinning. Counterpart: NettyRemotingServer.
 */
#include "net/listener.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/err.h"
#include "base/fork.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/gate.h"
#include "net/loop_priv.h"
#include "net/resolve.h"

#define BACKLOG         1024
#define ACCEPTS_A_TURN  64
#define ACCEPT_PAUSE_MS 200
#define HIGH_WATER      ((size_t)8 << 20)
#define MAX_QUEUED      ((size_t)256 << 20)
#define IDLE_MS         120000
#define MAX_CONNECTIONS 65535

struct server_loop {
    struct rq_server *server;
    struct rq_loop *loop; /* referenced */
    /* owned by the loop's thread */
    struct rq_list conns;
    bool closing;
    struct rq_gate *ended; /* set when closing; opened when conns is empty */
};

struct rq_server {
    /* immutable after create */
    struct rq_server_options options;
    uint16_t port;
    struct rq_conn_ops ops;
    struct server_loop *loops;
    _Atomic int connections; /* atomic: relaxed */
    /* owned by the first loop's thread */
    int fd;
    struct event *event;
    struct rq_timer pause;
    int next_loop;
    bool starved; /* out of descriptors, logged */
};

/* What the server knows of a connection; the connection's user pointer leads here, the user's
 * own is inside. */
struct server_conn {
    struct rq_list node;
    struct rq_conn *conn;
    struct server_loop *home;
};

struct newcomer {
    struct rq_task task;
    struct server_loop *home;
    int fd;
};

/* ---- a connection's loop ---- */

static void on_request(struct rq_conn *conn, struct rq_in *in)
{
    struct rq_server *server = ((struct server_conn *)rq_conn_owner(conn))->home->server;
    server->options.on_request(server->options.user, conn, in);
}

static void check_ended(struct server_loop *home)
{
    if (home->ended && rq_list_empty(&home->conns)) {
        struct rq_gate *gate = home->ended;
        home->ended = NULL;
        rq_gate_open(gate); /* the last thing: the server may be gone after it */
    }
}

static void on_close(struct rq_conn *conn, rmq_status why)
{
    struct server_conn *entry = rq_conn_owner(conn);
    struct server_loop *home = entry->home;
    struct rq_server *server = home->server;
    if (server->options.on_close) {
        server->options.on_close(server->options.user, conn, why);
    }
    atomic_fetch_sub_explicit(&server->connections, 1, memory_order_relaxed);
    rq_list_remove(&entry->node);
    rq_free(entry);
    rq_conn_release(conn);
    check_ended(home);
}

static void give_up(struct rq_server *server, struct server_conn *entry, int fd)
{
    rq_free(entry);
    close(fd);
    atomic_fetch_sub_explicit(&server->connections, 1, memory_order_relaxed);
}

static rmq_status make_conn(struct server_conn *entry, int fd)
{
    struct rq_server *server = entry->home->server;
    const struct rq_server_options *options = &server->options;
    struct rq_conn_options conn_options = {.ops = &server->ops,
                                           .owner = entry,
                                           .max_frame = options->max_frame,
                                           .high_water = options->high_water,
                                           .max_queued = options->max_queued,
                                           .overflow_closes = true,
                                           .hidden = true,
                                           .idle_ms = options->idle_ms};
    void *self = NULL;
    const struct rq_transport *transport = NULL;
    if (options->transport) {
        transport = options->transport(options->user, &self);
        if (!transport) {
            return RMQ_ERR_NOMEM;
        }
    }
    conn_options.transport = transport;
    conn_options.transport_self = self;
    rmq_status st = rq_conn_create(entry->home->loop, fd, &conn_options, &entry->conn, NULL);
    if (st != RMQ_OK && transport && transport->destroy) {
        transport->destroy(self);
    }
    return st;
}

static void welcome(struct server_loop *home, int fd)
{
    struct rq_server *server = home->server;
    const struct rq_server_options *options = &server->options;
    struct server_conn *entry = home->closing ? NULL : rq_calloc(1, sizeof *entry);
    if (!entry) {
        give_up(server, entry, fd);
        return;
    }
    entry->home = home;
    if (make_conn(entry, fd) != RMQ_OK) {
        RQ_LOG(ERROR, "connection refused", "cause=\"out of memory\"");
        give_up(server, entry, fd);
        return;
    }
    rq_list_add_tail(&home->conns, &entry->node);
    if (options->on_open) {
        options->on_open(options->user, entry->conn);
    }
}

static void run_newcomer(struct rq_task *task)
{
    struct newcomer *newcomer = RQ_CONTAINER_OF(task, struct newcomer, task);
    welcome(newcomer->home, newcomer->fd);
    rq_free(newcomer);
}

/* ---- the accepting loop ---- */

static void hand_out(struct rq_server *server, int fd)
{
    struct server_loop *home = &server->loops[server->next_loop];
    server->next_loop = (server->next_loop + 1) % server->options.loop_count;
    int before = atomic_fetch_add_explicit(&server->connections, 1, memory_order_relaxed);
    if (before >= server->options.max_connections) {
        give_up(server, NULL, fd);
        return;
    }
    if (home->loop == server->loops[0].loop) {
        welcome(home, fd);
        return;
    }
    struct newcomer *newcomer = rq_calloc(1, sizeof *newcomer);
    if (!newcomer) {
        give_up(server, NULL, fd);
        return;
    }
    newcomer->task.run = run_newcomer;
    newcomer->home = home;
    newcomer->fd = fd;
    rq_loop_post(home->loop, &newcomer->task);
}

static void on_pause_over(struct rq_timer *timer)
{
    struct rq_server *server = RQ_CONTAINER_OF(timer, struct rq_server, pause);
    event_add(server->event, NULL);
}

static void pause_accepting(struct rq_server *server)
{
    if (!server->starved) {
        server->starved = true;
        RQ_LOG(ERROR, "cannot accept, trying on", "port=%u cause=\"%s\"", (unsigned)server->port,
               strerror(errno));
    }
    event_del(server->event);
    rq_timer_start(server->loops[0].loop, &server->pause, ACCEPT_PAUSE_MS);
}

static void on_acceptable(evutil_socket_t listen_fd, short what, void *arg)
{
    (void)what;
    struct rq_server *server = arg;
    rq_loop_awake(server->loops[0].loop);
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            server->starved = false;
            hand_out(server, fd);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(server);
            return;
        }
        /* Any other failure is that of a connection which is gone already. */
    }
}

/* ---- life ---- */

static int listen_on(const struct sockaddr *addr, socklen_t n)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    const int one = 1;
    const int zero = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (addr->sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    }
    if (bind(fd, addr, n) != 0 || listen(fd, BACKLOG) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    rq_fork_hide(fd);
    return fd;
}

static int listen_everywhere(uint16_t port)
{
    const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int fd = listen_on((const struct sockaddr *)&v6, sizeof v6);
    if (fd < 0 && errno != EADDRINUSE && errno != EACCES) {
        const struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
        fd = listen_on((const struct sockaddr *)&v4, sizeof v4);
    }
    return fd;
}

static rmq_status listen_named(struct rq_server *server, rmq_error **err)
{
    const struct rq_server_options *options = &server->options;
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)options->port);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(options->address, port, &hints, &list);
    if (rc != 0 || !list) {
        return rq_error_set(err, RMQ_ERR_RESOLVE, "listen on %s:%s: %s", options->address, port,
                            gai_strerror(rc));
    }
    server->fd = listen_on(list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return RMQ_OK;
}

static rmq_status open_port(struct rq_server *server, rmq_error **err)
{
    const struct rq_server_options *options = &server->options;
    rmq_status st = RMQ_OK;
    if (options->address) {
        st = listen_named(server, err);
    } else {
        server->fd = listen_everywhere(options->port);
    }
    if (st == RMQ_OK && server->fd < 0) {
        st = rq_error_set(err, RMQ_ERR_IO, "listen on %s:%u: %s",
                          options->address ? options->address : "*", (unsigned)options->port,
                          strerror(errno));
    }
    if (st != RMQ_OK) {
        return st;
    }
    union rq_sockaddr addr;
    memset(&addr, 0, sizeof addr);
    socklen_t n = sizeof addr;
    getsockname(server->fd, &addr.any, &n);
    server->port = ntohs(addr.any.sa_family == AF_INET6 ? addr.v6.sin6_port : addr.v4.sin_port);
    return RMQ_OK;
}

static void default_options(struct rq_server_options *options)
{
    if (options->high_water == 0) {
        options->high_water = HIGH_WATER;
    }
    if (options->max_queued == 0) {
        options->max_queued = MAX_QUEUED;
    }
    if (options->idle_ms == 0) {
        options->idle_ms = IDLE_MS;
    }
    if (options->max_connections <= 0) {
        options->max_connections = MAX_CONNECTIONS;
    }
}

static void free_server(struct rq_server *server)
{
    if (server->fd >= 0) {
        rq_close_socket(&server->fd);
    }
    rq_free(server->loops);
    rq_free(server);
}

static struct rq_server *make_server(const struct rq_server_options *options)
{
    struct rq_server *server = rq_calloc(1, sizeof *server);
    struct server_loop *loops = rq_calloc((size_t)options->loop_count, sizeof *loops);
    if (!server || !loops) {
        rq_free(server);
        rq_free(loops);
        return NULL;
    }
    server->options = *options;
    default_options(&server->options);
    server->ops = (struct rq_conn_ops){
        .on_request = on_request, .on_close = on_close, .on_first_bytes = options->on_first_bytes};
    server->fd = -1;
    server->loops = loops;
    atomic_init(&server->connections, 0);
    rq_timer_init(&server->pause, on_pause_over);
    for (int i = 0; i < options->loop_count; i++) {
        loops[i].server = server;
        loops[i].loop = options->loops[i];
        rq_list_init(&loops[i].conns);
    }
    return server;
}

static void start_accepting(void *arg)
{
    struct rq_server *server = arg;
    struct rq_loop *loop = server->loops[0].loop;
    server->event = event_new(loop->base, server->fd, EV_READ | EV_PERSIST, on_acceptable, server);
    if (server->event && event_add(server->event, NULL) != 0) {
        event_free(server->event);
        server->event = NULL;
    }
}

rmq_status rq_server_create(const struct rq_server_options *options, struct rq_server **out,
                            rmq_error **err)
{
    if (options->loop_count < 1) {
        return rq_error_set(err, RMQ_ERR_INVALID, "a server needs a loop");
    }
    struct rq_server *server = make_server(options);
    if (!server) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "server: out of memory");
    }
    rmq_status st = open_port(server, err);
    if (st != RMQ_OK) {
        free_server(server);
        return st;
    }
    if (!rq_loop_run(server->loops[0].loop, start_accepting, server) || !server->event) {
        free_server(server);
        return rq_error_set(err, RMQ_ERR_NOMEM, "server: cannot watch its port");
    }
    for (int i = 0; i < options->loop_count; i++) {
        rq_loop_retain(server->loops[i].loop);
    }
    *out = server;
    return RMQ_OK;
}

uint16_t rq_server_port(const struct rq_server *server)
{
    return server->port;
}

int rq_server_connections(struct rq_server *server)
{
    return atomic_load_explicit(&server->connections, memory_order_relaxed);
}

static void stop_accepting(void *arg)
{
    struct rq_server *server = arg;
    rq_timer_stop(&server->pause);
    if (server->event) {
        event_free(server->event);
        server->event = NULL;
        rq_close_socket(&server->fd);
    }
}

void rq_server_stop_accepting(struct rq_server *server)
{
    rq_loop_run(server->loops[0].loop, stop_accepting, server);
}

struct walk {
    struct server_loop *home;
    void (*fn)(struct rq_conn *conn, void *arg);
    void *arg;
};

static void walk_loop(void *arg)
{
    struct walk *walk = arg;
    RQ_LIST_FOREACH_SAFE(node, next, &walk->home->conns)
    {
        walk->fn(RQ_CONTAINER_OF(node, struct server_conn, node)->conn, walk->arg);
    }
}

void rq_server_each(struct rq_server *server, void (*fn)(struct rq_conn *conn, void *arg),
                    void *arg)
{
    for (int i = 0; i < server->options.loop_count; i++) {
        struct walk walk = {.home = &server->loops[i], .fn = fn, .arg = arg};
        rq_loop_run(walk.home->loop, walk_loop, &walk);
    }
}

struct closing {
    struct server_loop *home;
    struct rq_gate gate;
};

static void close_loop(void *arg)
{
    struct closing *closing = arg;
    struct server_loop *home = closing->home;
    home->closing = true;
    home->ended = &closing->gate;
    RQ_LIST_FOREACH_SAFE(node, next, &home->conns)
    {
        rq_conn_close(RQ_CONTAINER_OF(node, struct server_conn, node)->conn, RMQ_ERR_CLOSED);
    }
    check_ended(home);
}

void rq_server_destroy(struct rq_server *server)
{
    if (!server || rq_loop_forked(server->loops[0].loop)) {
        return;
    }
    rq_server_stop_accepting(server);
    for (int i = 0; i < server->options.loop_count; i++) {
        /* Newcomers are before us in the loop's list of tasks. */
        struct closing closing = {.home = &server->loops[i]};
        rq_gate_init(&closing.gate);
        rq_loop_run(closing.home->loop, close_loop, &closing);
        rq_gate_wait(&closing.gate, RQ_FOREVER);
    }
    for (int i = 0; i < server->options.loop_count; i++) {
        rq_loop_put(server->loops[i].loop);
    }
    free_server(server);
}
