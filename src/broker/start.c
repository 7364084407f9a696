/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Start and stop of a broker, and the rest of its public half. Counterparts: BrokerStartup,
 * BrokerController. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/time.h"
#include "broker/address.h"
#include "broker/admin_topics.h"
#include "broker/auto_topic.h"
#include "broker/config.h"
#include "broker/intervals.h"
#include "broker/metrics.h"
#include "broker/server.h"
#include "wire/names.h"
#include "wire/properties.h"

#define MASTER_ID         0
#define REGISTER_WAIT_MS  6000
#define PATH_ROOM         4096
#define TEMPORARY_SLOTS   "65536"
#define TEMPORARY_ENTRIES "262144"

static rmq_status no_memory(rmq_error **err)
{
    return rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
}

/* ---- start, step by step ---- */

/* "[::1]" is taken as "::1". */
static rmq_status strip_brackets(struct rq_broker_options *options, const char *name,
                                 const char *value, rmq_error **err)
{
    size_t n = value ? strlen(value) : 0;
    if (n < 3 || value[0] != '[' || value[n - 1] != ']') {
        return RMQ_OK;
    }
    char *bare = rq_strndup(value + 1, n - 2);
    rmq_status st =
        bare ? rq_table_set(&rq_broker_options_table, options, name, bare, err) : no_memory(err);
    rq_free(bare);
    return st;
}

static rmq_status check_settings(struct rmq_broker *broker, rmq_error **err)
{
    struct rq_broker_options *options = &broker->settings.broker;
    if (options->broker_role == RQ_ROLE_SLAVE) {
        return rq_error_set(err, RMQ_ERR_UNSUPPORTED, "brokerRole SLAVE is not implemented");
    }
    if (options->broker_role == RQ_ROLE_SYNC_MASTER) {
        RQ_LOG(WARN, "brokerRole SYNC_MASTER acts as ASYNC_MASTER: there are no slaves",
               "broker=%s", options->broker_name);
    }
    if (options->broker_id != MASTER_ID) { /* clients would look for a master in vain */
        RQ_LOG(WARN, "brokerId is taken as 0, that of a master", "brokerId=%lld",
               (long long)options->broker_id);
        options->broker_id = MASTER_ID;
    }
    rmq_status st = rq_server_name_check("brokerName", rq_slice_str(options->broker_name), err);
    st = st ? st
            : rq_server_name_check("brokerClusterName", rq_slice_str(options->broker_cluster_name),
                                   err);
    if (!st && options->trace_topic_enable) {
        st = rq_topic_check(rq_slice_str(options->msg_trace_topic_name), err);
    }
    st = st ? st : strip_brackets(options, "brokerIP1", options->broker_ip1, err);
    st = st ? st : strip_brackets(options, "brokerIP2", options->broker_ip2, err);
    rq_broker_check_intervals(options);
    return st ? st : strip_brackets(options, "bindAddress", options->bind_address, err);
}

/* Files are opened by path as long as the broker runs, and the host may change its directory. */
static rmq_status keep_paths(struct rq_broker_settings *settings, rmq_error **err)
{
    rmq_status st =
        rq_table_make_absolute(&rq_store_table, &settings->store, "storePathRootDir", err);
    st = st ? st
            : rq_table_make_absolute(&rq_store_table, &settings->store, "storePathCommitLog", err);
    return st ? st
              : rq_table_make_absolute(&rq_broker_options_table, &settings->broker,
                                       "brokerConfigPath", err);
}

static rmq_status take_settings(struct rmq_broker *broker, const rmq_broker_config *config,
                                rmq_error **err)
{
    rmq_status st = config ? rq_broker_settings_copy(&broker->settings, &config->settings)
                           : rq_broker_settings_init(&broker->settings, err);
    if (st) {
        return rq_error_set(err, st, "settings of the broker: %s", rmq_status_text(st));
    }
    st = keep_paths(&broker->settings, err);
    return st ? st : check_settings(broker, err);
}

/* What the broker adds to each message, as a property string. */
static rmq_status make_more_properties(struct rmq_broker *broker, rmq_error **err)
{
    const struct rq_broker_options *options = &broker->settings.broker;
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rq_props_add_str(&text, 0, RQ_PROP_MSG_REGION, rq_slice_str(options->region_id));
    rq_props_add_str(&text, 0, RQ_PROP_TRACE_ON,
                     rq_slice_str(options->trace_on ? "true" : "false"));
    rq_props_add_str(&text, 0, RQ_PROP_CLUSTER, rq_slice_str(options->broker_cluster_name));
    size_t n = text.len;
    broker->more_properties = rq_buf_detach(&text);
    broker->more = rq_slice(broker->more_properties, n);
    return broker->more_properties ? RMQ_OK : no_memory(err);
}

/* Nobody else will read a temporary store, so its index need not have the size that the Java broker
 * expects (420 MB, which is slow to make and to remove). Sizes that somebody chose stay. */
static rmq_status shrink_index(struct rmq_broker *broker, rmq_error **err)
{
    struct rq_store_options *options = &broker->settings.store;
    struct rq_store_options defaults;
    rq_table_defaults(&rq_store_table, &defaults);
    if (options->max_hash_slot_num != defaults.max_hash_slot_num ||
        options->max_index_num != defaults.max_index_num) {
        return RMQ_OK;
    }
    rmq_status st = rq_table_set(&rq_store_table, options, "maxHashSlotNum", TEMPORARY_SLOTS, err);
    return st ? st : rq_table_set(&rq_store_table, options, "maxIndexNum", TEMPORARY_ENTRIES, err);
}

static rmq_status choose_store(struct rmq_broker *broker, rmq_error **err)
{
    const char *given = broker->settings.store.store_path_root_dir;
    char text[PATH_ROOM];
    if (given && *given) {
        broker->store_path = rq_strdup(given);
        return broker->store_path ? RMQ_OK : no_memory(err);
    }
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(text, sizeof text, "%s/rmq-broker-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(text)) {
        return rq_error_set(err, RMQ_ERR_IO, "temporary store %s: %s", text, strerror(errno));
    }
    broker->temporary_store = true;
    broker->store_path = rq_sys_absolute(text);
    if (!broker->store_path) {
        (void)rmdir(text);
        return no_memory(err);
    }
    rmq_status st = shrink_index(broker, err);
    return st ? st
              : rq_table_set(&rq_store_table, &broker->settings.store, "storePathRootDir",
                             broker->store_path, err);
}

static rmq_status open_store(struct rmq_broker *broker, rmq_error **err)
{
    rmq_status st = choose_store(broker, err);
    st = st ? st : rq_store_open(&broker->settings.store, &broker->store, err);
    if (!st) {
        struct rq_store_info info;
        rq_store_info(broker->store, &info);
        broker->first_commit_log_offset = info.max_commit_log_offset;
    }
    return st;
}

static const char *config_file(const struct rmq_broker *broker, const char *name,
                               char out[PATH_ROOM])
{
    if (broker->temporary_store) {
        return NULL;
    }
    (void)snprintf(out, PATH_ROOM, "%s/config/%s", broker->store_path, name);
    return out;
}

/* Static topics are known by their mappings. */
static rmq_status load_mappings(struct rmq_broker *broker, rmq_error **err)
{
    struct rq_buf names;
    rmq_status st = rq_queue_mappings_load(&broker->mappings, err);
    rq_buf_init(&names, 0);
    rq_queue_mappings_names(&broker->mappings, &names);
    st = st ? st : rq_buf_status(&names);
    for (size_t at = 0; !st && at < names.len;) {
        struct rq_slice name = rq_slice_str(names.data + at);
        rq_topics_mark_static(&broker->topics, name, true);
        at += name.n + 1;
    }
    rq_buf_free(&names);
    return st;
}

static int64_t queue_end(void *user, struct rq_slice topic, int32_t queue_id)
{
    return rq_store_max_offset(user, topic, queue_id);
}

static rmq_status load_offsets(struct rmq_broker *broker, rmq_error **err)
{
    rmq_status st = rq_offsets_load(&broker->offsets, err);
    if (!st) {
        rq_offsets_fit(&broker->offsets, queue_end, broker->store);
    }
    return st;
}

struct hidden {
    struct rmq_broker *broker;
    char topic[RQ_TOPIC_MAX + 1]; /* one of them */
    int queues;
    int64_t messages;
};

static bool note_hidden(struct rq_slice topic, int32_t queue_id, void *user)
{
    struct hidden *hidden = user;
    struct rq_store *store = hidden->broker->store;
    struct rq_topic_info info;
    int64_t messages =
        rq_store_max_offset(store, topic, queue_id) - rq_store_min_offset(store, topic, queue_id);
    if (messages > 0 && !rq_topics_get(&hidden->broker->topics, topic, &info)) {
        (void)snprintf(hidden->topic, sizeof hidden->topic, "%.*s", (int)topic.n, topic.p);
        hidden->queues++;
        hidden->messages += messages;
    }
    return true;
}

/* A file of topics that was lost, or that a full disk did not take, leaves messages that nobody can
 * ask for. */
static void tell_hidden(struct rmq_broker *broker)
{
    struct hidden hidden = {.broker = broker};
    rq_store_each_queue(broker->store, note_hidden, &hidden);
    if (hidden.queues) {
        RQ_LOG(WARN,
               "the store has messages of topics that are not known, create them to get at it",
               "topic=%s queues=%d messages=%lld", hidden.topic, hidden.queues,
               (long long)hidden.messages);
    }
}

static rmq_status load_tables(struct rmq_broker *broker, rmq_error **err)
{
    char path[PATH_ROOM];
    if (!broker->temporary_store) {
        (void)snprintf(path, sizeof path, "%s/config", broker->store_path);
        if (rq_sys_mkdirs(path)) {
            return rq_error_set(err, RMQ_ERR_IO, "%s: %s", path, strerror(errno));
        }
    }
    if (rq_topics_set_path(&broker->topics, config_file(broker, "topics.json", path)) ||
        rq_queue_mappings_set_path(&broker->mappings,
                                   config_file(broker, "topicQueueMapping.json", path)) ||
        rq_groups_set_path(&broker->groups, config_file(broker, "subscriptionGroup.json", path)) ||
        rq_offsets_set_path(&broker->offsets, config_file(broker, "consumerOffset.json", path)) ||
        rq_request_modes_set_path(&broker->request_modes,
                                  config_file(broker, "messageRequestMode.json", path)) ||
        rq_pop_orders_set_path(&broker->pop_orders,
                               config_file(broker, "consumerOrderInfo.json", path))) {
        return no_memory(err);
    }
    rmq_status st = rq_topics_load(&broker->topics, err);
    st = st ? st : load_mappings(broker, err);
    st = st ? st : rq_groups_load(&broker->groups, err);
    st = st ? st : load_offsets(broker, err);
    st = st ? st : rq_pop_orders_load(&broker->pop_orders, err);
    st = st ? st : rq_request_modes_load(&broker->request_modes, err);
    if (!st) {
        st = rq_schedule_init(&broker->schedule, broker, broker->background,
                              config_file(broker, "delayOffset.json", path), err);
    }
    st = st ? st : rq_schedule_load(&broker->schedule, err);
    char foreign[PATH_ROOM];
    st = st ? st
            : rq_timers_init(&broker->timers, broker, broker->background,
                             config_file(broker, "timerDone", path),
                             config_file(broker, "timercheck", foreign), err);
    st = st ? st : rq_transactions_init(&broker->transactions, broker, broker->background, err);
    st = st ? st : rq_pops_init(&broker->pops, broker, broker->background, err);
    if (!st) {
        rq_schedule_fit(&broker->schedule);
        rq_pops_load(&broker->pops);
    }
    st = st ? st : rq_system_topics(broker, err);
    st = st ? st : rq_system_groups(broker, err);
    if (!st) {
        tell_hidden(broker);
    }
    return st;
}

static rmq_status make_addresses(struct rmq_broker *broker, rmq_error **err)
{
    const struct rq_broker_options *options = &broker->settings.broker;
    int port = broker->server ? rq_server_port(broker->server) : options->listen_port;
    int ha_port = options->ha_listen_port ? options->ha_listen_port : (port + 1) & 0xFFFF;
    rq_free(broker->addr);
    rq_free(broker->ha_addr);
    broker->addr = rq_address_text(options->broker_ip1, port);
    broker->ha_addr =
        rq_address_text(options->broker_ip2 ? options->broker_ip2 : options->broker_ip1, ha_port);
    if (!broker->addr || !broker->ha_addr) {
        return no_memory(err);
    }
    return rq_address_store_host(options->broker_ip1, port, &broker->store_host, err);
}

/* The addresses are there before the first connection can be, but for a port that is not known
 * before. */
static rmq_status listen_for_clients(struct rmq_broker *broker, rmq_error **err)
{
    rmq_status st = make_addresses(broker, err);
    if (!st) {
        st = rq_broker_listen(broker, err);
    }
    if (!st && broker->settings.broker.listen_port == 0) {
        st = make_addresses(broker, err);
    }
    return st;
}

static rmq_status find_namesrv(struct rmq_broker *broker, rmq_error **err)
{
    const struct rq_broker_options *options = &broker->settings.broker;
    if (options->namesrv_addr && *options->namesrv_addr) {
        if (options->namesrv_addr[strspn(options->namesrv_addr, ";, \t")] == '\0') {
            return rq_error_set(err, RMQ_ERR_INVALID, "namesrvAddr \"%s\" names no server",
                                options->namesrv_addr);
        }
        broker->namesrv_addr = rq_strdup(options->namesrv_addr);
    } else {
        rmq_status st =
            rq_namesrv_start_on(broker->loops[0].loop, rq_address_to_bind(options),
                                options->broker_ip1, 0, NULL, &broker->own_namesrv, err);
        if (st) {
            return st;
        }
        broker->namesrv_addr = rq_strdup(rmq_namesrv_addr(broker->own_namesrv));
    }
    return broker->namesrv_addr ? RMQ_OK : no_memory(err);
}

/* A name server that does not answer is no reason not to start: the broker goes on trying. */
static rmq_status register_first(struct rmq_broker *broker, rmq_error **err)
{
    int accepted = rq_registration_now(&broker->registration, REGISTER_WAIT_MS);
    if (accepted == 0 && broker->own_namesrv) {
        return rq_error_set(err, RMQ_ERR_IO,
                            "the broker could not register at its own name server %s",
                            broker->namesrv_addr);
    }
    if (accepted < broker->registration.count) {
        RQ_LOG(WARN, "not every name server has accepted the broker yet", "accepted=%d of=%d",
               accepted, broker->registration.count);
    }
    return RMQ_OK;
}

static rmq_status start(struct rmq_broker *broker, const rmq_broker_config *config, rmq_error **err)
{
    rmq_status st = take_settings(broker, config, err);
    if (st) {
        return st;
    }
    broker->groups.auto_create = broker->settings.broker.auto_create_subscription_group;
    rq_broker_init_background(broker);
    st = make_more_properties(broker, err);
    st = st ? st : rq_broker_make_loops(broker, err);
    st = st ? st : open_store(broker, err);
    st = st ? st : load_tables(broker, err);
    st = st ? st : find_namesrv(broker, err);
    if (!st) {
        rq_hold_init(&broker->hold, broker, broker->background);
        rq_pop_hold_init(&broker->pop_hold, broker, broker->background);
        st = rq_registration_init(&broker->registration, broker, broker->background,
                                  broker->namesrv_addr, err);
    }
    st = st ? st : rq_remotes_init(&broker->remotes, broker, broker->background, err);
    if (!st) {
        rq_mapping_upkeep_init(&broker->mapping_upkeep, broker, broker->background);
        rq_broker_hear_arrivals(broker);
        st = listen_for_clients(broker, err);
    }
    st = st ? st : rq_metrics_start(broker, err);
    st = st ? st : register_first(broker, err);
    if (!st) {
        rq_schedule_start(&broker->schedule);
        rq_transactions_start(&broker->transactions);
        rq_pops_start(&broker->pops);
        rq_timers_start(&broker->timers);
        rq_mapping_upkeep_start(&broker->mapping_upkeep);
        rq_broker_start_background(broker);
        rq_broker_persist_soon(broker);
    }
    return st;
}

rmq_status rmq_broker_start(const rmq_broker_config *config, rmq_broker **out, rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "broker: out is NULL");
    }
    struct rmq_broker *broker = rq_calloc(1, sizeof *broker);
    if (!broker) {
        return no_memory(err);
    }
    broker->boot_ms = rq_wall_ms();
    rq_topics_init(&broker->topics);
    rq_queue_mappings_init(&broker->mappings);
    rq_groups_init(&broker->groups);
    rq_offsets_init(&broker->offsets);
    rq_clients_init(&broker->clients);
    rq_queue_locks_init(&broker->locks);
    rq_pop_orders_init(&broker->pop_orders);
    rq_request_modes_init(&broker->request_modes);
    rq_route_cache_init(&broker->route_cache);
    for (size_t i = 0; i < RQ_POP_LOCKS; i++) {
        rq_mutex_init(&broker->pop_locks[i]);
    }
    rq_fault_init(&broker->fault);
    rq_stats_init(&broker->stats);
    rq_cold_data_init(&broker->cold_data);
    rmq_status st = start(broker, config, err);
    if (st) {
        rmq_broker_stop(broker);
        return st;
    }
    RQ_LOG(INFO, "broker started", "broker=%s addr=%s namesrv=%s store=%s",
           broker->settings.broker.broker_name, broker->addr, broker->namesrv_addr,
           broker->store_path);
    *out = broker;
    return RMQ_OK;
}

/* ---- stop ---- */

static void end_service(struct rmq_broker *broker)
{
    if (broker->server) {
        rq_server_stop_accepting(broker->server);
    }
    rq_metrics_stop(broker);
    rq_registration_stop(&broker->registration);
    rq_broker_stop_background(broker);
    rq_schedule_stop(&broker->schedule);
    rq_transactions_stop(&broker->transactions);
    rq_pops_stop(&broker->pops);
    rq_timers_stop(&broker->timers);
    rq_mapping_upkeep_stop(&broker->mapping_upkeep);
    if (broker->hold.broker) {
        rq_hold_close(&broker->hold);
        rq_pop_hold_close(&broker->pop_hold);
    }
    rq_server_destroy(broker->server);
    rq_broker_drain_loops(broker);
    rq_remotes_close(&broker->remotes);
    rq_transactions_finish(&broker->transactions);
    rmq_namesrv_stop(broker->own_namesrv);
}

static void close_store(struct rmq_broker *broker)
{
    if (broker->server) { /* after a start that failed the tables may be incomplete */
        rq_broker_persist(broker);
    }
    rq_store_close(broker->store);
    if (broker->temporary_store && broker->store_path) {
        (void)rq_sys_rmtree(broker->store_path);
    }
}

static void free_parts(struct rmq_broker *broker)
{
    rq_registration_free(&broker->registration);
    rq_remotes_free(&broker->remotes);
    rq_mapping_upkeep_free(&broker->mapping_upkeep);
    rq_hold_free(&broker->hold);
    rq_pop_hold_free(&broker->pop_hold);
    rq_pops_free(&broker->pops);
    rq_pop_orders_free(&broker->pop_orders);
    rq_request_modes_free(&broker->request_modes);
    rq_route_cache_free(&broker->route_cache);
    for (size_t i = 0; i < RQ_POP_LOCKS; i++) {
        rq_mutex_destroy(&broker->pop_locks[i]);
    }
    rq_schedule_free(&broker->schedule);
    rq_transactions_free(&broker->transactions);
    rq_timers_free(&broker->timers);
    for (int i = 0; i < broker->loop_count; i++) {
        rq_loop_put(broker->loops[i].loop);
    }
    rq_loop_put(broker->background);
    rq_fault_free(&broker->fault);
    rq_stats_free(&broker->stats);
    rq_cold_data_free(&broker->cold_data);
    rq_queue_locks_free(&broker->locks);
    rq_clients_free(&broker->clients);
    rq_offsets_free(&broker->offsets);
    rq_groups_free(&broker->groups);
    rq_queue_mappings_free(&broker->mappings);
    rq_topics_free(&broker->topics);
    rq_broker_settings_free(&broker->settings);
    rq_free(broker->addr);
    rq_free(broker->ha_addr);
    rq_free(broker->namesrv_addr);
    rq_free(broker->store_path);
    rq_free(broker->more_properties);
    rq_free(broker);
}

void rmq_broker_stop(rmq_broker *broker)
{
    if (rq_broker_check(broker, NULL)) {
        return;
    }
    end_service(broker);
    close_store(broker);
    free_parts(broker);
}

/* ---- the rest ---- */

/* A start that failed early has no loops yet. */
rmq_status rq_broker_check(const rmq_broker *broker, rmq_error **err)
{
    if (!broker) {
        return rq_error_set(err, RMQ_ERR_INVALID, "broker is NULL");
    }
    if (broker->background && rq_loop_forked(broker->background)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the broker belongs to the parent process");
    }
    return RMQ_OK;
}

const char *rmq_broker_addr(const rmq_broker *broker)
{
    return broker ? broker->addr : "";
}

const char *rmq_broker_namesrv_addr(const rmq_broker *broker)
{
    return broker ? broker->namesrv_addr : "";
}

const char *rmq_broker_store_path(const rmq_broker *broker)
{
    return broker ? broker->store_path : "";
}

rmq_status rmq_broker_create_topic(rmq_broker *broker, const char *topic, int32_t queues,
                                   rmq_error **err)
{
    bool changed = false;
    rmq_status st = rq_broker_check(broker, err);
    if (st || !topic) {
        return st ? st : rq_error_set(err, RMQ_ERR_INVALID, "topic must be given");
    }
    if (queues < 1) {
        return rq_error_set(err, RMQ_ERR_INVALID, "topic %s: %d queues are not in 1 … %d", topic,
                            (int)queues, RQ_TOPIC_QUEUES_MAX);
    }
    const struct rq_topic_info info = {.read_queue_nums = queues,
                                       .write_queue_nums = queues,
                                       .perm = RQ_PERM_READ | RQ_PERM_WRITE};
    st = rq_admin_put_topic(broker, rq_slice_str(topic), &info, rq_slice(NULL, 0), &changed, err);
    if (st || !changed) {
        return st;
    }
    st = rq_topics_persist(&broker->topics, err);
    (void)rq_registration_now(&broker->registration, REGISTER_WAIT_MS);
    return st;
}
