/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The fake name server: one thread, poll, a small table of answers guarded by a lock. */
#include "lib/fake_namesrv.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/frame.h"

enum { MAX_CLIENTS = 128, MAX_ROUTES = 32, ROUTE = 105, NO_ROUTE = 17 };

struct client {
    int fd;
    size_t len;
    char data[65536];
};

struct route {
    char topic[128]; /* "" = every */
    int code;
    char *body;
};

struct tl_namesrv {
    pthread_t thread;
    int listener;
    int wake[2];
    char addr[32];
    struct client *clients[MAX_CLIENTS]; /* its thread */
    pthread_mutex_t lock;
    /* guarded by lock */
    struct route routes[MAX_ROUTES];
    int route_count;
    uint64_t asked;
    bool silent;
    bool stop;
};

static const struct route *find(struct tl_namesrv *ns, const char *topic)
{
    const struct route *fallback = NULL;
    for (int i = 0; i < ns->route_count; i++) {
        if (strcmp(ns->routes[i].topic, topic) == 0) {
            return &ns->routes[i];
        }
        if (!ns->routes[i].topic[0]) {
            fallback = &ns->routes[i];
        }
    }
    return fallback;
}

static void answer(struct tl_namesrv *ns, int fd, const char *frame, size_t n)
{
    struct tl_header header = {0};
    char topic[128];
    if (!tl_frame_header(frame, n, &header)) {
        return;
    }
    tl_frame_ext(frame, n, "topic", topic, sizeof topic);
    pthread_mutex_lock(&ns->lock);
    ns->asked++;
    const struct route *route = header.code == ROUTE ? find(ns, topic) : NULL;
    int code = header.code != ROUTE ? 0 : route ? route->code : NO_ROUTE;
    char *body = route && route->body ? strdup(route->body) : NULL;
    bool silent = ns->silent || header.flag & 2;
    pthread_mutex_unlock(&ns->lock);
    if (!silent) {
        struct tl_header out = {.code = code, .opaque = header.opaque, .flag = 1};
        size_t size = 0;
        char *text =
            tl_frame_make(&out, code ? "No topic route info in name server for the topic" : NULL,
                          NULL, body, body ? strlen(body) : 0, &size);
        for (size_t done = 0; done < size;) {
            ssize_t w = send(fd, text + done, size - done, MSG_NOSIGNAL);
            if (w <= 0) {
                break;
            }
            done += (size_t)w;
        }
        free(text);
    }
    free(body);
}

/* false when the client is gone. */
static bool read_client(struct tl_namesrv *ns, struct client *client)
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
        answer(ns, client->fd, client->data, (size_t)size);
        client->len -= (size_t)size;
        memmove(client->data, client->data + size, client->len);
    }
}

static void drop(struct tl_namesrv *ns, int i)
{
    close(ns->clients[i]->fd);
    free(ns->clients[i]);
    ns->clients[i] = NULL;
}

static void accept_client(struct tl_namesrv *ns)
{
    int fd = accept(ns->listener, NULL, NULL);
    for (int i = 0; fd >= 0 && i < MAX_CLIENTS; i++) {
        if (!ns->clients[i]) {
            ns->clients[i] = calloc(1, sizeof *ns->clients[i]);
            ns->clients[i]->fd = fd;
            return;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void *namesrv_main(void *arg)
{
    struct tl_namesrv *ns = arg;
    for (;;) {
        struct pollfd fds[2 + MAX_CLIENTS] = {{.fd = ns->listener, .events = POLLIN},
                                              {.fd = ns->wake[0], .events = POLLIN}};
        for (int i = 0; i < MAX_CLIENTS; i++) {
            fds[2 + i] =
                (struct pollfd){.fd = ns->clients[i] ? ns->clients[i]->fd : -1, .events = POLLIN};
        }
        poll(fds, 2 + MAX_CLIENTS, -1);
        pthread_mutex_lock(&ns->lock);
        bool stop = ns->stop;
        pthread_mutex_unlock(&ns->lock);
        if (stop) {
            break;
        }
        for (int i = 0; i < MAX_CLIENTS; i++) {
            if (fds[2 + i].revents && ns->clients[i] && !read_client(ns, ns->clients[i])) {
                drop(ns, i);
            }
        }
        if (fds[0].revents) {
            accept_client(ns);
        }
    }
    for (int i = 0; i < MAX_CLIENTS; i++) {
        if (ns->clients[i]) {
            drop(ns, i);
        }
    }
    return NULL;
}

struct tl_namesrv *tl_namesrv_start(void)
{
    struct tl_namesrv *ns = calloc(1, sizeof *ns);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    pthread_mutex_init(&ns->lock, NULL);
    ns->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(ns->listener, (struct sockaddr *)&addr, sizeof addr) < 0 ||
        listen(ns->listener, 64) < 0 ||
        getsockname(ns->listener, (struct sockaddr *)&addr, &len) < 0 ||
        pipe2(ns->wake, O_CLOEXEC) < 0 ||
        pthread_create(&ns->thread, NULL, namesrv_main, ns) != 0) {
        perror("fake name server");
        abort();
    }
    snprintf(ns->addr, sizeof ns->addr, "127.0.0.1:%d", ntohs(addr.sin_port));
    return ns;
}

const char *tl_namesrv_addr(const struct tl_namesrv *ns)
{
    return ns->addr;
}

void tl_namesrv_route(struct tl_namesrv *ns, const char *topic, int code, const char *body)
{
    pthread_mutex_lock(&ns->lock);
    int i = 0;
    while (i < ns->route_count && strcmp(ns->routes[i].topic, topic ? topic : "") != 0) {
        i++;
    }
    if (i == MAX_ROUTES) {
        abort();
    }
    ns->route_count = i == ns->route_count ? i + 1 : ns->route_count;
    free(ns->routes[i].body);
    ns->routes[i].code = code;
    ns->routes[i].body = body ? strdup(body) : NULL;
    snprintf(ns->routes[i].topic, sizeof ns->routes[i].topic, "%s", topic ? topic : "");
    pthread_mutex_unlock(&ns->lock);
}

void tl_namesrv_brokers(struct tl_namesrv *ns, const char *topic, const char *brokers, int queues)
{
    char body[4096] = "{\"brokerDatas\":[";
    char tail[2048] = "";
    char *copy = strdup(brokers);
    char *save = NULL;
    const char *comma = "";
    for (char *part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        char *at = strchr(part, '@');
        *at = '\0';
        size_t n = strlen(body);
        snprintf(
            body + n, sizeof body - n,
            "%s{\"brokerAddrs\":{0:\"%s\"},\"brokerName\":\"%s\",\"cluster\":\"DefaultCluster\"}",
            comma, at + 1, part);
        n = strlen(tail);
        snprintf(tail + n, sizeof tail - n,
                 "%s{\"brokerName\":\"%s\",\"perm\":6,\"readQueueNums\":%d,\"topicSysFlag\":0,"
                 "\"writeQueueNums\":%d}",
                 comma, part, queues, queues);
        comma = ",";
    }
    free(copy);
    size_t n = strlen(body);
    snprintf(body + n, sizeof body - n, "],\"filterServerTable\":{},\"queueDatas\":[%s]}", tail);
    tl_namesrv_route(ns, topic, 0, body);
}

void tl_namesrv_silent(struct tl_namesrv *ns, bool on)
{
    pthread_mutex_lock(&ns->lock);
    ns->silent = on;
    pthread_mutex_unlock(&ns->lock);
}

uint64_t tl_namesrv_asked(struct tl_namesrv *ns)
{
    pthread_mutex_lock(&ns->lock);
    uint64_t n = ns->asked;
    pthread_mutex_unlock(&ns->lock);
    return n;
}

void tl_namesrv_stop(struct tl_namesrv *ns)
{
    pthread_mutex_lock(&ns->lock);
    ns->stop = true;
    pthread_mutex_unlock(&ns->lock);
    if (write(ns->wake[1], "s", 1) != 1) {
        abort();
    }
    pthread_join(ns->thread, NULL);
    for (int i = 0; i < ns->route_count; i++) {
        free(ns->routes[i].body);
    }
    close(ns->listener);
    close(ns->wake[0]);
    close(ns->wake[1]);
    free(ns);
}
