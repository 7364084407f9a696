/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the commit log's helper readies under synchronous flush before it is written to. */
#include <check.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/time.h"
#include "fixture.h"

Suite *ahead_suite(void);

#define LOG_BYTES ((size_t)8 << 20)
#define PLACE     ((size_t)512 << 10) /* far behind the only message */
#define BEYOND    ((size_t)6 << 20)   /* what is readied at once ends before it */
#define WAIT_MS   20000

enum blocks { BLOCKS_RESERVED, BLOCKS_IN_USE, BLOCKS_UNKNOWN };

/* What ext4, whose answer is known, says of the block at PLACE. */
static enum blocks look_at_blocks(int fd)
{
    struct statfs system;
    union { /* room for one extent */
        struct fiemap map;
        char room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
    } question = {.map = {.fm_start = PLACE, .fm_length = 1, .fm_extent_count = 1}};
    if (fstatfs(fd, &system) < 0 || system.f_type != EXT4_SUPER_MAGIC ||
        ioctl(fd, FS_IOC_FIEMAP, &question) < 0) {
        return BLOCKS_UNKNOWN;
    }
    return question.map.fm_mapped_extents == 0 ||
                   question.map.fm_extents[0].fe_flags &
                       (FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DELALLOC)
               ? BLOCKS_RESERVED
               : BLOCKS_IN_USE;
}

/* Since Linux 5.14. */
static bool system_can_populate(void)
{
    bool can = false;
#ifdef MADV_POPULATE_WRITE
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    can = madvise(page, 4096, MADV_POPULATE_WRITE) == 0;
    munmap(page, 4096);
#endif
    return can;
}

static bool in_memory(char *data, size_t at)
{
    unsigned char page = 0;
    ck_assert_int_eq(mincore(data + at, 1, &page), 0);
    return page & 1;
}

static bool is_ready(int fd, char *data)
{
    return in_memory(data, PLACE) && look_at_blocks(fd) != BLOCKS_RESERVED;
}

/* A log with one message; returns its file, readied, in *fd and mapped. */
static char *begin_readied(struct fixture *fix, int *fd)
{
    fixture_begin(fix);
    fix->options.flush_disk_type = RQ_FLUSH_SYNC;
    fix->options.mapped_file_size_commit_log = LOG_BYTES;
    fixture_open(fix);
    struct rq_msg msg = fixture_msg("T", 0, 100, 0, NULL);
    fixture_append(fix, &msg);
    *fd = open(fixture_path(fix, "commitlog/00000000000000000000"), O_RDONLY);
    ck_assert_int_ge(*fd, 0);
    char *data = mmap(NULL, LOG_BYTES, PROT_READ, MAP_SHARED, *fd, 0);
    ck_assert_ptr_ne(data, MAP_FAILED);
    int64_t deadline = rq_mono_ms() + WAIT_MS;
    bool ready = is_ready(*fd, data);
    while (!ready && rq_mono_ms() < deadline) {
        usleep(1000);
        ready = is_ready(*fd, data);
    }
    ck_assert(ready || !system_can_populate());
    return data;
}

START_TEST(what_is_written_next_is_in_memory_and_its_blocks_are_in_use)
{
    struct fixture fix;
    int fd;
    char *data = begin_readied(&fix, &fd);
    for (size_t i = PLACE; i < PLACE + 4096; i++) {
        ck_assert_int_eq(data[i], 0);
    }
    munmap(data, LOG_BYTES);
    close(fd);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, 1, 0);
    fixture_end(&fix);
}
END_TEST

/* What a system reads ahead it keeps in pieces of up to 2 MiB, and writes whole when a byte of them
 * was written to. */
START_TEST(pages_come_into_memory_one_by_one)
{
    struct fixture fix;
    int fd;
    char *data = begin_readied(&fix, &fd);
    ck_assert(!in_memory(data, BEYOND));
    munmap(data, LOG_BYTES);
    close(fd);
    fixture_end(&fix);
}
END_TEST

Suite *ahead_suite(void)
{
    Suite *suite = suite_create("ahead");
    TCase *tc = tcase_create("ahead");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, what_is_written_next_is_in_memory_and_its_blocks_are_in_use);
    tcase_add_test(tc, pages_come_into_memory_one_by_one);
    suite_add_tcase(suite, tc);
    return suite;
}
