/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Namespaces of the first kind, which are part of the names: "topic" is "ns%topic" at the brokers,
 * "%RETRY%group" is "%RETRY%ns%group". Pure functions, any thread. Counterpart: NamespaceUtil.
 */
#ifndef RQ_WIRE_NAMESPACE_H
#define RQ_WIRE_NAMESPACE_H

#include "wire/names.h"

#define RQ_NAMESPACE_MAX  64
#define RQ_NAMESPACED_MAX (RQ_NAME_MAX + RQ_NAMESPACE_MAX + 1) /* room for a full name */

/* 1 to 64 characters of A-Z a-z 0-9 | _ -. Errors: RMQ_ERR_INVALID. */
rmq_status rq_namespace_check(struct rq_slice name_space, rmq_error **err);

/* The full name, in room or name itself: without a namespace, names of the system, names that are
 * full already, and those that are too long for any rule stay as they are. name may be NULL. */
const char *rq_namespace_wrap(const char *name_space, const char *name,
                              char room[RQ_NAMESPACED_MAX]);

/* The name as users know it: a part of the full one. A retry or dead-letter topic stays as it is,
 * see strip. */
const char *rq_namespace_plain(const char *name_space, const char *name);

/* The same for a name in memory that may be written to, of every kind. */
char *rq_namespace_strip(const char *name_space, char *name);

/* The namespace in an endpoint "[scheme://]MQ_INST_a_b.host:port": "MQ_INST_a_b"; nothing in any
 * other address. */
struct rq_slice rq_namespace_of_endpoint(const char *addr);

#endif
