/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Broadcasting consumers: each member gets all; offsets in a local file that survives kills, torn
 * writes and a thumb on the delete key. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/usage.h"

static struct tl_seen seen[3];
static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/rmq-broadcast-XXXXXX");
    TL_CHECK(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    TL_EQUAL(system(command), 0);
}

static rmq_consumer_options broadcast_options(const struct tl_cluster *cluster, const char *name,
                                              struct tl_seen *to)
{
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.client_ip = "127.0.0.1";
    options.instance_name = name;
    options.message_model = RMQ_BROADCASTING;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 2;
    options.persist_consumer_offset_interval_ms = 100;
    options.local_offset_store_dir = folder;
    options.listener = tl_seen_listener;
    options.listener_user = to;
    return options;
}

static rmq_consumer *member(const struct tl_cluster *cluster, const char *name, struct tl_seen *to)
{
    rmq_consumer_options options = broadcast_options(cluster, name, to);
    return tl_consumer_start(cluster, &options);
}

static void file_of(const struct tl_cluster *cluster, const char *name, char path[256])
{
    snprintf(path, 256, "%s/127.0.0.1@%s/%s/offsets.json", folder, name, cluster->group);
}

static void each_member_gets_every_message_and_goes_on_where_it_stopped(void)
{
    struct tl_cluster cluster;
    static const char *const names[] = {"DEFAULT", "two", "three"};
    rmq_consumer *members[3];
    char path[256];
    tl_cluster_start(&cluster, 4);
    make_folder();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            members[i] = member(&cluster, names[i], &seen[i]);
        }
        tl_send_some(&cluster, round * 200, 200);
        for (int i = 0; i < 3; i++) {
            tl_seen_wait(&seen[i], (round + 1) * 200, 10000);
            rmq_consumer_destroy(members[i]);
            TL_EQUAL(atomic_load(&seen[i].total), (round + 1) * 200);
        }
    }
    file_of(&cluster, "DEFAULT", path);
    TL_EQUAL(access(path, R_OK), 0);
    remove_folder();
    tl_cluster_stop(&cluster);
}

static rmq_consume_result fail_all(const rmq_message_view *const *messages, size_t count,
                                   rmq_consume_context *context, void *user)
{
    tl_seen_listener(messages, count, context, user);
    return RMQ_RECONSUME_LATER;
}

static void a_message_that_fails_is_given_up(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 2);
    make_folder();
    rmq_consumer_options options = broadcast_options(&cluster, "m", &seen[0]);
    options.listener = fail_all;
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    tl_send_some(&cluster, 0, 20);
    tl_seen_wait(&seen[0], 20, 10000);
    rmq_consumer_destroy(consumer);
    consumer = member(&cluster, "m", &seen[1]);
    tl_send_some(&cluster, 20, 1);
    tl_seen_wait(&seen[1], 1, 10000);
    TL_EQUAL(atomic_load(&seen[1].total), 1);
    rmq_consumer_destroy(consumer);
    remove_folder();
    tl_cluster_stop(&cluster);
}

/* ---- the file ---- */

static void truncate_to(const char *path, double part)
{
    struct stat info;
    TL_EQUAL(stat(path, &info), 0);
    TL_EQUAL(truncate(path, (off_t)((double)info.st_size * part)), 0);
}

static void zero(const char *path)
{
    struct stat info;
    TL_EQUAL(stat(path, &info), 0);
    TL_EQUAL(truncate(path, 0), 0);
    TL_EQUAL(truncate(path, info.st_size), 0);
}

static void spoil(const char *path, int how)
{
    switch (how) {
    case 0:
        truncate_to(path, 0);
        break;
    case 1:
        zero(path);
        break;
    case 2:
        truncate_to(path, 0.5);
        break;
    case 3:
        TL_EQUAL(unlink(path), 0);
        break;
    default: /* unreadable, also for root: a folder in its place */
        TL_EQUAL(unlink(path), 0);
        TL_EQUAL(mkdir(path, 0700), 0);
    }
}

static void a_spoilt_file_is_replaced_by_its_backup(void)
{
    struct tl_cluster cluster;
    char path[256];
    int sent = 0;
    tl_cluster_start(&cluster, 2);
    make_folder();
    file_of(&cluster, "m", path);
    for (int how = 0; how < 5; how++) {
        for (int round = 0; round < 2; round++) { /* the second write makes the backup */
            rmq_consumer *consumer = member(&cluster, "m", &seen[0]);
            tl_send_some(&cluster, sent, 50);
            sent += 50;
            tl_seen_wait(&seen[0], sent, 10000);
            rmq_consumer_destroy(consumer);
        }
        int before = atomic_load(&seen[0].total);
        spoil(path, how);
        rmq_consumer *consumer = member(&cluster, "m", &seen[0]);
        tl_send_some(&cluster, sent, 10);
        sent += 10;
        tl_seen_wait(&seen[0], sent, 10000);
        rmq_consumer_destroy(consumer);
        printf("spoilt in way %d: %d messages again\n", how,
               atomic_load(&seen[0].total) - before - 10);
        TL_CHECK(atomic_load(&seen[0].total) - before - 10 <= 50); /* since the backup */
        if (how == 4) {
            TL_EQUAL(rmdir(path), 0);
        }
    }
    remove_folder();
    tl_cluster_stop(&cluster);
}

static int count_in(const char *path)
{
    char text[4096];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    int rows = 0;
    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0) {
        return -1;
    }
    text[n] = '\0';
    for (const char *at = text; (at = strstr(at, "\"queueId\"")) != NULL; at++) {
        rows++;
    }
    return strstr(text, "\"offsetTable\":{") != NULL && text[n - 1] == '}' ? rows : -1;
}

static void run_child(const struct tl_cluster *cluster)
{
    rmq_consumer_options options = broadcast_options(cluster, "m", &seen[0]);
    rmq_consumer *consumer = NULL;
    if (rmq_consumer_create(&options, &consumer, NULL) == RMQ_OK &&
        rmq_consumer_subscribe(consumer, cluster->topic, "*", NULL) == RMQ_OK &&
        rmq_consumer_start(consumer, NULL) == RMQ_OK) {
        for (;;) {
            pause();
        }
    }
    _exit(1);
}

/* make soak kills more often. */
static int rounds(void)
{
    const char *text = getenv("TL_ROUNDS");
    int many = text != NULL ? atoi(text) : 0;
    return many > 0 ? many : 15;
}

static bool is_written(void *arg)
{
    return count_in(arg) == 2;
}

static void a_kill_leaves_a_whole_file(void)
{
    struct tl_cluster cluster;
    char path[256];
    char backup[272];
    int sent = 0;
#if defined(__SANITIZE_THREAD__)
    tl_skip("the thread sanitizer allows no new threads in a child of a process that had some");
#endif
    tl_cluster_start(&cluster, 2);
    make_folder();
    file_of(&cluster, "m", path);
    snprintf(backup, sizeof backup, "%s.bak", path);
    for (int round = 0; round < rounds(); round++) {
        pid_t child = fork();
        if (child == 0) {
            run_child(&cluster);
        }
        tl_send_some(&cluster, sent, 20);
        sent += 20;
        TL_CHECK(tl_wait(is_written, path, 10000));
        usleep((useconds_t)(rand() % 120000)); /* some moment around a write */
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        TL_CHECK(count_in(path) == 2 || count_in(backup) == 2);
    }
    rmq_consumer *consumer = member(&cluster, "m", &seen[1]);
    tl_send_some(&cluster, sent, 10);
    for (int i = 0; i < 10; i++) {
        tl_seen_wait(&seen[1], i + 1, 10000);
    }
    printf("%d of %d messages again after the last kill\n", atomic_load(&seen[1].total) - 10, sent);
    rmq_consumer_destroy(consumer);
    remove_folder();
    tl_cluster_stop(&cluster);
}

static void a_file_of_java_is_read_and_kept(void)
{
    struct tl_cluster cluster;
    char path[256];
    char text[2048];
    rmq_admin *admin = NULL;
    rmq_error *err = NULL;
    rmq_queue_status *list = NULL;
    size_t count = 0;
    tl_cluster_start(&cluster, 1);
    make_folder();
    tl_send_some(&cluster, 0, 10);
    TL_OK(rmq_admin_create(cluster.namesrv, &admin, &err));
    TL_OK(rmq_admin_topic_status(admin, cluster.topic, 5000, &list, &count, &err));
    file_of(&cluster, "m", path);
    snprintf(text, sizeof text, "mkdir -p $(dirname %s)", path);
    TL_EQUAL(system(text), 0);
    FILE *file = fopen(path, "w");
    TL_CHECK(file != NULL);
    fprintf(file,
            "{\n\t\"offsetTable\":{{\n\t\t\t\"brokerName\":\"%s\",\n\t\t\t\"queueId\":0,"
            "\n\t\t\t\"topic\":\"%s\"\n\t\t}:7,"
            "{\n\t\t\t\"brokerName\":\"elsewhere\",\n\t\t\t\"queueId\":1,\n\t\t\t\"topic\":\"%"
            "s\"\n\t\t}:3\n\t}\n}",
            list[0].broker_name, cluster.topic, cluster.topic);
    fclose(file);
    rmq_consumer *consumer = member(&cluster, "m", &seen[0]);
    tl_seen_wait(&seen[0], 3, 10000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen[0].total), 3);
    TL_EQUAL(count_in(path), 2); /* a broker that is away now keeps its offset */
    rmq_admin_queue_status_free(list, count);
    rmq_admin_destroy(admin);
    remove_folder();
    tl_cluster_stop(&cluster);
}

static void a_relative_folder_stays_where_it_began_when_the_directory_changes(void)
{
    struct tl_cluster cluster;
    char path[256];
    int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tl_cluster_start(&cluster, 1);
    make_folder();
    file_of(&cluster, "m", path);
    TL_EQUAL(chdir(folder), 0);
    rmq_consumer_options options = broadcast_options(&cluster, "m", &seen[0]);
    options.local_offset_store_dir = ".";
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    TL_EQUAL(fchdir(home), 0);
    TL_EQUAL(close(home), 0);
    tl_send_some(&cluster, 0, 10);
    tl_seen_wait(&seen[0], 10, 10000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(access(path, R_OK), 0);
    remove_folder();
    tl_cluster_stop(&cluster);
}

static void a_shutdown_says_that_the_file_of_offsets_cannot_be_written(void)
{
    struct tl_cluster cluster;
    char text[80];
    tl_cluster_start(&cluster, 1);
    make_folder();
    snprintf(text, sizeof text, "%s/file", folder);
    FILE *file = fopen(text, "w"); /* no folder can be made below it, not by root either */
    TL_CHECK(file != NULL);
    fclose(file);
    rmq_consumer_options options = broadcast_options(&cluster, "m", &seen[0]);
    options.local_offset_store_dir = text;
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    tl_send_some(&cluster, 0, 10);
    tl_seen_wait(&seen[0], 10, 10000);
    TL_EQUAL(rmq_consumer_shutdown(consumer, 10000, NULL), RMQ_ERR_IO);
    TL_EQUAL(rmq_consumer_shutdown(consumer, 10000, NULL), RMQ_ERR_IO);
    rmq_consumer_destroy(consumer);
    remove_folder();
    tl_cluster_stop(&cluster);
}

/* ---- a broker that is away ---- */

struct assignment {
    rmq_consumer *consumer;
    const char *topic;
    const char *words;
    bool wanted;
};

static bool is_assigned(void *arg)
{
    const struct assignment *assignment = arg;
    char *text = NULL;
    bool found = rmq_consumer_assignment(assignment->consumer, &text, NULL) == RMQ_OK &&
                 strstr(text, assignment->words) != NULL;
    rmq_string_free(text);
    return found == assignment->wanted;
}

static bool is_total(void *arg)
{
    return atomic_load(&seen[0].total) >= *(int *)arg;
}

static void wait_total(int total)
{
    TL_CHECK(tl_wait(is_total, &total, 20000));
}

/* What was seen may be in its handler's hands still. */
static bool is_done(void *arg)
{
    const struct assignment *assignment = arg;
    for (int32_t q = 0; q < 2; q++) {
        int64_t lag = -1;
        if (rmq_consumer_lag(assignment->consumer, assignment->topic, "away", q, &lag, NULL) !=
                RMQ_OK ||
            lag != 0) {
            return false;
        }
    }
    return true;
}

/* Two names for one broker: each message comes under both while both are there. */
static void a_broker_that_is_away_for_a_while_costs_and_repeats_nothing(void)
{
    struct tl_cluster cluster;
    char both[256];
    char one[128];
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    make_folder();
    struct tl_namesrv *namesrv = tl_namesrv_start();
    snprintf(one, sizeof one, "here@%s", rmq_broker_addr(cluster.broker));
    snprintf(both, sizeof both, "%s,away@%s", one, rmq_broker_addr(cluster.broker));
    tl_namesrv_brokers(namesrv, NULL, both, 2);
    rmq_consumer_options options = broadcast_options(&cluster, "m", &seen[0]);
    options.namesrv_addr = tl_namesrv_addr(namesrv);
    options.poll_name_server_interval_ms = 100;
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    struct assignment away = {consumer, cluster.topic, " away ", true};
    tl_send_some(&cluster, 0, 50);
    wait_total(100);
    TL_CHECK(tl_wait(is_done, &away, 20000));
    tl_namesrv_brokers(namesrv, NULL, one, 2);
    away.wanted = false;
    TL_CHECK(tl_wait(is_assigned, &away, 20000));
    tl_send_some(&cluster, 50, 30);
    wait_total(130);
    tl_namesrv_brokers(namesrv, NULL, both, 2);
    wait_total(160);
    tl_send_some(&cluster, 80, 1);
    wait_total(162);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen[0].total), 162);
    TL_EQUAL(atomic_load(&seen[0].different), 81);
    tl_namesrv_stop(namesrv);
    remove_folder();
    tl_cluster_stop(&cluster);
}

/* ---- a start that another thread overtakes ---- */

struct slow_start {
    rmq_consumer *consumer;
    _Atomic pid_t thread;
    rmq_status status;
};

static void *start_slowly(void *arg)
{
    struct slow_start *slow = arg;
    atomic_store(&slow->thread, gettid());
    slow->status = rmq_consumer_start(slow->consumer, NULL);
    return NULL;
}

/* Asleep: in the file that it opens. */
static bool sleeps(void *arg)
{
    pid_t thread = atomic_load(&((struct slow_start *)arg)->thread);
    char path[64];
    char state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = thread ? fopen(path, "re") : NULL;
    bool read = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file) {
        (void)fclose(file);
    }
    return read && state == 'S';
}

/* The offset file is a pipe, so the start waits until there is a writer. */
static void a_start_that_a_shutdown_overtakes_starts_nothing(void)
{
    struct tl_cluster cluster;
    struct slow_start slow = {0};
    rmq_error *err = NULL;
    pthread_t thread;
    char path[256];
    char command[600];
    tl_cluster_start(&cluster, 1);
    make_folder();
    file_of(&cluster, "m", path);
    snprintf(command, sizeof command, "mkdir -p $(dirname %s) && mkfifo %s", path, path);
    TL_EQUAL(system(command), 0);
    rmq_consumer_options options = broadcast_options(&cluster, "m", &seen[0]);
    TL_OK(rmq_consumer_create(&options, &slow.consumer, &err));
    TL_OK(rmq_consumer_subscribe(slow.consumer, cluster.topic, "*", &err));
    TL_EQUAL(pthread_create(&thread, NULL, start_slowly, &slow), 0);
    TL_CHECK(tl_wait(sleeps, &slow, 20000));
    TL_OK(rmq_consumer_shutdown(slow.consumer, 0, &err));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    TL_CHECK(fd >= 0);
    TL_EQUAL(close(fd), 0);
    TL_EQUAL(pthread_join(thread, NULL), 0);
    TL_EQUAL(slow.status, RMQ_ERR_CLOSED);
    tl_send_some(&cluster, 0, 10);
    rmq_consumer_destroy(slow.consumer);
    TL_EQUAL(atomic_load(&seen[0].total), 0);
    remove_folder();
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(each_member_gets_every_message_and_goes_on_where_it_stopped),
        TL_CASE(a_message_that_fails_is_given_up),
        {"a_spoilt_file_is_replaced_by_its_backup", a_spoilt_file_is_replaced_by_its_backup, 120},
        {"a_kill_leaves_a_whole_file", a_kill_leaves_a_whole_file, 600},
        TL_CASE(a_broker_that_is_away_for_a_while_costs_and_repeats_nothing),
        TL_CASE(a_file_of_java_is_read_and_kept),
        TL_CASE(a_relative_folder_stays_where_it_began_when_the_directory_changes),
        TL_CASE(a_shutdown_says_that_the_file_of_offsets_cannot_be_written),
        TL_CASE(a_start_that_a_shutdown_overtakes_starts_nothing),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
