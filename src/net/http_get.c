/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* GET over a blocking socket with a deadline (see the header). The thread of a fetch shares only
 * the job with the loop. */
#include "net/http_get.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/thread.h"
#include "base/time.h"

#define ANSWER_MAX ((size_t)64 * 1024)

struct url {
    char host[256];
    char port[8];
    const char *path;
};

static rmq_status split(const char *text, struct url *url, rmq_error **err)
{
    static const char scheme[] = "http://";
    const char *host = text + sizeof scheme - 1;
    bool good = strncmp(text, scheme, sizeof scheme - 1) == 0;
    size_t n = good ? strcspn(host, ":/") : 0;
    const char *behind = host + n;
    size_t port_n = good && *behind == ':' ? strcspn(behind + 1, "/") : 0;
    if (n == 0 || n >= sizeof url->host || port_n >= sizeof url->port || strpbrk(text, "\r\n ")) {
        return rq_error_set(err, RMQ_ERR_INVALID, "\"%s\" is not http://host[:port]/path", text);
    }
    (void)snprintf(url->host, sizeof url->host, "%.*s", (int)n, host);
    (void)snprintf(url->port, sizeof url->port, "%.*s", port_n ? (int)port_n : 2,
                   port_n ? behind + 1 : "80");
    url->path = port_n ? behind + 1 + port_n : behind;
    return RMQ_OK;
}

/* Waits until the socket is ready; RMQ_ERR_TIMEOUT at the deadline. */
static rmq_status wait_ready(int fd, short what, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - rq_mono_ms();
        struct pollfd p = {.fd = fd, .events = what};
        int n = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (n != -1 || errno != EINTR) {
            return n > 0 ? RMQ_OK : n == 0 ? RMQ_ERR_TIMEOUT : RMQ_ERR_IO;
        }
    }
}

static rmq_status connect_one(const struct addrinfo *addr, int64_t deadline_ms, int *out)
{
    int fd = socket(addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return RMQ_ERR_IO;
    }
    rmq_status st = RMQ_OK;
    if (connect(fd, addr->ai_addr, addr->ai_addrlen) != 0) {
        int error = errno;
        socklen_t size = sizeof error;
        st = error == EINPROGRESS ? wait_ready(fd, POLLOUT, deadline_ms) : RMQ_ERR_CONNECT;
        if (st == RMQ_OK &&
            (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)) {
            st = RMQ_ERR_CONNECT;
        }
    }
    if (st != RMQ_OK) {
        (void)close(fd);
        return st;
    }
    *out = fd;
    return RMQ_OK;
}

static rmq_status open_connection(const struct url *url, int64_t deadline_ms, int *fd)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    if (getaddrinfo(url->host, url->port, &hints, &list) != 0) {
        return RMQ_ERR_RESOLVE;
    }
    rmq_status st = RMQ_ERR_RESOLVE;
    for (const struct addrinfo *p = list; p && st != RMQ_OK; p = p->ai_next) {
        st = connect_one(p, deadline_ms, fd);
    }
    freeaddrinfo(list);
    return st;
}

static rmq_status send_request(int fd, const struct url *url, int64_t deadline_ms)
{
    struct rq_buf text;
    rq_buf_init(&text, 8192);
    rq_buf_addf(&text, "GET %s HTTP/1.0\r\nHost: %s:%s\r\nConnection: close\r\n\r\n",
                *url->path ? url->path : "/", url->host, url->port);
    rmq_status st = rq_buf_status(&text);
    for (size_t at = 0; st == RMQ_OK && at < text.len;) {
        st = wait_ready(fd, POLLOUT, deadline_ms);
        ssize_t n = st == RMQ_OK ? send(fd, text.data + at, text.len - at, MSG_NOSIGNAL) : 0;
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            st = RMQ_ERR_DISCONNECTED;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    rq_buf_free(&text);
    return st;
}

static rmq_status read_answer(int fd, int64_t deadline_ms, struct rq_buf *answer)
{
    for (;;) {
        char piece[4096];
        rmq_status st = wait_ready(fd, POLLIN, deadline_ms);
        ssize_t n = st == RMQ_OK ? recv(fd, piece, sizeof piece, 0) : 0;
        if (st != RMQ_OK || n == 0) {
            return st;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return RMQ_ERR_DISCONNECTED;
        }
        rq_buf_add(answer, piece, n > 0 ? (size_t)n : 0);
        if (rq_buf_status(answer) != RMQ_OK) {
            return rq_buf_status(answer);
        }
    }
}

/* "HTTP/1.x 200 …", headers, an empty line, the body. */
static rmq_status take_body(struct rq_buf *answer, const char *url, struct rq_buf *body,
                            rmq_error **err)
{
    const char *text = rq_buf_cstr(answer);
    int code = 0;
    const char *end = strstr(text, "\r\n\r\n");
    if (sscanf(text, "HTTP/1.%*1d %3d", &code) != 1 || !end) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "%s: the answer is no HTTP", url);
    }
    if (code != 200) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "%s: answered %d", url, code);
    }
    rq_buf_add_str(body, end + 4);
    return rq_buf_status(body);
}

rmq_status rq_http_get(const char *text, int64_t timeout_ms, struct rq_buf *body, rmq_error **err)
{
    struct url url;
    int fd = -1;
    int64_t deadline = rq_deadline_ms(timeout_ms);
    rmq_status st = split(text, &url, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_buf answer;
    rq_buf_init(&answer, ANSWER_MAX);
    st = open_connection(&url, deadline, &fd);
    if (st == RMQ_OK) {
        st = send_request(fd, &url, deadline);
    }
    if (st == RMQ_OK) {
        st = read_answer(fd, deadline, &answer);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    st = st == RMQ_OK ? take_body(&answer, text, body, err)
                      : rq_error_set(err, st, "%s: %s", text, rmq_status_text(st));
    rq_buf_free(&answer);
    return st;
}

/* ---- on a thread ---- */

/* Shared by thread and loop. */
struct job {
    atomic_int refs;             /* atomic: relaxed up, acq_rel down */
    struct rq_mutex lock;        /* rank 97 */
    struct rq_http_fetch *fetch; /* guarded by lock: NULL when nobody waits any more */
    int64_t timeout_ms;
    struct rq_buf body; /* the thread's until it has posted */
    rmq_error *err;     /* likewise */
    char url[];
};

struct rq_http_fetch {
    struct rq_loop *loop;
    struct job *job;
    struct rq_thread thread;
    struct rq_task task;
    rq_http_done *done; /* NULL once cancelled */
    void *user;
};

static void release_job(struct job *job)
{
    if (atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) == 1) {
        rq_buf_free(&job->body);
        rmq_error_destroy(job->err);
        rq_mutex_destroy(&job->lock);
        rq_free(job);
    }
}

static void run(void *arg)
{
    struct job *job = arg;
    (void)rq_http_get(job->url, job->timeout_ms, &job->body, &job->err);
    rq_mutex_lock(&job->lock);
    if (job->fetch) { /* with the lock: the loop is there as long as somebody waits */
        (void)rq_loop_post(job->fetch->loop, &job->fetch->task);
        job->fetch = NULL;
    }
    rq_mutex_unlock(&job->lock);
    release_job(job);
}

static void deliver(struct rq_task *task)
{
    struct rq_http_fetch *fetch = RQ_CONTAINER_OF(task, struct rq_http_fetch, task);
    struct job *job = fetch->job;
    rq_thread_join(&fetch->thread); /* it has posted: it is at its end */
    if (fetch->done) {
        fetch->done(fetch->user, job->err ? "" : rq_buf_cstr(&job->body), job->err);
    }
    release_job(job);
    rq_free(fetch);
}

struct rq_http_fetch *rq_http_fetch_start(struct rq_loop *loop, const char *url, int64_t timeout_ms,
                                          rq_http_done *done, void *user)
{
    struct rq_http_fetch *fetch = rq_calloc(1, sizeof *fetch);
    struct job *job = rq_calloc(1, sizeof *job + strlen(url) + 1);
    if (!fetch || !job) {
        rq_free(fetch);
        rq_free(job);
        return NULL;
    }
    *fetch = (struct rq_http_fetch){.loop = loop, .job = job, .done = done, .user = user};
    fetch->task.run = deliver;
    atomic_init(&job->refs, 2);
    rq_mutex_init(&job->lock);
    rq_buf_init(&job->body, ANSWER_MAX);
    job->fetch = fetch;
    job->timeout_ms = timeout_ms;
    memcpy(job->url, url, strlen(url) + 1);
    if (rq_thread_start(&fetch->thread, "rmq-address", run, job) != RMQ_OK) {
        release_job(job);
        release_job(job);
        rq_free(fetch);
        return NULL;
    }
    return fetch;
}

void rq_http_fetch_cancel(struct rq_http_fetch *fetch)
{
    struct job *job = fetch->job;
    rq_mutex_lock(&job->lock);
    bool posted = job->fetch == NULL;
    job->fetch = NULL;
    rq_mutex_unlock(&job->lock);
    fetch->done = NULL;
    if (!posted) { /* deliver frees it otherwise */
        pthread_detach(fetch->thread.id);
        release_job(job);
        rq_free(fetch);
    }
}
