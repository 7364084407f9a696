/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What both header forms share: dispatch, look-up of extFields, names of languages and versions.
 * The scanners are in header_json.c and header_binary.c. Called by net on its loop threads.
 * Counterparts: RemotingCommand, LanguageCode, MQVersion.
 */
#include "wire/header.h"

#include <string.h>

#include "base/err.h"
#include "wire/header_priv.h"

static const char *const language_names[RQ_LANGUAGE_COUNT] = {
    "JAVA",  "CPP",  "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
    "OTHER", "HTTP", "GO",     "PHP",    "OMS",    "RUST",   "NODE_JS"};

/* Releases that are met in the field: their ordinals are two apart, snapshots lie between. */
static const struct {
    int32_t ordinal;
    const char *name;
} versions[] = {{37, "V3_0_11"}, {79, "V3_2_6"},  {121, "V3_4_9"}, {233, "V4_1_0"}, {373, "V4_8_0"},
                {393, "V4_9_0"}, {395, "V4_9_1"}, {397, "V4_9_2"}, {399, "V4_9_3"}, {401, "V4_9_4"},
                {403, "V4_9_5"}, {405, "V4_9_6"}, {407, "V4_9_7"}, {409, "V4_9_8"}, {413, "V5_0_0"},
                {415, "V5_0_1"}, {433, "V5_1_0"}, {435, "V5_1_1"}, {437, "V5_1_2"}, {439, "V5_1_3"},
                {441, "V5_1_4"}, {453, "V5_2_0"}, {473, "V5_3_0"}, {475, "V5_3_1"}, {477, "V5_3_2"},
                {479, "V5_3_3"}, {493, "V5_4_0"}};

rmq_status rq_header_decode(enum rq_serialize serialize, char *p, size_t n, struct rq_header *out,
                            rmq_error **err)
{
    out->serialize = serialize;
    out->code = 0;
    out->language = RQ_LANGUAGE_JAVA;
    out->version = 0;
    out->opaque = 0;
    out->flag = 0;
    out->remark = rq_slice(NULL, 0);
    out->has_ext = false;
    out->ext_count = 0; /* ext itself stays as it is: 2 KiB need no clearing per frame */
    switch (serialize) {
    case RQ_SERIALIZE_JSON:
        return rq_header_decode_json(p, n, out, err);
    case RQ_SERIALIZE_BINARY:
        return rq_header_decode_binary(p, n, out, err);
    default:
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "header of unknown kind %d", (int)serialize);
    }
}

struct rq_slice rq_header_ext(const struct rq_header *header, const char *name)
{
    struct rq_slice wanted = rq_slice_str(name);
    for (size_t i = header->ext_count; i > 0; i--) {
        if (rq_slice_eq(header->ext[i - 1].name, wanted)) {
            return header->ext[i - 1].value;
        }
    }
    return rq_slice(NULL, 0);
}

const char *rq_language_name(int32_t language)
{
    return language >= 0 && language < RQ_LANGUAGE_COUNT ? language_names[language] : "OTHER";
}

int32_t rq_language_of(struct rq_slice name)
{
    for (int32_t i = 0; i < RQ_LANGUAGE_COUNT; i++) {
        if (rq_slice_eq_str(name, language_names[i])) {
            return i;
        }
    }
    return RQ_LANGUAGE_UNKNOWN;
}

const char *rq_version_name(int32_t version)
{
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        if (versions[i].ordinal == version) {
            return versions[i].name;
        }
    }
    return "";
}
