# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# The real broker goes away for half a minute while our producer and consumer run, once in good order and once killed.
# shellcheck shell=bash

count_sent() { grep -c '"SEND_OK"' "$RUN/$1/out"; }
count_received() { grep -c '"msgId"' "$RUN/$1/out"; }
sent_more_than() { [ "$(count_sent "$1")" -gt "$2" ]; }
received_more_than() { [ "$(count_received "$1")" -gt "$2" ]; }
all_ids_received() { group_py ids "$RUN/$1/out" "$RUN/$2/out" > /dev/null; }

# goes_on WHAT PREDICATE NAME COUNT BEGIN: more than those COUNT lines, within 30 s of BEGIN ($SECONDS when that became possible).
goes_on() {
    local what=$1 test=$2 name=$3 count=$4 begin=$5
    wait_until $((begin + 30 - SECONDS)) "$test" "$name" "$count" || fail "the $what did not go on within 30 s: $(tail -n 1 "$RUN/$name/err")"
    note "the $what went on after $((SECONDS - begin)) s"
}

outage() {  # stop_server|kill_server
    need_rmq
    use_real 5.3.3
    local name=outage-$1 topic=Outage-$1 port sent received begin
    port=$(take_ports)
    real_broker "$name" 5.3.3 "$port" "$NS"
    must peer waitBroker "ns=$NS" "broker=$name" > /dev/null
    must peer createTopic "ns=$NS" "topic=$topic" queues=4 "broker=$name"
    launch "$name-consumer" "$RMQ" consume -n "$NS" -t "$topic" -g "G-$topic" --from first -o json
    c_producing "$name-producer" "$topic" seed=outage count=100000 rate=50 size=500 "stop=$RUN/$name.stop"
    wait_until 30 sent_more_than "$name-producer" 200 || fail "the producer sent $(tail -n 1 "$RUN/$name-producer/err")"
    wait_until 10 received_more_than "$name-consumer" 100 || fail "the consumer received nothing"
    "$1" "$name"
    sleep 30
    is_alive "$(server_pid "$name-producer")" || fail "the producer ended in the outage: $(tail -n 1 "$RUN/$name-producer/err")"
    is_alive "$(server_pid "$name-consumer")" || fail "the consumer ended in the outage: $(tail -n 1 "$RUN/$name-consumer/err")"
    sent=$(count_sent "$name-producer")
    received=$(count_received "$name-consumer")
    restart_real_broker "$name" 5.3.3
    begin=$SECONDS
    goes_on producer sent_more_than "$name-producer" "$sent" "$begin"
    goes_on consumer received_more_than "$name-consumer" "$received" "$begin"
    sleep 3
    touch "$RUN/$name.stop"
    wait_until 60 is_gone "$(server_pid "$name-producer")" || fail "the producer does not end with its input"
    wait_until 60 all_ids_received "$name-producer" "$name-consumer" ||
        fail "$(group_py ids "$RUN/$name-producer/out" "$RUN/$name-consumer/out")"
    note "$(group_py ids "$RUN/$name-producer/out" "$RUN/$name-consumer/out")"
    stop_server "$name-consumer" 20
    stop_server "$name"
}

case_outage_sigterm() { outage stop_server; }
case_outage_sigkill() { outage kill_server; }
