# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Kinds of consumers beside Java's: ordered, broadcasting, with SQL92 conditions, sharing by consistent hash; and what
# mqadmin asks of our consumers.
# shellcheck shell=bash

# ---- mqadmin ---------------------------------------------------------------------------------------------------------

client_of() { peer members "ns=$NS" "group=$1" | awk '{ print $1; exit }'; }
has_lines() { [ "$(grep -c "$2" "$RUN/$1/out")" -ge "$3" ]; }
says_progress() { peer mqadmin consumerProgress -n "$NS" -g "$1" | grep -q 'Diff Total: 0'; }

# administrated NAME TOPIC GROUP WORDS...: what mqadmin asks of the consumer NAME, which prints a line for each message, and to whose topic 40 were sent;
# WORDS are in its status.
administrated() {
    local name=$1 topic=$2 group=$3 client id text
    id=$(sed -n 's/.*"offsetMsgId":"\([0-9A-F]*\)".*/\1/p' "$RUN/$BROKER-$topic.sent" | head -n 1)
    wait_until 30 has_lines "$name" . 40 || fail "the consumer printed $(wc -l < "$RUN/$name/out") of 40"
    wait_until 30 says_progress "$group" ||
        fail "consumerProgress: $(peer mqadmin consumerProgress -n "$NS" -g "$group" | tr '\n' ' ')"
    client=$(client_of "$group")
    text=$(must peer mqadmin consumerStatus -n "$NS" -g "$group" -i "$client")
    has_words consumerStatus "$text" PROP_CONSUME_TYPE CONSUME_PASSIVELY "$topic" '#Consumer MQ Detail#' "${@:4}"
    has_words "queryMsgById with a client" \
        "$(must peer mqadmin queryMsgById -n "$NS" -t "$topic" -i "$id" -g "$group" -d "$client")" CR_SUCCESS
    wait_until 10 has_lines "$name" . 41 || fail "the message was not consumed directly"
    must peer mqadmin resetOffsetByTime -n "$NS" -g "$group" -t "$topic" -s 0 -f true > "$RUN/$BROKER-$topic.reset"
    wait_until 60 has_lines "$name" . 81 ||
        fail "after the reset $(wc -l < "$RUN/$name/out") of 81: $(tail -n 3 "$RUN/$BROKER-$topic.reset" | tr '\n' ' ')"
    stop_server "$name" 20
    note "$name: consumerProgress, consumerStatus, queryMsgById with direct consumption, resetOffsetByTime"
}

pulling_is_administrated() {
    local topic=Asked name=$BROKER-asked
    new_topic $topic 4
    c_produce "$RUN/$BROKER-$topic.sent" $topic "" seed=$topic count=40
    NAMESRV_ADDR=$NS launch "$name" stdbuf -oL "$(dirname "$RMQ")/${EXAMPLES:-release/examples}/push_consumer" $topic 1000000
    administrated "$name" $topic example-push pullBatchSize
}

popping_is_administrated() {
    local topic=AskedPop name=$BROKER-asked-pop
    new_topic $topic 4
    group_pops $topic G-$topic
    c_produce "$RUN/$BROKER-$topic.sent" $topic "" seed=$topic count=40
    launch "$name" "$MEMBERS" popping "ns=$NS" topic=$topic group=G-$topic
    administrated "$name" $topic G-$topic popBatchNums waitAckCount
}

our_consumers_are_administrated() {
    need_members
    pulling_is_administrated
    popping_is_administrated
}

case_mqadmin_of_our_consumer_on_real_533() { need_rmq; use_real 5.3.3; our_consumers_are_administrated; }
case_mqadmin_of_our_consumer_on_ours() { use_ours; our_consumers_are_administrated; }

# ---- ordered ---------------------------------------------------------------------------------------------------------

ordered_member() {  # NAME TOPIC
    launch "$1" "$RMQ" consume -n "$NS" -t "$2" -g "G-$2" --from first --orderly --threads 4 --events -o json
}

in_order() { group_py order $(outs "$@"); }

ordered_group() {
    local topic=Ordered-${BROKER//./_} p=$BROKER m
    new_topic "$topic" 8
    must peer startConsumer "name=$topic" "ns=$NS" "topic=$topic" "group=G-$topic" listener=orderly \
        "report=$RUN/$topic.java" > /dev/null
    ordered_member "$p-o1" "$topic"
    ordered_member "$p-o2" "$topic"
    must peer startProducer "name=$topic" "ns=$NS" "topic=$topic" rate=200 count=1000000 size=100 "acks=$RUN/$topic.acks"
    expect_shares "Java and two of ours" "$topic" "$topic" "$p-o1" "$p-o2"
    ordered_member "$p-o3" "$topic"
    expect_shares "one joined" "$topic" "$topic" "$p-o1" "$p-o2" "$p-o3"
    stop_server "$p-o1" 20
    expect_shares "one left" "$topic" "$topic" "$p-o2" "$p-o3"
    kill_server "$p-o2"
    expect_shares "one killed" "$topic" "$topic" "$p-o3"
    sleep 5
    must peer stopProducer "name=$topic" > /dev/null
    wait_until 120 committed_to_the_end "$topic" "G-$topic" ||  # a broker keeps a dead member's locks for a minute
        fail "not consumed to the end: $(peer offsets "ns=$NS" "topic=$topic" "group=G-$topic" | tr '\n' ' ')"
    must peer stopConsumer "name=$topic" > /dev/null
    stop_server "$p-o3" 20
    # shellcheck disable=SC2046
    note "$(in_order "$p-o1" "$p-o2" "$p-o3")" || fail "out of order: $(in_order "$p-o1" "$p-o2" "$p-o3")"
    for m in "$p-o1" "$p-o2" "$p-o3"; do cat "$RUN/$m/out"; done > "$RUN/$topic.json"
    awk '{ print $1 }' "$RUN/$topic.java" > "$RUN/$topic.got"
    grep -o '"idx":"[0-9]*"' "$RUN/$topic.json" | tr -dc '0-9\n' >> "$RUN/$topic.got"
    sort -u "$RUN/$topic.got" > "$RUN/$topic.union"
    tr -s ' \t' '\n\n' < "$RUN/$topic.acks" | sort -u | comm -23 - "$RUN/$topic.union" > "$RUN/$topic.lost"
    [ ! -s "$RUN/$topic.lost" ] || fail "$(wc -l < "$RUN/$topic.lost") of $(wc -l < "$RUN/$topic.acks") messages were lost"
    note "$(wc -l < "$RUN/$topic.acks") messages, Java $(wc -l < "$RUN/$topic.java"), $(wc -l < "$RUN/$topic.got") deliveries, 0 lost"
}

case_ordered_group_on_real_533() { need_rmq; use_real 5.3.3; ordered_group; }
case_ordered_group_on_ours() { use_ours; ordered_group; }

# ---- consistent hash, broadcasting, SQL92 ----------------------------------------------------------------------------

hash_member() {
    launch "$1" "$RMQ" consume -n "$NS" -t "$2" -g "G-$2" --from first --strategy CONSISTENT_HASH --events -o json
}

case_consistent_hash_group() {
    need_rmq
    use_real 5.3.3
    local topic=Ring STRATEGY=CONSISTENT_HASH
    new_topic $topic 16
    must peer startConsumer name=ring "ns=$NS" topic=$topic group=G-$topic strategy=$STRATEGY > /dev/null
    hash_member ring1 $topic
    expect_shares "Java and ours" $topic ring ring1
    hash_member ring2 $topic
    expect_shares "Java and two of ours" $topic ring ring1 ring2
    stop_server ring1 20
    expect_shares "one of ours left" $topic ring ring2
    must peer stopConsumer name=ring > /dev/null
    stop_server ring2 20
}

broadcast_member() {
    launch "$1" "$RMQ" consume -n "$NS" -t "$2" -g "G-$2" --from first --broadcast --instance "$1" \
        --offsets "$RUN/$1/offsets" -o json
}

all_came() { local m; for m in "${@:2}"; do has_lines "$m" '"msgId"' "$1" || return 1; done; }

broadcast() {
    local topic=Broadcast p=$BROKER-cast
    new_topic $topic 4
    broadcast_member "$p-a" $topic
    broadcast_member "$p-b" $topic
    java_produce $topic seed=$topic count=500
    wait_until 60 all_came 500 "$p-a" "$p-b" ||
        fail "$(grep -c msgId "$RUN/$p-a/out") and $(grep -c msgId "$RUN/$p-b/out") of 500"
    stop_server "$p-a" 20
    java_produce $topic seed=$topic from=500 count=100
    wait_until 60 all_came 600 "$p-b" || fail "$(grep -c msgId "$RUN/$p-b/out") of 600"
    broadcast_member "$p-a" $topic
    wait_until 60 all_came 100 "$p-a" || fail "$(grep -c msgId "$RUN/$p-a/out") of 100 after the pause"
    stop_server "$p-a" 20
    stop_server "$p-b" 20
    [ "$(grep -c msgId "$RUN/$p-a/out")" = 100 ] || fail "$(grep -c msgId "$RUN/$p-a/out") messages after the pause, not 100"
    grep -q '"offsetTable":{{' "$RUN/$p-a/offsets/"*"@$p-a/G-$topic/offsets.json" || fail "no offset file in Java's shape"
    note "two members, 600 messages each, one of them with a pause"
}

case_broadcast_on_real_533() { need_rmq; use_real 5.3.3; broadcast; }
case_broadcast_on_ours() { use_ours; broadcast; }

case_sql_on_real_533() {
    need_rmq
    use_real 5.3.3
    local topic=Sql port text out=$RUN/sql.out
    new_topic $topic 4
    text=$("$RMQ" consume -n "$NS" -t $topic -g G-$topic --sql 'price > 10' --timeout 5 2>&1) &&
        fail "a broker without SQL92 takes a condition"
    grep -q "does not support consumer to filter message by SQL92" <<< "$text" || fail "refused with: $text"
    port=$(take_ports)
    real_namesrv sql-namesrv 5.3.3 "$port"
    real_broker sql-broker 5.3.3 $((port + 4)) "127.0.0.1:$port" enablePropertyFilter=true
    NS=127.0.0.1:$port
    BROKER=sql-broker
    must peer waitBroker "ns=$NS" broker=$BROKER
    new_topic $topic 4
    "$RMQ" produce -n "$NS" -t $topic --timeout 30000 -p price=5 --count 20 cheap > /dev/null || fail "produce"
    "$RMQ" produce -n "$NS" -t $topic --timeout 30000 -p price=15 --count 20 dear > /dev/null || fail "produce"
    timeout 60 "$RMQ" consume -n "$NS" -t $topic -g G-$topic --from first --sql "price BETWEEN 10 AND 20" --count 20 \
        --timeout 30 > "$out" || fail "consume ended with $?: $(wc -l < "$out") messages"
    [ "$(grep -c dear "$out")" = 20 ] && ! grep -q cheap "$out" || fail "the condition was not kept"
    "$RMQ" consume -n "$NS" -t $topic -g G2-$topic --sql 'price >' --timeout 5 > /dev/null 2> "$out" &&
        fail "a bad condition was taken"
    stop_server sql-broker
    stop_server sql-namesrv
    note "20 of 40; refused where there is no filter; a bad condition: $(grep -m 1 -o 'SUBSCRIPTION.*' "$out")"
}
