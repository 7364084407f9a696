/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Pages over HTTP, by libevent's evhttp. All but create and destroy on the loop thread. */
#include "net/http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/buffer.h>
#include <event2/http.h>

#include "base/err.h"
#include "base/fork.h"
#include "base/mem.h"
#include "net/loop_priv.h"

#define TIMEOUT_S   10
#define HEADERS_MAX 8192
#define MAX_PAGE    ((size_t)64 << 20)

struct rq_http {
    struct rq_loop *loop; /* a reference */
    rq_http_fn handler;   /* immutable after create */
    void *user;
    int port;
    /* owned by the loop thread */
    struct evhttp *server;
    struct evhttp_bound_socket *socket; /* the server's */
};

/* What create and destroy do on the loop thread. */
struct opening {
    struct rq_http *http;
    const char *address;
    uint16_t port;
    rmq_status st;
    rmq_error **err;
};

static void send_page(struct evhttp_request *request, struct rq_http_page *page)
{
    struct evbuffer *body = evbuffer_new();
    bool ok = body && rq_buf_status(&page->body) == RMQ_OK &&
              evbuffer_add(body, page->body.data ? page->body.data : "", page->body.len) == 0 &&
              evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type",
                                page->content_type) == 0;
    if (ok) {
        evhttp_send_reply(request, page->status, NULL, body);
    } else {
        evhttp_send_error(request, HTTP_INTERNAL, "out of memory");
    }
    if (body) {
        evbuffer_free(body);
    }
}

static void on_request(struct evhttp_request *request, void *arg)
{
    struct rq_http *http = arg;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    struct rq_http_page page = {.status = HTTP_OK, .content_type = "text/plain; charset=utf-8"};
    rq_buf_init(&page.body, MAX_PAGE);
    http->handler(http->user, path && *path ? path : "/", &page);
    send_page(request, &page);
    rq_buf_free(&page.body);
}

static int port_of(struct evhttp_bound_socket *socket)
{
    struct sockaddr_storage addr;
    socklen_t size = sizeof addr;
    memset(&addr, 0, sizeof addr);
    if (getsockname(evhttp_bound_socket_get_fd(socket), (struct sockaddr *)(void *)&addr, &size)) {
        return 0;
    }
    return addr.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)(void *)&addr)->sin6_port)
                                      : ntohs(((struct sockaddr_in *)(void *)&addr)->sin_port);
}

/* libevent writes to standard error why it finds none, and tells it to nobody. */
static rmq_status check_address(const struct opening *opening)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(opening->address, NULL, &hints, &list);
    if (rc != 0) {
        return rq_error_set(opening->err, RMQ_ERR_RESOLVE, "HTTP on %s:%u: %s", opening->address,
                            opening->port, gai_strerror(rc));
    }
    freeaddrinfo(list);
    return RMQ_OK;
}

static void open_it(void *arg)
{
    struct opening *opening = arg;
    struct rq_http *http = opening->http;
    opening->st = check_address(opening);
    if (opening->st) {
        return;
    }
    http->server = evhttp_new(http->loop->base);
    if (!http->server) {
        opening->st = rq_error_set(opening->err, RMQ_ERR_NOMEM, "no memory for an HTTP server");
        return;
    }
    evhttp_set_allowed_methods(http->server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    evhttp_set_timeout(http->server, TIMEOUT_S);
    evhttp_set_max_headers_size(http->server, HEADERS_MAX);
    evhttp_set_max_body_size(http->server, 0);
    evhttp_set_gencb(http->server, on_request, http);
    http->socket = evhttp_bind_socket_with_handle(http->server, opening->address, opening->port);
    if (!http->socket) {
        opening->st = rq_error_set(opening->err, RMQ_ERR_IO, "HTTP on %s:%u: %s", opening->address,
                                   opening->port, strerror(errno));
        return;
    }
    rq_fork_hide(evhttp_bound_socket_get_fd(http->socket));
    http->port = port_of(http->socket);
}

static void close_it(void *arg)
{
    struct rq_http *http = arg;
    if (http->socket) {
        /* a child may have been forked before it was hidden */
        shutdown(evhttp_bound_socket_get_fd(http->socket), SHUT_RDWR);
        rq_fork_forget(evhttp_bound_socket_get_fd(http->socket));
        http->socket = NULL;
    }
    if (http->server) {
        evhttp_free(http->server);
        http->server = NULL;
    }
}

rmq_status rq_http_create(struct rq_loop *loop, const char *address, int port, rq_http_fn handler,
                          void *user, struct rq_http **out, rmq_error **err)
{
    struct rq_http *http = rq_calloc(1, sizeof *http);
    if (!http) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for an HTTP server");
    }
    http->loop = loop;
    http->handler = handler;
    http->user = user;
    rq_loop_retain(loop);
    struct opening opening = {
        .http = http, .address = address, .port = (uint16_t)port, .st = RMQ_OK, .err = err};
    (void)rq_loop_run(loop, open_it, &opening);
    if (opening.st) {
        rq_http_destroy(http);
        return opening.st;
    }
    *out = http;
    return RMQ_OK;
}

int rq_http_port(const struct rq_http *http)
{
    return http->port;
}

void rq_http_destroy(struct rq_http *http)
{
    if (!http) {
        return;
    }
    (void)rq_loop_run(http->loop, close_it, http);
    rq_loop_put(http->loop);
    rq_free(http);
}
