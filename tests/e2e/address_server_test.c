/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Name servers by an address server: a list over HTTP, asked for at the start and again and
 * again. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/usage.h"

#define WAIT_MS 20000

struct server {
    pthread_t thread;
    int listener;
    char url[96];
    pthread_mutex_t lock;
    char answer[512];   /* guarded by lock */
    char request[1024]; /* guarded by lock: the last one */
    atomic_int asked;
};

static void serve_one(struct server *server, int fd)
{
    char request[1024] = "";
    ssize_t n = recv(fd, request, sizeof request - 1, 0);
    char answer[512];
    pthread_mutex_lock(&server->lock);
    snprintf(answer, sizeof answer, "%s", server->answer);
    snprintf(server->request, sizeof server->request, "%.*s", n > 0 ? (int)n : 0, request);
    pthread_mutex_unlock(&server->lock);
    (void)!send(fd, answer, strlen(answer), MSG_NOSIGNAL);
    atomic_fetch_add(&server->asked, 1);
    close(fd);
}

static void *serve(void *arg)
{
    struct server *server = arg;
    int fd;
    while ((fd = accept(server->listener, NULL, NULL)) >= 0) {
        serve_one(server, fd);
    }
    return NULL;
}

static void set_answer(struct server *server, const char *head, const char *body)
{
    pthread_mutex_lock(&server->lock);
    snprintf(server->answer, sizeof server->answer, "%s\r\nContent-Type: text/plain\r\n\r\n%s",
             head, body);
    pthread_mutex_unlock(&server->lock);
}

static void start_server(struct server *server)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    memset(server, 0, sizeof *server);
    pthread_mutex_init(&server->lock, NULL);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TL_EQUAL(bind(server->listener, (struct sockaddr *)&in, size), 0);
    TL_EQUAL(listen(server->listener, 16), 0);
    TL_EQUAL(getsockname(server->listener, (struct sockaddr *)&in, &size), 0);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d/rocketmq/nsaddr",
             ntohs(in.sin_port));
    TL_EQUAL(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stop_server(struct server *server)
{
    (void)shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
}

static rmq_status create(const char *url, const char *unit, rmq_producer **out, rmq_error **err)
{
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = "addressed";
    options.namesrv_addr = url;
    options.unit_name = unit;
    options.poll_name_server_interval_ms = 100; /* the list every 400 ms */
    return rmq_producer_create(&options, out, err);
}

static void send_one(const struct tl_cluster *cluster, rmq_producer *producer)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_EQUAL(rmq_message_copy_body(message, "a", 1), RMQ_OK);
    TL_OK(rmq_producer_send(producer, message, WAIT_MS, NULL, &err));
    rmq_message_destroy(message);
}

static bool is_asked(void *arg)
{
    return tl_namesrv_asked(arg) > 0;
}

static void the_list_is_read_at_the_start_and_followed_when_it_changes(void)
{
    struct tl_cluster cluster;
    struct server server;
    char text[256];
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    start_server(&server);
    snprintf(text, sizeof text, "%s\nthis line is not of the list\n", cluster.namesrv);
    set_answer(&server, "HTTP/1.1 200 OK", text);
    TL_OK(create(server.url, NULL, &producer, &err));
    TL_CHECK(strncmp(server.request, "GET /rocketmq/nsaddr HTTP/1.0\r\n", 31) == 0);
    send_one(&cluster, producer);
    struct tl_namesrv *other = tl_namesrv_start();
    snprintf(text, sizeof text, "a@%s", rmq_broker_addr(cluster.broker));
    tl_namesrv_brokers(other, cluster.topic, text, 2);
    set_answer(&server, "HTTP/1.1 200 OK", tl_namesrv_addr(other));
    TL_CHECK(tl_wait(is_asked, other, WAIT_MS)); /* routes come from there now */
    /* A server that fails changes nothing. */
    set_answer(&server, "HTTP/1.1 500 Oops", "");
    int before = atomic_load(&server.asked);
    int64_t until = tl_now_ms() + WAIT_MS;
    while (atomic_load(&server.asked) < before + 2 && tl_now_ms() < until) {
        usleep(1000);
    }
    send_one(&cluster, producer);
    rmq_producer_destroy(producer);
    tl_namesrv_stop(other);
    stop_server(&server);
    tl_cluster_stop(&cluster);
}

static void a_unit_has_a_list_of_its_own(void)
{
    struct server server;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    start_server(&server);
    set_answer(&server, "HTTP/1.1 200 OK", "127.0.0.1:9876");
    TL_OK(create(server.url, "north", &producer, &err));
    TL_CHECK(strncmp(server.request, "GET /rocketmq/nsaddr-north?nofix=1 HTTP", 39) == 0);
    rmq_producer_destroy(producer);
    stop_server(&server);
}

static void a_first_list_that_cannot_be_had_is_an_error_with_the_address(void)
{
    struct server server;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    start_server(&server);
    set_answer(&server, "HTTP/1.1 404 Not Found", "");
    TL_EQUAL(create(server.url, NULL, &producer, &err), RMQ_ERR_NO_NAMESRV);
    TL_CHECK(strstr(rmq_error_message(err), server.url) != NULL);
    TL_CHECK(strstr(rmq_error_message(err), "404") != NULL);
    rmq_error_destroy(err);
    set_answer(&server, "SSH-2.0", "");
    TL_EQUAL(create(server.url, NULL, &producer, NULL), RMQ_ERR_NO_NAMESRV);
    set_answer(&server, "HTTP/1.1 200 OK", "\n");
    TL_EQUAL(create(server.url, NULL, &producer, NULL), RMQ_ERR_NO_NAMESRV);
    set_answer(&server, "HTTP/1.1 200 OK", "no-port");
    TL_EQUAL(create(server.url, NULL, &producer, NULL), RMQ_ERR_INVALID);
    set_answer(&server, "HTTP/1.1 200 OK", "<html><body>It works!</body></html>");
    err = NULL;
    TL_EQUAL(create(server.url, NULL, &producer, &err), RMQ_ERR_INVALID);
    TL_CHECK(strstr(rmq_error_message(err), server.url) != NULL);
    rmq_error_destroy(err);
    err = NULL;
    TL_EQUAL(create("https://127.0.0.1/nsaddr", NULL, &producer, &err), RMQ_ERR_INVALID);
    TL_CHECK(strstr(rmq_error_message(err), "there is no TLS") != NULL);
    rmq_error_destroy(err);
    stop_server(&server);
}

static void an_endpoint_with_http_before_it_is_a_name_server(void)
{
    struct tl_cluster cluster;
    char text[160];
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    tl_cluster_start(&cluster, 2);
    snprintf(text, sizeof text, "http://%s", cluster.namesrv);
    TL_OK(create(text, NULL, &producer, &err));
    send_one(&cluster, producer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(the_list_is_read_at_the_start_and_followed_when_it_changes),
        TL_CASE(a_unit_has_a_list_of_its_own),
        TL_CASE(a_first_list_that_cannot_be_had_is_an_error_with_the_address),
        TL_CASE(an_endpoint_with_http_before_it_is_a_name_server),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
