#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
"""latency.py RMQ NAMESRV TOPIC PEER_PORT LIMIT_MS: how long a message takes to an idle `rmq consume`.

Sends one at a time through the Java peer, 100 ms apart, and takes the time from the message's birth to its line here.
"""

import json
import socket
import subprocess
import sys
import time

WARM, COUNT = 100, 200


def send(port, namesrv, topic, i):
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(f"produce ns={namesrv} topic={topic} seed={topic} from={i} count=1 size=100\n".encode())
        answer = peer.makefile().read()
    if "acked=1" not in answer:
        raise SystemExit(f"  send {i}: {answer}")


def main():
    rmq, namesrv, topic, port, limit = sys.argv[1:]
    consumer = subprocess.Popen(
        [rmq, "consume", "-n", namesrv, "-t", topic, "-g", f"G-{topic}", "--from", "first", "--timeout", "120",
         "-o", "json", "--count", str(WARM + COUNT)], stdout=subprocess.PIPE)
    times = []
    for i in range(WARM + COUNT):
        send(int(port), namesrv, topic, i)
        message = json.loads(consumer.stdout.readline())
        times.append(time.time() * 1000 - message["bornTimestamp"])
        time.sleep(0.1)
    consumer.wait(20)
    times = sorted(times[WARM:])
    p50, p99, most = times[COUNT // 2], times[COUNT * 99 // 100 - 1], times[-1]
    print(f"  {namesrv}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {most:.1f} ms")
    return p99 < float(limit)


sys.exit(0 if main() else 1)
