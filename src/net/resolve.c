/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Host names to addresses; the header says why by threads. A look-up and its thread share a counted
 * job, and meet under its lock: the thread posts the result unless the look-up was given up. Loop
 * thread, but for look_up.
 */
#include "net/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/thread.h"
#include "net/loop_priv.h"

#define MOST_THREADS 4 /* of a loop; more names wait for their turn */

/* What the thread and the look-up share. */
struct job {
    _Atomic uint32_t refs; /* atomic: as any count */
    struct rq_mutex lock;
    struct rq_resolve *resolve; /* guarded by lock; NULL once posted or given up */
    /* written by the thread before it posts, read after */
    int count;
    char reason[128];
    union rq_sockaddr addrs[RQ_RESOLVE_MAX];
    /* immutable */
    uint16_t port;
    char host[RQ_HOST_MAX];
};

struct rq_resolve {
    struct rq_loop *loop;
    struct job *job;
    struct rq_thread thread;
    struct rq_list node; /* while it waits for a thread */
    struct rq_task task;
    struct rq_timer timer;
    rq_resolve_done *done; /* NULL after cancel */
    void *user;
    const char *failed; /* static text; NULL: the job's result counts */
};

rmq_status rq_address_split(const char *address, char *host, uint16_t *port, rmq_error **err)
{
    const char *colon = strrchr(address, ':');
    const char *end = colon;
    const char *begin = address;
    if (*address == '[') {
        begin = address + 1;
        end = strchr(address, ']');
        if (!end || end + 1 != colon) {
            return rq_error_set(err, RMQ_ERR_INVALID, "address \"%s\" is not [v6]:port", address);
        }
    }
    int32_t number = 0;
    if (!colon || !colon[1]) {
        return rq_error_set(err, RMQ_ERR_INVALID, "address \"%s\" has no port", address);
    }
    if (!rq_slice_to_i32(rq_slice_str(colon + 1), &number) || number < 1 || number > UINT16_MAX) {
        return rq_error_set(err, RMQ_ERR_INVALID, "address \"%s\": the port is not in 1 … 65535",
                            address);
    }
    size_t n = (size_t)(end - begin);
    if (n == 0 || n >= RQ_HOST_MAX || (begin == address && memchr(begin, ':', n))) {
        return rq_error_set(err, RMQ_ERR_INVALID, "address \"%s\" is not host:port", address);
    }
    memcpy(host, begin, n);
    host[n] = '\0';
    *port = (uint16_t)number;
    return RMQ_OK;
}

static void set_port(union rq_sockaddr *addr, uint16_t port)
{
    if (addr->any.sa_family == AF_INET6) {
        addr->v6.sin6_port = htons(port);
    } else {
        addr->v4.sin_port = htons(port);
    }
}

bool rq_address_literal(const char *host, uint16_t port, union rq_sockaddr *out)
{
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
        out->any.sa_family = AF_INET;
        set_port(out, port);
        return true;
    }
    if (!strchr(host, ':')) {
        return false;
    }
    /* getaddrinfo reads the scope, too, and does not look anything up with AI_NUMERICHOST. */
    const struct addrinfo hints = {
        .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *list = NULL;
    if (getaddrinfo(host, NULL, &hints, &list) != 0 || !list) {
        return false;
    }
    memcpy(&out->v6, list->ai_addr, sizeof out->v6);
    freeaddrinfo(list);
    set_port(out, port);
    return true;
}

static void release_job(struct job *job)
{
    if (atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) == 1) {
        rq_mutex_destroy(&job->lock);
        rq_free(job);
    }
}

/* Takes the look-up off the job: whoever does so, thread or loop, is the one who posts its task.
 * NULL: the other one was first. */
static struct rq_resolve *take_resolve(struct job *job)
{
    rq_mutex_lock(&job->lock);
    struct rq_resolve *resolve = job->resolve;
    job->resolve = NULL;
    rq_mutex_unlock(&job->lock);
    return resolve;
}

/* ---- the look-up's own thread ---- */

static void take_addresses(struct job *job, const struct addrinfo *list)
{
    for (const struct addrinfo *p = list; p && job->count < RQ_RESOLVE_MAX; p = p->ai_next) {
        if ((p->ai_family == AF_INET || p->ai_family == AF_INET6) &&
            p->ai_addrlen <= sizeof(union rq_sockaddr)) {
            union rq_sockaddr *addr = &job->addrs[job->count++];
            memcpy(addr, p->ai_addr, p->ai_addrlen);
            set_port(addr, job->port);
        }
    }
}

static void look_up(void *arg)
{
    struct job *job = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(job->host, NULL, &hints, &list);
    int error = errno;
    if (rc == 0) {
        take_addresses(job, list);
        freeaddrinfo(list);
    }
    if (job->count == 0) {
        const char *why = rc == EAI_SYSTEM ? strerror(error) : gai_strerror(rc);
        snprintf(job->reason, sizeof job->reason, "%s", rc == 0 ? "no address" : why);
    }
    rq_mutex_lock(&job->lock);
    if (job->resolve) {
        /* Under the lock: the loop cannot end while a look-up of its own has not been taken off. */
        rq_loop_post(job->resolve->loop, &job->resolve->task);
        job->resolve = NULL;
    }
    rq_mutex_unlock(&job->lock);
    release_job(job);
}

/* ---- loop ---- */

static void start_waiting(struct rq_loop *loop);

static void free_resolve(struct rq_resolve *resolve)
{
    struct rq_loop *loop = resolve->loop;
    rq_timer_stop(&resolve->timer);
    rq_list_remove(&resolve->node);
    release_job(resolve->job);
    rq_free(resolve);
    start_waiting(loop);
}

static void deliver(struct rq_task *task)
{
    struct rq_resolve *resolve = RQ_CONTAINER_OF(task, struct rq_resolve, task);
    struct job *job = resolve->job;
    if (resolve->thread.started) {
        rq_thread_join(&resolve->thread); /* it has posted: it is at its end */
        resolve->loop->look_ups--;
    }
    if (resolve->done && !resolve->failed && job->count > 0) {
        resolve->done(resolve->user, RMQ_OK, job->addrs, job->count, "");
    } else if (resolve->done) {
        char reason[RQ_HOST_MAX + sizeof job->reason + 2];
        snprintf(reason, sizeof reason, "%s: %s", job->host,
                 resolve->failed ? resolve->failed : job->reason);
        resolve->done(resolve->user, RMQ_ERR_RESOLVE, NULL, 0, reason);
    }
    free_resolve(resolve);
}

/* Leaves the thread, if there is one, alone with the job. false: it has posted already. */
static bool give_up(struct rq_resolve *resolve)
{
    if (!take_resolve(resolve->job)) {
        return false;
    }
    if (resolve->thread.started) {
        pthread_detach(resolve->thread.id);
        resolve->thread.started = false;
        resolve->loop->look_ups--;
    }
    return true;
}

/* Ends the look-up with a result of the loop's own: an error, or (failed NULL) what the job has. */
static void finish(struct rq_resolve *resolve, const char *failed)
{
    if (give_up(resolve)) {
        rq_list_remove(&resolve->node);
        resolve->failed = failed;
        rq_loop_post(resolve->loop, &resolve->task);
    }
}

static void on_timeout(struct rq_timer *timer)
{
    finish(RQ_CONTAINER_OF(timer, struct rq_resolve, timer),
           "the name servers did not answer in time");
}

static void start_thread(struct rq_resolve *resolve)
{
    atomic_fetch_add_explicit(&resolve->job->refs, 1, memory_order_relaxed);
    if (rq_thread_start(&resolve->thread, "rmq-resolve", look_up, resolve->job) != RMQ_OK) {
        release_job(resolve->job);
        finish(resolve, "cannot start a thread");
        return;
    }
    resolve->loop->look_ups++;
}

static void start_waiting(struct rq_loop *loop)
{
    while (loop->look_ups < MOST_THREADS && !rq_list_empty(&loop->look_ups_waiting)) {
        struct rq_list *node = rq_list_pop(&loop->look_ups_waiting);
        start_thread(RQ_CONTAINER_OF(node, struct rq_resolve, node));
    }
}

static struct job *make_job(const char *host, uint16_t port)
{
    struct job *job = rq_calloc(1, sizeof *job);
    if (job) {
        atomic_init(&job->refs, 1);
        rq_mutex_init(&job->lock);
        job->port = port;
        snprintf(job->host, sizeof job->host, "%s", host);
    }
    return job;
}

/* Numeric, or "localhost", which needs nobody even where /etc/hosts is missing. */
static bool is_known(struct job *job)
{
    if (rq_address_literal(job->host, job->port, &job->addrs[0])) {
        job->count = 1;
    } else if (strcasecmp(job->host, "localhost") == 0) {
        rq_address_literal("127.0.0.1", job->port, &job->addrs[0]);
        rq_address_literal("::1", job->port, &job->addrs[1]);
        job->count = 2;
    }
    return job->count > 0;
}

struct rq_resolve *rq_resolve_start(struct rq_loop *loop, const char *host, uint16_t port,
                                    int64_t timeout_ms, rq_resolve_done *done, void *user)
{
    struct rq_resolve *resolve = rq_calloc(1, sizeof *resolve);
    struct job *job = make_job(host, port);
    if (!resolve || !job) {
        rq_free(resolve);
        rq_free(job);
        return NULL;
    }
    resolve->loop = loop;
    resolve->job = job;
    resolve->done = done;
    resolve->user = user;
    resolve->task.run = deliver;
    rq_list_init(&resolve->node);
    rq_timer_init(&resolve->timer, on_timeout);
    job->resolve = resolve;
    if (is_known(job)) {
        finish(resolve, NULL);
    } else {
        rq_timer_start(loop, &resolve->timer, timeout_ms);
        rq_list_add_tail(&loop->look_ups_waiting, &resolve->node);
        start_waiting(loop);
    }
    return resolve;
}

void rq_resolve_cancel(struct rq_resolve *resolve)
{
    resolve->done = NULL;
    if (give_up(resolve)) {
        free_resolve(resolve);
    }
    /* else: its task is on its way, and frees it. */
}
