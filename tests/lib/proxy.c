/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The frame-aware proxy. One thread polls a listener, a wake-up pipe and the socket pairs; rules
 * and counters are guarded by a lock. Output that a socket does not take at once waits in its
 * buffer.
 */
#include "lib/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/frame.h"

enum { MAX_PAIRS = 128, MAX_CODES = 200256, MAX_OPAQUES = 65536 };

struct bytes {
    char *data;
    size_t len;
    size_t cap;
};

struct late { /* a delayed frame */
    struct late *next;
    int64_t due_ms;
    int side; /* receives it */
    size_t n;
    char data[];
};

struct pair {
    int fd[2];           /* 0 client, 1 server */
    struct bytes in[2];  /* read from a side, not yet cut */
    struct bytes out[2]; /* waits to be written to a side */
    struct late *late;
    int32_t codes[MAX_OPAQUES]; /* request code + 1 by low bits of the opaque, per client */
    bool closing;
};

struct tl_proxy {
    pthread_t thread;
    int listener;
    int wake[2];
    char addr[32];
    struct pair *pairs[MAX_PAIRS]; /* proxy thread */
    pthread_mutex_t lock;
    /* guarded by lock */
    struct sockaddr_in target;
    struct tl_rule rules[TL_RULES_MAX];
    int rule_count;
    uint64_t seen[MAX_CODES];
    uint64_t seen_all;
    uint64_t accepted;
    bool refuse;
    bool blackhole;
    bool stop;
    struct bytes push; /* waits to be sent to every client */
    tl_proxy_watcher watcher;
    void *watcher_user;
};

static void die(const char *what)
{
    perror(what);
    abort();
}

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void bytes_add(struct bytes *b, const char *p, size_t n)
{
    if (b->len + n > b->cap) {
        b->cap = (b->len + n) * 2;
        b->data = realloc(b->data, b->cap);
        if (!b->data) {
            die("realloc");
        }
    }
    memcpy(b->data + b->len, p, n);
    b->len += n;
}

static void bytes_take(struct bytes *b, size_t n)
{
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}

static void parse_addr(const char *text, struct sockaddr_in *out)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    *out =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    if (inet_pton(AF_INET, host, &out->sin_addr) != 1) {
        die(text);
    }
}

static void pair_free(struct pair *pair)
{
    for (int side = 0; side < 2; side++) {
        close(pair->fd[side]);
        free(pair->in[side].data);
        free(pair->out[side].data);
    }
    while (pair->late) {
        struct late *next = pair->late->next;
        free(pair->late);
        pair->late = next;
    }
    free(pair);
}

/* First rule that acts on the frame; its counters move. Lock held. */
static bool match(struct tl_proxy *proxy, bool response, int code, struct tl_rule *out)
{
    for (int i = 0; i < proxy->rule_count; i++) {
        struct tl_rule *rule = &proxy->rules[i];
        if (rule->responses != response || (rule->code != -1 && rule->code != code) ||
            rule->times == 0) {
            continue;
        }
        if (rule->skip > 0) {
            rule->skip--;
            continue;
        }
        if (rule->times > 0) {
            rule->times--;
        }
        *out = *rule;
        return true;
    }
    return false;
}

static void hold(struct pair *pair, int to, const char *frame, size_t n, int64_t delay_ms)
{
    struct late *late = malloc(sizeof *late + n);
    *late = (struct late){.next = pair->late, .due_ms = now_ms() + delay_ms, .side = to, .n = n};
    memcpy(late->data, frame, n);
    pair->late = late;
}

static void answer(struct pair *pair, int to, const struct tl_header *request,
                   const struct tl_rule *rule)
{
    struct tl_header header = {.code = rule->answer_code, .opaque = request->opaque, .flag = 1};
    size_t n = 0;
    char *frame = tl_frame_make(&header, rule->remark, NULL, NULL, 0, &n);
    bytes_add(&pair->out[to], frame, n);
    free(frame);
}

static void alter(char *frame, size_t n, const struct tl_rule *rule)
{
    uint32_t word;
    memcpy(&word, frame + 4, sizeof word);
    size_t body = 8 + (ntohl(word) & 0xFFFFFF);
    long at = rule->alter_at < 0 ? (long)n + rule->alter_at : (long)body + rule->alter_at;
    if (at >= 0 && (size_t)at < n) {
        frame[at] = (char)(frame[at] ^ rule->alter_with);
    }
}

static void act(struct pair *pair, int from, char *frame, size_t n, const struct tl_header *header,
                const struct tl_rule *rule)
{
    int to = 1 - from;
    switch (rule->action) {
    case TL_DROP:
        break;
    case TL_DELAY:
        hold(pair, to, frame, n, rule->delay_ms);
        break;
    case TL_CUT_MID:
        bytes_add(&pair->out[to], frame, n / 2);
        pair->closing = true;
        break;
    case TL_CUT:
        pair->closing = true;
        break;
    case TL_ANSWER:
        answer(pair, from, header, rule);
        break;
    case TL_ALTER:
        alter(frame, n, rule);
        bytes_add(&pair->out[to], frame, n);
        break;
    }
}

/* Passes on, or acts on, one whole frame that came from a side. */
static void on_frame(struct tl_proxy *proxy, struct pair *pair, int from, char *frame, size_t n)
{
    struct tl_header header = {0};
    struct tl_rule rule;
    bool known = tl_frame_header(frame, n, &header);
    bool response = known && (header.flag & 1);
    int32_t *slot = &pair->codes[(uint32_t)header.opaque % MAX_OPAQUES];
    int code = response ? *slot - 1 : header.code;
    if (known && !response && from == 0) {
        *slot = header.code + 1;
    }
    pthread_mutex_lock(&proxy->lock);
    if (known && !response) {
        proxy->seen_all++;
        if (code >= 0 && code < MAX_CODES) {
            proxy->seen[code]++;
        }
    }
    bool acts = known && match(proxy, response, code, &rule);
    tl_proxy_watcher watcher = known && !response && from == 0 ? proxy->watcher : NULL;
    void *user = proxy->watcher_user;
    pthread_mutex_unlock(&proxy->lock);
    if (watcher) {
        watcher(frame, n, user);
    }
    if (acts) {
        act(pair, from, frame, n, &header, &rule);
    } else {
        bytes_add(&pair->out[1 - from], frame, n);
    }
}

static void cut_frames(struct tl_proxy *proxy, struct pair *pair, int from)
{
    struct bytes *in = &pair->in[from];
    size_t done = 0;
    while (!pair->closing) {
        long size = tl_frame_size(in->data + done, in->len - done);
        if (size < 0) { /* no frames: pass the bytes on as they are */
            bytes_add(&pair->out[1 - from], in->data + done, in->len - done);
            done = in->len;
        }
        if (size <= 0) {
            break;
        }
        on_frame(proxy, pair, from, in->data + done, (size_t)size);
        done += (size_t)size;
    }
    bytes_take(in, done);
}

static void read_side(struct tl_proxy *proxy, struct pair *pair, int side)
{
    char buf[65536];
    ssize_t n = recv(pair->fd[side], buf, sizeof buf, MSG_DONTWAIT);
    if (n > 0) {
        bytes_add(&pair->in[side], buf, (size_t)n);
        cut_frames(proxy, pair, side);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        pair->closing = true;
    }
}

static void write_side(struct pair *pair, int side)
{
    struct bytes *out = &pair->out[side];
    ssize_t n =
        out->len ? send(pair->fd[side], out->data, out->len, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (n > 0) {
        bytes_take(out, (size_t)n);
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        pair->closing = true;
        out->len = 0;
    }
}

/* Moves frames whose time has come to the output; returns ms until the next, -1 = none. */
static int64_t release_late(struct pair *pair)
{
    int64_t next = -1;
    for (struct late **at = &pair->late; *at;) {
        struct late *late = *at;
        int64_t left = late->due_ms - now_ms();
        if (left <= 0) {
            bytes_add(&pair->out[late->side], late->data, late->n);
            *at = late->next;
            free(late);
            continue;
        }
        next = next < 0 || left < next ? left : next;
        at = &late->next;
    }
    return next;
}

static void accept_pair(struct tl_proxy *proxy)
{
    int client = accept(proxy->listener, NULL, NULL);
    if (client < 0) {
        return;
    }
    pthread_mutex_lock(&proxy->lock);
    proxy->accepted++;
    bool refuse = proxy->refuse;
    struct sockaddr_in target = proxy->target;
    pthread_mutex_unlock(&proxy->lock);
    int server = refuse ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int slot = 0;
    while (slot < MAX_PAIRS && proxy->pairs[slot]) {
        slot++;
    }
    if (server < 0 || slot == MAX_PAIRS ||
        connect(server, (struct sockaddr *)&target, sizeof target) < 0) {
        close(client);
        if (server >= 0) {
            close(server);
        }
        return;
    }
    int one = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    proxy->pairs[slot] = calloc(1, sizeof *proxy->pairs[slot]);
    proxy->pairs[slot]->fd[0] = client;
    proxy->pairs[slot]->fd[1] = server;
}

/* One round for all pairs after poll; refused and finished ones go. Returns the wait for the next
 * poll in ms. */
static void push_to_clients(struct tl_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    for (int i = 0; proxy->push.len > 0 && i < MAX_PAIRS; i++) {
        if (proxy->pairs[i]) {
            bytes_add(&proxy->pairs[i]->out[0], proxy->push.data, proxy->push.len);
        }
    }
    proxy->push.len = 0;
    pthread_mutex_unlock(&proxy->lock);
}

static int64_t serve_pairs(struct tl_proxy *proxy, bool drop_all)
{
    int64_t wait = -1;
    for (int i = 0; i < MAX_PAIRS; i++) {
        struct pair *pair = proxy->pairs[i];
        if (!pair) {
            continue;
        }
        int64_t late = release_late(pair);
        wait = late >= 0 && (wait < 0 || late < wait) ? late : wait;
        write_side(pair, 0);
        write_side(pair, 1);
        if (drop_all || pair->closing) {
            proxy->pairs[i] = NULL;
            pair_free(pair);
        }
    }
    return wait;
}

static void fill_poll(struct tl_proxy *proxy, struct pollfd *fds, bool quiet)
{
    fds[0] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = proxy->wake[0], .events = POLLIN};
    for (int i = 0; i < MAX_PAIRS; i++) {
        struct pair *pair = proxy->pairs[i];
        for (int side = 0; side < 2; side++) {
            short events =
                pair && !quiet ? (short)(POLLIN | (pair->out[side].len ? POLLOUT : 0)) : 0;
            fds[2 + 2 * i + side] =
                (struct pollfd){.fd = pair && !quiet ? pair->fd[side] : -1, .events = events};
        }
    }
}

static void *proxy_main(void *arg)
{
    struct tl_proxy *proxy = arg;
    static _Thread_local struct pollfd fds[2 + 2 * MAX_PAIRS];
    int64_t wait = -1;
    for (;;) {
        pthread_mutex_lock(&proxy->lock);
        bool stop = proxy->stop;
        bool refuse = proxy->refuse;
        bool quiet = proxy->blackhole;
        pthread_mutex_unlock(&proxy->lock);
        if (stop || refuse) {
            serve_pairs(proxy, true);
        }
        if (stop) {
            return NULL;
        }
        fill_poll(proxy, fds, quiet);
        if (poll(fds, 2 + 2 * MAX_PAIRS, (int)wait) < 0 && errno != EINTR) {
            die("poll");
        }
        char drain[64];
        if (fds[1].revents && read(proxy->wake[0], drain, sizeof drain) < 0) {
            die("read");
        }
        for (int i = 0; i < MAX_PAIRS; i++) {
            for (int side = 0; side < 2; side++) {
                if (proxy->pairs[i] &&
                    fds[2 + 2 * i + side].revents & (POLLIN | POLLHUP | POLLERR)) {
                    read_side(proxy, proxy->pairs[i], side);
                }
            }
        }
        if (fds[0].revents) {
            accept_pair(proxy);
        }
        push_to_clients(proxy);
        wait = quiet ? -1 : serve_pairs(proxy, false);
    }
}

struct tl_proxy *tl_proxy_start(const char *target)
{
    struct tl_proxy *proxy = calloc(1, sizeof *proxy);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    pthread_mutex_init(&proxy->lock, NULL);
    parse_addr(target, &proxy->target);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(proxy->listener, (struct sockaddr *)&addr, sizeof addr) < 0 ||
        listen(proxy->listener, 64) < 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&addr, &len) < 0 ||
        pipe2(proxy->wake, O_CLOEXEC) < 0) {
        die("proxy");
    }
    snprintf(proxy->addr, sizeof proxy->addr, "127.0.0.1:%d", ntohs(addr.sin_port));
    if (pthread_create(&proxy->thread, NULL, proxy_main, proxy) != 0) {
        die("pthread_create");
    }
    return proxy;
}

const char *tl_proxy_addr(const struct tl_proxy *proxy)
{
    return proxy->addr;
}

static void wake(struct tl_proxy *proxy)
{
    if (write(proxy->wake[1], "w", 1) != 1) {
        die("write");
    }
}

void tl_proxy_target(struct tl_proxy *proxy, const char *target)
{
    pthread_mutex_lock(&proxy->lock);
    parse_addr(target, &proxy->target);
    pthread_mutex_unlock(&proxy->lock);
}

void tl_proxy_add(struct tl_proxy *proxy, const struct tl_rule *rule)
{
    pthread_mutex_lock(&proxy->lock);
    if (proxy->rule_count == TL_RULES_MAX) {
        abort();
    }
    proxy->rules[proxy->rule_count++] = *rule;
    pthread_mutex_unlock(&proxy->lock);
}

void tl_proxy_clear(struct tl_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->rule_count = 0;
    pthread_mutex_unlock(&proxy->lock);
}

void tl_proxy_refuse(struct tl_proxy *proxy, bool on)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->refuse = on;
    pthread_mutex_unlock(&proxy->lock);
    wake(proxy);
}

void tl_proxy_blackhole(struct tl_proxy *proxy, bool on)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->blackhole = on;
    pthread_mutex_unlock(&proxy->lock);
    wake(proxy);
}

uint64_t tl_proxy_seen(struct tl_proxy *proxy, int code)
{
    pthread_mutex_lock(&proxy->lock);
    uint64_t n = code < 0 ? proxy->seen_all : code < MAX_CODES ? proxy->seen[code] : 0;
    pthread_mutex_unlock(&proxy->lock);
    return n;
}

uint64_t tl_proxy_connections(struct tl_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    uint64_t n = proxy->accepted;
    pthread_mutex_unlock(&proxy->lock);
    return n;
}

void tl_proxy_watch(struct tl_proxy *proxy, tl_proxy_watcher watcher, void *user)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->watcher = watcher;
    proxy->watcher_user = user;
    pthread_mutex_unlock(&proxy->lock);
}

void tl_proxy_push(struct tl_proxy *proxy, int code, const char *ext, const char *body)
{
    const struct tl_header header = {.code = code, .opaque = 1, .flag = 2};
    size_t n = 0;
    char *frame = tl_frame_make(&header, NULL, ext, body, strlen(body), &n);
    pthread_mutex_lock(&proxy->lock);
    bytes_add(&proxy->push, frame, n);
    pthread_mutex_unlock(&proxy->lock);
    free(frame);
    wake(proxy);
}

void tl_proxy_stop(struct tl_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->stop = true;
    pthread_mutex_unlock(&proxy->lock);
    wake(proxy);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
    close(proxy->wake[0]);
    close(proxy->wake[1]);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy->push.data);
    free(proxy);
}
