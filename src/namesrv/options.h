/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The options of a name server, by the property names of the Java namesrv.conf. Owned by the name
 * server's loop thread once it runs. Counterpart: NamesrvConfig. */
#ifndef RQ_NAMESRV_OPTIONS_H
#define RQ_NAMESRV_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/table.h"

struct rq_namesrv_options {
    int32_t listen_port;
    const char *bind_address;
    const char *kv_config_path; /* NULL: settings are kept in memory only */
    const char *config_store_path;
    int64_t scan_not_active_broker_interval;
    bool order_message_enable;
    bool return_order_topic_config_to_broker;
    bool support_acting_master;
    bool enable_all_topic_list;
    bool enable_topic_list;
    bool need_wait_for_service;
    int32_t wait_seconds_for_service;
    bool delete_topic_with_broker_registration;
    const char *config_black_list;
};

extern const struct rq_table rq_namesrv_options_table;

/* The defaults; freed with rq_table_free. */
rmq_status rq_namesrv_options_init(struct rq_namesrv_options *options, rmq_error **err);

/* The text of a properties file, name its path or NULL: errors tell file and line, names that are
 * not in the table are logged. */
rmq_status rq_namesrv_options_load(struct rq_namesrv_options *options, struct rq_slice text,
                                   const char *name, rmq_error **err);

enum rq_properties_result {
    RQ_PROPERTIES_SET,
    RQ_PROPERTIES_FORBIDDEN, /* one is in the black list; nothing was set */
    RQ_PROPERTIES_WRONG      /* one has a value out of range; *err tells which */
};

/* Options changed by request, as lines; names that are not in the table are passed over.
 * black_list: names that may not be set, besides those that no request may set. pairs: what was
 * set, as "key\0value\0". All or nothing. */
enum rq_properties_result rq_namesrv_options_set(struct rq_namesrv_options *options,
                                                 struct rq_slice text, const char *black_list,
                                                 struct rq_buf *pairs, rmq_error **err);

/* All options as lines. */
void rq_namesrv_options_write(const struct rq_namesrv_options *options, struct rq_buf *out);

#endif
