/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Times of a broker that do not go with those of its name servers and clients. */
#include "broker/intervals.h"

#include "base/log.h"
#include "namesrv/route_info.h"
#include "wire/heartbeat.h"

/* One registration that gets no answer, until the next one is made. */
static void check_registration(const struct rq_broker_options *options)
{
    int64_t period_ms = options->register_name_server_period;
    int64_t timeout_ms = options->register_broker_timeout_mills;
    if (period_ms + timeout_ms > RQ_BROKER_EXPIRES_MS) {
        RQ_LOG(WARN, "name servers may forget the broker while it waits for an answer",
               "registerNameServerPeriod=%lld registerBrokerTimeoutMills=%lld forgotten_ms=%d",
               (long long)period_ms, (long long)timeout_ms, RQ_BROKER_EXPIRES_MS);
    }
}

static void check_clients(const struct rq_broker_options *options)
{
    int64_t expires_ms = options->channel_expired_timeout;
    int64_t idle_s = options->server_channel_max_idle_time_seconds;
    if (expires_ms <= RQ_HEARTBEAT_INTERVAL_MS) {
        RQ_LOG(WARN, "clients are forgotten before their next heartbeat, unless theirs is shorter",
               "channelExpiredTimeout=%lld heartbeatBrokerInterval=%d", (long long)expires_ms,
               RQ_HEARTBEAT_INTERVAL_MS);
    }
    if (idle_s > 0 && idle_s * 1000 <= RQ_HEARTBEAT_INTERVAL_MS) {
        RQ_LOG(WARN, "connections are closed before the next heartbeat of clients",
               "serverChannelMaxIdleTimeSeconds=%lld heartbeatBrokerInterval=%d", (long long)idle_s,
               RQ_HEARTBEAT_INTERVAL_MS);
    }
}

void rq_broker_check_intervals(const struct rq_broker_options *options)
{
    check_registration(options);
    check_clients(options);
}
