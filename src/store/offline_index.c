/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The index files of a store that is only looked at. How many slots a file has stands nowhere in it: it
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

#define INDEX_AHEAD ((size_t)64 << 10)

/* Places of a file that are read in turns: its first and last entries, and slots. */
struct places {
    struct rq_offline_window first;
    struct rq_offline_window last;
    struct rq_offline_window slots;
};

static void free_places(struct places *places)
{
    rq_offline_window_free(&places->first);
    rq_offline_window_free(&places->last);
    rq_offline_window_free(&places->slots);
}

/* ---- reading ---- */

bool rq_offline_index_is_readable(const struct rmq_store *store, const struct rq_offline_file *file)
{
    return store->index.slots > 0 && file->size == store->index.file_size;
}

bool rq_offline_index_header(const struct rmq_store *store, const struct rq_offline_file *file,
                             struct rq_index_header *out)
{
    const struct rq_offline_files *files = &store->index_files;
    const char *p = rq_offline_read(files, files->window, file, 0, RQ_INDEX_HEADER_BYTES);
    if (p) {
        rq_index_header_parse(&store->index, p, out);
    }
    return p != NULL;
}

const char *rq_offline_index_entry(const struct rmq_store *store, struct rq_offline_window *window,
                                   const struct rq_offline_file *file, uint32_t number)
{
    return rq_offline_read(&store->index_files, window, file,
                           rq_index_file_place(&store->index, number), RQ_INDEX_ENTRY_BYTES);
}

uint32_t rq_offline_index_slot(const struct rmq_store *store, struct rq_offline_window *window,
                               const struct rq_offline_file *file, uint32_t slot)
{
    size_t at = rq_index_file_size(slot, 0); /* what stands before it */
    const char *p = rq_offline_read(&store->index_files, window, file, at, sizeof(uint32_t));
    return p ? rq_load_be32(p) : 0;
}

/* ---- geometry ---- */

static void set_geometry(struct rq_index *index, uint32_t slots, size_t file_size)
{
    size_t rest = file_size - rq_index_file_size(slots, 0);
    index->slots = slots;
    index->entries = (uint32_t)(rest / RQ_INDEX_ENTRY_BYTES);
    index->file_size = file_size;
}

/* Whether entry and slot of that number lie where they should. */
static bool entry_fits(const struct rmq_store *store, struct places *places,
                       const struct rq_offline_file *file, uint32_t number, uint32_t count)
{
    const char *p = rq_offline_index_entry(store, &places->first, file, number);
    if (!p || rq_load_be32(p + 16) >= number) {
        return false;
    }
    uint32_t slot = rq_load_be32(p) % store->index.slots;
    uint32_t newest = rq_offline_index_slot(store, &places->slots, file, slot);
    return newest >= number && newest < count;
}

/* Whether the entries of a file lie where they should with that number of slots. */
static bool fits(const struct rmq_store *store, struct places *places,
                 const struct rq_offline_file *file)
{
    struct rq_index_header header;
    if (!rq_offline_index_header(store, file, &header) || header.index_count < 2) {
        return false;
    }
    uint32_t count = header.index_count;
    const char *first = rq_offline_index_entry(store, &places->first, file, 1);
    const char *last = rq_offline_index_entry(store, &places->last, file, count - 1);
    if (!first || (int64_t)rq_load_be64(first + 4) != header.begin_offset || !last ||
        (int64_t)rq_load_be64(last + 4) != header.end_offset) {
        return false;
    }
    for (uint32_t i = 1; i < count && i < SAMPLES; i++) {
        if (!entry_fits(store, places, file, i, count)) {
            return false;
        }
    }
    return true;
}

static bool has_entries(const struct rmq_store *store, const struct rq_offline_file *file)
{
    const struct rq_offline_files *files = &store->index_files;
    const char *p = file->size < rq_index_file_size(1, 2)
                        ? NULL
                        : rq_offline_read(files, files->window, file, 0, RQ_INDEX_HEADER_BYTES);
    return p && rq_load_be32(p + RQ_INDEX_HEADER_BYTES - sizeof(uint32_t)) > 1;
}

static bool search_slots(struct rmq_store *store, const struct rq_offline_file *file)
{
    struct places places = {0};
    size_t slot = rq_index_file_size(1, 0) - rq_index_file_size(0, 0);
    size_t most = (file->size - rq_index_file_size(0, 2)) / slot;
    bool found = false;
    for (size_t slots = 1; !found && slots <= most; slots++) {
        size_t entries = file->size - rq_index_file_size((uint32_t)slots, 0);
        if (entries % RQ_INDEX_ENTRY_BYTES == 0) {
            set_geometry(&store->index, (uint32_t)slots, file->size);
            found = fits(store, &places, file);
        }
    }
    free_places(&places);
    return found;
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
        const struct rq_offline_file *file = &files->files[i];
        if (has_entries(store, file)) {
            if (file->size == index->file_size || search_slots(store, file)) {
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

static int64_t count_entries(const struct rmq_store *store)
{
    int64_t total = 0;
    for (size_t i = 0; i < store->index_files.count; i++) {
        const struct rq_offline_file *file = &store->index_files.files[i];
        struct rq_index_header header;
        if (rq_offline_index_is_readable(store, file) &&
            rq_offline_index_header(store, file, &header)) {
            total += header.index_count - 1;
        }
    }
    return total;
}

rmq_status rq_offline_index_load(struct rmq_store *store, rmq_error **err)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s/index", store->root);
    rmq_status st = rq_offline_files_load(&store->index_files, dir, INDEX_DIGITS, INDEX_AHEAD,
                                          &store->trouble, err);
    if (st == RMQ_OK) {
        find_geometry(store);
        store->index_entries = count_entries(store);
    }
    return st;
}
