#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# The interop suite: our client and broker against the real Apache RocketMQ and its Java and Go clients.
#   run.sh             all but idle_*, long_*    run.sh NAME...     the named ones     run.sh --list
# Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why" with the seconds each took, and as last line
# "N passed, N failed, N skipped". Ends with 1 when a case failed. With KEEP=1 the directories of the run stay.
#
# Some cases run beside each other, see `waiting` and `quiet` below.

set -u

HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
for file in "$HERE"/cases/*.sh; do
    # shellcheck disable=SC1090
    . "$file"
done

# The cases that mostly wait, the longest first: WAITERS of them at a time run beside the others, which share brokers and run one
# after the other. More at a time and the real brokers, of which each has one or two, have no processor left to start with. Those
# that measure times come last, alone.
WAITERS=${WAITERS:-3}
waiting="store_handovers_533 c_transactions_on_real_533 killed_while_waiting_on_real_533 outage_sigterm store_handovers_497 outage_sigkill c_transactions_on_real_497
         producer_tests_on_real_533 c_assignment_on_real_533 consumer_tests_on_real_533 consumer_tests_on_real_497 kinds_on_real_533
         kinds_on_real_497 kinds_on_ours mixed_group three_consumers killed_member c_timed_on_real_533 c_requests_on_real_533
         c_requests_on_real_497 namespace_on_real_533 namespace_on_ours c_static_topic_on_real_533 static_topic_of_java_on_ours
         mqadmin_of_our_consumer_on_real_533 store_of_ours_on_real store_of_real_on_ours store_with_property_crc"
quiet="starts_on_real_533 starts_on_ours idle_latency_on_real_533 idle_latency_on_ours"
CASE_SECONDS=${CASE_SECONDS:-600}
all=$(sed -n 's/^case_\([a-z0-9_]*\)() .*/\1/p' "$HERE"/cases/*.sh)

if [ "${1:-}" = --list ]; then
    echo "$all"
    exit 0
fi
if [ "${1:-}" = --one ]; then   # only for this script itself: one case inside the run at $RUN
    set -e
    "case_$2"
    exit 0
fi
# How long a message is on its way is a figure of the machine, too: those cases are run by name, not in every run.
# long_* are those of make interop-long.
chosen=${*:-$(echo "$all" | grep -v -e '^idle_' -e '^long_')}
for name in $chosen; do
    declare -F "case_$name" > /dev/null || { echo "there is no case $name; see run.sh --list" >&2; exit 2; }
done

"$HERE/setup.sh" || exit 1
mkdir -p "$CACHE/runs"
RUN=$(mktemp -d "$CACHE/runs/$(date +%H%M%S).XXXX")
RUN=$(cd "$RUN" && pwd)
started=$SECONDS

finish() {
    stop_everything
    if [ "${KEEP:-0}" = 1 ]; then
        echo "kept: $RUN"
    else
        rm -rf "$RUN"
    fi
}
trap finish EXIT
trap 'exit 130' INT TERM
export RUN
# The real broker compares the 38 MB of its timer wheel byte by byte each second, a third of a processor for each one.
export REAL_BROKER_CONF=timerFlushIntervalMs=20000

# One case in a session of its own, with its output in $RUN/NAME.log and its outcome in $RUN/NAME.result.
run_case() {
    local name=$1 begin=$EPOCHREALTIME rc why took
    OWNER=$name setsid bash "$HERE/run.sh" --one "$name" > "$RUN/$name.log" 2>&1 &
    wait_until "$CASE_SECONDS" is_gone $!
    if is_alive $!; then
        kill -9 -- -$!
        echo "why: still running after $CASE_SECONDS s" >> "$RUN/$name.log"
    fi
    wait $!
    rc=$?
    stop_started "$RUN/started.$name" # a case that fails does not come to stopping them
    took=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s", b - a }')
    why=$(sed -n 's/^why: //p' "$RUN/$name.log" | tail -n 1)
    [ -n "$why" ] || why=$(tail -n 1 "$RUN/$name.log")
    {
        case $rc in
        0) echo "ok $name ($took)" ;;
        77) echo "skip $name: $why" ;;
        *) echo "FAIL $name: $why ($took)" ;;
        esac
        sed -n 's/^  /    /p' "$RUN/$name.log"
    } > "$RUN/$name.part"
    mv "$RUN/$name.part" "$RUN/$name.result"
    cat "$RUN/$name.result"
}

among() { case " $2 " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

run_list() {
    local name
    for name in $chosen; do
        ! among "$name" "$1" || run_case "$name"
    done
}

# Takes cases from the list as long as there are any; a folder says which are taken.
run_waiters() {
    local name
    for name in $waiting; do
        ! among "$name" "${chosen//$'\n'/ }" || ! mkdir "$RUN/taken.$name" 2> /dev/null || run_case "$name"
    done
}

rest=""
aside="${waiting//$'\n'/ } $quiet"
for name in $all; do
    among "$name" "$aside" || rest="$rest $name"
done

start_peer peer
waiters=""
for ((i = 0; i < WAITERS; i++)); do
    run_waiters &
    waiters="$waiters $!"
done
run_list "$rest"
for waiter in $waiters; do
    wait "$waiter" 2> /dev/null   # one that ended long ago may be forgotten
done
run_list "$quiet"

count() { cat "$RUN"/*.result 2> /dev/null | grep -c "^$1 "; }
passed=$(count ok)
failed=$(count FAIL)
skipped=$(count skip)
[ "$failed" = 0 ] || KEEP=1
echo "took $((SECONDS - started)) s"
# Once more, since what is read of a long log is its end.
cat "$RUN"/*.result 2> /dev/null | grep "^FAIL "
trap - EXIT
finish
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
