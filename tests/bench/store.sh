#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# `make bench T=store`: the store without a network, 1 KiB messages, one table: what was measured, and what it must be. Everything is measured in one
# run on one machine, in DIR (default /var/tmp, which should be on the disk in question). Beside the wall clock stands the
# processor time of the measuring thread, since other work on the machine disturbs the former. MESSAGES (default 2,000,000),
# BIG (default 8,600,000: a store of 10 GiB) and SCALE=10 (a tenth) choose how much.

set -u
B=${B:-build/release}
scale=${SCALE:-1}
messages=$((${MESSAGES:-2000000} / scale))
big=$((${BIG:-8600000} / scale))
dir=${DIR:-/var/tmp}
lines=build/bench-store.jsonl
: > "$lines"

need=$((big * 1400 + 500000000))
have=$(($(df --output=avail -k "$dir" | tail -n 1) * 1024))
if [ $have -lt $need ]; then
    echo "$dir has $((have >> 20)) MiB free, $((need >> 20)) are needed: choose DIR or SCALE" >&2
    exit 1
fi
run() { "$B/bench/store_bench" -o -d "$dir" "$@" 2> /dev/null >> "$lines" || echo "store_bench $* failed" >&2; }
# value WHAT MEMBER: of the last line with that name
value() { sed -n "s/^{\"what\":\"$1\",.*\"$2\":\([0-9.]*\).*/\1/p" "$lines" | tail -n 1; }

run -n "$messages" bare dispatch lag read
run -n $((messages / 4)) threads sync
run -n "$big" open kill verify

row() { printf '%-44s %14s %14s   %s\n' "$@"; }
rate() { awk -v v="$(value "$1" msgs_per_s)" 'BEGIN { printf "%.2f M/s", v / 1e6 }'; }
cpu() { awk -v v="$(value "$1" cpu_us_per_msg)" 'BEGIN { if (v + 0 > 0) printf "%.2f M/s", 1 / v; else printf "-" }'; }
share() { awk -v a="$(value "$1" "$3")" -v b="$(value "$2" "$3")" -v r="${4:-}" 'BEGIN { if (r) { t = a; a = b; b = t } printf "%.0f %%", (b > 0 ? 100 * a / b : 0) }'; }
ms() { awk -v v="$(value "$1" wall_s)" 'BEGIN { printf "%.0f ms", v * 1000 }'; }
row "store, 1 KiB messages" "wall clock" "CPU of thread" "must be"
row "bare CRC + copy, fresh file" "$(rate bare)" "$(cpu bare)" ""
row "bare CRC + copy, allocated ahead" "$(rate "bare, allocated ahead")" "$(cpu "bare, allocated ahead")" ""
row "append, dispatch, index, one thread" "$(rate "append, dispatch, index")" "$(cpu "append, dispatch, index")" "1.2 M/s"
row "  of the bare loop into a fresh file" "$(share "append, dispatch, index" bare msgs_per_s)" "$(share "append, dispatch, index" bare cpu_us_per_msg r)" "60 %"
row "append, dispatch, no index" "$(rate "append, dispatch")" "$(cpu "append, dispatch")" ""
row "append in 4 threads" "$(rate "append in threads, dispatch")" "" ""
row "dispatch lag at full rate" "$(value "dispatch lag" most_ms) ms" "$(value "dispatch lag" most_bytes) bytes" "50 ms"
row "read, in page cache" "$(rate read)" "$(cpu read)" "5 M/s"
row "plain write + fdatasync" "$(value "plain write, fdatasync" msgs_per_s) /s" "" ""
for who in "64 threads that wait" "64 writers that wait"; do
    what="sync flush, ${who% that*}"
    row "synchronous flush, $who" "$(value "$what" msgs_per_s) /s" "" ""
    row "  times the plain rate" "$(awk -v a="$(value "$what" msgs_per_s)" -v b="$(value "plain write, fdatasync" msgs_per_s)" 'BEGIN { printf "%.1f", (b > 0 ? a / b : 0) }')" "" "16"
done
row "open after a normal stop, $big messages" "$(ms "open after a normal stop")" "" "200 ms"
row "open after SIGKILL" "$(ms "open after SIGKILL")" "" "3000 ms"
row "open, whole log looked through" "$(ms "open, whole log recovered")" "" ""
row "rmq store verify, warm" "$(value verify gib_per_s) GiB/s" "$(value verify gib_per_cpu_s) GiB/s" "1 GiB/s"
echo "figures are in $lines"
