# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Namespaces beside Java's client: of the first kind, as part of the names, and of the second, which goes with requests.
# shellcheck shell=bash

# Each side sends in the namespace and the other reads there, every fifth message once again by way of the retry topic;
# who has no namespace finds them all under the full name.
same_namespace() {
    local ns=MQ_INST_1_a topic=Spaced full
    full=$ns%$topic
    new_topic "$full" 4
    c_produce "$RUN/$BROKER-$topic.sync" $topic "--set namespace=$ns" seed=$topic count=100
    c_produce "$RUN/$BROKER-$topic.batch" $topic "--set namespace=$ns --batch 10" seed=$topic from=100 count=100
    java_consume "$RUN/$BROKER-$topic.java" $topic 200 namespace=$ns later=5
    same_report "Java in the namespace" "$RUN/$BROKER-$topic.java" seed=$topic count=200
    java_produce $topic seed=$topic from=200 count=100 mode=sync namespace=$ns group=SpacedProducer
    java_produce $topic seed=$topic from=300 count=100 mode=batch namespace=$ns group=SpacedProducer
    c_consume "$RUN/$BROKER-$topic.c" $topic "GC-$topic" 400 60 --namespace $ns
    same_report "rmq consume in the namespace" "$RUN/$BROKER-$topic.c" seed=$topic count=400
    c_consume "$RUN/$BROKER-$topic.full" "$full" "GF-$topic" 400 60
    same_report "rmq consume of $full" "$RUN/$BROKER-$topic.full" seed=$topic count=400
}

# Brokers of 5.3.3 take the fields and leave names alone.
second_namespace() {
    local topic=SpacedTwo
    new_topic $topic 4
    c_produce "$RUN/$BROKER-$topic.sync" $topic "--set namespaceV2=tenant-a" seed=$topic count=100
    java_produce $topic seed=$topic from=100 count=100 namespaceV2=tenant-a group=SpacedTwoProducer
    java_consume "$RUN/$BROKER-$topic" $topic 200 namespaceV2=tenant-a
    same_report "Java" "$RUN/$BROKER-$topic" seed=$topic count=200
}

case_namespace_on_real_533() { need_rmq; use_real 5.3.3; same_namespace; second_namespace; }
case_namespace_on_ours() { use_ours; same_namespace; second_namespace; }
