/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Misbehaviour asked for in words, for a broker in another process: the property "fault" of a
 * change of settings (25), when the broker was started with faultInjectionEnable=true. "answer 310
 * times=2 code=2 remark=busy", "delay 11 ms=500", "drop -1 times=1", "cut 15", "refuse
 * connections ms=5000", "refuse writes", "refuse nothing", "pause dispatch", "resume dispatch",
 * "clock 60000", "clear".
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "broker/broker.h"
#include "broker/fault.h"

#define WORDS_MAX  8
#define REFUSED_MS 10000 /* nobody could take it back */
#define DELAY_MS   1000

struct words {
    char *items[WORDS_MAX];
    size_t count;
};

/* Cuts the text, which is written to, at its blanks; the last word keeps the rest. */
static void cut(char *text, struct words *out)
{
    memset(out, 0, sizeof *out);
    while (*text && out->count < WORDS_MAX) {
        text += strspn(text, " \t");
        if (!*text) {
            return;
        }
        out->items[out->count++] = text;
        if (strncmp(text, "remark=", 7) == 0) {
            return; /* has blanks of its own */
        }
        text += strcspn(text, " \t");
        if (*text) {
            *text++ = '\0';
        }
    }
}

/* The value of "name=…" among the words, or NULL. */
static const char *value_of(const struct words *words, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 1; i < words->count; i++) {
        if (strncmp(words->items[i], name, n) == 0 && words->items[i][n] == '=') {
            return words->items[i] + n + 1;
        }
    }
    return NULL;
}

static bool number_of(const struct words *words, const char *name, int32_t def, int32_t *out)
{
    const char *text = value_of(words, name);
    *out = def;
    return !text || rq_slice_to_i32(rq_slice_str(text), out);
}

static bool is(const struct words *words, size_t i, const char *word)
{
    return i < words->count && strcmp(words->items[i], word) == 0;
}

static rmq_status wrong(rmq_error **err, const char *what)
{
    return rq_error_set(err, RMQ_ERR_INVALID, "fault: %s", what);
}

/* Whether the words from one on are all "name=value" with a listed name: one that was passed over
 * would leave a fault that nobody meant. */
static rmq_status check_rest(const struct words *words, size_t from, const char *names,
                             rmq_error **err)
{
    for (size_t i = from; i < words->count; i++) {
        const char *word = words->items[i];
        size_t n = strcspn(word, "=");
        if (word[n] != '=' || !rq_slice_is_listed(rq_slice(word, n), names)) {
            return rq_error_set(err, RMQ_ERR_INVALID, "fault: %s does not take \"%s\"",
                                words->items[0], word);
        }
    }
    return RMQ_OK;
}

static rmq_status add_rule(rmq_broker *broker, const struct words *words, rmq_error **err)
{
    int32_t code, times, response, ms;
    rmq_status st = check_rest(words, 2,
                               is(words, 0, "answer")  ? "times;code;remark"
                               : is(words, 0, "delay") ? "times;ms"
                                                       : "times",
                               err);
    if (st) {
        return st;
    }
    if (words->count < 2 || !rq_slice_to_i32(rq_slice_str(words->items[1]), &code) ||
        !number_of(words, "times", 1, &times) || !number_of(words, "code", 1, &response) ||
        !number_of(words, "ms", DELAY_MS, &ms)) {
        return wrong(err, "a request code is expected after the verb, and numbers");
    }
    if (is(words, 0, "answer")) {
        return rmq_broker_fault_answer(broker, code, times, response, value_of(words, "remark"),
                                       err);
    }
    if (is(words, 0, "delay")) {
        return rmq_broker_fault_delay(broker, code, times, ms, err);
    }
    return is(words, 0, "drop") ? rmq_broker_fault_drop(broker, code, times, err)
                                : rmq_broker_fault_cut(broker, code, times, err);
}

static rmq_status refuse(rmq_broker *broker, const struct words *words, rmq_error **err)
{
    int32_t ms;
    rmq_status st = check_rest(words, 2, is(words, 1, "connections") ? "ms" : "", err);
    if (st) {
        return st;
    }
    if (is(words, 1, "connections")) {
        if (!number_of(words, "ms", REFUSED_MS, &ms) || ms <= 0) {
            return wrong(err, "refuse connections ms=NUMBER");
        }
        rq_fault_refuse_connections_for(&broker->fault, ms);
    } else if (is(words, 1, "writes")) {
        rq_fault_refuse(&broker->fault, RQ_REFUSE_WRITES, true);
    } else if (is(words, 1, "nothing")) {
        rq_fault_refuse_connections_for(&broker->fault, 0);
        rq_fault_refuse(&broker->fault, RQ_REFUSE_CONNECTIONS, false);
        rq_fault_refuse(&broker->fault, RQ_REFUSE_WRITES, false);
    } else {
        return wrong(err, "refuse connections, writes or nothing");
    }
    return RMQ_OK;
}

static rmq_status set_clock(rmq_broker *broker, const struct words *words, rmq_error **err)
{
    int64_t ms;
    if (words->count < 2 || !rq_slice_to_i64(rq_slice_str(words->items[1]), &ms)) {
        return wrong(err, "a number of milliseconds is expected after clock");
    }
    rmq_status st = check_rest(words, 2, "", err);
    return st ? st : rmq_broker_fault_clock_offset(broker, ms, err);
}

static rmq_status run(rmq_broker *broker, const struct words *words, rmq_error **err)
{
    if (is(words, 0, "answer") || is(words, 0, "delay") || is(words, 0, "drop") ||
        is(words, 0, "cut")) {
        return add_rule(broker, words, err);
    }
    if (is(words, 0, "refuse")) {
        return refuse(broker, words, err);
    }
    if ((is(words, 0, "pause") || is(words, 0, "resume")) && is(words, 1, "dispatch")) {
        rmq_status st = check_rest(words, 2, "", err);
        return st ? st : rmq_broker_fault_pause_dispatch(broker, is(words, 0, "pause"), err);
    }
    if (is(words, 0, "clock")) {
        return set_clock(broker, words, err);
    }
    if (is(words, 0, "clear")) {
        rmq_status st = check_rest(words, 1, "", err);
        if (!st) {
            rmq_broker_fault_clear(broker);
        }
        return st;
    }
    return wrong(err, "answer, delay, drop, cut, refuse, pause dispatch, resume dispatch, clock or "
                      "clear is expected");
}

rmq_status rq_fault_run_text(rmq_broker *broker, const char *text, rmq_error **err)
{
    struct words words;
    char *copy = rq_strdup(text);
    if (!copy) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
    }
    cut(copy, &words);
    rmq_status st = run(broker, &words, err);
    rq_free(copy);
    return st;
}
