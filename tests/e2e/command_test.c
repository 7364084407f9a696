/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq produce`, `rmq consume` and `rmq broker`: exit codes and words for command lines that are
 * wrong, and output that cannot be written.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/command.h"

#define MESSAGES 5

/* As tl_expect, for a command that would go on for ever if it failed. */
static void expect_end(const char *words, int exit_code, const char *text)
{
    char command[600];
    snprintf(command, sizeof command, "version; timeout 50 ${B:-build/release}/rmq %s", words);
    tl_expect("", command, exit_code, text);
}

static void a_wrong_command_line_is_told_before_anything_is_done(void)
{
    tl_expect("127.0.0.1:1", "produce -t T --property foo x 2>&1", 2,
              "--property 'foo': not name=value");
    tl_expect("127.0.0.1:1", "produce -t T --property TAGS=a x 2>&1", 2, "a reserved name");
    tl_expect("127.0.0.1:1", "produce -t 'a topic' x 2>&1", 2, "byte 0x20 at 1");
    tl_expect("127.0.0.1:1", "produce -t T -n 127.0.0.1:99999 x 2>&1", 2, "the port is not in 1");
    tl_expect("127.0.0.1:1", "topic list -n 127.0.0.1:99999 2>&1", 2, "the port is not in 1");
    tl_expect("127.0.0.1:1", "produce -t T --set foo=1 x 2>&1", 2, "\"foo\"");
    tl_expect("127.0.0.1:1", "produce -t T --serialize XML x 2>&1", 2, "XML");
    tl_expect("127.0.0.1:1", "produce -t T -g 'a b' x 2>&1", 2, "group \"a b\"");
    tl_expect("127.0.0.1:1", "produce -t T --batch 2 --delay-level 1 --count 2 x 2>&1", 2,
              "a delay does not go with --batch");
    tl_expect("127.0.0.1:1", "request -t 'a topic' x 2>&1", 2, "byte 0x20 at 1");
    tl_expect("127.0.0.1:1", "consume -t 'a topic' -g g 2>&1", 2, "byte 0x20 at 1");
    tl_expect("127.0.0.1:1",
              "consume -t T -g g --from timestamp --timestamp '2026-02-31 12:00:00' 2>&1", 2,
              "--timestamp is");
    tl_expect("127.0.0.1:1",
              "consume -t T -g g --from timestamp --timestamp 99999999999999999999 2>&1", 2,
              "--timestamp is");
    tl_expect("127.0.0.1:1", "message 7F0000010BE34E0E2F2A93676B8A0091 2>&1", 1, "-t TOPIC");
    tl_expect("", "options broker -o xml 2>&1", 2, "text, json or markdown, not 'xml'");
    tl_expect("127.0.0.1:1", "group reset -t T -g g --to 99999999999999999999 2>&1", 2,
              "--to is first, last, milliseconds");
    tl_expect("127.0.0.1:1", "produce -t T -f /dev/zero 2>&1", 1, "more than 64 MiB");
    tl_expect("127.0.0.1:1", "broker --set listenPort 2>&1", 2,
              "--set needs name=value, not 'listenPort'");
    tl_expect("127.0.0.1:1", "consume -t T -g g --timestamp 1 2>&1", 2, "needs --from timestamp");
    tl_expect("127.0.0.1:1", "consume -t T -g g -e a --sql 'a > 1' 2>&1", 2, "exclude each other");
    tl_expect("127.0.0.1:1", "consume -t T -g g --offsets /tmp 2>&1", 2, "needs --broadcast");
    tl_expect("127.0.0.1:1", "consume -t T -g g --set pullBatchSize 2>&1", 2,
              "--set needs name=value, not 'pullBatchSize'");
    tl_expect("127.0.0.1:1", "consume -t T -g g --set pullBatchsize=1 2>&1", 2,
              "did you mean \"pullBatchSize\"?");
}

static void metrics_are_listed_with_their_labels(void)
{
    tl_expect("", "options metrics -o json", 0,
              "{\"name\":\"rmq_group_lag_messages\",\"type\":\"gauge\","
              "\"labels\":[\"topic\",\"group\"],\"help\":\"");
    tl_expect("", "options metrics -o json", 0, "\"type\":\"gauge\",\"labels\":[],\"help\":\"");
    tl_expect("", "options metrics", 0, "\nrmq_group_lag_messages{topic,group}\n    gauge. ");
}

static void a_broker_keeps_its_store_unless_told_otherwise(void)
{
    tl_expect("", "broker --namesrv-port 0 --set listenPort=0 --set storePathRootDir= 2>&1", 1,
              "storePathRootDir is empty");
}

static void a_name_server_takes_port_and_all_lines_of_its_file(void)
{
    struct tl_cluster cluster;
    char words[300];
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    snprintf(words, sizeof words, "namesrv -c /dev/stdin 2>&1 <<'END'\nlistenPort=%s\nEND",
             strrchr(cluster.namesrv, ':') + 1);
    expect_end(words, 1, cluster.namesrv);
    tl_cluster_stop(&cluster);
    expect_end("namesrv -p 0 -c /dev/stdin 2>&1 <<'END'\n\xEF\xBB\xBF"
               "scanNotActiveBrokerInterval=x\nEND",
               1, "scanNotActiveBrokerInterval");
}

/* One queue with so many messages "body-0" …, the producer of which is gone. */
static void begin_with(struct tl_cluster *cluster, int count)
{
    rmq_error *err = NULL;
    tl_cluster_start(cluster, 1);
    rmq_producer *producer = tl_producer(cluster);
    tl_send(cluster, producer, "body", 0, count);
    TL_OK(rmq_producer_shutdown(producer, 5000, &err));
    rmq_producer_destroy(producer);
}

static void what_could_not_be_printed_is_not_consumed(void)
{
    struct tl_cluster cluster;
    char words[200];
    begin_with(&cluster, MESSAGES);
    snprintf(words, sizeof words, "consume -t %s -g printer --from first 2>&1 > /dev/full",
             cluster.topic);
    tl_expect(cluster.namesrv, words, 1, "standard output: No space left on device");
    /* The first one was sent back to be delivered again after a while; the others come at once. */
    snprintf(words, sizeof words, "consume -t %s -g printer --from first -c %d --timeout 20 2>&1",
             cluster.topic, MESSAGES);
    tl_expect(cluster.namesrv, words, 0, "body");
    tl_expect(cluster.namesrv, "topic list 2>&1 > /dev/full", 1, "standard output");
    snprintf(words, sizeof words,
             "consume -t %s -g another --set consumeFromWhere=CONSUME_FROM_FIRST_OFFSET -c %d "
             "--timeout 20 2>&1",
             cluster.topic, MESSAGES);
    tl_expect(cluster.namesrv, words, 0, "body");
    tl_cluster_stop(&cluster);
}

/* What is behind the count stays for the next one of the group, who gets it at once. */
static void a_count_is_kept_though_messages_come_in_batches(void)
{
    struct tl_cluster cluster;
    char words[500];
    begin_with(&cluster, 20);
    snprintf(words, sizeof words,
             "consume -n '%s' -t %s -g batches --set consumeMessageBatchMaxSize=32 --from first "
             "-c 10 | awk '{ print $NF }' | paste -sd' '",
             cluster.namesrv, cluster.topic);
    expect_end(words, 0, "body-0 body-1 body-2 body-3 body-4 body-5 body-6 body-7 body-8 body-9\n");
    expect_end(words, 0,
               "body-10 body-11 body-12 body-13 body-14 body-15 body-16 body-17 body-18 body-19\n");
    tl_cluster_stop(&cluster);
}

/* No further message comes that could not be printed. */
static void who_has_read_enough_ends_a_consumer_at_rest(void)
{
    struct tl_cluster cluster;
    char words[500];
    begin_with(&cluster, 1);
    snprintf(words, sizeof words,
             "version; { { timeout 50 ${B:-build/release}/rmq consume -n '%s' -t %s -g readers "
             "--from first; echo ended with $? >&3; } | head -1; } 3>&1",
             cluster.namesrv, cluster.topic);
    tl_expect("", words, 0, "ended with 1\n");
    tl_cluster_stop(&cluster);
}

static void a_line_that_is_no_message_is_named_with_its_number_and_fault(void)
{
    static const char *const lines[][2] = {
        {"{bad}", "line 1: not JSON from byte"},
        {"{\"body\":\"x\"} more", "line 1: not JSON from byte 14 on"},
        {"[]", "line 1: not a JSON object"},
        {"{\"body\":3}", "line 1: \"body\" is not a string"},
        {"{\"tag\":\"x\"}", "line 1: no \"body\""},
        {"{\"boddy\":\"x\"}", "line 1: unknown member \"boddy\": there are body"},
        {"{\"body\":\"x\",\"delayMs\":600000}", "line 1: unknown member \"delayMs\""},
        {"{\"bodyBase64\":\"%%%\"}", "line 1: \"bodyBase64\" is not base64"},
        {"{\"body\":\"a\\u0000b\"}", "line 1: a NUL in it"},
        {"{\"body\":\"x\",\"delayLevel\":\"a\"}", "line 1: \"delayLevel\" is not a whole number"},
        {"{\"body\":\"x\",\"keys\":3}", "line 1: \"keys\" is neither"},
        {"{\"body\":\"x\",\"properties\":[]}", "line 1: \"properties\" is not an object"},
        {"{\"body\":\"x\",\"properties\":{\"a\":1}}", "line 1: property \"a\" is not a string"},
        {"{\"body\":\"x\",\"properties\":{\"TAGS\":\"a\"}}",
         "line 1: property \"TAGS\": a reserved"},
    };
    char words[300];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        snprintf(words, sizeof words, "produce -t T --json-lines 2>&1 <<'END'\n%s\nEND",
                 lines[i][0]);
        tl_expect("127.0.0.1:1", words, 1, lines[i][1]);
    }
    tl_expect("127.0.0.1:1", "produce -t T --lines 2>&1 <<'END'\n\nEND", 1, "line 1: empty");
}

static void a_request_that_fails_is_told_as_json(void)
{
    tl_expect("127.0.0.1:1", "request -t T --timeout 100 -o json x 2> /dev/null", 1,
              "\"maybeStored\":false");
}

static void an_input_that_cannot_be_read_is_no_end_of_it(void)
{
    tl_expect("127.0.0.1:1", "produce -t T --lines 2>&1 < /", 1, "standard input: Is a directory");
    tl_expect("127.0.0.1:1", "produce -t T --json-lines --batch 3 2>&1 <&-", 1, "standard input:");
    tl_expect("127.0.0.1:1", "request -t T --lines 2>&1 < /", 1, "standard input: Is a directory");
}

static void each_message_of_a_batch_is_printed_with_its_own_id(void)
{
    struct tl_cluster cluster;
    char words[300];
    tl_cluster_start(&cluster, 1);
    snprintf(words, sizeof words,
             "produce -t %s --lines --batch 3 <<'END' | awk '{ print $2 }' | sort -u | grep -vc ,\n"
             "a\nb\nc\nEND",
             cluster.topic);
    tl_expect(cluster.namesrv, words, 0, "3");
    tl_cluster_stop(&cluster);
}

/* Temporary stores of commands come into an empty folder. */
static void make_temporary(char *folder)
{
    TL_CHECK(mkdtemp(folder) != NULL);
    TL_CHECK(setenv("TMPDIR", folder, 1) == 0);
}

static void a_command_whose_reader_goes_or_whose_terminal_hangs_up_leaves_no_store(void)
{
    char folder[] = "/tmp/rmq-command-XXXXXX";
    char words[300];
    make_temporary(folder);
    tl_expect("", "demo | head -1", 0, "1. A name server");
    signal(SIGHUP, SIG_DFL); /* nohup hands down that it is ignored */
    snprintf(words, sizeof words,
             "broker --temporary > %s.out & until grep ready %s.out; do sleep 0.02; done; "
             "rm %s.out; kill -HUP $!; wait $!",
             folder, folder, folder);
    tl_expect("", words, 0, "ready broker=");
    TL_CHECK(rmdir(folder) == 0);
}

static void a_closed_output_is_no_place_for_other_files(void)
{
    tl_expect("", "broker --temporary --set listenPort=x 2>&1 >&-", 2, "is not a number in");
    tl_expect("", "version 2>&1 >&-", 1, "standard output");
}

static void a_file_at_its_limit_is_an_error(void)
{
    char path[] = "/tmp/rmq-command-XXXXXX";
    char words[200];
    int fd = mkstemp(path);
    TL_CHECK(fd >= 0);
    close(fd);
    snprintf(words, sizeof words,
             "version; ulimit -f 1; ${B:-build/release}/rmq options broker 2>&1 > %s", path);
    tl_expect("", words, 1, "standard output");
    unlink(path);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_wrong_command_line_is_told_before_anything_is_done),
        TL_CASE(a_line_that_is_no_message_is_named_with_its_number_and_fault),
        TL_CASE(a_request_that_fails_is_told_as_json),
        TL_CASE(metrics_are_listed_with_their_labels),
        TL_CASE(an_input_that_cannot_be_read_is_no_end_of_it),
        TL_CASE(each_message_of_a_batch_is_printed_with_its_own_id),
        {"a_command_whose_reader_goes_or_whose_terminal_hangs_up_leaves_no_store",
         a_command_whose_reader_goes_or_whose_terminal_hangs_up_leaves_no_store, 60},
        TL_CASE(a_closed_output_is_no_place_for_other_files),
        TL_CASE(a_file_at_its_limit_is_an_error),
        TL_CASE(a_count_is_kept_though_messages_come_in_batches),
        {"who_has_read_enough_ends_a_consumer_at_rest", who_has_read_enough_ends_a_consumer_at_rest,
         60},
        TL_CASE(a_name_server_takes_port_and_all_lines_of_its_file),
        TL_CASE(a_broker_keeps_its_store_unless_told_otherwise),
        {"what_could_not_be_printed_is_not_consumed", what_could_not_be_printed_is_not_consumed,
         60},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
