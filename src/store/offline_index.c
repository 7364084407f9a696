/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The index files of a store mapped for reading. How many slots a file has stands nowhere in it: it
 * follows from the options, or from the one number of slots with which first and last entry and
 * their slots say what the header says.
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "store/index_file.h"
#include "store/offline.h"

#define INDEX_DIGITS    17
#define DEFAULT_SLOTS   5000000
#define DEFAULT_ENTRIES 20000000
#define SAMPLES         64

struct rq_mapped_file rq_offline_index_file(const struct rq_offline_file *file)
{
    return (struct rq_mapped_file){.data = (char *)(uintptr_t)file->data, .size = file->size};
}

static void set_geometry(struct rq_index *index, uint32_t slots, size_t file_size)
{
    size_t rest = file_size - rq_index_file_size(slots, 0);
    index->slots = slots;
    index->entries = (uint32_t)(rest / (rq_index_file_size(0, 1) - rq_index_file_size(0, 0)));
    index->file_size = file_size;
}

/* Whether the entries of a file lie where they should with that number of slots. */
static bool fits(const struct rq_index *index, const struct rq_mapped_file *file)
{
    struct rq_index_header header;
    rq_index_file_read_header(index, file, &header);
    uint32_t count = header.index_count;
    if (count < 2 || rq_index_file_offset(index, file, 1) != header.begin_offset ||
        rq_index_file_offset(index, file, count - 1) != header.end_offset) {
        return false;
    }
    for (uint32_t i = 1; i < count && i < SAMPLES; i++) {
        const char *p = file->data + rq_index_file_place(index, i);
        uint32_t hash = rq_load_be32(p);
        if (rq_index_file_newest(index, file, hash, count) < i || rq_load_be32(p + 16) >= i) {
            return false;
        }
    }
    return true;
}

static bool has_entries(const struct rq_offline_file *file)
{
    return file->size >= rq_index_file_size(1, 2) && rq_load_be32(file->data + 36) > 1;
}

static bool search_slots(struct rq_index *index, const struct rq_mapped_file *file)
{
    size_t slot = rq_index_file_size(1, 0) - rq_index_file_size(0, 0);
    size_t entry = rq_index_file_size(0, 1) - rq_index_file_size(0, 0);
    size_t most = (file->size - rq_index_file_size(0, 2)) / slot;
    for (size_t slots = 1; slots <= most; slots++) {
        if ((file->size - rq_index_file_size((uint32_t)slots, 0)) % entry == 0) {
            set_geometry(index, (uint32_t)slots, file->size);
            if (fits(index, file)) {
                return true;
            }
        }
    }
    return false;
}

static void set_sizes(struct rq_index *index, int32_t slots, int32_t entries)
{
    index->slots = (uint32_t)slots;
    index->entries = (uint32_t)entries;
    index->file_size = rq_index_file_size(index->slots, index->entries);
}

/* As the options say, or the first file that can be read: one that was cut short tells nothing of
 * the others. */
static void find_geometry(struct rmq_store *store)
{
    struct rq_index *index = &store->index;
    const struct rq_offline_files *files = &store->index_files;
    bool unreadable = false;
    if (store->options.max_hash_slot_num > 0 && store->options.max_index_num > 0) {
        set_sizes(index, store->options.max_hash_slot_num, store->options.max_index_num);
        return;
    }
    set_sizes(index, DEFAULT_SLOTS, DEFAULT_ENTRIES);
    for (size_t i = 0; i < files->count; i++) {
        struct rq_mapped_file file = rq_offline_index_file(&files->files[i]);
        if (has_entries(&files->files[i])) {
            if (file.size == index->file_size || search_slots(index, &file)) {
                return;
            }
            set_sizes(index, DEFAULT_SLOTS, DEFAULT_ENTRIES);
            unreadable = true;
        }
    }
    if (unreadable) {
        set_sizes(index, 0, 0);
    }
}

rmq_status rq_offline_index_load(struct rmq_store *store, rmq_error **err)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s/index", store->root);
    rmq_status st = rq_offline_files_load(&store->index_files, dir, INDEX_DIGITS, err);
    if (st == RMQ_OK) {
        find_geometry(store);
    }
    return st;
}

int64_t rq_offline_index_entries(const struct rmq_store *store)
{
    int64_t total = 0;
    for (size_t i = 0; i < store->index_files.count; i++) {
        const struct rq_offline_file *file = &store->index_files.files[i];
        if (file->size == store->index.file_size && store->index.slots > 0) {
            struct rq_index_header header;
            struct rq_mapped_file mapped = rq_offline_index_file(file);
            rq_index_file_read_header(&store->index, &mapped, &header);
            total += header.index_count - 1;
        }
    }
    return total;
}
