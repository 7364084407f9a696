/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Life of a name server. Counterparts: NamesrvController, BrokerHousekeepingService. */
#include "namesrv/namesrv.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/propfile.h"
#include "base/time.h"

#define ADDR_MAX 300

static void on_request(void *user, struct rq_conn *conn, struct rq_in *in)
{
    rq_namesrv_process(user, conn, in);
}

static void on_close(void *user, struct rq_conn *conn, rmq_status why)
{
    struct rmq_namesrv *namesrv = user;
    (void)why;
    rq_route_info_conn_closed(&namesrv->info, conn);
}

static void scan(struct rq_timer *timer)
{
    struct rmq_namesrv *namesrv = RQ_CONTAINER_OF(timer, struct rmq_namesrv, scan);
    (void)rq_route_info_expire(&namesrv->info, rq_loop_now(namesrv->loop));
    rq_timer_start(namesrv->loop, &namesrv->scan, namesrv->options.scan_not_active_broker_interval);
}

static void start_timer(void *arg)
{
    struct rmq_namesrv *namesrv = arg;
    rq_timer_init(&namesrv->scan, scan);
    rq_timer_start(namesrv->loop, &namesrv->scan, namesrv->options.scan_not_active_broker_interval);
}

static void stop_timer(void *arg)
{
    struct rmq_namesrv *namesrv = arg;
    rq_timer_stop(&namesrv->scan);
}

/* Options, files and tables. */
static rmq_status prepare(struct rmq_namesrv *namesrv, const struct rq_namesrv_options *options,
                          rmq_error **err)
{
    rmq_status st = options ? rq_table_copy(&rq_namesrv_options_table, &namesrv->options, options)
                            : rq_namesrv_options_init(&namesrv->options, err);
    if (st) {
        return rq_error_set(err, st, "out of memory");
    }
    st = rq_table_make_absolute(&rq_namesrv_options_table, &namesrv->options, "kvConfigPath", err);
    st = st ? st
            : rq_table_make_absolute(&rq_namesrv_options_table, &namesrv->options,
                                     "configStorePath", err);
    if (st) {
        return st;
    }
    namesrv->info.drop_missing = namesrv->options.delete_topic_with_broker_registration;
    namesrv->info.scan_ms = namesrv->options.scan_not_active_broker_interval;
    if (namesrv->info.scan_ms > RQ_BROKER_EXPIRES_MS) {
        RQ_LOG(WARN, "brokers that have died would be forgotten late",
               "scanNotActiveBrokerInterval=%lld forgotten_ms=%d", (long long)namesrv->info.scan_ms,
               RQ_BROKER_EXPIRES_MS);
    }
    if (namesrv->options.need_wait_for_service) {
        namesrv->ready_ms =
            rq_deadline_ms((int64_t)namesrv->options.wait_seconds_for_service * 1000);
    }
    const char *path = namesrv->options.kv_config_path;
    return path && *path ? rq_kv_open(&namesrv->kv, path, err) : RMQ_OK;
}

/* Port and, where no host is given, address are those of the options. */
static rmq_status listen_to(struct rmq_namesrv *namesrv, const char *address, const char *host,
                            int port, rmq_error **err)
{
    char text[ADDR_MAX];
    const char *bind_address = namesrv->options.bind_address;
    if (!host) {
        host = bind_address && *bind_address ? bind_address : "127.0.0.1";
        address = host;
    }
    const struct rq_server_options options = {
        .loops = &namesrv->loop,
        .loop_count = 1,
        .address = address,
        .port = (uint16_t)(port < 0 ? namesrv->options.listen_port : port),
        .on_request = on_request,
        .on_close = on_close,
        .user = namesrv};
    rmq_status st = rq_server_create(&options, &namesrv->server, err);
    if (st) {
        return st;
    }
    (void)snprintf(text, sizeof text, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
                   rq_server_port(namesrv->server));
    namesrv->addr = rq_strdup(text);
    return namesrv->addr ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
}

rmq_status rq_namesrv_start_on(struct rq_loop *loop, const char *address, const char *host,
                               int port, const struct rq_namesrv_options *given, rmq_namesrv **out,
                               rmq_error **err)
{
    if (port < (given ? -1 : 0) || port > UINT16_MAX) {
        return rq_error_set(err, RMQ_ERR_INVALID, "name server port %d is not in 0 … 65535", port);
    }
    struct rmq_namesrv *namesrv = rq_calloc(1, sizeof *namesrv);
    if (!namesrv) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
    }
    rq_route_info_init(&namesrv->info);
    rq_kv_init(&namesrv->kv);
    namesrv->loop = loop;
    rq_loop_retain(loop);
    rmq_status st = prepare(namesrv, given, err);
    st = st ? st : listen_to(namesrv, address, host, port, err);
    if (st) {
        rmq_namesrv_stop(namesrv);
        return st;
    }
    (void)rq_loop_run(loop, start_timer, namesrv);
    *out = namesrv;
    return RMQ_OK;
}

rmq_status rmq_namesrv_start(const char *address, int port, rmq_namesrv **out, rmq_error **err)
{
    return rmq_namesrv_start_properties(address, port, NULL, out, err);
}

/* path: the file that the text is from, or NULL. Options changed by request are written to it,
 * unless it names another one. */
static rmq_status start_with(const char *address, int port, struct rq_slice text, const char *path,
                             rmq_namesrv **out, rmq_error **err)
{
    char whole[PATH_MAX];
    struct rq_namesrv_options options;
    struct rq_loop *loop = NULL;
    rmq_status st = rq_namesrv_options_init(&options, err);
    if (st) {
        return st;
    }
    if (path) {
        st = rq_table_set(&rq_namesrv_options_table, &options, "configStorePath",
                          realpath(path, whole) ? whole : path, err);
    }
    st = st ? st : rq_namesrv_options_load(&options, text, path, err);
    st = st ? st : rq_loop_create("rmq-namesrv", &loop, err);
    st = st ? st : rq_namesrv_start_on(loop, address, address, port, &options, out, err);
    rq_loop_put(loop);
    rq_table_free(&rq_namesrv_options_table, &options);
    return st;
}

rmq_status rmq_namesrv_start_properties(const char *address, int port, const char *properties,
                                        rmq_namesrv **out, rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "name server: out is NULL");
    }
    if (!properties && port < 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "name server port %d is not in 0 … 65535", port);
    }
    return start_with(address, port, rq_slice_str(properties ? properties : ""), NULL, out, err);
}

rmq_status rmq_namesrv_start_file(const char *address, int port, const char *path,
                                  rmq_namesrv **out, rmq_error **err)
{
    struct rq_buf text;
    if (!path || !out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "name server: path and out must be given");
    }
    rmq_status st = rq_propfile_read(path, &text, err);
    st = st ? st : start_with(address, port, rq_slice(text.data, text.len), path, out, err);
    rq_buf_free(&text);
    return st;
}

bool rmq_namesrv_config_field(size_t index, const char **name, const char **type,
                              const char **default_value, const char **range, const char **help)
{
    return rq_table_tell(&rq_namesrv_options_table, index, name, type, default_value, range, help);
}

const char *rmq_namesrv_addr(const rmq_namesrv *namesrv)
{
    return namesrv ? namesrv->addr : "";
}

/* In the child of a fork it is the parent's, and has no thread that could be waited for. */
void rmq_namesrv_stop(rmq_namesrv *namesrv)
{
    if (!namesrv || rq_loop_forked(namesrv->loop)) {
        return;
    }
    rq_server_destroy(namesrv->server);
    (void)rq_loop_run(namesrv->loop, stop_timer, namesrv);
    rq_loop_put(namesrv->loop);
    rq_route_info_free(&namesrv->info);
    rq_kv_free(&namesrv->kv);
    rq_table_free(&rq_namesrv_options_table, &namesrv->options);
    rq_free(namesrv->addr);
    rq_free(namesrv);
}
