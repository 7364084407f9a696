#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# real.sh VERSION PORT DIRECTORY [key=value...]: the real name server (at PORT) and broker (at PORT + 4) in the foreground,
# for benchmarks and for trying things by hand. Prints "ready broker=... namesrv=... pids=BROKER,NAMESRV"; SIGTERM stops
# both. VERSION is 5.3.3 or 4.9.7; the directory takes store and logs. Needs what setup.sh brings.

set -eu

HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
# What is measured runs with all compilers of the JVM and the collector that the release's own script chooses.
JVM="-server -Xms2g -Xmx2g -XX:+UseG1GC -Xshare:auto $OPENED"

version=$1 port=$2
mkdir -p "$3"
RUN=$(cd "$3" && pwd)
shift 3
trap 'stop_server broker; stop_server namesrv; rm -f "$RUN/started"; exit 0' TERM INT
trap stop_everything EXIT
real_namesrv namesrv "$version" "$port"
real_broker broker "$version" $((port + 4)) "127.0.0.1:$port" "$@"
registered() { "$RMQ" cluster -n "127.0.0.1:$port" 2> /dev/null | grep -q "127.0.0.1:$((port + 4))"; }
wait_until 60 registered || fail "the broker did not register with the name server within 60 s"
echo "ready broker=127.0.0.1:$((port + 4)) namesrv=127.0.0.1:$port pids=$(server_pid broker),$(server_pid namesrv)"
while is_alive "$(server_pid broker)"; do
    sleep 0.2
done
echo "the broker ended: $(tail -n 1 "$RUN/broker/err")" >&2
exit 1
