#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
"""Reads what members of a consumer group wrote (`rmq consume --events -o json`, one file a member).

group.py shares QUEUES FILE...     succeeds when every queue 0..QUEUES-1 is owned by exactly one member; prints the shares
group.py share FILE                the queues of one member, as 0,1,2
group.py account ACKS FILE...      succeeds when each idx in the file ACKS was received; prints lost and duplicates
group.py ids SENT FILE...          the same by msgId, SENT being the output of `rmq produce -o json`
"""

import json
import sys


def read(path):
    """All whole lines: the last one of a killed member may be cut."""
    with open(path, encoding="utf-8") as lines:
        for text in lines:
            if text.startswith("{") and text.endswith("}\n"):
                yield json.loads(text)


def share(path):
    queues = []
    for line in read(path):
        if line.get("event") == "rebalanced":
            queues = line["queues"]
    ids = [queue["queueId"] if isinstance(queue, dict) else queue for queue in queues]
    return sorted(int(str(queue).rsplit(":", 1)[-1]) for queue in ids)


def show(queues):
    return ",".join(str(queue) for queue in queues)


def check_shares(want, paths):
    shares = [share(path) for path in paths]
    print(" ".join(f"[{show(queues)}]" for queues in shares))
    return sorted(sum(shares, [])) == list(range(int(want)))


def account(sent, paths, key):
    received, total = set(), 0
    for path in paths:
        for line in read(path):
            if "event" not in line:
                received.add(key(line))
                total += 1
    lost = [one for one in sent if one not in received]
    print(f"acknowledged={len(sent)} received={len(received)} duplicates={total - len(received)} lost={len(lost)}",
          " ".join(lost[:5]))
    return not lost


def main():
    verb, first, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    if verb == "share":
        print(show(share(first)))
        return True
    if verb == "shares":
        return check_shares(first, rest)
    if verb == "account":
        with open(first, encoding="utf-8") as acks:
            sent = acks.read().split()
        return account(sent, rest, lambda line: line["properties"].get("idx"))
    sent = [line["msgId"] for line in read(first) if line.get("status") == "SEND_OK"]
    return account(sent, rest, lambda line: line["msgId"])


sys.exit(0 if main() else 1)
