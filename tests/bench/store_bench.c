/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Speed of the store without a network, 1 KiB bodies, beside a bare loop of CRC and copy into a
 * fresh mapped file. Prints one line per measurement. Usage: store_bench [-d DIR] [-n MESSAGES] [-t
 * THREADS] [-o] [WHAT...]; -o prints JSON; WHAT of bare append dispatch threads lag read sync open
 * kill verify (default: all). DIR (default /var/tmp) should be on the disk in question.
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rmq/store.h>

#include "base/crc.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/time.h"
#include "store/store.h"

#define BODY      1024
#define RECORD    1264 /* of one message below, for the bare loop */
#define FILE_SIZE ((size_t)1 << 30)
#define PROPERTIES                                                                                 \
    "UNIQ_KEY\1"                                                                                   \
    "7F0000015AAC4E0E2F2A936175F40000\2WAIT\1true\2TAGS\1TagA\2MSG_REGION\1DefaultRegion\2TRACE_"  \
    "ON\1true\2CLUSTER\1DefaultCluster\2"

static struct {
    const char *dir;
    int64_t count;
    int threads;
    bool json;
} bench = {.dir = "/var/tmp", .count = 2000000, .threads = 4};

static char body[BODY];
static char store_dir[256];

static void die(const char *what)
{
    fprintf(stderr, "store_bench: %s\n", what);
    exit(1);
}

/* A measurement: wall clock, and processor time of the measuring thread, which other work on the
 * machine disturbs less. */
struct clock {
    int64_t wall_us;
    int64_t cpu_us;
};

static int64_t cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static struct clock start(void)
{
    return (struct clock){.wall_us = rq_mono_us(), .cpu_us = cpu_us()};
}

static void stop(struct clock *clock)
{
    clock->wall_us = rq_mono_us() - clock->wall_us;
    clock->cpu_us = cpu_us() - clock->cpu_us;
}

static void print(const char *what, int64_t count, struct clock spent)
{
    double wall_s = (double)spent.wall_us / 1e6;
    double rate = spent.wall_us > 0 ? (double)count / wall_s : 0;
    double cpu = count > 0 ? (double)spent.cpu_us / (double)count : 0;
    if (bench.json) {
        printf("{\"what\":\"%s\",\"count\":%lld,\"wall_s\":%.3f,\"msgs_per_s\":%.0f,"
               "\"cpu_us_per_msg\":%.3f}\n",
               what, (long long)count, wall_s, rate, cpu);
    } else {
        printf("%-28s %9lld in %7.3f s %8.3f M/s %9.3f us of this thread each\n", what,
               (long long)count, wall_s, rate / 1e6, cpu);
    }
    fflush(stdout);
}

static void report(const char *what, int64_t count, struct clock clock)
{
    stop(&clock);
    print(what, count, clock);
}

/* ---- the bare loop ---- */

static char *fresh_file(const char *path, bool ahead)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)FILE_SIZE) < 0 ||
        (ahead && fallocate(fd, 0, 0, (off_t)FILE_SIZE) < 0)) {
        die("make a file");
    }
    char *p = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? (die("map"), NULL) : p;
}

static void bare(bool ahead)
{
    char path[300];
    char head[RECORD - BODY] = {0};
    struct clock all = {0};
    snprintf(path, sizeof path, "%s/bare", store_dir);
    for (int64_t done = 0; done < bench.count;) {
        char *p = fresh_file(path, ahead);
        size_t at = 0;
        struct clock began = start();
        for (; at + RECORD <= FILE_SIZE && done < bench.count; done++, at += RECORD) {
            uint32_t crc = rq_crc32(0, body, BODY);
            memcpy(head + 8, &crc, sizeof crc);
            memcpy(p + at, head, sizeof head);
            memcpy(p + at + sizeof head, body, BODY);
        }
        stop(&began);
        all.wall_us += began.wall_us;
        all.cpu_us += began.cpu_us;
        munmap(p, FILE_SIZE);
        unlink(path);
    }
    print(ahead ? "bare, allocated ahead" : "bare", bench.count, all);
}

/* ---- the store ---- */

static struct rq_store *open_store(bool sync, bool index, bool keep)
{
    struct rq_store_options options;
    struct rq_store *store;
    rmq_error *err = NULL;
    if (!keep) {
        rq_sys_rmtree(store_dir);
    }
    rq_table_defaults(&rq_store_table, &options);
    options.store_path_root_dir = store_dir;
    options.flush_disk_type = sync ? RQ_FLUSH_SYNC : RQ_FLUSH_ASYNC;
    options.message_index_enable = index;
    options.disk_max_used_space_ratio = 95;
    if (rq_store_open(&options, &store, &err) != RMQ_OK) {
        die(rmq_error_message(err));
    }
    return store;
}

static struct rq_msg message(int queue_id)
{
    struct rq_msg msg = {.topic = rq_slice_str("BenchTopic"),
                         .queue_id = queue_id,
                         .born_timestamp_ms = rq_wall_ms(),
                         .born_host = {.addr = {127, 0, 0, 1}, .len = 4, .port = 1},
                         .store_host = {.addr = {127, 0, 0, 1}, .len = 4, .port = 10911},
                         .body = rq_slice(body, BODY),
                         .properties = rq_slice_str(PROPERTIES)};
    return msg;
}

static void append_loop(struct rq_store *store, int64_t count, bool dispatch)
{
    struct rq_store_put put;
    for (int64_t i = 0; i < count; i++) {
        struct rq_msg msg = message((int)(i & 7));
        if (rq_store_append(store, &msg, &put) != RQ_PUT_OK) {
            die(put.reason);
        }
        if (dispatch && (i & 31) == 31) {
            rq_store_dispatch(store);
        }
    }
    if (dispatch) {
        rq_store_dispatch(store);
    }
}

static void appending(bool dispatch, bool index)
{
    struct rq_store *store = open_store(false, index, false);
    append_loop(store, 1000, true);
    struct clock began = start();
    append_loop(store, bench.count, dispatch);
    report(!dispatch ? "append"
           : index   ? "append, dispatch, index"
                     : "append, dispatch",
           bench.count, began);
    if (!dispatch) {
        began = start();
        rq_store_dispatch(store);
        report(index ? "dispatch, index" : "dispatch", bench.count, began);
    }
    rq_store_close(store);
}

struct worker {
    pthread_t thread;
    struct rq_store *store;
    int64_t count;
};

static void *append_worker(void *arg)
{
    struct worker *worker = arg;
    append_loop(worker->store, worker->count, true);
    return NULL;
}

static void run_workers(struct rq_store *store, int threads, int64_t each, void *(*run)(void *))
{
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    if (!workers) {
        die("memory");
    }
    for (int i = 0; i < threads; i++) {
        workers[i].store = store;
        workers[i].count = each;
        if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0) {
            die("thread");
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    free(workers);
}

static void appending_in_threads(void)
{
    struct rq_store *store = open_store(false, true, false);
    struct clock began = start();
    run_workers(store, bench.threads, bench.count / bench.threads, append_worker);
    report("append in threads, dispatch", bench.count / bench.threads * bench.threads, began);
    rq_store_close(store);
}

/* ---- reading ---- */

static void reading(void)
{
    struct rq_store *store = open_store(false, false, false);
    struct rq_slice topic = rq_slice_str("BenchTopic");
    append_loop(store, bench.count, true);
    for (int round = 0; round < 2; round++) {
        int64_t got = 0;
        struct clock began = start();
        for (int queue = 0; queue < 8; queue++) {
            struct rq_store_result result;
            int64_t offset = 0;
            do {
                rq_store_get(store, topic, queue, offset, 32, 0, NULL, &result);
                got += result.msg_count;
                offset = result.next_begin_offset;
                rq_store_result_release(&result);
            } while (result.status == RQ_GET_FOUND);
        }
        if (got != bench.count) {
            die("not all were read");
        }
        report(round == 0 ? "read, first time" : "read", got, began);
    }
    rq_store_close(store);
}

/* ---- synchronous flush ---- */

struct parked {
    struct rq_store_waiter waiter;
    sem_t done;
};

static void on_flushed(struct rq_store_waiter *waiter, enum rq_put_status st)
{
    struct parked *parked = (struct parked *)(void *)waiter;
    if (st != RQ_PUT_OK) {
        die(rq_put_status_name(st));
    }
    sem_post(&parked->done);
}

static void *sync_worker(void *arg)
{
    struct worker *worker = arg;
    struct rq_store_put put;
    struct parked parked = {.waiter = {.done = on_flushed}};
    sem_init(&parked.done, 0, 0);
    for (int64_t i = 0; i < worker->count; i++) {
        struct rq_msg msg = message((int)(i & 7));
        if (rq_store_append(worker->store, &msg, &put) != RQ_PUT_OK) {
            die(put.reason);
        }
        rq_store_dispatch(worker->store);
        if (rq_store_park(worker->store, put.next_commit_log_offset, &parked.waiter)) {
            while (sem_wait(&parked.done) != 0) {
            }
        }
    }
    sem_destroy(&parked.done);
    return NULL;
}

/* As the broker has them: writers that wait without a thread each. One thread appends for all whose
 * last message is on disk. */
struct crowd {
    struct rq_mutex lock;
    struct rq_cond some;
    struct member *ready; /* guarded by lock */
};

struct member {
    struct rq_store_waiter waiter;
    struct crowd *crowd;
    struct member *next;
};

static void be_ready(struct member *member, bool last)
{
    struct crowd *crowd = member->crowd;
    rq_mutex_lock(&crowd->lock);
    member->next = crowd->ready;
    crowd->ready = member;
    if (last) {
        rq_cond_signal(&crowd->some);
    }
    rq_mutex_unlock(&crowd->lock);
}

static void on_member_flushed(struct rq_store_waiter *waiter, enum rq_put_status st)
{
    bool last = !waiter->more; /* the member may be gone behind be_ready */
    if (st != RQ_PUT_OK) {
        die(rq_put_status_name(st));
    }
    be_ready((struct member *)(void *)waiter, last);
}

static struct member *take_ready(struct crowd *crowd)
{
    rq_mutex_lock(&crowd->lock);
    while (!crowd->ready) {
        rq_cond_wait(&crowd->some, &crowd->lock);
    }
    struct member *list = crowd->ready;
    crowd->ready = NULL;
    rq_mutex_unlock(&crowd->lock);
    return list;
}

/* Appends for the members of the list, at most `most`; returns for how many. */
static int append_for(struct rq_store *store, struct member *list, int64_t most)
{
    int n = 0;
    while (list && n < most) {
        struct member *member = list;
        struct rq_msg msg = message(n & 7);
        struct rq_store_put put;
        list = list->next;
        if (rq_store_append(store, &msg, &put) != RQ_PUT_OK) {
            die(put.reason);
        }
        n++;
        if (!rq_store_park(store, put.next_commit_log_offset, &member->waiter)) {
            be_ready(member, true);
        }
    }
    rq_store_dispatch(store);
    return n;
}

static void run_crowd(struct rq_store *store, int writers, int64_t count)
{
    struct crowd crowd = {.ready = NULL};
    struct member *members = calloc((size_t)writers, sizeof *members);
    if (!members) {
        die("out of memory");
    }
    rq_mutex_init(&crowd.lock);
    rq_cond_init(&crowd.some);
    for (int i = 0; i < writers; i++) {
        members[i] = (struct member){.waiter = {.done = on_member_flushed}, .crowd = &crowd};
        be_ready(&members[i], false);
    }
    int64_t done = 0;
    for (int64_t begun = 0; done < count;) {
        struct member *list = take_ready(&crowd);
        if (begun > 0) { /* each that is ready has got its answer */
            for (const struct member *member = list; member; member = member->next) {
                done++;
            }
        }
        begun += append_for(store, list, count - begun);
    }
    rq_cond_destroy(&crowd.some);
    rq_mutex_destroy(&crowd.lock);
    free(members);
}

static void plain_sync(int count)
{
    char path[300];
    rq_sys_mkdirs(store_dir);
    snprintf(path, sizeof path, "%s/plain", store_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || fallocate(fd, 0, 0, (off_t)count * RECORD) < 0) {
        die("make a file");
    }
    struct clock began = start();
    for (int i = 0; i < count; i++) {
        if (pwrite(fd, body, BODY, (off_t)i * RECORD) != BODY || fdatasync(fd) < 0) {
            die("fdatasync");
        }
    }
    report("plain write, fdatasync", count, began);
    close(fd);
    unlink(path);
}

static void syncing(void)
{
    enum { PLAIN = 1000, WRITERS = 64, EACH = 500 };
    plain_sync(PLAIN);
    struct rq_store *store = open_store(true, true, false);
    struct clock began = start();
    run_workers(store, WRITERS, EACH, sync_worker);
    report("sync flush, 64 threads", WRITERS * EACH, began);
    began = start();
    run_crowd(store, WRITERS, WRITERS * EACH * 4);
    report("sync flush, 64 writers", WRITERS * EACH * 4, began);
    rq_store_close(store);
}

/* ---- opening ---- */

static void opening(void)
{
    struct clock began = start();
    struct rq_store *store = open_store(false, true, false);
    report("open, empty", 1, began);
    append_loop(store, bench.count, true);
    began = start();
    rq_store_close(store);
    report("close", 1, began);
    began = start();
    store = open_store(false, true, true);
    report("open after a normal stop", 1, began);
    rq_store_close(store);
    char path[300];
    snprintf(path, sizeof path, "%s/abort", store_dir);
    close(open(path, O_WRONLY | O_CREAT, 0644));
    snprintf(path, sizeof path, "%s/checkpoint", store_dir);
    unlink(path);
    began = start();
    store = open_store(false, true, true);
    report("open, whole log recovered", bench.count, began);
    rq_store_close(store);
}

/* A child writes and is killed; then the store is opened here. */
static void recovering(void)
{
    int ready[2];
    char byte = 0;
    if (pipe(ready) < 0) {
        die("pipe");
    }
    pid_t child = fork();
    if (child == 0) {
        struct rq_store *store = open_store(false, true, false);
        append_loop(store, bench.count, true);
        if (write(ready[1], &byte, 1) == 1) {
            pause();
        }
        _exit(1);
    }
    close(ready[1]);
    if (child < 0 || read(ready[0], &byte, 1) != 1) {
        die("writer");
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    struct clock began = start();
    struct rq_store *store = open_store(false, true, true);
    report("open after SIGKILL", 1, began);
    struct rq_store_info info;
    rq_store_info(store, &info);
    if (!bench.json) {
        printf("%-28s %.2f GiB\n", "  of a store of",
               (double)info.max_commit_log_offset / (double)FILE_SIZE);
    }
    rq_store_close(store);
}

/* ---- lag ---- */

struct lag {
    struct rq_store *store;
    atomic_bool stop;
    int64_t most_ms;
    int64_t most_bytes;
};

static void *watch_lag(void *arg)
{
    struct lag *lag = arg;
    while (!atomic_load(&lag->stop)) {
        struct rq_store_metrics now;
        struct timespec pause_ms = {.tv_nsec = 1000000};
        rq_store_metrics(lag->store, &now);
        lag->most_ms = now.dispatch_lag_ms > lag->most_ms ? now.dispatch_lag_ms : lag->most_ms;
        lag->most_bytes =
            now.dispatch_lag_bytes > lag->most_bytes ? now.dispatch_lag_bytes : lag->most_bytes;
        nanosleep(&pause_ms, NULL);
    }
    return NULL;
}

/* Appends at full rate as the broker does, dispatching after every 32; how far the queues stay
 * behind. */
static void lagging(void)
{
    pthread_t thread;
    struct lag lag = {.store = open_store(false, true, false)};
    if (pthread_create(&thread, NULL, watch_lag, &lag) != 0) {
        die("thread");
    }
    append_loop(lag.store, bench.count, true);
    atomic_store(&lag.stop, true);
    pthread_join(thread, NULL);
    if (bench.json) {
        printf("{\"what\":\"dispatch lag\",\"most_ms\":%lld,\"most_bytes\":%lld}\n",
               (long long)lag.most_ms, (long long)lag.most_bytes);
    } else {
        printf("%-28s %lld ms, %lld bytes at most\n", "dispatch lag", (long long)lag.most_ms,
               (long long)lag.most_bytes);
    }
    rq_store_close(lag.store);
}

/* ---- checking ---- */

static void verifying(void)
{
    rmq_store *store = NULL;
    rmq_store_check check;
    struct rq_store *writer = open_store(false, true, false);
    append_loop(writer, bench.count, true);
    rq_store_close(writer);
    for (int round = 0; round < 2; round++) {
        struct clock began = start();
        if (rmq_store_open(store_dir, NULL, &store, NULL) != RMQ_OK ||
            rmq_store_verify(store, &check, sizeof check, NULL) != RMQ_OK ||
            check.verdict != RMQ_STORE_WHOLE) {
            die("verify");
        }
        stop(&began);
        double gib = (double)check.log_bytes / (double)FILE_SIZE;
        printf(bench.json ? "{\"what\":\"%s\",\"gib_per_s\":%.2f,\"gib_per_cpu_s\":%.2f}\n"
                          : "%-28s %.2f GiB/s, %.2f GiB a second of this thread\n",
               round == 0 ? "verify, first time" : "verify", gib / ((double)began.wall_us / 1e6),
               gib / ((double)began.cpu_us / 1e6));
        rmq_store_close(store);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {{"read", reading},    {"sync", syncing},
             {"open", opening},    {"threads", appending_in_threads},
             {"kill", recovering}, {"lag", lagging},
             {"verify", verifying}};

static void run_part(const char *name)
{
    if (strcmp(name, "bare") == 0) {
        bare(false);
        bare(true);
    } else if (strcmp(name, "append") == 0) {
        appending(false, true);
        appending(false, false);
    } else if (strcmp(name, "dispatch") == 0) {
        appending(true, false);
        appending(true, true);
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(name, parts[i].name) == 0) {
            parts[i].run();
        }
    }
    rq_sys_rmtree(store_dir);
    rq_sys_mkdirs(store_dir);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"bare", "append", "dispatch", "threads", "lag",
                                      "read", "sync",   "open",     "kill",    "verify"};
    int option;
    while ((option = getopt(argc, argv, "d:n:t:o")) != -1) {
        switch (option) {
        case 'd':
            bench.dir = optarg;
            break;
        case 'n':
            bench.count = atoll(optarg);
            break;
        case 't':
            bench.threads = atoi(optarg);
            break;
        case 'o':
            bench.json = true;
            break;
        default:
            return 2;
        }
    }
    memset(body, 'b', sizeof body);
    snprintf(store_dir, sizeof store_dir, "%s/store-bench-%ld", bench.dir, (long)getpid());
    rq_sys_mkdirs(store_dir);
    for (size_t i = 0; optind == argc && i < sizeof all / sizeof all[0]; i++) {
        run_part(all[i]);
    }
    for (int i = optind; i < argc; i++) {
        run_part(argv[i]);
    }
    rq_sys_rmtree(store_dir);
    return 0;
}
