/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq produce`, `rmq consume` and `rmq broker`: exit codes and words for command lines that are wrong, and output that cannot be written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/cases.h"
#include "lib/cluster.h"

#define MESSAGES 5
#define OUT_MAX  100000

/* Runs rmq in a shell: exit code and both outputs are what is expected. */
static void expect(const char *namesrv, const char *words, int exit_code, const char *text)
{
    static char out[OUT_MAX];
    char command[1024];
    const char *build = getenv("B");
    snprintf(command, sizeof command, "NAMESRV_ADDR='%s' %s/rmq %s", namesrv,
             build ? build : "build/release", words);
    FILE *in = popen(command, "r");
    TL_CHECK(in != NULL);
    size_t n = fread(out, 1, sizeof out - 1, in);
    out[n] = '\0';
    int status = pclose(in);
    TL_CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) != exit_code || !strstr(out, text)) {
        tl_fail(__FILE__, __LINE__, "rmq %s: exit code %d, expected %d and \"%s\": %.400s", words,
                WEXITSTATUS(status), exit_code, text, out);
    }
}

static void a_wrong_command_line_is_told_before_anything_is_done(void)
{
    expect("127.0.0.1:1", "produce -t T --property foo x 2>&1", 2,
           "--property 'foo': not name=value");
    expect("127.0.0.1:1", "produce -t T --property TAGS=a x 2>&1", 2, "a reserved name");
    expect("127.0.0.1:1", "produce -t 'a topic' x 2>&1", 2, "byte 0x20 at 1");
    expect("127.0.0.1:1", "produce -t T -n 127.0.0.1:99999 x 2>&1", 1, "the port is not in 1");
    expect("127.0.0.1:1",
           "consume -t T -g g --from timestamp --timestamp '2026-02-31 12:00:00' 2>&1", 2,
           "--timestamp is");
    expect("127.0.0.1:1", "produce -t T -f /dev/zero 2>&1", 1, "more than 64 MiB");
    expect("127.0.0.1:1", "broker --set listenPort 2>&1", 2,
           "--set needs key=value, not 'listenPort'");
}

static void a_broker_keeps_its_store_unless_told_otherwise(void)
{
    expect("", "broker --namesrv-port 0 --set listenPort=0 --set storePathRootDir= 2>&1", 1,
           "storePathRootDir is empty");
}

static void what_could_not_be_printed_is_not_consumed(void)
{
    struct tl_cluster cluster;
    char words[200];
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "body", 0, MESSAGES);
    TL_OK(rmq_producer_shutdown(producer, 5000, &err));
    rmq_producer_destroy(producer);
    snprintf(words, sizeof words, "consume -t %s -g printer --from first 2>&1 > /dev/full",
             cluster.topic);
    expect(cluster.namesrv, words, 1, "standard output: No space left on device");
    /* The first one was sent back to be delivered again after a while; the others come at once. */
    snprintf(words, sizeof words, "consume -t %s -g printer --from first -c %d --timeout 20 2>&1",
             cluster.topic, MESSAGES);
    expect(cluster.namesrv, words, 0, "body");
    expect(cluster.namesrv, "topic list 2>&1 > /dev/full", 1, "standard output");
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_wrong_command_line_is_told_before_anything_is_done),
        TL_CASE(a_broker_keeps_its_store_unless_told_otherwise),
        {"what_could_not_be_printed_is_not_consumed", what_could_not_be_printed_is_not_consumed,
         60},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
