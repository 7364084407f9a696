/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Runs a fuzz target over files without a fuzzer: `make check` replays the seeds and every input
 * that once crashed. Arguments are files or folders; a folder that does not exist is an empty one.
 * Each input is given in a buffer of its exact size, so that the address sanitizer sees a read past
 * its end.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (file == NULL || data == NULL || fread(data, 1, size, file) != size) {
        printf("FAIL %s: cannot be read\n", path);
        if (file != NULL) {
            fclose(file);
        }
        free(data);
        return 1;
    }
    fclose(file);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

static int replay_path(const char *path);

static int replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    int bad = 0;
    if (folder == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char child[4096];
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        bad += replay_path(child);
    }
    closedir(folder);
    return bad;
}

static int replay_path(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return 0;
    }
    return S_ISDIR(info.st_mode) ? replay_folder(path) : replay_file(path, (size_t)info.st_size);
}

int main(int argc, char **argv)
{
    int bad = 0;
    /* The empty input is a case of its own. */
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        bad += replay_path(argv[i]);
    }
    return bad ? 1 : 0;
}
