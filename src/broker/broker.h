/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The broker as its parts see it: one struct that holds them all, the session of a connection, a
 * request on its way. Processors run on the loop thread of their connection; tables have their own
 * locks; what takes time (files, registration, delayed messages, expiry) runs on the background
 * loop. Counterpart: BrokerController.
 */
#ifndef RQ_BROKER_BROKER_H
#define RQ_BROKER_BROKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/broker.h>

#include "base/list.h"
#include "broker/clients.h"
#include "broker/cold_data.h"
#include "broker/fault.h"
#include "broker/groups.h"
#include "broker/hold.h"
#include "broker/mapping_upkeep.h"
#include "broker/offsets.h"
#include "broker/options.h"
#include "broker/pop_checkpoint.h"
#include "broker/pop_hold.h"
#include "broker/queue_locks.h"
#include "broker/queue_mappings.h"
#include "broker/registration.h"
#include "broker/remotes.h"
#include "broker/request_modes.h"
#include "broker/route_cache.h"
#include "broker/schedule.h"
#include "broker/stats.h"
#include "broker/timers.h"
#include "broker/topics.h"
#include "broker/transaction.h"
#include "namesrv/answer.h"
#include "namesrv/namesrv.h"
#include "net/listener.h"
#include "net/loop.h"
#include "store/store.h"
#include "wire/message.h"

#define RQ_BROKER_LOOPS_MAX 64

struct rq_http;

/* A loop that serves connections, and its one dispatch per turn. */
struct rq_broker_loop {
    struct rmq_broker *broker;
    struct rq_loop *loop;
    struct rq_task dispatch;
    /* owned by the loop thread */
    bool dispatch_posted;
    struct rq_stats_gathered gathered;
};

/* Of a connection; made when it opens, freed when it has closed. */
struct rq_session {
    struct rq_conn *conn;
    struct rq_broker_loop *loop;
    struct rq_host born_host; /* immutable */
    struct rq_list parked;    /* struct rq_parked.of_session; guarded by the hold's lock */
    struct rq_list popped;    /* pops that wait; guarded by the pop hold's lock */
    bool is_client;           /* sent a heartbeat; owned by the loop thread */
};

struct rq_request {
    struct rmq_broker *broker;
    struct rq_session *session;
    struct rq_conn *conn;
    struct rq_in *in;
    struct rq_reply_to to;
};

/* Runs before the processor; false: it has answered (or closed) and the request goes no further.
 * The seam for access control. */
typedef bool (*rq_request_hook)(const struct rq_request *request, void *user);

struct rmq_broker {
    /* immutable after start */
    struct rq_broker_settings settings;
    char *addr; /* as registered */
    char *ha_addr;
    char *namesrv_addr;
    char *store_path;
    bool temporary_store;
    struct rq_host store_host;
    char *more_properties; /* what is added to each stored message */
    struct rq_slice more;
    int64_t boot_ms;                 /* wall clock */
    int64_t first_commit_log_offset; /* end of the log when the store was opened */
    rq_request_hook hook;
    void *hook_user;

    struct rq_broker_loop loops[RQ_BROKER_LOOPS_MAX];
    int loop_count;
    struct rq_loop *background;
    struct rq_server *server;
    rmq_namesrv *own_namesrv; /* NULL when registered elsewhere */
    struct rq_store *store;

    struct rq_topics topics;
    struct rq_queue_mappings mappings;
    struct rq_groups groups;
    struct rq_offsets offsets;
    struct rq_clients clients;
    struct rq_queue_locks locks;
    struct rq_hold hold;
    struct rq_schedule schedule;
    struct rq_transactions transactions;
    struct rq_pops pops;
    struct rq_request_modes request_modes;
    struct rq_pop_orders pop_orders;
    struct rq_pop_hold pop_hold;
    /* rank: before the broker tables; each guards some queues of groups that pop */
    struct rq_mutex pop_locks[RQ_POP_LOCKS];
    struct rq_timers timers;
    struct rq_registration registration;
    struct rq_remotes remotes;
    struct rq_route_cache route_cache;
    struct rq_mapping_upkeep mapping_upkeep;
    struct rq_fault fault;
    struct rq_stats stats;
    struct rq_http *http; /* NULL: no metrics; immutable after start */
    struct rq_cold_data cold_data;

    _Atomic uint32_t unique_counter; /* atomic: relaxed, only distinct */

    /* owned by the background loop */
    struct rq_timer stats_timer;
    struct rq_timer scan_timer;
    int64_t scan_ms;
    struct rq_timer persist_timer;
    struct rq_timer delay_persist_timer;
    struct rq_task persist_task;
};

/* RMQ_ERR_FORKED in the child of a fork, whose copy of the broker has no threads: nothing of it may
 * be waited for, and its store is the parent's. RMQ_ERR_INVALID without a broker. Any thread. */
rmq_status rq_broker_check(const rmq_broker *broker, rmq_error **err);

/* Runs the dispatcher at the end of this turn of the session's loop: once for all messages of the
 * turn. Loop thread. */
void rq_broker_dispatch_soon(const struct rq_request *request);

/* The broker's wall clock: the machine's, moved on request. Any thread. */
int64_t rq_broker_now_ms(const struct rmq_broker *broker);

/* Messages that the session's loop has stored, for the statistics. Loop thread. */
void rq_broker_count_put(const struct rq_request *request, struct rq_slice topic, int32_t queue_id,
                         const struct rq_store_put *put, uint64_t nums);

/* The same for one message that another thread than a loop's has stored. Any thread. */
void rq_broker_count_own_put(struct rmq_broker *broker, struct rq_slice topic, int32_t queue_id,
                             const struct rq_store_put *put);

/* Hands what count_put has gathered to the statistics, at the end of a turn. Loop thread. */
void rq_broker_count_gathered(struct rq_broker_loop *loop);

/* Pops: so many messages acknowledged, and checkpoints made, by a group. Any thread. */
void rq_broker_count_acks(struct rmq_broker *broker, struct rq_slice topic, struct rq_slice group,
                          uint64_t count);
void rq_broker_count_checkpoint(struct rmq_broker *broker, struct rq_slice topic,
                                struct rq_slice group);

/* Topics, groups have changed: write them soon, on the background loop. Any thread. */
void rq_broker_persist_soon(struct rmq_broker *broker);

/* On this thread, before an administrator is told that it is done: a kill takes nothing of it. */
void rq_broker_persist_now(struct rmq_broker *broker);

/* Topics have changed: as above, and tell the name servers. Any thread. */
void rq_broker_topics_changed(struct rmq_broker *broker);

/* One request: faults, hook, processor. Loop thread. */
void rq_broker_process(struct rmq_broker *broker, struct rq_session *session, struct rq_in *in);

static inline void rq_request_answer(const struct rq_request *request, int32_t code,
                                     const char *remark)
{
    rq_answer_code(request->conn, &request->to, code, remark);
}

static inline bool rq_request_decode(const struct rq_request *request,
                                     const struct rq_fields *table, void *fields)
{
    return rq_answer_decode(request->conn, request->in->header, table, fields);
}

#define RQ_TEXT(slice) (int)(slice).n, (slice).p ? (slice).p : ""

/* Processors, one file per area. */
void rq_process_send(const struct rq_request *request);
void rq_process_pull(const struct rq_request *request);
void rq_process_query_assignment(const struct rq_request *request);
void rq_process_set_request_mode(const struct rq_request *request);
void rq_process_all_request_modes(const struct rq_request *request);
void rq_process_pop(const struct rq_request *request);
void rq_process_peek(const struct rq_request *request);
void rq_process_notification(const struct rq_request *request);
void rq_process_polling_info(const struct rq_request *request);
void rq_process_ack(const struct rq_request *request);
void rq_process_batch_ack(const struct rq_request *request);
void rq_process_change_invisible(const struct rq_request *request);
void rq_process_send_back(const struct rq_request *request);
void rq_process_recall(const struct rq_request *request);
void rq_process_end_transaction(const struct rq_request *request);
void rq_process_heartbeat(const struct rq_request *request);
void rq_process_unregister_client(const struct rq_request *request);
void rq_process_consumer_list(const struct rq_request *request);
void rq_process_check_client(const struct rq_request *request);
void rq_process_query_offset(const struct rq_request *request);
void rq_process_update_offset(const struct rq_request *request);
void rq_process_queue_offset(const struct rq_request *request); /* 30, 31, 32 */
void rq_process_search_offset(const struct rq_request *request);
void rq_process_lock(const struct rq_request *request);
void rq_process_unlock(const struct rq_request *request);
void rq_process_query_message(const struct rq_request *request);
void rq_process_view_message(const struct rq_request *request);
void rq_process_create_topic(const struct rq_request *request);
void rq_process_create_topics(const struct rq_request *request);
void rq_process_create_static_topic(const struct rq_request *request);
void rq_process_delete_topic(const struct rq_request *request);
void rq_process_all_topics(const struct rq_request *request);
void rq_process_get_topic(const struct rq_request *request);
void rq_process_system_topics(const struct rq_request *request);
void rq_process_put_group(const struct rq_request *request);
void rq_process_put_groups(const struct rq_request *request);
void rq_process_all_groups(const struct rq_request *request);
void rq_process_get_group(const struct rq_request *request);
void rq_process_delete_group(const struct rq_request *request);
void rq_process_topic_stats(const struct rq_request *request);
void rq_process_consume_stats(const struct rq_request *request);
void rq_process_consumer_connections(const struct rq_request *request);
void rq_process_producer_connections(const struct rq_request *request);
void rq_process_all_producers(const struct rq_request *request);
void rq_process_consumed_by(const struct rq_request *request);
void rq_process_topics_of_group(const struct rq_request *request);
void rq_process_runtime_info(const struct rq_request *request);
void rq_process_get_config(const struct rq_request *request);
void rq_process_update_config(const struct rq_request *request);
void rq_process_all_offsets(const struct rq_request *request);
void rq_process_all_delay_offsets(const struct rq_request *request);
void rq_process_reset_offset(const struct rq_request *request);
void rq_process_clone_offset(const struct rq_request *request);
void rq_process_running_info(const struct rq_request *request);
void rq_process_consume_directly(const struct rq_request *request);
void rq_process_time_span(const struct rq_request *request);
void rq_process_correction_offset(const struct rq_request *request);
void rq_process_stats(const struct rq_request *request);
void rq_process_broker_consume_stats(const struct rq_request *request);
void rq_process_query_consume_queue(const struct rq_request *request);
void rq_process_subscription_of(const struct rq_request *request);
void rq_process_group_forbidden(const struct rq_request *request);
void rq_process_min_broker_id(const struct rq_request *request);
void rq_process_ha_info(const struct rq_request *request);
void rq_process_ha_status(const struct rq_request *request);
void rq_process_nothing_to_change(const struct rq_request *request); /* 908, 1008 */
void rq_process_epochs(const struct rq_request *request);
void rq_process_resume_check(const struct rq_request *request);
void rq_process_timer_checkpoint(const struct rq_request *request);
void rq_process_timer_metrics(const struct rq_request *request);
void rq_process_read_ahead(const struct rq_request *request);
void rq_process_users_and_rights(const struct rq_request *request); /* 3001 … 3010 */
void rq_process_rocksdb_progress(const struct rq_request *request);
void rq_process_rocksdb_export(const struct rq_request *request);
void rq_process_pop_rollback(const struct rq_request *request);
void rq_process_put_cold_data(const struct rq_request *request);
void rq_process_remove_cold_data(const struct rq_request *request);
void rq_process_get_cold_data(const struct rq_request *request);
void rq_process_consumer_status(const struct rq_request *request);
void rq_process_clean(const struct rq_request *request); /* 306, 316, 329 */

#endif
