/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Parts of the topic table that the registration body uses, too. */
#ifndef RQ_WIRE_BODIES_PRIV_H
#define RQ_WIRE_BODIES_PRIV_H

#include "wire/bodies.h"

/* Reads {"topicConfigTable":…,"dataVersion":…} into a zeroed table, which is to be cleared after an
 * error, too. */
rmq_status rq_topic_table_read(const cJSON *wrapper, struct rq_topic_table *out, rmq_error **err);
rmq_status rq_topic_attributes_parse(const cJSON *json, struct rq_topic_config *out,
                                     rmq_error **err);

/* Adds one mapping to a table that has room for it; one without a broker name is passed over. */
rmq_status rq_topic_mapping_read(const cJSON *json, struct rq_topic_table *out, rmq_error **err);

#endif
