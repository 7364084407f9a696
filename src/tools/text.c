/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Lines of output: growing text, JSON, base64, SHA-1. See text.h.
 */
#include "tools/text.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void make_room(struct tool_text *text, size_t more)
{
    if (text->room - text->size > more) {
        return;
    }
    size_t room = text->room + more + 256 + text->room / 2;
    char *data = realloc(text->data, room);
    if (data == NULL) {
        fputs("rmq: out of memory\n", stderr);
        exit(1);
    }
    text->data = data;
    text->room = room;
}

void tool_text_add(struct tool_text *text, const void *data, size_t size)
{
    make_room(text, size);
    if (size > 0) {
        memcpy(text->data + text->size, data, size);
    }
    text->size += size;
    text->data[text->size] = '\0';
}

void tool_text_puts(struct tool_text *text, const char *words)
{
    tool_text_add(text, words, strlen(words));
}

void tool_text_format(struct tool_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        return;
    }
    make_room(text, (size_t)n);
    va_start(args, format);
    vsnprintf(text->data + text->size, (size_t)n + 1, format, args);
    va_end(args);
    text->size += (size_t)n;
}

bool tool_text_flush(struct tool_text *text, FILE *out)
{
    tool_text_add(text, "\n", 1);
    flockfile(out);
    bool good = fwrite(text->data, 1, text->size, out) == text->size && fflush(out) == 0;
    funlockfile(out);
    text->size = 0;
    return good;
}

void tool_text_free(struct tool_text *text)
{
    free(text->data);
    *text = (struct tool_text){0};
}

void tool_json_open(struct tool_text *text)
{
    tool_text_puts(text, "{");
}

void tool_json_close(struct tool_text *text)
{
    tool_text_puts(text, "}");
}

static void begin_member(struct tool_text *text, const char *name)
{
    bool first = text->size > 0 && text->data[text->size - 1] == '{';
    tool_text_format(text, "%s\"%s\":", first ? "" : ",", name);
}

void tool_json_string(struct tool_text *text, const char *value, size_t size)
{
    tool_text_puts(text, "\"");
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)value[i];
        if (c == '"' || c == '\\') {
            tool_text_format(text, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            tool_text_format(text, "\\u%04x", c);
        } else {
            tool_text_add(text, &value[i], 1);
        }
    }
    tool_text_puts(text, "\"");
}

void tool_json_bytes(struct tool_text *text, const char *name, const char *value, size_t size)
{
    begin_member(text, name);
    tool_json_string(text, value, size);
}

void tool_json_text(struct tool_text *text, const char *name, const char *value)
{
    tool_json_bytes(text, name, value, strlen(value));
}

void tool_json_number(struct tool_text *text, const char *name, int64_t value)
{
    begin_member(text, name);
    tool_text_format(text, "%lld", (long long)value);
}

void tool_json_real(struct tool_text *text, const char *name, double value, int decimals)
{
    begin_member(text, name);
    tool_text_format(text, "%.*f", decimals, value);
}

void tool_json_raw(struct tool_text *text, const char *name, const char *json)
{
    begin_member(text, name);
    tool_text_puts(text, json);
}

void tool_json_base64(struct tool_text *text, const char *name, const void *data, size_t size)
{
    const unsigned char *from = data;
    begin_member(text, name);
    tool_text_puts(text, "\"");
    for (size_t i = 0; i < size; i += 48) {
        unsigned char part[72];
        int n = EVP_EncodeBlock(part, from + i, (int)(size - i < 48 ? size - i : 48));
        tool_text_add(text, part, (size_t)n);
    }
    tool_text_puts(text, "\"");
}

void tool_json_sha1(struct tool_text *text, const char *name, const void *data, size_t size)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    EVP_Digest(data, size, digest, &n, EVP_sha1(), NULL);
    begin_member(text, name);
    tool_text_puts(text, "\"");
    for (unsigned int i = 0; i < n; i++) {
        tool_text_format(text, "%02x", digest[i]);
    }
    tool_text_puts(text, "\"");
}

/* Length of the sequence that a byte begins, and the bits of it that count; 0 for a byte that
 * begins none. */
static size_t sequence_length(unsigned char c, uint32_t *bits)
{
    if (c < 0x80) {
        *bits = c;
        return 1;
    }
    if (c >= 0xc2 && c <= 0xdf) {
        *bits = c & 0x1fU;
        return 2;
    }
    if (c >= 0xe0 && c <= 0xef) {
        *bits = c & 0x0fU;
        return 3;
    }
    *bits = c & 0x07U;
    return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

bool tool_is_utf8(const void *data, size_t size)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = data;
    for (size_t i = 0; i < size;) {
        uint32_t point = 0;
        size_t n = sequence_length(p[i], &point);
        if (n == 0 || n > size - i) {
            return false;
        }
        for (size_t k = 1; k < n; k++) {
            if ((p[i + k] & 0xc0U) != 0x80) {
                return false;
            }
            point = point << 6 | (p[i + k] & 0x3fU);
        }
        if (point < least[n] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
            return false;
        }
        i += n;
    }
    return true;
}

unsigned char *tool_base64_decode(const char *text, size_t *size)
{
    size_t length = strlen(text);
    if (length % 4 != 0 || length > 64U << 20) {
        return NULL;
    }
    unsigned char *out = malloc(length / 4 * 3 + 1);
    if (out == NULL) {
        return NULL;
    }
    int n = EVP_DecodeBlock(out, (const unsigned char *)text, (int)length);
    if (n < 0) {
        free(out);
        return NULL;
    }
    size_t padding =
        length == 0 ? 0 : (size_t)(text[length - 1] == '=') + (text[length - 2] == '=');
    *size = (size_t)n - padding;
    return out;
}
