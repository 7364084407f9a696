#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# The push consumer against our broker: CPU µs a message of the consumer, concurrent and ordered, by size of the body and number of
# queues; and the memory of a consumer with a slow listener in front of a backlog, against its limit of 16 MiB.
# SCALE=10 takes a tenth of the messages.

set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.." || exit 1
rmq=${B:-build/release}/rmq
scale=${SCALE:-1}
work=$(mktemp -d)
pid=

finish() {
    [ -z "$pid" ] || kill -TERM "$pid" 2> /dev/null
    wait 2> /dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

"$rmq" broker --temporary > "$work/out" 2> "$work/err" &
pid=$!
for _ in $(seq 200); do
    ! grep -q '^ready ' "$work/out" || break
    sleep 0.05
done
NAMESRV_ADDR=$(sed -n 's/^ready .*namesrv=\([0-9.]*:[0-9]*\) .*/\1/p' "$work/out" | head -n 1)
export NAMESRV_ADDR
[ -n "$NAMESRV_ADDR" ] || { echo "no broker: $(cat "$work/out" "$work/err")" >&2; exit 1; }

fill() {  # TOPIC QUEUES SIZE COUNT
    "$rmq" topic create -t "$1" -q "$2" > /dev/null &&
        "$rmq" bench produce -t "$1" --size "$3" --count "$4" --warmup 0 --mode async > /dev/null
}

for queues in 8 64; do
    for size in 128 1024 65536; do
        count=$((size > 1024 ? 6000 / scale : 120000 / scale))
        topic=T$queues-$size
        fill "$topic" $queues $size $count || exit 1
        for kind in "" --orderly; do
            echo "${kind:-concurrent}, $queues queues, $size bytes"
            "$rmq" bench consume -t "$topic" --count $((count * 4 / 5)) --warmup $((count / 10)) $kind || exit 1
        done
    done
done

echo "backlog of $((256 / scale)) MiB on 16 queues, listener of 10 ms, limit 16 MiB"
fill Backlog 16 16384 $((16384 / scale)) || exit 1
"$rmq" bench consume -t Backlog --count 4000 --warmup 0 --threads 4 --pause 10 --cache 16 --timeout 20 > /dev/null 2>&1 &
consumer=$!
sleep 15
awk '/^VmHWM/ { print "peak memory " $2 / 1024 " MiB" }' "/proc/$consumer/status"
awk '{ print "CPU " ($14 + $15) / 15 " % of a core" }' "/proc/$consumer/stat"
kill -TERM $consumer 2> /dev/null
wait $consumer 2> /dev/null
