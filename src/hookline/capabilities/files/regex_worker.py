"""Which lines fit a regular expression: a program of its own, so that an expression that never ends can be stopped.

It reads from standard input: one line of JSON with the expression, then texts, each after its length in eight bytes.
It first answers whether the expression is valid, then, for each text, the numbers of the lines that fit, counted from
0: one line of JSON each time. It knows nothing of files, and imports nothing of ours.
"""

from __future__ import annotations

import json
import re
import sys

MOST = 1_000_000
"""Line numbers in one answer, at most."""


def main() -> None:
    """Answer until there is nothing more to read."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    wanted = json.loads(source.readline())
    try:
        search = re.compile(wanted["pattern"], re.IGNORECASE if wanted["ignore_case"] else 0).search
    except (re.error, OverflowError, RecursionError) as error:
        answer = {"error": str(error)}
        target.write(json.dumps(answer).encode() + b"\n")
        return
    target.write(b"{}\n")
    target.flush()
    while length := source.read(8):
        lines = source.read(int.from_bytes(length)).decode("utf-8", "surrogatepass").split("\n")
        found = [number for number, line in enumerate(lines) if search(line)]
        target.write(json.dumps(found[:MOST]).encode() + b"\n")
        target.flush()


if __name__ == "__main__":
    main()
