/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What the bytes alone cost: programs that only move frames of the size of a send and its answer
 * over one loopback connection, with no protocol in them. `make bench` prints our figures beside
 * these. A forked child answers; CPU is that of this process. Modes: sync (16 threads hand frames
 * to one I/O thread, one wake-up a batch), async (one thread, a window of 1000), consume (read
 * answers of 32 messages), serve (the other side of consume, which is what a broker has to do: the
 * child asks, and the messages of an answer lie apart in memory as those of eight queues do in a
 * log).
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    REQUEST = 1024 + 330,
    ANSWER = 300,
    PULLED = 1024 + 250,
    PULL_ANSWER = 32 * PULLED,
    QUEUES = 8,
    WINDOW = 1000,
    THREADS = 16
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int64_t cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

static void write_full(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done <= 0) {
            die("write");
        }
        p += done;
        n -= (size_t)done;
    }
}

static int open_port(struct sockaddr_in *addr)
{
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof *addr;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)addr, sizeof *addr) < 0 || listen(listener, 8) < 0 ||
        getsockname(listener, (struct sockaddr *)addr, &len) < 0) {
        die("listen");
    }
    return listener;
}

static int no_delay(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int accept_one(int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) {
        die("accept");
    }
    return no_delay(fd);
}

static int connect_to(const struct sockaddr_in *addr)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)addr, sizeof *addr) < 0) {
        die("connect");
    }
    return no_delay(fd);
}

/* Answers each run of in bytes with out bytes until the peer closes. */
static void serve(int fd, size_t in, size_t out)
{
    enum { SIZE = 256 * 1024 };
    char *buf = malloc(SIZE);
    char *reply = calloc(1, SIZE);
    size_t have = 0;
    for (;;) {
        ssize_t n = read(fd, buf, SIZE);
        if (n <= 0) {
            _exit(0);
        }
        have += (size_t)n;
        for (size_t frames = have / in; frames;) {
            size_t some = frames > SIZE / out ? SIZE / out : frames;
            write_full(fd, reply, some * out);
            frames -= some;
        }
        have %= in;
    }
}

/* Sends all of them, in as few calls as the socket takes. */
static void writev_full(int fd, struct iovec *iov, int n)
{
    for (int i = 0; i < n;) {
        ssize_t done = writev(fd, iov + i, n - i);
        if (done < 0) {
            die("writev");
        }
        for (; i < n && (size_t)done >= iov[i].iov_len; i++) {
            done -= (ssize_t)iov[i].iov_len;
        }
        if (i < n) {
            iov[i].iov_base = (char *)iov[i].iov_base + done;
            iov[i].iov_len -= (size_t)done;
        }
    }
}

static int start_server(size_t in, size_t out, pid_t *child)
{
    struct sockaddr_in addr;
    int listener = open_port(&addr);
    *child = fork();
    if (*child == 0) {
        serve(accept_one(listener), in, out);
    }
    int fd = connect_to(&addr);
    close(listener);
    return fd;
}

struct waiter {
    struct waiter *next;
    sem_t done;
};

static _Atomic(struct waiter *) pending; /* newest first */
static int wake_fd;
static atomic_bool stopping;
static int64_t rounds;

static void *sync_caller(void *arg)
{
    (void)arg;
    struct waiter w;
    sem_init(&w.done, 0, 0);
    for (int64_t i = 0; i < rounds; i++) {
        struct waiter *old = atomic_load_explicit(&pending, memory_order_relaxed);
        do {
            w.next = old;
        } while (!atomic_compare_exchange_weak(&pending, &old, &w));
        if (!old) {
            uint64_t v = 1;
            if (write(wake_fd, &v, sizeof v) != sizeof v) {
                die("eventfd");
            }
        }
        sem_wait(&w.done);
    }
    sem_destroy(&w.done);
    return NULL;
}

/* Writes one frame for each waiter of the list and queues the waiters for their answers. */
static void send_all(int fd, struct waiter *list, struct waiter ***tail)
{
    static char frame[REQUEST];
    struct iovec iov[THREADS];
    int n = 0;
    for (struct waiter *w = list; w; w = w->next) {
        iov[n++] = (struct iovec){frame, sizeof frame};
    }
    **tail = list;
    while (**tail) {
        *tail = &(**tail)->next;
    }
    if (writev(fd, iov, n) != (ssize_t)n * REQUEST) {
        die("writev");
    }
}

static void *sync_io(void *arg)
{
    int fd = *(int *)arg;
    char buf[65536];
    struct waiter *sent = NULL;
    struct waiter **tail = &sent;
    size_t have = 0;
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    while (!atomic_load(&stopping)) {
        poll(fds, 2, -1);
        if (fds[1].revents) {
            uint64_t v;
            if (read(wake_fd, &v, sizeof v) != sizeof v) {
                die("eventfd");
            }
            struct waiter *list = atomic_exchange(&pending, NULL);
            if (list) {
                send_all(fd, list, &tail);
            }
        }
        if (fds[0].revents) {
            ssize_t n = read(fd, buf, sizeof buf);
            if (n <= 0) {
                die("read");
            }
            for (have += (size_t)n; have >= ANSWER; have -= ANSWER) {
                struct waiter *w = sent;
                sent = w->next;
                if (!sent) {
                    tail = &sent;
                }
                sem_post(&w->done);
            }
        }
    }
    return NULL;
}

static void run_sync(int fd, int64_t count)
{
    pthread_t callers[THREADS];
    pthread_t io;
    rounds = count / THREADS;
    wake_fd = eventfd(0, 0);
    pthread_create(&io, NULL, sync_io, &fd);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&callers[i], NULL, sync_caller, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(callers[i], NULL);
    }
    atomic_store(&stopping, true);
    uint64_t v = 1;
    if (write(wake_fd, &v, sizeof v) != sizeof v) {
        die("eventfd");
    }
    pthread_join(io, NULL);
}

/* Keeps WINDOW frames in flight: refills in batches as answers come. */
static void run_async(int fd, int64_t count)
{
    static char frame[REQUEST];
    char buf[65536];
    int64_t sent = 0;
    int64_t answered = 0;
    size_t have = 0;
    while (answered < count) {
        struct iovec iov[64];
        int n = 0;
        while (n < 64 && sent < count && sent - answered < WINDOW) {
            iov[n++] = (struct iovec){frame, sizeof frame};
            sent++;
        }
        writev_full(fd, iov, n);
        ssize_t got =
            recv(fd, buf, sizeof buf, sent - answered < WINDOW && sent < count ? MSG_DONTWAIT : 0);
        if (got > 0) {
            have += (size_t)got;
            answered += (int64_t)(have / ANSWER);
            have %= ANSWER;
        } else if (got == 0 || errno != EAGAIN) {
            die("recv");
        }
    }
}

/* Eight requests in flight, each answered with 32 messages. */
static void run_consume(int fd, int64_t count)
{
    static char request[ANSWER];
    char *buf = malloc(256 * 1024);
    size_t have = 0;
    for (int i = 0; i < 8; i++) {
        write_full(fd, request, sizeof request);
    }
    for (int64_t got = 0; got < count;) {
        ssize_t n = read(fd, buf, 256 * 1024);
        if (n <= 0) {
            die("read");
        }
        for (have += (size_t)n; have >= PULL_ANSWER; have -= PULL_ANSWER) {
            got += 32;
            write_full(fd, request, sizeof request);
        }
    }
    free(buf);
}

/* What a mode took of this process. */
struct cost {
    int64_t wall_us;
    int64_t cpu_us;
};

static struct cost cost_begin(void)
{
    return (struct cost){now_us(), cpu_us()};
}

static struct cost cost_since(struct cost begin)
{
    return (struct cost){now_us() - begin.wall_us, cpu_us() - begin.cpu_us};
}

/* The child asks; its parent answers with messages of a log that is not in the processor's cache. */
static struct cost run_serve(int64_t count)
{
    static char buf[65536];
    struct sockaddr_in addr;
    int listener = open_port(&addr);
    size_t size = (size_t)(count / (32 * QUEUES) + 1) * 32 * QUEUES * PULLED;
    char *log = malloc(size);
    if (!log) {
        die("malloc");
    }
    memset(log, 1, size);
    pid_t child = fork();
    if (child == 0) {
        run_consume(connect_to(&addr), count);
        _exit(0);
    }
    int fd = accept_one(listener);
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    struct cost begin = cost_begin();
    size_t have = 0;
    size_t answer = 0;
    for (;;) {
        poll(&poller, 1, -1);
        ssize_t n = read(fd, buf, sizeof buf);
        if (n <= 0) {
            break;
        }
        for (have += (size_t)n; have >= ANSWER; have -= ANSWER, answer++) {
            size_t first = (answer / QUEUES * 32 * QUEUES + answer % QUEUES) * PULLED % size;
            struct iovec iov[32];
            for (size_t i = 0; i < 32; i++) {
                iov[i] = (struct iovec){log + first + i * QUEUES * PULLED, PULLED};
            }
            writev_full(fd, iov, 32);
        }
    }
    struct cost cost = cost_since(begin);
    waitpid(child, NULL, 0);
    free(log);
    return cost;
}

/* A mode in which the child answers. */
static struct cost run_asking(const char *mode, int64_t count)
{
    bool consume = strcmp(mode, "consume") == 0;
    pid_t child = 0;
    int fd = start_server(consume ? ANSWER : REQUEST, consume ? PULL_ANSWER : ANSWER, &child);
    struct cost begin = cost_begin();
    if (consume) {
        run_consume(fd, count);
    } else if (strcmp(mode, "sync") == 0) {
        run_sync(fd, count);
    } else {
        run_async(fd, count);
    }
    struct cost cost = cost_since(begin);
    close(fd);
    waitpid(child, NULL, 0);
    return cost;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "async";
    int64_t count = argc > 2 ? strtoll(argv[2], NULL, 10) : 500000;
    struct cost cost = strcmp(mode, "serve") == 0 ? run_serve(count) : run_asking(mode, count);
    printf("{\"what\":\"bare-%s\",\"count\":%lld,\"size\":1024,\"wall_s\":%.3f,\"msgs_per_s\":%.0f,"
           "\"cpu_us_per_msg\":%.2f}\n",
           mode, (long long)count, (double)cost.wall_us / 1e6,
           (double)count * 1e6 / (double)cost.wall_us, (double)cost.cpu_us / (double)count);
    return 0;
}
