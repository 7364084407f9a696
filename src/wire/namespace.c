/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Names with and without their namespace (see the header). */
#include "wire/namespace.h"

#include <string.h>

#include "base/err.h"

#define SEPARATOR       '%'
#define ENDPOINT_PREFIX "MQ_INST_"

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

rmq_status rq_namespace_check(struct rq_slice name_space, rmq_error **err)
{
    if (name_space.n == 0 || name_space.n > RQ_NAMESPACE_MAX) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "namespace of %zu characters, 1 to %d are allowed", name_space.n,
                            RQ_NAMESPACE_MAX);
    }
    for (size_t i = 0; i < name_space.n; i++) {
        char c = name_space.p[i];
        if (!is_word(c) && c != '|' && c != '-') {
            return rq_error_set(
                err, RMQ_ERR_INVALID,
                "namespace \"%.*s\": byte 0x%02x at %zu, allowed are A-Z a-z 0-9 | _ -",
                (int)name_space.n, name_space.p, (unsigned char)c, i);
        }
    }
    return RMQ_OK;
}

static bool is_system(struct rq_slice name)
{
    return rq_topic_is_system(name) || rq_group_is_system(name);
}

/* Length of "ns%" when the name, behind its prefix, begins with it. */
static size_t marked(const char *name_space, struct rq_slice name)
{
    size_t n = strlen(name_space);
    struct rq_slice rest = rq_topic_without_prefix(name);
    bool has = rest.n > n && memcmp(rest.p, name_space, n) == 0 && rest.p[n] == SEPARATOR;
    return has ? n + 1 : 0;
}

static bool is_set(const char *name_space)
{
    return name_space && *name_space;
}

const char *rq_namespace_wrap(const char *name_space, const char *name,
                              char room[RQ_NAMESPACED_MAX])
{
    struct rq_slice text = rq_slice_str(name);
    if (!is_set(name_space) || text.n == 0 || text.n >= RQ_NAME_MAX || is_system(text) ||
        marked(name_space, text) > 0) {
        return name;
    }
    struct rq_slice rest = rq_topic_without_prefix(text);
    size_t prefix = text.n - rest.n;
    size_t n = strlen(name_space);
    memcpy(room, name, prefix);
    memcpy(room + prefix, name_space, n);
    room[prefix + n] = SEPARATOR;
    memcpy(room + prefix + n + 1, rest.p, rest.n + 1);
    return room;
}

const char *rq_namespace_plain(const char *name_space, const char *name)
{
    struct rq_slice text = rq_slice_str(name);
    bool has_prefix = rq_topic_without_prefix(text).n < text.n;
    return is_set(name_space) && !has_prefix ? name + marked(name_space, text) : name;
}

char *rq_namespace_strip(const char *name_space, char *name)
{
    struct rq_slice text = rq_slice_str(name);
    size_t mark = is_set(name_space) ? marked(name_space, text) : 0;
    size_t prefix = text.n - rq_topic_without_prefix(text).n;
    if (mark > 0) {
        memmove(name + mark, name, prefix);
    }
    return name + mark;
}

struct rq_slice rq_namespace_of_endpoint(const char *addr)
{
    const char *scheme = strstr(addr, "://");
    const char *start = scheme ? scheme + 3 : addr;
    bool split = false; /* a word, "_", a word behind the prefix */
    if (strncmp(start, ENDPOINT_PREFIX, strlen(ENDPOINT_PREFIX)) != 0) {
        return rq_slice(NULL, 0);
    }
    const char *first = start + strlen(ENDPOINT_PREFIX);
    const char *p = first;
    for (; is_word(*p); p++) {
        split = split || (*p == '_' && p > first && is_word(p[1]));
    }
    return split && *p == '.' ? rq_slice(start, (size_t)(p - start)) : rq_slice(NULL, 0);
}
