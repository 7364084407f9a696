/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Recovery of a commit log: the first byte says whether the store was closed and keeps its queues
 * and index, the others are its first file.
 */
#include "fuzz/store_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char file[FUZZ_LOG_BYTES] = {0};
    char path[128];
    if (fuzz_dir[0] == '\0') {
        fuzz_make_dir();
    }
    if (size < 1) {
        return 0;
    }
    fuzz_make_store(true);
    memcpy(file, data + 1, size - 1 < sizeof file ? size - 1 : sizeof file);
    fuzz_write("commitlog/00000000000000000000", file, sizeof file);
    if (data[0] & 1) {
        fuzz_write("abort", "", 0);
    }
    if (data[0] & 2) {
        snprintf(path, sizeof path, "%s/consumequeue", fuzz_dir);
        rq_sys_rmtree(path);
    }
    if (data[0] & 4) {
        snprintf(path, sizeof path, "%s/index", fuzz_dir);
        rq_sys_rmtree(path);
    }
    fuzz_run_store(data[0] & 1); /* a closed store is believed, and not read through */
    return 0;
}
