/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Prints messages as they come, on a pool of two workers, until it has COUNT of them (first argument: topic, second: count). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <rmq/rmq.h>

struct state {
    pthread_mutex_t lock;
    pthread_cond_t enough;
    int wanted; /* guarded by lock, like seen */
    int seen;
};

static rmq_consume_result on_messages(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    struct state *state = user;
    (void)context;
    pthread_mutex_lock(&state->lock);
    for (size_t i = 0; i < count; i++) {
        size_t n = 0;
        const char *body = rmq_message_view_body(messages[i], &n);
        printf("%s tag=%s queue=%d offset=%lld body=%.*s\n", rmq_message_view_id(messages[i]),
               rmq_message_view_tag(messages[i]), rmq_message_view_queue_id(messages[i]),
               (long long)rmq_message_view_queue_offset(messages[i]), (int)n, body);
        state->seen++;
    }
    if (state->seen >= state->wanted) {
        pthread_cond_signal(&state->enough);
    }
    pthread_mutex_unlock(&state->lock);
    return RMQ_CONSUME_SUCCESS;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "Greetings";
    struct state state = {.lock = PTHREAD_MUTEX_INITIALIZER,
                          .enough = PTHREAD_COND_INITIALIZER,
                          .wanted = argc > 2 ? atoi(argv[2]) : 10};
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = "example-push-consumer";
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 2;
    options.listener = on_messages;
    options.listener_user = &state;

    rmq_error *err = NULL;
    rmq_consumer *consumer = NULL;
    if (rmq_consumer_create(&options, &consumer, &err) != RMQ_OK ||
        rmq_consumer_subscribe(consumer, topic, "*", &err) != RMQ_OK ||
        rmq_consumer_start(consumer, &err) != RMQ_OK) {
        fprintf(stderr, "start: %s\n", rmq_error_message(err));
        rmq_error_destroy(err);
        rmq_consumer_destroy(consumer);
        return 1;
    }
    pthread_mutex_lock(&state.lock);
    while (state.seen < state.wanted) {
        pthread_cond_wait(&state.enough, &state.lock);
    }
    pthread_mutex_unlock(&state.lock);
    rmq_consumer_shutdown(consumer, 0, NULL);
    rmq_consumer_destroy(consumer);
    return 0;
}
