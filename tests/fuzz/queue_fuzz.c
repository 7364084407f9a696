/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A consume queue's files: the first byte says whether the store was closed and which file it is,
 * the others are its bytes. */
#include "fuzz/store_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char file[FUZZ_QUEUE_BYTES] = {0};
    if (fuzz_dir[0] == '\0') {
        fuzz_make_dir();
    }
    if (size < 1) {
        return 0;
    }
    fuzz_make_store(true);
    memcpy(file, data + 1, size - 1 < sizeof file ? size - 1 : sizeof file);
    fuzz_write(data[0] & 2 ? "consumequeue/T/0/00000000000000000200"
                           : "consumequeue/T/0/00000000000000000000",
               file, data[0] & 4 && size <= sizeof file ? size - 1 : sizeof file);
    if (data[0] & 1) {
        fuzz_write("abort", "", 0);
    }
    fuzz_run_store(true);
    return 0;
}
