/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The options of a broker, by the property names of the Java broker.conf, and the list of Java properties that are known but not
 * implemented. One table gives defaults, checks and the reference page. The defaults are those for in-process use.
 * Counterparts: BrokerConfig, BrokerIdentity, MessageStoreConfig, NettyServerConfig.
 */
#ifndef RQ_BROKER_OPTIONS_H
#define RQ_BROKER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"

enum rq_broker_role { RQ_ROLE_ASYNC_MASTER, RQ_ROLE_SYNC_MASTER, RQ_ROLE_SLAVE };
enum rq_flush_disk { RQ_FLUSH_ASYNC, RQ_FLUSH_SYNC };

struct rq_broker_options {
    /* identity and addresses */
    const char *broker_name;
    const char *broker_cluster_name;
    int64_t broker_id;
    int32_t broker_role; /* enum rq_broker_role */
    const char *broker_ip1;
    const char *broker_ip2;
    const char *bind_address; /* NULL = brokerIP1 when that is a loop-back address, else every address */
    int32_t listen_port;
    int32_t ha_listen_port;
    const char *namesrv_addr; /* NULL = a name server of its own */
    int32_t server_selector_threads;
    int32_t server_channel_max_idle_time_seconds;
    int32_t register_name_server_period;
    int32_t register_broker_timeout_mills;
    int64_t channel_expired_timeout;
    int64_t subscription_expired_timeout;

    /* topics and groups */
    int32_t broker_permission;
    int32_t default_topic_queue_nums;
    bool auto_create_topic_enable;
    bool cluster_topic_enable;
    bool broker_topic_enable;
    bool auto_create_subscription_group;
    bool trace_topic_enable;
    const char *msg_trace_topic_name;

    /* sending, pulling */
    int32_t max_message_size;
    const char *region_id;
    bool trace_on;
    bool reject_transaction_message;
    int64_t start_accept_send_request_time_stamp;
    const char *message_delay_level;
    int64_t flush_delay_offset_interval;
    bool lite_pull_message_enable;
    bool long_polling_enable;
    int64_t short_polling_time_mills;
    bool notify_consumer_ids_changed_enable;
    int32_t flush_consumer_offset_interval;
    const char *config_black_list;
    int32_t default_query_max_num;

    /* store */
    const char *store_path_root_dir; /* NULL = a temporary directory, removed at stop */
    const char *store_path_commit_log;
    int32_t mapped_file_size_commit_log;
    int32_t mapped_file_size_consume_queue;
    int32_t flush_disk_type; /* enum rq_flush_disk */
    int32_t flush_interval_commit_log;
    int32_t flush_commit_log_least_pages;
    int32_t flush_commit_log_thorough_interval;
    int32_t flush_interval_consume_queue;
    int32_t flush_consume_queue_least_pages;
    int32_t flush_consume_queue_thorough_interval;
    int32_t sync_flush_timeout;
    int32_t max_transfer_bytes_on_message_in_memory;
    int32_t max_transfer_count_on_message_in_memory;
    int32_t max_transfer_bytes_on_message_in_disk;
    int32_t max_transfer_count_on_message_in_disk;
    int32_t access_message_in_memory_max_ratio;
    int32_t file_reserved_time;
    const char *delete_when;
    int32_t disk_max_used_space_ratio;
    bool message_index_enable;
    int32_t max_hash_slot_num;
    int32_t max_index_num;
};

extern const struct rq_table rq_broker_options_table;

/* A property of the Java broker that this one accepts and does not implement. */
bool rq_broker_property_known(const char *name);

/* The nearest name to a mistyped property among both lists; NULL when none is near. */
const char *rq_broker_property_nearest(const char *name);

#endif
