/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The servers of an end-to-end test: a broker inside the process, or the one that RMQ_NAMESRV names
 * (then faults and stops cannot be asked for, and cases that need them are skipped). Topic names
 * are made unique, since a real broker keeps them. Everything here ends the case when it fails.
 */
#ifndef RQ_TESTS_LIB_CLUSTER_H
#define RQ_TESTS_LIB_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

struct tl_cluster {
    rmq_broker *broker; /* NULL when it is not in this process */
    pid_t pid;          /* of one started apart, else 0 */
    char namesrv[128];
    char topic[64];
    char group[64];
};

/* Starts it with a topic of so many queues. */
void tl_cluster_start(struct tl_cluster *cluster, int queues);

/* The same with options of the broker: key, value, …, NULL. One elsewhere must have been told. */
void tl_cluster_start_with(struct tl_cluster *cluster, int queues, const char *const *options);

/* The same in a process of its own, so that memory and descriptors are the client's alone; before
 * this process has a thread. tl_cluster_stop ends it. With RMQ_NAMESRV as tl_cluster_start. */
void tl_cluster_start_apart(struct tl_cluster *cluster, int queues);

/* Skips the case when the broker is not in this process. */
void tl_cluster_needs_own(const struct tl_cluster *cluster);
void tl_cluster_stop(struct tl_cluster *cluster);

/* Default options but for the deadline of a send, 20 s: a real broker that has just started on a busy
 * machine, or a disk that stands still, may take longer than the 3 s of the default, and must not
 * decide a test of something else. */
void tl_producer_options_init(rmq_producer_options *options);
/* The same with the cluster's group and name server. */
rmq_producer_options tl_producer_options(const struct tl_cluster *cluster);

/* A producer with those options; and one on any name servers, with a deadline for its sends. */
rmq_producer *tl_producer(const struct tl_cluster *cluster);
rmq_producer *tl_producer_on(const char *namesrv, int64_t timeout_ms);

/* A message with a copy of the body. */
rmq_message *tl_message(const char *topic, const void *body, size_t size);

rmq_admin *tl_admin(const struct tl_cluster *cluster);

/* Whether a text of lines has this one. */
bool tl_has_line(const char *text, const char *line);

/* Sends "PREFIX-FIRST" … one by one, key "k-N", property "n"; each must be acknowledged. */
void tl_send(const struct tl_cluster *cluster, rmq_producer *producer, const char *prefix,
             int first, int count);

/* The same with a producer of its own, prefix "m". */
void tl_send_some(const struct tl_cluster *cluster, int first, int count);

/* Options of a consumer of the cluster's group from the first offset; and one with options, which
 * subscribes the cluster's topic and is started. */
rmq_consumer_options tl_consumer_options(const struct tl_cluster *cluster);
rmq_consumer *tl_consumer_start(const struct tl_cluster *cluster,
                                const rmq_consumer_options *options);

/* A started consumer from the first offset, with a listener or (NULL) to be polled. */
rmq_consumer *tl_consumer(const struct tl_cluster *cluster, const char *expression,
                          rmq_listener_fn listener, void *user);

/* Messages seen by number (property "n"), for listeners of any thread. */
#define TL_SEEN_MAX 20000
struct tl_seen {
    _Atomic int times[TL_SEEN_MAX];
    _Atomic int different;
    _Atomic int total;
};
void tl_seen_add(struct tl_seen *seen, const rmq_message_view *view);
rmq_consume_result tl_seen_listener(const rmq_message_view *const *messages, size_t count,
                                    /* user: struct tl_seen */
                                    rmq_consume_context *context, void *user);

/* Fails unless each of so many messages came once. A Java broker may lose a first offset of a new
 * group when those of two queues come to it at the same time, and so give a queue out again: there
 * a message may come more often. */
void tl_cluster_once(const struct tl_cluster *cluster, int deliveries, int messages);

/* Waits until so many different messages were seen. */
void tl_seen_wait(struct tl_seen *seen, int different, int64_t timeout_ms);

/* What the broker has stored for the group in that queue; -1 when it has nothing. */
int64_t tl_committed(const struct tl_cluster *cluster, int queue);

/* Whether the group pulls or pops the topic, for consumers whose broker shares the queues out. */
void tl_set_request_mode(const struct tl_cluster *cluster, rmq_message_request_mode mode);
/* Messages that the topic's queues hold, asked of their brokers. */
int64_t tl_stored(const char *namesrv, const char *topic);

/* Takes events until one of a type has words in its text; others are dropped. Fails after 10 s. */
void tl_take_notice(rmq_events *events, rmq_event_type type, const char *words);

/* One poll of a lite pull consumer: what it gave is noted and given back; how many. And polls until
 * so many different ones were seen, at most 20 s. */
size_t tl_lite_pull_take(rmq_lite_pull_consumer *consumer, struct tl_seen *to, int64_t timeout_ms);
void tl_lite_pull_take_until(rmq_lite_pull_consumer *consumer, struct tl_seen *to, int different);

#endif
