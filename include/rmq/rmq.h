/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The whole client. The in-process broker is in <rmq/broker.h>, another library.
 *
 * For every function: texts are UTF-8 that ends with a NUL, times are milliseconds. A handle or an
 * argument that is NULL where one is needed gives RMQ_ERR_INVALID, from a getter "", 0 or NULL;
 * destroy accepts NULL. Any thread may call, where nothing else is said.
 */
#ifndef RMQ_RMQ_H
#define RMQ_RMQ_H

#include <rmq/admin.h>
#include <rmq/alloc.h>
#include <rmq/config.h>
#include <rmq/consumer.h>
#include <rmq/error.h>
#include <rmq/events.h>
#include <rmq/export.h>
#include <rmq/lite_pull_consumer.h>
#include <rmq/log.h>
#include <rmq/message.h>
#include <rmq/pop_consumer.h>
#include <rmq/producer.h>
#include <rmq/pull_consumer.h>
#include <rmq/queue.h>
#include <rmq/status.h>
#include <rmq/version.h>

#endif
