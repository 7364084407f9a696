#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# `make bench T=flush`: synchronous flush over the network. Our broker and the real 5.3.3, both with flushDiskType=SYNC_FLUSH and their stores in DIR
# (default /var/tmp, which should be on the disk in question), take turns under the same client: callers that each wait for their answer. Prints
# messages a second, the median of ROUNDS (default 3) turns. tests/interop/setup.sh brings the real broker.

set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.." || exit 1
rmq=${B:-build/release}/rmq
cache=${RMQ_INTEROP_CACHE:-build/interop}
port=${RMQ_BENCH_PORT:-19900}
rounds=${ROUNDS:-3}
scale=${SCALE:-1}
work=$(mktemp -d "${DIR:-/var/tmp}/rmq-flush-XXXXXX")
. "$here/servers.sh"

[ -d "$cache/jars-5.3.3" ] || { echo "no real broker in $cache: tests/interop/setup.sh brings it" >&2; exit 1; }
"$rmq" broker --namesrv-port 0 --set listenPort=0 --set brokerIP1=127.0.0.1 --set "storePathRootDir=$work/ours.d" \
    --set flushDiskType=SYNC_FLUSH > "$work/ours" 2> "$work/ours.err" &
ours_pid=$!
pids="$pids $ours_pid"
RMQ_INTEROP_CACHE=$cache tests/interop/real.sh 5.3.3 "$port" "$work/real.d" flushDiskType=SYNC_FLUSH > "$work/real" 2> "$work/real.err" &
pids="$pids $!"
wait_ready "$work/ours"
wait_ready "$work/real"
ours=$(namesrv_of "$work/ours")
real=$(namesrv_of "$work/real")
real_pids=$(pids_of "$work/real")

# rate NAMESRV THREADS COUNT: messages a second, all acknowledged
rate() {
    "$rmq" bench produce -n "$1" -t Flush --mode sync --threads "$2" --count "$3" --warmup $(($3 / 10)) --size 1024 -o json |
        sed -n 's/.*"msgs_per_s":\([0-9]*\).*"errors":0.*/\1/p'
}

# The turn of each, in which the other stands still.
turn_of_ours() { without "$real_pids" rate "$ours" "$1" $((60000 / scale)); }
turn_of_real() { without "$ours_pid" rate "$real" "$1" $((20000 / scale)); }

median() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }

for ns in "$ours" "$real"; do
    "$rmq" topic create -n "$ns" -t Flush -q 8 > /dev/null || exit 1
    rate "$ns" 16 $((20000 / scale)) > /dev/null   # code is compiled, files are there
done
printf '%-28s %10s %10s %8s\n' "synchronous flush, 1 KiB" "ours /s" "Java /s" "times"
for threads in 16 64; do
    : > "$work/rates.ours"
    : > "$work/rates.real"
    for _ in $(seq "$rounds"); do
        turn_of_ours $threads >> "$work/rates.ours"
        turn_of_real $threads >> "$work/rates.real"
    done
    a=$(median < "$work/rates.ours")
    b=$(median < "$work/rates.real")
    printf '%-28s %10s %10s %8s   at least %s\n' "$threads threads" "${a:--}" "${b:--}" \
        "$(awk -v a="${a:-0}" -v b="${b:-0}" 'BEGIN { if (b > 0) printf "%.1f", a / b; else print "-" }')" $((threads == 16 ? 6 : 4))
done
