/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Ends of transactions over a bad way: whatever becomes of the end and its answer, the caller is
 * told the documented outcome by its deadline, and when the way is good again, the answer to the
 * broker's question leads to exactly one message. (Half messages are in producer_failure_test.)
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define WAIT_MS    30000
#define TIMEOUT_MS 400   /* of an end */
#define MACHINE_MS 10000 /* a machine may be slow, but a deadline that is not kept is never */

/* Asked often and for as long as it takes. */
static const char *const asking[] = {"transactionTimeOut",
                                     "200",
                                     "transactionCheckInterval",
                                     "100",
                                     "transactionCheckMax",
                                     "100000",
                                     NULL};

struct way {
    struct tl_detour detour;
    rmq_producer *producer;
    atomic_bool may_answer; /* questions are answered with UNKNOWN before */
    struct tl_seen seen;
    rmq_consumer *consumer;
};

static rmq_transaction_state check(const rmq_message_view *message, void *user)
{
    struct way *way = user;
    (void)message;
    return atomic_load(&way->may_answer) ? RMQ_TRANSACTION_COMMIT : RMQ_TRANSACTION_UNKNOWN;
}

static void open_way(struct way *way)
{
    rmq_error *err = NULL;
    rmq_producer_options options;
    tl_detour_start(&way->detour, 2, asking);
    tl_producer_options_init(&options);
    options.producer_group = way->detour.cluster.group;
    options.namesrv_addr = tl_namesrv_addr(way->detour.namesrv);
    options.send_msg_timeout_ms = TIMEOUT_MS;
    options.transaction_check = check;
    options.transaction_check_user = way;
    options.heartbeat_broker_interval_ms = 200; /* after a cut the broker soon knows it again */
    TL_OK(rmq_producer_create(&options, &way->producer, &err));
    way->consumer = tl_consumer(&way->detour.cluster, "*", tl_seen_listener, &way->seen);
}

static void close_way(struct way *way)
{
    rmq_producer_destroy(way->producer);
    rmq_consumer_destroy(way->consumer);
    tl_detour_stop(&way->detour);
}

struct row {
    const char *name;
    const char *script;
    rmq_status status;
    bool at_once; /* the broker knows: consumed before any question is answered */
};

static const struct row rows[] = {
    {"nothing", "", RMQ_OK, true},
    {"the end is lost", "drop request 37 times -1", RMQ_ERR_TIMEOUT, false},
    {"its answer is lost", "drop response 37 times -1", RMQ_ERR_TIMEOUT, true},
    {"its answer is too late", "delay response 37 times 1 ms 900", RMQ_ERR_TIMEOUT, true},
    {"the connection breaks", "cut request 37 times 1", RMQ_ERR_DISCONNECTED, false},
    {"it breaks inside the end", "cutmid request 37 times 1", RMQ_ERR_DISCONNECTED, false},
    {"it breaks inside the answer", "cutmid response 37 times 1", RMQ_ERR_DISCONNECTED, true},
    {"busy", "answer request 37 times 1 code 2 remark busy", RMQ_ERR_BROKER, false},
    {"refused", "answer request 37 times 1 code 16 remark no", RMQ_ERR_BROKER, false},
};

static rmq_transaction_state commit(const rmq_message *message, const char *id, void *user)
{
    struct way *way = user;
    (void)message;
    (void)id;
    TL_CHECK(tl_proxy_script(way->detour.proxy, rmq_message_property(message, "script")));
    return RMQ_TRANSACTION_COMMIT;
}

static rmq_message *message_of(const struct way *way, int number, const char *script)
{
    char text[16];
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    TL_OK(rmq_message_create(way->detour.cluster.topic, &message, &err));
    snprintf(text, sizeof text, "%d", number);
    TL_OK(rmq_message_set_property(message, "n", text));
    if (*script) {
        TL_OK(rmq_message_set_property(message, "script", script));
    }
    TL_OK(rmq_message_copy_body(message, "body", 4));
    return message;
}

/* The half message is stored on a good way; the rules begin with the end. */
static void run_row(struct way *way, const struct row *row, int number)
{
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    rmq_transaction_state state = RMQ_TRANSACTION_UNKNOWN;
    rmq_message *message = message_of(way, number, row->script);
    atomic_store(&way->may_answer, false);
    int64_t start = tl_now_ms();
    rmq_status st = rmq_producer_send_in_transaction(way->producer, message, commit, way, WAIT_MS,
                                                     &state, &result, &err);
    int64_t took = tl_now_ms() - start;
    if (st != row->status || result == NULL || state != RMQ_TRANSACTION_COMMIT ||
        took > TIMEOUT_MS + MACHINE_MS) {
        tl_fail(__FILE__, __LINE__, "%s: %s, result %d, state %d, %lld ms: %s", row->name,
                rmq_status_name(st), result != NULL, (int)state, (long long)took,
                err ? rmq_error_message(err) : "");
    }
    if (row->at_once) {
        tl_seen_wait(&way->seen, number + 1, WAIT_MS);
    } else {
        TL_EQUAL(atomic_load(&way->seen.times[number]), 0);
    }
    tl_proxy_clear(way->detour.proxy);
    atomic_store(&way->may_answer, true);
    tl_seen_wait(&way->seen, number + 1, WAIT_MS);
    rmq_error_destroy(err);
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
}

static void an_end_meets_every_fault_with_the_documented_outcome(void)
{
    static struct way way;
    int count = (int)(sizeof rows / sizeof rows[0]);
    open_way(&way);
    for (int i = 0; i < count; i++) {
        run_row(&way, &rows[i], i);
    }
    close_way(&way);
    for (int i = 0; i < count; i++) {
        TL_EQUAL(atomic_load(&way.seen.times[i]), 1);
    }
}

static void a_broker_that_swallows_the_end_costs_the_deadline_and_asks_later(void)
{
    static struct way way;
    rmq_error *err = NULL;
    rmq_transaction *transaction = NULL;
    open_way(&way);
    rmq_message *message = message_of(&way, 0, "");
    TL_OK(rmq_producer_prepare_transaction(way.producer, message, WAIT_MS, &transaction, &err));
    tl_proxy_blackhole(way.detour.proxy, true);
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_transaction_end(transaction, RMQ_TRANSACTION_COMMIT, &err), RMQ_ERR_TIMEOUT);
    int64_t took = tl_now_ms() - start;
    TL_CHECK(took >= TIMEOUT_MS - 2 && took <= TIMEOUT_MS + MACHINE_MS);
    rmq_error_destroy(err);
    rmq_transaction_destroy(transaction);
    rmq_message_destroy(message);
    tl_proxy_refuse(way.detour.proxy, true); /* what was swallowed goes with its connections */
    tl_proxy_blackhole(way.detour.proxy, false);
    tl_proxy_refuse(way.detour.proxy, false);
    atomic_store(&way.may_answer, true);
    tl_seen_wait(&way.seen, 1, WAIT_MS);
    close_way(&way);
    TL_EQUAL(atomic_load(&way.seen.total), 1);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(an_end_meets_every_fault_with_the_documented_outcome),
        TL_CASE(a_broker_that_swallows_the_end_costs_the_deadline_and_asks_later),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
