/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Frame layout for test tools. */
#include "lib/frame.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t be32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return ntohl(v);
}

long tl_frame_size(const char *p, size_t n)
{
    if (n < 8) {
        return 0;
    }
    uint32_t length = be32(p);
    if (length < 4 || length > 64u << 20) {
        return -1;
    }
    return n < (size_t)length + 4 ? 0 : (long)length + 4;
}

/* Number behind "name": at the outermost level of a JSON header; our own and Java's headers have no
 * such name deeper. */
static bool json_number(const char *p, size_t n, const char *name, long *out)
{
    char key[40];
    int len = snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = memmem(p, n, key, (size_t)len);
    if (!at) {
        return false;
    }
    char text[32];
    size_t left = (size_t)(p + n - (at + len));
    size_t take = left < sizeof text - 1 ? left : sizeof text - 1;
    memcpy(text, at + len, take);
    text[take] = '\0';
    *out = strtol(text, NULL, 10);
    return true;
}

bool tl_frame_header(const char *p, size_t n, struct tl_header *out)
{
    uint32_t word = be32(p + 4);
    size_t size = word & 0xFFFFFF;
    if (size > n - 8) {
        return false;
    }
    if (word >> 24 == 1) {
        if (size < 21) {
            return false;
        }
        out->code = (int16_t)((unsigned char)p[8] << 8 | (unsigned char)p[9]);
        out->opaque = (int32_t)be32(p + 13);
        out->flag = (int)be32(p + 17);
        return true;
    }
    long code = 0;
    long opaque = 0;
    long flag = 0;
    bool good =
        json_number(p + 8, size, "code", &code) && json_number(p + 8, size, "opaque", &opaque);
    json_number(p + 8, size, "flag", &flag);
    *out = (struct tl_header){(int)code, (int32_t)opaque, (int)flag};
    return good;
}

void tl_frame_ext(const char *p, size_t n, const char *name, char *out, size_t room)
{
    char key[64];
    size_t size = be32(p + 4) & 0xFFFFFF;
    out[0] = '\0';
    int len = snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = size <= n - 8 ? memmem(p + 8, size, key, (size_t)len) : NULL;
    if (!at) {
        return;
    }
    at += len;
    size_t i = 0;
    for (; at + i < p + 8 + size && at[i] != '"' && i + 1 < room; i++) {
        out[i] = at[i];
    }
    out[i] = '\0';
}

char *tl_frame_make(const struct tl_header *header, const char *remark, const char *ext,
                    const void *body, size_t body_len, size_t *n)
{
    char *text = NULL;
    int len = asprintf(&text,
                       "{\"code\":%d,\"extFields\":%s,\"flag\":%d,\"language\":\"JAVA\",\"opaque\":"
                       "%d%s%s%s,\"version\":479}",
                       header->code, ext ? ext : "{}", header->flag, header->opaque,
                       remark ? ",\"remark\":\"" : "", remark ? remark : "", remark ? "\"" : "");
    *n = 8 + (size_t)len + body_len;
    char *frame = malloc(*n);
    uint32_t total = htonl((uint32_t)*n - 4);
    uint32_t word = htonl((uint32_t)len);
    memcpy(frame, &total, 4);
    memcpy(frame + 4, &word, 4);
    memcpy(frame + 8, text, (size_t)len);
    if (body_len) {
        memcpy(frame + 8 + len, body, body_len);
    }
    free(text);
    return frame;
}
