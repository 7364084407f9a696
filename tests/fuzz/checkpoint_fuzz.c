/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The checkpoint and the file "contents": the first byte says which, and whether the store was
 * closed. */
#include "fuzz/store_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (fuzz_dir[0] == '\0') {
        fuzz_make_dir();
    }
    if (size < 1) {
        return 0;
    }
    fuzz_make_store(true);
    fuzz_write(data[0] & 2 ? "contents" : "checkpoint", data + 1, size - 1);
    if (data[0] & 1) {
        fuzz_write("abort", "", 0);
    }
    fuzz_run_store(true);
    return 0;
}
