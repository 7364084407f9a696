# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Servers of a benchmark, sourced by the scripts here once $work is a directory of theirs: what is in $pids is stopped and $work removed at the end, however
# it comes.
# shellcheck shell=bash

pids=""
still=""

finish() {
    # shellcheck disable=SC2086
    [ -z "$still" ] || kill -CONT $still 2> /dev/null
    for pid in $pids; do
        kill -TERM "$pid" 2> /dev/null
    done
    wait 2> /dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# The output of a server is in FILE, its errors are in FILE.err.
wait_ready() {  # FILE
    for _ in $(seq 1200); do
        ! grep -q '^ready ' "$1" || return 0
        sleep 0.05
    done
    echo "no server: $(tail -n 2 "$1" "$1.err" | tr '\n' ' ')" >&2
    exit 1
}

namesrv_of() { sed -n 's/^ready .*namesrv=\([^ ]*\).*/\1/p' "$1"; }  # FILE

pids_of() { sed -n 's/^ready .*pids=\([0-9,]*\).*/\1/p' "$1" | tr , ' '; }  # FILE

# without "PIDS" COMMAND...: those stand still while it runs, for some seconds. An idle Java broker takes a third of a processor
# (it compares its timer wheel with the disk each second), which would be missing to the one that is measured.
# shellcheck disable=SC2086
without() {
    still=$1
    shift
    [ -z "$still" ] || kill -STOP $still
    "$@"
    [ -z "$still" ] || { kill -CONT $still && sleep 1; }
    still=
}
