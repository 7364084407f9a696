# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Consumer groups of several members on the real broker: who owns which queue, and that nothing is lost when members
# come, go and die.
# shellcheck shell=bash

group_py() { $PYTHON "$HERE/group.py" "$@"; }

# member NAME TOPIC GROUP: one of our consumers as a process of its own; what it receives is in $RUN/NAME/out.
member() {
    launch "$1" "$RMQ" consume -n "$NS" -t "$2" -g "$3" --from first --events -o json
}

outs() { local m; for m in "$@"; do echo "$RUN/$m/out"; done; }

# shellcheck disable=SC2046
owned_once() { local queues=$1; shift; group_py shares "$queues" $(outs "$@") > /dev/null; }

# at_rest WHEN QUEUES MEMBER...: each queue gets exactly one owner, and it stays so.
at_rest() {
    local when=$1 queues=$2 begin=$SECONDS
    shift 2
    # shellcheck disable=SC2046
    wait_until 60 owned_once "$queues" "$@" || fail "$when: queues are not owned once: $(group_py shares "$queues" $(outs "$@"))"
    local took=$((SECONDS - begin))
    sleep 3
    # shellcheck disable=SC2046
    owned_once "$queues" "$@" || fail "$when: the shares did not stay: $(group_py shares "$queues" $(outs "$@"))"
    # shellcheck disable=SC2046
    note "$when: $(group_py shares "$queues" $(outs "$@")) after $took s"
}

# shellcheck disable=SC2046
all_received() { local acks=$1; shift; group_py account "$acks" $(outs "$@") > /dev/null; }

case_three_consumers() {
    need_rmq
    use_real 5.3.3
    local topic=Three acks=$RUN/Three.acks
    new_topic $topic 8
    must peer startProducer name=$topic "ns=$NS" topic=$topic rate=200 count=1000000 size=100 "acks=$acks"
    member t1 $topic G-$topic
    member t2 $topic G-$topic
    member t3 $topic G-$topic
    at_rest "three" 8 t1 t2 t3
    member t4 $topic G-$topic
    at_rest "one joined" 8 t1 t2 t3 t4
    stop_server t2 20
    at_rest "one left" 8 t1 t3 t4
    kill_server t3
    at_rest "one killed" 8 t1 t4
    note "$(must peer stopProducer name=$topic | tr '\n' ' ')"
    wait_until 60 all_received "$acks" t1 t2 t3 t4 || fail "$(group_py account "$acks" $(outs t1 t2 t3 t4))"
    note "$(group_py account "$acks" $(outs t1 t2 t3 t4))"
    stop_server t1 20
    stop_server t4 20
}

# Shares as Java's own rule has them for the ids that the broker knows, against what the members hold.
same_shares() {  # TOPIC JAVA_MEMBER C_MEMBER...
    local topic=$1 java=$2 text id
    shift 2
    peer shares "ns=$NS" "topic=$topic" "group=G-$topic" "strategy=${STRATEGY:-AVG}" > "$RUN/$topic.shares" || return 1
    [ "$(wc -l < "$RUN/$topic.shares")" = $(($# + 1)) ] || return 1
    text=$(peer queues "name=$java") || return 1
    id=$(echo "$text" | value_of clientId)
    [ "$(awk -v id="$id" '$1 == id { print $2 }' "$RUN/$topic.shares")" = "$(echo "$text" | value_of queues)" ] || return 1
    [ "$(awk -v id="$id" '$1 != id { print $2 }' "$RUN/$topic.shares" | sort)" = \
        "$(for m in "$@"; do group_py share "$RUN/$m/out"; done | sort)" ]
}

expect_shares() {  # WHEN TOPIC JAVA_MEMBER C_MEMBER...
    local when=$1 topic=$2 java=$3
    shift 3
    wait_until 60 same_shares "$topic" "$java" "$@" ||
        fail "$when: by Java's rule $(tr '\n' ' ' < "$RUN/$topic.shares"); Java holds $(peer queues "name=$java" | tr '\n' ' ');" \
            "ours hold $(for m in "$@"; do group_py share "$RUN/$m/out"; done | tr '\n' ' ')"
    note "$when: $(tr '\n' ' ' < "$RUN/$topic.shares")"
}

case_mixed_group() {
    need_rmq
    use_real 5.3.3
    local topic=Mixed
    new_topic $topic 8
    must peer startConsumer name=mixed "ns=$NS" topic=$topic group=G-$topic "report=$RUN/$topic.java" > /dev/null
    member mixed1 $topic G-$topic
    expect_shares "Java and ours" $topic mixed mixed1
    member mixed2 $topic G-$topic
    expect_shares "Java and two of ours" $topic mixed mixed1 mixed2
    java_produce $topic seed=$topic count=3000 mode=async "acks=$RUN/$topic.acks"
    stop_server mixed1 20
    expect_shares "one of ours left" $topic mixed mixed2
    must peer stopConsumer name=mixed > /dev/null
    stop_server mixed2 20
    cat "$RUN/mixed1/out" "$RUN/mixed2/out" > "$RUN/$topic.json"
    content report "$RUN/$topic.json" > "$RUN/$topic.c" 2> /dev/null
    sort -n -u "$RUN/$topic.java" "$RUN/$topic.c" > "$RUN/$topic.all"
    same_report "the group" "$RUN/$topic.all" seed=$topic count=3000
    note "Java $(wc -l < "$RUN/$topic.java"), ours $(wc -l < "$RUN/$topic.c")"
}

case_killed_member() {
    need_rmq
    use_real 5.3.3
    local topic=Killed begin
    new_topic $topic 8
    member k1 $topic G-$topic
    member k2 $topic G-$topic
    at_rest "two" 8 k1 k2
    kill_server k1
    begin=$EPOCHREALTIME
    wait_until 30 owned_once 8 k2 || fail "after 30 s the other member holds $(group_py share "$RUN/k2/out")"
    note "the queues of the killed member had moved after $(elapsed "$begin") s"
    stop_server k2 20
}

# A group that has offsets starts again and again; a message sent once it holds its queues must come within a second.
starts_within_a_second() {
    local topic=Start i begin one
    new_topic $topic 4
    java_produce $topic seed=$topic count=20
    c_consume "$RUN/$BROKER-$topic.first" $topic G-$topic 20 30
    for i in $(seq 1 "${STARTS:-10}"); do
        one=$BROKER-start$i
        member "$one" $topic G-$topic
        wait_until 10 grep -q '"rebalanced"' "$RUN/$one/out" || fail "start $i: no rebalance within 10 s"
        begin=$EPOCHREALTIME
        java_produce $topic seed=$topic "from=$((100 + i))" count=1 > /dev/null
        wait_until 2 grep -q "\"$((100 + i))\"" "$RUN/$one/out" || fail "start $i: the message did not come in 2 s"
        awk -v s="$(elapsed "$begin")" 'BEGIN { exit s > 1.2 }' || fail "start $i: the message took $(elapsed "$begin") s"
        stop_server "$one" 20
    done
    note "$i starts, each message within a second"
}

# The same in one process, which sends when the call that starts the consumer has returned, fifty times.
start_calls_within_a_second() {
    local out=$RUN/$BROKER-start-calls slowest
    RMQ_NAMESRV=$NS timeout 300 "$E2E/consumer_receive_test" a_message_sent_when_start_has_returned_waits_for_no_round > "$out" 2>&1 ||
        fail "consumer_receive_test: $(tail -n 1 "$out")"
    slowest=$(sed -n 's/^slowest of 50 starts: \([0-9]*\) ms$/\1/p' "$out")
    [ "$slowest" -lt 1000 ] || fail "the slowest message came ${slowest:-?} ms after its start"
    note "50 starts, the slowest message after $slowest ms"
}

case_starts_on_real_533() { need_rmq; use_real 5.3.3; starts_within_a_second; start_calls_within_a_second; }
case_starts_on_ours() { use_ours; starts_within_a_second; start_calls_within_a_second; }

idle_latency() {
    local topic=Idle rc=0 port
    new_topic $topic 4
    port=$(awk '/^ready / { print $2 }' "$RUN/peer/out")
    timeout 150 $PYTHON "$HERE/latency.py" "$RMQ" "$NS" $topic "$port" 20 || rc=$?
    [ $rc != 77 ] || skip "this machine is too busy to tell"
    [ $rc = 0 ] || fail "$BROKER: p99 not below 20 ms"
}

case_idle_latency_on_real_533() {
    need_rmq
    use_real 5.3.3
    idle_latency
}

case_idle_latency_on_ours() {
    use_ours
    idle_latency
}
