# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# The recorded results of SQL92 filters, evaluated once more by the Java filter. Our side of them is a unit test.
# shellcheck shell=bash

case_sql92_vectors() {
    local text
    text=$(java -cp "$CACHE/jars-5.3.3/*" "$HERE/sql92/SqlVectors.java" "$HERE/../vectors/sql92.json") ||
        fail "SqlVectors ended with $?"
    [[ $text == *" different=0" ]] || fail "Java says otherwise: $(head -c 600 <<< "$text" | tr '\n' ' ')"
    note "$text"
}
