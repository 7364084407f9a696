/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Messages from lines of JSON. See json_line.h.
 */
#include "tools/json_line.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/text.h"

/* One line on its way into a message. */
struct line {
    rmq_message *message;
    const cJSON *object;
    char *problem; /* TOOL_PROBLEM_MAX */
};

RMQ_PRINTF(2, 3)
static bool wrong(const struct line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(line->problem, TOOL_PROBLEM_MAX, format, args);
    va_end(args);
    return false;
}

/* Whether a setter of the message took the value of a member. */
static bool taken(const struct line *line, rmq_status st, const char *member, const char *reason)
{
    return st == RMQ_OK ||
           wrong(line, "\"%s\": %s", member, st == RMQ_ERR_INVALID ? reason : rmq_status_text(st));
}

/* NULL in *text when the object has no such member, or null; false when it is no string. */
static bool read_text(const struct line *line, const char *name, const char **text)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line->object, name);
    *text = cJSON_GetStringValue(item);
    return item == NULL || *text != NULL || cJSON_IsNull(item) ||
           wrong(line, "\"%s\" is not a string", name);
}

static bool set_body(const struct line *line)
{
    const char *text = NULL;
    const char *base64 = NULL;
    if (!read_text(line, "body", &text) || !read_text(line, "bodyBase64", &base64)) {
        return false;
    }
    if (text != NULL && base64 != NULL) {
        return wrong(line, "both \"body\" and \"bodyBase64\"");
    }
    if (text != NULL && *text != '\0') {
        return taken(line, rmq_message_copy_body(line->message, text, strlen(text)), "body", "");
    }
    if (base64 == NULL || *base64 == '\0') {
        return wrong(line, "no \"body\", or an empty one");
    }
    size_t size = 0;
    unsigned char *data = tool_base64_decode(base64, &size);
    if (data == NULL) {
        return wrong(line, "\"bodyBase64\" is not base64");
    }
    rmq_status st = rmq_message_copy_body(line->message, data, size);
    free(data);
    return taken(line, st, "bodyBase64", "");
}

rmq_status tool_add_keys(rmq_message *message, const char *keys)
{
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && *keys != '\0') {
        size_t n = strcspn(keys, " ");
        char *key = strndup(keys, n);
        if (key == NULL) {
            return RMQ_ERR_NOMEM;
        }
        if (n > 0) {
            st = rmq_message_add_key(message, key);
        }
        free(key);
        keys += n + strspn(keys + n, " ");
    }
    return st;
}

static bool set_keys(const struct line *line)
{
    static const char *const reason = "a key is empty, or has a blank or a byte 1 or 2 in it";
    const cJSON *keys = cJSON_GetObjectItemCaseSensitive(line->object, "keys");
    const cJSON *key = NULL;
    if (keys == NULL || cJSON_IsNull(keys)) {
        return true;
    }
    if (cJSON_IsString(keys)) {
        return taken(line, tool_add_keys(line->message, keys->valuestring), "keys", reason);
    }
    if (!cJSON_IsArray(keys)) {
        return wrong(line, "\"keys\" is neither a string nor a list of strings");
    }
    cJSON_ArrayForEach(key, keys)
    {
        if (!cJSON_IsString(key)) {
            return wrong(line, "\"keys\" has a member that is not a string");
        }
        if (!taken(line, rmq_message_add_key(line->message, key->valuestring), "keys", reason)) {
            return false;
        }
    }
    return true;
}

static bool set_properties(const struct line *line)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(line->object, "properties");
    const cJSON *property = NULL;
    if (properties != NULL && !cJSON_IsNull(properties) && !cJSON_IsObject(properties)) {
        return wrong(line, "\"properties\" is not an object");
    }
    cJSON_ArrayForEach(property, properties)
    {
        if (!cJSON_IsString(property)) {
            return wrong(line, "property \"%.80s\" is not a string", property->string);
        }
        rmq_status st =
            rmq_message_set_property(line->message, property->string, property->valuestring);
        if (st != RMQ_OK) {
            return wrong(line, "property \"%.80s\": %s", property->string,
                         st != RMQ_ERR_INVALID
                             ? rmq_status_text(st)
                             : "a reserved name, or empty, or a byte 1 or 2 in it");
        }
    }
    return true;
}

static bool set_tag_and_group(const struct line *line)
{
    static const char *const reason = "a byte 1 or 2 in it";
    const char *tag = NULL;
    const char *group = NULL;
    if (!read_text(line, "tag", &tag) || !read_text(line, "messageGroup", &group)) {
        return false;
    }
    return (tag == NULL || taken(line, rmq_message_set_tag(line->message, tag), "tag", reason)) &&
           (group == NULL || taken(line, rmq_message_set_message_group(line->message, group),
                                   "messageGroup", reason));
}

static bool set_delay(const struct line *line)
{
    const cJSON *level = cJSON_GetObjectItemCaseSensitive(line->object, "delayLevel");
    if (level == NULL || cJSON_IsNull(level)) {
        return true;
    }
    if (!cJSON_IsNumber(level) || level->valuedouble != level->valueint) {
        return wrong(line, "\"delayLevel\" is not a whole number");
    }
    return taken(line, rmq_message_set_delay_level(line->message, level->valueint), "delayLevel",
                 "not 0 … 18");
}

/* One that was mistyped would be missing from the message, unseen. */
static bool knows_members(const struct line *line)
{
    static const char *const known[] = {"body",       "bodyBase64", "tag",         "keys",
                                        "properties", "delayLevel", "messageGroup"};
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, line->object)
    {
        size_t i = 0;
        while (i < sizeof known / sizeof known[0] && strcmp(known[i], item->string) != 0) {
            i++;
        }
        if (i == sizeof known / sizeof known[0]) {
            return wrong(line,
                         "unknown member \"%.60s\": there are body, bodyBase64, tag, keys, "
                         "properties, delayLevel, messageGroup",
                         item->string);
        }
    }
    return true;
}

/* A NUL would end a text too early, unseen. */
static bool has_nul(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool escape = line[i] == '\\' && i + 1 < length;
        if (line[i] == '\0' || (escape && length - i >= 6 && memcmp(line + i, "\\u0000", 6) == 0)) {
            return true;
        }
        i += escape; /* the next one is part of the escape */
    }
    return false;
}

static cJSON *parse(const struct line *line, const char *text, size_t length)
{
    const char *end = NULL;
    if (has_nul(text, length)) {
        (void)wrong(line, "a NUL in it: such bodies go as \"bodyBase64\"");
        return NULL;
    }
    cJSON *object = cJSON_ParseWithLengthOpts(text, length, &end, false);
    if (end == NULL) {
        end = text; /* no memory */
    }
    size_t at = (size_t)(end - text);
    if (object != NULL) {
        at += strspn(end, " \t\r\n");
    }
    if (object == NULL || at < length) {
        (void)wrong(line, "not JSON from byte %zu on", at + 1);
        cJSON_Delete(object);
        return NULL;
    }
    if (!cJSON_IsObject(object)) {
        (void)wrong(line, "not a JSON object");
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

bool tool_json_line(rmq_message *message, const char *text, size_t length,
                    char problem[TOOL_PROBLEM_MAX])
{
    struct line line = {.message = message, .problem = problem};
    cJSON *object = parse(&line, text, length);
    line.object = object;
    bool good = object != NULL && knows_members(&line) && set_tag_and_group(&line) &&
                set_keys(&line) && set_properties(&line) && set_delay(&line) && set_body(&line);
    cJSON_Delete(object);
    return good;
}
