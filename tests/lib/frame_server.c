/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The server of frames: one thread, poll, a buffer for each client. */
#include "lib/frame_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_CLIENTS = 128 };

struct client {
    int fd;
    size_t len;
    char data[65536];
};

struct tl_server {
    pthread_t thread;
    int listener;
    int wake[2]; /* something in it: stop */
    char addr[32];
    tl_serve serve;
    void *user;
    struct client *clients[MAX_CLIENTS]; /* its thread */
};

static void send_all(int fd, const char *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t w = send(fd, p + done, n - done, MSG_NOSIGNAL);
        if (w <= 0) {
            return;
        }
        done += (size_t)w;
    }
}

static void answer(struct tl_server *server, int fd, const char *frame, size_t n)
{
    struct tl_header request = {0};
    struct tl_reply reply = {0};
    if (!tl_frame_header(frame, n, &request)) {
        return;
    }
    server->serve(&request, frame, n, &reply, server->user);
    if (!reply.silent && !(request.flag & 2)) {
        struct tl_header header = {.code = reply.code, .opaque = request.opaque, .flag = 1};
        size_t size = 0;
        char *text =
            tl_frame_make(&header, reply.remark, reply.ext, reply.body, reply.body_len, &size);
        send_all(fd, text, size);
        free(text);
    }
    free(reply.ext);
    free(reply.body);
}

/* false when the client is gone. */
static bool read_client(struct tl_server *server, struct client *client)
{
    ssize_t n = recv(client->fd, client->data + client->len, sizeof client->data - client->len,
                     MSG_DONTWAIT);
    if (n <= 0) {
        return false;
    }
    client->len += (size_t)n;
    for (;;) {
        long size = tl_frame_size(client->data, client->len);
        if (size <= 0) {
            return size == 0 && client->len < sizeof client->data;
        }
        answer(server, client->fd, client->data, (size_t)size);
        client->len -= (size_t)size;
        memmove(client->data, client->data + size, client->len);
    }
}

static void drop(struct tl_server *server, int i)
{
    close(server->clients[i]->fd);
    free(server->clients[i]);
    server->clients[i] = NULL;
}

static void accept_client(struct tl_server *server)
{
    int one = 1;
    int fd = accept(server->listener, NULL, NULL);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; fd >= 0 && i < MAX_CLIENTS; i++) {
        if (!server->clients[i]) {
            server->clients[i] = calloc(1, sizeof *server->clients[i]);
            server->clients[i]->fd = fd;
            return;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void *server_main(void *arg)
{
    struct tl_server *server = arg;
    for (;;) {
        struct pollfd fds[2 + MAX_CLIENTS] = {{.fd = server->listener, .events = POLLIN},
                                              {.fd = server->wake[0], .events = POLLIN}};
        for (int i = 0; i < MAX_CLIENTS; i++) {
            fds[2 + i] = (struct pollfd){.fd = server->clients[i] ? server->clients[i]->fd : -1,
                                         .events = POLLIN};
        }
        poll(fds, 2 + MAX_CLIENTS, -1);
        if (fds[1].revents) {
            break;
        }
        for (int i = 0; i < MAX_CLIENTS; i++) {
            if (fds[2 + i].revents && server->clients[i] &&
                !read_client(server, server->clients[i])) {
                drop(server, i);
            }
        }
        if (fds[0].revents) {
            accept_client(server);
        }
    }
    for (int i = 0; i < MAX_CLIENTS; i++) {
        if (server->clients[i]) {
            drop(server, i);
        }
    }
    return NULL;
}

struct tl_server *tl_server_start(tl_serve serve, void *user)
{
    struct tl_server *server = calloc(1, sizeof *server);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    server->serve = serve;
    server->user = user;
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server->listener, (struct sockaddr *)&addr, sizeof addr) < 0 ||
        listen(server->listener, 64) < 0 ||
        getsockname(server->listener, (struct sockaddr *)&addr, &len) < 0 ||
        pipe2(server->wake, O_CLOEXEC) < 0) {
        perror("server of frames");
        abort();
    }
    snprintf(server->addr, sizeof server->addr, "127.0.0.1:%d", ntohs(addr.sin_port));
    if (pthread_create(&server->thread, NULL, server_main, server) != 0) {
        abort();
    }
    return server;
}

const char *tl_server_addr(const struct tl_server *server)
{
    return server->addr;
}

void tl_server_stop(struct tl_server *server)
{
    if (write(server->wake[1], "s", 1) != 1) {
        abort();
    }
    pthread_join(server->thread, NULL);
    close(server->listener);
    close(server->wake[0]);
    close(server->wake[1]);
    free(server);
}
