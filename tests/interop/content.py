#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
"""What message number i of a seed contains (see Content.java), for the C side of the interop suite.

content.py lines  key=value...            JSON lines for `rmq produce --json-lines`; rate=N a second, until the file stop=F is there;
                                           message groups by turns with groups=N; words=N keys for each message
content.py expect key=value...            the report that a consumer of all of them, or of the tags only=A,B, must write
content.py body   key=value... from=I     the bare body of message I
content.py report FILE                    the report of `rmq consume -o json` output, and "distinct= duplicates=" on stderr
"""

import base64
import hashlib
import json
import os
import sys
import time


class Content:
    def __init__(self, words):
        args = dict(word.split("=", 1) for word in words)
        self.seed = args.get("seed", "s")
        self.kind = args.get("kind", "text")
        self.sizes = [int(n) for n in args.get("sizes", args.get("size", "200")).split(",")]
        self.tags = args.get("tags", "Tag0,Tag1,Tag2,Tag3,Tag4").split(",")
        self.first = int(args.get("from", "0"))
        self.last = self.first + int(args.get("count", "1"))
        self.only = args.get("only", ",".join(self.tags)).split(",")
        self.rate = int(args.get("rate", "0"))
        self.stop = args.get("stop", "")
        self.groups = int(args.get("groups", "0"))
        self.words = int(args.get("words", "1"))

    def body(self, i):
        size = self.sizes[i % len(self.sizes)]
        if self.kind == "random" or self.kind == "mixed" and i // len(self.sizes) % 2 == 1:
            blocks = range((size + 31) // 32)
            return b"".join(hashlib.sha256(b"%s:%d:%d" % (self.seed.encode(), i, k)).digest() for k in blocks)[:size]
        head = f"{self.seed}:{i}:".encode()
        alphabet = bytes(ord("a") + (i + j) % 26 for j in range(26))
        return (head + alphabet * (size // 26 + 1))[:size]

    def tag(self, i):
        return self.tags[i % len(self.tags)]

    def keys(self, i):
        return " ".join([f"key-{self.seed}-{i}"] + [f"word{k}-{self.seed}-{i}" for k in range(1, self.words)])

    def properties(self, i):
        return {"idx": str(i), "p-uni": f"ünï-{i}"}


def write_lines(content):
    for i in range(content.first, content.last):
        body = content.body(i)
        message = {"tag": content.tag(i), "keys": content.keys(i), "properties": content.properties(i)}
        if content.groups > 0:
            message["messageGroup"] = f"group-{i % content.groups}"
        try:
            message["body"] = body.decode()
        except UnicodeDecodeError:
            message["bodyBase64"] = base64.b64encode(body).decode()
        print(json.dumps(message, ensure_ascii=False), flush=content.rate > 0)
        if content.rate > 0:
            time.sleep(1 / content.rate)
        if content.stop and os.path.exists(content.stop):
            return


def write_expected(content):
    for i in range(content.first, content.last):
        if content.tag(i) not in content.only:
            continue
        sha1 = hashlib.sha1(content.body(i)).hexdigest()
        print(i, sha1, content.tag(i), content.keys(i), content.properties(i)["p-uni"], sep="\t")


def body_of(message):
    if "bodyBase64" in message:
        return base64.b64decode(message["bodyBase64"])
    return message["body"].encode("utf-8", "surrogatepass")


def write_report(path):
    lines, total = {}, 0
    with open(path, encoding="utf-8") as received:
        for text in received:
            message = json.loads(text)
            if "event" in message:
                continue
            total += 1
            properties = message.get("properties", {})
            sha1 = hashlib.sha1(body_of(message)).hexdigest()
            if message.get("bodySha1") not in (None, sha1):
                sha1 += "!=" + message["bodySha1"]
            index = properties.get("idx", f"-{total}")
            lines[int(index)] = "\t".join(
                [index, sha1, message.get("tag") or "", message.get("keys") or "", properties.get("p-uni", "")])
    for index in sorted(lines):
        print(lines[index])
    print(f"distinct={len(lines)} duplicates={total - len(lines)}", file=sys.stderr)


def main():
    sys.stdout.reconfigure(encoding="utf-8")
    verb, words = sys.argv[1], sys.argv[2:]
    if verb == "report":
        write_report(words[0])
        return
    content = Content(words)
    if verb == "body":
        sys.stdout.buffer.write(content.body(content.first))
    else:
        {"lines": write_lines, "expect": write_expected}[verb](content)


main()
