/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* How a client id is made (see client_id.h). */
#include "client/client_id.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/local_addr.h"

/* The part after '@': what was given, or for DEFAULT pid and a number that no other handle of the
 * process has. */
static void write_instance_name(const struct rq_instance_options *options, struct rq_buf *out)
{
    static atomic_uint_fast32_t serial;
    const char *name =
        options->instance_name && *options->instance_name ? options->instance_name : "DEFAULT";
    if (strcmp(name, "DEFAULT") != 0 || options->keep_default_name) {
        rq_buf_add_str(out, name);
        return;
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t nanos = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    rq_buf_addf(
        out, "%d#%llu", (int)getpid(),
        (unsigned long long)(nanos + atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed)));
}

void rq_client_id_write(const struct rq_instance_options *options, const char *namesrv,
                        struct rq_buf *out)
{
    char first[256] = "";
    size_t n = strcspn(namesrv, " \t;,");
    (void)snprintf(first, sizeof first, "%.*s", (int)(n < sizeof first ? n : sizeof first - 1),
                   namesrv);
    if (options->client_ip && *options->client_ip) {
        rq_buf_add_str(out, options->client_ip);
    } else {
        char addr[RQ_ADDR_TEXT];
        rq_local_addr_text(first, addr);
        rq_buf_add_str(out, addr);
    }
    rq_buf_add_char(out, '@');
    write_instance_name(options, out);
    if (options->unit_name && *options->unit_name) {
        rq_buf_add_char(out, '@');
        rq_buf_add_str(out, options->unit_name);
    }
}
