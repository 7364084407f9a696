/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* See bad_frames.h. */
#include "lib/bad_frames.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define INSIDE   (TL_BAD_FRAME - 4)
#define HEADER   (TL_BAD_FRAME - 8)
#define SERIALS  2   /* kinds of header that there are */
#define OF_KINDS 256 /* values of their byte */

static void put32(unsigned char *p, uint32_t value)
{
    value = htonl(value);
    memcpy(p, &value, 4);
}

static const uint32_t lengths[] = {0,           1,           3,           0xffffffffU,
                                   0x80000000U, 0x7fffffffU, 0x40000000U, 0x01100000U};

static const struct {
    const char *what;
    uint32_t header; /* kind and length */
    unsigned char fill;
} headers[] = {
    {"header longer than the frame", HEADER + 1, 'x'},
    {"header of 16 MiB", 0x00ffffff, 'x'},
    {"a header that is not JSON", HEADER, 'x'},
    {"binary header with lengths of 4 GiB", 1U << 24 | HEADER, 0xff},
};

#define LENGTHS (int)(sizeof lengths / sizeof lengths[0])
#define HEADERS (int)(sizeof headers / sizeof headers[0])

bool tl_bad_frame(int number, unsigned char frame[TL_BAD_FRAME], char what[64])
{
    int header = number - LENGTHS;
    int kind = SERIALS + header - HEADERS;
    if (header < 0) {
        memset(frame, 0, TL_BAD_FRAME);
        put32(frame, lengths[number]);
        (void)snprintf(what, 64, "length %x", lengths[number]);
    } else if (header < HEADERS) {
        memset(frame, headers[header].fill, TL_BAD_FRAME);
        put32(frame, INSIDE);
        put32(frame + 4, headers[header].header);
        (void)snprintf(what, 64, "%s", headers[header].what);
    } else {
        memset(frame, 'x', TL_BAD_FRAME);
        put32(frame, INSIDE);
        put32(frame + 4, (uint32_t)kind << 24 | HEADER);
        (void)snprintf(what, 64, "kind %d of header", kind);
    }
    return kind < OF_KINDS;
}
