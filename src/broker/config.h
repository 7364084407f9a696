/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The configuration object of <rmq/broker.h>: options with what was said about them. One thread at
 * a time. */
#ifndef RQ_BROKER_CONFIG_H
#define RQ_BROKER_CONFIG_H

#include <rmq/broker.h>

#include "base/buf.h"
#include "broker/options.h"

struct rmq_broker_config {
    struct rq_broker_settings settings;
    struct rq_buf text; /* what rmq_broker_config_get returned last */
};

#endif
