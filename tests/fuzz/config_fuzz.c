/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The JSON files of a broker: the first byte says which (topics, groups, offsets, delay offsets),
 * the others are the file. What was read is written, and that is read again.
 */
#include "broker/groups.h"
#include "broker/offsets.h"
#include "broker/schedule.h"
#include "broker/topics.h"
#include "fuzz/store_dir.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const uses[])(void) = {use_topics, use_groups, use_offsets, use_schedule};
    if (fuzz_dir[0] == '\0') {
        fuzz_make_dir();
        snprintf(path, sizeof path, "%s/table.json", fuzz_dir);
    }
    if (size < 1) {
        return 0;
    }
    fuzz_remove_dir();
    rq_sys_mkdirs(fuzz_dir);
    fuzz_write("table.json", data + 1, size - 1);
    uses[data[0] % 4]();
    return 0;
}
