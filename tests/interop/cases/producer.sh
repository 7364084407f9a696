# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# The producer in all its ways: kinds of sends with compressions and sizes, judged by the Java consumer; sharding keys against
# the Java selector; the message trace against mqadmin.
# shellcheck shell=bash

# ---- kinds, compressions, sizes --------------------------------------------------------------------------------------

# Sixteen messages of each kind, text and random, around the size from which bodies are compressed.
kinds_of_sends() {
    local topic words way out
    for way in zlib lz4 zstd none; do
        topic=Kinds-$way
        words="seed=$topic sizes=1,4095,4096,4097,65536 kind=mixed words=3"
        new_topic $topic 4
        # shellcheck disable=SC2086
        c_produce "$RUN/$BROKER-$topic.sync" $topic "--compress $way --mode sync" $words count=16
        # shellcheck disable=SC2086
        c_produce "$RUN/$BROKER-$topic.async" $topic "--compress $way --mode async" $words from=16 count=16
        # shellcheck disable=SC2086
        c_produce "$RUN/$BROKER-$topic.batch" $topic "--compress $way --batch 5" $words from=32 count=16
        # shellcheck disable=SC2086
        c_produce "$RUN/$BROKER-$topic.auto" $topic "--compress $way --mode async --set autoBatch=true" $words from=48 count=16
        out=$RUN/$BROKER-$topic.oneway
        # shellcheck disable=SC2086
        content lines $words from=64 count=16 |
            timeout 60 "$RMQ" produce -n "$NS" -t $topic --json-lines --timeout 30000 --compress $way --mode oneway > "$out" 2> "$out.err" ||
            fail "one-way sends: $(tail -n 1 "$out.err")"
        java_consume "$RUN/$BROKER-$topic" $topic 80
        # shellcheck disable=SC2086
        same_report "Java, $way" "$RUN/$BROKER-$topic" $words count=80
    done
}

# The third of three keys, which mqadmin finds as it does the first.
found_by_each_key() {
    local topic=Kinds-none key
    for key in key-$topic-7 word2-$topic-7; do
        [ "$(must peer mqadmin queryMsgByKey -n "$NS" -t $topic -k $key | grep -c '^[0-9A-F]\{20,\}')" = 1 ] ||
            fail "mqadmin does not find one message with the key $key"
    done
}

# refused BODY WORDS: the producer does not send such a body, and says why.
refused() {
    local out=$RUN/$BROKER-refused
    printf '{"body":"%s"}\n' "$1" > "$out.line"
    timeout 60 "$RMQ" produce -n "$NS" -t Refused --json-lines < "$out.line" > "$out" 2>&1 && fail "a body was sent: $2"
    grep -q "$2" "$out" || fail "refused with other words than \"$2\": $(tail -n 1 "$out")"
}

# Nothing and more than the limit, as Java refuses them.
refused_sizes() {
    new_topic Refused 1
    refused "" "an empty one"
    refused "$(head -c 4194305 /dev/zero | tr '\0' x)" "4194305 bytes, maxMessageSize is 4194304"
    [ "$(stored Refused)" = 0 ] || fail "$(stored Refused) messages are in the topic"
    note "no body, and a byte above the limit: refused, nothing stored"
}

# A megabyte and the most that a broker takes, asynchronously and as batches.
large_sends() {
    local topic=LargeKinds words
    words="seed=$topic sizes=1048576,1048577,4193280"
    new_topic $topic 4
    # shellcheck disable=SC2086
    c_produce "$RUN/$BROKER-$topic.async" $topic "--mode async" $words count=6 kind=random
    c_produce "$RUN/$BROKER-$topic.batch" $topic "--batch 3" seed=$topic sizes=1048576 from=6 count=6 kind=random
    java_consume "$RUN/$BROKER-$topic" $topic 12
    {
        # shellcheck disable=SC2086
        content expect $words count=6 kind=random
        content expect seed=$topic sizes=1048576 from=6 count=6 kind=random
    } > "$RUN/$BROKER-$topic.want"
    cmp -s "$RUN/$BROKER-$topic.want" "$RUN/$BROKER-$topic" || fail "large bodies: Java read others than were sent"
}

producer_kinds() { kinds_of_sends; found_by_each_key; large_sends; refused_sizes; }

case_producer_kinds_on_real_533() { need_rmq; use_real 5.3.3; producer_kinds; }
case_producer_kinds_on_real_497() { need_rmq; use_real 4.9.7; producer_kinds; }
case_producer_kinds_on_ours() { use_ours; producer_kinds; }

# ---- sharding keys -----------------------------------------------------------------------------------------------------

# A thousand keys, ASCII and not, as message groups: each queue id must be that of SelectMessageQueueByHash.
keys_as_java() {
    local topic=Shards base=$RUN/$BROKER-Shards
    new_topic $topic 7
    $PYTHON - "$base" << 'END'
import json, sys
keys = [f"order-{i}" if i % 3 else f"größe-{i}-{chr(0x1F600 + i % 60)}" for i in range(1000)]
with open(sys.argv[1] + ".keys", "w", encoding="utf-8") as out:
    out.write("".join(key + "\n" for key in keys))
with open(sys.argv[1] + ".lines", "w", encoding="utf-8") as out:
    out.write("".join(json.dumps({"body": "b", "messageGroup": key}) + "\n" for key in keys))
END
    java -Dfile.encoding=UTF-8 -cp "$CACHE/jars-5.3.3/*" "$HERE/java/Shards.java" 7 < "$base.keys" > "$base.java" 2> "$base.java.err" ||
        fail "Shards.java: $(tail -n 1 "$base.java.err")"
    timeout 120 "$RMQ" produce -n "$NS" -t $topic --json-lines --timeout 30000 -o json < "$base.lines" > "$base.sent" 2> "$base.err" ||
        fail "rmq produce: $(tail -n 1 "$base.err")"
    sed -n 's/.*"queueId":\([0-9]*\).*/\1/p' "$base.sent" > "$base.ours"
    [ "$(wc -l < "$base.ours")" = 1000 ] || fail "$(wc -l < "$base.ours") of 1000 were sent"
    cmp -s "$base.java" "$base.ours" || fail "$(diff "$base.java" "$base.ours" | grep -c '^<') of 1000 keys are elsewhere than in Java"
    note "1000 keys are where the Java selector puts them, in queues $(sort -u "$base.ours" | tr '\n' ' ')"
}

case_producer_keys_on_real_533() { need_rmq; use_real 5.3.3; keys_as_java; }
case_producer_keys_on_real_497() { need_rmq; use_real 4.9.7; keys_as_java; }
case_producer_keys_on_ours() { use_ours; keys_as_java; }

# ---- message trace -----------------------------------------------------------------------------------------------------

is_traced() { peer mqadmin queryMsgTraceById -n "$NS" -i "$1" > "$2" 2>&1 && grep -q "$3" "$2"; }

# Every send of twenty is found by mqadmin, which reads the records as the Java client does.
traced_sends() {
    local topic=Traced out=$RUN/$BROKER-Traced.sent id
    new_topic $topic 4
    new_trace_topic $topic
    c_produce "$out" $topic "--mode async --set enableMsgTrace=true" seed=$topic count=20
    sed -n 's/.*"msgId":"\([0-9A-F]*\)".*/\1/p' "$out" > "$out.ids"
    [ "$(sort -u "$out.ids" | wc -l)" = 20 ] || fail "not 20 ids in $out"
    while read -r id; do
        wait_until 30 is_traced "$id" "$out.$id" success ||
            fail "no trace of $id: $(tail -n 2 "$out.$id" | tr '\n' ' ')"
    done < "$out.ids"
    note "mqadmin queryMsgTraceById found each of 20 sends: $(grep -h -m 1 success "$out".* | head -n 1)"
    NAMESRV_ADDR=$NS timeout 60 "$(dirname "$RMQ")/${EXAMPLES:-release/examples}/push_consumer" $topic 20 trace > "$out.read" 2>&1 ||
        fail "push_consumer: $(tail -n 1 "$out.read")"
    while read -r id; do
        wait_until 30 is_traced "$id" "$out.$id" example-push ||
            fail "no trace of how $id was consumed: $(tail -n 2 "$out.$id" | tr '\n' ' ')"
    done < "$out.ids"
    note "and how each was consumed: $(grep -h -m 1 example-push "$out".* | head -n 1)"
}

broker_address() { must peer route "ns=$NS" "topic=$1" | sed -n 's/.*{0=\(.*\)}/\1/p'; }

# What a broker has with traceTopicEnable, on the broker of that topic.
new_trace_topic() {
    must peer mqadmin updateTopic -n "$NS" -b "$(broker_address "$1")" -t RMQ_SYS_TRACE_TOPIC -r 1 -w 1 > "$RUN/$BROKER-trace-topic" 2>&1 || true
}

case_producer_trace_on_real_533() { need_rmq; use_real 5.3.3; traced_sends; }
case_producer_trace_on_ours() { use_ours; traced_sends; }

# The same with Java on both ends: our broker keeps and finds what the Java clients write.
case_java_trace_on_ours() {
    use_ours
    local topic=JavaTraced out=$RUN/JavaTraced id
    new_topic $topic 4
    new_trace_topic $topic
    java_produce $topic seed=$topic count=5 trace=1 "ids=$out.ids"
    must peer startConsumer name=traced "ns=$NS" topic=$topic group=G-$topic trace=1 "report=$out" > /dev/null
    must peer waitConsumer name=traced count=5 > /dev/null
    same_report "Java" "$out" seed=$topic count=5
    [ "$(sort -u "$out.ids" | wc -l)" = 5 ] || fail "not 5 ids in $out.ids"
    while read -r id; do
        wait_until 30 is_traced "$id" "$out.$id" success && wait_until 30 is_traced "$id" "$out.$id" G-$topic ||
            fail "no trace of how $id was sent and consumed: $(tail -n 3 "$out.$id" | tr '\n' ' ')"
    done < "$out.ids"
    must peer stopConsumer name=traced > /dev/null   # not before: it drops the records that still wait
    note "mqadmin queryMsgTraceById found how each of 5 was sent and consumed"
}
