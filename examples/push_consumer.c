/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Receives messages with a listener, on a pool of workers. Ends after COUNT messages.
 *     NAMESRV_ADDR=127.0.0.1:9876 push_consumer [TOPIC [COUNT]]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmq/rmq.h>

struct progress {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int received; /* guarded by lock */
};

/* Runs on a worker; several workers call at once. The messages are borrowed until it returns. */
static rmq_consume_result on_messages(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    struct progress *progress = user;
    (void)context;
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const char *body = rmq_message_view_body(messages[i], &size);
        printf("%s: %.*s\n", rmq_message_view_tag(messages[i]), (int)size, body);
    }
    pthread_mutex_lock(&progress->lock);
    progress->received += (int)count;
    pthread_cond_signal(&progress->changed);
    pthread_mutex_unlock(&progress->lock);
    /* RMQ_RECONSUME_LATER: the broker delivers them again after a delay */
    return RMQ_CONSUME_SUCCESS;
}

static int fail(const char *what, rmq_error *err)
{
    fprintf(stderr, "%s: %s\n", what, rmq_error_message(err));
    rmq_error_destroy(err);
    return 1;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "ExampleTopic";
    int wanted = argc > 2 ? atoi(argv[2]) : 10;
    bool traced = argc > 3 && strcmp(argv[3], "trace") == 0;
    struct progress progress = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    rmq_error *err = NULL;
    rmq_consumer *consumer = NULL;
    rmq_consumer_options options;

    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = "example-push";
    /* for a group that has no offset yet */
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 4;
    options.listener = on_messages;
    options.listener_user = &progress;
    /* what becomes of each message, for mqadmin queryMsgTraceById */
    options.enable_msg_trace = traced;
    if (rmq_consumer_create(&options, &consumer, &err) != RMQ_OK) {
        return fail("consumer", err);
    }
    if (rmq_consumer_subscribe(consumer, topic, "*", &err) != RMQ_OK ||
        rmq_consumer_start(consumer, &err) != RMQ_OK) {
        rmq_consumer_destroy(consumer);
        return fail("start", err);
    }
    pthread_mutex_lock(&progress.lock);
    while (progress.received < wanted) {
        pthread_cond_wait(&progress.changed, &progress.lock);
    }
    pthread_mutex_unlock(&progress.lock);

    /* Waits for listeners that still run, tells the broker how far the group is, and leaves it. */
    int rc = 0;
    if (rmq_consumer_shutdown(consumer, 0, &err) != RMQ_OK) {
        rc = fail("shutdown", err);
    }
    rmq_consumer_destroy(consumer);
    return rc;
}
