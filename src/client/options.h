/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The option tables of producers and consumers, and the way from what a program passes (a struct of
 * its own size, or an rmq_config) to a complete, checked copy. Called by create functions on the
 * program's thread. Counterparts: ClientConfig, DefaultMQProducer, DefaultMQPushConsumer.
 */
#ifndef RQ_CLIENT_OPTIONS_H
#define RQ_CLIENT_OPTIONS_H

#include <rmq/config.h>
#include <rmq/consumer.h>
#include <rmq/lite_pull_consumer.h>
#include <rmq/pop_consumer.h>
#include <rmq/producer.h>
#include <rmq/pull_consumer.h>

#include "base/table.h"

extern const struct rq_table rq_producer_table;
extern const struct rq_table rq_consumer_table;
extern const struct rq_table rq_pull_consumer_table;      /* options_pull.c */
extern const struct rq_table rq_pop_consumer_table;       /* options_pull.c */
extern const struct rq_table rq_lite_pull_consumer_table; /* options_pull.c */

/* Choices that are strings in the options structs. */
enum rq_compress_choice {
    RQ_COMPRESS_CHOICE_NONE,
    RQ_COMPRESS_CHOICE_ZLIB,
    RQ_COMPRESS_CHOICE_LZ4,
    RQ_COMPRESS_CHOICE_ZSTD
};

bool rq_option_compress(const char *text, enum rq_compress_choice *out); /* false: unknown */
/* JSON or ROCKETMQ, any case; NULL = JSON. */
bool rq_option_serialize(const char *text, bool *binary);

#define RQ_RETRY_CODES_MAX 32

/* Numbers with commas between, into codes[RQ_RETRY_CODES_MAX]; NULL = none. false: not such a
 * list. */
bool rq_option_codes(const char *text, int32_t *codes, size_t *count);

/* Deep copy with defaults for what the program's struct is too short to have, all values checked.
 * Freed with rq_table_free. Errors: RMQ_ERR_INVALID with the option, the value and its range;
 * RMQ_ERR_NOMEM. */
rmq_status rq_producer_options_load(const rmq_producer_options *from, rmq_producer_options *to,
                                    rmq_error **err);
rmq_status rq_consumer_options_load(const rmq_consumer_options *from, rmq_consumer_options *to,
                                    rmq_error **err);

rmq_status rq_pull_consumer_options_load(const rmq_pull_consumer_options *from,
                                         rmq_pull_consumer_options *to, rmq_error **err);
rmq_status rq_pop_consumer_options_load(const rmq_pop_consumer_options *from,
                                        rmq_pop_consumer_options *to, rmq_error **err);
rmq_status rq_lite_pull_consumer_options_load(const rmq_lite_pull_consumer_options *from,
                                              rmq_lite_pull_consumer_options *to, rmq_error **err);

/* The options inside a configuration, borrowed; NULL when it is of the other kind. */
const rmq_producer_options *rq_config_producer(const rmq_config *config);
const rmq_consumer_options *rq_config_consumer(const rmq_config *config);
const rmq_pull_consumer_options *rq_config_pull_consumer(const rmq_config *config);
const rmq_pop_consumer_options *rq_config_pop_consumer(const rmq_config *config);
const rmq_lite_pull_consumer_options *rq_config_lite_pull_consumer(const rmq_config *config);

#endif
