/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The options of a broker, by the property names of the Java broker.conf, and the list of Java
 * properties that are known but not implemented. Two tables, this one and the store's, give
 * defaults, checks and the reference page. The defaults are those for in-process use. Counterparts:
 * BrokerConfig, BrokerIdentity, MessageStoreConfig, NettyServerConfig.
 */
#ifndef RQ_BROKER_OPTIONS_H
#define RQ_BROKER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "store/store.h"

enum rq_broker_role { RQ_ROLE_ASYNC_MASTER, RQ_ROLE_SYNC_MASTER, RQ_ROLE_SLAVE };

struct rq_broker_options {
    /* identity and addresses */
    const char *broker_name;
    const char *broker_cluster_name;
    int64_t broker_id;
    int32_t broker_role; /* enum rq_broker_role */
    const char *broker_ip1;
    const char *broker_ip2;
    /* NULL = brokerIP1 when that is a loop-back address, else every address */
    const char *bind_address;
    int32_t listen_port;
    int32_t ha_listen_port;
    const char *namesrv_addr; /* NULL = a name server of its own */
    int32_t server_selector_threads;
    int32_t server_channel_max_idle_time_seconds;
    int32_t register_name_server_period;
    int32_t register_broker_timeout_mills;
    int64_t forward_timeout;
    int64_t channel_expired_timeout;

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
    const char *region_id;
    bool trace_on;
    bool reject_transaction_message;
    bool store_reply_message_enable;
    bool timer_wheel_enable;
    int32_t timer_max_delay_sec;
    int32_t timer_roll_window_slot;
    bool recall_message_enable;
    int64_t transaction_time_out;
    int32_t transaction_check_max;
    int64_t transaction_check_interval;
    int32_t transaction_op_msg_max_size;
    int32_t transaction_op_batch_interval;
    int64_t start_accept_send_request_time_stamp;
    int64_t flush_delay_offset_interval;
    bool lite_pull_message_enable;
    bool long_polling_enable;
    int64_t short_polling_time_mills;
    bool enable_mixed_message_type;
    bool enable_property_filter;
    bool slave_read_enable;
    int64_t wait_time_mills_in_send_queue; /* 0 = no limit */
    bool fault_injection_enable;
    int32_t metrics_port; /* -1 = no metrics */
    const char *metrics_address;
    bool notify_consumer_ids_changed_enable;
    int32_t flush_consumer_offset_interval;
    const char *broker_config_path; /* NULL = changes by request are not kept */
    const char *config_black_list;
    int32_t default_query_max_num;
};

extern const struct rq_table rq_broker_options_table;

/* Both, as one broker.conf sets them. The strings are owned: rq_broker_settings_free. */
struct rq_broker_settings {
    struct rq_broker_options broker;
    struct rq_store_options store;
};

rmq_status rq_broker_settings_init(struct rq_broker_settings *settings, rmq_error **err);
rmq_status rq_broker_settings_copy(struct rq_broker_settings *to,
                                   const struct rq_broker_settings *from);
void rq_broker_settings_free(struct rq_broker_settings *settings);

/* The row of a property and the struct that it belongs to; NULL when no table has it. */
const struct rq_option *rq_broker_settings_find(struct rq_broker_settings *settings,
                                                const char *name, void **object);

/* Sets one property. *implemented tells whether it has an effect: false for known Java properties
 * and for errors about names. RMQ_ERR_UNSUPPORTED: see rq_broker_property_guards. */
rmq_status rq_broker_settings_set(struct rq_broker_settings *settings, const char *name,
                                  const char *value, bool *implemented, rmq_error **err);

/* A property of the Java broker that this one accepts and does not implement. */
bool rq_broker_property_known(const char *name);

/* Whether a setting is to keep others out, which passed over in silence would let them in. */
bool rq_broker_property_guards(const char *name, const char *value);

/* The nearest name to a mistyped property among both lists; NULL when none is near. */
const char *rq_broker_property_nearest(const char *name);

#endif
