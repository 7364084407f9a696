/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Compressed bodies that were spoiled on the way, cut off, or made to expand without end: each
 * costs its own message or its connection; all others are delivered, and memory stays small.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/frame.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define COUNT      100
#define FEW        10 /* come with one pull */
#define BODY       10000
#define SEND_V2    310
#define BOMB_MIB   3900 /* what it expands to; about 4 MB on the way */
#define COMPRESSED 1

static struct tl_seen seen;
static atomic_int wrong;

static char letter(int number, size_t at)
{
    return (char)('a' + (number + at / 50) % 26);
}

static void send_bodies(const struct tl_cluster *cluster, int count)
{
    static char body[BODY];
    rmq_producer *producer = tl_producer(cluster);
    for (int i = 0; i < count; i++) {
        rmq_message *message = NULL;
        rmq_error *err = NULL;
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        for (size_t at = 0; at < BODY; at++) {
            body[at] = letter(i, at);
        }
        TL_OK(rmq_message_create(cluster->topic, &message, &err));
        TL_OK(rmq_message_set_property(message, "n", number));
        TL_OK(rmq_message_copy_body(message, body, BODY));
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
        rmq_message_destroy(message);
    }
    rmq_producer_destroy(producer);
}

static rmq_consume_result check(const rmq_message_view *const *messages, size_t count,
                                rmq_consume_context *context, void *user)
{
    (void)context;
    (void)user;
    for (size_t i = 0; i < count; i++) {
        size_t size;
        const char *body = rmq_message_view_body(messages[i], &size);
        int number = atoi(rmq_message_view_property(messages[i], "n"));
        bool good = size == BODY;
        for (size_t at = 0; good && at < size; at++) {
            good = body[at] == letter(number, at);
        }
        atomic_fetch_add(&wrong, !good);
        tl_seen_add(&seen, messages[i]);
    }
    return RMQ_CONSUME_SUCCESS;
}

/* As a producer would send it that has compressed the body itself. */
static void send_compressed(const struct tl_cluster *cluster, const char *body, size_t body_n)
{
    char ext[512];
    size_t n = 0;
    snprintf(ext, sizeof ext,
             "{\"a\":\"bombs\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"0\",\"f\":\"%d\","
             "\"g\":\"1700000000000\","
             "\"h\":\"0\",\"i\":\"n\\u0001%d\\u0002\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\"}",
             cluster->topic, COMPRESSED, COUNT);
    const struct tl_header header = {.code = SEND_V2, .opaque = 1};
    char *frame = tl_frame_make(&header, NULL, ext, body, body_n, &n);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(rmq_broker_addr(cluster->broker), ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TL_EQUAL(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    for (size_t sent = 0; sent < n;) {
        ssize_t more = send(fd, frame + sent, n - sent, MSG_NOSIGNAL);
        TL_CHECK(more > 0);
        sent += (size_t)more;
    }
    char answer[4096];
    ssize_t got = recv(fd, answer, sizeof answer - 1, 0);
    TL_CHECK(got > 0);
    answer[got] = '\0';
    TL_CHECK(memmem(answer, (size_t)got, "\"code\":0", 8) != NULL);
    close(fd);
    free(frame);
}

/* The first body of the first answer with messages: its record has 88 bytes before the body. */
static void a_flipped_bit_in_a_compressed_body_costs_that_message_only(void)
{
    struct tl_detour detour;
    tl_detour_start(&detour, 1, NULL);
    send_bodies(&detour.cluster, COUNT);
    TL_CHECK(tl_proxy_script(detour.proxy, "alter response 11 times 1 at 120 with 64"));
    rmq_consumer *consumer = tl_consumer(&detour.through, "*", check, NULL);
    tl_seen_wait(&seen, COUNT - 1, 15000);
    TL_EQUAL(atomic_load(&wrong), 0);
    TL_EQUAL(atomic_load(&seen.times[0]),
             0); /* it was given back to the broker: comes again, later */
    rmq_consumer_destroy(consumer);
    tl_detour_stop(&detour);
}

/* Ordered and broadcasting: nobody has it again, and what came with it is not held up. */
static rmq_consumer *start_in_order(struct tl_cluster *cluster, const char *folder,
                                    rmq_listener_fn listener)
{
    tl_cluster_start(cluster, 1);
    tl_cluster_needs_own(cluster);
    send_compressed(cluster, "damaged", 7);
    send_bodies(cluster, FEW);
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.consume_orderly = true;
    options.message_model = RMQ_BROADCASTING;
    options.local_offset_store_dir = folder;
    options.listener = listener;
    return tl_consumer_start(cluster, &options);
}

static void make_folder(char folder[64])
{
    snprintf(folder, 64, "/tmp/rmq-bad-body-XXXXXX");
    TL_CHECK(mkdtemp(folder) != NULL);
}

static void remove_folder(const char *folder)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    TL_EQUAL(system(command), 0);
}

static void a_damaged_body_does_not_hold_up_an_ordered_queue_of_a_broadcasting_consumer(void)
{
    struct tl_cluster cluster;
    char folder[64];
    make_folder(folder);
    rmq_consumer *consumer = start_in_order(&cluster, folder, check);
    tl_seen_wait(&seen, FEW, 20000);
    TL_EQUAL(atomic_load(&wrong), 0);
    TL_EQUAL(atomic_load(&seen.times[COUNT]), 0);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
    remove_folder(folder);
}

static void a_damaged_body_does_not_hold_up_such_a_queue_that_is_polled(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_batch *batch = NULL;
    char folder[64];
    make_folder(folder);
    rmq_consumer *consumer = start_in_order(&cluster, folder, NULL);
    while (atomic_load(&seen.total) < FEW) {
        TL_OK(rmq_consumer_poll(consumer, &batch, 20000, &err));
        const rmq_message_view *view = rmq_batch_at(batch, 0);
        check(&view, 1, NULL, NULL);
        TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
        rmq_batch_destroy(batch);
    }
    TL_EQUAL(atomic_load(&wrong), 0);
    TL_EQUAL(atomic_load(&seen.times[COUNT]), 0);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
    remove_folder(folder);
}

static void answers_cut_in_the_middle_of_bodies_only_delay(void)
{
    struct tl_detour detour;
    tl_detour_start(&detour, 1, NULL);
    send_bodies(&detour.cluster, COUNT);
    TL_CHECK(tl_proxy_script(detour.proxy, "cutmid response 11 times 3"));
    rmq_consumer *consumer = tl_consumer(&detour.through, "*", check, NULL);
    tl_seen_wait(&seen, COUNT, 20000);
    TL_EQUAL(atomic_load(&wrong), 0);
    rmq_consumer_destroy(consumer);
    tl_detour_stop(&detour);
}

/* One MiB of zeros, again and again: each piece stands for itself behind a full flush. */
static char *make_bomb(size_t *n)
{
    static unsigned char zeros[1 << 20];
    static unsigned char piece[8192];
    z_stream z = {0};
    TL_EQUAL(deflateInit(&z, 9), Z_OK);
    z.next_out = piece;
    z.avail_out = sizeof piece;
    size_t ends[2];
    for (int i = 0; i < 2; i++) { /* the first has the stream's head before it */
        z.next_in = zeros;
        z.avail_in = sizeof zeros;
        TL_EQUAL(deflate(&z, Z_FULL_FLUSH), Z_OK);
        ends[i] = sizeof piece - z.avail_out;
    }
    deflateEnd(&z);
    size_t one = ends[1] - ends[0];
    char *bomb = malloc(ends[0] + one * BOMB_MIB);
    memcpy(bomb, piece, ends[0]);
    for (size_t i = 0; i < BOMB_MIB - 1; i++) {
        memcpy(bomb + ends[0] + i * one, piece + ends[0], one);
    }
    *n = ends[0] + one * (BOMB_MIB - 1);
    return bomb;
}

static void send_bomb(const struct tl_cluster *cluster)
{
    size_t n = 0;
    char *bomb = make_bomb(&n);
    TL_CHECK(n < 4 << 20);
    send_compressed(cluster, bomb, n);
    free(bomb);
}

static void a_body_that_expands_to_gigabytes_costs_that_message_only(void)
{
    struct tl_detour detour;
    tl_detour_start(&detour, 1, NULL);
    send_bomb(&detour.cluster);
    send_bodies(&detour.cluster, COUNT);
    struct tl_usage begin = tl_usage_of(0);
    rmq_consumer *consumer = tl_consumer(&detour.through, "*", check, NULL);
    tl_seen_wait(&seen, COUNT, 15000);
    struct tl_usage end = tl_usage_of(0);
    printf("peak %ld KiB over %ld KiB\n", end.peak_rss_kb, begin.rss_kb);
    TL_EQUAL(atomic_load(&wrong), 0);
    TL_EQUAL(atomic_load(&seen.times[COUNT]), 0);
    TL_CHECK(!TL_MEMORY_COUNTS || end.peak_rss_kb - begin.rss_kb < 64 << 10);
    rmq_consumer_destroy(consumer);
    tl_detour_stop(&detour);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_flipped_bit_in_a_compressed_body_costs_that_message_only),
        TL_CASE(a_damaged_body_does_not_hold_up_an_ordered_queue_of_a_broadcasting_consumer),
        TL_CASE(a_damaged_body_does_not_hold_up_such_a_queue_that_is_polled),
        TL_CASE(answers_cut_in_the_middle_of_bodies_only_delay),
        TL_CASE(a_body_that_expands_to_gigabytes_costs_that_message_only),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
