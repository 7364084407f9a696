/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What a child of fork has of a store, and what it keeps from others. */
#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

Suite *fork_suite(void);

#define CHILD_S 120 /* a child that nobody ends is gone then */

static struct fixture fix;

/* Descriptors of files below the store, in this process; -1 when that cannot be known. Makes no call
 * of Check. */
static int descriptors(void)
{
    char path[300];
    char target[2 * FIXTURE_PATH];
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) {
        return -1;
    }
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        count += strstr(target, fix.dir) != NULL;
    }
    closedir(dir);
    return count;
}

/* No thread of the store opens anything meanwhile. */
static void begin_quietly(void)
{
    fixture_begin(&fix);
    fix.options.flush_interval_commit_log_ms = 3600000;
    fix.options.flush_interval_consume_queue_ms = 3600000;
    fix.options.clean_resource_interval_ms = 3600000;
}

START_TEST(a_child_has_no_descriptor_of_the_store)
{
    int status = 0;
    begin_quietly();
    for (unsigned i = 0; i < 2; i++) { /* with a log file that is made, and one that is found */
        fixture_open(&fix);
        struct rq_msg msg = fixture_msg("T", 0, 100, 2 * i, NULL);
        fixture_append(&fix, &msg);
        ck_assert_int_eq(descriptors(), 4); /* two locks, and the log twice */
        pid_t child = fork();
        if (child == 0) {
            _exit(descriptors() == 0 ? 0 : 1);
        }
        ck_assert_int_gt(child, 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(descriptors(), 4);
        msg = fixture_msg("T", 0, 100, 2 * i + 1, NULL);
        fixture_append(&fix, &msg);
        fixture_close(&fix);
        ck_assert_int_eq(descriptors(), 0);
    }
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 4, 0);
    fixture_end(&fix);
}
END_TEST

/* Opens the store, forks a child that lives on and tells its id, and waits to be killed. The child
 * tells it itself: by then it has done what a fork has to do in it. */
static void own_the_store(int out)
{
    struct rq_store_put put;
    struct rq_msg msg = fixture_msg("T", 0, 100, 0, NULL);
    if (rq_store_open(&fix.options, &fix.store, NULL) != RMQ_OK ||
        rq_store_append(fix.store, &msg, &put) != RQ_PUT_OK) {
        _exit(1);
    }
    pid_t child = fork();
    alarm(CHILD_S);
    if (child == 0) {
        child = getpid();
        if (write(out, &child, sizeof child) != sizeof child) {
            _exit(1);
        }
    }
    for (;;) {
        pause();
    }
}

START_TEST(a_child_that_outlives_a_killed_broker_does_not_hold_its_store)
{
    int fds[2];
    pid_t child = 0;
    fixture_begin(&fix);
    ck_assert_int_eq(pipe(fds), 0);
    pid_t owner = fork();
    if (owner == 0) {
        own_the_store(fds[1]);
    }
    close(fds[1]);
    ck_assert_int_eq(read(fds[0], &child, sizeof child), sizeof child);
    ck_assert_int_eq(kill(owner, SIGKILL), 0);
    ck_assert_int_eq(waitpid(owner, NULL, 0), owner);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 1, 0);
    ck_assert_int_eq(kill(child, SIGKILL), 0); /* it was there all the time */
    close(fds[0]);
    fixture_end(&fix);
}
END_TEST

Suite *fork_suite(void)
{
    Suite *suite = suite_create("fork");
    TCase *tc = tcase_create("fork");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_child_has_no_descriptor_of_the_store);
    tcase_add_test(tc, a_child_that_outlives_a_killed_broker_does_not_hold_its_store);
    suite_add_tcase(suite, tc);
    return suite;
}
