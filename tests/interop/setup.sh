#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Brings the real Apache RocketMQ to this machine for the interop suite: jars of two versions through Maven, the small
# Java peer compiled with javac, and the Go peer where a Go compiler is found. May be run again at any time; what is there
# already costs nothing. Everything lies under ${RMQ_INTEROP_CACHE:-build/interop}:
#   jars-5.3.3/ jars-4.9.7/    the real broker, name server, tools and client; *.jsa: their classes as the JVM keeps them
#   classes/ javabench         the Java peers           gopeer, gobench    the Go peers, when Go is there
#   no-go                      instead of gopeer: why there is none

set -eu

HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
cache=$CACHE
copy_goal=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies

say() { echo "interop setup: $*"; }

# install COMMAND PACKAGE: leaves COMMAND usable, or ends with the words that help. The package is Debian's.
install_tool() {
    command -v "$1" > /dev/null && return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        say "installing $2"
        [ -n "${apt_updated:-}" ] || apt-get -qq update
        apt_updated=1
        DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$2" > /dev/null
        command -v "$1" > /dev/null && return 0
    fi
    return 1
}

need_tool() {
    install_tool "$1" "$2" && return 0
    echo "interop setup: $1 is missing; as root: apt-get install $2" >&2
    exit 1
}

# Debian names its packages by version; any Java from 11 on runs both brokers.
jdk_package() {
    apt-cache search --names-only '^(openjdk-17|default)-jdk-headless$' 2> /dev/null | sort -r |
        awk 'NR == 1 { print $1 } END { if (NR == 0) print "default-jdk-headless" }'
}

fetch_jars() {  # VERSION
    local to=$cache/jars-$1
    [ -f "$to/.complete" ] && return 0
    say "fetching Apache RocketMQ $1 with Maven"
    rm -rf "$to" && mkdir -p "$to"
    mvn -q -B -f "$HERE/java/pom.xml" "-Drocketmq.version=$1" "$copy_goal" \
        -DincludeScope=runtime "-DoutputDirectory=$to"
    touch "$to/.complete"
}

booted_or_gone() { grep -q "boot success" "$1" || is_gone "$2"; }

# archive_classes VERSION CLASS: keeps what the JVM makes of the classes of a server in jars-VERSION/CLASS.jsa, by starting it
# once for nothing. Less to do for each of the hundred starts to come; a JVM that cannot do it is no failure.
archive_classes() {
    local version=$1 class=$2 file=$cache/jars-$1/${2##*.}.jsa home=$cache/home-$1-${2##*.} pid
    [ ! -f "$file" ] && [ ! -f "$file.none" ] || return 0
    say "archiving the classes of ${class##*.} $version"
    mkdir -p "$home/conf" "$home/tmp"
    cp "$HERE/java/logback-4.9.7.xml" "$home/conf/logback_broker.xml"
    cp "$HERE/java/logback-4.9.7.xml" "$home/conf/logback_namesrv.xml"
    printf '%s\n' "listenPort=$((PORT_BASE + 4))" brokerIP1=127.0.0.1 "storePathRootDir=$home/store" \
        "storePathCommitLog=$home/store/commitlog" mappedFileSizeCommitLog=1048576 \
        "kvConfigPath=$home/kvConfig.json" "configStorePath=$home/namesrv.properties" > "$home/conf/server.conf"
    # shellcheck disable=SC2086
    java $JVM "-XX:ArchiveClassesAtExit=$file" "-Duser.home=$home" "-Drocketmq.home.dir=$home" "-Djava.io.tmpdir=$home/tmp" \
        -cp "$cache/jars-$version/*" "$class" -c "$home/conf/server.conf" > "$home/out" 2>&1 &
    pid=$!
    wait_until 60 booted_or_gone "$home/out" $pid || true
    kill -TERM $pid 2> /dev/null || true
    wait $pid || true
    [ -f "$file" ] || touch "$file.none"
    rm -rf "$home"
}

compile_java() {
    local to=$cache/classes stamp=$cache/classes/.stamp
    local from="$HERE/java $ROOT/tests/bench/peers/java"
    # shellcheck disable=SC2086
    [ -f "$stamp" ] && [ -z "$(find $from -newer "$stamp" -type f)" ] && return 0
    say "compiling the Java peers"
    rm -rf "$to" && mkdir -p "$to"
    # shellcheck disable=SC2046,SC2086
    javac -nowarn -XDsuppressNotes -encoding UTF-8 -proc:none -cp "$cache/jars-5.3.3/*" -d "$to" $(find $from -name '*.java')
    cp "$HERE/java/rmq.logback.xml" "$to"
    touch "$stamp"
}

# A command like gobench, so that who runs the benchmarks need not know what a class path is.
write_javabench() {
    printf '#!/bin/sh\nexec java -Xms256m -Xmx1g -Duser.home="%s" -Djava.io.tmpdir="%s" -Drmq.peer.log=bench -cp "%s" Bench "$@"\n' \
        "$cache" "$cache" "$cache/classes:$cache/jars-5.3.3/*" > "$cache/javabench"
    chmod +x "$cache/javabench"
}

build_go_peer() {  # DIRECTORY PROGRAM
    local to=$cache/$2
    [ -f "$1/main.go" ] || return 0
    [ -x "$to" ] && [ -z "$(find "$1" -newer "$to" -type f)" ] && return 0
    say "building $2"
    if ! (cd "$1" && GOFLAGS='-mod=mod -buildvcs=false' go build -o "$to" .) > "$cache/$2.log" 2>&1; then
        tail -5 "$cache/$2.log" >&2
        echo "the Go client did not build with $(go version), see $cache/$2.log" > "$cache/no-go"
        return 0
    fi
    touch "$to"
}

build_go() {
    rm -f "$cache/no-go"
    if ! install_tool go golang-go; then
        echo "no Go compiler; as root: apt-get install golang-go" > "$cache/no-go"
        say "$(cat "$cache/no-go"): Go cases will be skipped"
        return 0
    fi
    build_go_peer "$HERE/go" gopeer
    build_go_peer "$ROOT/tests/bench/peers/go" gobench
    [ ! -f "$cache/no-go" ] || say "$(cat "$cache/no-go"): Go cases will be skipped"
}

mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
need_tool python3 python3
command -v javac > /dev/null || need_tool javac "$(jdk_package)"
need_tool mvn maven
build_go &
go_job=$!
fetch_jars 5.3.3
fetch_jars 4.9.7
compile_java
write_javabench
for version in 5.3.3 4.9.7; do
    archive_classes $version org.apache.rocketmq.namesrv.NamesrvStartup
    archive_classes $version org.apache.rocketmq.broker.BrokerStartup
done
wait $go_job
