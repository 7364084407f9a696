/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Times that are set in different programs and have to go with one another. */
#ifndef RQ_BROKER_INTERVALS_H
#define RQ_BROKER_INTERVALS_H

#include "broker/options.h"

/* At the start: what cannot work is logged with the numbers of both sides. It is no error, since the
 * other side's may have been set, too. */
void rq_broker_check_intervals(const struct rq_broker_options *options);

#endif
