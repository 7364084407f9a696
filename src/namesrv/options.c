/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The option table of a name server, and options as text. Pure but for memory. */
#include "namesrv/options.h"

#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/propfile.h"

#define AT(field) offsetof(struct rq_namesrv_options, field)
#define STRING(name, field, def, help)                                                             \
    {                                                                                              \
        name, RQ_OPT_STRING, AT(field), def, 0, 0, NULL, help                                      \
    }
#define FLAG(name, field, def, help)                                                               \
    {                                                                                              \
        name, RQ_OPT_BOOL, AT(field), def, 0, 0, "true|false", help                                \
    }

static const struct rq_option rows[] = {
    {"listenPort", RQ_OPT_I32, AT(listen_port), "9876", 0, 65535, "0 … 65535",
     "Port to listen on; 0 takes any free one."},
    STRING("bindAddress", bind_address, NULL, "Address to listen on; not set: 127.0.0.1."),
    STRING("kvConfigPath", kv_config_path, NULL,
           "File of the key-value settings; not set: they live as long as the name server."),
    STRING("configStorePath", config_store_path, NULL,
           "File that options changed by request are written to; not set: they are not kept."),
    {"scanNotActiveBrokerInterval", RQ_OPT_I64, AT(scan_not_active_broker_interval), "5000", 10,
     INT32_MAX, "10 … INT32_MAX",
     "Milliseconds between looks for brokers that have been silent for too long."},
    FLAG("orderMessageEnable", order_message_enable, "false",
         "Tell the order configuration of a topic in its route."),
    FLAG("returnOrderTopicConfigToBroker", return_order_topic_config_to_broker, "true",
         "Tell brokers the order configuration of all topics when they register."),
    FLAG("supportActingMaster", support_acting_master, "false",
         "Show the slave of lowest id as master where there is none and the broker allows it."),
    FLAG("enableAllTopicList", enable_all_topic_list, "true",
         "Answer with the list of all topics."),
    FLAG("enableTopicList", enable_topic_list, "true",
         "Answer with lists of topics: by cluster, of the system, of units."),
    FLAG("needWaitForService", need_wait_for_service, "false",
         "Refuse to tell routes until waitSecondsForService have passed since the start."),
    {"waitSecondsForService", RQ_OPT_I32, AT(wait_seconds_for_service), "45", 0, 86400, "0 … 86400",
     "See needWaitForService."},
    FLAG("deleteTopicWithBrokerRegistration", delete_topic_with_broker_registration, "false",
         "Forget a topic of a broker when a registration does not name it any more."),
    STRING("configBlackList", config_black_list, "configBlackList;configStorePath;kvConfigPath",
           "Options that a request may not change, besides configBlackList, configStorePath and "
           "kvConfigPath."),
};

/* Names that a request may not set, whatever configBlackList says. */
static const char always_forbidden[] = "configBlackList;configStorePath;kvConfigPath;rocketmqHome";

const struct rq_table rq_namesrv_options_table = {
    .object = "namesrv",
    .options = rows,
    .count = sizeof rows / sizeof rows[0],
    .struct_size = sizeof(struct rq_namesrv_options),
};

rmq_status rq_namesrv_options_init(struct rq_namesrv_options *options, rmq_error **err)
{
    struct rq_namesrv_options defaults;
    memset(&defaults, 0, sizeof defaults);
    rq_table_defaults(&rq_namesrv_options_table, &defaults);
    rmq_status st = rq_table_copy(&rq_namesrv_options_table, options, &defaults);
    return st ? rq_error_set(err, st, "out of memory") : RMQ_OK;
}

struct loading {
    struct rq_namesrv_options *options;
    const char *name;
};

static rmq_status load_property(void *user, struct rq_propfile *line, rmq_error **err)
{
    const struct loading *loading = user;
    const char *key = rq_buf_cstr(&line->key);
    if (!rq_table_find(&rq_namesrv_options_table, key)) {
        RQ_LOG(WARN, "name server property has no effect here", "file=%s line=%d property=%s",
               loading->name ? loading->name : "-", line->line, key);
        return RMQ_OK;
    }
    return rq_table_set(&rq_namesrv_options_table, loading->options, key, rq_buf_cstr(&line->value),
                        err);
}

rmq_status rq_namesrv_options_load(struct rq_namesrv_options *options, struct rq_slice text,
                                   const char *name, rmq_error **err)
{
    struct loading loading = {options, name};
    return rq_propfile_each(text, name, load_property, &loading, err);
}

/* ---- by request ---- */

static enum rq_properties_result set_one(struct rq_namesrv_options *options,
                                         struct rq_propfile *line, const char *black_list,
                                         struct rq_buf *pairs, rmq_error **err)
{
    const char *key = rq_buf_cstr(&line->key);
    const char *value = rq_buf_cstr(&line->value);
    if (rq_slice_is_listed(rq_slice_str(key), black_list ? black_list : "") ||
        rq_slice_is_listed(rq_slice_str(key), always_forbidden)) {
        return RQ_PROPERTIES_FORBIDDEN;
    }
    if (!line->has_separator || !rq_table_find(&rq_namesrv_options_table, key)) {
        return RQ_PROPERTIES_SET;
    }
    if (rq_table_set(&rq_namesrv_options_table, options, key, value, err)) {
        return RQ_PROPERTIES_WRONG;
    }
    rq_buf_add(pairs, key, strlen(key) + 1);
    rq_buf_add(pairs, value, strlen(value) + 1);
    return RQ_PROPERTIES_SET;
}

enum rq_properties_result rq_namesrv_options_set(struct rq_namesrv_options *options,
                                                 struct rq_slice text, const char *black_list,
                                                 struct rq_buf *pairs, rmq_error **err)
{
    struct rq_namesrv_options copy;
    struct rq_propfile lines;
    enum rq_properties_result result = RQ_PROPERTIES_SET;
    if (rq_table_copy(&rq_namesrv_options_table, &copy, options)) {
        (void)rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
        return RQ_PROPERTIES_WRONG;
    }
    rq_propfile_init(&lines, text);
    while (result == RQ_PROPERTIES_SET && rq_propfile_next(&lines)) {
        result = set_one(&copy, &lines, black_list, pairs, err);
    }
    if (result == RQ_PROPERTIES_SET && rq_propfile_status(&lines)) {
        (void)rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
        result = RQ_PROPERTIES_WRONG;
    }
    rq_propfile_free(&lines);
    if (result == RQ_PROPERTIES_SET) {
        rq_table_free(&rq_namesrv_options_table, options);
        *options = copy;
    } else {
        rq_table_free(&rq_namesrv_options_table, &copy);
    }
    return result;
}

void rq_namesrv_options_write(const struct rq_namesrv_options *options, struct rq_buf *out)
{
    for (size_t i = 0; i < rq_namesrv_options_table.count; i++) {
        rq_buf_add_str(out, rows[i].name);
        rq_buf_add_char(out, '=');
        rq_table_value_text(&rows[i], options, out);
        rq_buf_add_char(out, '\n');
    }
}
