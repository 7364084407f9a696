# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# The Java 5.3.3 consumers of every kind that are not in other cases, on our broker: SQL92, ordered, broadcasting, lite pull.
# shellcheck shell=bash

# A command of the peer is cut at blanks, so the condition has none.
java_by_sql() {
    local topic=JavaSql
    new_topic $topic 4
    java_produce $topic seed=$topic count=200
    java_consume "$RUN/$topic" $topic 50 "sql=(idx>=100)AND(idx<150)"
    same_report "the SQL92 consumer" "$RUN/$topic" seed=$topic from=100 count=50
}

java_in_order() {
    local topic=JavaOrdered
    new_topic $topic 4
    java_produce $topic seed=$topic count=200
    java_consume "$RUN/$topic" $topic 200 listener=orderly live="$RUN/$topic.live"
    same_report "the ordered consumer" "$RUN/$topic" seed=$topic count=200
    note "the ordered consumer: $(must group_py order "$RUN/$topic.live")"
}

java_to_all() {
    local topic=JavaCast m
    new_topic $topic 4
    for m in a b; do
        must peer startConsumer "ns=$NS" name=cast-$m "group=G-$topic" topic=$topic broadcast=1 "report=$RUN/$topic-$m" > /dev/null
    done
    java_produce $topic seed=$topic count=200
    for m in a b; do
        must peer waitConsumer name=cast-$m count=200 timeout=60 > /dev/null
        must peer stopConsumer name=cast-$m > /dev/null
        same_report "member $m" "$RUN/$topic-$m" seed=$topic count=200
    done
}

java_lite_pulls() {
    local topic=JavaLite
    new_topic $topic 4
    java_produce $topic seed=$topic count=200
    must peer litePull "ns=$NS" "group=G-$topic" topic=$topic count=200 "report=$RUN/$topic" > /dev/null
    same_report "the lite pull consumer" "$RUN/$topic" seed=$topic count=200
}

case_java_consumers_on_ours() {
    local port
    need_rmq
    port=$(take_ports)
    BROKER=ours-java
    NS=127.0.0.1:$port
    our_broker $BROKER "$port" $((port + 4)) enablePropertyFilter=true
    java_by_sql
    java_in_order
    java_to_all
    java_lite_pulls
    stop_server $BROKER 20
    note "SQL92, ordered, two broadcasting, lite pull: each all of its messages"
}
