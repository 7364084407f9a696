# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Request and reply, each side Java and ours in turn; messages for a time and their recall.
# shellcheck shell=bash

REPLIER=$ROOT/build/release/examples/replier

# Java asks, ours replies; then the other way round.
both_ways() {
    local topic=Requests text
    [ -x "$REPLIER" ] || skip "there is no $REPLIER"
    new_topic $topic-c 4
    launch "$BROKER-replier" env "NAMESRV_ADDR=$NS" "$REPLIER" $topic-c 100
    text=$(must peer ask "ns=$NS" topic=$topic-c seed=$topic count=100 sizes=10,200,5000,100000)
    note "Java asks, ours replies: $text"
    [ "$(echo "$text" | value_of replies)" = 100 ] || fail "the Java requester: $text"
    wait_for_words "$BROKER-replier" 30 "answered 100"

    new_topic $topic-j 4
    must peer startReplier "ns=$NS" topic=$topic-j group=G-$topic name=$BROKER
    content lines seed=$topic count=100 sizes=10,200,5000,100000 |
        timeout 120 "$RMQ" request -n "$NS" -t $topic-j --json-lines -o json --timeout 20000 > "$RUN/$BROKER.replies" 2> "$RUN/$BROKER.replies.err" ||
        fail "rmq request: $(tail -n 1 "$RUN/$BROKER.replies.err")"
    text=$(must peer stopReplier name=$BROKER)
    note "ours asks, Java replies: $(echo "$text" | tr '\n' ' ')"
    [ "$(grep -c '"re:' "$RUN/$BROKER.replies")" = 100 ] || fail "rmq request: $(grep -c '"re:' "$RUN/$BROKER.replies") replies of 100"
    [ "$(echo "$text" | value_of failed)" = 0 ] || fail "the Java replier: $text"
}

case_requests_on_real_533() { need_rmq; use_real 5.3.3; both_ways; }
case_requests_on_ours() { use_ours; both_ways; }
case_c_requests_on_real_533() { OPTIONS="" e2e_on_real requests request_test; }
case_c_requests_on_real_497() { VERSION=4.9.7 OPTIONS="" e2e_on_real requests-497 request_test; }

# Every second message is taken back; those of Java on our broker, ours on the real one.
case_java_timed_on_ours() {
    need_rmq
    local topic=JavaTimed tags=Kept,Recalled port text NS BROKER=ours-timed begin
    port=$(take_ports)
    NS=127.0.0.1:$port
    our_broker $BROKER "$port" $((port + 4)) recallMessageEnable=true
    must peer waitBroker "ns=$NS" broker=$BROKER
    new_topic $topic 4
    begin=$EPOCHREALTIME
    text=$(must peer timed "ns=$NS" topic=$topic seed=$topic count=100 tags=$tags ms=6000)
    note "Java: $text"
    java_consume "$RUN/$topic" $topic 50
    same_report "Java" "$RUN/$topic" seed=$topic count=100 tags=$tags only=Kept
    note "all there after $(elapsed "$begin") s"
    awk -v took="$(elapsed "$begin")" 'BEGIN { exit took >= 6 ? 0 : 1 }' || fail "they came before their time"
    stop_server $BROKER
}
case_c_timed_on_real_533() { OPTIONS="recallMessageEnable=true" e2e_on_real timed timed_message_test; }
