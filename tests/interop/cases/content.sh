# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Every message with its content, both ways, between our side and the real one. Order of the file: the real system with
# itself (which shows that peers and servers of this suite are sound), then ours.
# shellcheck shell=bash

# Words of a content: see content.py. 10,000 messages of 200 bytes.
many() { echo "seed=$1 count=10000"; }

# java_to_java TOPIC words...: the Java producer and push consumer on the cluster at $NS.
java_produce() {
    local topic=$1 text
    shift
    text=$(must peer produce "ns=$NS" "topic=$topic" "$@")
    [ "$(echo "$text" | value_of failed)" = 0 ] || fail "Java producer: $(echo "$text" | tr '\n' ' ')"
    note "Java producer: $(echo "$text" | tr '\n' ' ')"
}

java_consume() {  # REPORT TOPIC COUNT key=value...
    local report=$1 topic=$2 count=$3 begin=$EPOCHREALTIME text
    shift 3
    text=$(must peer consume "ns=$NS" "topic=$topic" "group=G-$topic" "count=$count" timeout=120 "report=$report" "$@")
    note "Java push consumer: $(echo "$text" | tr '\n' ' ')in $(elapsed "$begin") s"
}

go_run() {
    local text
    text=$(timeout 200 "$CACHE/gopeer" "$@" 2>&1) || fail "Go peer $1: $(echo "$text" | tail -n 3 | tr '\n' ' ')"
    note "Go $1: $(echo "$text" | tail -n 4 | tr '\n' ' ')"
}

new_topic() { must peer createTopic "ns=$NS" "topic=$1" "queues=${2:-8}" "broker=$BROKER"; }

# java_and_java: one topic, four ways of sending, read once.
java_and_java() {
    local topic=JavaJava
    new_topic $topic
    java_produce $topic seed=$topic count=2000 mode=sync
    java_produce $topic seed=$topic from=2000 count=5000 mode=async
    java_produce $topic seed=$topic from=7000 count=2000 mode=batch
    java_produce $topic seed=$topic from=9000 count=1000 mode=oneway
    java_consume "$RUN/$BROKER-$topic" $topic 10000
    # shellcheck disable=SC2046
    same_report "Java" "$RUN/$BROKER-$topic" $(many $topic)
}

go_and_go() {
    local topic=GoGo
    new_topic $topic
    go_run produce "ns=$NS" topic=$topic seed=$topic count=2000 mode=sync
    go_run produce "ns=$NS" topic=$topic seed=$topic from=2000 count=8000 mode=async
    go_run consume "ns=$NS" topic=$topic group=G-$topic count=10000 timeout=120 "report=$RUN/$BROKER-$topic"
    # shellcheck disable=SC2046
    same_report "Go" "$RUN/$BROKER-$topic" $(many $topic)
}

case_java_on_real_533() { use_real 5.3.3; java_and_java; }
case_java_on_real_497() { use_real 4.9.7; java_and_java; }
case_go_on_real_533() { need_go; use_real 5.3.3; go_and_go; }
case_java_on_ours() { use_ours; java_and_java; }
case_go_on_ours() { need_rmq; need_go; use_ours; go_and_go; }

# Headers in the compact form instead of JSON: a property of the whole process in Java.
case_java_binary_on_ours() {
    use_ours
    local topic=JavaBinary PEER=binary-peer
    start_peer $PEER -Drocketmq.serialize.type=ROCKETMQ
    new_topic $topic
    java_produce $topic seed=$topic count=2000 mode=async
    java_produce $topic seed=$topic from=2000 count=500 mode=batch
    java_consume "$RUN/$topic" $topic 2500
    same_report "Java" "$RUN/$topic" seed=$topic count=2500
    stop_server $PEER
}

# Asked for again (through the retry topic and a delay level), sent with a delay, and taken under locks.
case_java_later_on_ours() {
    use_ours
    local topic=Later
    new_topic $topic 4
    java_produce $topic seed=$topic count=400 mode=async
    java_produce $topic seed=$topic from=400 count=100 delay=1
    java_consume "$RUN/$topic" $topic 500 later=4
    same_report "Java" "$RUN/$topic" seed=$topic count=500
    grep -q 'again=125' "$RUN/java_later_on_ours.log" || fail "not 125 messages came a second time"
    java_consume "$RUN/$topic.orderly" $topic 500 group=GO-$topic listener=orderly
    same_report "Java, orderly" "$RUN/$topic.orderly" seed=$topic count=500
}

# c_to_java: our producer, a quarter of the messages one by one, the rest in a window.
c_to_java() {
    local topic=CJava
    new_topic $topic
    c_produce "$RUN/$BROKER-$topic.sync" $topic "--mode sync" seed=$topic count=2500
    c_produce "$RUN/$BROKER-$topic.async" $topic "--mode async" seed=$topic from=2500 count=7500
    java_consume "$RUN/$BROKER-$topic" $topic 10000
    # shellcheck disable=SC2046
    same_report "Java" "$RUN/$BROKER-$topic" $(many $topic)
}

java_to_c() {
    local topic=JavaC
    new_topic $topic
    java_produce $topic seed=$topic count=10000 mode=async
    c_consume "$RUN/$BROKER-$topic" $topic G-$topic 10000 120
    # shellcheck disable=SC2046
    same_report "rmq consume" "$RUN/$BROKER-$topic" $(many $topic)
}

case_c_to_java_on_real_533() { need_rmq; use_real 5.3.3; c_to_java; }
case_c_to_java_on_real_497() { need_rmq; use_real 4.9.7; c_to_java; }
case_java_to_c_on_real_533() { need_rmq; use_real 5.3.3; java_to_c; }
case_java_to_c_on_real_497() { need_rmq; use_real 4.9.7; java_to_c; }

case_c_binary_on_real_533() {
    need_rmq
    use_real 5.3.3
    local topic=CBinary
    new_topic $topic
    c_produce "$RUN/$topic.sent" $topic "--serialize ROCKETMQ --mode async" seed=$topic count=2000
    c_produce "$RUN/$topic.batch" $topic "--serialize ROCKETMQ --batch 50" seed=$topic from=2000 count=500
    c_consume "$RUN/$topic" $topic G-$topic 2500 60 --serialize ROCKETMQ
    same_report "rmq consume" "$RUN/$topic" seed=$topic count=2500
}

# Our client and the Go client, each reading the other.
case_c_and_go_on_real_533() {
    need_rmq
    need_go
    use_real 5.3.3
    local topic=CGo
    new_topic $topic
    c_produce "$RUN/$topic.sent" $topic "--mode async" seed=$topic count=2000
    go_run produce "ns=$NS" topic=$topic seed=$topic from=2000 count=2000 mode=async
    go_run consume "ns=$NS" topic=$topic group=G-$topic count=4000 timeout=120 "report=$RUN/$topic"
    same_report "Go" "$RUN/$topic" seed=$topic count=4000
    c_consume "$RUN/$topic.c" $topic GC-$topic 4000 60
    same_report "rmq consume" "$RUN/$topic.c" seed=$topic count=4000
}
