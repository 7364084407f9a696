/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* `rmq topic`, `rmq group` and `rmq cluster`: what an operator types, and what is wrong with it. */
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/command.h"

/* rmq with words in which %s stands for the cluster's topic. */
static void expect(const struct tl_cluster *cluster, const char *format, int exit_code,
                   const char *text)
{
    char words[512];
    const char *place = strstr(format, "%s");
    if (place) {
        snprintf(words, sizeof words, "%.*s%s%s 2>&1", (int)(place - format), format,
                 cluster->topic, place + 2);
    } else {
        snprintf(words, sizeof words, "%s 2>&1", format);
    }
    tl_expect(cluster->namesrv, words, exit_code, text);
}

static void topics_are_created_and_deleted_at_the_shell(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 1);
    expect(&cluster, "topic create -t %s-shell -q 3", 0, "with 3 queues");
    expect(&cluster, "topic list", 0, "-shell");
    expect(&cluster, "topic delete -t %s-shell", 0, "-shell deleted");
    expect(&cluster, "topic delete -t %s-shell", 1, "no route for topic");
    expect(&cluster, "topic create -t %s-shell -o json", 0, "\"queues\":8}");
    expect(&cluster, "topic delete -t %s-shell -o json", 0, "-shell\"}");
    expect(&cluster, "topic delete -t %s -c nowhere", 1,
           "no master is registered in cluster nowhere");
    expect(&cluster, "topic delete", 2, "a topic is needed: -t TOPIC");
    expect(&cluster, "topic create --nope", 2, "see rmq topic create --help");
    expect(&cluster, "topic list this", 2, "see rmq topic list --help");
    expect(&cluster, "topic remove", 2, "there is no command 'remove'");
    tl_cluster_stop(&cluster);
}

static void groups_are_created_shown_and_deleted_at_the_shell(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 1);
    expect(&cluster, "group create -g G-%s --retries 3 --no-broadcast", 0, " created");
    expect(&cluster, "group list", 0, "G-");
    expect(&cluster, "group list -o json", 0, "[\"");
    expect(&cluster, "group config -g G-%s", 0, "retryMaxTimes                    3");
    expect(&cluster, "group config -g G-%s -o json", 0, "\"consumeBroadcastEnable\":false");
    expect(&cluster, "group members -g G-%s", 0, "no member of group G-");
    expect(&cluster, "group members -g G-%s -o json", 0, "{}");
    expect(&cluster, "group delete -g G-%s --offsets --topics", 0, " deleted");
    expect(&cluster, "group delete -g G-%s", 1, "not known to any broker");
    expect(&cluster, "group config -g G-%s", 1, "not known to any broker");
    expect(&cluster, "group create", 2, "a group is needed: -g GROUP");
    expect(&cluster, "group create -g 'a group'", 1, "byte 0x20");
    expect(&cluster, "group list -o xml", 2, "--output is text or json, not 'xml'");
    expect(&cluster, "group", 2, "rmq group COMMAND --help explains one");
    tl_cluster_stop(&cluster);
}

static void a_group_is_reset_at_the_shell_and_goes_on_from_there(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "body", 0, 5);
    rmq_producer_destroy(producer);
    expect(&cluster, "group progress -g G-%s", 1, "has no offset in any topic");
    expect(&cluster, "consume -t %s -g Readers --from first -c 5 --timeout 20", 0, "body-4");
    expect(&cluster, "group progress -g Readers -o json", 0, "\"consumerOffset\":5,\"lag\":0}");
    expect(&cluster, "group reset -g Readers -t %s --to first", 0, " 0            0");
    expect(&cluster, "group -g Readers -t %s", 0, " 5            0            5");
    expect(&cluster, "consume -t %s -g Readers -c 5 --timeout 20", 0, "body-0");
    expect(&cluster, "group reset -g Readers -t %s --to '2020-01-01 00:00:00' -o json", 0,
           "\"offset\":0}");
    expect(&cluster, "group reset -g Readers -t %s --to last -o json", 0, "\"offset\":5}");
    expect(&cluster, "group reset -g Readers -t %s", 2, "--to first");
    expect(&cluster, "group reset -g Readers -t NoSuch --to last 2>/dev/null | grep -c OFFSET", 1,
           "0\n"); /* no head without a table */
    expect(&cluster, "group reset -g Readers -t %s --to tomorrow", 2, "not 'tomorrow'");
    expect(&cluster, "group reset -g Readers -t Nowhere-%s --to last", 1, "no route for topic");
    tl_cluster_stop(&cluster);
}

static void a_broker_is_looked_at_and_changed_at_the_shell(void)
{
    static const char *const options[] = {"faultInjectionEnable", "true", NULL};
    struct tl_cluster cluster;
    char words[200];
    tl_cluster_start_with(&cluster, 1, options);
    tl_cluster_needs_own(&cluster);
    expect(&cluster, "cluster", 0, rmq_broker_addr(cluster.broker));
    expect(&cluster, "cluster list -o json", 0, "\"brokerAddrTable\"");
    expect(&cluster, "cluster status", 0, "brokerVersionDesc");
    expect(&cluster, "cluster status -b broker-a -o json", 0, "\"brokerVersionDesc\"");
    expect(&cluster, "cluster config -b broker-a", 0, "fileReservedTime=72\n");
    expect(&cluster, "cluster config --set fileReservedTime=48 --set deleteWhen=05", 0, "changed");
    snprintf(words, sizeof words, "cluster config -o json -b %s", rmq_broker_addr(cluster.broker));
    expect(&cluster, words, 0, "\"fileReservedTime\":\"48\"");
    expect(&cluster, "cluster config --set listenPort=1", 1, "listenPort is read at start");
    expect(&cluster, "cluster config --set maxMessageSize=big", 1, "maxMessageSize");
    expect(&cluster, "cluster config --set fileReservedTime=24 --set fileReservedTim=48", 1,
           "has no setting fileReservedTim\n");
    expect(&cluster, "cluster config", 0, "fileReservedTime=48\n"); /* nothing was changed */
    expect(&cluster, "cluster config --set fileReservedTime", 2, "--set needs name=value");
    expect(&cluster, "cluster config -b broker-z", 1, "no master of the name broker-z");
    expect(&cluster, "cluster config --set 'fault=answer 310 code=13 remark=not today'", 0,
           "changed");
    expect(&cluster, "produce -t %s body", 1, "not today");
    snprintf(words, sizeof words, "cluster config -b %s --set 'fault=answer -1 times=-1 code=2'",
             rmq_broker_addr(cluster.broker));
    expect(&cluster, words, 0, "changed");
    snprintf(words, sizeof words, "cluster config -b %s --set fault=clear",
             rmq_broker_addr(cluster.broker));
    expect(&cluster, words, 0, "changed");
    expect(&cluster, "produce -t %s body", 0, "SEND_OK");
    tl_cluster_stop(&cluster);
}

static void a_message_is_shown_with_properties_and_times(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    expect(&cluster, "produce -t %s --key k17 --property region=north hello", 0, "SEND_OK");
    expect(&cluster, "message -t %s --key k17", 0, "\nproperty region=north\n");
    expect(&cluster, "message -t %s --key k17 -o json", 0, "\"region\":\"north\"");
    expect(&cluster, "message -t %s --key k17 -o json", 0, "\"storeTimestamp\":");
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"topics_are_created_and_deleted_at_the_shell", topics_are_created_and_deleted_at_the_shell,
         60},
        {"groups_are_created_shown_and_deleted_at_the_shell",
         groups_are_created_shown_and_deleted_at_the_shell, 60},
        {"a_broker_is_looked_at_and_changed_at_the_shell",
         a_broker_is_looked_at_and_changed_at_the_shell, 60},
        {"a_group_is_reset_at_the_shell_and_goes_on_from_there",
         a_group_is_reset_at_the_shell_and_goes_on_from_there, 60},
        TL_CASE(a_message_is_shown_with_properties_and_times),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
