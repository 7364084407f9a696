/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Mappings of static topics as brokers register them and routes tell them. Loop thread.
 * Counterpart: RouteInfoManager, topicQueueMappingInfoTable. */
#include <string.h>

#include "base/mem.h"
#include "namesrv/route_info_priv.h"

static void free_mapping(struct rq_live_mapping *mapping)
{
    rq_free(mapping->texts);
    rq_queue_mapping_info_clear(&mapping->info);
}

/* Copies a text to *place, which moves behind it. */
static const char *keep(char **place, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = memcpy(*place, text, n);
    *place += n;
    return copy;
}

static rmq_status copy_mapping(const struct rq_queue_mapping_info *from, struct rq_live_mapping *to)
{
    size_t room = strlen(from->topic) + strlen(from->broker_name) + strlen(from->scope) + 3;
    *to = (struct rq_live_mapping){.info = *from, .texts = rq_alloc(room)};
    to->info.ids = from->id_count ? rq_calloc(from->id_count, sizeof *to->info.ids) : NULL;
    if (!to->texts || (from->id_count && !to->info.ids)) {
        free_mapping(to);
        return RMQ_ERR_NOMEM;
    }
    char *place = to->texts;
    to->info.topic = keep(&place, from->topic);
    to->info.broker_name = keep(&place, from->broker_name);
    to->info.scope = keep(&place, from->scope);
    if (from->id_count) {
        memcpy(to->info.ids, from->ids, from->id_count * sizeof *to->info.ids);
    }
    return RMQ_OK;
}

static struct rq_live_mapping *find_mapping(const struct rq_live_topic *topic, const char *broker)
{
    for (size_t i = 0; i < topic->mapping_count; i++) {
        if (strcmp(topic->mappings[i].info.broker_name, broker) == 0) {
            return &topic->mappings[i];
        }
    }
    return NULL;
}

rmq_status rq_live_topic_map(struct rq_live_topic *topic, const struct rq_queue_mapping_info *info)
{
    struct rq_live_mapping copy;
    struct rq_live_mapping *place = find_mapping(topic, info->broker_name);
    if (copy_mapping(info, &copy)) {
        return RMQ_ERR_NOMEM;
    }
    if (place) {
        free_mapping(place);
    } else {
        struct rq_live_mapping *all =
            rq_realloc(topic->mappings, (topic->mapping_count + 1) * sizeof *all);
        if (!all) {
            free_mapping(&copy);
            return RMQ_ERR_NOMEM;
        }
        topic->mappings = all;
        place = &all[topic->mapping_count++];
    }
    *place = copy;
    return RMQ_OK;
}

void rq_live_topic_unmap(struct rq_live_topic *topic)
{
    for (size_t i = 0; i < topic->mapping_count; i++) {
        free_mapping(&topic->mappings[i]);
    }
    rq_free(topic->mappings);
    topic->mappings = NULL;
    topic->mapping_count = 0;
}

void rq_live_topic_write_mappings(const struct rq_live_topic *topic, bool bare_keys,
                                  struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_str(out, "\"topicQueueMappingByBroker\":{");
    for (size_t i = 0; i < topic->mapping_count; i++) {
        rq_json_add_member(out, &first, topic->mappings[i].info.broker_name);
        rq_queue_mapping_info_write(&topic->mappings[i].info, bare_keys, out);
    }
    rq_buf_add_char(out, '}');
}
