/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The client instance: what producers and consumers of one client id share: connections, routes,
 * broker addresses, heartbeats, and the requests that brokers send to clients. All its state
 * machines run on the process's I/O loop thread; functions marked "loop" are called there only, the
 * others from any thread. Nothing here blocks unless it says so, and no lock of ours is held while
 * a hook runs. Counterpart: MQClientInstance.
 */
#ifndef RQ_CLIENT_INSTANCE_H
#define RQ_CLIENT_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/slice.h"
#include "client/route.h"
#include "net/call.h"
#include "net/client.h"
#include "net/loop.h"
#include "wire/command.h"
#include "wire/frame.h"
#include "wire/header.h"
#include "wire/mq.h"

struct rq_instance;
struct rq_namesrv;

struct rq_instance_options {
    const char *namesrv_addr;  /* NULL = $NAMESRV_ADDR */
    const char *client_ip;     /* NULL = the local address that reaches the name server */
    const char *instance_name; /* NULL = "DEFAULT" */
    const char *unit_name;
    /* true: "DEFAULT" stays (broadcasting); false: it becomes <pid>#<nanoseconds> */
    bool keep_default_name;
    int64_t poll_name_server_interval_ms;
    int64_t heartbeat_broker_interval_ms;
    const char *serialize_type; /* "JSON" or "ROCKETMQ" */
    const char *namespace_v2;   /* NULL = none */
    /* of all requests; lives as long as the instance. NULL = none: the seam for ACL */
    const struct rq_signer *signer;
    bool sends;              /* a producer: vip_channel counts */
    bool vip_channel;        /* sends go to the brokers' VIP ports, two below the others */
    size_t max_queued_bytes; /* frames of a connection that are not written yet; 0 = 256 MiB */
};

/* The instance of the options' client id, made when there is none; each get needs a put. Any thread
 * but not the loop. Errors: RMQ_ERR_INVALID, RMQ_ERR_NO_NAMESRV, RMQ_ERR_NOMEM, RMQ_ERR_IO. */
rmq_status rq_instance_get(const struct rq_instance_options *options, struct rq_instance **out,
                           rmq_error **err);

/* Waits for the loop; not on the loop; may be on the callback thread. */
void rq_instance_put(struct rq_instance *instance);

/* One more put; by who holds one. */
void rq_instance_retain(struct rq_instance *instance);

const char *rq_instance_client_id(const struct rq_instance *instance);
struct rq_loop *rq_instance_loop(struct rq_instance *instance);

/* true in a child of the process that made it. */
bool rq_instance_forked(const struct rq_instance *instance);
struct rq_peers *rq_instance_peers(struct rq_instance *instance);
struct rq_namesrv *rq_instance_namesrv(struct rq_instance *instance); /* client/namesrv.h */

/* Runs fn on the loop and waits until it has returned; directly when called on the loop.
 * RMQ_ERR_FORKED in a child. */
rmq_status rq_instance_run(struct rq_instance *instance, void (*fn)(void *arg), void *arg);

/* ---- members: producer and consumer groups. Embedded by their owner; loop only from add to remove
 * ---- */

struct rq_member;

struct rq_member_ops {
    /* Consumer: appends its object of "consumerDataSet" (wire/heartbeat.h). NULL for a producer. */
    void (*heartbeat)(struct rq_member *member, struct rq_buf *json);
    /* Consumer: 40 came for the group, or a broker's connection is back: rebalance now. */
    void (*ids_changed)(struct rq_member *member);
    /* Request 39, 220, 221, 307, 309 for the group. The member answers with rq_instance_answer, now
     * or later (keep what is needed: header and frame are borrowed). false = not handled: code 3 is
     * answered. */
    bool (*request)(struct rq_member *member, struct rq_peer *peer, const struct rq_header *header,
                    struct rq_in *frame);
    /* Producer: a topic gets this route in place of another, and nobody has seen it yet. Within the
     * line; no lock but that. */
    void (*route_comes)(struct rq_member *member, struct rq_route *route);
};

struct rq_member {
    struct rq_list node;
    const char *group;
    const struct rq_member_ops *ops;
    bool is_consumer;
};

/* Loop. RMQ_ERR_EXISTS when the instance has a member of that kind and group. Heartbeats go out at
 * once. */
rmq_status rq_instance_add(struct rq_instance *instance, struct rq_member *member, rmq_error **err);
/* Loop. Stops hooks at once and sends UNREGISTER_CLIENT to every broker; done (may be NULL) is
 * called on the loop when all have answered or timeout_ms has passed. The member may be freed as
 * soon as this returned. */
void rq_instance_remove(struct rq_instance *instance, struct rq_member *member, int64_t timeout_ms,
                        void (*done)(void *user), void *user);

/* Loop. Heartbeat to all brokers now (subscription or assignment changed); several calls in one
 * turn of the loop are one. */
void rq_instance_heartbeat(struct rq_instance *instance);

/* Loop. Whether heartbeats wait for their answers. A broker may work on one of them after an
 * unregistering that came behind it, and have a member again that is gone. */
bool rq_instance_is_beating(const struct rq_instance *instance);

/* Loop. Every broker that is to know this client has answered, and nothing new is about to be
 * told. */
bool rq_instance_has_greeted(const struct rq_instance *instance);

/* ---- routes ---- */

/* A topic that somebody uses. While watched it is refreshed every poll interval, at once when
 * added; changed is called on the loop with the first route and each time that it differs
 * (borrowed: retain to keep). route NULL: the name server does not know the topic and none was
 * known before; called again only after a change. */
struct rq_watch {
    struct rq_list node;
    struct rq_list topic_node;
    struct rq_topic *topic;
    void (*changed)(struct rq_watch *watch, struct rq_route *route);
};

/* Loop; unwatch is harmless twice. */
rmq_status rq_instance_watch(struct rq_instance *instance, struct rq_watch *watch,
                             const char *topic);
void rq_instance_unwatch(struct rq_instance *instance, struct rq_watch *watch);

/* Newest snapshot of a topic, retained for the caller; NULL when none is known. Any thread, no
 * waiting. */
struct rq_route *rq_instance_route(struct rq_instance *instance, struct rq_slice topic);

/* The same for who sends: NULL, too, when no queue of it takes messages; a look-up asks anew then. */
struct rq_route *rq_instance_publish_route(struct rq_instance *instance, struct rq_slice topic);

/* Sends to one queue wait in line for their broker. Who joins a line looks for the newest route
 * within it; when a route has another address for a broker, those that wait go there before anybody
 * sees it. Any thread, not twice; who is in it may take locks of rank 10 and more. */
void rq_instance_enter_line(struct rq_instance *instance);
void rq_instance_leave_line(struct rq_instance *instance);

/* One look-up of a topic, with an answer in any case: done is called once, on the loop, never
 * within the call. default_queues > 0: for a send, an unknown topic gets TBW102's brokers. A
 * snapshot that is there is used at once unless refresh, or when it has no queue to send to (else:
 * to read). */
struct rq_lookup {
    struct rq_task task;
    struct rq_list node;
    char *topic;
    int32_t default_queues;
    bool refresh;
    int64_t deadline_ms;
    struct rq_timer timer;
    /* route is borrowed, NULL on failure; err is borrowed, NULL on success. */
    void (*done)(struct rq_lookup *lookup, struct rq_route *route, const rmq_error *err);
    struct rq_instance *instance;
};
void rq_instance_lookup(struct rq_instance *instance, struct rq_lookup *lookup, const char *topic,
                        int64_t deadline_ms); /* any thread; set the other fields before */

/* ---- brokers ---- */

enum rq_pick {
    RQ_PICK_MASTER, /* only the master */
    RQ_PICK_ANY,    /* the master, else any address */
    /* this id; a missing slave id: id + 1; still missing: any (Java's
     * findBrokerAddressInSubscribe) */
    RQ_PICK_ID
};

/* Loop. Connection to a broker by name; NULL when the name or the address is unknown. *is_slave
 * (may be NULL) tells whether it is no master. Borrowed until the loop's turn ends. */
struct rq_peer *rq_instance_broker(struct rq_instance *instance, struct rq_slice broker_name,
                                   enum rq_pick pick, int64_t id, bool *is_slave);

/* Loop. The same for the broker that has a queue: of a logical queue (static topics) the one that
 * leads it by the newest route, else the one that it is named after. */
struct rq_peer *rq_instance_queue_broker(struct rq_instance *instance, const struct rq_mq *queue,
                                         enum rq_pick pick, int64_t id);

/* Loop. A broker answered NOT_LEADER_FOR_QUEUE: the topic's route is asked for anew, at most once a
 * second. */
void rq_instance_queue_moved(struct rq_instance *instance, const char *topic);

/* Loop. Health records of all broker names of which a route was ever seen, one after the other: *at
 * starts at 0; NULL at the end. */
const struct rq_broker_health *rq_instance_next_health(struct rq_instance *instance, size_t *at);

/* Loop. Some broker that has the topic: for questions about groups (38, 46). */
struct rq_peer *rq_instance_topic_broker(struct rq_instance *instance, const char *topic);

/* Loop. Connection to an address "host:port" (a message's store host). */
struct rq_peer *rq_instance_peer(struct rq_instance *instance, const char *addr);

/* Loop. A request to a broker failed (rq_fault_failed has been told): it is probed until it
 * answers, and the topic's route is asked for anew. */
void rq_instance_suspect(struct rq_instance *instance, const char *topic);

/* ---- requests ---- */

/* A request of this instance, ready for its encoding: serialization, the fields that all requests
 * have, and who signs. To brokers and name servers. Any thread; it points into the instance. */
struct rq_frame_spec rq_instance_frame(const struct rq_instance *instance, int32_t code,
                                       const struct rq_fields *table, const void *fields);

/* One request with an answer. Embedded; free for the next use when done is entered. */
struct rq_request {
    struct rq_call call;
    struct rq_task task;
    rmq_status early; /* failure before the call was made, delivered through the loop */
    /* Once per request, on the loop, never within rq_instance_request. answer is NULL unless status
     * is RMQ_OK; its code may be any. A timeout shorter than a connection takes is no reason to
     * wait on. */
    void (*done)(struct rq_request *request, rmq_status status, struct rq_in *answer);
};

/* Loop. Sends a request (fields by its table, NULL for none; body copied) to a peer; peer NULL
 * completes with RMQ_ERR_NO_BROKER. */
void rq_instance_request(struct rq_instance *instance, struct rq_peer *peer,
                         struct rq_request *request, int code, const struct rq_fields *table,
                         const void *fields, struct rq_slice body, int64_t timeout_ms);

/* Loop. The same without an answer; failures are dropped. */
void rq_instance_oneway(struct rq_instance *instance, struct rq_peer *peer, int code,
                        const struct rq_fields *table, const void *fields, struct rq_slice body);

/* Any thread. Answers a request of a broker; opaque and flag are those of its header. A oneway
 * request is not answered. */
void rq_instance_answer(struct rq_instance *instance, struct rq_peer *peer, int32_t opaque,
                        int32_t flag, int code, const char *remark, struct rq_slice body);

/* The error of an answer that is not what was hoped for: from the transport status, or, when that
 * is RMQ_OK, from the answer's code and remark. addr: the peer's; what: "pull of T". Returns the
 * status set. */
rmq_status rq_answer_error(rmq_status status, const struct rq_header *header, const char *addr,
                           const char *what, rmq_error **err);

#endif
