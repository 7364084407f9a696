/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The header of a frame, in either serialization, scanned in place into slices of the frame:
 * nothing is allocated. JSON escapes are resolved inside the frame's own memory, which must
 * therefore be writable and must outlive the header. Peers leave members out or write unknown ones:
 * language, version, flag, remark and extFields may each be missing. Pure functions, any thread.
 * Counterparts: RemotingCommand, RocketMQSerializable, RemotingSerializable.
 */
#ifndef RQ_WIRE_HEADER_H
#define RQ_WIRE_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/slice.h"

/* Form of a header; the value is the frame's fifth byte. Each frame tells its own: an answer may
 * come in the other form. */
enum rq_serialize { RQ_SERIALIZE_JSON = 0, RQ_SERIALIZE_BINARY = 1 };

/* Languages that a sender may name. RQ_LANGUAGE_UNKNOWN is only read, never written. */
enum rq_language {
    RQ_LANGUAGE_UNKNOWN = -1,
    RQ_LANGUAGE_JAVA = 0,
    RQ_LANGUAGE_CPP = 1,
    RQ_LANGUAGE_DOTNET = 2,
    RQ_LANGUAGE_PYTHON = 3,
    RQ_LANGUAGE_DELPHI = 4,
    RQ_LANGUAGE_ERLANG = 5,
    RQ_LANGUAGE_RUBY = 6,
    RQ_LANGUAGE_OTHER = 7,
    RQ_LANGUAGE_HTTP = 8,
    RQ_LANGUAGE_GO = 9,
    RQ_LANGUAGE_PHP = 10,
    RQ_LANGUAGE_OMS = 11,
    RQ_LANGUAGE_RUST = 12,
    RQ_LANGUAGE_NODE_JS = 13,
    RQ_LANGUAGE_COUNT
};

#define RQ_FLAG_RESPONSE 1 /* bit of header.flag: an answer */
#define RQ_FLAG_ONEWAY   2 /* no answer is expected and none may be sent */

#define RQ_HEADER_MAX_EXT     64 /* extFields of a frame; more is refused */
#define RQ_HEADER_MAX_DEPTH   32 /* nesting of unknown JSON members that are skipped */
#define RQ_HEADER_BINARY_SIZE 21 /* smallest binary header */

/* One extField. value.p == NULL: present but null (JSON null, or the empty string of the binary
 * form). */
struct rq_ext {
    struct rq_slice name;
    struct rq_slice value;
};

struct rq_header {
    enum rq_serialize serialize;
    int32_t code; /* request code, or response code in an answer */
    int32_t language;
    int32_t version; /* ordinal in MQVersion, 0 when never set */
    int32_t opaque;
    int32_t flag;
    struct rq_slice remark; /* p == NULL when absent */
    bool has_ext;           /* extFields was there, perhaps empty */
    uint16_t ext_count;
    struct rq_ext ext[RQ_HEADER_MAX_EXT];
};

static inline bool rq_header_is_response(const struct rq_header *header)
{
    return (header->flag & RQ_FLAG_RESPONSE) != 0;
}

static inline bool rq_header_is_oneway(const struct rq_header *header)
{
    return (header->flag & RQ_FLAG_ONEWAY) != 0;
}

/* Scans n bytes of a header. On RMQ_OK the slices point into p, JSON strings unescaped in place.
 * Duplicates stay in ext: the later one counts. Errors: RMQ_ERR_PROTOCOL. The bytes may be changed
 * after an error, too. */
rmq_status rq_header_decode(enum rq_serialize serialize, char *p, size_t n, struct rq_header *out,
                            rmq_error **err);

/* Value of an extField; p == NULL when absent or null. */
struct rq_slice rq_header_ext(const struct rq_header *header, const char *name);

/* "JAVA" …; "OTHER" for a number that is none. Static. */
const char *rq_language_name(int32_t language);

/* Number of a name, RQ_LANGUAGE_UNKNOWN for another text. */
int32_t rq_language_of(struct rq_slice name);

/* "V5_3_3" for the versions that this project knows by name, else "" . Static. */
const char *rq_version_name(int32_t version);

#endif
