/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Field case B04, a DNS server that drops packets: look-ups that nobody answers hold up no other
 * client, and a list goes on to its next address. This program's getaddrinfo stands before the
 * system's, which would need such a server.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define SILENT   "silent.invalid"
#define SENDS    300
#define STALLED  1500 /* ms: a send that waited for a look-up takes longer */
#define LOOK_UPS 6    /* names, more than are looked up at a time */

static atomic_int look_ups;
static atomic_bool answered;

static bool is_answered(void *arg)
{
    (void)arg;
    return atomic_load(&answered);
}

__attribute__((visibility("default"))) /* the libraries' calls come here */
int getaddrinfo(const char *restrict node, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict list)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    bool is_number = hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0;
    if (!is_number && node != NULL && strstr(node, SILENT) != NULL) {
        atomic_fetch_add(&look_ups, 1);
        (void)tl_wait(is_answered, NULL, 40000);
        return EAI_AGAIN;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(node, service, hints, list);
}

static void *send_to_nowhere(void *arg)
{
    char namesrv[64];
    rmq_error *err = NULL;
    snprintf(namesrv, sizeof namesrv, "%d." SILENT ":9876", *(int *)arg);
    rmq_producer *producer = tl_producer_on(namesrv, 3000);
    rmq_message *message = tl_message("T", "x", 1);
    int64_t begin = tl_now_ms();
    TL_CHECK(rmq_producer_send(producer, message, 0, NULL, &err) != RMQ_OK);
    TL_CHECK(tl_now_ms() - begin < 20000);
    if (strstr(rmq_error_message(err), namesrv) == NULL) {
        tl_fail(__FILE__, __LINE__, "%s is not named: %s", namesrv, rmq_error_message(err));
    }
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    return NULL;
}

static bool are_looked_up(void *arg)
{
    (void)arg;
    return atomic_load(&look_ups) > 0;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void a_look_up_that_nobody_answers_holds_up_no_other_client(void)
{
    static int64_t took[SENDS];
    pthread_t threads[LOOK_UPS];
    int numbers[LOOK_UPS];
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1);
    for (int i = 0; i < LOOK_UPS; i++) {
        numbers[i] = i;
        TL_EQUAL(pthread_create(&threads[i], NULL, send_to_nowhere, &numbers[i]), 0);
    }
    TL_CHECK(tl_wait(are_looked_up, NULL, 10000));
    for (int i = 0; i < SENDS; i++) {
        int64_t begin = tl_now_ms();
        tl_send(&cluster, producer, "m", i, 1);
        took[i] = tl_now_ms() - begin;
    }
    TL_CHECK(!atomic_load(&answered));
    qsort(took, SENDS, sizeof took[0], by_size);
    printf("beside %d look-ups: p99 %lld ms, most %lld ms\n", atomic_load(&look_ups),
           (long long)took[SENDS * 99 / 100], (long long)took[SENDS - 1]);
    TL_CHECK(took[SENDS * 99 / 100] < STALLED);
    for (int i = 0; i < LOOK_UPS; i++) {
        pthread_join(threads[i], NULL);
    }
    atomic_store(&answered, true);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void the_address_behind_a_name_that_nobody_answers_for_is_tried(void)
{
    struct tl_cluster cluster;
    char good[64];
    tl_cluster_start(&cluster, 2);
    snprintf(good, sizeof good, "%.63s", cluster.namesrv);
    snprintf(cluster.namesrv, sizeof cluster.namesrv, "0." SILENT ":9876;%s", good);
    int64_t begin = tl_now_ms();
    for (int i = 0; i < 4; i++) {
        rmq_producer *producer = tl_producer(&cluster);
        tl_send(&cluster, producer, "m", i, 1);
        rmq_producer_destroy(producer);
    }
    printf("four producers after %lld ms and %d look-ups\n", (long long)(tl_now_ms() - begin),
           atomic_load(&look_ups));
    TL_CHECK(!atomic_load(&answered) && atomic_load(&look_ups) > 0);
    TL_CHECK(tl_now_ms() - begin < 4 * 5000);
    atomic_store(&answered, true);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_look_up_that_nobody_answers_holds_up_no_other_client),
        TL_CASE(the_address_behind_a_name_that_nobody_answers_for_is_tried),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
