/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Settings by request (25, 26). Processors read the settings without a lock, so a change is made
 * while they stand still: the background loop asks every serving loop to wait, writes, and lets
 * them go on. Only what is read anew each time, by those that stand still or from the store's
 * retention, can be changed; for the others the answer says that they are read at start.
 * Counterparts: AdminBrokerProcessor, Configuration.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/propfile.h"
#include "broker/auto_topic.h"
#include "broker/broker.h"

static const char *const changeable[] = {
    "autoCreateSubscriptionGroup",
    "autoCreateTopicEnable",
    "brokerPermission",
    "channelExpiredTimeout",
    "cleanFileForciblyEnable",
    "defaultQueryMaxNum",
    "deleteWhen",
    "diskMaxUsedSpaceRatio",
    "diskSpaceCleanForciblyRatio",
    "diskSpaceWarningLevelRatio",
    "enableMixedMessageType",
    "enablePropertyFilter",
    "fileReservedTime",
    "flushConsumerOffsetInterval",
    "flushDelayOffsetInterval",
    "litePullMessageEnable",
    "longPollingEnable",
    "maxMessageSize",
    "maxMsgsNumBatch",
    "maxTransferBytesOnMessageInDisk",
    "maxTransferBytesOnMessageInMemory",
    "maxTransferCountOnMessageInDisk",
    "maxTransferCountOnMessageInMemory",
    "notifyConsumerIdsChangedEnable",
    "recallMessageEnable",
    "registerBrokerTimeoutMills",
    "registerNameServerPeriod",
    "rejectTransactionMessage",
    "shortPollingTimeMills",
    "slaveReadEnable",
    "startAcceptSendRequestTimeStamp",
    "storeReplyMessageEnable",
    "timerMaxDelaySec",
    "transactionCheckInterval",
    "transactionCheckMax",
    "transactionTimeOut",
    "waitTimeMillsInSendQueue",
};

/* A change on its way: from the asker's loop to the background loop, and its answer back. */
struct change {
    struct rq_task task;
    struct rmq_broker *broker;
    struct rq_conn *conn; /* a reference */
    struct rq_reply_to to;
    char *text; /* "key\0value\0key\0value\0" */
    size_t text_n;
    struct rq_mutex lock; /* rank: connection; guards all below */
    struct rq_cond moved;
    int standing; /* loops that wait */
    bool over;
};

struct stop {
    struct rq_task task;
    struct change *change;
};

/* ---- 26 ---- */

static void add_settings(const struct rq_table *options, const void *object, struct rq_buf *out)
{
    for (size_t i = 0; i < options->count; i++) {
        rq_buf_add_str(out, options->options[i].name);
        rq_buf_add_char(out, '=');
        rq_table_value_text(&options->options[i], object, out);
        rq_buf_add_char(out, '\n');
    }
}

void rq_process_get_config(const struct rq_request *request)
{
    const struct rq_broker_settings *settings = &request->broker->settings;
    struct rq_data_version version = {.timestamp_ms = request->broker->boot_ms};
    struct rq_buf text, body;
    rq_buf_init(&text, 0);
    rq_buf_init(&body, 0);
    rq_data_version_write(&version, &text);
    add_settings(&rq_broker_options_table, &settings->broker, &body);
    add_settings(&rq_store_table, &settings->store, &body);
    struct rq_hdr_broker_config_response fields = {.version = rq_slice(text.data, text.len)};
    rq_answer_body(request->conn, &request->to, &rq_tab_broker_config_response, &fields, &body);
    rq_buf_free(&text);
}

/* ---- 25: standing still ---- */

static void stand(struct rq_task *task)
{
    struct stop *stop = RQ_CONTAINER_OF(task, struct stop, task);
    struct change *change = stop->change;
    rq_free(stop);
    rq_mutex_lock(&change->lock);
    change->standing++;
    rq_cond_broadcast(&change->moved);
    while (!change->over) {
        rq_cond_wait(&change->moved, &change->lock);
    }
    change->standing--;
    rq_cond_broadcast(&change->moved);
    rq_mutex_unlock(&change->lock);
}

/* All serving loops stand when it returns RMQ_OK; let_go follows in any case. */
static rmq_status stop_loops(struct change *change)
{
    struct rmq_broker *broker = change->broker;
    int asked = 0;
    for (int i = 0; i < broker->loop_count; i++) {
        struct stop *stop = rq_calloc(1, sizeof *stop);
        if (!stop) {
            break;
        }
        *stop = (struct stop){.task.run = stand, .change = change};
        if (!rq_loop_post(broker->loops[i].loop, &stop->task)) {
            rq_free(stop);
            break;
        }
        asked++;
    }
    rq_mutex_lock(&change->lock);
    while (change->standing < asked) {
        rq_cond_wait(&change->moved, &change->lock);
    }
    rq_mutex_unlock(&change->lock);
    return asked == broker->loop_count ? RMQ_OK : RMQ_ERR_NOMEM;
}

static void let_go(struct change *change)
{
    rq_mutex_lock(&change->lock);
    change->over = true;
    rq_cond_broadcast(&change->moved);
    while (change->standing > 0) {
        rq_cond_wait(&change->moved, &change->lock);
    }
    rq_mutex_unlock(&change->lock);
}

static rmq_status apply(struct change *change, rmq_error **err)
{
    struct rmq_broker *broker = change->broker;
    for (size_t at = 0; at < change->text_n;) {
        const char *key = change->text + at;
        const char *value = key + strlen(key) + 1;
        bool implemented = false;
        rmq_status st = rq_broker_settings_set(&broker->settings, key, value, &implemented, err);
        if (st) {
            return st;
        }
        RQ_LOG(INFO, "a setting was changed by request", "%s=%s", key, value);
        at += strlen(key) + strlen(value) + 2;
    }
    rq_store_change(broker->store, &broker->settings.store);
    return RMQ_OK;
}

/* As in Java, a change that cannot be written is one all the same. */
static void keep(const struct change *change)
{
    const char *path = change->broker->settings.broker.broker_config_path;
    rmq_error *err = NULL;
    if (path && *path && rq_propfile_change(path, rq_slice(change->text, change->text_n), &err)) {
        RQ_LOG(ERROR, "changed settings could not be written", "file=%s detail=%s", path,
               rmq_error_message(err));
        rmq_error_destroy(err);
    }
}

static void free_change(struct change *change)
{
    rq_conn_release(change->conn);
    rq_cond_destroy(&change->moved);
    rq_mutex_destroy(&change->lock);
    rq_free(change->text);
    rq_free(change);
}

/* What follows from a change: the settings were other ones before. Background loop. */
static void make_known(struct rmq_broker *broker, int32_t permission, bool auto_create_topic)
{
    const struct rq_broker_options *now = &broker->settings.broker;
    rmq_error *err = NULL;
    rq_mutex_lock(&broker->groups.lock);
    broker->groups.auto_create = now->auto_create_subscription_group;
    rq_mutex_unlock(&broker->groups.lock);
    bool template_wanted = now->auto_create_topic_enable && !auto_create_topic;
    if (template_wanted && rq_system_topics(broker, &err)) {
        RQ_LOG(ERROR, "the template of topics could not be made", "%s", rmq_error_message(err));
        rmq_error_destroy(err);
    }
    if (template_wanted || now->broker_permission != permission) {
        rq_topics_touch(&broker->topics);
        rq_broker_topics_changed(broker);
    }
}

static void run(struct rq_task *task)
{
    struct change *change = RQ_CONTAINER_OF(task, struct change, task);
    rmq_error *err = NULL;
    int32_t permission = change->broker->settings.broker.broker_permission;
    bool auto_create_topic = change->broker->settings.broker.auto_create_topic_enable;
    rmq_status st = stop_loops(change);
    if (!st) {
        st = apply(change, &err);
    }
    let_go(change);
    if (!st) {
        keep(change);
    }
    make_known(change->broker, permission, auto_create_topic);
    rq_answer_code(change->conn, &change->to, st ? RQ_RESP_SYSTEM_ERROR : RQ_RESP_SUCCESS,
                   err  ? rmq_error_message(err)
                   : st ? rmq_status_text(st)
                        : NULL);
    rmq_error_destroy(err);
    free_change(change);
}

/* ---- 25: what is asked ---- */

static bool is_changeable(const char *name)
{
    for (size_t i = 0; i < sizeof changeable / sizeof changeable[0]; i++) {
        if (strcmp(changeable[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Not a setting: done at once, whatever becomes of the other pairs. */
static int32_t misbehave(struct rmq_broker *broker, const char *text, rmq_error **err)
{
    if (!broker->settings.broker.fault_injection_enable) {
        (void)rq_error_set(err, RMQ_ERR_INVALID, "faultInjectionEnable is false");
        return RQ_RESP_NO_PERMISSION;
    }
    return rq_fault_run_text(broker, text, err) ? RQ_RESP_SYSTEM_ERROR : RQ_RESP_SUCCESS;
}

/* Checks one pair on a copy of the settings and notes it. Properties that nobody knows, or that are
 * not implemented here, are passed over as the Java broker passes over those it does not know. */
static int32_t note(struct rmq_broker *broker, struct rq_broker_settings *copy, const char *key,
                    const char *value, struct rq_buf *text, rmq_error **err)
{
    void *object = NULL;
    bool implemented = false;
    if (rq_slice_is_listed(rq_slice_str(key), broker->settings.broker.config_black_list) ||
        strcmp(key, "configBlackList") == 0) {
        (void)rq_error_set(err, RMQ_ERR_INVALID, "Can not update config in black list.");
        return RQ_RESP_NO_PERMISSION;
    }
    if (strcmp(key, "fault") == 0) {
        return misbehave(broker, value, err);
    }
    if (!rq_broker_settings_find(copy, key, &object) && !rq_broker_property_guards(key, value)) {
        return RQ_RESP_SUCCESS;
    }
    if (rq_broker_settings_set(copy, key, value, &implemented, err)) {
        return RQ_RESP_SYSTEM_ERROR;
    }
    if (!is_changeable(key)) {
        (void)rq_error_set(err, RMQ_ERR_INVALID,
                           "%s is read at start: change the broker's file and restart it", key);
        return RQ_RESP_SYSTEM_ERROR;
    }
    rq_buf_add(text, key, strlen(key) + 1);
    rq_buf_add(text, value, strlen(value) + 1);
    return RQ_RESP_SUCCESS;
}

static int32_t note_lines(const struct rq_request *request, struct rq_buf *text, rmq_error **err)
{
    struct rq_broker_settings copy;
    struct rq_propfile lines;
    int32_t code = RQ_RESP_SUCCESS;
    if (rq_broker_settings_copy(&copy, &request->broker->settings)) {
        return RQ_RESP_SYSTEM_ERROR;
    }
    rq_propfile_init(&lines, request->in->body);
    while (code == RQ_RESP_SUCCESS && rq_propfile_next(&lines)) {
        code = note(request->broker, &copy, rq_buf_cstr(&lines.key), rq_buf_cstr(&lines.value),
                    text, err);
    }
    if (code == RQ_RESP_SUCCESS && rq_propfile_status(&lines)) {
        code = RQ_RESP_SYSTEM_ERROR;
    }
    if (code == RQ_RESP_SUCCESS && rq_store_check_hours(copy.store.delete_when, err)) {
        code = RQ_RESP_SYSTEM_ERROR;
    }
    rq_propfile_free(&lines);
    rq_broker_settings_free(&copy);
    return code;
}

/* Hands the pairs to the background loop. */
static bool start_change(const struct rq_request *request, struct rq_buf *text)
{
    struct change *change = rq_calloc(1, sizeof *change);
    if (!change || rq_buf_status(text)) {
        rq_free(change);
        return false;
    }
    change->task.run = run;
    change->broker = request->broker;
    change->conn = rq_conn_retain(request->conn);
    change->to = request->to;
    change->text_n = text->len;
    change->text = rq_buf_detach(text);
    rq_mutex_init(&change->lock);
    rq_cond_init(&change->moved);
    if (!change->text || !rq_loop_post(request->broker->background, &change->task)) {
        free_change(change);
        return false;
    }
    return true;
}

void rq_process_update_config(const struct rq_request *request)
{
    struct rq_buf text;
    rmq_error *err = NULL;
    rq_buf_init(&text, 0);
    int32_t code = note_lines(request, &text, &err);
    if (code != RQ_RESP_SUCCESS || text.len == 0) {
        rq_request_answer(request, code,
                          err    ? rmq_error_message(err)
                          : code ? "out of memory"
                                 : NULL);
    } else if (!start_change(request, &text)) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, "out of memory");
    }
    rmq_error_destroy(err);
    rq_buf_free(&text);
}
