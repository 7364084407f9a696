# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Our client on static topics: mqadmin makes one on the first of two brokers and moves its logical queues to the second and then to both, while our
# producer and consumer run. Nothing is lost, and the group is at the end of each logical queue.
# shellcheck shell=bash

LOGICAL=__syslo__global__

moved_to() {  # TOPIC BROKERS
    must peer mqadmin remappingStaticTopic -n "$NS" -t "$1" -b "$2" > "$RUN/$1.remapped"
    local sent received begin=$SECONDS
    sent=$(count_sent "$1-producer")
    received=$(count_received "$1-consumer")
    goes_on producer sent_more_than "$1-producer" "$sent" "$begin"
    goes_on consumer received_more_than "$1-consumer" "$received" "$begin"
}

# Ends and lags of the logical queues. mqadmin takes the group's offset of the leader's own queue for one of the logical queue, so that its difference
# is the step, a multiple of 10,000, that remappingStaticTopic lets offsets make (its columns: topic, broker name, queue id, both offsets, difference).
at_the_end() {  # TOPIC QUEUES
    "$RMQ" group progress -n "$NS" -g "G-$1" -t "$1" -o json > "$RUN/$1.progress" &&
        must peer mqadmin consumerProgress -n "$NS" -g "G-$1" > "$RUN/$1.mqadmin" &&
        [ "$(grep "\"brokerName\":\"$LOGICAL\"" "$RUN/$1.progress" | grep -c '"lag":0}')" = "$2" ] &&
        [ "$(awk -v t="$1" -v b=$LOGICAL '$1 == t && $2 == b && $6 % 10000 == 0' "$RUN/$1.mqadmin" | wc -l)" = "$2" ]
}

logical_queues() {  # TOPIC BROKER BROKER
    local topic=$1
    must peer mqadmin updateStaticTopic -n "$NS" -t "$topic" -qn 6 -b "$2" > "$RUN/$topic.made"
    must peer awaitRoute "ns=$NS" "topic=$topic" brokers=2
    launch "$topic-consumer" "$RMQ" consume -n "$NS" -t "$topic" -g "G-$topic" --from first -o json
    c_producing "$topic-producer" "$topic" seed=static count=100000 rate=100 size=200 "stop=$RUN/$topic.stop"
    wait_until 30 sent_more_than "$topic-producer" 200 || fail "the producer sent $(tail -n 1 "$RUN/$topic-producer/err")"
    wait_until 30 received_more_than "$topic-consumer" 100 || fail "the consumer received nothing"
    moved_to "$topic" "$3"
    moved_to "$topic" "$2,$3"
    touch "$RUN/$topic.stop"
    wait_until 60 is_gone "$(server_pid "$topic-producer")" || fail "the producer does not end with its input"
    wait_until 60 all_ids_received "$topic-producer" "$topic-consumer" ||
        fail "$(group_py ids "$RUN/$topic-producer/out" "$RUN/$topic-consumer/out")"
    note "$(group_py ids "$RUN/$topic-producer/out" "$RUN/$topic-consumer/out")"
    wait_until 60 at_the_end "$topic" 6 || fail "the group is not at the end: $(cat "$RUN/$topic.progress" "$RUN/$topic.mqadmin" | tr '\n' ' ')"
    stop_server "$topic-consumer" 20
}

# A name server of their own: mqadmin tells every broker that is known there of a static topic.
case_c_static_topic_on_real_533() {
    need_rmq
    local port name
    port=$(take_ports)
    NS=127.0.0.1:$port
    real_namesrv logical-real-namesrv 5.3.3 "$port"
    real_broker logical-real-a 5.3.3 $((port + 4)) "$NS"
    real_broker logical-real-b 5.3.3 $((port + 8)) "$NS"
    for name in logical-real-a logical-real-b; do must peer waitBroker "ns=$NS" "broker=$name" > /dev/null; done
    logical_queues StaticOnReal logical-real-a logical-real-b
    for name in logical-real-a logical-real-b logical-real-namesrv; do stop_server "$name"; done
}

case_c_static_topic_on_ours() {
    need_rmq
    local port name
    port=$(take_ports)
    NS=127.0.0.1:$port
    our_broker logical-ours-a "$port" $((port + 4))
    our_broker logical-ours-b $((port + 2)) $((port + 8)) "namesrvAddr=$NS"
    for name in logical-ours-a logical-ours-b; do must peer waitBroker "ns=$NS" "broker=$name" > /dev/null; done
    logical_queues StaticOnOurs logical-ours-a logical-ours-b
    for name in logical-ours-b logical-ours-a; do stop_server "$name" 20; done
}
