/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Bodies that a name server answers: routes, clusters, topic lists. Loop thread. Counterparts:
 * RouteInfoManager, TopicRouteData, ClusterInfo. */
#include <strings.h>

#include "base/json.h"
#include "namesrv/route_info.h"
#include "namesrv/route_info_priv.h"

#define UNIT     1
#define UNIT_SUB 2

static void add_text(struct rq_buf *out, const char *text)
{
    rq_json_add_string(out, rq_slice_str(text));
}

/* {"brokerAddrs":{0:"…"},"brokerName":…,"cluster":…,"enableActingMaster":…} */
static void write_broker(const struct rq_live_broker *broker, bool bare_keys, bool act,
                         struct rq_buf *out)
{
    const char *quote = bare_keys ? "" : "\"";
    rq_buf_add_str(out, "{\"brokerAddrs\":{");
    for (size_t i = 0; i < broker->addr_count; i++) {
        int64_t id = act && i == 0 ? 0 : broker->addrs[i].id;
        rq_buf_addf(out, "%s%s%lld%s:", i ? "," : "", quote, (long long)id, quote);
        add_text(out, broker->addrs[i].addr);
    }
    rq_buf_add_str(out, "},\"brokerName\":");
    add_text(out, broker->name);
    rq_buf_add_str(out, ",\"cluster\":");
    add_text(out, broker->cluster);
    rq_buf_addf(out, ",\"enableActingMaster\":%s", broker->acting_master ? "true" : "false");
    if (broker->zone) {
        rq_buf_add_str(out, ",\"zoneName\":");
        add_text(out, broker->zone);
    }
    rq_buf_add_char(out, '}');
}

static void write_queues(const struct rq_live_queues *queues, struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"brokerName\":");
    add_text(out, queues->broker);
    rq_buf_addf(out, ",\"perm\":%d,\"readQueueNums\":%d,\"topicSysFlag\":%d,\"writeQueueNums\":%d}",
                queues->perm, queues->read_queue_nums, queues->sys_flag, queues->write_queue_nums);
}

static bool has_master(const struct rq_live_broker *broker)
{
    return broker->addr_count && broker->addrs[0].id == 0; /* sorted by id */
}

static bool acts(const struct rq_live_broker *broker, const struct rq_live_queues *queues,
                 const struct rq_route_form *form)
{
    return form->acting_master && broker->acting_master && !has_master(broker) &&
           !(queues->perm & RQ_PERM_WRITE);
}

static bool is_of_zone(const struct rq_live_broker *broker, struct rq_slice zone)
{
    return broker->zone && strlen(broker->zone) == zone.n &&
           strncasecmp(broker->zone, zone.p, zone.n) == 0;
}

/* A broker that has no master, nor one that acts as such, is told to every zone. */
static bool is_in_zone(const struct rq_live_broker *broker, const struct rq_live_queues *queues,
                       const struct rq_route_form *form)
{
    return form->zone.n == 0 || is_of_zone(broker, form->zone) ||
           !(has_master(broker) || acts(broker, queues, form));
}

/* Of queues without a broker of their name nothing is told but the queues, as in Java. */
static bool is_told(const struct rq_route_info *info, const struct rq_live_queues *queues,
                    const struct rq_route_form *form, const struct rq_live_broker **broker)
{
    *broker = rq_map_get(&info->brokers, rq_slice_str(queues->broker));
    return !*broker || is_in_zone(*broker, queues, form);
}

static bool write_brokers(const struct rq_route_info *info, const struct rq_live_topic *topic,
                          const struct rq_route_form *form, struct rq_buf *out)
{
    bool found = false;
    bool first = true;
    rq_buf_add_str(out, "{\"brokerDatas\":[");
    for (size_t i = 0; i < topic->count; i++) {
        const struct rq_live_broker *broker;
        bool told = is_told(info, &topic->queues[i], form, &broker);
        found = found || broker;
        if (broker && told) {
            rq_buf_add_str(out, first ? "" : ",");
            write_broker(broker, form->bare_keys, acts(broker, &topic->queues[i], form), out);
            first = false;
        }
    }
    rq_buf_add_char(out, ']');
    return found;
}

bool rq_route_info_write_route(const struct rq_route_info *info, struct rq_slice name,
                               const struct rq_route_form *form, struct rq_buf *out)
{
    const struct rq_live_topic *topic = rq_map_get(&info->topics, name);
    bool first = true;
    if (!topic || topic->count == 0) {
        return false;
    }
    bool found = write_brokers(info, topic, form, out);
    rq_buf_add_str(out, ",\"filterServerTable\":{},");
    if (form->order_conf) {
        rq_buf_add_str(out, "\"orderTopicConf\":");
        add_text(out, form->order_conf);
        rq_buf_add_char(out, ',');
    }
    rq_buf_add_str(out, "\"queueDatas\":[");
    for (size_t i = 0; i < topic->count; i++) {
        const struct rq_live_broker *broker;
        if (is_told(info, &topic->queues[i], form, &broker)) {
            rq_buf_add_str(out, first ? "" : ",");
            write_queues(&topic->queues[i], out);
            first = false;
        }
    }
    rq_buf_add_char(out, ']');
    if (topic->mapping_count) {
        rq_buf_add_char(out, ',');
        rq_live_topic_write_mappings(topic, form->bare_keys, out);
    }
    rq_buf_add_char(out, '}');
    return found;
}

/* Whether no broker before the i-th entry is of the same cluster. */
static bool first_of_cluster(const struct rq_route_info *info, const struct rq_live_broker *broker)
{
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&info->brokers, &i));) {
        const struct rq_live_broker *other = entry->value;
        if (rq_slice_eq_str(rq_slice_str(broker->cluster), other->cluster)) {
            return other == broker;
        }
    }
    return true;
}

static void write_cluster(const struct rq_route_info *info, const char *cluster, struct rq_buf *out)
{
    bool first = true;
    const struct rq_map_entry *entry;
    add_text(out, cluster);
    rq_buf_add_str(out, ":[");
    for (size_t i = 0; (entry = rq_map_next(&info->brokers, &i));) {
        const struct rq_live_broker *broker = entry->value;
        if (rq_slice_eq_str(rq_slice_str(cluster), broker->cluster)) {
            rq_buf_add_str(out, first ? "" : ",");
            add_text(out, broker->name);
            first = false;
        }
    }
    rq_buf_add_char(out, ']');
}

void rq_route_info_write_clusters(const struct rq_route_info *info, struct rq_buf *out)
{
    bool first = true;
    const struct rq_map_entry *entry;
    rq_buf_add_str(out, "{\"brokerAddrTable\":{");
    for (size_t i = 0; (entry = rq_map_next(&info->brokers, &i)); first = false) {
        const struct rq_live_broker *broker = entry->value;
        rq_buf_add_str(out, first ? "" : ",");
        add_text(out, broker->name);
        rq_buf_add_char(out, ':');
        write_broker(broker, true, false, out);
    }
    first = true;
    rq_buf_add_str(out, "},\"clusterAddrTable\":{");
    for (size_t i = 0; (entry = rq_map_next(&info->brokers, &i));) {
        const struct rq_live_broker *broker = entry->value;
        if (first_of_cluster(info, broker)) {
            rq_buf_add_str(out, first ? "" : ",");
            write_cluster(info, broker->cluster, out);
            first = false;
        }
    }
    rq_buf_add_str(out, "}}");
}

bool rq_route_info_write_member_group(const struct rq_route_info *info, struct rq_slice broker_name,
                                      struct rq_buf *out)
{
    const struct rq_live_broker *broker = rq_map_get(&info->brokers, broker_name);
    if (!broker) {
        return false;
    }
    rq_buf_add_str(out, "{\"brokerMemberGroup\":");
    write_broker(broker, true, false, out);
    rq_buf_add_char(out, '}');
    return true;
}

static bool topic_is_in_cluster(const struct rq_route_info *info, const struct rq_live_topic *topic,
                                struct rq_slice cluster)
{
    for (size_t i = 0; i < topic->count; i++) {
        const struct rq_live_broker *broker =
            rq_map_get(&info->brokers, rq_slice_str(topic->queues[i].broker));
        if (broker && rq_slice_eq_str(cluster, broker->cluster)) {
            return true;
        }
    }
    return false;
}

static bool is_listed(const struct rq_route_info *info, const struct rq_map_entry *entry,
                      enum rq_topic_list which, struct rq_slice cluster)
{
    const struct rq_live_topic *topic = entry->value;
    int32_t flag = topic->count ? topic->queues[0].sys_flag : 0;
    switch (which) {
    case RQ_LIST_CLUSTER:
        return topic_is_in_cluster(info, topic, cluster);
    case RQ_LIST_SYSTEM: /* names of clusters and brokers, which are topics, too */
        return false;
    case RQ_LIST_UNIT:
        return (flag & UNIT) != 0;
    case RQ_LIST_UNIT_SUB:
        return (flag & UNIT_SUB) != 0;
    case RQ_LIST_UNIT_SUB_UNUNIT:
        return (flag & UNIT_SUB) != 0 && (flag & UNIT) == 0;
    default:
        return true;
    }
}

/* The system list of a name server: every cluster and every broker by name. */
static void write_system_names(const struct rq_route_info *info, bool *first, struct rq_buf *out)
{
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&info->brokers, &i));) {
        const struct rq_live_broker *broker = entry->value;
        if (first_of_cluster(info, broker)) {
            rq_buf_add_str(out, *first ? "" : ",");
            add_text(out, broker->cluster);
            *first = false;
        }
        rq_buf_add_char(out, ',');
        add_text(out, broker->name);
    }
}

void rq_route_info_write_topics(const struct rq_route_info *info, enum rq_topic_list which,
                                struct rq_slice cluster, struct rq_buf *out)
{
    bool first = true;
    const struct rq_map_entry *entry;
    const char *addr = NULL;
    rq_buf_add_str(out, "{\"topicList\":[");
    if (which == RQ_LIST_SYSTEM) {
        size_t i = 0;
        write_system_names(info, &first, out);
        entry = rq_map_next(&info->brokers, &i);
        const struct rq_live_broker *broker = entry ? entry->value : NULL;
        addr = broker && broker->addr_count ? broker->addrs[0].addr : NULL;
    }
    for (size_t i = 0; (entry = rq_map_next(&info->topics, &i));) {
        if (is_listed(info, entry, which, cluster)) {
            rq_buf_add_str(out, first ? "" : ",");
            rq_json_add_string(out, rq_slice(entry->key, entry->key_len));
            first = false;
        }
    }
    rq_buf_add_char(out, ']');
    if (addr) {
        rq_buf_add_str(out, ",\"brokerAddr\":");
        add_text(out, addr);
    }
    rq_buf_add_char(out, '}');
}
