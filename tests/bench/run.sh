#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# `make bench`: our client and our broker next to the peers that are found, on one machine in one run, CPU µs a message.
#   client: bare programs, ours, Go, Java, all against the real 5.3.3 broker where it is there, else against ours
#   broker: ours and the real one, both under the same client (Go where it is there, else ours)
#   producer, consumer: the parts of client alone
#   store: without a network, see store.sh
#   flush: synchronous flush over the network beside the real broker, see flush.sh
# T=store (client, producer, consumer, broker) chooses one; without it all run. tests/interop/setup.sh brings the real broker and the peers. SCALE=10 takes a tenth of the messages. Results are also in
# build/bench.jsonl, a line each.

set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root" || exit 1
B=${B:-build/release}
cache=${RMQ_INTEROP_CACHE:-build/interop}
rmq=$B/rmq
scale=${SCALE:-1}
what=${T:-all}
case $what in
all | client | producer | consumer | broker) ;;
store) exec tests/bench/store.sh ;;
flush) exec tests/bench/flush.sh ;;
*) echo "choose T=store, flush, client, producer, consumer or broker, not $what" >&2; exit 2 ;;
esac
port=${RMQ_BENCH_PORT:-19900}
work=$(mktemp -d)
lines=build/bench.jsonl
: > "$lines"
. "$here/servers.sh"

sync_count=$((200000 / scale)) async_count=$((400000 / scale)) consume_count=$((400000 / scale)) warm=$((20000 / scale))
go=
java=
real=
real_pids=
[ ! -x "$cache/gobench" ] || go=$cache/gobench
[ ! -x "$cache/javabench" ] || java=$cache/javabench
[ ! -d "$cache/jars-5.3.3" ] || real=1

start_ours() {
    "$rmq" broker --temporary --set brokerName=ours --set brokerIP1=127.0.0.1 > "$work/ours" 2> "$work/ours.err" &
    ours_pid=$!
    pids="$pids $ours_pid"
    wait_ready "$work/ours"
    ours_ns=$(namesrv_of "$work/ours")
}

start_real() {
    RMQ_INTEROP_CACHE=$cache tests/interop/real.sh 5.3.3 "$port" "$work/real.d" > "$work/real" 2> "$work/real.err" &
    pids="$pids $!"
    wait_ready "$work/real"
    real_ns=$(namesrv_of "$work/real")
    real_pids=$(pids_of "$work/real")
    real_pid=${real_pids% *}
}

value() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<< "$2"; }

# measure PEER COMMAND...: the cpu_us_per_msg of its JSON line, or -
measure() {
    local peer=$1 line
    shift
    line=$("$@" 2> "$work/last.err" | tail -n 1)
    case $line in
    {*)
        case $line in
        *'"peer"'*) echo "$line" ;;
        *) echo "{\"peer\":\"$peer\",${line#\{}" ;;
        esac >> "$lines"
        [ "$(value errors "$line")" -eq 0 ] 2> /dev/null || [ "$peer" = bare ] || echo "$peer: $(value errors "$line") errors in $(value count "$line") messages" >&2
        value cpu_us_per_msg "$line"
        ;;
    *) echo "$peer: $(tail -n 1 "$work/last.err")" >&2; echo - ;;
    esac
}

produce_args() {  # sync|async NS SIZE COUNT
    local way="--threads 16"
    [ "$1" = sync ] || way="--window 1000"
    echo "-n $2 -t Bench --mode $1 --count $4 --size $3 $way --warmup $(($4 < warm * 10 ? $4 / 10 : warm))"
}

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a + 0 > 0 && b + 0 > 0) printf "%.1fx", b / a; else printf "-" }'; }

client_row() {  # NAME LIMIT BARE OURS GO JAVA
    printf '%-28s %8s %8s | %8s %8s %8s %8s%s\n' "$1" "$(ratio "$4" "$5")" "$(ratio "$4" "$6")" "$3" "$4" "${5:--}" "${6:--}" "${2:+   at most $2}"
}

bench_client() {
    local ns=$1 bare
    "$rmq" topic create -n "$ns" -t Bench -q 8 > "$work/topic" 2>&1 || { cat "$work/topic"; exit 1; }
    printf '\n%-28s %8s %8s | %8s %8s %8s %8s\n' "client, CPU µs a message" "Go/ours" "Java/ours" bare ours Go Java
    if [ "$what" != consumer ]; then
        bare=$(measure bare "$B/bench/bare_bench" sync $sync_count)
        produce_row "sync, 16 threads" 19 "$bare" "$(produce_args sync "$ns" 1024 $sync_count)"
        bare=$(measure bare "$B/bench/bare_bench" async $sync_count)
        produce_row "async, window 1000" 5 "$bare" "$(produce_args async "$ns" 1024 $async_count)"
    fi
    [ "$what" != producer ] || { produce_other_sizes "$ns"; "$B/bench/producer_bench" "$ns" "$scale"; return 0; }
    [ "$what" != consumer ] || fill "$ns" Bench 1024 $((consume_count + warm))
    bare=$(measure bare "$B/bench/bare_bench" consume $consume_count)
    consume_row "push consume, 8 queues" 1.2 "$bare" "$ns" Bench $consume_count $warm
    [ "$what" != consumer ] || consume_other_sizes "$ns"
}

fill() {  # NS TOPIC SIZE COUNT
    "$rmq" bench produce -n "$1" -t "$2" --mode async --count "$4" --size "$3" --window 1000 --warmup 0 > /dev/null 2>&1
}

produce_row() {  # NAME LIMIT BARE ARGS
    local ours gov=- javav=-
    # shellcheck disable=SC2086
    ours=$(measure ours "$rmq" bench produce $4 -o json)
    # shellcheck disable=SC2086
    [ -z "$go" ] || gov=$(measure go "$go" produce $4)
    # shellcheck disable=SC2086
    [ -z "$java" ] || javav=$(measure java "$java" produce $4)
    client_row "$1" "$2" "$3" "$ours" "$gov" "$javav"
}

produce_other_sizes() {  # NS
    local size kind count
    for kind in sync async; do
        for size in 128 16384; do
            count=$((size > 1024 ? sync_count / 4 : sync_count))
            produce_row "  $kind, bodies of $size B" "" - "$(produce_args $kind "$1" $size $count)"
        done
    done
    for size in 128 1024; do
        produce_row "  batch of 32, $size B each" "" - "$(produce_args sync "$1" $size $((sync_count * 2))) --batch 32"
    done
}

consume_row() {  # NAME LIMIT BARE NS TOPIC COUNT WARMUP
    local args="-n $4 -t $5 --count $6 --threads 16 --warmup $7 --timeout 120" ours gov=- javav=-
    # shellcheck disable=SC2086
    ours=$(measure ours "$rmq" bench consume $args -o json)
    # shellcheck disable=SC2086
    [ -z "$go" ] || gov=$(measure go "$go" consume $args)
    # shellcheck disable=SC2086
    [ -z "$java" ] || javav=$(measure java "$java" consume $args)
    client_row "$1" "$2" "$3" "$ours" "$gov" "$javav"
}

consume_other_sizes() {  # NS
    local size count
    for size in 128 65536; do
        count=$((size > 1024 ? consume_count / 40 : consume_count))
        "$rmq" topic create -n "$1" -t "Bench$size" -q 8 > /dev/null 2>&1 || return 1
        fill "$1" "Bench$size" $size $((count + count / 20))
        consume_row "  bodies of $size B" "" - "$1" "Bench$size" $count $((count / 20))
    done
}

# User and system time of a process so far, in µs.
cpu_of() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) * 1000000 / hz }' "/proc/$1/stat"; }

# Until the broker has done with what it was told before, as writing files: less than 3 % of a processor for a second.
settle() {  # PID
    local before
    for _ in $(seq 15); do
        before=$(cpu_of "$1")
        sleep 1
        [ $(($(cpu_of "$1") - before)) -gt 30000 ] || return 0
    done
}

# broker_cpu PID COUNT COMMAND...: CPU µs of that process for each of COUNT messages
broker_cpu() {
    local pid=$1 count=$2 before after
    shift 2
    settle "$pid"
    before=$(cpu_of "$pid")
    "$@" > "$work/last" 2> "$work/last.err" || { echo -; return; }
    after=$(cpu_of "$pid")
    awk -v a="$before" -v b="$after" -v n="$count" 'BEGIN { printf "%.2f", (b - a) / n }'
}

# The first round is for the compilers of a JVM, which take as much as the work does.
bench_broker() {  # PID NS: prints "async sync consume"
    local client=("$rmq" bench) pid=$1 ns=$2 round
    [ -z "$go" ] || client=("$go")
    "$rmq" topic create -n "$ns" -t Load -q 8 > /dev/null 2>&1
    for round in warm measured; do
        broker_costs "$pid" "$ns" "$round" > "$work/$round"
    done
    cat "$work/measured"
}

broker_costs() {  # PID NS GROUP: of $client
    broker_cpu "$1" "$async_count" "${client[@]}" produce -n "$2" -t Load --mode async --count "$async_count" --size 1024 --window 1000 --warmup 0
    echo
    broker_cpu "$1" "$sync_count" "${client[@]}" produce -n "$2" -t Load --mode sync --count "$sync_count" --size 1024 --threads 16 --warmup 0
    echo
    broker_cpu "$1" "$consume_count" "${client[@]}" consume -n "$2" -t Load -g "$3" --count "$consume_count" --threads 16 --warmup 0 --timeout 120
    echo
}

# 64 threads of one sender, each waiting for its answers, beside 8 consumers of one group; our client for both brokers.
mixed() {  # NS: prints "messages/s p99-of-a-send"
    local ns=$1 members="" line
    "$rmq" topic create -n "$ns" -t Mixed -q 8 > /dev/null 2>&1
    for _ in 1 2 3 4 5 6 7 8; do
        "$rmq" bench consume -n "$ns" -t Mixed -g mixed --count 1000000000 --warmup 0 --timeout 600 > /dev/null 2>&1 &
        members="$members $!"
    done
    line=$("$rmq" bench produce -n "$ns" -t Mixed --mode sync --threads 64 --count "$sync_count" --size 1024 --warmup "$warm" -o json 2> "$work/last.err" | tail -n 1)
    # shellcheck disable=SC2086
    kill -TERM $members 2> /dev/null
    # shellcheck disable=SC2086
    wait $members 2> /dev/null
    echo "$(value msgs_per_s "$line") $(value p99_us "$line")"
}

idle_of() {  # PID...: "KiB threads" of all together
    local pid rss=0 threads=0
    for pid in "$@"; do
        rss=$((rss + $(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")))
        threads=$((threads + $(awk '/^Threads/ { print $2 }' "/proc/$pid/status")))
    done
    echo "$rss $threads"
}

start_time_ms() {
    local begin=$EPOCHREALTIME
    : > "$work/start"
    "$rmq" broker --temporary > "$work/start" 2>&1 &
    local pid=$!
    until grep -q '^ready ' "$work/start"; do sleep 0.001; done
    awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f", (b - a) * 1000 }'
    kill -TERM $pid
    wait $pid
}

broker_row() {  # NAME LIMIT OURS JAVA
    printf '%-28s %8s | %8s %8s   at most %s\n' "$1" "$(ratio "$3" "${4:--}")" "$3" "${4:--}" "$2"
}

start_ours
read -r ours_rss ours_threads < <(idle_of "$ours_pid")
real_rss=-
real_threads=-
if [ -n "$real" ]; then
    start_real
    # shellcheck disable=SC2086
    read -r real_rss real_threads < <(idle_of $real_pids)
fi
if [ "$what" = broker ]; then
    :
elif [ -n "$real" ]; then
    echo "client: against the real 5.3.3 broker"
    bench_client "$real_ns"
else
    echo "client: against our broker (no real one in $cache; tests/interop/setup.sh brings it)"
    bench_client "$ours_ns"
fi
case $what in
all | broker) ;;
consumer)
    B=$B tests/bench/consumer.sh
    exit
    ;;
*) exit 0 ;;
esac
mapfile -t ours_costs < <(bench_broker "$ours_pid" "$ours_ns")
real_costs=(- - -)
[ -z "$real" ] || mapfile -t real_costs < <(bench_broker "$real_pid" "$real_ns")
printf '\n%-28s %8s | %8s %8s\n' "broker, CPU µs a message" "Java/ours" ours Java
broker_row "async" 6 "${ours_costs[0]}" "${real_costs[0]}"
broker_row "sync" 14 "${ours_costs[1]}" "${real_costs[1]}"
broker_row "consume" 0.6 "${ours_costs[2]}" "${real_costs[2]}"
broker_row "  bare bytes of consume" "that" "$(measure bare "$B/bench/bare_bench" serve "$consume_count")"
read -r ours_rate ours_p99 < <(without "$real_pids" mixed "$ours_ns")
real_rate=-
real_p99=-
[ -z "$real" ] || read -r real_rate real_p99 < <(mixed "$real_ns")
printf '%-28s %8s | %8s %8s   at least 4x Java\n' "64 senders, 8 consumers, /s" "$(ratio "$real_rate" "$ours_rate")" "$ours_rate" "$real_rate"
broker_row "  p99 of a send, µs" "a quarter of Java's" "$ours_p99" "$real_p99"
broker_row "idle with name server, KiB" 16384 "$ours_rss" "$real_rss"
broker_row "threads" 8 "$ours_threads" "$real_threads"
broker_row "start of process, ms" 50 "$(start_time_ms)" -
{
    echo "{\"what\":\"mixed\",\"peer\":\"ours\",\"msgs_per_s\":\"$ours_rate\",\"p99_us\":\"$ours_p99\"}"
    echo "{\"what\":\"mixed\",\"peer\":\"java\",\"msgs_per_s\":\"$real_rate\",\"p99_us\":\"$real_p99\"}"
    echo "{\"what\":\"broker\",\"peer\":\"ours\",\"async\":\"${ours_costs[0]}\",\"sync\":\"${ours_costs[1]}\",\"consume\":\"${ours_costs[2]}\",\"idle_kb\":\"$ours_rss\",\"threads\":\"$ours_threads\"}"
    echo "{\"what\":\"broker\",\"peer\":\"java\",\"async\":\"${real_costs[0]}\",\"sync\":\"${real_costs[1]}\",\"consume\":\"${real_costs[2]}\",\"idle_kb\":\"$real_rss\",\"threads\":\"$real_threads\"}"
} >> "$lines"
[ "$what" != all ] || tests/bench/store.sh
