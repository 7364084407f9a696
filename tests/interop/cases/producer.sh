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
        words="seed=$topic sizes=1,4095,4096,4097,65536 kind=mixed"
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
            timeout 60 "$RMQ" produce -n "$NS" -t $topic --json-lines --compress $way --mode oneway > "$out" 2> "$out.err" ||
            fail "one-way sends: $(tail -n 1 "$out.err")"
        java_consume "$RUN/$BROKER-$topic" $topic 80
        # shellcheck disable=SC2086
        same_report "Java, $way" "$RUN/$BROKER-$topic" $words count=80
    done
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

case_producer_kinds_on_real_533() { need_rmq; use_real 5.3.3; kinds_of_sends; large_sends; }
case_producer_kinds_on_real_497() { need_rmq; use_real 4.9.7; kinds_of_sends; large_sends; }
case_producer_kinds_on_ours() { use_ours; kinds_of_sends; large_sends; }

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
    must peer mqadmin updateTopic -n "$NS" -b "$(broker_address)" -t RMQ_SYS_TRACE_TOPIC -r 1 -w 1 > "$RUN/$BROKER-trace-topic" 2>&1 || true
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

broker_address() { must peer route "ns=$NS" topic=Traced | sed -n 's/.*{0=\(.*\)}/\1/p'; }

case_producer_trace_on_real_533() { need_rmq; use_real 5.3.3; traced_sends; }
case_producer_trace_on_ours() { use_ours; traced_sends; }
