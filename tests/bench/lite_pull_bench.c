/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The lite pull consumer: CPU µs a message of the process that polls, with the broker in a process of its own. 8 queues, bodies of 1 KiB.
 *     build/release/bench/lite_pull_bench [COUNT [SIZE]]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

static void die(const char *what, rmq_error *err)
{
    fprintf(stderr, "%s: %s\n", what, rmq_error_message(err));
    exit(1);
}

/* Tells its name server's address through the pipe and serves until it is killed. */
static void serve(int fd)
{
    rmq_broker *broker = NULL;
    rmq_error *err = NULL;
    if (rmq_broker_start(NULL, &broker, &err) != RMQ_OK ||
        rmq_broker_create_topic(broker, "Bench", 8, &err) != RMQ_OK) {
        die("broker", err);
    }
    dprintf(fd, "%s", rmq_broker_namesrv_addr(broker));
    close(fd);
    sigset_t set;
    int sig;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &sig);
    rmq_broker_stop(broker);
    exit(0);
}

static void on_sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    if (err) {
        fprintf(stderr, "a message was not stored: %s\n", rmq_error_message(err));
    }
}

static void fill(const char *namesrv, int count, int size)
{
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    char *body = calloc(1, (size_t)size);
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "bench";
    options.namesrv_addr = namesrv;
    options.compress_msg_body_over_howmuch = 1 << 30;
    if (rmq_producer_create(&options, &producer, &err) != RMQ_OK) {
        die("producer", err);
    }
    for (int i = 0; i < count; i++) {
        rmq_message *message = NULL;
        rmq_message_create("Bench", &message, NULL);
        rmq_message_copy_body(message, body, (size_t)size);
        if (rmq_producer_send_async(producer, message, on_sent, NULL, &err) != RMQ_OK) {
            die("send", err);
        }
        rmq_message_destroy(message);
    }
    rmq_producer_shutdown(producer, 60000, NULL);
    rmq_producer_destroy(producer);
    free(body);
}

static double cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void consume(const char *namesrv, int count)
{
    rmq_lite_pull_consumer_options options;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_error *err = NULL;
    int got = 0;
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = "bench";
    options.namesrv_addr = namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.pull_batch_size = 32;
    if (rmq_lite_pull_consumer_create(&options, &consumer, &err) != RMQ_OK ||
        rmq_lite_pull_consumer_subscribe(consumer, "Bench", "*", &err) != RMQ_OK) {
        die("consumer", err);
    }
    double begin = cpu_us();
    if (rmq_lite_pull_consumer_start(consumer, &err) != RMQ_OK) {
        die("start", err);
    }
    while (got < count) {
        rmq_batch *batch = NULL;
        if (rmq_lite_pull_consumer_poll(consumer, &batch, 10000, &err) != RMQ_OK) {
            die("poll", err);
        }
        got += (int)rmq_batch_count(batch);
        rmq_batch_destroy(batch);
    }
    printf("{\"bench\":\"lite_pull\",\"messages\":%d,\"cpu_us_per_msg\":%.3f}\n", got, (cpu_us() - begin) / got);
    rmq_lite_pull_consumer_destroy(consumer);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 200000;
    int size = argc > 2 ? atoi(argv[2]) : 1024;
    char namesrv[128] = "";
    int pipes[2];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (pipe(pipes)) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        serve(pipes[1]);
    }
    close(pipes[1]);
    if (read(pipes[0], namesrv, sizeof namesrv - 1) <= 0) {
        return 1;
    }
    pid_t producer = fork();
    if (producer == 0) {
        fill(namesrv, count, size);
        exit(0);
    }
    waitpid(producer, NULL, 0);
    consume(namesrv, count);
    kill(child, SIGUSR1);
    waitpid(child, NULL, 0);
    return 0;
}
