/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The event loop's thread: waits for sockets, timers and tasks, and at the end of each turn lets
 * connections write what was queued during it. The event base is touched by this thread only and so
 * needs no locks of libevent (no process-wide hook is set). "sleeping" is raised before the last
 * look at the task list and lowered by the first who must wake the thread: everybody else saves the
 * system call.
 */
#include "net/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/gate.h"
#include "net/loop_priv.h"

#define PAGE_BYTES       4096
#define BASE_DESCRIPTORS 4      /* of an event base: epoll, a pair for signals, and one to spare */
#define TIMER_SLACK_NS   5000UL /* a rest ends in time; the system's default is 50 µs */

void rq_loop_awake(struct rq_loop *loop)
{
    if (atomic_load_explicit(&loop->sleeping, memory_order_relaxed)) {
        atomic_store_explicit(&loop->sleeping, 0, memory_order_relaxed);
        loop->now_ms = rq_mono_ms();
    }
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
    rq_loop_awake(arg);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct rq_loop *loop = arg;
    rq_loop_awake(loop);
    loop->armed_ms = RQ_FOREVER;
}

static void wake(struct rq_loop *loop)
{
    const uint64_t one = 1;
    while (write(loop->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void run_tasks(struct rq_loop *loop)
{
    struct rq_mpsc_node *node = rq_mpsc_take_all(&loop->tasks);
    while (node) {
        struct rq_task *task = RQ_CONTAINER_OF(node, struct rq_task, node);
        node = node->next;
        (void)atomic_exchange_explicit(&task->waits, false, memory_order_acq_rel);
        task->run(task);
    }
}

static void run_flushes(struct rq_loop *loop)
{
    struct rq_list *node;
    while ((node = rq_list_pop(&loop->flush)) != NULL) {
        struct rq_flush *flush = RQ_CONTAINER_OF(node, struct rq_flush, node);
        flush->run(flush);
    }
}

/* Sets the base's timer when the earliest of ours is not covered by it. One that is set too
 * early only costs a turn. */
static void arm_tick(struct rq_loop *loop)
{
    int64_t next = rq_timers_next(loop);
    if (next >= loop->armed_ms) {
        return;
    }
    int64_t after = next > loop->now_ms ? next - loop->now_ms : 0;
    const struct timeval tv = {.tv_sec = (time_t)(after / 1000),
                               .tv_usec = (suseconds_t)(after % 1000) * 1000};
    if (event_add(loop->tick_event, &tv) == 0) {
        loop->armed_ms = next;
    }
}

/* Nobody needs to wake the loop meanwhile: "sleeping" is not raised. */
static void rest(struct rq_loop *loop)
{
    if (loop->handled > 0) {
        int64_t us = rq_rest_after(&loop->rest, loop->handled, rq_mono_us(), rq_thread_cpu_us);
        loop->handled = 0;
        if (us > 0) {
            const struct timespec length = {.tv_nsec = us * 1000};
            nanosleep(&length, NULL);
        }
    }
}

static void turn(struct rq_loop *loop)
{
    arm_tick(loop);
    atomic_exchange_explicit(&loop->sleeping, 1, memory_order_acq_rel);
    int flags = EVLOOP_ONCE;
    if (!rq_mpsc_empty(&loop->tasks)) {
        atomic_store_explicit(&loop->sleeping, 0, memory_order_relaxed);
        flags |= EVLOOP_NONBLOCK;
    }
    event_base_loop(loop->base, flags);
    atomic_store_explicit(&loop->sleeping, 0, memory_order_relaxed);
    loop->now_ms = rq_mono_ms();
    rq_timers_run(loop);
    run_tasks(loop);
    run_flushes(loop);
    rest(loop);
}

void rq_loop_unhold(struct rq_loop *loop)
{
    if (atomic_fetch_sub_explicit(&loop->holds, 1, memory_order_acq_rel) == 1) {
        if (loop->alive) {
            munmap((void *)(uintptr_t)loop->alive, PAGE_BYTES);
        }
        rq_free(loop);
    }
}

static void free_loop(struct rq_loop *loop)
{
    if (loop->wake_event) {
        event_free(loop->wake_event);
    }
    if (loop->tick_event) {
        event_free(loop->tick_event);
    }
    if (loop->base) {
        event_base_free(loop->base);
    }
    if (loop->wake_fd >= 0) {
        close(loop->wake_fd);
    }
    rq_free(loop->scratch);
    rq_frame_cache_drain(&loop->frames);
    rq_loop_unhold(loop);
}

static void thread_main(void *arg)
{
    struct rq_loop *loop = arg;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    while (!atomic_load_explicit(&loop->stop, memory_order_relaxed) ||
           !rq_mpsc_empty(&loop->tasks) || loop->busy > 0) {
        turn(loop);
    }
    if (loop->self_destroy) {
        pthread_detach(pthread_self());
        free_loop(loop);
    }
}

/* A page that the kernel clears in the child of a fork: asking whether we are in one costs a
 * load. */
static void map_alive(struct rq_loop *loop)
{
    void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return;
    }
    if (madvise(page, PAGE_BYTES, MADV_WIPEONFORK) != 0) {
        munmap(page, PAGE_BYTES);
        return;
    }
    *(uint32_t *)page = 1;
    loop->alive = page;
}

/* libevent ends the process when it gets none for a new base, so they are asked for before. Another
 * thread may take them meanwhile, which nobody can rule out. */
static bool has_descriptors(void)
{
    int fds[BASE_DESCRIPTORS];
    int n = 0;
    while (n < BASE_DESCRIPTORS && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0) {
        n++;
    }
    int error = errno;
    bool enough = n == BASE_DESCRIPTORS;
    while (n > 0) {
        close(fds[--n]);
    }
    errno = error;
    return enough;
}

static struct event_base *make_base(void)
{
    if (!has_descriptors()) {
        return NULL;
    }
    struct event_config *config = event_config_new();
    if (!config) {
        return NULL;
    }
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static void nothing(struct rq_task *task)
{
    (void)task;
}

static bool prepare(struct rq_loop *loop)
{
    loop->pid = getpid();
    rq_mpsc_init(&loop->tasks);
    rq_list_init(&loop->flush);
    rq_list_init(&loop->look_ups_waiting);
    rq_frame_cache_init(&loop->frames);
    atomic_init(&loop->refs, 1);
    atomic_init(&loop->stop, false);
    atomic_init(&loop->sleeping, 0);
    loop->stop_task.run = nothing;
    loop->armed_ms = RQ_FOREVER;
    loop->now_ms = rq_mono_ms();
    map_alive(loop);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->base = make_base();
    loop->scratch = rq_alloc(RQ_LOOP_SCRATCH);
    if (loop->wake_fd < 0 || !loop->base || !loop->scratch) {
        return false;
    }
    loop->wake_event = event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
    loop->tick_event = event_new(loop->base, -1, 0, on_tick, loop);
    return loop->wake_event && loop->tick_event && event_add(loop->wake_event, NULL) == 0;
}

rmq_status rq_loop_create(const char *name, struct rq_loop **out, rmq_error **err)
{
    struct rq_loop *loop = rq_calloc(1, sizeof *loop);
    if (!loop) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "event loop %s: out of memory", name);
    }
    loop->wake_fd = -1;
    atomic_init(&loop->holds, 1);
    errno = 0;
    if (!prepare(loop)) {
        int error = errno;
        free_loop(loop);
        return rq_error_set(err, error ? RMQ_ERR_IO : RMQ_ERR_NOMEM, "event loop %s: %s", name,
                            error ? strerror(error) : "out of memory");
    }
    rmq_status st = rq_thread_start(&loop->thread, name, thread_main, loop);
    if (st != RMQ_OK) {
        free_loop(loop);
        return rq_error_set(err, st, "event loop %s: cannot start a thread", name);
    }
    *out = loop;
    return RMQ_OK;
}

void rq_loop_retain(struct rq_loop *loop)
{
    atomic_fetch_add_explicit(&loop->refs, 1, memory_order_relaxed);
}

bool rq_loop_in(const struct rq_loop *loop)
{
    return rq_thread_is_self(&loop->thread);
}

bool rq_loop_forked(const struct rq_loop *loop)
{
    return loop->alive ? *loop->alive == 0 : getpid() != loop->pid;
}

bool rq_loop_post(struct rq_loop *loop, struct rq_task *task)
{
    if (rq_loop_forked(loop)) {
        return false;
    }
    if (atomic_exchange_explicit(&task->waits, true, memory_order_acq_rel)) {
        return true;
    }
    /* The exchange, not a plain load: it orders the push before the look at sleeping, as the
     * loop's exchange orders the other way. */
    if (rq_mpsc_push(&loop->tasks, &task->node) && !rq_loop_in(loop) &&
        atomic_exchange_explicit(&loop->sleeping, 0, memory_order_acq_rel)) {
        wake(loop);
    }
    return true;
}

struct run_call {
    struct rq_task task;
    struct rq_gate gate;
    void (*fn)(void *arg);
    void *arg;
};

static void run_call(struct rq_task *task)
{
    struct run_call *call = RQ_CONTAINER_OF(task, struct run_call, task);
    call->fn(call->arg);
    rq_gate_open(&call->gate);
}

bool rq_loop_run(struct rq_loop *loop, void (*fn)(void *arg), void *arg)
{
    if (rq_loop_in(loop)) {
        fn(arg);
        return true;
    }
    struct run_call call = {.task.run = run_call, .fn = fn, .arg = arg};
    rq_gate_init(&call.gate);
    if (!rq_loop_post(loop, &call.task)) {
        return false;
    }
    rq_gate_wait(&call.gate, RQ_FOREVER);
    return true;
}

int64_t rq_loop_now(struct rq_loop *loop)
{
    return loop->now_ms;
}

static void stop_loop(struct rq_loop *loop)
{
    if (rq_loop_in(loop)) {
        loop->self_destroy = true;
        atomic_store_explicit(&loop->stop, true, memory_order_relaxed);
        return;
    }
    atomic_store_explicit(&loop->stop, true, memory_order_relaxed);
    rq_loop_post(loop, &loop->stop_task);
    rq_thread_join(&loop->thread);
    free_loop(loop);
}

/* ---- the loop of the process ---- */

/* A lock that a fork cannot leave locked for ever: its value is the pid of the process whose
 * thread holds it. Held for microseconds. */
static _Atomic pid_t shared_lock;   /* atomic: acquire on lock, release on unlock */
static struct rq_loop *shared_loop; /* guarded by shared_lock */

static void lock_shared(void)
{
    pid_t self = getpid();
    pid_t holder = 0;
    while (!atomic_compare_exchange_strong_explicit(&shared_lock, &holder, self,
                                                    memory_order_acquire, memory_order_relaxed)) {
        if (holder == self) {
            usleep(50);
            holder = 0;
        }
        /* else: left behind by the parent at the moment of fork; the next exchange takes it
         * over. */
    }
}

static void unlock_shared(void)
{
    atomic_store_explicit(&shared_lock, 0, memory_order_release);
}

rmq_status rq_loop_shared_get(struct rq_loop **out, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    lock_shared();
    if (shared_loop && !rq_loop_forked(shared_loop)) {
        rq_loop_retain(shared_loop);
        *out = shared_loop;
    } else {
        st = rq_loop_create("rmq-io", out, err);
        if (st == RMQ_OK) {
            shared_loop = *out;
            shared_loop->shared = true;
        }
    }
    unlock_shared();
    return st;
}

static bool drop_ref(struct rq_loop *loop)
{
    if (!loop->shared) {
        return atomic_fetch_sub_explicit(&loop->refs, 1, memory_order_acq_rel) == 1;
    }
    lock_shared();
    bool last = atomic_fetch_sub_explicit(&loop->refs, 1, memory_order_acq_rel) == 1;
    if (last && shared_loop == loop) {
        shared_loop = NULL;
    }
    unlock_shared();
    return last;
}

void rq_loop_put(struct rq_loop *loop)
{
    if (!loop || rq_loop_forked(loop)) {
        return;
    }
    if (drop_ref(loop)) {
        stop_loop(loop);
    }
}
