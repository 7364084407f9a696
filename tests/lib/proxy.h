/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A TCP proxy that knows frames: it drops, delays, cuts, answers or alters them by request code and
 * count. One thread each. Clients reach it through the route that a fake name server gives
 * (fake_namesrv.h), since a broker tells its own address otherwise.
 */
#ifndef RQ_TESTS_LIB_PROXY_H
#define RQ_TESTS_LIB_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tl_proxy;

#define TL_RULES_MAX 64 /* at a time; one more aborts the test */

enum tl_action {
    TL_DROP,    /* the frame disappears */
    TL_DELAY,   /* it goes on after delay_ms; what follows on its connection is not held up */
    TL_CUT,     /* both connections are closed instead */
    TL_CUT_MID, /* half of the frame goes on, then both are closed */
    TL_ANSWER,  /* the sender gets an answer with answer_code and remark, the receiver nothing */
    /* the byte at alter_at behind the header (negative: from the end) is XORed with alter_with */
    TL_ALTER
};

struct tl_rule {
    enum tl_action action;
    bool responses; /* acts on answers to code instead of requests of code */
    int code;       /* request code; -1 = every */
    int skip;       /* so many matching frames pass first */
    int times;      /* then it acts so often; -1 = for ever */
    int64_t delay_ms;
    int answer_code;
    char remark[64];
    long alter_at;
    unsigned char alter_with;
};

/* Listens on 127.0.0.1, forwards to "host:port" (numeric). Aborts the test on failure. */
struct tl_proxy *tl_proxy_start(const char *target);
const char *tl_proxy_addr(const struct tl_proxy *proxy);
void tl_proxy_target(struct tl_proxy *proxy, const char *target); /* for connections from now on */
void tl_proxy_add(struct tl_proxy *proxy, const struct tl_rule *rule);
void tl_proxy_clear(struct tl_proxy *proxy);

/* Rules as text, separated by ';':  ACTION request|response CODE|* [skip N] [times N] [ms N] [code
 *                                   N] [remark WORD] [at N] [with N]
 * with ACTION drop delay cut cutmid answer alter. Returns false with nothing added when a rule
 * cannot be read. */
bool tl_proxy_script(struct tl_proxy *proxy, const char *script);

/* new connections are closed at once, present ones too */
void tl_proxy_refuse(struct tl_proxy *proxy, bool on);
/* connections stay, nothing moves any more */
void tl_proxy_blackhole(struct tl_proxy *proxy, bool on);
uint64_t tl_proxy_seen(struct tl_proxy *proxy, int code); /* requests of a code so far; -1 = all */
uint64_t tl_proxy_connections(struct tl_proxy *proxy);    /* accepted so far */

/* Shows every request, as it comes and before rules act on it; on the proxy's thread. Before the
 * first connection. */
typedef void (*tl_proxy_watcher)(const char *frame, size_t n, void *user);
void tl_proxy_watch(struct tl_proxy *proxy, tl_proxy_watcher watcher, void *user);

/* Sends a one-way request (extFields and body are JSON texts) to every client that is connected
 * now, as a broker would. */
void tl_proxy_push(struct tl_proxy *proxy, int code, const char *ext, const char *body);
void tl_proxy_stop(struct tl_proxy *proxy);

#endif
