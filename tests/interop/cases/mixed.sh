# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# One group of Java, Go and our members over 16 queues of a real broker for five minutes; they come, go and are killed. At each rest point the queues that every
# member says it holds must be those that Java's rule gives it, so each has exactly one owner.
# shellcheck shell=bash

mixed_name() { echo "$TOPIC-$1"; }

# The first letter of a member's name says what it is: j, c or g.
mixed_joins() {
    local name
    name=$(mixed_name "$1")
    case $1 in
    j*)
        start_peer "$name"
        PEER=$name must peer startConsumer name=it "ns=$NS" "topic=$TOPIC" "group=G-$TOPIC" "instance=$name" \
            "strategy=$STRATEGY" "live=$RUN/$name/live" > /dev/null
        ;;
    c*) launch "$name" "$MEMBERS" push "ns=$NS" "topic=$TOPIC" "group=G-$TOPIC" "strategy=$STRATEGY" ;;
    g*) launch "$name" "$CACHE/gopeer" consume "ns=$NS" "topic=$TOPIC" "group=G-$TOPIC" count=100000000 timeout=3600 live=1 ;;
    esac
    MIXED_NOW="$MIXED_NOW $1"
    MIXED_ALL="$MIXED_ALL $1"
}

mixed_ends() {  # leaves|is_killed MEMBER
    local name
    name=$(mixed_name "$2")
    case $1-$2 in
    leaves-j*)
        PEER=$name must peer stopConsumer name=it > /dev/null
        kill_server "$name"
        ;;
    leaves-*) stop_server "$name" 30 ;;
    *) kill_server "$name" ;;
    esac
    MIXED_NOW=${MIXED_NOW/ $2/}
}

as_java_has_it() {
    peer holders "ns=$NS" "topic=$TOPIC" "group=G-$TOPIC" > "$RUN/$TOPIC.holders" 2>&1 &&
        [ "$(wc -l < "$RUN/$TOPIC.holders")" = "$(wc -w <<< "$MIXED_NOW")" ] &&
        peer shares "ns=$NS" "topic=$TOPIC" "group=G-$TOPIC" "strategy=$STRATEGY" > "$RUN/$TOPIC.shares" 2>&1 &&
        cmp -s "$RUN/$TOPIC.shares" "$RUN/$TOPIC.holders"
}

# rest_point WHAT: waits for it. What may have come twice by this change: messages of the time until then, and of the five seconds between two storings of offsets.
rest_point() {
    local begin=$SECONDS took
    wait_until 60 as_java_has_it || fail "$1: by Java's rule $(tr '\n' ' ' < "$RUN/$TOPIC.shares"), but held $(tr '\n' ' ' < "$RUN/$TOPIC.holders")"
    took=$((SECONDS - begin))
    MIXED_BOUND=$((MIXED_BOUND + RATE * (took + 6)))
    note "$1: at rest after $took s: $(awk '{ print "[" $2 "]" }' "$RUN/$TOPIC.holders" | tr '\n' ' ')"
}

mixed_outs() {
    local m
    for m in $MIXED_ALL; do
        case $m in
        j*) echo "$RUN/$(mixed_name "$m")/live" ;;
        *) echo "$RUN/$(mixed_name "$m")/out" ;;
        esac
    done
}

# shellcheck disable=SC2046
mixed_has_all() { group_py account "$RUN/$TOPIC.acks" $(mixed_outs) > "$RUN/$TOPIC.account"; }

mixed_change() {  # +NAME, -NAME or !NAME
    case $1 in
    +*) mixed_joins "${1#+}"; rest_point "${1#+} joined" ;;
    -*) mixed_ends leaves "${1#-}"; rest_point "${1#-} left" ;;
    *) mixed_ends is_killed "${1#!}"; rest_point "${1#!} killed" ;;
    esac
}

# mixed_for SECONDS MEMBERS CHANGES: the changes one after the other, evenly over that time.
mixed_for() {
    local begin=$SECONDS seconds=$1 members=$2 change twice i=0 MIXED_NOW="" MIXED_ALL="" MIXED_BOUND=0
    shift 2
    new_topic "$TOPIC" 16
    must peer startProducer "name=$TOPIC" "ns=$NS" "topic=$TOPIC" "rate=$RATE" count=10000000 size=100 "acks=$RUN/$TOPIC.acks" > /dev/null
    for change in $members; do mixed_joins "$change"; done
    rest_point "$members"
    for change in "$@"; do
        i=$((i + 1))
        while [ $((SECONDS - begin)) -lt $((seconds * i / ($# + 1))) ]; do sleep 1; done
        mixed_change "$change"
    done
    while [ $((SECONDS - begin)) -lt "$seconds" ]; do sleep 1; done
    note "$(must peer stopProducer "name=$TOPIC" | tr '\n' ' ')in $((SECONDS - begin)) s"
    wait_until 60 mixed_has_all || fail "$(cat "$RUN/$TOPIC.account")"
    for change in $MIXED_NOW; do mixed_ends leaves "$change"; done
    mixed_has_all || fail "$(cat "$RUN/$TOPIC.account")"
    twice=$(value_of duplicates < "$RUN/$TOPIC.account")
    note "$(cat "$RUN/$TOPIC.account")"
    note "duplicates at most $MIXED_BOUND: $RATE a second for each change, in the time until rest and the 5 s between two storings of offsets"
    [ "$twice" -le "$MIXED_BOUND" ] || fail "$twice duplicates are more than the $MIXED_BOUND that the changes explain"
}

# With average shares, then by consistent hash, which Go cannot share with Java.
case_long_mixed_group() {
    need_members
    need_go
    use_real 5.3.3
    local RATE=200 TOPIC=LongMixed STRATEGY=AVG
    mixed_for "${MIXED_SECONDS:-300}" "j1 j2 c1 c2 g1" +c3 -j1 '!c1' '!g1' +j3 +g2 '!j2' -c2 +c4 -g2
    TOPIC=LongRing STRATEGY=CONSISTENT_HASH
    mixed_for $((${MIXED_SECONDS:-300} / 2)) "j1 c1 c2" +j2 '!c1' -j1 +c3 '!j2' +j3
}
