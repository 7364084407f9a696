/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A topic that a consumer has subscribed: who shares its queues, and whether brokers accept its
 * expression. I/O thread only. Counterparts: RebalanceImpl, ConsumerStatsManager.
 */
#ifndef RQ_CLIENT_SUBSCRIBED_H
#define RQ_CLIENT_SUBSCRIBED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "client/consumer_ask.h"
#include "client/instance.h"
#include "wire/bodies.h"
#include "wire/subscription.h"

/* Counters of a topic's consumption up to a moment. */
struct rq_counts {
    int64_t at_ms;
    int64_t ok; /* messages */
    int64_t failed;
    int64_t pulled;
    int64_t pulls; /* answers with messages */
    int64_t pull_ms;
};

#define RQ_SAMPLES 6

struct rq_rates {
    double ok_tps; /* messages a second, over the last minute */
    double failed_tps;
    double pull_tps;
    double pull_ms;    /* of a pull that brought something */
    double consume_ms; /* of a listener call; all topics together */
    int64_t failed;    /* messages since the start */
};

/* A subscribed topic and its share of queues. */
struct rq_subscribed {
    struct rq_list node; /* in consumer->topics */
    struct rmq_consumer *consumer;
    struct rq_subscription *sub;
    int refs; /* of the list, and of a request under way */
    bool is_retry;
    bool assigned; /* the program chose the queues: nothing is shared out */
    bool gone;     /* unsubscribed, or the consumer closes */
    bool settled;  /* there is a share, or no such topic: a start waits no longer for it */
    bool watched;
    struct rq_watch watch;
    struct rq_route *route; /* retained; NULL = not known */
    struct rq_list queues;  /* struct rq_owned.node */
    size_t queue_count;
    struct rq_ask members; /* 38, or 400 when the broker shares out */
    bool shares_itself;    /* the broker does not know 400 */
    struct rq_ask check;   /* 46, for expressions that not every broker knows */
    bool checking;
    int64_t checked_version; /* which of the topic's subscriptions the question is about */
    bool accepted;           /* by a broker */
    bool refused;
    bool asking;
    bool again;             /* asked for once more meanwhile */
    bool failing;           /* the last member list failed: logged */
    int64_t failing_ms;     /* since then */
    int64_t quiet_until_ms; /* refused pulls and questions are not logged before this */
    /* a broker did not know the subscription: since when this goes on, and the last time */
    int64_t forgotten_since_ms;
    int64_t forgotten_ms;
    struct rq_timer retry;
    int64_t delay_ms;
    struct rq_counts counts; /* of queues that are gone */
    struct rq_counts samples[RQ_SAMPLES];
    unsigned sample_next;
    char topic[];
};

/* ---- rebalance.c ---- */

rmq_status rq_subscribed_create(struct rmq_consumer *consumer, struct rq_subscription *sub,
                                bool is_retry, struct rq_subscribed **out);
struct rq_subscribed *rq_subscribed_find(struct rmq_consumer *consumer, const char *topic);
rmq_status rq_subscribed_watch(struct rq_subscribed *topic);
void rq_subscribed_refresh(struct rq_subscribed *topic); /* asks for the route now */
void rq_subscribed_release(struct rq_subscribed *topic);
void rq_subscribed_remove(struct rq_subscribed *topic, bool commit);
void rq_rebalance_all(struct rmq_consumer *consumer);
rmq_status rq_rebalance_apply_assignments(struct rq_subscribed *topic,
                                          const struct rq_assignments *assignments);

/* ---- assignment.c ---- */

/* Whether the broker is asked for the share of a topic, 400, and not for the members, 38. */
bool rq_assignment_is_the_brokers(const struct rq_subscribed *topic);
void rq_assignment_ask(struct rq_subscribed *topic); /* topic->members, whose done is set */
/* Its answer. Subscribes the retry topic of popped messages while nothing is popped, so that a
 * group that popped before loses none. */
rmq_status rq_assignment_take(struct rq_subscribed *topic, struct rq_in *answer);
void rq_assignment_forget(struct rq_subscribed *topic); /* unsubscribed: so is its retry topic */

/* ---- subscription_check.c ---- */

void rq_subscribed_check(struct rq_subscribed *topic); /* asks a broker, when that is needed */
bool rq_subscribed_may_pull(const struct rq_subscribed *topic);

/* ---- consumer_stats.c ---- */

void rq_consumer_stats_rates(struct rq_subscribed *topic, struct rq_rates *out);

#endif
