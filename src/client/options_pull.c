/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Option tables of the pull and the lite pull consumer. The names are the Java client's;
 * docs/options.md is made from these rows. Counterparts: DefaultMQPullConsumer,
 * DefaultLitePullConsumer.
 */
#include "client/options.h"

#include "base/err.h"
#include "client/options_rows.h"
#include "wire/names.h"

#define PULL(field) offsetof(rmq_pull_consumer_options, field)
#define POP(field)  offsetof(rmq_pop_consumer_options, field)
#define LITE(field) offsetof(rmq_lite_pull_consumer_options, field)

/* What every client has. */
#define CLIENT_ROWS(at)                                                                            \
    {"consumerGroup",                                                                              \
     RQ_OPT_STRING,                                                                                \
     at(consumer_group),                                                                           \
     NULL,                                                                                         \
     0,                                                                                            \
     0,                                                                                            \
     "1 to 255 of A-Z a-z 0-9 % | _ -",                                                            \
     "Group of the consumer. Required."},                                                          \
        {"namesrvAddr",         RQ_OPT_STRING, at(namesrv_addr), NULL, 0, 0,                       \
         "host:port;host:port", NAMESRV_HELP},                                                     \
        {"instanceName", RQ_OPT_STRING, at(instance_name), "DEFAULT", 0, 0, NULL, INSTANCE_HELP},  \
        {"clientIP", RQ_OPT_STRING, at(client_ip), NULL, 0, 0, NULL, CLIENT_IP_HELP},              \
        {"unitName",                                                                               \
         RQ_OPT_STRING,                                                                            \
         at(unit_name),                                                                            \
         NULL,                                                                                     \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "Appended to the client id as @<unitName>."},                                             \
    {                                                                                              \
        "allocateMessageQueueStrategy", RQ_OPT_STRING, at(allocate_strategy), "AVG", 0, 0,         \
            "AVG|AVG_BY_CIRCLE|CONSISTENT_HASH",                                                   \
            "How the members of a group share the queues; the same in all members."                \
    }

#define INTERVAL_ROWS(at)                                                                          \
    NUMBER64("pollNameServerInterval", at(poll_name_server_interval_ms), "30000", 100, 86400000,   \
             POLL_HELP),                                                                           \
        NUMBER64("heartbeatBrokerInterval", at(heartbeat_broker_interval_ms), "30000", 100,        \
                 86400000, HEARTBEAT_HELP),                                                        \
        NUMBER64("rebalanceInterval", at(rebalance_interval_ms), "20000", 100, 86400000,           \
                 "Interval in ms at which the shares are computed again; also done at once on "    \
                 "every change.")

#define LAST_ROWS(at)                                                                              \
    NUMBER32("maxMessageSize", at(max_message_size), "16777216", 1, 1073741824,                    \
             "Most bytes that one body may expand to."),                                           \
    {                                                                                              \
        "serializeType", RQ_OPT_STRING, at(serialize_type), "JSON", 0, 0, "JSON|ROCKETMQ",         \
            SERIALIZE_HELP                                                                         \
    }

static const struct rq_option pull_options[] = {
    CLIENT_ROWS(PULL),
    NUMBER64("brokerSuspendMaxTimeMillis", PULL(broker_suspend_max_time_ms), "20000", 0, 86400000,
             "ms for which a broker parks a blocking pull that finds nothing."),
    NUMBER64("consumerTimeoutMillisWhenSuspend", PULL(consumer_timeout_when_suspend_ms), "30000", 1,
             86400000, "Deadline in ms of a blocking pull; more than brokerSuspendMaxTimeMillis."),
    NUMBER64("consumerPullTimeoutMillis", PULL(consumer_pull_timeout_ms), "10000", 1, 86400000,
             "Deadline in ms of a pull that does not block."),
    NUMBER64("persistConsumerOffsetInterval", PULL(persist_consumer_offset_interval_ms), "5000",
             100, 86400000, "Interval in ms at which remembered offsets are stored."),
    INTERVAL_ROWS(PULL),
    LAST_ROWS(PULL),
    NAMESPACE_ROWS(PULL),
};

static const struct rq_option lite_options[] = {
    CLIENT_ROWS(LITE),
    {"consumeFromWhere", RQ_OPT_ENUM, LITE(consume_from_where), "CONSUME_FROM_LAST_OFFSET", 0, 0,
     "CONSUME_FROM_LAST_OFFSET|CONSUME_FROM_FIRST_OFFSET|CONSUME_FROM_TIMESTAMP",
     "Where a group begins that has no offset for a queue yet. Brokers let it begin at the first "
     "message of a young queue (its number 0 is still in memory), whatever is said here."},
    NUMBER64("consumeTimestamp", LITE(consume_timestamp_ms), "0", 0, 9223372036854775807,
             "For CONSUME_FROM_TIMESTAMP: ms since 1970; 0 = half an hour before the start."),
    BOOLEAN("autoCommit", LITE(auto_commit), "true",
            "Whether offsets move by themselves past batches that were destroyed."),
    NUMBER64("autoCommitIntervalMillis", LITE(auto_commit_interval_ms), "5000", 100, 86400000,
             "Interval in ms of these commits."),
    NUMBER32("pullBatchSize", LITE(pull_batch_size), "10", 1, 1024, "Most messages of one poll."),
    NUMBER32("fetchBatchSize", LITE(fetch_batch_size), "32", 1, 1024,
             "Most messages of one request to a broker, which gives 32 at most unless configured "
             "otherwise."),
    NUMBER32("pullThresholdForQueue", LITE(pull_threshold_for_queue), "1000", 1, 65535,
             "Messages of a queue that are fetched ahead or in hands before fetching pauses."),
    NUMBER32("pullThresholdSizeForQueue", LITE(pull_threshold_size_for_queue), "100", 1, 1024,
             "MiB of a queue, likewise."),
    NUMBER64(
        "maxCacheBytes", LITE(max_cache_bytes), "268435456", 65536, 1099511627776,
        "Bytes that all queues of the consumer may keep until no more is pulled. A compressed body "
        "counts as it came, and expanded from when it is handed out until it is done."),
    NUMBER32("consumeMaxSpan", LITE(consume_max_span), "2000", 1, 65535,
             "Offsets between the first and the last kept message of a queue before fetching "
             "pauses."),
    INTERVAL_ROWS(LITE),
    NUMBER64("brokerSuspendMaxTimeMillis", LITE(broker_suspend_max_time_ms), "20000", 0, 86400000,
             "ms for which a broker parks a pull that finds nothing."),
    LAST_ROWS(LITE),
    NAMESPACE_ROWS(LITE),
};

static const struct rq_option pop_options[] = {
    {"consumerGroup", RQ_OPT_STRING, POP(consumer_group), NULL, 0, 0,
     "1 to 255 of A-Z a-z 0-9 % | _ -", "Group of the consumer. Required."},
    {"namesrvAddr", RQ_OPT_STRING, POP(namesrv_addr), NULL, 0, 0, "host:port;host:port",
     NAMESRV_HELP},
    {"instanceName", RQ_OPT_STRING, POP(instance_name), "DEFAULT", 0, 0, NULL, INSTANCE_HELP},
    {"clientIP", RQ_OPT_STRING, POP(client_ip), NULL, 0, 0, NULL, CLIENT_IP_HELP},
    {"unitName", RQ_OPT_STRING, POP(unit_name), NULL, 0, 0, NULL,
     "Appended to the client id as @<unitName>."},
    {"consumeFromWhere", RQ_OPT_ENUM, POP(consume_from_where), "CONSUME_FROM_LAST_OFFSET", 0, 0,
     "CONSUME_FROM_LAST_OFFSET|CONSUME_FROM_FIRST_OFFSET",
     "Where a group begins that has no offset for a queue yet. Brokers let it begin at the first "
     "message of a young queue (its number 0 is still in memory), whatever is said here."},
    NUMBER64("popInvisibleTime", POP(pop_invisible_time_ms), "60000", 1000, 300000,
             "ms for which a popped message is nobody else's."),
    BOOLEAN("consumeOrderly", POP(consume_orderly), "false",
            "Whether nothing of a queue is popped before all that was popped of it is "
            "acknowledged."),
    NUMBER64("pollNameServerInterval", POP(poll_name_server_interval_ms), "30000", 100, 86400000,
             POLL_HELP),
    LAST_ROWS(POP),
    NAMESPACE_ROWS(POP),
};

const struct rq_table rq_pop_consumer_table = {
    .object = "pop consumer",
    .options = pop_options,
    .count = sizeof pop_options / sizeof pop_options[0],
    .struct_size = sizeof(rmq_pop_consumer_options),
};

const struct rq_table rq_pull_consumer_table = {
    .object = "pull consumer",
    .options = pull_options,
    .count = sizeof pull_options / sizeof pull_options[0],
    .struct_size = sizeof(rmq_pull_consumer_options),
};

const struct rq_table rq_lite_pull_consumer_table = {
    .object = "lite pull consumer",
    .options = lite_options,
    .count = sizeof lite_options / sizeof lite_options[0],
    .struct_size = sizeof(rmq_lite_pull_consumer_options),
};

void rmq_pull_consumer_options_init(rmq_pull_consumer_options *options, size_t size)
{
    rq_option_init(&rq_pull_consumer_table, options, size);
}

void rmq_lite_pull_consumer_options_init(rmq_lite_pull_consumer_options *options, size_t size)
{
    rq_option_init(&rq_lite_pull_consumer_table, options, size);
}

void rmq_pop_consumer_options_init(rmq_pop_consumer_options *options, size_t size)
{
    rq_option_init(&rq_pop_consumer_table, options, size);
}

static rmq_status check(const struct rq_table *table, const void *options, const char *group,
                        const char *serialize, rmq_error **err)
{
    rmq_status st = rq_table_check(table, options, err);
    if (st == RMQ_OK && (!group || !*group)) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "%s option consumerGroup is required",
                          table->object);
    }
    if (st == RMQ_OK) {
        st = rq_group_check(rq_slice_str(group), err);
    }
    return st == RMQ_OK ? rq_option_check_serialize(table->object, serialize, err) : st;
}

static rmq_status not_initialised(const struct rq_table *table, rmq_error **err)
{
    return rq_error_set(err, RMQ_ERR_INVALID, "%s options were not made by their init function",
                        table->object);
}

rmq_status rq_pull_consumer_options_load(const rmq_pull_consumer_options *from,
                                         rmq_pull_consumer_options *to, rmq_error **err)
{
    const struct rq_table *table = &rq_pull_consumer_table;
    rmq_pull_consumer_options all;
    if (!rq_option_take(table, from, &all)) {
        return not_initialised(table, err);
    }
    struct rq_named_room room;
    rmq_status st =
        rq_option_namespace(&all.namespace_name, &all.consumer_group, all.namesrv_addr, &room, err);
    st = st == RMQ_OK ? check(table, &all, all.consumer_group, all.serialize_type, err) : st;
    return st == RMQ_OK ? rq_option_keep(table, to, &all, err) : st;
}

rmq_status rq_pop_consumer_options_load(const rmq_pop_consumer_options *from,
                                        rmq_pop_consumer_options *to, rmq_error **err)
{
    const struct rq_table *table = &rq_pop_consumer_table;
    rmq_pop_consumer_options all;
    if (!rq_option_take(table, from, &all)) {
        return not_initialised(table, err);
    }
    struct rq_named_room room;
    rmq_status st =
        rq_option_namespace(&all.namespace_name, &all.consumer_group, all.namesrv_addr, &room, err);
    st = st == RMQ_OK ? check(table, &all, all.consumer_group, all.serialize_type, err) : st;
    return st == RMQ_OK ? rq_option_keep(table, to, &all, err) : st;
}

rmq_status rq_lite_pull_consumer_options_load(const rmq_lite_pull_consumer_options *from,
                                              rmq_lite_pull_consumer_options *to, rmq_error **err)
{
    const struct rq_table *table = &rq_lite_pull_consumer_table;
    rmq_lite_pull_consumer_options all;
    if (!rq_option_take(table, from, &all)) {
        return not_initialised(table, err);
    }
    struct rq_named_room room;
    rmq_status st =
        rq_option_namespace(&all.namespace_name, &all.consumer_group, all.namesrv_addr, &room, err);
    st = st == RMQ_OK ? check(table, &all, all.consumer_group, all.serialize_type, err) : st;
    return st == RMQ_OK ? rq_option_keep(table, to, &all, err) : st;
}
