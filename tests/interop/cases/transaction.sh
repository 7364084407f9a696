# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Transactions: our producer on the real broker, by the end-to-end test, and a Java TransactionMQProducer on our broker.
# shellcheck shell=bash

# The end-to-end tests of the tree whose command is tested.
E2E=$ROOT/build/release/test/e2e

run_e2e() {  # NAMESRV TEST CASE...
    local ns=$1 test=$2 out=$RUN/$BASHPID-$2.out
    shift 2
    RMQ_NAMESRV=$ns timeout 360 "$E2E/$test" "$@" > "$out" 2>&1 || fail "$test: $(grep -m 1 '^FAIL' "$out" || tail -n 1 "$out")"
    note "$(grep -c '^ok' "$out") cases of $test, $(grep -c '^skip' "$out") skipped"
}

# e2e_on_real NAME TEST CASE...: the test with a real broker of its own, 5.3.3 unless VERSION says otherwise, which is given
# the options in OPTIONS.
e2e_on_real() {
    local name=$1 test=$2 port
    shift 2
    need_rmq
    [ -x "$E2E/$test" ] || skip "there is no $E2E/$test: make $E2E/$test"
    port=$(take_ports)
    real_namesrv "$name-namesrv" "${VERSION:-5.3.3}" "$port"
    # shellcheck disable=SC2086
    real_broker "$name" "${VERSION:-5.3.3}" $((port + 4)) "127.0.0.1:$port" $OPTIONS
    must peer waitBroker "ns=127.0.0.1:$port" "broker=$name"
    run_e2e "127.0.0.1:$port" "$test" "$@"
    stop_server "$name"
    stop_server "$name-namesrv"
}

case_c_transactions_on_real_533() {
    OPTIONS="transactionCheckInterval=5000 transactionTimeOut=3000" e2e_on_real transactions transaction_test
}

case_c_transactions_on_real_497() {
    VERSION=4.9.7 OPTIONS="transactionCheckInterval=5000 transactionTimeOut=3000" e2e_on_real transactions-497 transaction_test
}

# kill | start for broker_kill_test: a program of its own, since the test runs it.
write_control() {  # FILE NAME VERSION
    {
        echo "#!/bin/bash"
        printf 'export HERE=%q RUN=%q\n. "$HERE/lib.sh"\n' "$HERE" "$RUN"
        # shellcheck disable=SC2016
        printf 'if [ "$1" = kill ]; then kill_server %q; else restart_real_broker %q %q; fi\n' "$2" "$2" "$3"
    } > "$1"
    chmod +x "$1"
}

# SIGKILL while messages wait for their time and transactions are open.
case_killed_while_waiting_on_real_533() {
    local name=killed-waiting port ns
    need_rmq
    [ -x "$E2E/broker_kill_test" ] || skip "there is no $E2E/broker_kill_test: make $E2E/broker_kill_test"
    port=$(take_ports)
    ns=127.0.0.1:$port
    real_namesrv $name-namesrv 5.3.3 "$port"
    real_broker $name 5.3.3 $((port + 4)) "$ns" transactionCheckInterval=1000 transactionTimeOut=1000 \
        transactionCheckMax=100000 messageDelayLevel=2s
    must peer waitBroker "ns=$ns" broker=$name
    write_control "$RUN/$name.control" $name 5.3.3
    RMQ_BROKER_CONTROL=$RUN/$name.control run_e2e "$ns" broker_kill_test
    stop_server $name
    stop_server $name-namesrv
}

# Committed and rolled back at once or when asked for the second time, in one producer.
case_java_transactions_on_ours() {
    need_rmq
    local topic=JavaTransactions tags=Commit,Rollback,LateCommit,LateRollback port text NS BROKER=ours-transactions
    port=$(take_ports)
    NS=127.0.0.1:$port
    our_broker $BROKER "$port" $((port + 4)) transactionCheckInterval=1000 transactionTimeOut=1000
    must peer waitBroker "ns=$NS" broker=$BROKER
    new_topic $topic 4
    text=$(must peer transactions "ns=$NS" topic=$topic group=TG seed=$topic count=400 tags=$tags wait=60)
    note "Java: $(echo "$text" | tr '\n' ' ')"
    [ "$(echo "$text" | value_of answered)" = 200 ] || fail "the Java producer answered $(echo "$text" | tr '\n' ' ')"
    java_consume "$RUN/$topic" $topic 200
    same_report "Java" "$RUN/$topic" seed=$topic count=400 tags=$tags only=Commit,LateCommit
    c_consume "$RUN/$topic.c" $topic GC-$topic 200 60
    same_report "rmq consume" "$RUN/$topic.c" seed=$topic count=400 tags=$tags only=Commit,LateCommit
    stop_server $BROKER
}
