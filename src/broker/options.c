/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The option table of a broker, one row per property, and settings made of this table and the
 * store's. */
#include "broker/options.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

#define AT(field) offsetof(struct rq_broker_options, field)
#define STRING(name, field, def, remark, help)                                                     \
    {                                                                                              \
        name, RQ_OPT_STRING, AT(field), def, 0, 0, remark, help                                    \
    }
#define I32(name, field, def, min, max, help)                                                      \
    {                                                                                              \
        name, RQ_OPT_I32, AT(field), def, min, max, #min " … " #max, help                          \
    }
#define I64(name, field, def, min, max, help)                                                      \
    {                                                                                              \
        name, RQ_OPT_I64, AT(field), def, min, max, #min " … " #max, help                          \
    }
#define FLAG(name, field, def, help)                                                               \
    {                                                                                              \
        name, RQ_OPT_BOOL, AT(field), def, 0, 0, "true|false", help                                \
    }
#define ENUM(name, field, def, names, help)                                                        \
    {                                                                                              \
        name, RQ_OPT_ENUM, AT(field), def, 0, 0, names, help                                       \
    }

static const struct rq_option rows[] = {
    STRING("brokerName", broker_name, "broker-a", NULL,
           "Name of the broker; clients address message queues by it."),
    STRING("brokerClusterName", broker_cluster_name, "DefaultCluster", NULL,
           "Cluster that the broker joins."),
    I64("brokerId", broker_id, "0", 0, INT64_MAX,
        "0 is a master; slaves, which are not implemented, have larger ids."),
    ENUM("brokerRole", broker_role, "ASYNC_MASTER", "ASYNC_MASTER|SYNC_MASTER|SLAVE",
         "Role in replication."),
    STRING("brokerIP1", broker_ip1, "127.0.0.1", "IPv4, IPv6 or host name",
           "Address that name servers hand to clients; rmq broker without --temporary takes the "
           "machine's own when it is not set."),
    STRING("brokerIP2", broker_ip2, NULL, "IPv4, IPv6 or host name",
           "Address for slaves; brokerIP1 when not set."),
    STRING("bindAddress", bind_address, NULL, "IPv4 or IPv6",
           "Address to listen on; not set: brokerIP1 when that is a loop-back address, else all."),
    I32("listenPort", listen_port, "0", 0, 65535, "Port to listen on; 0 takes any free one."),
    I32("haListenPort", ha_listen_port, "0", 0, 65535,
        "Port for slaves as it is registered; 0 is listenPort + 1."),
    STRING("namesrvAddr", namesrv_addr, NULL, "host:port;host:port",
           "Name servers to register at; not set: a name server inside this process."),
    I32("serverSelectorThreads", server_selector_threads, "1", 1, 64,
        "I/O threads that serve connections."),
    I32("serverChannelMaxIdleTimeSeconds", server_channel_max_idle_time_seconds, "120", 0, 86400,
        "A connection without traffic for so long is closed; 0 never."),
    I32("registerNameServerPeriod", register_name_server_period, "30000", 10000, 60000,
        "Milliseconds between registrations at the name servers."),
    I32("registerBrokerTimeoutMills", register_broker_timeout_mills, "24000", 100, 600000,
        "Time for one registration."),
    I64("forwardTimeout", forward_timeout, "3000", 1, 600000,
        "Milliseconds that another broker has to answer when a static topic's messages are there."),
    I64("channelExpiredTimeout", channel_expired_timeout, "120000", 1000, INT64_MAX,
        "A client without heartbeat for so many milliseconds is forgotten."),
    I32("brokerPermission", broker_permission, "6", 0, 7, "4 read, 2 write."),
    I32("defaultTopicQueueNums", default_topic_queue_nums, "8", 1, 65535,
        "Queues of the template topic TBW102, the most that an automatic topic gets."),
    FLAG("autoCreateTopicEnable", auto_create_topic_enable, "true",
         "Create a topic when the first message is sent to it."),
    FLAG("clusterTopicEnable", cluster_topic_enable, "true",
         "The topic named like the cluster may be used."),
    FLAG("brokerTopicEnable", broker_topic_enable, "true",
         "The topic named like the broker may be used."),
    FLAG("autoCreateSubscriptionGroup", auto_create_subscription_group, "true",
         "Create a consumer group when it first appears."),
    FLAG("traceTopicEnable", trace_topic_enable, "false", "Create the topic for message traces."),
    STRING("msgTraceTopicName", msg_trace_topic_name, "RMQ_SYS_TRACE_TOPIC", NULL,
           "Topic for message traces."),
    STRING("regionId", region_id, "DefaultRegion", NULL, "Region told to clients for traces."),
    FLAG("traceOn", trace_on, "true", "Tell clients to record traces."),
    FLAG("rejectTransactionMessage", reject_transaction_message, "false",
         "Refuse transactional messages."),
    FLAG("timerWheelEnable", timer_wheel_enable, "true", "Take messages for any time."),
    I32("timerMaxDelaySec", timer_max_delay_sec, "259200", 1, 31536000,
        "Most seconds that a message for any time may be ahead."),
    I32("timerRollWindowSlot", timer_roll_window_slot, "172800", 2, 31536000,
        "A message that waits for so many seconds is written anew, before the log loses it; at "
        "most 3/4 of fileReservedTime."),
    FLAG("recallMessageEnable", recall_message_enable, "false",
         "Let producers take back messages for any time that still wait."),
    FLAG("storeReplyMessageEnable", store_reply_message_enable, "true",
         "Store replies in the topic <cluster>_REPLY_TOPIC, too, when they have been passed on."),
    I64("transactionTimeOut", transaction_time_out, "6000", 0, INT64_MAX,
        "A half message is first asked about when it is so many milliseconds old."),
    I32("transactionCheckMax", transaction_check_max, "15", 1, INT32_MAX,
        "After so many questions a half message goes to TRANS_CHECK_MAX_TIME_TOPIC; those for "
        "which "
        "no producer of the group was there count, too."),
    I64("transactionCheckInterval", transaction_check_interval, "30000", 10, INT64_MAX,
        "Milliseconds between looks for half messages to ask about."),
    I32("transactionOpMsgMaxSize", transaction_op_msg_max_size, "4096", 32, 1048576,
        "Most bytes of one record of ended transactions."),
    I32("transactionOpBatchInterval", transaction_op_batch_interval, "0", 0, 60000,
        "How long ended transactions may wait to be noted in one record; 0 not at all."),
    I64("startAcceptSendRequestTimeStamp", start_accept_send_request_time_stamp, "0", 0, INT64_MAX,
        "Sends before this wall-clock time (ms) are refused."),
    I64("flushDelayOffsetInterval", flush_delay_offset_interval, "10000", 100, INT64_MAX,
        "Milliseconds between writes of delayOffset.json."),
    FLAG("litePullMessageEnable", lite_pull_message_enable, "true",
         "Serve pulls of lite pull consumers."),
    FLAG("longPollingEnable", long_polling_enable, "true",
         "Park a pull without messages for as long as its client asks."),
    I64("shortPollingTimeMills", short_polling_time_mills, "1000", 1, INT64_MAX,
        "How long a pull is parked without long polling."),
    FLAG("enableMixedMessageType", enable_mixed_message_type, "false",
         "Let topics be created for messages of mixed types."),
    FLAG("enablePropertyFilter", enable_property_filter, "false",
         "Serve subscriptions that filter by an SQL92 expression over properties."),
    I32("metricsPort", metrics_port, "-1", -1, 65535,
        "Port for /metrics (Prometheus text) and /health over HTTP; 0 takes any free one, -1 "
        "serves none."),
    STRING("metricsAddress", metrics_address, "127.0.0.1", "IPv4 or IPv6",
           "Address on which they are served."),
    FLAG("slaveReadEnable", slave_read_enable, "false",
         "Suggest to consumers the broker that their group's brokerId or "
         "whichBrokerWhenConsumeSlowly names."),
    I64("waitTimeMillsInSendQueue", wait_time_mills_in_send_queue, "0", 0, INT64_MAX,
        "A send that has waited longer behind others is answered with 2 SYSTEM_BUSY; 0 lets it "
        "wait."),
    FLAG("faultInjectionEnable", fault_injection_enable, "false",
         "Obey the property fault in changes of settings: misbehave on request, for tests."),
    FLAG("notifyConsumerIdsChangedEnable", notify_consumer_ids_changed_enable, "true",
         "Tell the members of a group at once when one joins or leaves."),
    I32("flushConsumerOffsetInterval", flush_consumer_offset_interval, "5000", 100, INT32_MAX,
        "Milliseconds between writes of consumerOffset.json."),
    STRING("brokerConfigPath", broker_config_path, NULL, NULL,
           "File to which properties changed by request are written, its old text to .bak; the "
           "file of properties that was read unless set."),
    STRING("configBlackList", config_black_list, "configBlackList;brokerConfigPath", NULL,
           "Properties that a request may not change."),
    I32("defaultQueryMaxNum", default_query_max_num, "32", 1, 1024,
        "Most messages of a query by unique key."),
};

const struct rq_table rq_broker_options_table = {
    .object = "broker",
    .options = rows,
    .count = sizeof rows / sizeof rows[0],
    .struct_size = sizeof(struct rq_broker_options),
};

/* The size of a commit log file unless set: small enough for a test's temporary directory. */
#define EMBEDDED_MAPPED_FILE_SIZE "67108864"

rmq_status rq_broker_settings_copy(struct rq_broker_settings *to,
                                   const struct rq_broker_settings *from)
{
    rmq_status st = rq_table_copy(&rq_broker_options_table, &to->broker, &from->broker);
    if (st) {
        return st;
    }
    st = rq_table_copy(&rq_store_table, &to->store, &from->store);
    if (st) {
        rq_table_free(&rq_broker_options_table, &to->broker);
    }
    return st;
}

rmq_status rq_broker_settings_init(struct rq_broker_settings *settings, rmq_error **err)
{
    struct rq_broker_settings defaults;
    memset(&defaults, 0, sizeof defaults);
    rq_table_defaults(&rq_broker_options_table, &defaults.broker);
    rq_table_defaults(&rq_store_table, &defaults.store);
    rmq_status st = rq_broker_settings_copy(settings, &defaults);
    if (st) {
        return rq_error_set(err, st, "out of memory");
    }
    st = rq_table_set(&rq_store_table, &settings->store, "mappedFileSizeCommitLog",
                      EMBEDDED_MAPPED_FILE_SIZE, err);
    if (st) {
        rq_broker_settings_free(settings);
    }
    return st;
}

void rq_broker_settings_free(struct rq_broker_settings *settings)
{
    rq_table_free(&rq_broker_options_table, &settings->broker);
    rq_table_free(&rq_store_table, &settings->store);
}

const struct rq_option *rq_broker_settings_find(struct rq_broker_settings *settings,
                                                const char *name, void **object)
{
    const struct rq_option *option = rq_table_find(&rq_broker_options_table, name);
    *object = &settings->broker;
    if (!option) {
        option = rq_table_find(&rq_store_table, name);
        *object = &settings->store;
    }
    return option;
}

bool rq_broker_property_guards(const char *name, const char *value)
{
    return rq_slice_is_listed(rq_slice_str(name),
                              "aclEnable;authenticationEnabled;authorizationEnabled") &&
           strcasecmp(value, "true") == 0;
}

rmq_status rq_broker_settings_set(struct rq_broker_settings *settings, const char *name,
                                  const char *value, bool *implemented, rmq_error **err)
{
    void *object = NULL;
    *implemented = rq_broker_settings_find(settings, name, &object) != NULL;
    if (*implemented) {
        return rq_table_set(object == &settings->broker ? &rq_broker_options_table
                                                        : &rq_store_table,
                            object, name, value, err);
    }
    if (rq_broker_property_guards(name, value)) {
        return rq_error_set(err, RMQ_ERR_UNSUPPORTED,
                            "%s=%s: this broker checks no access, everybody would get in", name,
                            value);
    }
    if (rq_broker_property_known(name)) {
        return RMQ_OK;
    }
    const char *nearest = rq_broker_property_nearest(name);
    if (nearest) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "unknown broker property \"%s\", did you mean \"%s\"?", name, nearest);
    }
    return rq_error_set(err, RMQ_ERR_INVALID, "unknown broker property \"%s\"", name);
}
