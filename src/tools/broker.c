/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq broker` and `rmq namesrv`: servers that run until SIGTERM. The main thread starts them, says
 * "ready …" and waits. Counterparts: BrokerStartup, NamesrvStartup.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rmq/broker.h>
#include <rmq/log.h>

#include "tools/input.h"
#include "tools/tool.h"

struct broker {
    const char *file, *namesrv, *address, *log;
    struct tool_list settings;
    int64_t namesrv_port;
    bool temporary;
    rmq_broker_config *config;
    rmq_namesrv *own_namesrv;
};

static int set_log_level(const char *name)
{
    if (name == NULL) {
        return TOOL_GO;
    }
    for (int level = RMQ_LOG_OFF; level <= RMQ_LOG_DEBUG; level++) {
        if (strcasecmp(rmq_log_level_name((rmq_log_level)level), name) == 0) {
            rmq_log_set((rmq_log_level)level, NULL, NULL);
            return TOOL_GO;
        }
    }
    return tool_wrong("--log is off, error, warn, info or debug, not '%s'", name);
}

static rmq_status set_property(void *config, const char *key, const char *value, rmq_error **err)
{
    return rmq_broker_config_set(config, key, value, err);
}

static rmq_status configure(struct broker *b, rmq_error **err)
{
    rmq_status st = rmq_broker_config_create(&b->config, err);
    if (st == RMQ_OK && !b->temporary) {
        st = rmq_broker_config_standalone(b->config, err);
    }
    if (st == RMQ_OK && b->file != NULL) {
        st = rmq_broker_config_load(b->config, b->file, err);
    }
    if (st == RMQ_OK) {
        st = tool_apply_settings(&b->settings, set_property, b->config, err);
    }
    if (st == RMQ_OK && b->namesrv != NULL) {
        st = rmq_broker_config_set(b->config, "namesrvAddr", b->namesrv, err);
    }
    return st;
}

/* A name server in this process: when its port is given, or when nobody names another one. */
static rmq_status add_namesrv(struct broker *b, rmq_error **err)
{
    const char *given = rmq_broker_config_get(b->config, "namesrvAddr");
    bool elsewhere = given != NULL && given[0] != '\0';
    if (b->namesrv_port < 0 && elsewhere) {
        return RMQ_OK;
    }
    int port = b->namesrv_port >= 0 ? (int)b->namesrv_port : b->temporary ? 0 : 9876;
    rmq_status st = rmq_namesrv_start(b->address, port, &b->own_namesrv, err);
    if (st == RMQ_OK && !elsewhere) {
        st = rmq_broker_config_set(b->config, "namesrvAddr", rmq_namesrv_addr(b->own_namesrv), err);
    }
    return st;
}

/* Empty, the property would mean a store that is removed at the end. */
static bool has_store(const struct broker *b)
{
    const char *store = rmq_broker_config_get(b->config, "storePathRootDir");
    return b->temporary || (store != NULL && store[0] != '\0');
}

static int serve(struct broker *b, int signals)
{
    rmq_broker *broker = NULL;
    rmq_error *err = NULL;
    rmq_status st = configure(b, &err);
    if (st == RMQ_OK && !has_store(b)) {
        tool_wrong("broker: storePathRootDir is empty; --temporary is for a store that is removed "
                   "at the end");
        return TOOL_FAILED;
    }
    if (st == RMQ_OK) {
        st = add_namesrv(b, &err);
    }
    if (st == RMQ_OK) {
        st = rmq_broker_start(b->config, &broker, &err);
    }
    if (st != RMQ_OK) {
        return b->file != NULL ? tool_fail("broker", st, err) : tool_refuse("broker", st, err);
    }
    printf("ready broker=%s namesrv=%s store=%s\n", rmq_broker_addr(broker),
           rmq_broker_namesrv_addr(broker), rmq_broker_store_path(broker));
    fflush(stdout);
    tool_wait_signal(signals, -1);
    rmq_broker_stop(broker);
    return TOOL_DONE;
}

static const char broker_text[] =
    "Runs a broker, with a name server in the same process unless -n or namesrvAddr names another. "
    "Prints one line\n"
    "\"ready broker=… namesrv=… store=…\" when it serves; SIGTERM or Ctrl-C stops it cleanly.\n"
    "Properties are those of the Java broker.conf; `rmq options broker` lists them. What requests "
    "change is written to the file.\n"
    "brokerIP1, the address that clients are sent to, is the machine's own unless set; with "
    "--temporary it is 127.0.0.1.";
static const char broker_examples[] =
    "    rmq broker                              name server on 9876, broker on 10911, store in "
    "~/store\n"
    "    rmq broker --temporary                  free ports, a store that is removed at the end\n"
    "    rmq broker -c broker.conf --namesrv-port 9876\n"
    "    rmq broker -n 10.0.0.1:9876 --set brokerName=b1 --set listenPort=10921\n";

int tool_broker(int argc, char **argv)
{
    struct broker b = {.namesrv_port = -1};
    const struct tool_option options[] = {
        {'c', "config", TOOL_TEXT, &b.file, "FILE", "properties, as an operator's broker.conf", 0,
         0},
        {'n', "namesrv", TOOL_TEXT, &b.namesrv, "HOST:PORT[;…]", "name servers to register with", 0,
         0},
        {0, "namesrv-port", TOOL_NUMBER, &b.namesrv_port, "PORT",
         "run a name server on it; 0 is any free", 0, 65535},
        {0, "address", TOOL_TEXT, &b.address, "IP",
         "address of that name server; default 127.0.0.1", 0, 0},
        {0, "set", TOOL_LIST, &b.settings, "KEY=VALUE",
         "a property; may be repeated, stronger than the file", 0, 0},
        {0, "temporary", TOOL_FLAG, &b.temporary, NULL,
         "free ports and a store that is removed at the end", 0, 0},
        {0, "log", TOOL_TEXT, &b.log, "LEVEL", "off, error, warn (default), info or debug", 0, 0},
    };
    const struct tool_usage usage = {
        .synopsis = "broker [options]",
        .text = broker_text,
        .examples = broker_examples,
        .exits = "0 stopped by a signal, 1 could not start, 2 wrong command line.",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_parse(&usage, argc, argv);
    rc = rc == TOOL_GO ? set_log_level(b.log) : rc;
    rc = rc == TOOL_GO ? tool_check_settings(&b.settings) : rc;
    if (rc != TOOL_GO) {
        return rc;
    }
    int signals = tool_signals();
    rc = serve(&b, signals);
    rmq_namesrv_stop(b.own_namesrv);
    rmq_broker_config_destroy(b.config);
    close(signals);
    return rc;
}

int tool_namesrv(int argc, char **argv)
{
    int64_t port = -1;
    const char *address = NULL;
    const char *log = NULL;
    const char *file = NULL;
    const struct tool_option options[] = {
        {'c', "config", TOOL_TEXT, &file, "FILE", "properties, as an operator's namesrv.conf", 0,
         0},
        {'p', "port", TOOL_NUMBER, &port, "PORT",
         "default listenPort of the file, or 9876; 0 is any free", 0, 65535},
        {0, "address", TOOL_TEXT, &address, "IP",
         "default bindAddress of the file, or 127.0.0.1; 0.0.0.0 or :: for every address", 0, 0},
        {0, "log", TOOL_TEXT, &log, "LEVEL", "off, error, warn (default), info or debug", 0, 0},
    };
    const struct tool_usage usage = {
        .synopsis = "namesrv [options]",
        .text =
            "Runs a name server. Prints one line \"ready namesrv=…\" when it serves; SIGTERM or "
            "Ctrl-C "
            "stops it.\n"
            "Properties are those of the Java namesrv.conf; `rmq options namesrv` lists them. What "
            "requests change is written to the file.",
        .examples = "    rmq namesrv --port 9876 --address 0.0.0.0\n",
        .exits = "0 stopped by a signal, 1 could not start, 2 wrong command line.",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_parse(&usage, argc, argv);
    rc = rc == TOOL_GO ? set_log_level(log) : rc;
    if (rc != TOOL_GO) {
        return rc;
    }
    int signals = tool_signals();
    rmq_namesrv *namesrv = NULL;
    rmq_error *err = NULL;
    rmq_status st = file != NULL
                        ? rmq_namesrv_start_file(address, (int)port, file, &namesrv, &err)
                        : rmq_namesrv_start_properties(address, (int)port, "", &namesrv, &err);
    if (st != RMQ_OK) {
        return tool_fail("name server", st, err);
    }
    printf("ready namesrv=%s\n", rmq_namesrv_addr(namesrv));
    fflush(stdout);
    tool_wait_signal(signals, -1);
    rmq_namesrv_stop(namesrv);
    close(signals);
    return TOOL_DONE;
}
