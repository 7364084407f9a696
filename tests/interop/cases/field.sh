# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Cases that users of other clients met, as far as they need the real system: routes, tags, body sizes, batches, IPv6,
# and mqadmin on our broker.
# shellcheck shell=bash

# ---- routes and cluster, whatever way their JSON is written ---------------------------------------------------------

# ask NAME WORDS...: runs `rmq WORDS`, its output in $RUN/$BROKER.NAME.
ask() {
    local out=$RUN/$BROKER.$1
    shift
    timeout 30 "$RMQ" "$@" -n "$NS" > "$out" 2> "$out.err" || fail "rmq $* ended with $?: $(tail -n 1 "$out.err")"
}

# has_row NAME AWK: a row of the table fits the condition.
has_row() {
    awk -v broker="$BROKER" -v address="$ADDRESS" "$2 { found = 1 } END { exit !found }" "$RUN/$BROKER.$1" ||
        fail "$1: no row with $2: $(tr '\n' ';' < "$RUN/$BROKER.$1" | head -c 600)"
}

# What our commands say against what Java says, on a topic of five queues with something in it.
same_route() {
    local topic=Route
    new_topic $topic 5
    java_produce $topic count=20
    java_consume "$RUN/$BROKER-$topic" $topic 20
    must peer route "ns=$NS" topic=$topic > "$RUN/$BROKER.route.java"
    ADDRESS=$(sed -n 's/.*{0=\(.*\)}/\1/p' "$RUN/$BROKER.route.java")
    ask route topic route -t $topic
    has_row route '$1 == broker && $2 == 5 && $3 == 5 && $4 == 6 && $5 == "0=" address'
    ask list topic list
    has_row list "\$1 == \"$topic\""
    ask status topic status -t $topic
    ask cluster cluster
    has_row cluster '$1 == "DefaultCluster" && $2 == broker && $3 == 0 && $4 == address'
    ask group group -g G-$topic -t $topic
    peer offsets "ns=$NS" topic=$topic group=G-$topic | awk '{ print $1, $2, $4, $5 }' > "$RUN/$BROKER.group.java"
    awk -v broker="$BROKER" '$1 == broker { sub("none", "-", $4); print $1, $2, $3, $4 }' "$RUN/$BROKER.group" |
        cmp -s - "$RUN/$BROKER.group.java" ||
        fail "group: ours $(tr '\n' ';' < "$RUN/$BROKER.group") Java $(tr '\n' ';' < "$RUN/$BROKER.group.java")"
    ask create topic create -t RouteByUs -q 3
    must peer awaitRoute "ns=$NS" topic=RouteByUs brokers="$(awk 'NR > 1' "$RUN/$BROKER.cluster" | wc -l)"
    must peer route "ns=$NS" topic=RouteByUs > "$RUN/$BROKER.created"
    grep -q "queues $BROKER 3 3" "$RUN/$BROKER.created" || fail "the created topic: $(tr '\n' ';' < "$RUN/$BROKER.created")"
    note "topic route, list, status, create, cluster, group"
}

case_route_on_real_533() { need_rmq; use_real 5.3.3; same_route; }
case_route_on_real_497() { need_rmq; use_real 4.9.7; same_route; }
case_route_on_ours() { use_ours; same_route; }

has_words() {  # WHAT TEXT WORD...
    local what=$1 text=$2 word
    shift 2
    for word in "$@"; do
        grep -qF -- "$word" <<< "$text" || fail "mqadmin $what does not say $word: $(head -c 600 <<< "$text" | tr '\n' ' ')"
    done
}

case_mqadmin_on_ours() {
    use_ours
    local topic=Admin
    new_topic $topic 4
    java_produce $topic seed=$topic count=40
    must peer startConsumer name=admin "ns=$NS" topic=$topic group=G-$topic > /dev/null
    must peer waitConsumer name=admin count=40 > /dev/null
    has_words clusterList "$(must peer mqadmin clusterList -n "$NS")" DefaultCluster ours "${NS%:*}"
    has_words topicList "$(must peer mqadmin topicList -n "$NS")" $topic
    has_words topicRoute "$(must peer mqadmin topicRoute -n "$NS" -t $topic)" '"brokerName":"ours"' '"readQueueNums":4'
    has_words topicStatus "$(must peer mqadmin topicStatus -n "$NS" -t $topic)" ours
    has_words consumerConnection "$(must peer mqadmin consumerConnection -n "$NS" -g G-$topic)" $topic peer-consumer JAVA
    must peer stopConsumer name=admin > /dev/null
    has_words consumerProgress "$(must peer mqadmin consumerProgress -n "$NS" -g G-$topic)" $topic 'Diff Total: 0'
    has_words consumerProgress "$(must peer mqadmin consumerProgress -n "$NS")" '#Group'
    note "clusterList, topicList, topicRoute, topicStatus, consumerConnection, consumerProgress"
}

# ---- tags ------------------------------------------------------------------------------------------------------------

long_tag=$(printf 'x%.0s' $(seq 1 200))
strange_tags="Aa,BB,标签甲,$long_tag,7"

committed_to_the_end() {  # TOPIC GROUP
    local text
    text=$(peer offsets "ns=$NS" "topic=$1" "group=$2") || return 1
    awk '$4 != $5 { bad = 1 } END { exit bad || NR == 0 }' <<< "$text"
}

knows_codes() { peer subscriptions "ns=$NS" "group=$1" | grep "^$2 " | grep -qF "codes=[$3]"; }

tags_are_told_apart() {
    local topic=Tags expression='Aa || 标签甲' codes
    new_topic $topic 4
    java_produce $topic seed=$topic count=500 "tags=$strange_tags"
    c_produce "$RUN/$BROKER-$topic.sent" $topic "" seed=$topic from=500 count=500 "tags=$strange_tags"
    launch "$BROKER-tags" "$RMQ" consume -n "$NS" -t $topic -g G-$topic --from first --expression "$expression" -o json
    codes=$($PYTHON -c 'print(", ".join(str(n) for n in sorted([2112, (lambda h: h - (h >> 31 << 32))(
        sum(ord(c) * 31 ** (2 - i) for i, c in enumerate("标签甲")) & 0xffffffff)])))')
    wait_until 20 knows_codes G-$topic $topic "$codes" ||
        fail "the heartbeat has not the codes $codes: $(peer subscriptions "ns=$NS" group=G-$topic | tr '\n' ' ')"
    wait_until 30 committed_to_the_end $topic G-$topic ||
        fail "committed offsets do not reach the end: $(peer offsets "ns=$NS" topic=$topic group=G-$topic | tr '\n' ' ')"
    stop_server "$BROKER-tags" 20
    content report "$RUN/$BROKER-tags/out" > "$RUN/$BROKER-$topic" 2> "$RUN/$BROKER-$topic.count"
    same_report "rmq consume" "$RUN/$BROKER-$topic" seed=$topic count=1000 "tags=$strange_tags" only=Aa,标签甲
    grep -q "distinct=400 duplicates=0" "$RUN/$BROKER-$topic.count" || fail "not 400 deliveries: $(cat "$RUN/$BROKER-$topic.count")"
    note "400 of 1000, codes $codes, committed to the end"
    java_consume "$RUN/$BROKER-$topic.java" $topic 400 group=GJ-$topic expr='Aa||标签甲' linger=1000
    same_report "Java" "$RUN/$BROKER-$topic.java" seed=$topic count=1000 "tags=$strange_tags" only=Aa,标签甲
}

case_tags_on_real_533() { need_rmq; use_real 5.3.3; tags_are_told_apart; }
case_tags_on_ours() { use_ours; tags_are_told_apart; }

# ---- body sizes and compression ---------------------------------------------------------------------------------------

# The largest is the limit less 1 KiB. What does not shrink must go as it is: Java's producer compresses it all the same,
# which makes it longer than the limit, so Java gets a little less.
body_sizes=1,4095,4096,4097,1048576,4193280
java_sizes=1,4095,4096,4097,1048576,4186112

sizes_both_ways() {
    local topic=Sizes words way
    for way in zlib lz4 zstd; do
        words="seed=$topic sizes=$body_sizes kind=mixed count=12"
        new_topic "$topic-$way" 4
        # shellcheck disable=SC2086
        c_produce "$RUN/$BROKER-$topic-$way.sent" "$topic-$way" "--compress $way" $words
        java_consume "$RUN/$BROKER-$topic-$way.java" "$topic-$way" 12
        # shellcheck disable=SC2086
        same_report "$way, Java" "$RUN/$BROKER-$topic-$way.java" $words
        c_consume "$RUN/$BROKER-$topic-$way.c" "$topic-$way" "GC-$topic" 12 60
        # shellcheck disable=SC2086
        same_report "$way, rmq consume of ours" "$RUN/$BROKER-$topic-$way.c" $words
        words="seed=$topic sizes=$java_sizes kind=mixed count=12"
        new_topic "$topic-$way-j" 4
        # shellcheck disable=SC2086
        java_produce "$topic-$way-j" $words "compress=$way"
        c_consume "$RUN/$BROKER-$topic-$way-j.c" "$topic-$way-j" "GC-$topic" 12 60
        # shellcheck disable=SC2086
        same_report "$way, rmq consume of Java" "$RUN/$BROKER-$topic-$way-j.c" $words
    done
}

case_sizes_on_real_533() { need_rmq; use_real 5.3.3; sizes_both_ways; }
case_sizes_on_real_497() { need_rmq; use_real 4.9.7; sizes_both_ways; }
case_sizes_on_ours() { use_ours; sizes_both_ways; }

# ---- batches ------------------------------------------------------------------------------------------------------------

stored() { must peer offsets "ns=$NS" "topic=$1" | awk '{ n += $4 } END { print n + 0 }'; }

batches() {
    local topic=Batch
    new_topic $topic 4
    c_produce "$RUN/$BROKER-$topic.sent" $topic "--batch 100" seed=$topic count=100 size=3000
    java_consume "$RUN/$BROKER-$topic" $topic 100
    same_report "Java" "$RUN/$BROKER-$topic" seed=$topic count=100 size=3000
    [ "$(stored $topic)" = 100 ] || fail "the topic holds $(stored $topic) messages"
    [ "$(grep -o '"msgId":"[^",]*"' "$RUN/$BROKER-$topic.sent" | sort -u | wc -l)" = 100 ] ||
        fail "the send results have not 100 ids: $(head -n 2 "$RUN/$BROKER-$topic.sent" | tr '\n' ' ')"
    content lines seed=$topic count=2000 size=3000 |
        timeout 60 "$RMQ" produce -n "$NS" -t $topic --json-lines -o json --batch 2000 > "$RUN/$BROKER-$topic.big" 2>&1 &&
        fail "a batch of 6 MB was accepted"
    [ "$(stored $topic)" = 100 ] || fail "of a batch over the limit $(($(stored $topic) - 100)) messages were stored"
    note "over the limit: $(tail -n 1 "$RUN/$BROKER-$topic.big" | head -c 200)"
}

case_batch_on_real_533() { need_rmq; use_real 5.3.3; batches; }
case_batch_on_real_497() { need_rmq; use_real 4.9.7; batches; }
case_batch_on_ours() { use_ours; batches; }

# A topic that keeps each batch as one record, which consumers take apart.
case_inner_batches_on_real_533() {
    local topic=InnerBatch
    need_rmq
    use_real 5.3.3
    must peer mqadmin updateTopic -n "$NS" -c DefaultCluster -t $topic -r 4 -w 4 -a +queue.type=BatchCQ > /dev/null
    wait_until 30 peer offsets "ns=$NS" topic=$topic > /dev/null || fail "no topic"
    java_produce $topic seed=$topic count=200 size=500 mode=batch batch=10
    c_consume "$RUN/$BROKER-$topic" $topic G-$topic 200 60
    same_report "rmq" "$RUN/$BROKER-$topic" seed=$topic count=200 size=500
    note "batches of 10: $(stored $topic) offsets"
}

# ---- IPv6 ---------------------------------------------------------------------------------------------------------------

need_v6() { grep -q '^0\{31\}1 ' /proc/net/if_inet6 2> /dev/null || skip "this machine has no IPv6 loopback"; }

# v6_content NAME BROKERS: the topic lies on a broker with an IPv4 address and on one with an IPv6 address, to both of which NS6
# leads. Not on others, which cases beside this one may have at the same name server, and stop.
v6_content() {
    local topic=Six words long short
    words="seed=$topic count=400"
    NS=$NS6
    must peer createTopic "ns=$NS" topic=$topic queues=4 "broker=$2"
    # shellcheck disable=SC2086
    java_produce $topic $words mode=sync
    c_produce "$RUN/$1.sent" $topic "" seed=$topic from=400 count=400
    c_consume "$RUN/$1.c" $topic GC-$topic 800 60
    same_report "rmq consume" "$RUN/$1.c" seed=$topic count=800
    java_consume "$RUN/$1.java" $topic 800
    same_report "Java" "$RUN/$1.java" seed=$topic count=800
    long=$(sed -n 's/.*"offsetMsgId":"\([0-9A-Fa-f]\{56\}\)".*/\1/p' "$RUN/$1.c.json" | head -n 1)
    [ -n "$long" ] || fail "no message has a long id"
    must peer viewMessage "ns=$NS" topic=$topic "id=$long" > "$RUN/$1.view"
    timeout 30 "$RMQ" message -n "$NS" "$long" > "$RUN/$1.message" 2>&1 || fail "rmq message: $(tail -n 1 "$RUN/$1.message")"
    grep -qF '[::1]:' "$RUN/$1.message" || fail "rmq message prints no [::1]: $(tr '\n' ' ' < "$RUN/$1.message")"
    grep -q 'storeHost=.*:0*1\]*:' "$RUN/$1.view" || fail "the store host is not ::1: $(tr '\n' ' ' < "$RUN/$1.view")"
    short=$(grep -c '"offsetMsgId":"[0-9A-Fa-f]\{32\}"' "$RUN/$1.c.json") || fail "no message of IPv4 is in the topic"
    note "$short messages of IPv4, $(grep -c '"offsetMsgId":"[0-9A-Fa-f]\{56\}"' "$RUN/$1.c.json") of IPv6; $(tr '\n' ' ' < "$RUN/$1.view")"
}

# A name with no IPv4 address: a hosts file of our own in a mount namespace, where that is allowed.
v6_by_name() {
    local hosts=$RUN/$1.hosts
    echo "::1 six.test" > "$hosts"
    if ! unshare -m mount --bind "$hosts" /etc/hosts 2> /dev/null; then
        note "name with only an IPv6 address: not tried, no mount namespace here"
        return 0
    fi
    # shellcheck disable=SC2016
    timeout 60 unshare -m sh -c 'mount --bind "$1" /etc/hosts && "$2" produce -n "$3" -t Six --body by-name -o json &&
        exec "$2" consume -n "$3" -t Six -g GN-Six --from first --count 801 --timeout 30 -o json' - \
        "$hosts" "$RMQ" "six.test:${NS6##*:}" > "$RUN/$1.byname" 2> "$RUN/$1.byname.err" ||
        fail "by name: $(tail -n 1 "$RUN/$1.byname.err")"
    grep -q '"body":"by-name"' "$RUN/$1.byname" || fail "by name: what was sent did not come"
    note "by a name with only an IPv6 address: sent and consumed"
}

case_v6_on_real_533() {
    need_rmq
    need_v6
    use_real 5.3.3
    local port
    port=$(take_ports)
    real_broker real-six 5.3.3 "$port" "$NS" "brokerIP1=[::1]"
    must peer waitBroker "ns=$NS" broker=real-six > /dev/null
    NS6="[::1]:${NS##*:}"
    v6_content real6 real-5.3.3,real-six
    v6_by_name real6
    stop_server real-six
}

case_v6_on_ours() {
    need_rmq
    need_v6
    local port four
    port=$(take_ports)
    NAMESRV_ADDRESS=::1 our_broker ours-six "$port" $((port + 4)) "brokerIP1=[::1]"
    NS6="[::1]:$port"
    four=$(take_ports)
    our_broker ours-four "$four" $((four + 4)) "namesrvAddr=$NS6"
    must peer waitBroker "ns=$NS6" broker=ours-six > /dev/null
    must peer waitBroker "ns=$NS6" broker=ours-four > /dev/null
    v6_content ours6 ours-four,ours-six
    v6_by_name ours6
    stop_server ours-four 20
    stop_server ours-six 20
}
