#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
"""latency.py RMQ NAMESRV TOPIC PEER_PORT LIMIT_MS: how long a message takes to an idle `rmq consume`.

The Java peer sends one at a time, 100 ms apart; the time is from the message's birth to its line here. Two things are noted beside
it: how late a thread of this process wakes from short sleeps, and how long the same messages take to a Java push consumer. Where
these show that the machine is busy with something else, nothing can be said. Exit code 0: the 99th of 100 is below the limit;
1: it is not; 77: the machine is too busy to tell.
"""

import json
import socket
import subprocess
import sys
import threading
import time

WARM, COUNT = 100, 200


def ask(port, command):
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(f"{command}\n".encode())
        answer = peer.makefile().read()
    if not answer.endswith("ok\n"):
        raise SystemExit(f"  {command}: {answer}")
    return dict(line.split("=", 1) for line in answer.splitlines() if "=" in line)


def note_lateness(late, stop):
    while not stop.is_set():
        begin = time.monotonic()
        time.sleep(0.01)
        late.append((time.monotonic() - begin) * 1000 - 10)


def at(values, quantile):
    return sorted(values)[int(quantile * (len(values) - 1))]


def measure(rmq, where, topic, port):
    consumer = subprocess.Popen(
        [rmq, "consume", "-n", where, "-t", topic, "-g", f"G-{topic}", "--from", "first", "--timeout", "120",
         "-o", "json", "--count", str(WARM + COUNT)], stdout=subprocess.PIPE)
    ask(port, f"startConsumer name={topic} ns={where} topic={topic} group=GJ-{topic} timedFrom={WARM}")
    times, late, stop = [], [], threading.Event()
    clock = threading.Thread(target=note_lateness, args=(late, stop), daemon=True)
    for i in range(WARM + COUNT):
        if i == WARM:
            clock.start()
        ask(port, f"produce ns={where} topic={topic} seed={topic} from={i} count=1 size=100")
        message = json.loads(consumer.stdout.readline())
        times.append(time.time() * 1000 - message["bornTimestamp"])
        time.sleep(0.1)
    stop.set()
    consumer.wait(20)
    return times[WARM:], late, float(ask(port, f"stopConsumer name={topic}")["p99"])


def main():
    rmq, where, topic, port = sys.argv[1:5]
    limit = float(sys.argv[5])
    times, late, java = measure(rmq, where, topic, int(port))
    print(f"  {where}: p50 {at(times, 0.5):.1f} ms, p99 {at(times, 0.99):.1f} ms, most {max(times):.1f} ms;"
          f" Java p99 {java:.0f} ms; the machine late by p99 {at(late, 0.99):.1f} ms")
    if at(times, 0.99) < limit:
        return 0
    return 77 if java > limit / 2 or at(late, 0.99) > limit / 4 else 1


sys.exit(main())
