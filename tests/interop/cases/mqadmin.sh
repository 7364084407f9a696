# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Every mqadmin command on our broker, in one JVM, compared with docs/mqadmin.md, which was made from the real one. Also: our broker at a real name
# server, and a real broker at ours.
# shellcheck shell=bash

case_mqadmin_tour() {
    local dir=$RUN/tour port text
    need_rmq
    port=$(take_ports)
    mkdir -p "$dir"
    our_broker broker "$port" $((port + 4)) > /dev/null
    echo '[{"topicName":"TourListA","readQueueNums":2,"writeQueueNums":2,"perm":6,"topicFilterType":"SINGLE_TAG","topicSysFlag":0,"order":false,"attributes":{}}]' > "$dir/topics.json"
    echo '[{"groupName":"TourListed","retryMaxTimes":5}]' > "$dir/groups.json"
    (cd "$dir" && java -Xmx400m "-Duser.home=$dir" -cp "$CACHE/classes:$CACHE/jars-5.3.3/*" "$HERE/mqadmin/Tour.java" "127.0.0.1:$port" \
        "127.0.0.1:$((port + 4))" broker "$HERE/mqadmin/commands" "$dir" > "$dir/log" 2>&1) || fail "the tour ended with $?: $(tail -n 3 "$dir/log")"
    text=$($PYTHON "$HERE/mqadmin/table.py" --page "$HERE/../../docs/mqadmin.md" "$dir") || fail "$(head -c 800 <<< "$text")"
    note "$text"
}

# Both ways the route must come from the other's name server, and messages must pass.
registered_at() {  # TOPIC
    local topic=$1
    new_topic "$topic" 4
    java_produce "$topic" seed="$topic" count=200
    java_consume "$RUN/$BROKER-$topic" "$topic" 200
    # shellcheck disable=SC2046
    same_report "$topic" "$RUN/$BROKER-$topic" seed="$topic" count=200
}

case_our_broker_at_real_namesrv() {
    local port
    need_rmq
    port=$(take_ports)
    BROKER=ours-there
    NS=127.0.0.1:$port
    real_namesrv "$BROKER-namesrv" 5.3.3 "$port"
    our_broker "$BROKER" $((port + 2)) $((port + 4)) "namesrvAddr=$NS"
    must peer waitBroker "ns=$NS" "broker=$BROKER"
    registered_at RegisteredThere
    stop_server "$BROKER" 20
    stop_server "$BROKER-namesrv"
}

case_real_broker_at_our_namesrv() {
    local port
    need_rmq
    port=$(take_ports)
    BROKER=real-here
    NS=127.0.0.1:$port
    launch "$BROKER-namesrv" "$RMQ" namesrv --port "$port"
    wait_for_words "$BROKER-namesrv" 10 "^ready "
    real_broker "$BROKER" 5.3.3 $((port + 4)) "$NS"
    must peer waitBroker "ns=$NS" "broker=$BROKER"
    registered_at RegisteredHere
    stop_server "$BROKER"
    stop_server "$BROKER-namesrv" 20
}
