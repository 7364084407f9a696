# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# One store handed to and fro ten times between our broker and a real one: 100,000 mixed messages written by ours, some more by each owner, and
# all of them there for each. `rmq store verify` looks at it whenever nobody has it open.
# shellcheck shell=bash

HAND_SIZES="mappedFileSizeCommitLog=16777216 maxHashSlotNum=100000 maxIndexNum=400000"
HAND_MORE=200

hand_open_ours() {  # NAME PORT STORE
    # shellcheck disable=SC2086
    our_broker "$1" "$2" $(($2 + 4)) brokerName=handbroker "storePathRootDir=$3" $HAND_SIZES
}

hand_open_real() {  # NAME PORT STORE VERSION
    real_namesrv "$1-ns" "$4" "$2"
    # shellcheck disable=SC2086
    real_broker "$1" "$4" $(($2 + 4)) "127.0.0.1:$2" brokerName=handbroker "storePathRootDir=$3" \
        "storePathCommitLog=$3/commitlog" $HAND_SIZES
}

hand_open() {  # ours|VERSION NAME STORE: sets NS
    local port
    port=$(take_ports)
    NS=127.0.0.1:$port
    if [ "$1" = ours ]; then
        hand_open_ours "$2" "$port" "$3"
    else
        hand_open_real "$2" "$port" "$3" "$1"
    fi
    must peer waitBroker "ns=$NS" broker=handbroker > /dev/null
}

hand_close() {  # ours|VERSION NAME STORE
    stop_server "$2"
    [ "$1" = ours ] || stop_server "$2-ns"
    "$RMQ" store verify -o json "$3" > "$RUN/$2.verify" 2> "$RUN/$2.verify.err" ||
        fail "rmq store verify after $2 ended with $?: $(head -c 600 "$RUN/$2.verify" "$RUN/$2.verify.err")"
}

# Messages in all queues of the topic, by their offsets.
hand_total() { must peer offsets "ns=$NS" "topic=$1" group=Kept | awk '{ n += $4 - $3 } END { print n + 0 }'; }

hand_is_complete() {  # TOPIC COUNT
    [ "$(hand_total "$1")" = "$2" ]
}

# Each key finds its message, and no other.
hand_keys() {  # TOPIC COUNT
    local text
    text=$(must peer findKeys "ns=$NS" "topic=$1" "prefix=key-$1-" "count=$2")
    [ "$(echo "$text" | value_of found)" = "$2" ] || fail "keys: $(echo "$text" | tr '\n' ' ') of $2"
}

# Keys of what was added last, by the command that operators use.
hand_last_keys() {  # TOPIC COUNT
    local i found
    for i in $(($2 - HAND_MORE)) $(($2 - 1)); do
        found=$(must peer mqadmin queryMsgByKey -n "$NS" -t "$1" -k "key-$1-$i" | grep -c '^[0-9A-F]\{20,\}')
        [ "$found" = 1 ] || fail "key-$1-$i is found $found times"
    done
}

# What one by one, windows, batches, delays, transactions and large bodies leave in a store.
hand_fill() {  # TOPIC
    must peer createTopic "ns=$NS" "topic=$1" queues=4
    must peer createTopic "ns=$NS" "topic=$1-big" queues=2
    must peer createTopic "ns=$NS" "topic=$1-tx" queues=2
    java_produce "$1" "seed=$1" count=500 mode=sync delay=1
    java_produce "$1" "seed=$1" from=500 count=1500 mode=sync
    java_produce "$1" "seed=$1" from=2000 count=90000 mode=async
    java_produce "$1" "seed=$1" from=92000 count=8000 mode=batch
    java_produce "$1-big" "seed=$1" count=30 sizes=5000,100000,1000000 mode=sync
    must peer transactions "ns=$NS" "topic=$1-tx" group=HandTx "seed=$1" count=200 tags=Commit,Rollback wait=60 > /dev/null
}

hand_read() {  # TOPIC COUNT GROUP
    java_consume "$RUN/$1-$3" "$1" "$2" "group=$3"
    same_report "Java, as $3," "$RUN/$1-$3" "seed=$1" "count=$2"
    java_consume "$RUN/$1-$3-tx" "$1-tx" 100 "group=$3-tx"
    same_report "Java, as $3," "$RUN/$1-$3-tx" "seed=$1" count=200 tags=Commit,Rollback only=Commit
    java_consume "$RUN/$1-$3-big" "$1-big" 30 "group=$3-big"
    same_report "Java, as $3," "$RUN/$1-$3-big" "seed=$1" count=30 sizes=5000,100000,1000000
}

handovers() {  # VERSION
    need_rmq
    local topic=Hand${1//./} store=$RUN/handstore-$1 total=100000 round owner name
    hand_open ours "hand-$1-0" "$store"
    hand_fill "$topic"
    wait_until 60 hand_is_complete "$topic" $total || fail "$(hand_total "$topic") of $total are in the queues"
    hand_close ours "hand-$1-0" "$store"
    note "100,000 messages in $(find "$store/commitlog" -type f | wc -l) log files"
    for round in 1 2 3 4 5 6 7 8 9 10; do
        owner=ours
        [ $((round % 2)) = 0 ] || owner=$1
        name=hand-$1-$round
        hand_open "$owner" "$name" "$store"
        must peer awaitRoute "ns=$NS" "topic=$topic"
        hand_is_complete "$topic" $total || fail "$name finds $(hand_total "$topic") messages of $total"
        [ $round != 1 ] || hand_read "$topic" $total "First"
        java_produce "$topic" "seed=$topic" "from=$total" count=$HAND_MORE mode=sync
        total=$((total + HAND_MORE))
        hand_last_keys "$topic" $total
        case $round in 1 | 10) hand_keys "$topic" $total ;; esac
        [ $round != 9 ] || hand_read "$topic" $total "Ninth"
        [ $round != 10 ] || hand_read "$topic" $total "Last"
        hand_close "$owner" "$name" "$store"
    done
    note "ten hand-overs, $total messages, each time all there and every entry right"
}

case_store_handovers_533() { handovers 5.3.3; }
case_store_handovers_497() { handovers 4.9.7; }
