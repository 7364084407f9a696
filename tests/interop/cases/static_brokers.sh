# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# A static topic on two brokers of ours: made, enlarged and moved by the stock mqadmin while a Java consumer runs, written by a Java
# producer before and after each change. Everything comes once, also to a consumer that starts when all queues have moved.
# shellcheck shell=bash

STATIC=StaticJava

static_admin() { must peer mqadmin "$@" > "$RUN/static-admin.$1"; }

static_lag() {  # GROUP: what is left to read, by the tool's own sum
    must peer mqadmin consumerProgress -n "$NS" -g "$1" > "$RUN/static-progress"
    sed -n 's/.*Diff Total: \([0-9]*\).*/\1/p' "$RUN/static-progress"
}

has_no_lag() { [ "$(static_lag "$1")" = 0 ]; }

static_consumed() {  # GROUP COUNT: both what is running and its report
    must peer waitConsumer name=static "count=$2" timeout=120 > /dev/null
    note "$1 received $2"
}

case_static_topic_of_java_on_ours() {
    local port name
    need_rmq
    port=$(take_ports)
    NS=127.0.0.1:$port
    launch static-namesrv "$RMQ" namesrv --port "$port"
    wait_for_words static-namesrv 10 "^ready "
    for name in static-a static-b; do
        our_broker $name $((port + 1)) $((port + 2)) "namesrvAddr=$NS"
        must peer waitBroker "ns=$NS" broker=$name > /dev/null
        port=$((port + 2))
    done
    static_admin updateStaticTopic -n "$NS" -t $STATIC -qn 4 -b static-a,static-b
    must peer awaitRoute "ns=$NS" topic=$STATIC brokers=2
    must peer startConsumer name=static "ns=$NS" topic=$STATIC group=G-$STATIC "report=$RUN/static-live" > /dev/null
    java_produce $STATIC seed=$STATIC count=400 mode=sync
    static_consumed G-$STATIC 400
    # Not later: of a queue that has moved the tool compares a logical offset with a physical one.
    wait_until 30 has_no_lag G-$STATIC || fail "mqadmin sees a lag of $(static_lag G-$STATIC)"
    # All queues to the second broker. Java's clients learn it when they look for routes again, every 30 s: the consumer does, the
    # producer is a new one.
    static_admin remappingStaticTopic -n "$NS" -t $STATIC -b static-b
    start_peer static-peer
    PEER=static-peer java_produce $STATIC seed=$STATIC from=400 count=400 mode=async
    static_admin updateStaticTopic -n "$NS" -t $STATIC -qn 6 -b static-a,static-b
    PEER=static-peer java_produce $STATIC seed=$STATIC from=800 count=200 mode=batch
    static_consumed G-$STATIC 1000
    same_report "the consumer that was there" "$RUN/static-live" seed=$STATIC count=1000
    PEER=static-peer java_consume "$RUN/static-late" $STATIC 1000 group=Late-$STATIC
    same_report "the consumer that came late" "$RUN/static-late" seed=$STATIC count=1000
    must peer stopConsumer name=static > /dev/null
    static_admin topicStatus -n "$NS" -t $STATIC
    grep -q '__syslo__global__' "$RUN/static-admin.topicStatus" || fail "topicStatus shows no logical queues"
    static_admin deleteTopic -n "$NS" -t $STATIC -c DefaultCluster
    peer mqadmin topicRoute -n "$NS" -t $STATIC 2>&1 | grep -q 'No topic route info' || fail "the topic is still there"
    note "1000 messages through 4 and 6 logical queues, all moved once"
    stop_server static-peer
    stop_server static-a 20
    stop_server static-b 20
    stop_server static-namesrv 20
}
