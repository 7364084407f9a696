/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Appending, reading back, reopening. */
#include <check.h>
#include <unistd.h>
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <rmq/log.h>
#include <rmq/store.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/jhash.h"
#include "base/sys.h"
#include "base/time.h"
#include "look.h"
#include "store/disk.h"
#include "store/record.h"

Suite *append_suite(void);

#define RECORD_OVERHEAD 92 /* with a topic of one character and no properties */

START_TEST(messages_are_read_back_under_their_numbers_also_after_a_restart)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    for (unsigned i = 0; i < 500; i++) {
        struct rq_msg msg = fixture_msg("T", (int)(i % 3), 100 + i, i / 3, "TAGS\1a\2");
        struct rq_store_put put = fixture_append(&fix, &msg);
        ck_assert_int_eq(put.queue_offset, i / 3);
    }
    fixture_check_queue(&fix, "T", 0, 167, 0);
    ck_assert(fixture_has(&fix, "abort"));
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, 167, 0);
    fixture_check_queue(&fix, "T", 1, 167, 0);
    fixture_check_queue(&fix, "T", 2, 166, 0);
    struct rq_msg msg = fixture_msg("T", 2, 10, 166, NULL);
    ck_assert_int_eq(fixture_append(&fix, &msg).queue_offset, 166);
    fixture_close(&fix);
    ck_assert(!fixture_has(&fix, "abort"));
    fixture_end(&fix);
}
END_TEST

START_TEST(a_record_has_exactly_the_java_layout)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    struct rq_msg msg = fixture_msg("Topic", 7, 5, 0, "TAGS\1a");
    msg.body = rq_slice_str("hello");
    msg.more_properties = rq_slice_str("K\1v\2");
    msg.reconsume_times = 3;
    msg.prepared_transaction_offset = 77;
    struct rq_store_put put = fixture_append(&fix, &msg);
    struct rq_store_ref ref;
    ck_assert(rq_store_view(fix.store, put.commit_log_offset, &ref));
    ck_assert_uint_eq(ref.n, 91 + 5 + 5 + 6 + 1 + 4);
    ck_assert_uint_eq(rq_load_be32(ref.p), ref.n);
    ck_assert_uint_eq(rq_load_be32(ref.p + 4), 0xDAA320A7);
    ck_assert_uint_eq(rq_load_be32(ref.p + 8), 907060870);
    ck_assert_uint_eq(rq_load_be32(ref.p + 12), 7);
    ck_assert_uint_eq(rq_load_be32(ref.p + 16), 5);
    ck_assert_uint_eq(rq_load_be64(ref.p + 40), 1700000000000);
    ck_assert_mem_eq(ref.p + 48, "\x0a\0\0\x01\0\0\x04\xd2", 8);
    ck_assert_uint_eq(rq_load_be64(ref.p + 56), (uint64_t)put.store_timestamp);
    ck_assert_mem_eq(ref.p + 64, "\x0a\0\0\x02\0\0\x2a\x9f", 8);
    ck_assert_uint_eq(rq_load_be32(ref.p + 72), 3);
    ck_assert_uint_eq(rq_load_be64(ref.p + 76), 77);
    ck_assert_mem_eq(ref.p + 84, "\0\0\0\5hello\5Topic\0\013TAGS\1a\2K\1v\2", 27);
    rq_store_ref_release(&ref);
    fixture_end(&fix);
}
END_TEST

START_TEST(wire_decodes_what_the_store_writes_with_every_kind_of_host_and_topic)
{
    struct fixture fix;
    char topic[200];
    fixture_begin(&fix);
    fixture_open(&fix);
    memset(topic, 'x', sizeof topic);
    topic[sizeof topic - 1] = '\0';
    for (int kind = 0; kind < 8; kind++) {
        struct rq_msg msg = fixture_msg(kind & 4 ? topic : "T", 0, 50, 0, "TAGS\1a\2");
        msg.born_host.len = kind & 1 ? 16 : 4;
        msg.store_host.len = kind & 2 ? 16 : 4;
        struct rq_store_put put = fixture_append(&fix, &msg);
        struct rq_store_ref ref;
        struct rq_msg back;
        ck_assert(rq_store_view(fix.store, put.commit_log_offset, &ref));
        struct rq_cursor c = rq_cursor(ref.p, ref.n);
        ck_assert_int_eq(rq_msg_decode(&c, &back, NULL), RMQ_OK);
        ck_assert_uint_eq(rq_cursor_left(&c), 0);
        ck_assert(rq_msg_crc_ok(&back));
        ck_assert(rq_host_equal(&back.born_host, &msg.born_host));
        ck_assert(rq_host_equal(&back.store_host, &msg.store_host));
        ck_assert(rq_slice_eq(back.topic, msg.topic));
        ck_assert(rq_slice_eq(back.properties, msg.properties));
        ck_assert_int_eq(back.commit_log_offset, put.commit_log_offset);
        ck_assert_int_eq(back.magic, kind & 4 ? RQ_MSG_MAGIC_V2 : RQ_MSG_MAGIC_V1);
        rq_store_ref_release(&ref);
    }
    fixture_end(&fix);
}
END_TEST

START_TEST(a_message_that_exactly_fits_fills_its_file_and_one_byte_more_goes_to_the_next)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    size_t fits = 65536 - RQ_RECORD_BLANK_BYTES - RECORD_OVERHEAD;
    fix.options.max_message_size = 70000;
    fixture_reopen(&fix);
    struct rq_msg msg = fixture_msg("T", 0, fits, 0, NULL);
    ck_assert_int_eq(fixture_append(&fix, &msg).commit_log_offset, 0);
    msg = fixture_msg("T", 0, fits - 1000, 1, NULL);
    ck_assert_int_eq(fixture_append(&fix, &msg).commit_log_offset, 65536);
    msg = fixture_msg("T", 0, 1000 - RECORD_OVERHEAD + 1, 2, NULL);
    ck_assert_int_eq(fixture_append(&fix, &msg).commit_log_offset, 2 * 65536);
    struct rq_store_put put;
    msg = fixture_msg("T", 0, fits + 1, 2, NULL);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_MESSAGE_ILLEGAL);
    ck_assert_str_ne(put.reason, "");
    struct rq_store_ref ref;
    ck_assert(rq_store_read_log(fix.store, 2 * 65536 - 1008, 8, &ref));
    ck_assert_uint_eq(rq_load_be32(ref.p), 1008);
    ck_assert_uint_eq(rq_load_be32(ref.p + 4), 0xCBD43194);
    rq_store_ref_release(&ref);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, 3, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_batch_is_stored_whole_with_consecutive_numbers_and_never_crosses_files)
{
    struct fixture fix;
    enum { COUNT = 10, SIZE = 2000 };
    static char bodies[COUNT][SIZE];
    struct rq_msg msgs[COUNT];
    int64_t offsets[COUNT];
    struct rq_store_put put;
    fixture_begin(&fix);
    fixture_open(&fix);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            msgs[i] = fixture_msg("T", 1, SIZE, round * COUNT + i, NULL);
            memcpy(bodies[i], msgs[i].body.p, SIZE);
            msgs[i].body.p = bodies[i];
        }
        ck_assert_int_eq(rq_store_append_batch(fix.store, msgs, COUNT, offsets, &put), RQ_PUT_OK);
        ck_assert_int_eq(put.queue_offset, round * COUNT);
        ck_assert_int_eq(put.commit_log_offset, offsets[0]);
        ck_assert_int_eq(offsets[0] / 65536, offsets[COUNT - 1] / 65536);
        ck_assert_int_eq(offsets[COUNT - 1] - offsets[0], (COUNT - 1) * (SIZE + RECORD_OVERHEAD));
    }
    rq_store_dispatch(fix.store);
    fixture_check_queue(&fix, "T", 1, 20 * COUNT, 0);
    msgs[3].queue_id = 2;
    ck_assert_int_eq(rq_store_append_batch(fix.store, msgs, COUNT, NULL, &put),
                     RQ_PUT_MESSAGE_ILLEGAL);
    msgs[3].queue_id = 1;
    msgs[9].properties = rq_slice(bodies, 32768);
    ck_assert_int_eq(rq_store_append_batch(fix.store, msgs, COUNT, NULL, &put),
                     RQ_PUT_PROPERTIES_SIZE_EXCEEDED);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 1, 20 * COUNT, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(limits_are_refused_with_a_reason_and_store_nothing)
{
    struct fixture fix;
    struct rq_store_put put;
    char topic[300];
    fixture_begin(&fix);
    fixture_open(&fix);
    struct rq_msg msg = fixture_msg("T", 0, 60001, 0, NULL);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_MESSAGE_ILLEGAL);
    ck_assert_ptr_nonnull(strstr(put.reason, "60001"));
    msg = fixture_msg("a/../b", 0, 1, 0, NULL);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_MESSAGE_ILLEGAL);
    msg = fixture_msg("..", 0, 1, 0, NULL);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_MESSAGE_ILLEGAL);
    msg = fixture_msg("T", -1, 1, 0, NULL);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_MESSAGE_ILLEGAL);
    msg = fixture_msg("T", 0, 1, 0, NULL);
    msg.body = rq_slice(NULL, 0);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_MESSAGE_ILLEGAL);
    memset(topic, 'x', sizeof topic);
    topic[256] = '\0';
    msg = fixture_msg(topic, 0, 1, 0, NULL);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_MESSAGE_ILLEGAL);
    struct rq_store_info info;
    rq_store_info(fix.store, &info);
    ck_assert_int_eq(info.max_commit_log_offset, 0);
    ck_assert_uint_eq(info.put_messages, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(prepared_and_rolled_back_records_have_no_number_and_no_queue_entry)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    const int32_t flags[] = {0, 4, 8, 12, 0};
    const int64_t numbers[] = {0, 0, 1, 0, 2};
    for (int i = 0; i < 5; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 10, (unsigned)numbers[i], NULL);
        msg.sys_flag = flags[i];
        ck_assert_int_eq(fixture_append(&fix, &msg).queue_offset, numbers[i]);
    }
    fixture_check_queue(&fix, "T", 0, 3, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(delayed_messages_have_their_delivery_time_as_tags_code)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    const char *properties[] = {"DELAY\1"
                                "2\2TAGS\1x\2",
                                "DELAY\1"
                                "99\2",
                                "TAGS\1TagA\2"};
    struct rq_store_put puts[3];
    for (int i = 0; i < 3; i++) {
        struct rq_msg msg = fixture_msg("SCHEDULE_TOPIC_XXXX", 1, 10, 0, properties[i]);
        puts[i] = fixture_append(&fix, &msg);
    }
    struct rq_store_entry entry;
    struct rq_slice topic = rq_slice_str("SCHEDULE_TOPIC_XXXX");
    ck_assert(rq_store_entry(fix.store, topic, 1, 0, &entry));
    ck_assert_int_eq(entry.tags_code, puts[0].store_timestamp + 5000);
    ck_assert(rq_store_entry(fix.store, topic, 1, 1, &entry));
    ck_assert_int_eq(entry.tags_code, puts[1].store_timestamp + 7200000);
    ck_assert(rq_store_entry(fix.store, topic, 1, 2, &entry));
    ck_assert_int_eq(entry.tags_code, 2598919);
    ck_assert_int_eq(rq_store_delay_level_max(fix.store), 18);
    ck_assert_int_eq(rq_store_delay_ms(fix.store, 18), 7200000);
    ck_assert_int_eq(rq_store_delay_ms(fix.store, 19), -1);
    fixture_end(&fix);
}
END_TEST

/* The only delayed message, of 5 s, is due 5 s after a time in [from, now]. */
static void check_due(struct fixture *fix, int64_t from)
{
    struct rq_store_entry entry;
    ck_assert(rq_store_entry(fix->store, rq_slice_str("SCHEDULE_TOPIC_XXXX"), 1, 0, &entry));
    ck_assert_int_ge(entry.tags_code, from + 5000);
    ck_assert_int_le(entry.tags_code, rq_wall_ms() + 5000);
}

static void count_ahead(rmq_log_level level, const char *line, void *user)
{
    (void)level;
    *(int *)user += strstr(line, "ahead_ms=") != NULL;
}

START_TEST(a_start_tells_that_the_clock_was_ahead)
{
    struct fixture fix;
    int told = 0;
    fixture_begin(&fix);
    fixture_open(&fix);
    struct rq_msg msg = fixture_msg("T", 0, 10, 0, NULL);
    rq_disk_set_clock_offset(rq_store_disk(fix.store), 3600000);
    int64_t then = fixture_append(&fix, &msg).store_timestamp;
    fixture_close(&fix);
    rmq_log_set(RMQ_LOG_WARN, count_ahead, &told);
    fixture_open(&fix);
    ck_assert_int_eq(told, 1);
    ck_assert_int_eq(fixture_append(&fix, &msg).store_timestamp, then);
    fixture_end(&fix);
    fixture_begin(&fix);
    fixture_open(&fix);
    fixture_append(&fix, &msg);
    fixture_reopen(&fix);
    ck_assert_int_eq(told, 1);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_delay_counts_from_now_when_the_clock_was_set_back)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    struct rq_msg msg = fixture_msg("T", 0, 10, 0, NULL);
    struct rq_msg delayed = fixture_msg("SCHEDULE_TOPIC_XXXX", 1, 10, 0, "DELAY\0012\002");
    rq_disk_set_clock_offset(rq_store_disk(fix.store), 3600000);
    fixture_append(&fix, &msg);
    rq_disk_set_clock_offset(rq_store_disk(fix.store), 0);
    int64_t began = rq_wall_ms();
    ck_assert_int_gt(fixture_append(&fix, &delayed).store_timestamp, began + 1800000);
    check_due(&fix, began);
    fixture_close(&fix);
    ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_WHOLE);
    ck_assert_int_eq(rq_sys_rmtree(fixture_path(&fix, "consumequeue")), 0);
    began = rq_wall_ms();
    fixture_open(&fix); /* an entry that is made anew counts from now, too */
    check_due(&fix, began);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_second_store_on_the_same_directory_is_refused)
{
    struct fixture fix;
    struct rq_store *second = NULL;
    rmq_error *err = NULL;
    fixture_begin(&fix);
    fixture_open(&fix);
    ck_assert_int_eq(rq_store_open(&fix.options, &second, &err), RMQ_ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "in use"));
    rmq_error_destroy(err);
    struct rq_msg msg = fixture_msg("T", 0, 10, 0, NULL);
    fixture_append(&fix, &msg);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, 1, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_second_store_on_the_same_commit_log_is_refused)
{
    struct fixture fix;
    struct fixture other;
    struct rq_store *second = NULL;
    rmq_store_options options;
    rmq_error *err = NULL;
    char log[FIXTURE_PATH + 16];
    fixture_begin(&fix);
    fixture_begin(&other);
    snprintf(log, sizeof log, "%s/commitlog", fix.dir);
    other.options.store_path_commit_log = log;
    fixture_open(&fix);
    struct rq_msg msg = fixture_msg("T", 0, 10, 0, NULL);
    fixture_append(&fix, &msg);
    ck_assert_int_eq(rq_store_open(&other.options, &second, &err), RMQ_ERR_EXISTS);
    ck_assert_msg(strstr(rmq_error_message(err), log), "%s", rmq_error_message(err));
    rmq_error_destroy(err);
    rmq_store_options_init(&options, sizeof options);
    options.commit_log_dir = log;
    ck_assert_int_eq(rmq_store_rebuild(other.dir, &options, NULL), RMQ_ERR_EXISTS);
    fixture_close(&fix);
    fixture_open(&other);
    fixture_check_queue(&other, "T", 0, 1, 0);
    ck_assert_int_eq(rq_store_open(&fix.options, &second, NULL), RMQ_ERR_EXISTS);
    fixture_end(&other);
    fixture_open(&fix); /* in which no file was made for it */
    fixture_check_queue(&fix, "T", 0, 1, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(references_outlive_the_store)
{
    struct fixture fix;
    struct rq_store_result result;
    fixture_begin(&fix);
    fixture_open(&fix);
    for (unsigned i = 0; i < 4; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 100, i, NULL);
        fixture_append(&fix, &msg);
    }
    fixture_get(&fix, "T", 0, 0, 32, &result);
    ck_assert_int_eq(result.msg_count, 4);
    ck_assert_uint_eq(result.ref_count, 1); /* neighbours in the log are one piece */
    fixture_close(&fix);
    rq_sys_rmtree(fix.dir);
    struct rq_record record;
    ck_assert_int_eq(rq_record_read(result.refs[0].p, result.refs[0].n, true, &record),
                     RQ_RECORD_GOOD);
    rq_store_result_release(&result);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_full_disk_refuses_messages_until_there_is_room)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    fixture_open(&fix);
    struct rq_msg msg = fixture_msg("T", 0, 30000, 0, NULL);
    fixture_append(&fix, &msg);
    rq_sys_fail(RQ_SYS_ALLOCATE, 1, ENOSPC, true);
    enum rq_put_status st = RQ_PUT_OK;
    int stored = 1;
    while (st == RQ_PUT_OK) {
        msg = fixture_msg("T", 0, 30000, (unsigned)stored, NULL);
        st = rq_store_append(fix.store, &msg, &put);
        stored += st == RQ_PUT_OK;
        ck_assert_int_lt(stored, 10);
    }
    ck_assert_int_eq(st, RQ_PUT_SERVICE_NOT_AVAILABLE);
    ck_assert_ptr_nonnull(strstr(put.reason, "disk full"));
    rq_store_dispatch(fix.store);
    rq_sys_fail(RQ_SYS_ALLOCATE, 0, 0, false);
    while (rq_store_append(fix.store, &msg, &put) != RQ_PUT_OK) {
        ck_assert_int_eq(put.status, RQ_PUT_SERVICE_NOT_AVAILABLE);
    }
    rq_store_dispatch(fix.store);
    while (rq_store_max_offset(fix.store, rq_slice_str("T"), 0) < stored + 1) {
        rq_store_dispatch(fix.store);
    }
    fixture_check_queue(&fix, "T", 0, stored + 1, 0);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, stored + 1, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(store_times_do_not_go_back)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    int64_t last = 0;
    for (unsigned i = 0; i < 100; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 10, i, NULL);
        int64_t time = fixture_append(&fix, &msg).store_timestamp;
        ck_assert_int_ge(time, last);
        last = time;
    }
    fixture_end(&fix);
}
END_TEST

/* The record as Java makes it: what stands in its last twenty bytes, computed bit by bit here. */
static uint32_t slow_crc(const char *p, size_t n)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        }
    }
    return ~crc & 0x7FFFFFFFu;
}

START_TEST(a_record_carries_a_crc_of_itself_when_that_is_switched_on)
{
    static const char *const properties[] = {NULL, "KEYS\1k\2", "KEYS\1k",
                                             "A\1b\2__CRC32#\0011234567890\2KEYS\1k\2"};
    struct fixture fix;
    fixture_begin(&fix);
    fix.options.enabled_append_prop_crc = true;
    fix.options.force_verify_prop_crc = true;
    fixture_open(&fix);
    for (unsigned i = 0; i < 4; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 100, i, properties[i]);
        struct rq_store_put put = fixture_append(&fix, &msg);
        struct rq_store_ref ref;
        ck_assert(rq_store_view(fix.store, put.commit_log_offset, &ref));
        char tail[21];
        snprintf(tail, sizeof tail, "__CRC32#\1%010u\2", 0);
        uint32_t crc = slow_crc(ref.p, ref.n - 20);
        for (int digit = 9; digit < 19; digit++, crc /= 10) {
            tail[digit] = (char)('0' + crc % 10);
        }
        ck_assert_mem_eq(ref.p + ref.n - 20, tail, 20);
        ck_assert_int_eq(ref.p[ref.n - 21] == 2, i != 0);
        rq_store_ref_release(&ref);
    }
    struct rq_msg batch[3];
    struct rq_store_put put;
    for (unsigned i = 0; i < 3; i++) {
        batch[i] = fixture_msg("T", 0, 100, 4, "KEYS\1k");
    }
    ck_assert_int_eq(rq_store_append_batch(fix.store, batch, 3, NULL, &put), RQ_PUT_OK);
    rq_store_dispatch(fix.store);
    fixture_crash(&fix);
    fixture_open(&fix);
    ck_assert_int_eq(rq_store_max_offset(fix.store, rq_slice_str("T"), 0), 7);
    fixture_crash(&fix);
    int fd = open(fixture_path(&fix, "commitlog/00000000000000000000"), O_WRONLY);
    /* the flag: no body CRC sees it */
    ck_assert_int_eq(pwrite(fd, "\377", 1, put.commit_log_offset + 17), 1);
    close(fd);
    fixture_open(&fix);
    struct rq_store_entry entry;
    ck_assert_int_eq(rq_store_max_offset(fix.store, rq_slice_str("T"), 0), 7);
    for (int number = 0; number < 7; number++) { /* that one is lost, and no other */
        ck_assert(rq_store_entry(fix.store, rq_slice_str("T"), 0, number, &entry) == (number != 4));
    }
    fixture_end(&fix);
}
END_TEST

START_TEST(a_store_with_relative_paths_stays_where_it_began_when_the_directory_changes)
{
    struct fixture fix;
    int home = open(".", O_RDONLY | O_DIRECTORY);
    fixture_begin(&fix);
    fix.options.store_path_root_dir = "store";
    fix.options.store_path_commit_log = "log";
    for (unsigned round = 0; round < 2; round++) {
        ck_assert_int_eq(chdir(fix.dir), 0);
        fixture_open(&fix);
        ck_assert_int_eq(mkdir("elsewhere", 0755), round == 0 ? 0 : -1);
        ck_assert_int_eq(chdir("elsewhere"), 0);
        for (unsigned i = 0; i < 100; i++) { /* more than one file of log and queue */
            struct rq_msg msg = fixture_msg("T", 0, 1000, round * 100 + i, "KEYS\1k");
            fixture_append(&fix, &msg);
        }
        fixture_close(&fix);
    }
    ck_assert_int_eq(chdir(fix.dir), 0);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 200, 0);
    ck_assert_int_eq(rmdir("elsewhere"), 0); /* nothing is in it */
    ck_assert_int_eq(fchdir(home), 0);
    close(home);
    fixture_end(&fix);
}
END_TEST

Suite *append_suite(void)
{
    Suite *suite = suite_create("append");
    TCase *tc = tcase_create("append");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, messages_are_read_back_under_their_numbers_also_after_a_restart);
    tcase_add_test(tc, a_record_has_exactly_the_java_layout);
    tcase_add_test(tc, wire_decodes_what_the_store_writes_with_every_kind_of_host_and_topic);
    tcase_add_test(tc,
                   a_message_that_exactly_fits_fills_its_file_and_one_byte_more_goes_to_the_next);
    tcase_add_test(tc, a_batch_is_stored_whole_with_consecutive_numbers_and_never_crosses_files);
    tcase_add_test(tc, limits_are_refused_with_a_reason_and_store_nothing);
    tcase_add_test(tc, prepared_and_rolled_back_records_have_no_number_and_no_queue_entry);
    tcase_add_test(tc, delayed_messages_have_their_delivery_time_as_tags_code);
    tcase_add_test(tc, a_start_tells_that_the_clock_was_ahead);
    tcase_add_test(tc, a_delay_counts_from_now_when_the_clock_was_set_back);
    tcase_add_test(tc, a_second_store_on_the_same_directory_is_refused);
    tcase_add_test(tc, a_second_store_on_the_same_commit_log_is_refused);
    tcase_add_test(tc, a_store_with_relative_paths_stays_where_it_began_when_the_directory_changes);
    tcase_add_test(tc, references_outlive_the_store);
    tcase_add_test(tc, a_full_disk_refuses_messages_until_there_is_room);
    tcase_add_test(tc, store_times_do_not_go_back);
    tcase_add_test(tc, a_record_carries_a_crc_of_itself_when_that_is_switched_on);
    suite_add_tcase(suite, tc);
    return suite;
}
