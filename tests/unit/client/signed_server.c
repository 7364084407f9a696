/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The server of the tests of signing (see the header). */
#include "unit/client/signed_server.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/out_frame.h"
#include "wire/codes.h"

#define CLIENTS_MAX 16
#define FRAME_MAX   65536

struct client {
    int fd;
    size_t len;
    char data[FRAME_MAX];
};

static void send_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t written = send(fd, p, n, MSG_NOSIGNAL);
        if (written <= 0) {
            return; /* the client has gone */
        }
        p += written;
        n -= (size_t)written;
    }
}

static void answer(const struct signed_server *server, int fd, const struct rq_header *request,
                   bool good)
{
    static const struct rq_ext stored[] = {{{"msgId", 5}, {"7F00000100002A9F0000000000000000", 32}},
                                           {{"queueId", 7}, {"0", 1}},
                                           {{"queueOffset", 11}, {"0", 1}}};
    char route[512];
    struct rq_slice body = rq_slice(NULL, 0);
    struct rq_frame_spec spec =
        rq_frame_response(request, good ? RQ_RESP_SUCCESS : RQ_RESP_NO_PERMISSION, NULL, NULL);
    if (!good) {
        spec.remark = rq_slice_str("signature does not match");
    } else if (request->code == RQ_REQ_GET_ROUTEINFO_BY_TOPIC) {
        int n = snprintf(route, sizeof route,
                         "{\"brokerDatas\":[{\"brokerAddrs\":{\"0\":\"%s\"},\"brokerName\":\"a\","
                         "\"cluster\":\"c\"}],\"queueDatas\":[{\"brokerName\":\"a\",\"perm\":6,"
                         "\"readQueueNums\":1,\"writeQueueNums\":1,\"topicSysFlag\":0}]}",
                         server->addr);
        body = rq_slice(route, (size_t)n);
    } else {
        spec.extra = stored;
        spec.extra_count = 3;
    }
    struct rq_out *out = rq_out_create(0);
    ck_assert_int_eq(rq_out_encode(out, &spec, body, NULL), RMQ_OK);
    send_all(fd, out->head.data, out->head.len);
    rq_out_destroy(out);
}

static void take(struct signed_server *server, int fd, char *bytes, size_t n)
{
    struct rq_frame frame;
    ck_assert_int_eq(rq_frame_decode(bytes, n, &frame, NULL), RMQ_OK);
    bool good = server->is_good(&frame);
    atomic_fetch_add(&server->bad, !good);
    good = good || frame.header.code == RQ_REQ_GET_ROUTEINFO_BY_TOPIC;
    atomic_fetch_add(&server->seen[frame.header.code % SIGNED_CODES], 1);
    if (!rq_header_is_oneway(&frame.header)) {
        answer(server, fd, &frame.header, good);
    }
}

/* false: the client is gone. */
static bool serve(struct signed_server *server, struct client *client)
{
    ssize_t n = recv(client->fd, client->data + client->len, FRAME_MAX - client->len, 0);
    size_t size = 0;
    if (n <= 0) {
        return false;
    }
    client->len += (size_t)n;
    while (rq_frame_size(client->data, client->len, FRAME_MAX, &size, NULL) == RMQ_OK && size > 0 &&
           size <= client->len) {
        take(server, client->fd, client->data, size);
        client->len -= size;
        memmove(client->data, client->data + size, client->len);
    }
    return true;
}

static void *run(void *arg)
{
    struct signed_server *server = arg;
    static struct client clients[CLIENTS_MAX];
    nfds_t count = 0;
    for (;;) {
        struct pollfd fds[CLIENTS_MAX + 2] = {{.fd = server->wake[0], .events = POLLIN},
                                              {.fd = server->listener, .events = POLLIN}};
        for (nfds_t i = 0; i < count; i++) {
            fds[i + 2] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
        }
        (void)poll(fds, count + 2, -1);
        if (fds[0].revents) {
            break;
        }
        for (nfds_t i = 0; i < count; i++) {
            if (clients[i].fd >= 0 && fds[i + 2].revents && !serve(server, &clients[i])) {
                close(clients[i].fd);
                clients[i].fd = -1; /* poll passes it over */
            }
        }
        if (fds[1].revents) {
            ck_assert_uint_lt(count, CLIENTS_MAX);
            clients[count].len = 0;
            clients[count++].fd = accept(server->listener, NULL, NULL);
        }
    }
    for (nfds_t i = 0; i < count; i++) {
        if (clients[i].fd >= 0) {
            close(clients[i].fd);
        }
    }
    return NULL;
}

void signed_server_start(struct signed_server *server,
                         bool (*is_good)(const struct rq_frame *frame))
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    memset(server, 0, sizeof *server);
    server->is_good = is_good;
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(server->listener, (struct sockaddr *)&in, size), 0);
    ck_assert_int_eq(listen(server->listener, CLIENTS_MAX), 0);
    ck_assert_int_eq(getsockname(server->listener, (struct sockaddr *)&in, &size), 0);
    snprintf(server->addr, sizeof server->addr, "127.0.0.1:%d", ntohs(in.sin_port));
    ck_assert_int_eq(pipe(server->wake), 0);
    ck_assert_int_eq(pthread_create(&server->thread, NULL, run, server), 0);
}

void signed_server_stop(struct signed_server *server)
{
    ck_assert_int_eq(write(server->wake[1], "x", 1), 1);
    pthread_join(server->thread, NULL);
    close(server->wake[0]);
    close(server->wake[1]);
    close(server->listener);
}
