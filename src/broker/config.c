/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Configuration of a broker: single properties, properties files, the two sets of defaults.
 * Counterpart: BrokerStartup. */
#include "broker/config.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/propfile.h"

#define VALUE_MAX ((size_t)64 << 10)

rmq_status rmq_broker_config_create(rmq_broker_config **out, rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "broker configuration: out is NULL");
    }
    rmq_broker_config *config = rq_calloc(1, sizeof *config);
    if (!config) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "out of memory");
    }
    rmq_status st = rq_broker_settings_init(&config->settings, err);
    if (st) {
        rq_free(config);
        return st;
    }
    rq_buf_init(&config->text, VALUE_MAX);
    *out = config;
    return RMQ_OK;
}

void rmq_broker_config_destroy(rmq_broker_config *config)
{
    if (!config) {
        return;
    }
    rq_broker_settings_free(&config->settings);
    rq_buf_free(&config->text);
    rq_free(config);
}

rmq_status rmq_broker_config_set(rmq_broker_config *config, const char *key, const char *value,
                                 rmq_error **err)
{
    if (!config || !key || !value) {
        return rq_error_set(err, RMQ_ERR_INVALID, "config, key and value must be given");
    }
    bool implemented = false;
    rmq_status st = rq_broker_settings_set(&config->settings, key, value, &implemented, err);
    if (!st && !implemented) {
        RQ_LOG(WARN, "broker property has no effect here", "property=%s value=%s", key, value);
    }
    return st;
}

const char *rmq_broker_config_get(rmq_broker_config *config, const char *key)
{
    void *object = NULL;
    const struct rq_option *option =
        config && key ? rq_broker_settings_find(&config->settings, key, &object) : NULL;
    if (!option) {
        return NULL;
    }
    rq_buf_clear(&config->text);
    rq_table_value_text(option, object, &config->text);
    return rq_buf_cstr(&config->text);
}

struct loading {
    rmq_broker_config *config;
    const char *path;
};

/* One property of a file; one that nobody knows is no error there. */
static rmq_status load_property(void *user, struct rq_propfile *file, rmq_error **err)
{
    const struct loading *loading = user;
    const char *key = rq_buf_cstr(&file->key);
    bool implemented = false;
    rmq_error *detail = NULL;
    rmq_status st = rq_broker_settings_set(&loading->config->settings, key,
                                           rq_buf_cstr(&file->value), &implemented, &detail);
    if (!implemented && st != RMQ_ERR_NOMEM && st != RMQ_ERR_UNSUPPORTED) {
        RQ_LOG(WARN, st ? "unknown broker property" : "broker property has no effect here",
               "file=%s line=%d property=%s detail=%s", loading->path, file->line, key,
               detail ? rmq_error_message(detail) : "-");
        st = RMQ_OK;
    } else if (st && detail) {
        *err = detail;
        return st;
    }
    rmq_error_destroy(detail);
    return st;
}

/* The file to which changes by request are written, unless it names another one itself. */
static rmq_status note_file(rmq_broker_config *config, const char *path, rmq_error **err)
{
    char whole[PATH_MAX];
    return rmq_broker_config_set(config, "brokerConfigPath", realpath(path, whole) ? whole : path,
                                 err);
}

rmq_status rmq_broker_config_load(rmq_broker_config *config, const char *path, rmq_error **err)
{
    if (!config || !path) {
        return rq_error_set(err, RMQ_ERR_INVALID, "config and path must be given");
    }
    struct rq_buf text;
    struct loading loading = {config, path};
    rmq_status st = rq_propfile_read(path, &text, err);
    st = st ? st : note_file(config, path, err);
    if (!st) {
        st = rq_propfile_each(rq_slice(text.data, text.len), path, load_property, &loading, err);
    }
    rq_buf_free(&text);
    return st;
}

/* The address that the machine would use to reach others; connecting a datagram socket sends
 * nothing. */
static void local_address(char *out, size_t size)
{
    (void)snprintf(out, size, "127.0.0.1");
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = htons(9)};
    far.sin_addr.s_addr = htonl(0x08080808u);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    struct sockaddr_in own;
    socklen_t size_own = sizeof own;
    if (connect(fd, (struct sockaddr *)(void *)&far, sizeof far) == 0 &&
        getsockname(fd, (struct sockaddr *)(void *)&own, &size_own) == 0) {
        (void)inet_ntop(AF_INET, &own.sin_addr, out, (socklen_t)size);
    }
    (void)close(fd);
}

rmq_status rmq_broker_config_standalone(rmq_broker_config *config, rmq_error **err)
{
    char address[INET_ADDRSTRLEN];
    char store[4096];
    if (!config) {
        return rq_error_set(err, RMQ_ERR_INVALID, "config must be given");
    }
    local_address(address, sizeof address);
    const char *home = getenv("HOME");
    (void)snprintf(store, sizeof store, "%s/store", home && *home ? home : ".");
    const char *const pairs[][2] = {
        {"listenPort", "10911"},
        {"storePathRootDir", store},
        {"brokerIP1", address},
        {"mappedFileSizeCommitLog", "1073741824"},
    };
    rmq_status st = RMQ_OK;
    for (size_t i = 0; !st && i < sizeof pairs / sizeof pairs[0]; i++) {
        st = rmq_broker_config_set(config, pairs[i][0], pairs[i][1], err);
    }
    return st;
}

bool rmq_broker_config_field(size_t index, const char **name, const char **type,
                             const char **default_value, const char **range, const char **help)
{
    size_t own = rq_broker_options_table.count;
    return index < own ? rq_table_tell(&rq_broker_options_table, index, name, type, default_value,
                                       range, help)
                       : rq_table_tell(&rq_store_table, index - own, name, type, default_value,
                                       range, help);
}
