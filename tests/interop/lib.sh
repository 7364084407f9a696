# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Functions of the interop suite, sourced by run.sh: start, stop, kill and wait for real and own servers, talk to the
# Java peer, note results. Every server has a directory of its own below $RUN and a slot of ten ports, and is in
# $RUN/started, from which stop_everything kills what is left when run.sh ends, however it ends.
# shellcheck shell=bash

ROOT=$(cd "$HERE/../.." && pwd)
CACHE=${RMQ_INTEROP_CACHE:-$ROOT/build/interop}
RMQ=${RMQ:-$ROOT/build/rmq}
PORT_BASE=${RMQ_INTEROP_PORT_BASE:-19000}
PYTHON=/usr/bin/python3
[ -x $PYTHON ] || PYTHON=python3

# Small heaps, quick start: these JVMs are judged by what they say, not by how fast they say it. real.sh takes others.
OPENED="-Djava.net.preferIPv6Addresses=false
     --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED
     --add-opens=java.base/jdk.internal.ref=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED
     --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED"
JVM="-Xms256m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xshare:auto $OPENED"

# ---- results -------------------------------------------------------------------------------------------------------

note() { echo "  $*"; }
# On stderr, since the caller may be taking the output into a variable.
fail() { echo "why: $*" >&2; exit 1; }
skip() { echo "why: $*" >&2; exit 77; }

need_rmq() { [ -x "$RMQ" ] || skip "there is no $RMQ"; }
need_go() { [ ! -f "$CACHE/no-go" ] || skip "$(cat "$CACHE/no-go")"; }

# wait_until SECONDS COMMAND...: runs the command until it succeeds, for a second every 50 ms, then four times a second, since
# what it forks is taken from those for whom it waits; fails after the deadline.
wait_until() {
    local end=$((SECONDS + $1 + 1)) tries=0
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        tries=$((tries + 1))
        [ $tries -gt 20 ] && sleep 0.25 || sleep 0.05
    done
}

elapsed() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }'; }  # seconds since that EPOCHREALTIME

# ---- processes -----------------------------------------------------------------------------------------------------

# java_process NAME ARGUMENTS...: what it writes, logs and temporary files too, is below $RUN/NAME.
java_process() {
    local name=$1
    shift
    mkdir -p "$RUN/$name/tmp"
    # shellcheck disable=SC2086
    launch "$name" java $JVM "-Duser.home=$RUN/$name" "-Drocketmq.home.dir=$RUN/$name" "-Djava.io.tmpdir=$RUN/$name/tmp" "$@"
}

# A process is remembered with its start time, so that a pid used again by somebody else is never killed; under the case that
# started it ($OWNER), with which it ends, or for the whole run.
start_time() { awk '{ sub(/.*\) /, ""); print $20 }' "/proc/$1/stat" 2> /dev/null; }
remember() { echo "$1 $(start_time "$1")" >> "$RUN/started${OWNER:+.$OWNER}"; }
is_alive() { [ -d "/proc/$1" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2> /dev/null; }
is_gone() { ! is_alive "$1"; }

stop_started() {  # FILE
    local pid since pids=""
    [ -f "$1" ] || return 0
    while read -r pid since; do
        # A process leads a group (launch): a producer has another one that feeds it.
        [ "$(start_time "$pid")" = "$since" ] && kill -9 -- "-$pid" 2> /dev/null && pids="$pids $pid"
    done < "$1"
    for pid in $pids; do
        wait_until 5 is_gone "$pid"
    done
    rm -f "$1"
}

stop_everything() {
    local file
    for file in "$RUN"/started*; do
        stop_started "$file"
    done
}

server_pid() { cat "$RUN/$1/pid"; }

stop_server() {  # NAME [SECONDS]
    kill -TERM "$(server_pid "$1")"
    wait_until "${2:-60}" is_gone "$(server_pid "$1")" || fail "$1 did not stop within ${2:-60} s of SIGTERM"
}

kill_server() {  # NAME
    kill -KILL "$(server_pid "$1")"
    wait_until 5 is_gone "$(server_pid "$1")"
}

# launch NAME COMMAND...: starts a server in $RUN/NAME with its output there. In a session of its own, since a case that
# hangs is killed as a group; without the lock and the peer's connection that this shell may hold.
launch() {
    local name=$1
    shift
    mkdir -p "$RUN/$name"
    : > "$RUN/$name/out" # here: the words of the one before are gone when the caller looks for them
    setsid "$@" > "$RUN/$name/out" 2> "$RUN/$name/err" < /dev/null 8>&- 9>&- &
    disown $!
    echo $! > "$RUN/$name/pid"
    remember $!
}

says() { grep -q -- "$2" "$RUN/$1/out"; }
says_or_died() { says "$1" "$2" || is_gone "$(server_pid "$1")"; }

wait_for_words() {  # NAME SECONDS WORDS
    wait_until "$2" says_or_died "$1" "$3" || true
    says "$1" "$3" || fail "$1 did not start within $2 s: $(tail -n 3 "$RUN/$1/err" "$RUN/$1/out" | tr '\n' ' ')"
}

port_is_free() { ! (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

# take_ports: prints the first of ten ports that nobody else has taken; cases may ask at the same time. Real brokers take a port two before theirs
# and one behind it, too.
take_ports() {
    local slot=0 port
    while [ $slot -lt 100 ]; do
        port=$((PORT_BASE + slot * 20 + 4))
        if mkdir "$RUN/ports.$slot" 2> /dev/null && port_is_free $port; then
            echo $port
            return 0
        fi
        slot=$((slot + 1))
    done
    fail "no free ports from $PORT_BASE on"
}

# How long a real server may take to start: three seconds at rest, and a minute beside a build was not enough.
BOOT_SECONDS=180

# ---- the real thing ------------------------------------------------------------------------------------------------

# The home directory of a server: its logs go below it too, since they follow user.home.
make_home() {  # NAME
    mkdir -p "$RUN/$1/conf"
    cp "$HERE/java/logback-4.9.7.xml" "$RUN/$1/conf/logback_broker.xml"
    cp "$HERE/java/logback-4.9.7.xml" "$RUN/$1/conf/logback_namesrv.xml"
}

launch_java() {  # NAME VERSION CLASS ARGUMENTS...
    local name=$1 version=$2
    shift 2
    java_process "$name" $(class_archive "$version" "$1") -cp "$CACHE/jars-$version/*" "$@"
}

# class_archive VERSION CLASS: the option for the classes of that server as setup.sh has kept them, which halves what its
# start costs. A JVM that cannot use them goes without.
class_archive() {
    local file=$CACHE/jars-$1/${2##*.}.jsa
    [ ! -f "$file" ] || echo "-XX:SharedArchiveFile=$file"
}

real_namesrv() {  # NAME VERSION PORT
    make_home "$1"
    {
        echo "listenPort=$3"
        echo "kvConfigPath=$RUN/$1/kvConfig.json"
        echo "configStorePath=$RUN/$1/namesrv.properties"
    } > "$RUN/$1/namesrv.conf"
    launch_java "$1" "$2" org.apache.rocketmq.namesrv.NamesrvStartup -c "$RUN/$1/namesrv.conf"
    wait_for_words "$1" $BOOT_SECONDS "boot success"
}

# real_broker NAME VERSION PORT NAMESRV [key=value...]: the store is $RUN/NAME/store unless said otherwise. On a machine
# of two processors it may be slow for a while without calling itself busy. REAL_BROKER_CONF: a setting for all of them.
real_broker() {
    local name=$1 version=$2 port=$3 namesrv=$4
    shift 4
    make_home "$name"
    {
        printf '%s\n' "brokerName=$name" "brokerClusterName=DefaultCluster" "brokerId=0" "brokerIP1=127.0.0.1" \
            "listenPort=$port" "namesrvAddr=$namesrv" "autoCreateTopicEnable=true" \
            "storePathRootDir=$RUN/$name/store" "storePathCommitLog=$RUN/$name/store/commitlog" \
            "mappedFileSizeCommitLog=67108864" "maxHashSlotNum=100000" "maxIndexNum=400000" \
            "warmMapedFileEnable=false" "waitTimeMillsInSendQueue=20000" "osPageCacheBusyTimeOutMills=20000" "transientStorePoolEnable=false" "diskMaxUsedSpaceRatio=99"
        [ -z "${REAL_BROKER_CONF:-}" ] || echo "$REAL_BROKER_CONF"
        printf '%s\n' "$@"
    } > "$RUN/$name/broker.conf"
    restart_real_broker "$name" "$version"
}

restart_real_broker() {  # NAME VERSION
    launch_java "$1" "$2" org.apache.rocketmq.broker.BrokerStartup -c "$RUN/$1/broker.conf"
    wait_for_words "$1" $BOOT_SECONDS "boot success"
}

# use_real VERSION: the broker and name server of that version which all cases share, started by the first to ask.
# Sets NS (address of the name server) and BROKER (the broker's name).
use_real() {
    BROKER=real-$1
    NS=$(exec 8> "$RUN/$BROKER.lock"
        flock 8
        [ -f "$RUN/$BROKER.ns" ] || start_shared_real "$BROKER" "$1" >&2
        cat "$RUN/$BROKER.ns") || fail "the real $1 did not start"
}

start_shared_real() {  # NAME VERSION
    local port OWNER=
    port=$(take_ports)
    real_namesrv "$1-namesrv" "$2" "$port"
    real_broker "$1" "$2" $((port + 4)) "127.0.0.1:$port"
    must peer waitBroker "ns=127.0.0.1:$port" "broker=$1"
    echo "127.0.0.1:$port" > "$RUN/$1.ns"
}

# ---- ours ----------------------------------------------------------------------------------------------------------

# our_broker NAME NAMESRV_PORT BROKER_PORT [key=value...]: name server (on NAMESRV_ADDRESS) and broker in one process.
our_broker() {
    local name=$1 namesrv_port=$2 port=$3
    shift 3
    mkdir -p "$RUN/$name"
    {
        printf '%s\n' "brokerName=$name" "brokerClusterName=DefaultCluster" "brokerId=0" "brokerIP1=127.0.0.1" \
            "listenPort=$port" "autoCreateTopicEnable=true" "storePathRootDir=$RUN/$name/store" \
            "mappedFileSizeCommitLog=67108864"
        printf '%s\n' "$@"
    } > "$RUN/$name/broker.conf"
    launch "$name" "$RMQ" broker -c "$RUN/$name/broker.conf" --namesrv-port "$namesrv_port" \
        --address "${NAMESRV_ADDRESS:-127.0.0.1}"
    wait_for_words "$name" 10 "^ready "
}

# use_ours: the same for our broker.
use_ours() {
    need_rmq
    BROKER=ours
    NS=$(exec 8> "$RUN/ours.lock"
        flock 8
        [ -f "$RUN/ours.ns" ] || start_shared_ours >&2
        cat "$RUN/ours.ns") || fail "our broker did not start: $(tail -n 2 "$RUN/ours/err" | tr '\n' ' ')"
}

start_shared_ours() {
    local port OWNER=
    port=$(take_ports)
    our_broker ours "$port" $((port + 4))
    must peer waitBroker "ns=127.0.0.1:$port" broker=ours
    echo "127.0.0.1:$port" > "$RUN/ours.ns"
}

# ---- peers ---------------------------------------------------------------------------------------------------------

# start_peer NAME [JVM options...]: cases speak to the one named "peer", or to $PEER.
start_peer() {
    local name=$1
    shift
    java_process "$name" -Duser.timezone=UTC -Dfile.encoding=UTF-8 "$@" -cp "$CACHE/classes:$CACHE/jars-5.3.3/*" Peer
    wait_for_words "$name" 30 "^ready "
}

# peer COMMAND key=value...: asks the Java peer; prints its answer without the last line, and succeeds if that was "ok".
peer() {
    local port answer
    port=$(awk '/^ready / { print $2 }' "$RUN/${PEER:-peer}/out")
    exec 9<> "/dev/tcp/127.0.0.1/$port" || fail "the Java peer is gone"
    echo "$*" >&9
    answer=$(cat <&9)
    exec 9>&-
    if [ "${answer##*$'\n'}" != ok ]; then
        echo "${answer:-no answer}"
        return 1
    fi
    printf '%s\n' "$answer" | sed '$d'
}

# must COMMAND...: prints what the command prints, and ends the case with its words when it fails.
must() {
    local text
    text=$("$@" 2>&1) || fail "$* said: $(echo "$text" | tail -n 3 | tr '\n' ' ')"
    [ -z "$text" ] || printf '%s\n' "$text"
}

go_peer() { "$CACHE/gopeer" "$@"; }

value_of() { sed -n "s/^.*\b$1=\([^ ]*\).*/\1/p" | head -n 1; }

content() { $PYTHON "$HERE/content.py" "$@"; }

# same_report WHO REPORT key=value...: the report must be that of the content, line by line.
same_report() {
    local who=$1 report=$2
    shift 2
    content expect "$@" > "$report.expected"
    cmp -s "$report.expected" "$report" && return 0
    fail "$who received $(wc -l < "$report") messages, $(diff "$report.expected" "$report" | grep -c '^<') of" \
        "$(wc -l < "$report.expected") missing or different, first: $(diff "$report.expected" "$report" | sed -n 2p)"
}

# ---- our client ----------------------------------------------------------------------------------------------------

# c_produce OUT TOPIC "rmq options" key=value...: our producer sends the content of the words; each must be acknowledged,
# within a time that a busy machine can keep.
c_produce() {
    local out=$1 topic=$2 options=$3 want got rc
    shift 3
    # shellcheck disable=SC2086
    content lines "$@" | timeout 240 "$RMQ" produce -n "$NS" -t "$topic" --json-lines -o json --timeout 30000 $options \
        > "$out" 2> "$out.err" && rc=0 || rc=$?
    want=$(content expect "$@" | wc -l)
    got=$(grep -c '"SEND_OK"' "$out" || true)
    [ "$rc" = 0 ] && [ "$got" = "$want" ] ||
        fail "rmq produce $options ended with $rc, acknowledged $got of $want:" \
            "$(cat "$out" "$out.err" | grep -v '"SEND_OK"' | tail -n 1)"
}

# c_producing NAME TOPIC key=value...: the same as a process beside others; what was acknowledged is in $RUN/NAME/out.
c_producing() {
    local name=$1 topic=$2
    shift 2
    # shellcheck disable=SC2016
    launch "$name" bash -c 'py=$1 content=$2 rmq=$3 ns=$4 topic=$5; shift 5
        "$py" "$content" lines "$@" | "$rmq" produce -n "$ns" -t "$topic" --json-lines -o json' - \
        "$PYTHON" "$HERE/content.py" "$RMQ" "$NS" "$topic" "$@"
}

# c_consume REPORT TOPIC GROUP COUNT SECONDS [rmq options...]: our consumer takes COUNT messages into REPORT.
c_consume() {
    local report=$1 topic=$2 group=$3 count=$4 seconds=$5
    shift 5
    timeout $((seconds + 20)) "$RMQ" consume -n "$NS" -t "$topic" -g "$group" --from first --count "$count" \
        --timeout "$seconds" -o json "$@" > "$report.json" 2> "$report.err" ||
        note "rmq consume ended with $?: $(tail -n 2 "$report.err" | tr '\n' ' ')"
    note "rmq consume: $({ content report "$report.json" > "$report"; } 2>&1)"
}
