/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Registration and its end: how the tables of a name server change. Loop thread. Counterpart:
 * RouteInfoManager. */
#include "namesrv/route_info.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "namesrv/route_info_priv.h"

static void free_addr(struct rq_live_addr *addr)
{
    rq_free(addr->addr);
    rq_free(addr->ha_addr);
}

static void free_broker(void *p)
{
    struct rq_live_broker *broker = p;
    for (size_t i = 0; i < broker->addr_count; i++) {
        free_addr(&broker->addrs[i]);
    }
    rq_free(broker->addrs);
    rq_free(broker->name);
    rq_free(broker->cluster);
    rq_free(broker->zone);
    rq_free(broker);
}

static void free_topic(void *p)
{
    struct rq_live_topic *topic = p;
    for (size_t i = 0; i < topic->count; i++) {
        rq_free(topic->queues[i].broker);
    }
    rq_free(topic->queues);
    rq_live_topic_unmap(topic);
    rq_free(topic);
}

void rq_route_info_init(struct rq_route_info *info)
{
    info->drop_missing = false;
    rq_map_init(&info->brokers);
    rq_map_init(&info->topics);
}

void rq_route_info_free(struct rq_route_info *info)
{
    rq_map_free(&info->brokers, free_broker);
    rq_map_free(&info->topics, free_topic);
}

/* NULL when the topic is NULL or has nothing on the broker. */
static struct rq_live_queues *find_queues(const struct rq_live_topic *topic, const char *broker)
{
    for (size_t i = 0; topic && i < topic->count; i++) {
        if (strcmp(topic->queues[i].broker, broker) == 0) {
            return &topic->queues[i];
        }
    }
    return NULL;
}

static void remove_queues(struct rq_live_topic *topic, struct rq_live_queues *queues)
{
    rq_free(queues->broker);
    *queues = topic->queues[--topic->count];
}

/* Takes the queues of one broker out of every topic. */
static void remove_broker_queues(struct rq_route_info *info, const char *name)
{
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&info->topics, &i));) {
        struct rq_live_topic *topic = entry->value;
        struct rq_live_queues *queues = find_queues(topic, name);
        if (queues) {
            remove_queues(topic, queues);
        }
        if (topic->count == 0) {
            (void)rq_map_remove(&info->topics, rq_slice(entry->key, entry->key_len));
            free_topic(topic);
        }
    }
}

static void remove_broker(struct rq_route_info *info, struct rq_live_broker *broker)
{
    remove_broker_queues(info, broker->name);
    (void)rq_map_remove(&info->brokers, rq_slice_str(broker->name));
    free_broker(broker);
}

/* Removes one address, and the broker with its last one. */
static void remove_addr(struct rq_route_info *info, struct rq_live_broker *broker, size_t index)
{
    RQ_LOG(INFO, "broker unregistered", "broker=%s id=%lld addr=%s", broker->name,
           (long long)broker->addrs[index].id, broker->addrs[index].addr);
    free_addr(&broker->addrs[index]);
    broker->addr_count--;
    memmove(&broker->addrs[index], &broker->addrs[index + 1],
            (broker->addr_count - index) * sizeof *broker->addrs);
    if (broker->addr_count == 0) {
        remove_broker(info, broker);
    } else if (broker->acting_master && broker->addrs[0].id != 0) {
        /* a slave that stands for the master is not written to; a master that comes back is new */
        (void)rq_route_info_set_write(info, rq_slice_str(broker->name), false);
    }
}

static struct rq_live_addr *find_id(const struct rq_live_broker *broker, int64_t id)
{
    for (size_t i = 0; i < broker->addr_count; i++) {
        if (broker->addrs[i].id == id) {
            return &broker->addrs[i];
        }
    }
    return NULL;
}

static struct rq_live_addr *find_addr(const struct rq_live_broker *broker, struct rq_slice addr)
{
    for (size_t i = 0; broker && i < broker->addr_count; i++) {
        if (rq_slice_eq_str(addr, broker->addrs[i].addr)) {
            return &broker->addrs[i];
        }
    }
    return NULL;
}

static struct rq_live_broker *make_broker(struct rq_route_info *info,
                                          const struct rq_hdr_register_broker *header)
{
    struct rq_live_broker *broker = rq_calloc(1, sizeof *broker);
    if (!broker) {
        return NULL;
    }
    broker->name = rq_slice_dup(header->broker_name);
    broker->cluster = rq_slice_dup(header->cluster_name);
    if (header->zone_name.n) {
        broker->zone = rq_slice_dup(header->zone_name);
    }
    if (!broker->name || !broker->cluster || (header->zone_name.n && !broker->zone) ||
        rq_map_put(&info->brokers, header->broker_name, broker)) {
        free_broker(broker);
        return NULL;
    }
    return broker;
}

/* The entry of an id, with the address of the header; entries are kept sorted by id. */
static struct rq_live_addr *put_addr(struct rq_live_broker *broker,
                                     const struct rq_hdr_register_broker *header)
{
    char *addr = rq_slice_dup(header->broker_addr);
    char *ha_addr =
        rq_slice_dup(header->ha_server_addr.p ? header->ha_server_addr : rq_slice("", 0));
    struct rq_live_addr *entry = find_id(broker, header->broker_id);
    if (addr && ha_addr && !entry) {
        struct rq_live_addr *addrs =
            rq_realloc(broker->addrs, (broker->addr_count + 1) * sizeof *addrs);
        if (addrs) {
            broker->addrs = addrs;
            size_t at = broker->addr_count++;
            for (; at > 0 && addrs[at - 1].id > header->broker_id; at--) {
                addrs[at] = addrs[at - 1];
            }
            entry = &addrs[at];
            *entry = (struct rq_live_addr){.id = header->broker_id};
        }
    }
    if (!addr || !ha_addr || !entry) {
        rq_free(addr);
        rq_free(ha_addr);
        return NULL;
    }
    free_addr(entry);
    entry->addr = addr;
    entry->ha_addr = ha_addr;
    return entry;
}

static rmq_status put_queues(struct rq_route_info *info, const char *broker,
                             const struct rq_topic_config *config, bool without_write)
{
    struct rq_slice name = rq_slice_str(config->name);
    struct rq_live_topic *topic = rq_map_get(&info->topics, name);
    if (!topic) {
        topic = rq_calloc(1, sizeof *topic);
        if (!topic || rq_map_put(&info->topics, name, topic)) {
            rq_free(topic);
            return RMQ_ERR_NOMEM;
        }
    }
    struct rq_live_queues *queues = find_queues(topic, broker);
    if (!queues) {
        struct rq_live_queues *all = rq_realloc(topic->queues, (topic->count + 1) * sizeof *all);
        char *copy = rq_strdup(broker);
        if (all) {
            topic->queues = all;
        }
        if (!all || !copy) {
            rq_free(copy);
            return RMQ_ERR_NOMEM;
        }
        queues = &all[topic->count++];
        queues->broker = copy;
    }
    queues->read_queue_nums = config->read_queue_nums;
    queues->write_queue_nums = config->write_queue_nums;
    queues->perm = without_write ? config->perm & ~RQ_PERM_WRITE : config->perm;
    queues->sys_flag = config->topic_sys_flag;
    return RMQ_OK;
}

/* An address that comes back under another id has changed its role: the old entry goes first. */
static void drop_other_ids(struct rq_live_broker *broker,
                           const struct rq_hdr_register_broker *header)
{
    for (size_t i = broker->addr_count; i-- > 0;) {
        struct rq_live_addr *entry = &broker->addrs[i];
        if (entry->id != header->broker_id && rq_slice_eq_str(header->broker_addr, entry->addr)) {
            free_addr(entry);
            broker->addr_count--;
            memmove(entry, entry + 1, (broker->addr_count - i) * sizeof *entry);
        }
    }
}

/* Another living address holds the id with a later state: the sender is a master that does not know
 * yet that it is none. */
static bool is_outdated(const struct rq_live_addr *entry,
                        const struct rq_hdr_register_broker *header,
                        const struct rq_topic_table *topics)
{
    return entry && !rq_slice_eq_str(header->broker_addr, entry->addr) &&
           entry->version.state_version > topics->version.state_version;
}

/* A mapping counts for the broker that it names, as in Java. */
static rmq_status put_mappings(struct rq_route_info *info, const struct rq_topic_table *topics)
{
    rmq_status st = RMQ_OK;
    for (size_t i = 0; i < topics->mapping_count && !st; i++) {
        const struct rq_queue_mapping_info *mapping = &topics->mappings[i];
        struct rq_live_topic *topic = rq_map_get(&info->topics, rq_slice_str(mapping->topic));
        st = topic ? rq_live_topic_map(topic, mapping) : RMQ_OK;
    }
    return st;
}

static rmq_status put_topics(struct rq_route_info *info, const struct rq_live_broker *broker,
                             const struct rq_live_addr *entry, const struct rq_topic_table *topics,
                             bool first)
{
    bool changed = first || !rq_data_version_equal(&entry->version, &topics->version);
    bool without_write = entry->id != 0 && broker->acting_master;
    for (size_t i = 0; i < topics->count; i++) {
        const struct rq_topic_config *config = &topics->topics[i];
        if (!config->name || !*config->name) {
            continue;
        }
        const struct rq_live_topic *topic = rq_map_get(&info->topics, rq_slice_str(config->name));
        if ((changed || !find_queues(topic, broker->name)) &&
            put_queues(info, broker->name, config, without_write)) {
            return RMQ_ERR_NOMEM;
        }
    }
    return changed ? put_mappings(info, topics) : RMQ_OK;
}

/* Topics of the broker that its full registration does not name. Without memory they stay. */
static void drop_missing(struct rq_route_info *info, const struct rq_live_broker *broker,
                         const struct rq_topic_table *topics)
{
    struct rq_map names;
    rmq_status st = RMQ_OK;
    rq_map_init(&names);
    for (size_t i = 0; i < topics->count && !st; i++) {
        const char *name = topics->topics[i].name;
        st = name && *name ? rq_map_put(&names, rq_slice_str(name), info) : RMQ_OK;
    }
    const struct rq_map_entry *entry;
    for (size_t i = 0; !st && (entry = rq_map_next(&info->topics, &i));) {
        struct rq_live_topic *topic = entry->value;
        struct rq_live_queues *queues = find_queues(topic, broker->name);
        if (!queues || rq_map_get(&names, rq_slice(entry->key, entry->key_len))) {
            continue;
        }
        remove_queues(topic, queues);
        if (topic->count == 0) {
            (void)rq_map_remove(&info->topics, rq_slice(entry->key, entry->key_len));
            free_topic(topic);
        }
    }
    rq_map_free(&names, NULL);
}

rmq_status rq_route_info_put_queues(struct rq_route_info *info, const char *broker,
                                    const struct rq_topic_config *topic)
{
    return rq_map_get(&info->brokers, rq_slice_str(broker)) ? put_queues(info, broker, topic, false)
                                                            : RMQ_OK;
}

/* Two brokers that were started with one name and id take the place of each other with every
 * registration: somebody must be told, once. */
static void look_for_twin(struct rq_live_broker *broker, const struct rq_live_addr *known,
                          const struct rq_hdr_register_broker *header, const void *conn)
{
    if (known && !broker->contested && known->conn != conn &&
        !rq_slice_eq_str(header->broker_addr, known->addr)) {
        broker->contested = true;
        RQ_LOG(WARN, "two brokers have the same name and id: clients find the one or the other",
               "broker=%s id=%lld addr=%s other=%.*s", broker->name, (long long)known->id,
               known->addr, (int)header->broker_addr.n, header->broker_addr.p);
    }
}

/* The tables hold C strings: a name with a NUL inside would not be found again, and what the maps
 * have under it would outlive its broker. */
static bool has_names(const struct rq_hdr_register_broker *header)
{
    const struct rq_slice names[] = {header->broker_name, header->cluster_name, header->zone_name,
                                     header->broker_addr, header->ha_server_addr};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].n > 0 && memchr(names[i].p, '\0', names[i].n)) {
            return false;
        }
    }
    return true;
}

/* Whether its topics count: those of the master, or without one of the lowest slave. Brokers before
 * 5.0, which tell nothing of acting masters, have no such slave. */
static bool is_prime(const struct rq_live_broker *broker, const struct rq_live_addr *entry,
                     const struct rq_hdr_register_broker *header)
{
    return entry->id == 0 ||
           (entry == &broker->addrs[0] && RQ_HAS(register_broker, header, enable_acting_master));
}

/* A broker whose connection hangs is found by the next look only. */
static void check_interval(const struct rq_route_info *info, const struct rq_live_broker *broker,
                           const struct rq_live_addr *entry)
{
    if (entry->expires_ms < info->scan_ms) {
        RQ_LOG(WARN, "a broker that has died would be forgotten late",
               "broker=%s heartbeatTimeoutMillis=%lld scanNotActiveBrokerInterval=%lld",
               broker->name, (long long)entry->expires_ms, (long long)info->scan_ms);
    }
}

enum rq_register_result rq_route_info_register(struct rq_route_info *info,
                                               const struct rq_hdr_register_broker *header,
                                               const struct rq_topic_table *topics,
                                               const void *conn, int64_t now_ms,
                                               const struct rq_live_addr **master)
{
    *master = NULL;
    if (!has_names(header)) {
        return RQ_REGISTER_REFUSED;
    }
    struct rq_live_broker *broker = rq_map_get(&info->brokers, header->broker_name);
    const struct rq_live_addr *known = broker ? find_id(broker, header->broker_id) : NULL;
    if (!known && topics->count == 1) {
        /* the change of one topic, of a broker that has not told the others yet */
        return RQ_REGISTER_REFUSED;
    }
    look_for_twin(broker, known, header, conn);
    if (is_outdated(known, header, topics)) {
        return RQ_REGISTERED;
    }
    bool first = !known;
    if (!broker && !(broker = make_broker(info, header))) {
        return RQ_REGISTER_NOMEM;
    }
    drop_other_ids(broker, header);
    broker->acting_master = header->enable_acting_master;
    struct rq_live_addr *entry = put_addr(broker, header);
    if (!entry) {
        if (broker->addr_count == 0) {
            remove_broker(info, broker);
        }
        return RQ_REGISTER_NOMEM;
    }
    if (first) {
        RQ_LOG(INFO, "broker registered", "broker=%s id=%lld addr=%s topics=%zu", broker->name,
               (long long)entry->id, entry->addr, topics->count);
    }
    bool prime = is_prime(broker, entry, header);
    if (prime && put_topics(info, broker, entry, topics, first)) {
        return RQ_REGISTER_NOMEM;
    }
    if (prime && info->drop_missing && topics->count > 1) {
        drop_missing(info, broker, topics);
    }
    entry->version = topics->version;
    entry->last_ms = now_ms;
    entry->expires_ms = RQ_HAS(register_broker, header, heartbeat_timeout_ms)
                            ? header->heartbeat_timeout_ms
                            : RQ_BROKER_EXPIRES_MS;
    entry->conn = conn;
    if (first && RQ_HAS(register_broker, header, heartbeat_timeout_ms)) {
        check_interval(info, broker, entry);
    }
    *master = entry->id != 0 ? find_id(broker, 0) : NULL;
    return RQ_REGISTERED;
}

void rq_route_info_unregister(struct rq_route_info *info, struct rq_slice broker_name,
                              struct rq_slice addr)
{
    struct rq_live_broker *broker = rq_map_get(&info->brokers, broker_name);
    const struct rq_live_addr *entry = find_addr(broker, addr);
    if (entry) {
        remove_addr(info, broker, (size_t)(entry - broker->addrs));
    }
}

/* Removes the addresses for which gone is true; the walk bears that a broker goes with its last
 * address. */
static int remove_addrs_if(struct rq_route_info *info,
                           bool (*gone)(const struct rq_live_addr *addr, const void *arg),
                           const void *arg)
{
    int removed = 0;
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&info->brokers, &i));) {
        struct rq_live_broker *broker = entry->value;
        for (size_t at = broker->addr_count; at-- > 0;) {
            if (gone(&broker->addrs[at], arg)) {
                bool last = broker->addr_count == 1;
                remove_addr(info, broker, at);
                removed++;
                if (last) {
                    break;
                }
            }
        }
    }
    return removed;
}

static bool is_of_conn(const struct rq_live_addr *addr, const void *conn)
{
    return addr->conn == conn;
}

static bool is_expired(const struct rq_live_addr *addr, const void *arg)
{
    const int64_t *now_ms = arg;
    return *now_ms - addr->last_ms > addr->expires_ms;
}

void rq_route_info_conn_closed(struct rq_route_info *info, const void *conn)
{
    (void)remove_addrs_if(info, is_of_conn, conn);
}

int rq_route_info_expire(struct rq_route_info *info, int64_t now_ms)
{
    return remove_addrs_if(info, is_expired, &now_ms);
}

const struct rq_data_version *rq_route_info_touch(struct rq_route_info *info,
                                                  struct rq_slice broker_name, struct rq_slice addr,
                                                  int64_t now_ms)
{
    struct rq_live_addr *entry = find_addr(rq_map_get(&info->brokers, broker_name), addr);
    if (!entry) {
        return NULL;
    }
    entry->last_ms = now_ms;
    return &entry->version;
}

static bool in_cluster(const struct rq_route_info *info, const char *broker_name,
                       struct rq_slice cluster)
{
    const struct rq_live_broker *broker = rq_map_get(&info->brokers, rq_slice_str(broker_name));
    return broker && rq_slice_eq_str(cluster, broker->cluster);
}

void rq_route_info_remove_topic(struct rq_route_info *info, struct rq_slice name,
                                struct rq_slice cluster)
{
    struct rq_live_topic *topic = rq_map_get(&info->topics, name);
    if (!topic) {
        return;
    }
    for (size_t i = topic->count; i-- > 0;) {
        if (!cluster.n || in_cluster(info, topic->queues[i].broker, cluster)) {
            remove_queues(topic, &topic->queues[i]);
        }
    }
    if (topic->count == 0) {
        (void)rq_map_remove(&info->topics, name);
        free_topic(topic);
    }
}

int rq_route_info_set_write(struct rq_route_info *info, struct rq_slice broker_name, bool write)
{
    int count = 0;
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&info->topics, &i));) {
        struct rq_live_topic *topic = entry->value;
        for (size_t at = 0; at < topic->count; at++) {
            struct rq_live_queues *queues = &topic->queues[at];
            if (rq_slice_eq_str(broker_name, queues->broker)) {
                queues->perm = write ? RQ_PERM_READ | RQ_PERM_WRITE : queues->perm & ~RQ_PERM_WRITE;
                count++;
            }
        }
    }
    return count;
}
