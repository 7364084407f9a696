#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
"""latency.py RMQ NAMESRV TOPIC PEER_PORT LIMIT_MS: how long a message takes to an idle `rmq consume`.

Sends one at a time through the Java peer, 100 ms apart, and takes the time from the message's birth to its line here. Beside
it a thread of this process notes how late it wakes from short sleeps: on a machine that is itself later than a quarter of the
limit nothing can be said, and the exit code is 77. Otherwise 0 when the 99th of 100 is below the limit, and 1 when not.
"""

import json
import socket
import subprocess
import sys
import threading
import time

WARM, COUNT = 100, 200


def send(port, namesrv, topic, i):
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(f"produce ns={namesrv} topic={topic} seed={topic} from={i} count=1 size=100\n".encode())
        answer = peer.makefile().read()
    if "acked=1" not in answer:
        raise SystemExit(f"  send {i}: {answer}")


def note_lateness(late, stop):
    while not stop.is_set():
        begin = time.monotonic()
        time.sleep(0.01)
        late.append((time.monotonic() - begin) * 1000 - 10)


def at(values, quantile):
    return sorted(values)[int(quantile * (len(values) - 1))]


def measure(rmq, namesrv, topic, port):
    consumer = subprocess.Popen(
        [rmq, "consume", "-n", namesrv, "-t", topic, "-g", f"G-{topic}", "--from", "first", "--timeout", "120",
         "-o", "json", "--count", str(WARM + COUNT)], stdout=subprocess.PIPE)
    times, late, stop = [], [], threading.Event()
    clock = threading.Thread(target=note_lateness, args=(late, stop))
    for i in range(WARM + COUNT):
        if i == WARM:
            clock.start()
        send(port, namesrv, topic, i)
        message = json.loads(consumer.stdout.readline())
        times.append(time.time() * 1000 - message["bornTimestamp"])
        time.sleep(0.1)
    consumer.wait(20)
    stop.set()
    clock.join()
    return times[WARM:], late


def main():
    rmq, namesrv, topic, port, limit = sys.argv[1:]
    times, late = measure(rmq, namesrv, topic, int(port))
    print(f"  {namesrv}: p50 {at(times, 0.5):.1f} ms, p99 {at(times, 0.99):.1f} ms, most {max(times):.1f} ms;"
          f" the machine itself late by p99 {at(late, 0.99):.1f} ms")
    if at(times, 0.99) < float(limit):
        return 0
    return 77 if at(late, 0.99) > float(limit) / 4 else 1


sys.exit(main())
