/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
#include "look.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

rmq_store *look_open(const struct fixture *fix)
{
    rmq_store *store = NULL;
    rmq_error *err = NULL;
    rmq_status st = rmq_store_open(fix->dir, NULL, &store, &err);
    ck_assert_msg(st == RMQ_OK, "open: %s", rmq_error_message(err));
    return store;
}

rmq_store_check look_verify(const struct fixture *fix)
{
    rmq_store *store = look_open(fix);
    rmq_store_check check;
    rmq_error *err = NULL;
    rmq_status st = rmq_store_verify(store, &check, sizeof check, &err);
    ck_assert_msg(st == RMQ_OK, "verify: %s", rmq_error_message(err));
    rmq_store_close(store);
    return check;
}

void look_make(struct fixture *fix)
{
    fixture_begin(fix);
    fixture_open(fix);
    for (int i = 0; i < LOOK_MESSAGES; i++) {
        char properties[64];
        snprintf(properties, sizeof properties,
                 "KEYS\001k%d all\002TAGS\001t%d\002UNIQ_KEY\001u%d\002", i, i % 5, i);
        struct rq_msg msg = fixture_msg("T", i % LOOK_QUEUES, 300, (unsigned)i, properties);
        fixture_append(fix, &msg);
    }
    fixture_close(fix);
}

void look_flip(const struct fixture *fix, const char *name, off_t at)
{
    char byte;
    int fd = open(fixture_path(fix, name), O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte = (char)(byte ^ 0x55);
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}
