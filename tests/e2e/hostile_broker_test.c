/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Consumers of a broker that answers what no good one does: they go on, end when they are told to,
 * and do not run hot. */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmq/rmq.h>

#include "lib/cases.h"
#include "lib/fake_namesrv.h"
#include "lib/frame_server.h"
#include "lib/usage.h"

#define TOPIC "Hostile"

#define CODE_PULL              11
#define CODE_QUERY_OFFSET      14
#define CODE_UPDATE_OFFSET     15
#define CODE_SEND_BACK         36
#define CODE_ASSIGNMENT        400
#define CODE_POP               200050
#define CODE_ACK               200051
#define CODE_LATER             200053
#define CODE_PULL_NOT_FOUND    19
#define CODE_PULL_OFFSET_MOVED 21
#define CODE_QUERY_NOT_FOUND   22

#define OWN       10                 /* messages of the queue among those of elsewhere */
#define ELSEWHERE ((int64_t)1 << 40) /* offset of those */

#define MANY 300 /* popped at once, more than acknowledgements of one request */

static struct {
    const char *assignments; /* of the topic */
    const char *properties;  /* of each popped message */
    int popped;              /* messages of the first pop */
    atomic_int pops;
    atomic_int pulls;
    atomic_int acks;
    atomic_int backs;
    atomic_int laters;
    bool mixes;                    /* messages of the queue and of elsewhere */
    bool damages;                  /* behind them comes what is no message */
    _Atomic int64_t largest_asked; /* offset of pulls and commits */
} says = {.popped = MANY};

static atomic_int consumed;

static char *put(char *at, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--) {
        *at++ = (char)(value >> (8 * i));
    }
    return at;
}

static char *put_zeros(char *at, size_t count)
{
    memset(at, 0, count);
    return at + count;
}

/* A message as answers carry it, without a body. */
static char *put_message(char *at, int64_t offset, const char *properties)
{
    size_t size = 91 + strlen(TOPIC) + strlen(properties);
    at = put(at, size, 4);
    at = put(at, 0xDAA320A7, 4); /* magic of version 1 */
    at = put_zeros(at, 12);      /* CRC, queue, flag */
    at = put(at, (uint64_t)offset, 8);
    at = put(at, (uint64_t)offset * size, 8);
    at = put_zeros(at, 4);
    for (int host = 0; host < 2; host++) { /* born, stored: when, and where */
        at = put(at, 1000, 8);
        at = put(at, 0x7F000001, 4);
        at = put(at, 10911, 4);
    }
    at = put_zeros(at, 16); /* reconsume times, transaction, length of the body */
    at = put(at, strlen(TOPIC), 1);
    memcpy(at, TOPIC, strlen(TOPIC));
    at = put(at + strlen(TOPIC), strlen(properties), 2);
    memcpy(at, properties, strlen(properties));
    return at + strlen(properties);
}

static void give_messages(struct tl_reply *reply, int count, const char *properties)
{
    reply->body = malloc((size_t)count * (91 + strlen(TOPIC) + strlen(properties)));
    char *at = reply->body;
    for (int i = 0; i < count; i++) {
        at = put_message(at, i, properties);
    }
    reply->body_len = (size_t)(at - reply->body);
}

static void answer_pop(struct tl_reply *reply)
{
    reply->silent = atomic_fetch_add(&says.pops, 1) > 0;
    reply->ext = strdup("{\"popTime\":\"1000\",\"invisibleTime\":\"60000\",\"reviveQid\":\"0\","
                        "\"restNum\":\"0\"}");
    give_messages(reply, says.popped, says.properties);
}

static int64_t asked_offset(const char *frame, size_t n, const char *name)
{
    const char *found = memmem(frame, n, name, strlen(name));
    TL_CHECK(found != NULL);
    int64_t offset = strtoll(found + strlen(name), NULL, 10);
    if (offset > atomic_load(&says.largest_asked)) {
        atomic_store(&says.largest_asked, offset);
    }
    return offset;
}

/* The message that was asked for, one of elsewhere, and the next one. */
static void answer_mixed(const char *frame, size_t n, struct tl_reply *reply)
{
    int64_t offset = asked_offset(frame, n, "\"queueOffset\":\"");
    int64_t next = offset + 2 < OWN ? offset + 2 : OWN;
    TL_CHECK(asprintf(&reply->ext,
                      "{\"suggestWhichBrokerId\":\"0\",\"nextBeginOffset\":\"%lld\","
                      "\"minOffset\":\"0\",\"maxOffset\":\"%d\"}",
                      (long long)next, OWN) > 0);
    if (offset >= OWN) {
        reply->code = CODE_PULL_NOT_FOUND;
        return;
    }
    char *at = reply->body = calloc(4, 91 + strlen(TOPIC));
    at = put_message(at, offset, "");
    at = put_message(at, ELSEWHERE, "");
    if (!says.damages && offset + 1 < next) {
        at = put_message(at, offset + 1, "");
    }
    reply->body_len = (size_t)(at - reply->body) + (says.damages ? 20 : 0);
}

static void answer_pull(struct tl_reply *reply)
{
    int number = atomic_fetch_add(&says.pulls, 1);
    reply->code = CODE_PULL_OFFSET_MOVED;
    TL_CHECK(asprintf(&reply->ext,
                      "{\"suggestWhichBrokerId\":\"0\",\"nextBeginOffset\":\"%d\","
                      "\"minOffset\":\"0\",\"maxOffset\":\"100\"}",
                      5 + number % 2) > 0);
}

static void answer_assignment(const char *frame, size_t n, struct tl_reply *reply)
{
    const char *about = "\"topic\":\"" TOPIC "\"";
    bool ours = memmem(frame, n, about, strlen(about)) != NULL;
    int size =
        asprintf(&reply->body, "{\"messageQueueAssignments\":[%s]}", ours ? says.assignments : "");
    TL_CHECK(size > 0);
    reply->body_len = (size_t)size;
}

static void serve(const struct tl_header *request, const char *frame, size_t n,
                  struct tl_reply *reply, void *user)
{
    (void)user;
    switch (request->code) {
    case CODE_ASSIGNMENT:
        answer_assignment(frame, n, reply);
        break;
    case CODE_QUERY_OFFSET:
        reply->code = CODE_QUERY_NOT_FOUND;
        break;
    case CODE_PULL:
        if (says.mixes) {
            answer_mixed(frame, n, reply);
        } else {
            answer_pull(reply);
        }
        break;
    case CODE_UPDATE_OFFSET:
        (void)asked_offset(frame, n, "\"commitOffset\":\"");
        break;
    case CODE_POP:
        answer_pop(reply);
        break;
    case CODE_ACK:
        atomic_fetch_add(&says.acks, 1);
        break;
    case CODE_SEND_BACK:
        atomic_fetch_add(&says.backs, 1);
        reply->silent = true;
        break;
    case CODE_LATER:
        atomic_fetch_add(&says.laters, 1);
        break;
    default:
        break;
    }
}

static rmq_consume_result refuse(const rmq_message_view *const *messages, size_t count,
                                 rmq_consume_context *context, void *user)
{
    (void)messages;
    (void)count;
    (void)context;
    (void)user;
    return RMQ_RECONSUME_LATER;
}

static rmq_consume_result take(const rmq_message_view *const *messages, size_t count,
                               rmq_consume_context *context, void *user)
{
    (void)messages;
    (void)context;
    (void)user;
    atomic_fetch_add(&consumed, (int)count);
    return RMQ_CONSUME_SUCCESS;
}

struct scene {
    struct tl_server *broker;
    struct tl_namesrv *namesrv;
    rmq_consumer *consumer;
};

static void begin(struct scene *scene, const char *expression, rmq_listener_fn listener)
{
    char brokers[64];
    rmq_consumer_options options;
    rmq_error *err = NULL;
    scene->broker = tl_server_start(serve, NULL);
    scene->namesrv = tl_namesrv_start();
    snprintf(brokers, sizeof brokers, "hostile@%s", tl_server_addr(scene->broker));
    tl_namesrv_brokers(scene->namesrv, NULL, brokers, 1);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = "hostages";
    options.namesrv_addr = tl_namesrv_addr(scene->namesrv);
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.client_rebalance = false;
    options.max_reconsume_times = 0;
    options.consume_message_batch_max_size = 8;
    options.listener = listener;
    TL_OK(rmq_consumer_create(&options, &scene->consumer, &err));
    TL_OK(rmq_consumer_subscribe(scene->consumer, TOPIC, expression, &err));
    TL_OK(rmq_consumer_start(scene->consumer, &err));
}

static void end(struct scene *scene)
{
    rmq_error *err = NULL;
    TL_OK(rmq_consumer_shutdown(scene->consumer, 20000, &err));
    rmq_consumer_destroy(scene->consumer);
    tl_namesrv_stop(scene->namesrv);
    tl_server_stop(scene->broker);
}

#define QUEUE "{\"messageQueue\":{\"topic\":\"" TOPIC "\",\"brokerName\":\"hostile\",\"queueId\":"

static bool all_are_acknowledged(void *arg)
{
    (void)arg;
    return atomic_load(&says.acks) == MANY;
}

/* The tag has the hash of the wanted one: the messages are acknowledged all together. */
static void more_messages_than_one_request_acknowledges_are_all_acknowledged(void)
{
    struct scene scene;
    says.assignments = QUEUE "-1},\"mode\":\"POP\"}";
    says.properties = "TAGS\1BB\2";
    begin(&scene, "Aa", take);
    TL_CHECK(tl_wait(all_are_acknowledged, NULL, 20000));
    end(&scene);
    TL_EQUAL(atomic_load(&consumed), 0);
}

static bool has_popped_again(void *arg)
{
    (void)arg;
    return atomic_load(&says.pops) > 1;
}

static void messages_whose_handles_cannot_be_read_do_not_keep_a_consumer_from_its_end(void)
{
    struct scene scene;
    says.assignments = QUEUE "-1},\"mode\":\"POP\"}";
    says.properties = "TAGS\1BB\2POP_CK\1none\2";
    begin(&scene, "Aa", take);
    TL_CHECK(tl_wait(has_popped_again, NULL, 20000));
    end(&scene);
    TL_EQUAL(atomic_load(&says.acks), 0);
}

static bool is_sent_back(void *arg)
{
    (void)arg;
    return atomic_load(&says.backs) > 0;
}

/* Who closes does not wait for a broker that takes no dead letters message by message. */
static void dead_letters_that_are_not_answered_do_not_outlive_their_consumer(void)
{
    struct scene scene;
    says.assignments = QUEUE "-1},\"mode\":\"POP\"}";
    says.properties = "TAGS\1BB\2";
    says.popped = 8;
    begin(&scene, "*", refuse);
    TL_CHECK(tl_wait(is_sent_back, NULL, 20000));
    end(&scene);
    TL_EQUAL(atomic_load(&says.backs), 1);
    TL_EQUAL(atomic_load(&says.laters), 0);
}

static void an_offset_that_moves_with_every_answer_is_not_followed_at_full_speed(void)
{
    struct scene scene;
    says.assignments = QUEUE "0},\"mode\":\"PULL\"}";
    begin(&scene, "*", take);
    int before = atomic_load(&says.pulls);
    int64_t start = tl_now_ms();
    tl_pause(1000);
    int rate = (int)((atomic_load(&says.pulls) - before) * 1000 / (tl_now_ms() - start));
    end(&scene);
    printf("%d pulls a second\n", rate);
    TL_CHECK(rate > 0 && rate < 100);
}

static bool has_come_to_the_end(void *arg)
{
    (void)arg;
    return atomic_load(&consumed) >= OWN && atomic_load(&says.largest_asked) >= OWN;
}

/* Neither pulls nor offsets go where a message of elsewhere is, and it is not handed out. */
static void messages_of_elsewhere_move_no_queue(void)
{
    struct scene scene;
    says.assignments = QUEUE "0},\"mode\":\"PULL\"}";
    says.mixes = true;
    for (int damages = 0; damages < 2; damages++) {
        says.damages = damages > 0;
        atomic_store(&consumed, 0);
        atomic_store(&says.largest_asked, 0);
        begin(&scene, "*", take);
        TL_CHECK(tl_wait(has_come_to_the_end, NULL, 20000));
        end(&scene);
        TL_EQUAL(atomic_load(&consumed), OWN);
        TL_EQUAL(atomic_load(&says.largest_asked), OWN);
    }
}

static bool is_assigned(void *arg)
{
    char *text = NULL;
    bool assigned = rmq_consumer_assignment(arg, &text, NULL) == RMQ_OK && *text;
    rmq_string_free(text);
    return assigned;
}

static void a_queue_that_is_assigned_twice_is_taken_once(void)
{
    struct scene scene;
    char *text = NULL;
    rmq_error *err = NULL;
    says.assignments = QUEUE "0},\"mode\":\"PULL\"}," QUEUE "0},\"mode\":\"PULL\"}";
    begin(&scene, "*", take);
    TL_CHECK(tl_wait(is_assigned, scene.consumer, 20000));
    TL_OK(rmq_consumer_assignment(scene.consumer, &text, &err));
    TL_CHECK(strcmp(text, TOPIC " hostile 0\n") == 0);
    rmq_string_free(text);
    end(&scene);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(more_messages_than_one_request_acknowledges_are_all_acknowledged),
        TL_CASE(messages_whose_handles_cannot_be_read_do_not_keep_a_consumer_from_its_end),
        TL_CASE(dead_letters_that_are_not_answered_do_not_outlive_their_consumer),
        TL_CASE(an_offset_that_moves_with_every_answer_is_not_followed_at_full_speed),
        TL_CASE(messages_of_elsewhere_move_no_queue),
        TL_CASE(a_queue_that_is_assigned_twice_is_taken_once),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
