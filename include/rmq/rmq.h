/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The whole client. The in-process broker is in <rmq/broker.h>, another library. */
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
