/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What a broker with many queues holds in memory beyond its mapped files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"

#define TOPICS   200
#define QUEUES   8
#define MOST_KIB (40 * 1024)

/* Sanitizers have memory of their own. */
static bool measured_build(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return false;
#endif
#endif
    return getenv("TL_SLACK") == NULL;
}

/* Memory of this process that no file backs, KiB. */
static long anonymous_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    TL_CHECK(status != NULL);
    while (kib < 0 && fgets(line, sizeof line, status)) {
        sscanf(line, "RssAnon: %ld", &kib);
    }
    fclose(status);
    return kib;
}

static void send_to_each_queue(rmq_producer *producer, const char *topic)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    TL_OK(rmq_message_create(topic, &message, &err));
    TL_OK(rmq_message_copy_body(message, "body", 4));
    TL_OK(rmq_message_add_key(message, "key"));
    for (int i = 0; i < QUEUES; i++) {
        rmq_send_result *result = NULL;
        TL_OK(rmq_producer_send(producer, message, 10000, &result, &err));
        rmq_send_result_destroy(result);
    }
    rmq_message_destroy(message);
}

static void two_hundred_topics_idle_below_40_mb(void)
{
    struct tl_cluster cluster = {.group = "g"};
    rmq_broker_config *config = NULL;
    rmq_broker_store_metrics now;
    rmq_error *err = NULL;
    char dir[64];
    /* In memory, since 1600 files are synced at the end. */
    snprintf(dir, sizeof dir, "%s/rmq-many-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    TL_CHECK(mkdtemp(dir) != NULL);
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", dir, &err));
    TL_OK(rmq_broker_start(config, &cluster.broker, &err));
    snprintf(cluster.namesrv, sizeof cluster.namesrv, "%s",
             rmq_broker_namesrv_addr(cluster.broker));
    rmq_producer *producer = tl_producer(&cluster);
    for (int i = 0; i < TOPICS; i++) {
        char topic[32];
        snprintf(topic, sizeof topic, "Topic-%d", i);
        TL_OK(rmq_broker_create_topic(cluster.broker, topic, QUEUES, &err));
        send_to_each_queue(producer, topic);
    }
    TL_OK(rmq_producer_shutdown(producer, 5000, &err));
    rmq_producer_destroy(producer);
    rmq_broker_get_store_metrics(cluster.broker, &now, sizeof now);
    TL_EQUAL(now.put_messages, TOPICS * QUEUES);
    TL_CHECK(now.consume_queues >= TOPICS * QUEUES);
    long kib = anonymous_kib();
    printf("%ld KiB beside the mapped files\n", kib);
    if (measured_build()) {
        TL_CHECK(kib < MOST_KIB);
    }
    rmq_broker_stop(cluster.broker);
    rmq_broker_config_destroy(config);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", dir);
    TL_EQUAL(system(command), 0);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"two_hundred_topics_idle_below_40_mb", two_hundred_topics_idle_below_40_mb, 60},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
