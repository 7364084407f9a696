#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# The consumers against our broker. CPU µs a message of the consumer and messages a second for concurrent, ordered, lite pull and pop by size of the body and
# number of queues; the way of a message from send to listener at 1,000 a second; the memory of a consumer with a slow listener in front of a gigabyte,
# against its limit of 16 MiB. SCALE=10 takes a tenth of the messages. The peers' figures are in the table that run.sh prints before.

set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.." || exit 1
B=${B:-build/release}
rmq=$B/rmq
scale=${SCALE:-1}
work=$(mktemp -d)
. "$here/servers.sh"

"$rmq" broker --temporary > "$work/ours" 2> "$work/ours.err" &
pids=$!
wait_ready "$work/ours"
NAMESRV_ADDR=$(namesrv_of "$work/ours")
export NAMESRV_ADDR

value() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<< "$2"; }

fill() {  # TOPIC QUEUES SIZE COUNT
    "$rmq" topic create -t "$1" -q "$2" > /dev/null &&
        "$rmq" bench produce -t "$1" --size "$3" --count "$4" --warmup 0 --mode async > /dev/null
}

consume() {  # KIND TOPIC COUNT WARMUP: a line of JSON
    case $1 in
    concurrent) "$rmq" bench consume -t "$2" --count "$3" --warmup "$4" -o json ;;
    ordered) "$rmq" bench consume -t "$2" --count "$3" --warmup "$4" --orderly -o json ;;
    *) "$B/bench/consumer_bench" "$1" "$NAMESRV_ADDR" "$2" "$3" "$4" ;;
    esac
}

printf '%-12s %7s %7s %12s %12s\n' consumer queues bytes "CPU µs/msg" msgs/s
for queues in 8 64; do
    for size in 128 1024 65536; do
        count=$((size > 1024 ? 6000 / scale : 120000 / scale))
        topic=T$queues-$size
        fill "$topic" $queues $size $count || exit 1
        for kind in concurrent ordered lite pop; do
            line=$(consume $kind "$topic" $((count * 4 / 5)) $((count / 10))) || exit 1
            printf '%-12s %7s %7s %12s %12s\n' $kind $queues $size "$(value cpu_us_per_msg "$line")" "$(value msgs_per_s "$line")"
        done
    done
done

"$rmq" topic create -t Latency -q 8 > /dev/null
line=$("$B/bench/consumer_bench" latency "$NAMESRV_ADDR" Latency $((20000 / scale)) 1000) || exit 1
echo "send to listener at $(value rate "$line") a second: p50 $(value p50_us "$line") µs, p99 $(value p99_us "$line") µs"

echo "backlog of $((1024 / scale)) MiB on 16 queues, listener of 10 ms, limit 16 MiB"
fill Backlog 16 16384 $((65536 / scale)) || exit 1
"$rmq" bench consume -t Backlog --count 60000 --warmup 0 --threads 4 --pause 10 --cache 16 --timeout 20 > /dev/null 2>&1 &
consumer=$!
sleep 15
awk '/^VmHWM/ { print "peak memory " $2 / 1024 " MiB" }' "/proc/$consumer/status"
awk '{ print "CPU " ($14 + $15) / 15 " % of a core" }' "/proc/$consumer/stat"
kill -TERM $consumer 2> /dev/null
wait $consumer 2> /dev/null || : # it was told to end
