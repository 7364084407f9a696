/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Messages to send: what setters take and refuse, who owns a body, unique ids. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "client/message.h"
#include "client/unique_id.h"
#include "wire/msgid.h"

Suite *message_suite(void);

static rmq_message *make(void)
{
    rmq_message *message = NULL;
    ck_assert_int_eq(rmq_message_create("Topic", &message, NULL), RMQ_OK);
    return message;
}

START_TEST(topics_are_checked)
{
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    char longest[129];
    memset(longest, 't', 128);
    longest[128] = '\0';
    const char *bad[] = {NULL, "", "a b", "a/b", "t\xc3\xa9", longest};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(rmq_message_create(bad[i], &message, &err), RMQ_ERR_INVALID);
    }
    rmq_error_destroy(err);
    longest[127] = '\0';
    ck_assert_int_eq(rmq_message_create(longest, &message, NULL), RMQ_OK);
    ck_assert_str_eq(rmq_message_topic(message), longest);
    rmq_message_destroy(message);
    ck_assert_int_eq(rmq_message_create("%RETRY%g", &message, NULL), RMQ_OK);
    rmq_message_destroy(message);
    rmq_message_destroy(NULL);
}
END_TEST

START_TEST(properties_are_kept_replaced_and_removed)
{
    rmq_message *message = make();
    ck_assert_str_eq(rmq_message_tag(message), "");
    ck_assert_int_eq(rmq_message_set_tag(message, "a"), RMQ_OK);
    ck_assert_int_eq(rmq_message_add_key(message, "k1"), RMQ_OK);
    ck_assert_int_eq(rmq_message_set_property(message, "name", "value"), RMQ_OK);
    ck_assert_int_eq(rmq_message_set_tag(message, "another tag"), RMQ_OK);
    ck_assert_int_eq(rmq_message_add_key(message, "k2"), RMQ_OK);
    ck_assert_int_eq(rmq_message_set_property(message, "name", "other"), RMQ_OK);
    ck_assert_str_eq(rmq_message_tag(message), "another tag");
    ck_assert_str_eq(rmq_message_keys(message), "k1 k2");
    ck_assert_str_eq(rmq_message_property(message, "name"), "other");
    ck_assert_str_eq(rmq_message_property(message, "none"), "");
    ck_assert_int_eq(rmq_message_set_tag(message, ""), RMQ_OK);
    ck_assert_str_eq(rmq_message_tag(message), "");
    ck_assert_str_eq(rmq_message_keys(message), "k1 k2");
    rmq_message_destroy(message);
}
END_TEST

START_TEST(many_properties_move_to_memory_of_their_own)
{
    rmq_message *message = make();
    char name[32], value[64];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "name-%d", i);
        snprintf(value, sizeof value, "value-%d", i * 7);
        ck_assert_int_eq(rmq_message_set_property(message, name, value), RMQ_OK);
    }
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "name-%d", i);
        snprintf(value, sizeof value, "value-%d", i * 7);
        ck_assert_str_eq(rmq_message_property(message, name), value);
    }
    ck_assert_str_eq(rmq_message_topic(message), "Topic");
    char *huge = malloc(70000);
    memset(huge, 'x', 69999);
    huge[69999] = '\0';
    ck_assert_int_eq(rmq_message_set_property(message, "huge", huge), RMQ_ERR_TOO_LARGE);
    ck_assert_str_eq(rmq_message_property(message, "huge"), "");
    free(huge);
    rmq_message_destroy(message);
}
END_TEST

/* What getters return is the message's own memory, which a setter may move. */
START_TEST(texts_of_a_message_may_be_given_back_to_it)
{
    rmq_message *message = make();
    char value[100];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    ck_assert_int_eq(rmq_message_set_property(message, "a", "short"), RMQ_OK);
    ck_assert_int_eq(rmq_message_set_property(message, "b", value), RMQ_OK);
    ck_assert_int_eq(rmq_message_set_property(message, "a", rmq_message_property(message, "b")),
                     RMQ_OK);
    ck_assert_int_eq(rmq_message_set_property(message, "c", rmq_message_property(message, "a")),
                     RMQ_OK);
    ck_assert_int_eq(rmq_message_set_property(message, "b", rmq_message_property(message, "b")),
                     RMQ_OK);
    ck_assert_int_eq(rmq_message_set_tag(message, rmq_message_property(message, "c")), RMQ_OK);
    ck_assert_int_eq(rmq_message_add_key(message, rmq_message_tag(message)), RMQ_OK);
    ck_assert_str_eq(rmq_message_property(message, "a"), value);
    ck_assert_str_eq(rmq_message_property(message, "b"), value);
    ck_assert_str_eq(rmq_message_property(message, "c"), value);
    ck_assert_str_eq(rmq_message_tag(message), value);
    ck_assert_str_eq(rmq_message_keys(message), value);
    rmq_message_destroy(message);
}
END_TEST

START_TEST(what_the_protocol_cannot_carry_is_refused)
{
    rmq_message *message = make();
    ck_assert_int_eq(rmq_message_set_tag(message, "a\001b"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_add_key(message, "two words"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_add_key(message, ""), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_add_key(message, "a\002"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_property(message, "TAGS", "x"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_property(message, "UNIQ_KEY", "x"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_property(message, "DELAY", "1"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_property(message, "", "x"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_property(message, " ", "x"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_property(message, "a", ""), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_property(message, "a", "\t"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_property(message, "a\001", "x"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_property(message, "a", "x\002"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_delay_level(message, -1), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_delay_level(message, 19), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_set_delay_level(message, 18), RMQ_OK);
    ck_assert_int_eq(rmq_message_set_tag(NULL, "a"), RMQ_ERR_INVALID);
    ck_assert_int_eq(rmq_message_copy_body(message, NULL, 1), RMQ_ERR_INVALID);
    rmq_message_destroy(message);
}
END_TEST

static void count_free(void *data, void *user)
{
    free(data);
    ++*(int *)user;
}

START_TEST(a_body_belongs_to_whom_the_verb_says)
{
    rmq_message *message = make();
    char text[] = "hello";
    size_t size = 9;
    int freed = 0;
    ck_assert_ptr_null(rmq_message_body(message, &size));
    ck_assert_uint_eq(size, 0);
    ck_assert_int_eq(rmq_message_copy_body(message, text, 5), RMQ_OK);
    text[0] = 'J';
    ck_assert(memcmp(rmq_message_body(message, &size), "hello", 5) == 0 && size == 5);
    ck_assert_int_eq(rmq_message_borrow_body(message, text, 5), RMQ_OK);
    ck_assert_ptr_eq(rmq_message_body(message, &size), text);
    char *mine = malloc(8);
    memset(mine, 'm', 8);
    ck_assert_int_eq(rmq_message_take_body(message, mine, 8, count_free, &freed), RMQ_OK);
    ck_assert_ptr_eq(rmq_message_body(message, &size), mine);
    struct rq_body *sent = rq_body_retain(message->body);
    ck_assert_int_eq(rmq_message_copy_body(message, text, 1), RMQ_OK);
    ck_assert_int_eq(freed, 0); /* a send still has it */
    rq_body_release(sent);
    ck_assert_int_eq(freed, 1);
    rmq_message_destroy(message);
}
END_TEST

START_TEST(a_copy_has_a_borrowed_body_of_its_own)
{
    rmq_message *message = make();
    size_t size = 0;
    ck_assert_int_eq(rmq_message_copy_body(message, "hello", 5), RMQ_OK);
    rmq_message *copy = rq_message_copy(message);
    ck_assert_ptr_eq(copy->body, message->body);
    rmq_message_destroy(copy);
    char text[] = "borrowed";
    ck_assert_int_eq(rmq_message_borrow_body(message, text, 8), RMQ_OK);
    copy = rq_message_copy(message);
    memset(text, 'X', 8);
    ck_assert(memcmp(rmq_message_body(copy, &size), "borrowed", 8) == 0 && size == 8);
    rmq_message_destroy(copy);
    rmq_message_destroy(message);
}
END_TEST

START_TEST(a_body_that_cannot_be_taken_stays_the_callers)
{
    rmq_message *message = make();
    int freed = 0;
    char *mine = malloc(8);
    rq_mem_count(1);
    rq_mem_fail_at(1);
    ck_assert_int_eq(rmq_message_take_body(message, mine, 8, count_free, &freed), RMQ_ERR_NOMEM);
    rq_mem_fail_at(0);
    rq_mem_count(0);
    ck_assert_int_eq(freed, 0);
    free(mine);
    rmq_message_destroy(message);
}
END_TEST

/* ---- unique ids ---- */

#define IDS     20000
#define THREADS 4

static char ids[THREADS + 1][IDS][RQ_UNIQUE_ID_MAX + 1];

static void *make_ids(void *arg)
{
    char(*out)[RQ_UNIQUE_ID_MAX + 1] = arg;
    for (int i = 0; i < IDS; i++) {
        rq_unique_id(rq_mono_ms(), out[i]);
    }
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

START_TEST(unique_ids_are_unique_across_threads_and_a_fork)
{
    pthread_t threads[THREADS];
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_ids, ids[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pid_t child = fork();
    if (child == 0) {
        make_ids(ids[THREADS]);
        const char *p = &ids[THREADS][0][0];
        for (size_t left = sizeof ids[THREADS]; left > 0;) {
            ssize_t n = write(fds[1], p, left);
            if (n <= 0) {
                _exit(1);
            }
            p += n;
            left -= (size_t)n;
        }
        _exit(0);
    }
    char *p = &ids[THREADS][0][0];
    for (size_t left = sizeof ids[THREADS]; left > 0;) {
        ssize_t n = read(fds[0], p, left);
        ck_assert(n > 0);
        p += n;
        left -= (size_t)n;
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    qsort(ids, (THREADS + 1) * IDS, sizeof ids[0][0], compare_ids);
    for (size_t i = 1; i < (THREADS + 1) * IDS; i++) {
        ck_assert_str_ne((&ids[0][0])[i - 1], (&ids[0][0])[i]);
    }
}
END_TEST

START_TEST(ids_made_with_an_old_time_are_unique)
{
    static char many[3 * 65536][RQ_UNIQUE_ID_MAX + 1];
    size_t n = sizeof many / sizeof many[0];
    int64_t now = rq_mono_ms();
    for (size_t i = 0; i < n; i++) {
        rq_unique_id(now - (int64_t)(i % 2), many[i]);
    }
    qsort(many, n, sizeof many[0], compare_ids);
    for (size_t i = 1; i < n; i++) {
        ck_assert_str_ne(many[i - 1], many[i]);
    }
}
END_TEST

/* More than the counter can tell apart within one ms. */
START_TEST(ids_taken_together_follow_one_another_and_are_nobody_elses)
{
    static char many[3 * 65536][RQ_UNIQUE_ID_MAX + 1];
    size_t n = sizeof many / sizeof many[0];
    struct rq_unique_ids taken;
    struct rq_unique_parts first, last;
    rq_unique_ids_take(&taken, rq_mono_ms(), n - 1);
    (void)rq_unique_id(rq_mono_ms(), many[n - 1]);
    for (size_t i = 0; i + 1 < n; i++) {
        ck_assert_uint_eq(rq_unique_ids_next(&taken), strlen(taken.text));
        memcpy(many[i], taken.text, sizeof taken.text);
    }
    ck_assert_int_eq(rq_msgid_parse_unique(rq_slice_str(many[0]), &first, NULL), RMQ_OK);
    ck_assert_int_eq(rq_msgid_parse_unique(rq_slice_str(many[n - 2]), &last, NULL), RMQ_OK);
    uint64_t begin = (uint64_t)first.month_ms << 16 | (uint16_t)first.counter;
    ck_assert_uint_eq((uint64_t)last.month_ms << 16 | (uint16_t)last.counter, begin + n - 2);
    qsort(many, n, sizeof many[0], compare_ids);
    for (size_t i = 1; i < n; i++) {
        ck_assert_str_ne(many[i - 1], many[i]);
    }
}
END_TEST

START_TEST(a_unique_id_tells_pid_and_time_as_java_reads_it)
{
    char id[RQ_UNIQUE_ID_MAX + 1];
    struct rq_unique_parts parts, later;
    int64_t now = rq_mono_ms();
    size_t n = rq_unique_id(now, id);
    ck_assert_uint_eq(n, strlen(id));
    ck_assert(n == RQ_MSGID_V4 || n == RQ_MSGID_V6);
    ck_assert_int_eq(rq_msgid_parse_unique(rq_slice(id, n), &parts, NULL), RMQ_OK);
    ck_assert_uint_eq(parts.pid, (uint16_t)getpid());
    ck_assert_uint_eq(rq_unique_id(now + 1000, id), n);
    ck_assert_int_eq(rq_msgid_parse_unique(rq_slice(id, n), &later, NULL), RMQ_OK);
    ck_assert_uint_eq(later.month_ms - parts.month_ms, 1000);
    ck_assert_uint_eq((uint16_t)(later.counter - parts.counter), 1);
    ck_assert(parts.month_ms < 31u * 86400000u);
}
END_TEST

Suite *message_suite(void)
{
    Suite *suite = suite_create("message");
    TCase *cases = tcase_create("message");
    tcase_set_timeout(cases, 30);
    tcase_add_test(cases, topics_are_checked);
    tcase_add_test(cases, properties_are_kept_replaced_and_removed);
    tcase_add_test(cases, many_properties_move_to_memory_of_their_own);
    tcase_add_test(cases, texts_of_a_message_may_be_given_back_to_it);
    tcase_add_test(cases, what_the_protocol_cannot_carry_is_refused);
    tcase_add_test(cases, a_body_belongs_to_whom_the_verb_says);
    tcase_add_test(cases, a_copy_has_a_borrowed_body_of_its_own);
    tcase_add_test(cases, a_body_that_cannot_be_taken_stays_the_callers);
    tcase_add_test(cases, unique_ids_are_unique_across_threads_and_a_fork);
    tcase_add_test(cases, ids_made_with_an_old_time_are_unique);
    tcase_add_test(cases, ids_taken_together_follow_one_another_and_are_nobody_elses);
    tcase_add_test(cases, a_unique_id_tells_pid_and_time_as_java_reads_it);
    suite_add_tcase(suite, cases);
    return suite;
}
