/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* An index file: the first byte says whether the store was closed, the others are its bytes. */
#include "fuzz/store_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char file[40 + FUZZ_SLOTS * 4 + FUZZ_ENTRIES * 20] = {0};
    char path[128];
    if (fuzz_dir[0] == '\0') {
        fuzz_make_dir();
    }
    if (size < 1) {
        return 0;
    }
    fuzz_make_store(true);
    snprintf(path, sizeof path, "%s/index", fuzz_dir);
    if (data[0] & 2) {
        rq_sys_rmtree(path);
    }
    rq_sys_mkdirs(path);
    memcpy(file, data + 1, size - 1 < sizeof file ? size - 1 : sizeof file);
    fuzz_write("index/20990101000000000", file,
               data[0] & 4 && size <= sizeof file ? size - 1 : sizeof file);
    if (data[0] & 1) {
        fuzz_write("abort", "", 0);
    }
    fuzz_run_store(true);
    return 0;
}
