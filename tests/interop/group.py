#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
"""Reads what members of a consumer group wrote (`rmq consume --events -o json`, one file a member).

group.py shares QUEUES FILE...     succeeds when every queue 0..QUEUES-1 is owned by exactly one member; prints the shares
group.py share FILE                the queues of one member, as 0,1,2
group.py account ACKS FILE...      succeeds when each idx in the file ACKS was received; prints lost and duplicates
group.py ids SENT FILE...          the same by msgId, SENT being the output of `rmq produce -o json`
group.py order FILE...             succeeds when each member got the messages of each queue in ascending order
group.py lanes FLOORS FILE...      succeeds when all members together got each queue, and each key, in order: what comes again begins at or behind
                                   the offset that was stored before, and nothing is left out; FLOORS has lines "us queueId offset", "us reset"
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


def check_order(paths):
    """A queue's messages ascend; what comes again does so from some point on, without a gap behind what was there."""
    bad, total, again = [], 0, 0
    for path in paths:
        ends = {}
        for line in read(path):
            if "event" in line:
                continue
            queue, offset = line["queueId"], line["queueOffset"]
            total += 1
            if offset < ends.get(queue, -1) + 1:
                again += 1
                if offset != ends.get(queue):
                    bad.append(f"{path}: queue {queue} offset {offset} after {ends[queue]}")
            ends[queue] = offset
    print(f"{total} in order, {again} twice", "; ".join(bad[:3]))
    return not bad


def floors_of(path):
    """(time, queue, offset) in order; a queue of None when stored offsets may have gone back (a broker was killed)."""
    with open(path, encoding="utf-8") as lines:
        for text in lines:
            words = text.split()
            if words[1] == "reset":
                yield int(words[0]), None, 0
            elif words[2] != "-":
                yield int(words[0]), int(words[1]), int(words[2])


def check_keys(deliveries):
    places = {}
    for line in deliveries:
        places.setdefault(line["key"], set()).add((line["queueId"], line["queueOffset"], int(line["properties"]["idx"])))
    for key, seen in places.items():
        if len({queue for queue, _, _ in seen}) > 1:
            yield f"key {key} is in several queues"
        numbers = [idx for _, _, idx in sorted(seen)]
        if numbers != sorted(numbers):
            yield f"key {key} is not in order"


def check_lanes(floors_path, paths):
    deliveries = sorted((line for path in paths for line in read(path) if "event" not in line), key=lambda line: line["at"])
    floors, floor, ends, bad, again = list(floors_of(floors_path)), {}, {}, [], 0
    for line in deliveries:
        queue, offset = line["queueId"], line["queueOffset"]
        while floors and floors[0][0] < line["at"]:
            _, stored, least = floors.pop(0)
            if stored is None:
                floor.clear()
            else:
                floor[stored] = least
        end = ends.get(queue, 0)
        again += offset < end
        if offset > end:
            bad.append(f"queue {queue}: {offset} after {end - 1}")
        elif offset < floor.get(queue, 0):
            bad.append(f"queue {queue}: {offset} again, though {floor[queue]} was stored")
        ends[queue] = offset + 1
    bad += check_keys(deliveries)
    print(f"{len(deliveries)} in order, {again} again", "; ".join(bad[:3]))
    return not bad


def main():
    verb, first, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    if verb == "lanes":
        return check_lanes(first, rest)
    if verb == "order":
        return check_order([first, *rest])
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
