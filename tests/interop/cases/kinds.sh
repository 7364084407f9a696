# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Every kind of consumer (tests/members) on one topic of one broker, each with a group of its own: members join, leave, are killed, reach the broker through
# a bad network, and the broker restarts. Whatever was acknowledged must reach each group, the ordered one in order, the broadcasting one every member.
# shellcheck shell=bash

MEMBERS=$ROOT/build/release/test/members/run
# Pulls, offsets, members, locks, heartbeats, send-backs, acknowledgements: lost, late, cut and refused.
BAD_NETWORK="drop request 11 skip 20 times 3; cutmid response 11 skip 40 times 2; delay response 11 skip 60 times 20 ms 300"
BAD_NETWORK+="; cut request 11 skip 200 times 2; drop request 14 skip 2 times 3; drop request 15 times 2; answer request 15 times 2 code 1 remark no"
BAD_NETWORK+="; drop request 38 times 2; drop response 41 skip 2 times 2; drop request 34 skip 2 times 1"
BAD_NETWORK+="; drop request 36 times 2; answer request 36 times 2 code 1 remark no"
BAD_NETWORK+="; drop response 200050 skip 10 times 2; drop request 200051 skip 10 times 3; drop request 200151 skip 10 times 3"
BAD_NETWORK+="; drop request 200053 times 1; drop request 400 times 2"

# kind_member KIND NAME [WORDS]: as the member $BROKER-KIND-NAME. The instance keeps its name, so that a broadcasting member that comes back goes on.
kind_member() {
    local kind=$1 name=$2
    shift 2
    launch "$BROKER-$kind-$name" "$MEMBERS" "$kind" "ns=$NS" "topic=$TOPIC" "group=G-$TOPIC-$kind" \
        "instance=$BROKER-$kind-${name%2}" "offsets=$RUN/$BROKER-offsets" "$@"
}

all_kinds() { local kind; for kind in $KINDS; do "$1" "$kind" "${@:2}"; done; }

# Every hundredth is asked for again where that is the consumer's to say (a broadcasting one would go without).
words_of() {
    case $1 in push | ordered | popping | pop) echo later=100 ;; esac
}
joins() { kind_member "$1" "$2" "$(words_of "$1")"; }
joins_badly() { kind_member "$1" "$2" "$(words_of "$1")" "broker=$BROKER@127.0.0.1:$PORT" queues=8 "script=$BAD_NETWORK"; }
leaves() { kill -TERM "$(server_pid "$BROKER-$1-$2")"; }
has_left() { wait_until 30 is_gone "$(server_pid "$BROKER-$1-$2")" || fail "$1 $2 does not end: $(tail -n 1 "$RUN/$BROKER-$1-$2/err")"; }
is_killed() { kill -KILL "$(server_pid "$BROKER-$1-$2")"; }
lives() { is_alive "$(server_pid "$BROKER-$1-$2")" || fail "$1 $2 died: $(tail -n 2 "$RUN/$BROKER-$1-$2/err" | tr '\n' ' ')"; }

now_us() { echo $(($(date +%s%N) / 1000)); }

# What is stored of the ordered group now: nothing below may come again from here on.
note_floor() {
    local at
    peer offsets "ns=$NS" "topic=$TOPIC" "group=G-$TOPIC-ordered" > "$RUN/$BROKER.offsets" || return 0
    at=$(now_us)
    awk -v at="$at" 'NF == 5 { print at, $2, $5 }' "$RUN/$BROKER.offsets" >> "$RUN/$BROKER.floors"
}

sent_part() { [ "$(grep -c '"SEND_OK"' "$RUN/$BROKER-producer/out")" -ge $((COUNT * $1 / 100)) ]; }
when_sent() { wait_until 200 sent_part "$1" || fail "$(grep -c '"SEND_OK"' "$RUN/$BROKER-producer/out") of $COUNT were sent"; }

kind_outs() {  # KIND NAME...
    local kind=$1 name
    shift
    for name in "$@"; do echo "$RUN/$BROKER-$kind-$name/out"; done
}

# shellcheck disable=SC2046
group_has_all() { group_py ids "$RUN/$BROKER-producer/out" $(kind_outs "$@") > "$RUN/$BROKER-$1.account"; }

waits_for_all() {  # KIND NAME...
    wait_until 150 group_has_all "$@" || fail "$* did not receive all: $(cat "$RUN/$BROKER-$1.account")"
    note "$*: $(cat "$RUN/$BROKER-$1.account")"
}

# The union of a group's members; each member of a broadcasting one, which is the same after it came back.
received() {
    if [ "$1" = broadcast ]; then
        waits_for_all broadcast a a2
        waits_for_all broadcast b b2
        waits_for_all broadcast c
    else
        waits_for_all "$1" a b c a2 b2
    fi
}

restart_broker() {
    if [ "$BROKER" = kinds-ours ]; then
        echo "$(now_us) reset" >> "$RUN/$BROKER.floors"
        kill_server "$BROKER"
        our_broker "$BROKER" $((PORT - 4)) "$PORT"
    else
        stop_server "$BROKER"
        restart_real_broker "$BROKER" "$VERSION"
    fi
}

# The push consumers of this group pop the topic: the broker says so.
group_pops() {
    must peer mqadmin setConsumeMode -n "$NS" -c DefaultCluster -t "$1" -g "$2" -m POP -q 0 > /dev/null
}

# A tenth of the way between any two of: join, leave, kill, restart of the broker, and joining again.
through_faults() {
    local kind text TOPIC=Kinds
    new_topic $TOPIC 8
    : > "$RUN/$BROKER.floors"
    case $KINDS in *popping*) group_pops $TOPIC G-$TOPIC-popping ;; esac
    all_kinds joins a
    all_kinds joins_badly b
    c_producing "$BROKER-producer" $TOPIC seed=kinds "count=$COUNT" "rate=$RATE" size=300 groups=32
    when_sent 20
    all_kinds joins c
    when_sent 35
    note_floor
    all_kinds leaves a
    all_kinds has_left a
    when_sent 50
    note_floor
    all_kinds is_killed b
    when_sent 60
    restart_broker
    when_sent 70
    note_floor
    all_kinds joins a2
    all_kinds joins_badly b2
    wait_until 300 is_gone "$(server_pid "$BROKER-producer")" || fail "the producer does not end"
    all_kinds received
    all_kinds lives c
    for kind in c a2 b2; do
        all_kinds leaves $kind
        all_kinds has_left $kind
    done
    # shellcheck disable=SC2046
    text=$(group_py lanes "$RUN/$BROKER.floors" $(kind_outs ordered a b c a2 b2)) || fail "the ordered group: $text"
    note "ordered: $text"
}

kinds_on_ours() {
    local PORT BROKER=kinds-ours NS KINDS="push ordered popping broadcast pull lite pop"
    need_members
    PORT=$(($(take_ports) + 4))
    NS=127.0.0.1:$((PORT - 4))
    our_broker $BROKER $((PORT - 4)) $PORT
    must peer waitBroker "ns=$NS" "broker=$BROKER" > /dev/null
    through_faults
    stop_server $BROKER
}

kinds_on_real() {  # VERSION KINDS
    local VERSION=$1 KINDS=$2 PORT BROKER=kinds-real-$1 NS
    need_members
    PORT=$(($(take_ports) + 4))
    NS=127.0.0.1:$((PORT - 4))
    real_namesrv "$BROKER-namesrv" "$VERSION" $((PORT - 4))
    real_broker "$BROKER" "$VERSION" $PORT "$NS"
    must peer waitBroker "ns=$NS" "broker=$BROKER" > /dev/null
    through_faults
    stop_server "$BROKER"
    stop_server "$BROKER-namesrv"
}

need_members() {
    need_rmq
    [ -x "$MEMBERS" ] || skip "there is no $MEMBERS: make $MEMBERS"
}

case_kinds_on_ours() { COUNT=2000 RATE=100 kinds_on_ours; }
case_kinds_on_real_533() { COUNT=2000 RATE=100 kinds_on_real 5.3.3 "push ordered popping broadcast pull lite pop"; }
case_kinds_on_real_497() { COUNT=2000 RATE=100 kinds_on_real 4.9.7 "push ordered broadcast pull lite"; }
case_long_kinds_on_ours() { COUNT=20000 RATE=200 kinds_on_ours; }
case_long_kinds_on_real_533() { COUNT=20000 RATE=200 kinds_on_real 5.3.3 "push ordered popping broadcast pull lite pop"; }
case_long_kinds_on_real_497() { COUNT=20000 RATE=200 kinds_on_real 4.9.7 "push ordered broadcast pull lite"; }

# An ordered handler holds the first message of its queue for longer than a lock and a pull may last (150 s). The stored offset never passes it; when the process is
# killed it comes to the next member first, and what is behind it only then.
held_message() {
    local TOPIC=Held offset end
    need_members
    new_topic $TOPIC 1
    java_produce $TOPIC seed=$TOPIC count=20
    kind_member ordered holds pause=3600000
    end=$((SECONDS + 150))
    while [ $SECONDS -lt $end ]; do
        offset=$(must peer offsets "ns=$NS" topic=$TOPIC group=G-$TOPIC-ordered | awk '{ print $5 }')
        [ "$offset" = - ] || [ "$offset" = 0 ] || fail "the handler holds message 0, and $offset is stored"
        sleep 2
    done
    is_killed ordered holds
    kind_member ordered takes
    wait_until 120 has_lines "$BROKER-ordered-takes" '"queueOffset"' 20 || fail "$(grep -c . "$RUN/$BROKER-ordered-takes/out") of 20 came to the next member"
    echo "$(now_us) reset" > "$RUN/$BROKER.floors"
    note "after 150 s and a kill: $(must group_py lanes "$RUN/$BROKER.floors" "$RUN/$BROKER-ordered-takes/out")"
    leaves ordered takes
    has_left ordered takes
}

case_long_held_message_on_real_533() { need_rmq; use_real 5.3.3; held_message; }
case_long_held_message_on_ours() { use_ours; held_message; }

# End-to-end tests on one real broker, which filters by properties and whose delay levels are those that consumer_level_test knows.
tests_on_real() {  # NAME VERSION TEST...
    local name=$1-tests-$2 version=$2 port test
    shift 2
    need_rmq
    port=$(take_ports)
    real_namesrv "$name-namesrv" "$version" "$port"
    real_broker "$name" "$version" $((port + 4)) "127.0.0.1:$port" \
        "messageDelayLevel=1s 3s 2s 1s 3s 2s 1s 3s 2s 1s 3s 2s 1s 3s 2s 1s 3s 2s" enablePropertyFilter=true recallMessageEnable=true
    must peer waitBroker "ns=127.0.0.1:$port" "broker=$name" > /dev/null
    for test in "$@"; do run_e2e "127.0.0.1:$port" "$test"; done
    stop_server "$name"
    stop_server "$name-namesrv"
}

case_consumer_tests_on_real_533() {
    tests_on_real consumer 5.3.3 consumer_ordered_test consumer_broadcast_test consumer_filter_test consumer_level_test
}
case_consumer_tests_on_real_497() {
    tests_on_real consumer 4.9.7 consumer_ordered_test consumer_broadcast_test consumer_filter_test consumer_level_test \
        pull_consumer_test lite_pull_test lite_pull_group_test
}

# The five thousand sends at once of send_receive_test are left out: a Java broker on a busy machine answers some of them too late.
case_producer_tests_on_real_533() {
    tests_on_real producer 5.3.3 admin_test admin_group_test producer_target_test producer_hook_test producer_trace_test
}

# What else of the end-to-end tests a real broker can take part in; the others need faults, stops or options of the broker.
case_long_tests_on_real_533() {
    tests_on_real all 5.3.3 send_receive_test producer_modes_test producer_bodies_test producer_cut_test producer_misuse_test \
        producer_move_test producer_shutdown_test producer_stats_test producer_steady_test request_test timed_message_test \
        namespace_test consumer_receive_test consumer_group_test consumer_close_test consumer_flow_test consumer_notice_test \
        consumer_offset_test consumer_ordered_close_test consumer_poll_test consumer_retry_test consumer_topic_test
}
