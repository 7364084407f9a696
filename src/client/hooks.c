/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Hooks around a send (see the header). */
#include "client/hooks.h"

#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "wire/properties.h"

#define PAIRS_MAX ((size_t)32 * 1024)

struct hook {
    rmq_send_hook hook; /* name is owned */
    char *name;
};

struct rq_hooks {
    struct rq_hooks *older; /* its names belong to the newer one */
    size_t count;
    struct hook items[];
};

struct rmq_send_context {
    atomic_int refs; /* atomic: relaxed up, acq_rel down: the last one frees */
    const struct rq_hooks *hooks;
    const char *group;
    const rmq_message *const *messages; /* NULL once the sender may have gone on */
    size_t count;
    rmq_send_mode mode;
    char topic[128];
    const rmq_send_result *result;
    const rmq_error *err;
    struct rq_buf pairs;
    bool before; /* properties may be put */
    size_t current;
    void *data[]; /* one for each hook */
};

void rmq_send_hook_init(rmq_send_hook *hook, size_t size)
{
    if (hook && size >= sizeof hook->struct_size) {
        memset(hook, 0, size);
        hook->struct_size = size;
    }
}

rmq_status rq_hooks_add(_Atomic(struct rq_hooks *) *place, const rmq_send_hook *hook,
                        rmq_error **err)
{
    if (!hook || hook->struct_size < sizeof hook->struct_size) {
        return rq_error_set(err, RMQ_ERR_INVALID, "hook was not made by rmq_send_hook_init");
    }
    struct rq_hooks *old = atomic_load_explicit(place, memory_order_acquire);
    size_t count = old ? old->count : 0;
    struct rq_hooks *made = rq_calloc(1, sizeof *made + (count + 1) * sizeof made->items[0]);
    struct hook *added = made ? &made->items[count] : NULL;
    if (added) {
        size_t size = hook->struct_size < sizeof *hook ? hook->struct_size : sizeof *hook;
        memcpy(&added->hook, hook, size);
        added->name = rq_strdup(added->hook.name ? added->hook.name : "");
    }
    if (!added || !added->name) {
        rq_free(made);
        return rq_error_set(err, RMQ_ERR_NOMEM, "hook");
    }
    if (old) {
        memcpy(made->items, old->items, count * sizeof old->items[0]);
    }
    made->older = old;
    made->count = count + 1;
    atomic_store_explicit(place, made, memory_order_release);
    return RMQ_OK;
}

void rq_hooks_free(struct rq_hooks *hooks)
{
    for (size_t i = 0; hooks && i < hooks->count; i++) {
        rq_free(hooks->items[i].name);
    }
    while (hooks) {
        struct rq_hooks *older = hooks->older;
        rq_free(hooks);
        hooks = older;
    }
}

static rmq_status ask_checks(struct rmq_send_context *context, rmq_error **err)
{
    for (size_t i = 0; i < context->hooks->count; i++) {
        const struct hook *item = &context->hooks->items[i];
        context->current = i;
        rmq_status st = item->hook.check ? item->hook.check(context, item->hook.user) : RMQ_OK;
        if (st != RMQ_OK) {
            return rq_error_set(err, st, "send to topic %s is refused by the hook %s",
                                context->topic, item->name);
        }
    }
    return RMQ_OK;
}

/* When it fails, those that ran are ended with the error. */
static rmq_status run_before(struct rmq_send_context *context, rmq_error **err)
{
    context->before = true;
    for (size_t i = 0; i < context->hooks->count; i++) {
        const struct hook *item = &context->hooks->items[i];
        context->current = i;
        if (item->hook.before) {
            item->hook.before(context, item->hook.user);
        }
    }
    context->before = false;
    rmq_status st = rq_buf_status(&context->pairs);
    if (st != RMQ_OK) {
        rmq_error *why = NULL;
        rq_error_set(&why, st, "send to topic %s: hooks put more than %zu bytes of properties",
                     context->topic, PAIRS_MAX);
        context->messages = NULL;
        rq_hooks_end(rq_hooks_retain(context), NULL, why);
        if (err) {
            *err = why;
        } else {
            rmq_error_destroy(why);
        }
    }
    return st;
}

struct rmq_send_context *rq_hooks_retain(struct rmq_send_context *context)
{
    if (context) {
        atomic_fetch_add_explicit(&context->refs, 1, memory_order_relaxed);
    }
    return context;
}

void rq_hooks_release(struct rmq_send_context *context)
{
    if (context && atomic_fetch_sub_explicit(&context->refs, 1, memory_order_acq_rel) == 1) {
        rq_buf_free(&context->pairs);
        rq_free(context);
    }
}

rmq_status rq_hooks_begin(const struct rq_hooks *hooks, const char *group,
                          const rmq_message *const *messages, size_t count, rmq_send_mode mode,
                          struct rmq_send_context **out, rmq_error **err)
{
    if (!hooks) {
        return RMQ_OK;
    }
    struct rmq_send_context *context =
        rq_calloc(1, sizeof *context + hooks->count * sizeof context->data[0]);
    if (!context) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "hooks of a send");
    }
    atomic_init(&context->refs, 1);
    context->hooks = hooks;
    context->group = group;
    context->messages = messages;
    context->count = count;
    context->mode = mode;
    size_t n = strlen(rmq_message_topic(messages[0]));
    memcpy(context->topic, rmq_message_topic(messages[0]), n < 127 ? n : 127);
    rq_buf_init(&context->pairs, PAIRS_MAX);
    rmq_status st = ask_checks(context, err);
    if (st == RMQ_OK) {
        st = run_before(context, err);
    }
    context->messages = NULL;
    if (st != RMQ_OK) {
        rq_hooks_release(context);
        return st;
    }
    *out = context;
    return RMQ_OK;
}

struct rq_slice rq_hooks_pairs(const struct rmq_send_context *context)
{
    return context ? rq_slice(context->pairs.data, context->pairs.len) : rq_slice(NULL, 0);
}

void rq_hooks_end(struct rmq_send_context *context, const rmq_send_result *result,
                  const rmq_error *err)
{
    if (!context) {
        return;
    }
    context->result = err ? NULL : result;
    context->err = err;
    for (size_t i = 0; i < context->hooks->count; i++) {
        const struct hook *item = &context->hooks->items[i];
        context->current = i;
        if (item->hook.after) {
            item->hook.after(context, item->hook.user);
        }
    }
    rq_hooks_release(context);
}

/* ---- what hooks may ask ---- */

const char *rmq_send_context_topic(const rmq_send_context *context)
{
    return context->topic;
}

const char *rmq_send_context_group(const rmq_send_context *context)
{
    return context->group;
}

rmq_send_mode rmq_send_context_mode(const rmq_send_context *context)
{
    return context->mode;
}

size_t rmq_send_context_count(const rmq_send_context *context)
{
    return context->count;
}

const rmq_message *rmq_send_context_message(const rmq_send_context *context, size_t index)
{
    return context->messages && index < context->count ? context->messages[index] : NULL;
}

const rmq_send_result *rmq_send_context_result(const rmq_send_context *context)
{
    return context->result;
}

const rmq_error *rmq_send_context_error(const rmq_send_context *context)
{
    return context->err;
}

rmq_status rmq_send_context_put_property(rmq_send_context *context, const char *name,
                                         const char *value)
{
    if (!context || !name || !value) {
        return RMQ_ERR_INVALID;
    }
    if (!context->before) {
        return RMQ_ERR_STATE;
    }
    rmq_status st = rq_props_check(rq_slice_str(name), rq_slice_str(value), NULL);
    if (st != RMQ_OK) {
        return st;
    }
    rq_buf_add(&context->pairs, name, strlen(name) + 1);
    rq_buf_add(&context->pairs, value, strlen(value) + 1);
    return rq_buf_status(&context->pairs);
}

void rmq_send_context_set_data(rmq_send_context *context, void *data)
{
    context->data[context->current] = data;
}

void *rmq_send_context_data(const rmq_send_context *context)
{
    return context->data[context->current];
}
