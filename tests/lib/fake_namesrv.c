/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The fake name server: a table of answers, guarded by a lock. */
#include "lib/fake_namesrv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/frame_server.h"
#include "lib/port.h"

enum { MAX_ROUTES = 32, ROUTE = 105, NO_ROUTE = 17 };

struct route {
    char topic[128]; /* "" = every */
    int code;
    char *body;
};

struct tl_namesrv {
    struct tl_server *server;
    pthread_mutex_t lock;
    /* guarded by lock */
    struct route routes[MAX_ROUTES];
    int route_count;
    uint64_t asked;
    bool silent;
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

static void serve(const struct tl_header *request, const char *frame, size_t n,
                  struct tl_reply *reply, void *user)
{
    struct tl_namesrv *ns = user;
    char topic[128];
    tl_frame_ext(frame, n, "topic", topic, sizeof topic);
    pthread_mutex_lock(&ns->lock);
    ns->asked++;
    reply->silent = ns->silent;
    if (request->code == ROUTE) {
        const struct route *route = find(ns, topic);
        reply->code = route ? route->code : NO_ROUTE;
        reply->body = route && route->body ? strdup(route->body) : NULL;
        reply->body_len = reply->body ? strlen(reply->body) : 0;
        reply->remark = reply->code ? "No topic route info in name server for the topic" : NULL;
    }
    pthread_mutex_unlock(&ns->lock);
}

struct tl_namesrv *tl_namesrv_start(void)
{
    struct tl_namesrv *ns = calloc(1, sizeof *ns);
    pthread_mutex_init(&ns->lock, NULL);
    ns->server = tl_server_start(serve, ns);
    return ns;
}

const char *tl_namesrv_addr(const struct tl_namesrv *ns)
{
    return tl_server_addr(ns->server);
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

struct tl_namesrv *tl_namesrv_of_dead(const char *broker, char *addr, size_t room)
{
    char brokers[128];
    struct tl_namesrv *ns = tl_namesrv_start();
    tl_port_kept(addr, room);
    (void)snprintf(brokers, sizeof brokers, "%s@%s", broker, addr);
    tl_namesrv_brokers(ns, "Topic", brokers, 4);
    return ns;
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
    tl_server_stop(ns->server);
    for (int i = 0; i < ns->route_count; i++) {
        free(ns->routes[i].body);
    }
    pthread_mutex_destroy(&ns->lock);
    free(ns);
}
