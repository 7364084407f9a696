/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Messages from the command line, from lines and from JSON lines. See input.h.
 */
#include "tools/input.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/text.h"

#define FILE_MOST ((size_t)64 << 20) /* far above what a broker takes, far below what a machine has */

void *tool_read_file(const char *path, size_t *size)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (file == NULL) {
        tool_wrong("%s: %s", path, strerror(errno));
        return NULL;
    }
    struct tool_text text = {0};
    char part[65536];
    size_t n = 0;
    while (text.size <= FILE_MOST && (n = fread(part, 1, sizeof part, file)) > 0) {
        tool_text_add(&text, part, n);
    }
    tool_text_add(&text, "", 0);
    bool large = text.size > FILE_MOST;
    bool good = !large && ferror(file) == 0;
    if (file != stdin) {
        fclose(file);
    }
    if (!good) {
        tool_wrong(large ? "%s: more than 64 MiB" : "%s: cannot be read", path);
        tool_text_free(&text);
        return NULL;
    }
    *size = text.size;
    return text.data;
}

/* Keys are separated by blanks, as the property holds them. */
static rmq_status add_keys(rmq_message *message, const char *keys)
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

static rmq_status set_property(rmq_message *message, const char *pair)
{
    const char *equals = strchr(pair, '=');
    if (equals == NULL) {
        return RMQ_ERR_INVALID;
    }
    char *name = strndup(pair, (size_t)(equals - pair));
    rmq_status st = name != NULL ? rmq_message_set_property(message, name, equals + 1) : RMQ_ERR_NOMEM;
    free(name);
    return st;
}

/* A message with what the command line says. */
static rmq_message *start_message(const struct tool_input *input)
{
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    rmq_status st = rmq_message_create(input->topic, &message, &err);
    if (st != RMQ_OK) {
        tool_fail("topic", st, err);
        return NULL;
    }
    if (input->tag != NULL) {
        st = rmq_message_set_tag(message, input->tag);
    }
    if (st == RMQ_OK && input->key != NULL) {
        st = add_keys(message, input->key);
    }
    if (st != RMQ_OK) {
        tool_wrong("--tag or --key: %s", rmq_status_text(st));
    }
    for (size_t i = 0; st == RMQ_OK && i < input->properties->count; i++) {
        st = set_property(message, input->properties->items[i]);
        if (st != RMQ_OK) {
            tool_wrong("--property '%s': %s", input->properties->items[i],
                       st != RMQ_ERR_INVALID
                           ? rmq_status_text(st)
                           : "not name=value, or a reserved name, or a byte 1 or 2 in it");
        }
    }
    if (st == RMQ_OK && input->delay_level > 0) {
        st = rmq_message_set_delay_level(message, (int)input->delay_level);
    }
    if (st == RMQ_OK && input->delay_ms > 0) {
        st = rmq_message_set_delay_time_ms(message, input->delay_ms);
    }
    if (st == RMQ_OK && input->deliver_at_ms > 0) {
        st = rmq_message_set_deliver_time_ms(message, input->deliver_at_ms);
    }
    if (st != RMQ_OK) {
        rmq_message_destroy(message);
        return NULL;
    }
    return message;
}

bool tool_input_check(const struct tool_input *input)
{
    rmq_message *message = start_message(input);
    rmq_message_destroy(message);
    return message != NULL;
}

static const char *json_text(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static rmq_status set_json_body(rmq_message *message, const cJSON *object)
{
    const char *text = json_text(object, "body");
    const char *base64 = json_text(object, "bodyBase64");
    if (base64 == NULL) {
        return rmq_message_copy_body(message, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
    }
    size_t size = 0;
    unsigned char *data = tool_base64_decode(base64, &size);
    rmq_status st = data != NULL ? rmq_message_copy_body(message, data, size) : RMQ_ERR_INVALID;
    free(data);
    return st;
}

static rmq_status set_json_keys(rmq_message *message, const cJSON *keys)
{
    const cJSON *key = NULL;
    rmq_status st = RMQ_OK;
    if (cJSON_IsString(keys)) {
        return add_keys(message, keys->valuestring);
    }
    cJSON_ArrayForEach(key, keys)
    {
        if (st == RMQ_OK) {
            st = cJSON_IsString(key) ? rmq_message_add_key(message, key->valuestring) : RMQ_ERR_INVALID;
        }
    }
    return st;
}

static rmq_status fill_from_json(rmq_message *message, const cJSON *object)
{
    const char *tag = json_text(object, "tag");
    const cJSON *level = cJSON_GetObjectItemCaseSensitive(object, "delayLevel");
    const cJSON *property = NULL;
    rmq_status st = tag != NULL ? rmq_message_set_tag(message, tag) : RMQ_OK;
    if (st == RMQ_OK) {
        st = set_json_keys(message, cJSON_GetObjectItemCaseSensitive(object, "keys"));
    }
    const char *group = json_text(object, "messageGroup");
    if (st == RMQ_OK && group != NULL) {
        st = rmq_message_set_message_group(message, group);
    }
    cJSON_ArrayForEach(property, cJSON_GetObjectItemCaseSensitive(object, "properties"))
    {
        if (st == RMQ_OK) {
            st = cJSON_IsString(property)
                     ? rmq_message_set_property(message, property->string, property->valuestring)
                     : RMQ_ERR_INVALID;
        }
    }
    if (st == RMQ_OK && cJSON_IsNumber(level)) {
        st = rmq_message_set_delay_level(message, level->valueint);
    }
    return st == RMQ_OK ? set_json_body(message, object) : st;
}

static rmq_status fill_message(struct tool_input *input, rmq_message *message, size_t length)
{
    if (input->kind == TOOL_INPUT_BODY) {
        return rmq_message_borrow_body(message, input->body, input->body_size);
    }
    if (input->kind == TOOL_INPUT_LINES) {
        return rmq_message_copy_body(message, input->line, length);
    }
    cJSON *object = cJSON_ParseWithLength(input->line, length);
    rmq_status st = cJSON_IsObject(object) ? fill_from_json(message, object) : RMQ_ERR_INVALID;
    cJSON_Delete(object);
    return st;
}

/* Next line without its end into input->line; false at the end of the input. */
static bool read_line(struct tool_input *input, size_t *length)
{
    ssize_t n = getline(&input->line, &input->line_room, stdin);
    if (n < 0) {
        return false;
    }
    input->line_number++;
    *length = (size_t)n;
    if (n > 0 && input->line[n - 1] == '\n') {
        input->line[--*length] = '\0';
    }
    return true;
}

rmq_message *tool_input_next(struct tool_input *input, bool *bad)
{
    size_t length = 0;
    *bad = false;
    if (input->left == 0) {
        return NULL;
    }
    if (input->kind != TOOL_INPUT_BODY && !read_line(input, &length)) {
        return NULL;
    }
    if (input->left > 0) {
        input->left--;
    }
    rmq_message *message = start_message(input);
    rmq_status st = message != NULL ? fill_message(input, message, length) : RMQ_ERR_INVALID;
    if (st == RMQ_OK) {
        return message;
    }
    if (message != NULL) {
        tool_wrong("line %lld is not a message: %s", (long long)input->line_number, rmq_status_text(st));
    }
    rmq_message_destroy(message);
    *bad = true;
    return NULL;
}

void tool_input_free(struct tool_input *input)
{
    free(input->line);
    input->line = NULL;
}
