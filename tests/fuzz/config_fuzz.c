/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Every JSON file: those of a broker, of a name server, and of a broadcasting consumer. The first
 * byte says which (see uses below), the others are the file. What was read is written, and that is
 * read again.
 */
#include "broker/groups.h"
#include "broker/offsets.h"
#include "broker/pop_order.h"
#include "broker/queue_mappings.h"
#include "broker/request_modes.h"
#include "broker/schedule.h"
#include "broker/topics.h"
#include "client/offset_store_local.h"
#include "fuzz/store_dir.h"
#include "namesrv/kv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[128];

static void use_topics(void)
{
    size_t count[2];
    for (int round = 0; round < 2; round++) {
        struct rq_topics topics;
        rq_topics_init(&topics);
        fuzz_require(rq_topics_set_path(&topics, path) == RMQ_OK);
        fuzz_require(rq_topics_load(&topics, NULL) == RMQ_OK);
        count[round] = rq_topics_count(&topics);
        topics.file.dirty = true;
        fuzz_require(rq_topics_persist(&topics, NULL) == RMQ_OK);
        rq_topics_free(&topics);
    }
    fuzz_require(count[0] == count[1]);
}

static void use_groups(void)
{
    for (int round = 0; round < 2; round++) {
        struct rq_groups groups;
        rq_groups_init(&groups);
        fuzz_require(rq_groups_set_path(&groups, path) == RMQ_OK);
        fuzz_require(rq_groups_load(&groups, NULL) == RMQ_OK);
        groups.file.dirty = true;
        fuzz_require(rq_groups_persist(&groups, NULL) == RMQ_OK);
        rq_groups_free(&groups);
    }
}

static void use_offsets(void)
{
    for (int round = 0; round < 2; round++) {
        struct rq_offsets offsets;
        rq_offsets_init(&offsets);
        fuzz_require(rq_offsets_set_path(&offsets, path) == RMQ_OK);
        fuzz_require(rq_offsets_load(&offsets, NULL) == RMQ_OK);
        offsets.file.dirty = true;
        fuzz_require(rq_offsets_persist(&offsets, NULL) == RMQ_OK);
        rq_offsets_free(&offsets);
    }
}

static void use_schedule(void)
{
    for (int round = 0; round < 2; round++) {
        struct rq_schedule schedule = {.level_count = 18};
        rq_mutex_init(&schedule.lock);
        rq_table_file_init(&schedule.file);
        fuzz_require(rq_table_file_set_path(&schedule.file, path) == RMQ_OK);
        fuzz_require(rq_schedule_load(&schedule, NULL) == RMQ_OK);
        schedule.file.dirty = true;
        fuzz_require(rq_schedule_persist(&schedule, NULL) == RMQ_OK);
        rq_table_file_free(&schedule.file);
        rq_mutex_destroy(&schedule.lock);
    }
}

static void use_mappings(void)
{
    size_t count[2];
    for (int round = 0; round < 2; round++) {
        struct rq_queue_mappings mappings;
        rq_queue_mappings_init(&mappings);
        fuzz_require(rq_queue_mappings_set_path(&mappings, path) == RMQ_OK);
        fuzz_require(rq_queue_mappings_load(&mappings, NULL) == RMQ_OK);
        count[round] = mappings.count;
        mappings.file.dirty = true;
        fuzz_require(rq_queue_mappings_persist(&mappings, NULL) == RMQ_OK);
        rq_queue_mappings_free(&mappings);
    }
    fuzz_require(count[0] == count[1]);
}

static void use_request_modes(void)
{
    for (int round = 0; round < 2; round++) {
        struct rq_request_modes modes;
        rq_request_modes_init(&modes);
        fuzz_require(rq_request_modes_set_path(&modes, path) == RMQ_OK);
        fuzz_require(rq_request_modes_load(&modes, NULL) == RMQ_OK);
        modes.file.dirty = true;
        fuzz_require(rq_request_modes_persist(&modes, NULL) == RMQ_OK);
        rq_request_modes_free(&modes);
    }
}

static void use_pop_orders(void)
{
    static const int64_t offsets[] = {3, 5};
    const struct rq_pop_place place = {rq_slice_str("T"), rq_slice_str("G"), 0};
    for (int round = 0; round < 2; round++) {
        struct rq_pop_orders orders;
        struct rq_buf counts;
        rq_pop_orders_init(&orders);
        rq_buf_init(&counts, 0);
        fuzz_require(rq_pop_orders_set_path(&orders, path) == RMQ_OK);
        fuzz_require(rq_pop_orders_load(&orders, NULL) == RMQ_OK);
        orders.file.dirty = true;
        fuzz_require(rq_pop_orders_persist(&orders, NULL) == RMQ_OK);
        rq_pop_order_blocked_until(&orders, &place, rq_slice_str("attempt"), 1000, 1000);
        rq_pop_order_commit(&orders, &place, 3, 1000);
        rq_pop_order_set_visible(&orders, &place, 5, 1000, 2000);
        rq_pop_order_update(&orders, &place, rq_slice_str("attempt"), 1000, 1000, offsets, 2,
                            &counts);
        rq_buf_free(&counts);
        rq_pop_orders_free(&orders);
    }
}

static void use_settings(void)
{
    size_t count[2];
    for (int round = 0; round < 2; round++) {
        struct rq_kv kv;
        rq_kv_init(&kv);
        fuzz_require(rq_kv_open(&kv, path, NULL) == RMQ_OK);
        fuzz_require(rq_kv_put(&kv, rq_slice_str("n"), rq_slice_str("k"), rq_slice_str("v")) ==
                     RMQ_OK);
        count[round] = kv.table.count;
        rq_kv_free(&kv);
    }
    fuzz_require(count[0] == count[1]);
}

/* A consumer's offsets lie below its id and group. */
static void use_local_offsets(void)
{
    const struct rq_mq queue = {.topic = "T", .broker_name = "b", .queue_id = 1};
    for (int round = 0; round < 2; round++) {
        struct rq_local_offsets *offsets = NULL;
        int64_t offset = -1;
        fuzz_require(rq_local_offsets_open(fuzz_dir, "id", "group", &offsets, NULL) == RMQ_OK);
        fuzz_require(round == 0 || rq_local_offsets_get(offsets, &queue, &offset));
        fuzz_require(round == 0 || offset == 7);
        rq_local_offsets_set(offsets, &queue, 7);
        rq_local_offsets_close(offsets);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        void (*run)(void);
        const char *file;
    } uses[] = {
        {use_topics, "table.json"},
        {use_groups, "table.json"},
        {use_offsets, "table.json"},
        {use_schedule, "table.json"},
        {use_mappings, "table.json"},
        {use_request_modes, "table.json"},
        {use_pop_orders, "table.json"},
        {use_settings, "table.json"},
        {use_local_offsets, "id/group/offsets.json"},
    };
    if (fuzz_dir[0] == '\0') {
        fuzz_make_dir();
        snprintf(path, sizeof path, "%s/table.json", fuzz_dir);
    }
    if (size < 1) {
        return 0;
    }
    size_t chosen = data[0] % (sizeof uses / sizeof uses[0]);
    char folder[128];
    fuzz_remove_dir();
    snprintf(folder, sizeof folder, "%s/id/group", fuzz_dir);
    rq_sys_mkdirs(folder);
    fuzz_write(uses[chosen].file, data + 1, size - 1);
    uses[chosen].run();
    return 0;
}
