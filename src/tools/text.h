/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A growing text, for one line of output that is then written at once, and the writing of JSON,
 * base64 and SHA-1 into it. Belongs to one thread; tool_text_flush may be called by several threads
 * for the same stream. Out of memory ends the command.
 */
#ifndef RQ_TOOLS_TEXT_H
#define RQ_TOOLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rmq/export.h>

struct tool_text {
    char *data;
    size_t size;
    size_t room;
};

void tool_text_add(struct tool_text *text, const void *data, size_t size);
void tool_text_puts(struct tool_text *text, const char *words);
void tool_text_format(struct tool_text *text, const char *format, ...) RMQ_PRINTF(2, 3);

/* Writes the text and a newline to the stream in one call, flushes, and empties the text. false
 * when it could not be written. */
bool tool_text_flush(struct tool_text *text, FILE *out);
void tool_text_free(struct tool_text *text);

/* Members of a JSON object: tool_json_open, then any of the others, then tool_json_close. A name is
 * written as it is. */
void tool_json_open(struct tool_text *text);
void tool_json_close(struct tool_text *text);
void tool_json_text(struct tool_text *text, const char *name, const char *value);
void tool_json_bytes(struct tool_text *text, const char *name, const char *value, size_t size);
void tool_json_number(struct tool_text *text, const char *name, int64_t value);
void tool_json_real(struct tool_text *text, const char *name, double value, int decimals);
void tool_json_raw(struct tool_text *text, const char *name, const char *json);
void tool_json_base64(struct tool_text *text, const char *name, const void *data, size_t size);
void tool_json_sha1(struct tool_text *text, const char *name, const void *data, size_t size);

/* A string alone, with quotes and escapes. */
void tool_json_string(struct tool_text *text, const char *value, size_t size);

bool tool_is_utf8(const void *data, size_t size);

/* Bytes of a base64 text, to be freed with free; NULL when it is not base64. */
unsigned char *tool_base64_decode(const char *text, size_t *size);

#endif
