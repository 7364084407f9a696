/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The blocking client of the broker's tests. */
#include "unit/broker/raw.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/time.h"
#include "lib/port.h"

void raw_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static bool has_port(const char *const *pairs)
{
    while (pairs && pairs[0] && strcmp(pairs[0], "listenPort") != 0) {
        pairs += 2;
    }
    return pairs && pairs[0];
}

rmq_broker *start_broker(const char *const *pairs)
{
    rmq_broker_config *config = NULL;
    rmq_broker *broker = NULL;
    rmq_error *err = NULL;
    char port[16];
    ck_assert_int_eq(rmq_broker_config_create(&config, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_config_set(config, "osPageCacheBusyTimeOutMills", "3600000", NULL),
                     RMQ_OK);
    if (!has_port(pairs)) { /* clients may look for it when it has gone */
        snprintf(port, sizeof port, "%d", tl_port_kept(NULL, 0));
        ck_assert_int_eq(rmq_broker_config_set(config, "listenPort", port, NULL), RMQ_OK);
    }
    for (; pairs && pairs[0]; pairs += 2) {
        ck_assert_int_eq(rmq_broker_config_set(config, pairs[0], pairs[1], NULL), RMQ_OK);
    }
    rmq_status st = rmq_broker_start(config, &broker, &err);
    ck_assert_msg(st == RMQ_OK, "start: %s", err ? rmq_error_message(err) : "");
    rmq_broker_config_destroy(config);
    return broker;
}

void write_config(const char *store_path, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/config", store_path);
    ck_assert_int_eq(rq_sys_mkdirs(path), 0);
    snprintf(path, sizeof path, "%s/config/%s", store_path, name);
    ck_assert_int_eq(rq_sys_write_file(path, text, strlen(text), false, NULL), RMQ_OK);
}

struct raw *raw_open(const char *addr)
{
    char host[128];
    const char *colon = strrchr(addr, ':');
    size_t n = (size_t)(colon - addr);
    bool brackets = addr[0] == '[';
    snprintf(host, sizeof host, "%.*s", (int)(n - (brackets ? 2 : 0)), addr + (brackets ? 1 : 0));
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *list = NULL;
    ck_assert_int_eq(getaddrinfo(host, colon + 1, &hints, &list), 0);
    struct raw *raw = calloc(1, sizeof *raw);
    raw->fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(raw->fd, list->ai_addr, list->ai_addrlen), 0);
    freeaddrinfo(list);
    raw->version = RQ_VERSION_V5_3_3;
    raw->next_opaque = 100;
    rq_buf_init(&raw->in, 0);
    return raw;
}

void raw_close(struct raw *raw)
{
    close(raw->fd);
    rq_buf_free(&raw->in);
    free(raw->last);
    free(raw);
}

void raw_bytes(struct raw *raw, const void *p, size_t n)
{
    const char *at = p;
    while (n > 0) {
        ssize_t sent = send(raw->fd, at, n, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            return;
        }
        ck_assert_int_gt(sent, 0);
        at += sent;
        n -= (size_t)sent;
    }
}

void raw_reply(struct raw *raw, int32_t opaque, int32_t code, struct rq_slice body)
{
    struct rq_buf out;
    struct rq_frame_spec spec = rq_frame_request(raw->serialize, code, NULL, NULL);
    spec.opaque = opaque;
    spec.flag = RQ_FLAG_RESPONSE;
    rq_buf_init(&out, 0);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, body.n, NULL), RMQ_OK);
    rq_buf_add_slice(&out, body);
    raw_bytes(raw, out.data, out.len);
    rq_buf_free(&out);
}

int32_t raw_send(struct raw *raw, int32_t code, int32_t flag, const struct rq_fields *table,
                 const void *fields, struct rq_slice body)
{
    struct rq_buf out;
    struct rq_frame_spec spec = rq_frame_request(raw->serialize, code, table, fields);
    spec.opaque = raw->next_opaque++;
    spec.flag = flag;
    spec.version = raw->version;
    rq_buf_init(&out, 0);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, body.n, NULL), RMQ_OK);
    rq_buf_add_slice(&out, body);
    ck_assert_int_eq(rq_buf_status(&out), RMQ_OK);
    raw_bytes(raw, out.data, out.len);
    rq_buf_free(&out);
    return spec.opaque;
}

/* One whole frame out of what has been read. */
static bool cut(struct raw *raw, struct raw_answer *out)
{
    size_t total = 0;
    struct rq_frame frame;
    ck_assert_int_eq(rq_frame_size(raw->in.data, raw->in.len, RQ_FRAME_MAX, &total, NULL), RMQ_OK);
    if (total == 0 || raw->in.len < total) {
        return false;
    }
    free(raw->last);
    raw->last = malloc(total);
    memcpy(raw->last, raw->in.data, total);
    memmove(raw->in.data, raw->in.data + total, raw->in.len - total);
    raw->in.len -= total;
    ck_assert_int_eq(rq_frame_decode(raw->last, total, &frame, NULL), RMQ_OK);
    out->header = frame.header;
    out->body = frame.body;
    return true;
}

bool raw_next(struct raw *raw, struct raw_answer *out, int64_t timeout_ms)
{
    int64_t deadline_ms = rq_deadline_ms(timeout_ms);
    char bytes[65536];
    while (raw->in.len == 0 || !cut(raw, out)) {
        int64_t left_ms = deadline_ms - rq_mono_ms();
        struct pollfd pfd = {.fd = raw->fd, .events = POLLIN};
        if (poll(&pfd, 1, left_ms > 0 ? (int)left_ms : 0) <= 0) {
            return false;
        }
        ssize_t n = recv(raw->fd, bytes, sizeof bytes, 0);
        if (n <= 0) {
            return false;
        }
        rq_buf_add(&raw->in, bytes, (size_t)n);
    }
    return true;
}

bool raw_is_closed(struct raw *raw)
{
    int64_t deadline_ms = rq_deadline_ms(RAW_WAIT_MS);
    char bytes[65536];
    for (;;) {
        int64_t left_ms = deadline_ms - rq_mono_ms();
        struct pollfd pfd = {.fd = raw->fd, .events = POLLIN};
        if (left_ms <= 0 || poll(&pfd, 1, (int)left_ms) <= 0) {
            return false;
        }
        if (recv(raw->fd, bytes, sizeof bytes, 0) <= 0) {
            return true;
        }
    }
}

/* Questions of the broker that come in between are skipped. */
static struct raw_answer *wait_answer(struct raw *raw, int32_t opaque, int32_t code)
{
    do {
        ck_assert_msg(raw_next(raw, &raw->answer, RAW_WAIT_MS), "no answer to request %d", code);
    } while (!rq_header_is_response(&raw->answer.header));
    ck_assert_int_eq(raw->answer.header.opaque, opaque);
    return &raw->answer;
}

struct raw_answer *raw_call(struct raw *raw, int32_t code, const struct rq_fields *table,
                            const void *fields, struct rq_slice body)
{
    return wait_answer(raw, raw_send(raw, code, 0, table, fields, body), code);
}

struct rq_hdr_send raw_send_header(const char *topic, int32_t queue_id, struct rq_slice properties)
{
    return (struct rq_hdr_send){.producer_group = rq_slice_str("PG"),
                                .topic = rq_slice_str(topic),
                                .default_topic = rq_slice_str(RQ_TOPIC_DEFAULT),
                                .default_topic_queue_nums = 4,
                                .queue_id = queue_id,
                                .born_timestamp = rq_wall_ms(),
                                .properties = properties};
}

struct raw_answer *raw_produce(struct raw *raw, const char *topic, int32_t queue_id,
                               const char *tag, const char *body)
{
    struct rq_buf props;
    rq_buf_init(&props, 0);
    if (tag) {
        rq_props_add_str(&props, 0, RQ_PROP_TAGS, rq_slice_str(tag));
    }
    struct rq_hdr_send header = raw_send_header(topic, queue_id, rq_slice(props.data, props.len));
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str(body));
    rq_buf_free(&props);
    return answer;
}

int32_t raw_pull(struct raw *raw, const char *group, const char *topic, int32_t queue_id,
                 int64_t offset, const char *expression, int64_t suspend_ms)
{
    struct rq_hdr_pull header = {.consumer_group = rq_slice_str(group),
                                 .topic = rq_slice_str(topic),
                                 .queue_id = queue_id,
                                 .queue_offset = offset,
                                 .max_msg_nums = 32,
                                 .sys_flag = expression ? RQ_PULL_SUBSCRIPTION : 0,
                                 .suspend_timeout_ms = suspend_ms,
                                 .subscription = rq_slice_str(expression),
                                 .expression_type = rq_slice_str(raw->expression_type)};
    if (suspend_ms > 0) {
        header.sys_flag |= RQ_PULL_SUSPEND;
    }
    return raw_send(raw, RQ_REQ_PULL_MESSAGE, 0, &rq_tab_pull, &header, rq_slice(NULL, 0));
}

struct raw_answer *raw_pull_now(struct raw *raw, const char *group, const char *topic,
                                int32_t queue_id, int64_t offset, const char *expression)
{
    return wait_answer(raw, raw_pull(raw, group, topic, queue_id, offset, expression, 0),
                       RQ_REQ_PULL_MESSAGE);
}

struct raw_answer *raw_heartbeat(struct raw *raw, const char *client_id, const char *group,
                                 const char *topic, const char *expression, int64_t sub_version)
{
    struct rq_subscription *sub = NULL;
    struct rq_buf body;
    ck_assert_int_eq(
        rq_subscription_create(topic, expression, raw->expression_type, sub_version, &sub, NULL),
        RMQ_OK);
    struct rq_consumer_data consumer = {.group = group,
                                        .type = RQ_CONSUME_PASSIVELY,
                                        .model = RQ_MODEL_CLUSTERING,
                                        .subscriptions = &sub,
                                        .subscription_count = 1};
    const char *producer = "PG";
    struct rq_heartbeat heartbeat = {.client_id = client_id,
                                     .producers = &producer,
                                     .producer_count = 1,
                                     .consumers = &consumer,
                                     .consumer_count = 1};
    rq_buf_init(&body, 0);
    rq_heartbeat_write(&heartbeat, &body);
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_HEART_BEAT, NULL, NULL, rq_slice(body.data, body.len));
    rq_buf_free(&body);
    rq_subscription_destroy(sub);
    return answer;
}

struct raw_answer *raw_create_topic(struct raw *raw, const char *topic, int32_t queues)
{
    struct rq_hdr_create_topic header = {.topic = rq_slice_str(topic),
                                         .default_topic = rq_slice_str(RQ_TOPIC_DEFAULT),
                                         .read_queue_nums = queues,
                                         .write_queue_nums = queues,
                                         .perm = RQ_PERM_READ | RQ_PERM_WRITE,
                                         .topic_filter_type = rq_slice_str("SINGLE_TAG")};
    return raw_call(raw, RQ_REQ_UPDATE_AND_CREATE_TOPIC, &rq_tab_create_topic, &header,
                    rq_slice(NULL, 0));
}

struct raw_answer *raw_route(struct raw *raw, const char *topic)
{
    struct rq_hdr_topic header = {.topic = rq_slice_str(topic)};
    return raw_call(raw, RQ_REQ_GET_ROUTEINFO_BY_TOPIC, &rq_tab_topic, &header, rq_slice(NULL, 0));
}

int64_t raw_i64(const struct raw_answer *answer, const char *name)
{
    int64_t v = 0;
    struct rq_slice text = rq_header_ext(&answer->header, name);
    ck_assert_msg(text.p && rq_slice_to_i64(text, &v), "no number %s", name);
    return v;
}

bool raw_has(const struct raw_answer *answer, const char *text)
{
    return memmem(answer->body.p, answer->body.n, text, strlen(text)) != NULL;
}

size_t raw_messages(const struct raw_answer *answer, struct rq_msg *out, size_t max)
{
    struct rq_cursor cursor = rq_cursor(answer->body.p, answer->body.n);
    size_t count = 0;
    while (rq_cursor_left(&cursor) > 0 && count < max) {
        ck_assert_int_eq(rq_msg_decode(&cursor, &out[count], NULL), RMQ_OK);
        ck_assert(rq_msg_crc_ok(&out[count]));
        count++;
    }
    return count;
}

void raw_text(struct raw *raw, char *out, size_t room)
{
    size_t n = 0;
    ssize_t got;
    while (n + 1 < room && (got = read(raw->fd, out + n, room - n - 1)) > 0) {
        n += (size_t)got;
    }
    out[n] = '\0';
}
