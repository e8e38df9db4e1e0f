"""Measures Hookline beside the bare loop and the installed peers: `python benchmarks/run.py`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from bench import FULL, QUICK, Bench, say
from candidates import HOOKLINE, PEERS, find_peers, hookline
from goals import findings
from measure_crowds import measure_build, measure_fleet, measure_parallel
from measure_import import measure_import
from measure_steps import measure_growth, measure_step
from table import goals_table, notes, peers_table

PARTS: dict[str, Callable[[Bench], None]] = {
    "step": measure_step,
    "growth": measure_growth,
    "fleet": measure_fleet,
    "parallel": measure_parallel,
    "build": measure_build,
    "import": measure_import,
}


def arguments() -> argparse.Namespace:
    """The command line, with its lists already split and checked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ",".join(PARTS)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a rough answer")
    parser.add_argument("--only", default=parts, help=f"parts to measure (default: {parts})")
    parser.add_argument("--peers", default="all", help="all, none, or names and commas")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample to FILE")
    options = parser.parse_args()
    options.only = chosen(parser, "part", options.only, list(PARTS))
    names = [peer.name for peer in PEERS]
    peers = {"all": ",".join(names), "none": ""}.get(options.peers, options.peers)
    options.peers = chosen(parser, "peer", peers, names)
    return options


def chosen(parser: argparse.ArgumentParser, kind: str, text: str, known: list[str]) -> list[str]:
    """The names in a list with commas, each of them known."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"unknown {kind} {', '.join(unknown)}; known are {', '.join(known)}")
    return names


def main() -> int:
    """Measure, print, and say by the exit status whether Hookline failed or broke a limit."""
    options = arguments()
    peers, skipped = find_peers(options.peers)
    bench = Bench([hookline(), *peers], QUICK if options.quick else FULL)
    try:
        for part in options.only:
            PARTS[part](bench)
    finally:
        bench.close()
        say("")
    found = list(findings(bench.book, bench.candidates))
    python, cores = platform.python_version(), os.cpu_count()
    print(f"CPython {python}, {cores} cores, {bench.effort.rounds} rounds\n")
    print(goals_table(found))
    if peers:
        print("\n" + peers_table(bench.book, bench.candidates))
    for line in notes(bench.book, bench.candidates, skipped):
        print(f"\n{line}", end="")
    print()
    if options.json:
        report = {
            "python": python,
            "machine": platform.machine(),
            "cores": cores,
            "rounds": bench.effort.rounds,
            "versions": {candidate.name: candidate.version for candidate in bench.candidates},
            "goals": [finding.to_json() for finding in found],
            "measurements": bench.book.to_json(),
            "skipped": skipped,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    broken = any(finding.verdict == "OVER LIMIT" for finding in found)
    return 1 if broken or any(name == HOOKLINE for name, _ in bench.book.failures) else 0


if __name__ == "__main__":
    sys.exit(main())
