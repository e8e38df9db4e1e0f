"""`hookline demo` many times, each in a process, a folder and a home of its own: how often both answers are right.

    python benchmarks/demo_answers.py [--runs 20]

Exits with 1 if an answer is wrong, or the hook was not met.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

RIGHT, MET = "The answer is right.", "The hook no-secrets blocked the call, once."


def main() -> int:
    """Run, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    seen = Counter(_run() for _ in range(runs))
    for (right, met, answers), times in seen.items():
        print(
            f"{times} of {runs}: {right} of 2 answers are right, hook {'met' if met else 'not met'}"
        )
        print("".join(f"    {line}\n" for line in answers), end="")
    return 0 if all((right, met) == (2, True) for right, met, _ in seen) else 1


def _run() -> tuple[int, bool, tuple[str, ...]]:
    """How many answers are right, whether the hook blocked the call, and the answers."""
    with tempfile.TemporaryDirectory() as place:
        ours = {
            name: str(Path(place) / name) for name in ("HOOKLINE_DATA_DIR", "HOOKLINE_CONFIG_DIR")
        }
        done = subprocess.run(
            [sys.executable, "-m", "hookline", "demo"],
            cwd=place,
            env={**os.environ, **ours},
            stdout=subprocess.PIPE,
            check=True,
        )
    lines = done.stdout.decode().splitlines()
    asked = [place for place, line in enumerate(lines) if line.startswith("$ hookline run")]
    return (
        lines.count(RIGHT),
        any(MET in line for line in lines),
        tuple(lines[place + 1] for place in asked),
    )


if __name__ == "__main__":
    sys.exit(main())
