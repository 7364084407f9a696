/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Every request code with any header fields and body, against a broker with its name server in this
 * process: each must be answered or cost its connection, and the next request must be served.
 * Input: two bytes choose the code, one the flags, then lines "name=value" up to a NUL, then the
 * body.
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <rmq/broker.h>
#include <rmq/log.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/json.h"
#include "wire/codes.h"

/* a code that nobody knows: it is always answered, with a remark that names it */
#define PROBE        9998
#define PROBE_OPAQUE 77
#define WAIT_MS      30000
#define FIELDS_MAX   64
#define FRAME_MAX    (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int32_t codes[] = {
#define CODE(name, value) value,
    RQ_REQUEST_CODES(CODE)
#undef CODE
};

static rmq_broker *broker;
static int fds[2] = {-1, -1}; /* broker, name server */

static void stop(void)
{
    rmq_broker_stop(broker);
}

static void start(void)
{
    rmq_broker_config *config = NULL;
    rmq_log_set(RMQ_LOG_OFF, NULL, NULL);
    if (rmq_broker_config_create(&config, NULL) ||
        rmq_broker_config_set(config, "enablePropertyFilter", "true", NULL) ||
        rmq_broker_config_set(config, "faultInjectionEnable", "false", NULL) ||
        rmq_broker_start(config, &broker, NULL)) {
        abort();
    }
    rmq_broker_config_destroy(config);
    atexit(stop);
}

static int dial(const char *addr)
{
    const char *colon = strrchr(addr, ':');
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(colon + 1))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof in)) {
        abort();
    }
    return fd;
}

/* {"code":…,"extFields":{…}} as a frame. */
static void add_frame(struct rq_buf *out, int32_t code, int32_t flag, int32_t opaque,
                      struct rq_slice fields, struct rq_slice body)
{
    struct rq_buf head;
    bool first = true;
    int count = 0;
    rq_buf_init(&head, 0);
    rq_buf_addf(&head,
                "{\"code\":%d,\"flag\":%d,\"language\":\"JAVA\",\"opaque\":%d,\"version\":479,"
                "\"extFields\":{",
                code, flag, opaque);
    while (fields.n && count++ < FIELDS_MAX) {
        const char *end = memchr(fields.p, '\n', fields.n);
        struct rq_slice line = rq_slice(fields.p, end ? (size_t)(end - fields.p) : fields.n);
        const char *equals = memchr(line.p, '=', line.n);
        fields = end ? rq_slice(end + 1, fields.n - line.n - 1) : rq_slice(NULL, 0);
        if (equals) {
            size_t n = (size_t)(equals - line.p);
            rq_buf_add_str(&head, first ? "" : ",");
            rq_json_add_string(&head, rq_slice(line.p, n));
            rq_buf_add_char(&head, ':');
            rq_json_add_string(&head, rq_slice(equals + 1, line.n - n - 1));
            first = false;
        }
    }
    rq_buf_add_str(&head, "}}");
    rq_buf_add_be32(out, (uint32_t)(4 + head.len + body.n));
    rq_buf_add_be32(out, (uint32_t)head.len);
    rq_buf_add(out, head.data, head.len);
    rq_buf_add_slice(out, body);
    rq_buf_free(&head);
}

/* Reads n bytes; false when the peer has closed. */
static bool read_all(int fd, char *to, size_t n)
{
    while (n > 0) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int polled = poll(&ready, 1, WAIT_MS);
        if (polled < 0 && errno == EINTR) {
            continue; /* the fuzzer's alarm, every ten minutes */
        }
        if (polled <= 0) {
            abort(); /* neither answered nor closed */
        }
        ssize_t got = read(fd, to, n);
        if (got <= 0) {
            return false;
        }
        to += got;
        n -= (size_t)got;
    }
    return true;
}

/* Reads answers up to the probe's; false when the connection is gone. */
static bool wait_for_probe(int fd)
{
    static char frame[FRAME_MAX];
    static const char mark[] = "request type 9998 not supported"; /* no other answer has it */
    for (;;) {
        char size[4];
        if (!read_all(fd, size, sizeof size)) {
            return false;
        }
        uint32_t n = rq_load_be32(size);
        if (n > FRAME_MAX) {
            return false; /* a large answer: not looked at */
        }
        if (!read_all(fd, frame, n)) {
            return false;
        }
        if (memmem(frame, n, mark, sizeof mark - 1)) {
            return true;
        }
    }
}

static void ask(int which, const struct rq_buf *frames)
{
    if (fds[which] < 0) {
        fds[which] = dial(which == 0 ? rmq_broker_addr(broker) : rmq_broker_namesrv_addr(broker));
    }
    for (size_t at = 0; at < frames->len;) {
        ssize_t sent = send(fds[which], frames->data + at, frames->len - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            break;
        }
        at += (size_t)sent;
    }
    if (!wait_for_probe(fds[which])) {
        close(fds[which]);
        fds[which] = -1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rq_buf frames;
    if (!broker) {
        start();
    }
    if (size < 3) {
        return 0;
    }
    int32_t code = codes[(data[0] << 8 | data[1]) % (int)(sizeof codes / sizeof codes[0])];
    int32_t flag = data[2] & 2; /* one-way or not; never an answer */
    const uint8_t *end = memchr(data + 3, 0, size - 3);
    size_t n = end ? (size_t)(end - data - 3) : size - 3;
    struct rq_slice body = end ? rq_slice(end + 1, size - n - 4) : rq_slice(NULL, 0);
    rq_buf_init(&frames, 0);
    add_frame(&frames, code, flag, 1, rq_slice(data + 3, n), body);
    add_frame(&frames, PROBE, 0, PROBE_OPAQUE, rq_slice(NULL, 0), rq_slice(NULL, 0));
    for (int which = 0; which < 2; which++) {
        ask(which, &frames);
    }
    rq_buf_free(&frames);
    return 0;
}
