/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq store inspect|verify|rebuild` on the store of a broker that was stopped: what it prints and
 * its exit codes, whole and damaged.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/command.h"

#define MESSAGES 200
#define OUT_MAX  1000000

struct run {
    char text[OUT_MAX];
    int exit_code;
};

static struct run run;

/* Runs rmq with the words; its standard output and exit code are in run. */
static void rmq(const char *words, const char *dir)
{
    char command[1024];
    const char *build = getenv("B");
    snprintf(command, sizeof command, "%s/rmq store %s %s 2>/dev/null",
             build ? build : "build/release", words, dir);
    FILE *out = popen(command, "r");
    TL_CHECK(out != NULL);
    size_t n = fread(run.text, 1, sizeof run.text - 1, out);
    run.text[n] = '\0';
    int status = pclose(out);
    TL_CHECK(WIFEXITED(status));
    run.exit_code = WEXITSTATUS(status);
}

static void expect(const char *words, const char *dir, int exit_code, const char *text)
{
    rmq(words, dir);
    if (run.exit_code != exit_code || !strstr(run.text, text)) {
        tl_fail(__FILE__, __LINE__, "rmq store %s: exit code %d, expected %d and \"%s\": %.400s",
                words, run.exit_code, exit_code, text, run.text);
    }
}

/* A broker with its store in dir takes messages, and is stopped. */
static void fill(const char *dir)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    struct tl_cluster cluster = {.topic = "Stored", .group = "g"};
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", dir, &err));
    TL_OK(rmq_broker_config_set(config, "mappedFileSizeCommitLog", "65536", &err));
    TL_OK(rmq_broker_start(config, &cluster.broker, &err));
    TL_OK(rmq_broker_create_topic(cluster.broker, cluster.topic, 4, &err));
    snprintf(cluster.namesrv, sizeof cluster.namesrv, "%s",
             rmq_broker_namesrv_addr(cluster.broker));
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "body", 0, MESSAGES);
    rmq_broker_store_metrics now;
    rmq_broker_get_store_metrics(cluster.broker, &now, sizeof now);
    TL_EQUAL(now.put_messages, MESSAGES);
    TL_CHECK(now.append_us.count > 0 && now.writable);
    TL_OK(rmq_producer_shutdown(producer, 5000, &err));
    rmq_producer_destroy(producer);
    rmq_broker_stop(cluster.broker);
    rmq_broker_config_destroy(config);
}

static void begin(char dir[64])
{
    snprintf(dir, 64, "/tmp/rmq-look-XXXXXX");
    TL_CHECK(mkdtemp(dir) != NULL);
    fill(dir);
}

static void shell(const char *format, const char *dir)
{
    char command[512];
    snprintf(command, sizeof command, format, dir);
    TL_EQUAL(system(command), 0);
}

static void shows_and_verifies_the_store_of_a_broker(void)
{
    char dir[64];
    begin(dir);
    expect("inspect", dir, 0, "Stored");
    expect("inspect -o json", dir, 0, "\"messages\":200,");
    expect("inspect -o json", dir, 0, "\"closed\":true");
    expect("inspect --messages -o json", dir, 0, "\"KEYS\":\"k-199\"");
    expect("verify", dir, 0, "WHOLE");
    expect("verify -o json", dir, 0, "\"verdict\":\"WHOLE\"");
    expect("verify -o json", dir, 0, "\"queueEntries\":200,");
    expect("verify -o json", dir, 0, "\"findings\":[]");
    shell("rm -r %s", dir);
}

static void the_list_of_messages_ends_when_nobody_takes_it(void)
{
    char dir[64];
    char words[300];
    begin(dir);
    shell(
        "f=$(grep -la body-199 %s/commitlog/*); printf x | dd of=$f bs=1 conv=notrunc 2> /dev/null "
        "seek=$(grep -abo body-199 $f | head -n 1 | cut -d: -f1)",
        dir);
    for (int full = 0; full < 2; full++) {
        snprintf(words, sizeof words,
                 "store inspect %s --messages -o json 2>&1 > /dev/%s | grep -c 'message is not'",
                 dir, full ? "full" : "null");
        tl_expect("", words, full, full ? "0" : "1");
    }
    shell("rm -r %s", dir);
}

static void exit_codes_tell_what_is_wrong(void)
{
    char dir[64];
    begin(dir);
    expect("verify", "/nowhere", 1, "");
    expect("verify", "", 2, "");
    expect("verify -o xml", dir, 2, "");
    expect("rebuild --delay-levels xx", dir, 1, "");
    expect("verify", dir, 0, "WHOLE");
    shell("touch %s/abort", dir);
    expect("verify", dir, 3, "UNFINISHED");
    shell("rm %s/abort", dir);
    shell("rm -r %s/consumequeue/Stored/1", dir);
    expect("verify -o json", dir, 4, "\"queueEntriesMissing\":50,");
    expect("rebuild", dir, 0, "rebuilt");
    expect("verify", dir, 0, "WHOLE");
    shell("rm -r %s/index", dir);
    expect("verify", dir, 4, "there is no key index");
    expect("rebuild", dir, 0, "rebuilt");
    expect("verify", dir, 0, "WHOLE");
    shell("f=%s/commitlog/00000000000000000000; printf x | dd of=$f bs=1 conv=notrunc 2> /dev/null "
          "seek=$(grep -abo body-20 $f | head -n 1 | cut -d: -f1)",
          dir);
    expect("verify -o json", dir, 5, "\"findings\":[\"no message at commit-log offset ");
    expect("rebuild", dir, 1, "");
    expect("rebuild --salvage", dir, 0, "rebuilt");
    /* 199, and the cover of the lost one */
    expect("verify -o json", dir, 0, "\"logMessages\":200,");
    expect("verify -o json", dir, 0, "\"queueEntries\":199,");
    shell("rm -r %s", dir);
}

static void a_rebuilt_store_goes_on(void)
{
    char dir[64];
    begin(dir);
    shell("rm -r %s/consumequeue", dir);
    shell("rm -r %s/index", dir);
    expect("rebuild -o json", dir, 0, "\"rebuilt\":true");
    fill(dir);
    expect("verify -o json", dir, 0, "\"queueEntries\":400,");
    shell("rm -r %s", dir);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(shows_and_verifies_the_store_of_a_broker),
        {"the_list_of_messages_ends_when_nobody_takes_it",
         the_list_of_messages_ends_when_nobody_takes_it, 120},
        {"exit_codes_tell_what_is_wrong", exit_codes_tell_what_is_wrong, 240},
        {"a_rebuilt_store_goes_on", a_rebuilt_store_goes_on, 240},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
