/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One index file: header of 40 bytes, slots of 4 bytes (number of the newest entry), entries of 20
 * bytes (hash, commit-log offset, seconds since the file's begin, number of the entry before in the
 * same slot). Pure access to the mapped bytes, under the index's lock. Counterparts: IndexFile,
 * IndexHeader.
 */
#ifndef RQ_STORE_INDEX_FILE_H
#define RQ_STORE_INDEX_FILE_H

#include "store/index.h"

struct rq_index_header {
    int64_t begin_time;
    int64_t end_time;
    int64_t begin_offset;
    int64_t end_offset;
    uint32_t slot_count;
    uint32_t index_count; /* next number to use, from 1 */
};

size_t rq_index_file_size(uint32_t slots, uint32_t entries);

/* The header's bytes. A count or a time that cannot be is read as the nearest that can. */
#define RQ_INDEX_HEADER_BYTES 40
#define RQ_INDEX_ENTRY_BYTES  20
void rq_index_header_parse(const struct rq_index *index, const char *p,
                           struct rq_index_header *out);
void rq_index_file_read_header(const struct rq_index *index, const struct rq_mapped_file *file,
                               struct rq_index_header *out);
void rq_index_file_write_header(struct rq_mapped_file *file, const struct rq_index_header *header);

/* First byte of an entry. */
size_t rq_index_file_place(const struct rq_index *index, uint32_t number);
int64_t rq_index_file_offset(const struct rq_index *index, const struct rq_mapped_file *file,
                             uint32_t number);

/* Number in the slot of a hash, 0 when it is none of this file's. */
uint32_t rq_index_file_newest(const struct rq_index *index, const struct rq_mapped_file *file,
                              uint32_t hash, uint32_t index_count);

/* Writes the next entry, whose place is reserved, and the header. */
void rq_index_file_put(const struct rq_index *index, struct rq_mapped_file *file,
                       struct rq_index_header *header, uint32_t hash,
                       const struct rq_record *record);

/* How many entries (their numbers begin with 1) below the header's count were written in order: a
 * page of zeros, as a power cut leaves it, ends them, as does an entry of a message at or behind
 * commit_log_offset. Returns the number behind the last. */
uint32_t rq_index_file_good(const struct rq_index *index, const struct rq_mapped_file *file,
                            const struct rq_index_header *header, int64_t commit_log_offset);

/* Whether a slot names an entry at or behind number: then the older ones of its chain are not
 * reached. */
bool rq_index_file_slots_ahead(const struct rq_index *index, const struct rq_mapped_file *file,
                               uint32_t number);

/* Keeps the entries below number (more than 1) and ties their chains anew. */
void rq_index_file_relink(const struct rq_index *index, struct rq_mapped_file *file,
                          struct rq_index_header *header, uint32_t number);

/* Offsets of one chain from state->number on; that is 0 when the chain is at its end. */
size_t rq_index_file_walk(const struct rq_index *index, const struct rq_mapped_file *file,
                          const struct rq_index_header *header, uint32_t hash, int64_t begin_ms,
                          int64_t end_ms, struct rq_index_hits *state, int64_t *offsets,
                          size_t max);

#endif
