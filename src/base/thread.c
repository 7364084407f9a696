/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Threads and locks over pthreads. A lock that fails is a bug of ours: the process stops with a
 * message. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/time.h"

static void must(int rc, const char *what)
{
    if (rc != 0) {
        fprintf(stderr, "librmq: %s failed: error %d\n", what, rc);
        abort();
    }
}

void rq_mutex_init(struct rq_mutex *mutex)
{
    must(pthread_mutex_init(&mutex->m, NULL), "pthread_mutex_init");
}

void rq_mutex_destroy(struct rq_mutex *mutex)
{
    must(pthread_mutex_destroy(&mutex->m), "pthread_mutex_destroy");
}

void rq_mutex_lock(struct rq_mutex *mutex)
{
    must(pthread_mutex_lock(&mutex->m), "pthread_mutex_lock");
}

bool rq_mutex_trylock(struct rq_mutex *mutex)
{
    int rc = pthread_mutex_trylock(&mutex->m);
    if (rc == EBUSY) {
        return false;
    }
    must(rc, "pthread_mutex_trylock");
    return true;
}

void rq_mutex_unlock(struct rq_mutex *mutex)
{
    must(pthread_mutex_unlock(&mutex->m), "pthread_mutex_unlock");
}

void rq_cond_init(struct rq_cond *cond)
{
    pthread_condattr_t attr;
    must(pthread_condattr_init(&attr), "pthread_condattr_init");
    must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), "pthread_condattr_setclock");
    must(pthread_cond_init(&cond->c, &attr), "pthread_cond_init");
    pthread_condattr_destroy(&attr);
}

void rq_cond_destroy(struct rq_cond *cond)
{
    must(pthread_cond_destroy(&cond->c), "pthread_cond_destroy");
}

void rq_cond_signal(struct rq_cond *cond)
{
    must(pthread_cond_signal(&cond->c), "pthread_cond_signal");
}

void rq_cond_broadcast(struct rq_cond *cond)
{
    must(pthread_cond_broadcast(&cond->c), "pthread_cond_broadcast");
}

void rq_cond_wait(struct rq_cond *cond, struct rq_mutex *mutex)
{
    must(pthread_cond_wait(&cond->c, &mutex->m), "pthread_cond_wait");
}

bool rq_cond_wait_until(struct rq_cond *cond, struct rq_mutex *mutex, int64_t deadline_ms)
{
    if (deadline_ms == RQ_FOREVER) {
        rq_cond_wait(cond, mutex);
        return true;
    }
    return rq_cond_wait_until_us(cond, mutex, deadline_ms * 1000);
}

bool rq_cond_wait_until_us(struct rq_cond *cond, struct rq_mutex *mutex, int64_t deadline_us)
{
    struct timespec ts = {.tv_sec = (time_t)(deadline_us / 1000000),
                          .tv_nsec = (long)(deadline_us % 1000000) * 1000};
    int rc = pthread_cond_timedwait(&cond->c, &mutex->m, &ts);
    if (rc == ETIMEDOUT) {
        return false;
    }
    must(rc, "pthread_cond_timedwait");
    return true;
}

struct start {
    void (*run)(void *arg);
    void *arg;
    char name[16];
};

static void *thread_main(void *p)
{
    struct start start = *(struct start *)p;
    rq_free(p);
    pthread_setname_np(pthread_self(), start.name);
    start.run(start.arg);
    return NULL;
}

rmq_status rq_thread_start(struct rq_thread *thread, const char *name, void (*run)(void *arg),
                           void *arg)
{
    thread->started = false;
    struct start *start = rq_alloc(sizeof *start);
    if (!start) {
        return RMQ_ERR_NOMEM;
    }
    *start = (struct start){.run = run, .arg = arg};
    snprintf(start->name, sizeof start->name, "%s", name);
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&thread->id, NULL, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        rq_free(start);
        return RMQ_ERR_NOMEM;
    }
    thread->started = true;
    return RMQ_OK;
}

void rq_thread_join(struct rq_thread *thread)
{
    if (thread->started) {
        pthread_join(thread->id, NULL);
        thread->started = false;
    }
}

bool rq_thread_is_self(const struct rq_thread *thread)
{
    return thread->started && pthread_equal(thread->id, pthread_self());
}
