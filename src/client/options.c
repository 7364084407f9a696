/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Option tables (see the header). The names are the Java client's; docs/options.md is made from
 * these rows.
 */
#include "client/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "client/options_rows.h"
#include "wire/names.h"

#define PRODUCER(field) offsetof(rmq_producer_options, field)
#define CONSUMER(field) offsetof(rmq_consumer_options, field)

static const struct rq_option producer_options[] = {
    {"producerGroup", RQ_OPT_STRING, PRODUCER(producer_group), NULL, 0, 0,
     "1 to 255 of A-Z a-z 0-9 % | _ -", "Group of the producer. Required."},
    {"namesrvAddr", RQ_OPT_STRING, PRODUCER(namesrv_addr), NULL, 0, 0, "host:port;host:port",
     NAMESRV_HELP},
    {"instanceName", RQ_OPT_STRING, PRODUCER(instance_name), "DEFAULT", 0, 0, NULL, INSTANCE_HELP},
    {"clientIP", RQ_OPT_STRING, PRODUCER(client_ip), NULL, 0, 0, NULL, CLIENT_IP_HELP},
    {"unitName", RQ_OPT_STRING, PRODUCER(unit_name), NULL, 0, 0, NULL,
     "Appended to the client id as @<unitName>."},
    {"createTopicKey", RQ_OPT_STRING, PRODUCER(create_topic_key), "TBW102", 0, 0, NULL,
     "Template topic after which a broker creates a topic that does not exist."},
    NUMBER32("defaultTopicQueueNums", PRODUCER(default_topic_queue_nums), "4", 1, 65535,
             "Queues per broker of a topic that a send creates."),
    NUMBER64("sendMsgTimeout", PRODUCER(send_msg_timeout_ms), "3000", 1, 86400000,
             "Deadline in ms of a send, for all its attempts together."),
    NUMBER64("sendMsgMaxTimeoutPerRequest", PRODUCER(send_msg_max_timeout_per_request_ms), "-1", -1,
             86400000,
             "Most ms that an attempt but the last may take; -1: an equal share of what is left, "
             "while another broker could take the message."),
    NUMBER32(
        "retryTimesWhenSendFailed", PRODUCER(retry_times_when_send_failed), "2", 0, 1000,
        "Attempts after the first of a blocking send. Waiting for an only broker that cannot be "
        "reached is none."),
    NUMBER32("retryTimesWhenSendAsyncFailed", PRODUCER(retry_times_when_send_async_failed), "2", 0,
             1000,
             "Attempts after the first of an asynchronous send. Waiting for an only broker that "
             "cannot be reached is none."),
    BOOLEAN("retryAnotherBrokerWhenNotStoreOK", PRODUCER(retry_another_broker_when_not_store_ok),
            "false",
            "Whether a blocking send goes to another broker when the answer is a flush or slave "
            "time-out."),
    NUMBER32("compressMsgBodyOverHowmuch", PRODUCER(compress_msg_body_over_howmuch), "4096", 0,
             2147483647, "Bodies of this many bytes or more are compressed; batches never."),
    {"compressType", RQ_OPT_STRING, PRODUCER(compress_type), "ZLIB", 0, 0, "ZLIB|LZ4|ZSTD|NONE",
     "How bodies are compressed. 4.9.3 and older consumers read only ZLIB."},
    NUMBER32("compressLevel", PRODUCER(compress_level), "5", 0, 22,
             "Level of ZLIB (0 to 9) and ZSTD (0 to 22)."),
    NUMBER32("maxMessageSize", PRODUCER(max_message_size), "4194304", 1, 16777216,
             "Most bytes of a body, before compression. The broker has a limit of its own."),
    NUMBER32("backPressureForAsyncSendNum", PRODUCER(max_async_in_flight), "10000", 1, 10000000,
             "Asynchronous sends that may be under way."),
    NUMBER64("backPressureForAsyncSendSize", PRODUCER(max_async_in_flight_bytes), "104857600", 1024,
             1099511627776, "Bytes of bodies of asynchronous sends that may be under way."),
    BOOLEAN("backPressureWait", PRODUCER(async_wait_when_full), "true",
            "Whether an asynchronous send waits, up to sendMsgTimeout, while the window is full; "
            "else RMQ_ERR_BUSY."),
    NUMBER64("pollNameServerInterval", PRODUCER(poll_name_server_interval_ms), "30000", 100,
             86400000, POLL_HELP),
    NUMBER64("heartbeatBrokerInterval", PRODUCER(heartbeat_broker_interval_ms), "30000", 100,
             86400000, HEARTBEAT_HELP),
    BOOLEAN("sendLatencyFaultEnable", PRODUCER(send_latency_fault_enable), "true",
            "Whether brokers that were slow or dead are avoided for a while."),
    {"serializeType", RQ_OPT_STRING, PRODUCER(serialize_type), "JSON", 0, 0, "JSON|ROCKETMQ",
     SERIALIZE_HELP},
    {"retryResponseCodes", RQ_OPT_STRING, PRODUCER(retry_response_codes),
     "1,2,14,16,17,204,205,1500", 0, 0, "numbers, separated by commas",
     "Codes of a broker's answer after which a send is tried again, on another broker where there "
     "is "
     "one; every other code ends it."},
    BOOLEAN("enableMsgTrace", PRODUCER(enable_msg_trace), "false",
            "Whether each answered send leaves a record in the trace topic."),
    {"customizedTraceTopic", RQ_OPT_STRING, PRODUCER(customized_trace_topic), NULL, 0, 0, NULL,
     "Topic of the message trace; without it RMQ_SYS_TRACE_TOPIC."},
    NUMBER32("traceMsgBatchNum", PRODUCER(trace_msg_batch_num), "10", 1, 20,
             "Records of one trace message."),
    BOOLEAN("autoBatch", PRODUCER(auto_batch), "false",
            "Whether asynchronous sends of small messages of a topic, without delay, group or "
            "chosen queue, travel "
            "together as batches."),
    NUMBER64("batchMaxDelayMs", PRODUCER(batch_max_delay_ms), "10", 1, 30000,
             "ms for which the first message of an automatic batch waits for others."),
    NUMBER32("batchMaxBytes", PRODUCER(batch_max_bytes), "32768", 1024, 2097152,
             "Bytes at which an automatic batch leaves; a message of this size does not wait."),
    BOOLEAN("vipChannelEnabled", PRODUCER(vip_channel_enabled), "false",
            "Whether sends go to the brokers' VIP port, two below the one in the route; one choice "
            "for an "
            "instance name."),
    NUMBER64("statisticsInterval", PRODUCER(statistics_interval_ms), "0", 0, 86400000,
             "Interval in ms of RMQ_EVENT_STATISTICS in the producer's event queue; 0: none."),
    NAMESPACE_ROWS(PRODUCER),
};

static const struct rq_option consumer_options[] = {
    {"consumerGroup", RQ_OPT_STRING, CONSUMER(consumer_group), NULL, 0, 0,
     "1 to 255 of A-Z a-z 0-9 % | _ -", "Group of the consumer. Required."},
    {"namesrvAddr", RQ_OPT_STRING, CONSUMER(namesrv_addr), NULL, 0, 0, "host:port;host:port",
     NAMESRV_HELP},
    {"instanceName", RQ_OPT_STRING, CONSUMER(instance_name), "DEFAULT", 0, 0, NULL, INSTANCE_HELP},
    {"clientIP", RQ_OPT_STRING, CONSUMER(client_ip), NULL, 0, 0, NULL, CLIENT_IP_HELP},
    {"unitName", RQ_OPT_STRING, CONSUMER(unit_name), NULL, 0, 0, NULL,
     "Appended to the client id as @<unitName>."},
    {"allocateMessageQueueStrategy", RQ_OPT_STRING, CONSUMER(allocate_strategy), "AVG", 0, 0,
     "AVG|AVG_BY_CIRCLE|CONSISTENT_HASH|MACHINE_ROOM|MACHINE_ROOM_NEARBY[-AVG|…]|CONFIG",
     "How the members of a group share the queues; the same in all members."},
    {"consumeFromWhere", RQ_OPT_ENUM, CONSUMER(consume_from_where), "CONSUME_FROM_LAST_OFFSET", 0,
     0, "CONSUME_FROM_LAST_OFFSET|CONSUME_FROM_FIRST_OFFSET|CONSUME_FROM_TIMESTAMP",
     "Where a group begins that has no offset for a queue yet. Brokers let it begin at the first "
     "message of a young queue (its number 0 is still in memory), whatever is said here."},
    NUMBER64("consumeTimestamp", CONSUMER(consume_timestamp_ms), "0", 0, 9223372036854775807,
             "For CONSUME_FROM_TIMESTAMP: ms since 1970; 0 = half an hour before the start."),
    NUMBER32("consumeThreadNums", CONSUMER(consume_thread_nums), "20", 1, 1000,
             "Threads that run the listener."),
    NUMBER32("consumeMessageBatchMaxSize", CONSUMER(consume_message_batch_max_size), "1", 1, 1024,
             "Most messages of one listener call or poll."),
    NUMBER32("pullBatchSize", CONSUMER(pull_batch_size), "32", 1, 1024,
             "Most messages of one pull; a broker gives 32 at most unless configured otherwise."),
    NUMBER64("pullInterval", CONSUMER(pull_interval_ms), "0", 0, 65535,
             "Pause in ms between two pulls of a queue."),
    NUMBER32("pullThresholdForQueue", CONSUMER(pull_threshold_for_queue), "1000", 1, 65535,
             "Messages of a queue that are kept before pulling pauses."),
    NUMBER32("pullThresholdSizeForQueue", CONSUMER(pull_threshold_size_for_queue), "100", 1, 1024,
             "MiB of a queue that are kept before pulling pauses."),
    NUMBER32("pullThresholdForTopic", CONSUMER(pull_threshold_for_topic), "-1", -1, 6553500,
             "Messages of a topic that are kept, shared by its queues; -1 = off."),
    NUMBER32("pullThresholdSizeForTopic", CONSUMER(pull_threshold_size_for_topic), "-1", -1, 102400,
             "MiB of a topic that are kept, shared by its queues; -1 = off."),
    NUMBER64(
        "maxCacheBytes", CONSUMER(max_cache_bytes), "268435456", 65536, 1099511627776,
        "Bytes that all queues of the consumer may keep until no more is pulled. A compressed body "
        "counts as it came, and expanded from when it is handed out until it is done."),
    NUMBER32(
        "consumeConcurrentlyMaxSpan", CONSUMER(consume_concurrently_max_span), "2000", 1, 65535,
        "Offsets between the first and the last kept message of a queue before pulling pauses."),
    NUMBER32("maxReconsumeTimes", CONSUMER(max_reconsume_times), "-1", -1, 2147483647,
             "Deliveries again before a message goes to the dead-letter queue; -1 = 16, in order "
             "without end. Counts in place of the group's retryMaxTimes."),
    NUMBER64("consumeTimeout", CONSUMER(consume_timeout_ms), "900000", 1000, 31536000000,
             "ms after which a message that a listener still holds is sent back."),
    NUMBER64("persistConsumerOffsetInterval", CONSUMER(persist_consumer_offset_interval_ms), "5000",
             100, 86400000, "Interval in ms at which offsets are stored."),
    NUMBER64("pollNameServerInterval", CONSUMER(poll_name_server_interval_ms), "30000", 100,
             86400000, POLL_HELP),
    NUMBER64("heartbeatBrokerInterval", CONSUMER(heartbeat_broker_interval_ms), "30000", 100,
             86400000, HEARTBEAT_HELP),
    NUMBER64("rebalanceInterval", CONSUMER(rebalance_interval_ms), "20000", 100, 86400000,
             "Interval in ms at which the shares are computed again; also done at once on every "
             "change."),
    NUMBER64("brokerSuspendMaxTimeMillis", CONSUMER(broker_suspend_max_time_ms), "15000", 0,
             86400000, "ms for which a broker parks a pull that finds nothing."),
    NUMBER32("maxMessageSize", CONSUMER(max_message_size), "16777216", 1, 1073741824,
             "Most bytes that one body may expand to."),
    {"serializeType", RQ_OPT_STRING, CONSUMER(serialize_type), "JSON", 0, 0, "JSON|ROCKETMQ",
     SERIALIZE_HELP},
    {"messageModel", RQ_OPT_ENUM, CONSUMER(message_model), "CLUSTERING", 0, 0,
     "CLUSTERING|BROADCASTING",
     "Whether the members of the group share the messages or each gets all."},
    BOOLEAN("consumeOrderly", CONSUMER(consume_orderly), "false",
            "Whether the messages of a queue are consumed one after the other, in the order of the "
            "queue, by the one member that holds its lock."),
    NUMBER64("suspendCurrentQueueTimeMillis", CONSUMER(suspend_current_queue_time_ms), "1000", 10,
             30000, "Pause in ms of an ordered queue whose message could not be consumed."),
    NUMBER64("maxTimeConsumeContinuously", CONSUMER(max_time_consume_continuously_ms), "60000", 1,
             86400000, "ms after which a worker leaves an ordered queue for another one."),
    NUMBER64("lockInterval", CONSUMER(lock_interval_ms), "20000", 100, 40000,
             "Interval in ms at which the locks of ordered queues are renewed; a lock counts for "
             "one and a half intervals, and at the broker for a minute."),
    {"machineRooms", RQ_OPT_STRING, CONSUMER(machine_rooms), NULL, 0, 0, "room1,room2",
     "For MACHINE_ROOM: the rooms whose queues are consumed. A broker's name is \"room@name\" "
     "then."},
    {"messageQueues", RQ_OPT_STRING, CONSUMER(message_queues), NULL, 0, 0, "topic broker queueId;…",
     "For CONFIG: the queues of this member. What is to come later comes from the topic "
     "%RETRY%group: its queues are named in one member, too, or nobody gets them."},
    {"localOffsetStoreDir", RQ_OPT_STRING, CONSUMER(local_offset_store_dir), NULL, 0, 0, NULL,
     "Folder of the offset files of broadcasting consumers; without it ~/.rocketmq_offsets."},
    BOOLEAN("enableMsgTrace", CONSUMER(enable_msg_trace), "false",
            "Whether each call of the listener leaves records in the trace topic."),
    {"customizedTraceTopic", RQ_OPT_STRING, CONSUMER(customized_trace_topic), NULL, 0, 0, NULL,
     "Topic of the message trace; without it RMQ_SYS_TRACE_TOPIC."},
    NUMBER32("traceMsgBatchNum", CONSUMER(trace_msg_batch_num), "10", 1, 20,
             "Records of one trace message."),
    NAMESPACE_ROWS(CONSUMER),
    BOOLEAN("clientRebalance", CONSUMER(client_rebalance), "true",
            "Whether the members compute their shares; else the broker does, and says for each "
            "topic whether the group pulls or pops it (setConsumeMode). Ordered and broadcasting "
            "consumers always compute them, and so does one whose broker is older than 5.0."),
    NUMBER64("popInvisibleTime", CONSUMER(pop_invisible_time_ms), "60000", 1000, 300000,
             "ms for which a popped message is nobody else's."),
    NUMBER32("popBatchNums", CONSUMER(pop_batch_nums), "32", 1, 32, "Most messages of one pop."),
    NUMBER32("popThresholdForQueue", CONSUMER(pop_threshold_for_queue), "96", 1, 65535,
             "Messages of a queue that are popped and not consumed before popping pauses."),
};

const struct rq_table rq_producer_table = {
    .object = "producer",
    .options = producer_options,
    .count = sizeof producer_options / sizeof producer_options[0],
    .struct_size = sizeof(rmq_producer_options),
};

const struct rq_table rq_consumer_table = {
    .object = "consumer",
    .options = consumer_options,
    .count = sizeof consumer_options / sizeof consumer_options[0],
    .struct_size = sizeof(rmq_consumer_options),
};

/* Enums of the options structs are read and written by the table as 32-bit numbers. */
_Static_assert(sizeof(rmq_consume_from_where) == sizeof(int32_t), "enum options have 32 bits");

/* Room for the options of any object; each begins with its struct_size. */
union options_room {
    size_t struct_size;
    max_align_t align;
    char bytes[1024];
};
_Static_assert(sizeof(rmq_producer_options) <= sizeof(union options_room), "fits");
_Static_assert(sizeof(rmq_consumer_options) <= sizeof(union options_room), "fits");
_Static_assert(sizeof(rmq_pull_consumer_options) <= sizeof(union options_room), "fits");
_Static_assert(sizeof(rmq_lite_pull_consumer_options) <= sizeof(union options_room), "fits");
_Static_assert(sizeof(rmq_pop_consumer_options) <= sizeof(union options_room), "fits");

/* The first size bytes of from, at most what we know. */
static void copy_prefix(void *to, const void *from, size_t size, size_t max)
{
    memcpy(to, from, size < max ? size : max);
}

void rq_option_init(const struct rq_table *table, void *options, size_t size)
{
    union options_room all = {.bytes = {0}};
    if (!options || size < sizeof all.struct_size) {
        return;
    }
    all.struct_size = size;
    rq_table_defaults(table, &all);
    memset(options, 0, size);
    copy_prefix(options, &all, size, table->struct_size);
}

/* A text that the program set to NULL counts as not set. */
static void fill_texts(const struct rq_table *table, char *all)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct rq_option *option = &table->options[i];
        const char *text = NULL;
        if (option->type == RQ_OPT_STRING && option->def) {
            memcpy(&text, all + option->offset, sizeof text);
            text = text ? text : option->def;
            memcpy(all + option->offset, &text, sizeof text);
        }
    }
}

bool rq_option_take(const struct rq_table *table, const void *from, void *all)
{
    size_t size = 0;
    rq_option_init(table, all, table->struct_size);
    if (from) {
        memcpy(&size, from, sizeof size);
    }
    if (size < sizeof size) {
        return false;
    }
    copy_prefix(all, from, size, table->struct_size);
    fill_texts(table, all);
    return true;
}

rmq_status rq_option_keep(const struct rq_table *table, void *to, const void *all, rmq_error **err)
{
    return rq_table_copy(table, to, all) == RMQ_OK
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_NOMEM, "%s options", table->object);
}

void rmq_producer_options_init(rmq_producer_options *options, size_t size)
{
    rq_option_init(&rq_producer_table, options, size);
}

void rmq_consumer_options_init(rmq_consumer_options *options, size_t size)
{
    rq_option_init(&rq_consumer_table, options, size);
}

bool rq_option_compress(const char *text, enum rq_compress_choice *out)
{
    static const char *const names[] = {"NONE", "ZLIB", "LZ4", "ZSTD"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(text ? text : "ZLIB", names[i]) == 0) {
            *out = (enum rq_compress_choice)i;
            return true;
        }
    }
    return false;
}

bool rq_option_serialize(const char *text, bool *binary)
{
    *binary = text && strcasecmp(text, "ROCKETMQ") == 0;
    return *binary || !text || strcasecmp(text, "JSON") == 0;
}

rmq_status rq_option_check_serialize(const char *object, const char *text, rmq_error **err)
{
    bool binary;
    if (rq_option_serialize(text, &binary)) {
        return RMQ_OK;
    }
    return rq_error_set(err, RMQ_ERR_INVALID,
                        "%s option serializeType: \"%s\" is not JSON or ROCKETMQ", object, text);
}

rmq_status rq_option_namespace(const char **name_space, const char **group, const char *namesrv,
                               struct rq_named_room *room, rmq_error **err)
{
    const char *addr = namesrv && *namesrv ? namesrv : getenv("NAMESRV_ADDR");
    struct rq_slice found = rq_slice_str(*name_space);
    found = found.n == 0 && addr ? rq_namespace_of_endpoint(addr) : found;
    if (found.n == 0) {
        return RMQ_OK;
    }
    rmq_status st = rq_namespace_check(found, err);
    if (st == RMQ_OK) {
        memmove(room->name_space, found.p, found.n);
        room->name_space[found.n] = '\0';
        *name_space = room->name_space;
        *group = rq_namespace_wrap(*name_space, *group, room->group);
    }
    return st;
}

static rmq_status check_group(const char *object, const char *group, rmq_error **err)
{
    if (!group || !*group) {
        return rq_error_set(err, RMQ_ERR_INVALID, "%s option %sGroup is required", object, object);
    }
    return rq_group_check(rq_slice_str(group), err);
}

bool rq_option_codes(const char *text, int32_t *codes, size_t *count)
{
    size_t n = 0;
    for (const char *p = text ? text : ""; *p;) {
        char *end;
        long code = strtol(p, &end, 10);
        if (end == p || code < 0 || code > INT32_MAX || n == RQ_RETRY_CODES_MAX ||
            (*end && *end != ',')) {
            return false;
        }
        codes[n++] = (int32_t)code;
        p = *end ? end + 1 : end;
    }
    *count = n;
    return true;
}

static rmq_status check_codes(const char *text, rmq_error **err)
{
    int32_t codes[RQ_RETRY_CODES_MAX];
    size_t count;
    if (rq_option_codes(text, codes, &count)) {
        return RMQ_OK;
    }
    return rq_error_set(
        err, RMQ_ERR_INVALID,
        "producer option retryResponseCodes: \"%s\" is not a list of up to %d numbers "
        "with commas",
        text, RQ_RETRY_CODES_MAX);
}

/* Combinations with which no send could succeed. */
static rmq_status check_times(const rmq_producer_options *options, rmq_error **err)
{
    if (options->send_msg_max_timeout_per_request_ms == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "producer option sendMsgMaxTimeoutPerRequest: 0 ms would end each "
                            "attempt at once; -1 is the default");
    }
    if (options->auto_batch && options->batch_max_delay_ms >= options->send_msg_timeout_ms) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "producer option batchMaxDelayMs: %lld ms, but sends end after %lld ms "
                            "(sendMsgTimeout)",
                            (long long)options->batch_max_delay_ms,
                            (long long)options->send_msg_timeout_ms);
    }
    return RMQ_OK;
}

static rmq_status check_producer(const rmq_producer_options *options, rmq_error **err)
{
    enum rq_compress_choice choice;
    rmq_status st = rq_table_check(&rq_producer_table, options, err);
    if (st == RMQ_OK) {
        st = check_group("producer", options->producer_group, err);
    }
    if (st == RMQ_OK) {
        st = rq_option_check_serialize("producer", options->serialize_type, err);
    }
    if (st == RMQ_OK && !rq_option_compress(options->compress_type, &choice)) {
        st = rq_error_set(err, RMQ_ERR_INVALID,
                          "producer option compressType: \"%s\" is not ZLIB, LZ4, ZSTD or NONE",
                          options->compress_type);
    }
    if (st == RMQ_OK) {
        st = check_codes(options->retry_response_codes, err);
    }
    return st == RMQ_OK ? check_times(options, err) : st;
}

rmq_status rq_producer_options_load(const rmq_producer_options *from, rmq_producer_options *to,
                                    rmq_error **err)
{
    rmq_producer_options all;
    if (!rq_option_take(&rq_producer_table, from, &all)) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "producer options were not made by rmq_producer_options_init");
    }
    struct rq_named_room room;
    rmq_status st =
        rq_option_namespace(&all.namespace_name, &all.producer_group, all.namesrv_addr, &room, err);
    st = st == RMQ_OK ? check_producer(&all, err) : st;
    return st == RMQ_OK ? rq_option_keep(&rq_producer_table, to, &all, err) : st;
}

rmq_status rq_consumer_options_load(const rmq_consumer_options *from, rmq_consumer_options *to,
                                    rmq_error **err)
{
    rmq_consumer_options all;
    if (!rq_option_take(&rq_consumer_table, from, &all)) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "consumer options were not made by rmq_consumer_options_init");
    }
    struct rq_named_room room;
    rmq_status st =
        rq_option_namespace(&all.namespace_name, &all.consumer_group, all.namesrv_addr, &room, err);
    st = st == RMQ_OK ? rq_table_check(&rq_consumer_table, &all, err) : st;
    if (st == RMQ_OK) {
        st = check_group("consumer", all.consumer_group, err);
    }
    if (st == RMQ_OK) {
        st = rq_option_check_serialize("consumer", all.serialize_type, err);
    }
    return st == RMQ_OK ? rq_option_keep(&rq_consumer_table, to, &all, err) : st;
}
