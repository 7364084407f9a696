# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# The store files: what our broker wrote is opened by the real 5.3.3 broker, and the other way round.
# shellcheck shell=bash

# Everything that goes into the store, in four ways: one by one, in a window, in batches, and large (hence compressed).
fill_store() {  # TOPIC FIRST
    java_produce "$1" "seed=$1" "from=$2" count=500 mode=sync
    java_produce "$1" "seed=$1" "from=$(($2 + 500))" count=2000 mode=async
    java_produce "$1" "seed=$1" "from=$(($2 + 2500))" count=500 mode=batch
    if [ "$2" = 0 ]; then
        java_produce "$1-big" "seed=$1" count=30 sizes=5000,100000,1000000 mode=sync
    fi
}

read_store() {  # WHO TOPIC COUNT BIG
    java_consume "$RUN/$2-$1" "$2" "$3" "group=Read-$1"
    same_report "from the store of $1, Java" "$RUN/$2-$1" "seed=$2" "count=$3"
    java_consume "$RUN/$2-$1-big" "$2-big" "$4" "group=ReadBig-$1"
    same_report "from the store of $1, Java" "$RUN/$2-$1-big" "seed=$2" "count=$4" sizes=5000,100000,1000000
}

open_ours() {  # NAME PORT STORE
    our_broker "$1" "$2" $(($2 + 4)) brokerName=storebroker "storePathRootDir=$3"
    NS=127.0.0.1:$2
    must peer waitBroker "ns=$NS" broker=storebroker > /dev/null
}

open_real() {  # NAME PORT STORE
    real_broker "$1" 5.3.3 $(($2 + 4)) "$NS" brokerName=storebroker "storePathRootDir=$3" "storePathCommitLog=$3/commitlog"
    must peer waitBroker "ns=$NS" broker=storebroker > /dev/null
    must peer awaitRoute "ns=$NS" topic="$4"
}

new_store_topics() {
    must peer createTopic "ns=$NS" "topic=$1" queues=4
    must peer createTopic "ns=$NS" "topic=$1-big" queues=2
}

case_store_of_ours_on_real() {
    need_rmq
    local topic=OurStore port store=$RUN/ourstore
    port=$(take_ports)
    open_ours ourstore1 "$port" "$store"
    new_store_topics $topic
    fill_store $topic 0
    java_consume "$RUN/$topic-kept" $topic 3000 group=Kept
    must peer offsets "ns=$NS" topic=$topic group=Kept > "$RUN/$topic.before"
    stop_server ourstore1 20
    port=$(take_ports)
    NS=127.0.0.1:$port
    real_namesrv ourstore-ns 5.3.3 "$port"
    open_real ourstore2 "$port" "$store" $topic
    must peer offsets "ns=$NS" topic=$topic group=Kept > "$RUN/$topic.after"
    cmp -s "$RUN/$topic.before" "$RUN/$topic.after" ||
        fail "offsets (broker queue min max committed) differ: $(diff "$RUN/$topic.before" "$RUN/$topic.after" | tr '\n' ' ')"
    note "min, max and committed offsets are the same on the real broker"
    read_store real $topic 3000 30
    fill_store $topic 3000
    read_store real2 $topic 6000 30
    stop_server ourstore2
    stop_server ourstore-ns
}

case_store_of_real_on_ours() {
    need_rmq
    local topic=RealStore port store=$RUN/realstore
    port=$(take_ports)
    NS=127.0.0.1:$port
    real_namesrv realstore-ns 5.3.3 "$port"
    real_broker realstore1 5.3.3 $((port + 4)) "$NS" brokerName=storebroker "storePathRootDir=$store" \
        "storePathCommitLog=$store/commitlog"
    must peer waitBroker "ns=$NS" broker=storebroker > /dev/null
    new_store_topics $topic
    fill_store $topic 0
    java_consume "$RUN/$topic-kept" $topic 3000 group=Kept
    must peer offsets "ns=$NS" topic=$topic group=Kept > "$RUN/$topic.before"
    stop_server realstore1
    stop_server realstore-ns
    port=$(take_ports)
    open_ours realstore2 "$port" "$store"
    must peer offsets "ns=$NS" topic=$topic group=Kept > "$RUN/$topic.after"
    cmp -s "$RUN/$topic.before" "$RUN/$topic.after" ||
        fail "offsets (broker queue min max committed) differ: $(diff "$RUN/$topic.before" "$RUN/$topic.after" | tr '\n' ' ')"
    note "min, max and committed offsets are the same on our broker"
    read_store ours $topic 3000 30
    stop_server realstore2 20
}

# The CRC property of 5.x: each broker writes it, is killed, and the other one's recovery accepts a record only when its CRC is right.
# shellcheck disable=SC2086
case_store_with_property_crc() {
    need_rmq
    local topic=CrcStore port store=$RUN/crcstore crc="enabledAppendPropCRC=true forceVerifyPropCRC=true"
    port=$(take_ports)
    NS=127.0.0.1:$port
    real_namesrv crcstore-ns 5.3.3 "$port"
    real_broker crcstore1 5.3.3 $((port + 4)) "$NS" brokerName=storebroker "storePathRootDir=$store" \
        "storePathCommitLog=$store/commitlog" $crc
    must peer waitBroker "ns=$NS" broker=storebroker > /dev/null
    must peer createTopic "ns=$NS" topic=$topic queues=4
    java_produce $topic seed=$topic count=300 mode=sync
    kill_server crcstore1
    stop_server crcstore-ns
    grep -qa '__CRC32#' "$store/commitlog/00000000000000000000" || fail "the real broker wrote no CRC property"
    port=$(take_ports)
    NS=127.0.0.1:$port
    our_broker crcstore2 "$port" $((port + 4)) brokerName=storebroker "storePathRootDir=$store" \
        maxHashSlotNum=100000 maxIndexNum=400000 $crc
    must peer waitBroker "ns=$NS" broker=storebroker > /dev/null
    java_consume "$RUN/$topic-ours" $topic 300 group=CrcOurs
    same_report "written by the real broker, read on ours, Java" "$RUN/$topic-ours" seed=$topic count=300
    java_produce $topic seed=$topic from=300 count=300 mode=sync
    java_produce $topic seed=$topic from=600 count=300 mode=batch
    kill_server crcstore2
    "$RMQ" store verify "$store" > "$RUN/crcstore.verify" || [ $? = 3 ] || # not closed
        fail "rmq store verify: $(tail -n 1 "$RUN/crcstore.verify")"
    port=$(take_ports)
    NS=127.0.0.1:$port
    real_namesrv crcstore-ns2 5.3.3 "$port"
    real_broker crcstore3 5.3.3 $((port + 4)) "$NS" brokerName=storebroker "storePathRootDir=$store" \
        "storePathCommitLog=$store/commitlog" $crc
    must peer waitBroker "ns=$NS" broker=storebroker > /dev/null
    must peer awaitRoute "ns=$NS" topic=$topic
    java_consume "$RUN/$topic-real" $topic 900 group=CrcReal
    same_report "written by both, read on the real broker, Java" "$RUN/$topic-real" seed=$topic count=900
    stop_server crcstore3
    stop_server crcstore-ns2
}
