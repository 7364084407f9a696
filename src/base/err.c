/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * rmq_error and rmq_status. An error carries its own destructor, so that one made by librmq-broker
 * may be destroyed through librmq and the reverse, each with the allocator that made it.
 */
#define RQ_BASE_ERR_INSIDE
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <rmq/version.h>

#include "base/buf.h"
#include "base/mem.h"

#define MESSAGE_MAX 4096

struct rmq_error {
    void (*destroy)(void *p); /* NULL: static */
    rmq_status status;
    int remote_code;
    bool retriable;
    bool maybe_stored;
    char broker[128];
    const char *message; /* NUL-terminated, behind the struct or static */
};

/* What is handed out when there is no memory for an error. Never written to. */
static struct rmq_error no_memory = {
    .status = RMQ_ERR_NOMEM, .retriable = true, .message = "out of memory"};

const char *rmq_status_name(rmq_status status)
{
    switch (status) {
#define STATUS_NAME(name, number, text)                                                            \
    case RMQ_##name:                                                                               \
        return "RMQ_" #name;
        RMQ_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "RMQ_ERR_UNKNOWN";
}

const char *rmq_status_text(rmq_status status)
{
    switch (status) {
#define STATUS_TEXT(name, number, text)                                                            \
    case RMQ_##name:                                                                               \
        return text;
        RMQ_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

static bool retriable_by_status(rmq_status status)
{
    switch ((int)status) {
    case RMQ_ERR_TIMEOUT:
    case RMQ_ERR_CONNECT:
    case RMQ_ERR_DISCONNECTED:
    case RMQ_ERR_RESOLVE:
    case RMQ_ERR_NO_NAMESRV:
    case RMQ_ERR_NO_ROUTE:
    case RMQ_ERR_NO_BROKER:
    case RMQ_ERR_BUSY:
    case RMQ_ERR_NOMEM:
    case RMQ_ERR_DISK_FULL:
        return true;
    default:
        return false;
    }
}

static rmq_error *make(rmq_status status, const char *text, size_t len)
{
    rmq_error *e = rq_alloc(sizeof *e + len + 1);
    if (!e) {
        return NULL;
    }
    char *message = (char *)(e + 1);
    memcpy(message, text, len);
    message[len] = '\0';
    *e = (struct rmq_error){.destroy = rq_free,
                            .status = status,
                            .retriable = retriable_by_status(status),
                            .message = message};
    return e;
}

static RMQ_PRINTF(2, 0) rmq_error *make_formatted(rmq_status status, const char *fmt, va_list args)
{
    char text[MESSAGE_MAX];
    int n = vsnprintf(text, sizeof text, fmt, args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    return make(status, text, len);
}

static void replace(rmq_error **err, rmq_error *made)
{
    rmq_error_destroy(*err);
    *err = made ? made : &no_memory;
}

rmq_status rq_error_set(rmq_error **err, rmq_status status, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        replace(err, make_formatted(status, fmt, args));
        va_end(args);
    }
    return status;
}

rmq_status rq_error_set_remote(rmq_error **err, int code, const char *broker, const char *fmt, ...)
{
    if (!err) {
        return RMQ_ERR_BROKER;
    }
    va_list args;
    va_start(args, fmt);
    rmq_error *e = make_formatted(RMQ_ERR_BROKER, fmt, args);
    va_end(args);
    if (e) {
        e->remote_code = code;
        snprintf(e->broker, sizeof e->broker, "%s", broker ? broker : "");
    }
    replace(err, e);
    return RMQ_ERR_BROKER;
}

void rq_error_mark(rmq_error *err, bool retriable, bool maybe_stored)
{
    if (err && err->destroy) {
        err->retriable = retriable;
        err->maybe_stored = maybe_stored;
    }
}

void rq_error_set_broker(rmq_error *err, const char *broker)
{
    if (err && err->destroy) {
        snprintf(err->broker, sizeof err->broker, "%s", broker ? broker : "");
    }
}

rmq_error *rq_error_copy(const rmq_error *err)
{
    if (!err) {
        return NULL;
    }
    rmq_error *e = make(err->status, rmq_error_message(err), strlen(rmq_error_message(err)));
    if (!e) {
        return &no_memory;
    }
    e->remote_code = err->remote_code;
    e->retriable = err->retriable;
    e->maybe_stored = err->maybe_stored;
    memcpy(e->broker, err->broker, sizeof e->broker);
    return e;
}

rmq_status rmq_error_status(const rmq_error *err)
{
    return err ? err->status : RMQ_OK;
}

int rmq_error_remote_code(const rmq_error *err)
{
    return err ? err->remote_code : 0;
}

const char *rmq_error_message(const rmq_error *err)
{
    return err ? err->message : "";
}

const char *rmq_error_broker(const rmq_error *err)
{
    return err ? err->broker : "";
}

bool rmq_error_retriable(const rmq_error *err)
{
    return err && err->retriable;
}

bool rmq_error_maybe_stored(const rmq_error *err)
{
    return err && err->maybe_stored;
}

void rmq_error_destroy(rmq_error *err)
{
    if (err && err->destroy) {
        err->destroy(err);
    }
}

int rmq_version(void)
{
    return RMQ_VERSION_NUM;
}

const char *rmq_version_string(void)
{
    return RMQ_VERSION_STRING;
}
