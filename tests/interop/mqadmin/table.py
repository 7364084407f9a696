#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
"""Compares two tours of mqadmin: table.py THERE HERE [markdown] prints a line per command that ended differently, or the table of docs/mqadmin.md.
table.py --page docs/mqadmin.md HERE fails when a command ended otherwise than the page says."""
import os
import re
import sys

NUMBERED = re.compile(r"\d{3}-")  # the tool itself leaves directories that begin with a digit

NOTES = {
    "brokerStatus": "same keys; `putMessageDistributeTime` has buckets of its own",
    "getBrokerConfig": "the options that are implemented here",
    "getNamesrvConfig": "the options that are implemented here",
    "updateBrokerConfig": "it is written to the file of properties; options that are read at start are refused with code 1",
    "checkRocksdbCqWriteProgress": "there is no RocksDB here",
    "exportPopRecord": "there is no RocksDB here",
    "topicList": "with -c: consumer groups; there, topics stand where groups should",
}


def outcome(path):
    """What a command came to: its refusal with the code, or that it answered."""
    text = open(path, errors="replace").read()
    head, _, rest = text.partition("\n")
    if "[still running]" in rest:
        return head, "does not end"
    code = re.search(r"CODE: (\d+)", rest)
    if code and ("Exception" in rest):
        track = "MessageTrack" in rest or "consumerGroup=" in rest
        if not track:
            return head, "refused, code " + code.group(1)
    if "SubCommandException" in rest or "RuntimeException" in rest:
        return head, "refused by the tool"
    return head, "answers"


def pairs(there, here):
    for name in sorted(os.listdir(there)):
        if NUMBERED.match(name):
            head, a = outcome(os.path.join(there, name))
            other = os.path.join(here, name)
            b = outcome(other)[1] if os.path.exists(other) else "not run"
            yield head, a, b


def check_page(page, here):
    said = {}
    for line in open(page, encoding="utf-8"):
        row = re.match(r"\| `(.*)` \| (.*) \| (.*) \|$", line)
        if row:
            said.setdefault(row.group(1).replace("\\|", "|"), []).append(row.group(3).split(";")[0])
    bad = []
    count = 0
    for name in sorted(n for n in os.listdir(here) if NUMBERED.match(n)):
        head, came = outcome(os.path.join(here, name))
        command = " ".join(head.replace(" -n @ns", "").split())
        if command not in said:
            continue
        count += 1
        if came != said[command].pop(0):
            bad.append("%s: %s" % (command, came))
    print("commands=%d otherwise=%d %s" % (count, len(bad), "; ".join(bad)))
    return 1 if bad or count < 100 else 0


def main():
    if sys.argv[1] == "--page":
        sys.exit(check_page(sys.argv[2], sys.argv[3]))
    rows = list(pairs(sys.argv[1], sys.argv[2]))
    if len(sys.argv) > 3:
        print("| command | there | here |\n| --- | --- | --- |")
        noted = set()
        for head, a, b in rows:
            words = head.replace(" -n @ns", "").split()
            note = NOTES.get(words[0])
            note = "" if not note or words[0] in noted or (a == b and "not" in note) else "; " + note
            noted.add(words[0])
            print("| `%s` | %s | %s |" % (" ".join(words).replace("|", "\\|"), a, b + note))
        return
    for head, a, b in rows:
        if a != b:
            print("%s: there %s, here %s" % (head, a, b))
    print("commands=%d different=%d" % (len(rows), sum(a != b for _, a, b in rows)))


if __name__ == "__main__":
    main()
