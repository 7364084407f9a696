# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Pull, lite pull and pop: ours on the real broker, by the end-to-end tests, and a Java push consumer that pops on our broker.
# shellcheck shell=bash

case_c_pull_on_real_533() { OPTIONS="enablePropertyFilter=true" e2e_on_real pull pull_consumer_test; }
case_c_lite_pull_on_real_533() { OPTIONS="enablePropertyFilter=true" e2e_on_real lite lite_pull_test; }
case_c_lite_pull_group_on_real_533() { OPTIONS="" e2e_on_real litegroup lite_pull_group_test; }
case_c_assignment_on_real_533() { OPTIONS="" e2e_on_real assign consumer_assignment_test; }
case_c_pop_on_real_533() { OPTIONS="" e2e_on_real pop pop_consumer_test; }

# The broker shares out, the group pops; every tenth message is asked for again.
case_java_pops_on_ours() {
    need_rmq
    use_ours
    local topic=JavaPops
    new_topic $topic 4
    must peer mqadmin setConsumeMode -n "$NS" -c DefaultCluster -t $topic -g "G-$topic" -m POP -q 0 > /dev/null
    java_produce $topic seed=$topic count=200 mode=async
    java_consume "$RUN/$topic" $topic 200 pop=1 later=10
    same_report "Java" "$RUN/$topic" seed=$topic count=200
    grep -q 'again=20 ' "$RUN/java_pops_on_ours.log" || fail "not 20 messages came a second time"
}
