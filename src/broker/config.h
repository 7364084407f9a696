/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The configuration object of <rmq/broker.h>: options with what was said about them. One thread at a time. */
#ifndef RQ_BROKER_CONFIG_H
#define RQ_BROKER_CONFIG_H

#include <rmq/broker.h>

#include "base/buf.h"
#include "broker/options.h"

struct rmq_broker_config {
    struct rq_broker_options options; /* owned copies of all strings */
    struct rq_buf text;               /* what rmq_broker_config_get returned last */
};

/* Options of a configuration, or the defaults for NULL, as an own copy (rq_table_free). */
rmq_status rq_broker_options_of(const rmq_broker_config *config, struct rq_broker_options *out);

/* Sets one property as a request or a file does; *implemented tells whether it has an effect. */
rmq_status rq_broker_options_set(struct rq_broker_options *options, const char *key,
                                 const char *value, bool *implemented, rmq_error **err);

#endif
