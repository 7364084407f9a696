/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A broker that is killed (SIGKILL) while messages wait for their time and transactions are open,
 * and started again over its store: what was promised comes, once, not before its time, and nothing
 * that was rolled back. The broker is a process of its own: `rmq broker`, or the one of
 * RMQ_NAMESRV when RMQ_BROKER_CONTROL names a program that does "kill" and "start".
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/port.h"
#include "lib/usage.h"

#define WAIT_MS  60000
#define EARLY_MS 1100 /* a Java broker counts in seconds, and may be early by one */
#define TIMED    40
#define LEVEL    10 /* messages with a delay level, in a topic of their own */
#define OPEN     30

struct servers {
    const char *control; /* NULL: the broker is this test's */
    rmq_namesrv *namesrv;
    pid_t pid;
    char port[16];
    char store[64];
    struct tl_cluster cluster;
};

static struct tl_seen seen;
static atomic_int too_early;

/* Only what may be called in the child of a process with threads. */
static void run_broker(char *const words[], int out)
{
    (void)dup2(out, STDOUT_FILENO);
    execv(words[0], words);
    _exit(127);
}

static void wait_until_ready(int fd)
{
    char line[512];
    FILE *in = fdopen(fd, "r");
    TL_CHECK(in != NULL);
    while (fgets(line, sizeof line, in) != NULL) {
        if (strncmp(line, "ready", 5) == 0) {
            (void)fclose(in);
            return;
        }
    }
    tl_fail(__FILE__, __LINE__, "the broker did not start");
}

static void tell_control(const struct servers *servers, const char *verb)
{
    char command[512];
    snprintf(command, sizeof command, "%s %s", servers->control, verb);
    TL_EQUAL(system(command), 0);
}

static void launch_broker(struct servers *servers)
{
    const char *build = getenv("B");
    char command[256], store[128], port[64];
    int fds[2];
    snprintf(command, sizeof command, "%s/rmq", build ? build : "build/release");
    snprintf(store, sizeof store, "storePathRootDir=%s", servers->store);
    snprintf(port, sizeof port, "listenPort=%s", servers->port);
    char *const words[] = {command, "broker",
                           "-n",    servers->cluster.namesrv,
                           "--set", store,
                           "--set", port,
                           "--set", "brokerIP1=127.0.0.1",
                           "--set", "transactionTimeOut=100",
                           "--set", "transactionCheckInterval=100",
                           "--set", "transactionCheckMax=100000",
                           "--set", "messageDelayLevel=2s",
                           NULL};
    TL_EQUAL(pipe(fds), 0);
    servers->pid = fork();
    if (servers->pid == 0) {
        run_broker(words, fds[1]);
    }
    TL_CHECK(servers->pid > 0);
    close(fds[1]);
    wait_until_ready(fds[0]);
}

/* A real broker takes connections before the name server has heard of it. */
static void wait_for_route(const struct servers *servers)
{
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    char *route = NULL;
    int64_t deadline = tl_now_ms() + WAIT_MS;
    TL_OK(rmq_admin_create(servers->cluster.namesrv, &admin, &err));
    while (rmq_admin_topic_route(admin, servers->cluster.topic, WAIT_MS, &route, NULL) != RMQ_OK) {
        TL_CHECK(tl_now_ms() < deadline);
        usleep(10000);
    }
    rmq_string_free(route);
    rmq_admin_destroy(admin);
}

static void start_broker(struct servers *servers)
{
    if (servers->control) {
        tell_control(servers, "start");
    } else {
        launch_broker(servers);
    }
    wait_for_route(servers);
}

static void kill_broker(struct servers *servers)
{
    if (servers->control) {
        tell_control(servers, "kill");
        return;
    }
    TL_EQUAL(kill(servers->pid, SIGKILL), 0);
    TL_EQUAL(waitpid(servers->pid, NULL, 0), servers->pid);
}

static void start_own(struct servers *servers)
{
    rmq_error *err = NULL;
    TL_CHECK(mkdtemp(servers->store) != NULL);
    TL_OK(rmq_namesrv_start(NULL, 0, &servers->namesrv, &err));
    snprintf(servers->cluster.namesrv, sizeof servers->cluster.namesrv, "%s",
             rmq_namesrv_addr(servers->namesrv));
    launch_broker(servers);
}

static void open_servers(struct servers *servers, const char *topic)
{
    const char *namesrv = getenv("RMQ_NAMESRV");
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    *servers =
        (struct servers){.control = getenv("RMQ_BROKER_CONTROL"), .store = "/tmp/rmq-kill-XXXXXX"};
    snprintf(servers->port, sizeof servers->port, "%d", tl_port_kept(NULL, 0));
    snprintf(servers->cluster.topic, sizeof servers->cluster.topic, "%s", topic);
    snprintf(servers->cluster.group, sizeof servers->cluster.group, "%s-group", topic);
    if (namesrv && !servers->control) {
        tl_skip("the broker is not this test's");
    }
    if (servers->control) {
        TL_CHECK(namesrv != NULL);
        snprintf(servers->cluster.namesrv, sizeof servers->cluster.namesrv, "%s", namesrv);
    } else {
        start_own(servers);
    }
    TL_OK(rmq_admin_create(servers->cluster.namesrv, &admin, &err));
    TL_OK(rmq_admin_create_topic(admin, NULL, servers->cluster.topic, 2, 2, 6, WAIT_MS, &err));
    rmq_admin_destroy(admin);
}

static void close_servers(struct servers *servers)
{
    char command[128];
    if (servers->control) {
        return;
    }
    kill_broker(servers);
    rmq_namesrv_stop(servers->namesrv);
    snprintf(command, sizeof command, "rm -rf %s", servers->store);
    TL_EQUAL(system(command), 0);
}

static rmq_message *message_of(const char *topic, int n, int64_t due_ms)
{
    char text[32];
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    TL_OK(rmq_message_create(topic, &message, &err));
    snprintf(text, sizeof text, "%d", n);
    TL_OK(rmq_message_set_property(message, "n", text));
    snprintf(text, sizeof text, "%lld", (long long)due_ms);
    TL_OK(rmq_message_set_property(message, "due", text));
    TL_OK(rmq_message_copy_body(message, "body", 4));
    return message;
}

/* ---- messages that wait ---- */

/* user: the servers. */
static rmq_consume_result look_at_time(const rmq_message_view *const *messages, size_t count,
                                       rmq_consume_context *context, void *user)
{
    const struct servers *servers = user;
    for (size_t i = 0; i < count; i++) {
        int64_t due_ms = atoll(rmq_message_view_property(messages[i], "due"));
        atomic_fetch_add(&too_early, tl_wall_ms() < due_ms - (servers->control ? EARLY_MS : 0));
    }
    return tl_seen_listener(messages, count, context, &seen);
}

static void send_timed(const struct tl_cluster *cluster, const char *level_topic, int64_t first_ms)
{
    rmq_error *err = NULL;
    rmq_producer *producer = tl_producer(cluster);
    for (int n = 0; n < TIMED + LEVEL; n++) {
        int64_t due_ms = n < TIMED ? first_ms + 50 * n : tl_wall_ms() + 2000;
        rmq_message *message = message_of(n < TIMED ? cluster->topic : level_topic, n, due_ms);
        TL_OK(n < TIMED ? rmq_message_set_deliver_time_ms(message, due_ms)
                        : rmq_message_set_delay_level(message, 1));
        TL_OK(rmq_producer_send(producer, message, WAIT_MS, NULL, &err));
        rmq_message_destroy(message);
    }
    rmq_producer_destroy(producer);
}

static void messages_that_wait_survive_a_kill(void)
{
    static struct servers servers;
    struct tl_cluster level = {.topic = "KillLevel", .group = "kill-level-group"};
    open_servers(&servers, "KillTimed");
    snprintf(level.namesrv, sizeof level.namesrv, "%s", servers.cluster.namesrv);
    send_timed(&servers.cluster, level.topic, tl_wall_ms() + 500);
    rmq_consumer *consumer = tl_consumer(&servers.cluster, "*", look_at_time, &servers);
    rmq_consumer *other = tl_consumer(&level, "*", look_at_time, &servers);
    for (int round = 1; round <= 2; round++) {
        tl_seen_wait(&seen, 8 * round, WAIT_MS); /* some have come, most wait */
        kill_broker(&servers);
        start_broker(&servers);
    }
    tl_seen_wait(&seen, TIMED + LEVEL, WAIT_MS);
    rmq_consumer_destroy(other);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&too_early), 0);
    /* Each once; those of a Java broker, and those by level of both, may come again after a
     * kill. */
    int64_t timed = tl_stored(servers.cluster.namesrv, servers.cluster.topic);
    TL_CHECK(servers.control ? timed >= TIMED : timed == TIMED);
    TL_CHECK(tl_stored(servers.cluster.namesrv, level.topic) >= LEVEL);
    close_servers(&servers);
}

/* ---- transactions ---- */

struct checker {
    atomic_bool answers;
    atomic_int ended_again; /* questions about a transaction that had been ended */
};

/* By thirds committed, rolled back and left open. */
static rmq_transaction_state third_of(int n)
{
    static const rmq_transaction_state states[] = {RMQ_TRANSACTION_COMMIT, RMQ_TRANSACTION_ROLLBACK,
                                                   RMQ_TRANSACTION_UNKNOWN};
    return states[n % 3];
}

static rmq_transaction_state check(const rmq_message_view *message, void *user)
{
    struct checker *checker = user;
    rmq_transaction_state state = third_of(atoi(rmq_message_view_property(message, "n")));
    if (state != RMQ_TRANSACTION_UNKNOWN) {
        atomic_fetch_add(&checker->ended_again, 1);
        return state;
    }
    return atomic_load(&checker->answers) ? RMQ_TRANSACTION_COMMIT : RMQ_TRANSACTION_UNKNOWN;
}

static rmq_producer *producer_of(const struct servers *servers, struct checker *checker)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = "kill-producers";
    options.namesrv_addr = servers->cluster.namesrv;
    options.transaction_check = check;
    options.transaction_check_user = checker;
    options.heartbeat_broker_interval_ms = 200;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static rmq_transaction_state by_thirds(const rmq_message *message, const char *id, void *user)
{
    (void)id;
    (void)user;
    return third_of(atoi(rmq_message_property(message, "n")));
}

static void tell(const rmq_send_result *result, const rmq_error *err, void *user)
{
    (void)result;
    (void)err;
    atomic_store((atomic_bool *)user, true);
}

static bool is_told(void *told)
{
    return atomic_load((atomic_bool *)told);
}

/* While the broker is away: the callback of a send that fails comes behind all that was asked
 * before. */
static void wait_for_callbacks(const struct servers *servers, rmq_producer *producer)
{
    static atomic_bool told;
    rmq_error *err = NULL;
    rmq_send_options options;
    rmq_send_options_init(&options, sizeof options);
    options.timeout_ms = 1000;
    rmq_message *message = message_of(servers->cluster.topic, OPEN, 0);
    TL_OK(rmq_producer_send_async_with(producer, message, &options, tell, &told, &err));
    TL_CHECK(tl_wait(is_told, &told, WAIT_MS));
    rmq_message_destroy(message);
}

static void open_transactions_survive_a_kill(void)
{
    static struct servers servers;
    static struct checker checker;
    rmq_error *err = NULL;
    open_servers(&servers, "KillOpen");
    rmq_producer *producer = producer_of(&servers, &checker);
    /* The last one is committed: who has received it knows that the ends before it were heard. */
    for (int n = OPEN - 1; n >= 0; n--) {
        rmq_message *message = message_of(servers.cluster.topic, n, 0);
        TL_OK(rmq_producer_send_in_transaction(producer, message, by_thirds, NULL, WAIT_MS, NULL,
                                               NULL, &err));
        rmq_message_destroy(message);
    }
    rmq_consumer *consumer = tl_consumer(&servers.cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, OPEN / 3, WAIT_MS);
    kill_broker(&servers);
    wait_for_callbacks(&servers, producer);
    /* a slow machine may be asked between half and end */
    int before = atomic_load(&checker.ended_again);
    start_broker(&servers);
    atomic_store(&checker.answers, true);
    tl_seen_wait(&seen, OPEN / 3 * 2, WAIT_MS);
    rmq_producer_destroy(producer);
    rmq_consumer_destroy(consumer);
    for (int n = 0; n < OPEN; n++) {
        TL_EQUAL(atomic_load(&seen.times[n]) > 0, n % 3 != 1);
    }
    /* A Java broker notes ends seconds later: those that it lost it asks about, and takes again. */
    int64_t committed = tl_stored(servers.cluster.namesrv, servers.cluster.topic);
    TL_CHECK(servers.control || atomic_load(&checker.ended_again) == before);
    TL_CHECK(servers.control ? committed >= OPEN / 3 * 2 : committed == OPEN / 3 * 2);
    close_servers(&servers);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"messages_that_wait_survive_a_kill", messages_that_wait_survive_a_kill, 170},
        {"open_transactions_survive_a_kill", open_transactions_survive_a_kill, 170},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
