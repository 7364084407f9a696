/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Bytes of an index file. Everything under the index's lock. */
#include "store/index_file.h"

#include <string.h>

#include "base/bytes.h"

#define HEADER_BYTES RQ_INDEX_HEADER_BYTES
#define SLOT_BYTES   4
#define ENTRY_BYTES  RQ_INDEX_ENTRY_BYTES
#define TIME_MAX     (INT64_MAX / 2) /* seconds are added to it */

/* Places in the header. */
#define AT_BEGIN_TIME   0
#define AT_END_TIME     8
#define AT_BEGIN_OFFSET 16
#define AT_END_OFFSET   24
#define AT_SLOT_COUNT   32
#define AT_INDEX_COUNT  36

size_t rq_index_file_size(uint32_t slots, uint32_t entries)
{
    return HEADER_BYTES + (size_t)slots * SLOT_BYTES + (size_t)entries * ENTRY_BYTES;
}

static int64_t read_time(const char *p)
{
    int64_t time = (int64_t)rq_load_be64(p);
    return time < 0 ? 0 : time > TIME_MAX ? TIME_MAX : time;
}

void rq_index_file_read_header(const struct rq_index *index, const struct rq_mapped_file *file,
                               struct rq_index_header *out)
{
    rq_index_header_parse(index, file->data, out);
}

void rq_index_header_parse(const struct rq_index *index, const char *p, struct rq_index_header *out)
{
    out->begin_time = read_time(p + AT_BEGIN_TIME);
    out->end_time = read_time(p + AT_END_TIME);
    out->begin_offset = (int64_t)rq_load_be64(p + AT_BEGIN_OFFSET);
    out->end_offset = (int64_t)rq_load_be64(p + AT_END_OFFSET);
    out->slot_count = rq_load_be32(p + AT_SLOT_COUNT);
    out->index_count = rq_load_be32(p + AT_INDEX_COUNT);
    if (out->index_count < 1 || out->index_count > index->entries) {
        out->index_count =
            out->index_count > INT32_MAX || out->index_count < 1 ? 1 : index->entries;
    }
}

void rq_index_file_write_header(struct rq_mapped_file *file, const struct rq_index_header *header)
{
    char *p = file->data;
    rq_store_be64(p + AT_BEGIN_TIME, (uint64_t)header->begin_time);
    rq_store_be64(p + AT_END_TIME, (uint64_t)header->end_time);
    rq_store_be64(p + AT_BEGIN_OFFSET, (uint64_t)header->begin_offset);
    rq_store_be64(p + AT_END_OFFSET, (uint64_t)header->end_offset);
    rq_store_be32(p + AT_SLOT_COUNT, header->slot_count);
    rq_store_be32(p + AT_INDEX_COUNT, header->index_count);
}

static char *slot_at(const struct rq_mapped_file *file, uint32_t slot)
{
    return file->data + HEADER_BYTES + (size_t)slot * SLOT_BYTES;
}

size_t rq_index_file_place(const struct rq_index *index, uint32_t number)
{
    return HEADER_BYTES + (size_t)index->slots * SLOT_BYTES + (size_t)number * ENTRY_BYTES;
}

/* Number in a slot, 0 when it is none of this file's. */
static uint32_t slot_value(const struct rq_mapped_file *file, uint32_t slot, uint32_t index_count)
{
    uint32_t number = rq_load_be32(slot_at(file, slot));
    return number < index_count ? number : 0;
}

int64_t rq_index_file_offset(const struct rq_index *index, const struct rq_mapped_file *file,
                             uint32_t number)
{
    return (int64_t)rq_load_be64(file->data + rq_index_file_place(index, number) + 4);
}

uint32_t rq_index_file_newest(const struct rq_index *index, const struct rq_mapped_file *file,
                              uint32_t hash, uint32_t index_count)
{
    return slot_value(file, hash % index->slots, index_count);
}

static uint32_t seconds_since(int64_t begin, int64_t time)
{
    if (begin <= 0 || time <= begin) {
        return 0;
    }
    int64_t seconds = (time - begin) / 1000;
    return seconds > INT32_MAX ? INT32_MAX : (uint32_t)seconds;
}

void rq_index_file_put(const struct rq_index *index, struct rq_mapped_file *file,
                       struct rq_index_header *header, uint32_t hash,
                       const struct rq_record *record)
{
    uint32_t slot = hash % index->slots;
    uint32_t number = header->index_count;
    uint32_t before = slot_value(file, slot, number);
    char *p = file->data + rq_index_file_place(index, number);
    rq_store_be32(p, hash);
    rq_store_be64(p + 4, (uint64_t)record->commit_log_offset);
    rq_store_be32(p + 12, seconds_since(header->begin_time, record->store_timestamp));
    rq_store_be32(p + 16, before);
    rq_store_be32(slot_at(file, slot), number);
    if (number <= 1) {
        header->begin_offset = record->commit_log_offset;
        header->begin_time = record->store_timestamp;
    }
    header->slot_count += before == 0;
    header->index_count++;
    header->end_offset = record->commit_log_offset;
    header->end_time = record->store_timestamp;
    rq_index_file_write_header(file, header);
}

uint32_t rq_index_file_good(const struct rq_index *index, const struct rq_mapped_file *file,
                            const struct rq_index_header *header, int64_t commit_log_offset)
{
    static const char zeros[ENTRY_BYTES];
    int64_t before = 0;
    uint32_t number = 1;
    for (; number < header->index_count; number++) {
        const char *p = file->data + rq_index_file_place(index, number);
        int64_t offset = rq_index_file_offset(index, file, number);
        if (offset < before || offset >= commit_log_offset || memcmp(p, zeros, sizeof zeros) == 0) {
            break;
        }
        before = offset;
    }
    return number;
}

bool rq_index_file_slots_ahead(const struct rq_index *index, const struct rq_mapped_file *file,
                               uint32_t number)
{
    for (uint32_t slot = 0; slot < index->slots; slot++) {
        if (rq_load_be32(slot_at(file, slot)) >= number) {
            return true;
        }
    }
    return false;
}

void rq_index_file_relink(const struct rq_index *index, struct rq_mapped_file *file,
                          struct rq_index_header *header, uint32_t number)
{
    memset(slot_at(file, 0), 0, (size_t)index->slots * SLOT_BYTES);
    header->slot_count = 0;
    for (uint32_t i = 1; i < number; i++) {
        char *p = file->data + rq_index_file_place(index, i);
        uint32_t slot = rq_load_be32(p) % index->slots;
        uint32_t before = rq_load_be32(slot_at(file, slot));
        rq_store_be32(p + 16, before);
        rq_store_be32(slot_at(file, slot), i);
        header->slot_count += before == 0;
    }
    const char *last = file->data + rq_index_file_place(index, number - 1);
    header->index_count = number;
    header->end_offset = (int64_t)rq_load_be64(last + 4);
    header->end_time = header->begin_time + ((int64_t)rq_load_be32(last + 12) + 1) * 1000;
    rq_index_file_write_header(file, header);
}

size_t rq_index_file_walk(const struct rq_index *index, const struct rq_mapped_file *file,
                          const struct rq_index_header *header, uint32_t hash, int64_t begin_ms,
                          int64_t end_ms, struct rq_index_hits *state, int64_t *offsets, size_t max)
{
    size_t n = 0;
    uint32_t number = state->number;
    while (number > 0 && n < max) {
        const char *p = file->data + rq_index_file_place(index, number);
        uint32_t before = rq_load_be32(p + 16);
        int64_t time = header->begin_time + (int64_t)rq_load_be32(p + 12) * 1000;
        /* The stored second may be up to one before the message's time; in a second file the first
         * entry counts from the old file's end. */
        if (rq_load_be32(p) == hash && time + 1000 > begin_ms && time - 1000 <= end_ms) {
            offsets[n++] = (int64_t)rq_load_be64(p + 4);
        }
        number = before < number ? before : 0; /* chains lead back only; anything else is damage */
        if (time + 1000 <= begin_ms) {
            number = 0;
        }
    }
    state->number = number;
    return n;
}
