"""How often an agent that obeys every injection falls, undefended and under Hookline's policies.

    python benchmarks/agentdojo/measure_trust.py                    # all 949 pairs; some minutes
    python benchmarks/agentdojo/measure_trust.py --suites banking   # some of them
    python benchmarks/agentdojo/measure_trust.py --json rates.json  # also every single pair

AgentDojo is installed into an environment of its own, in the user's cache, the first time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import trust_environment
from trust_report import Played, as_json, rows, table

SUITES = ("workspace", "travel", "banking", "slack")


def measure(names: list[str], jobs: int) -> list[Played]:
    """All tasks of some suites, in as many processes as are given."""
    from trust_runs import KINDS, run_task, user_tasks  # needs AgentDojo

    work = [(name, user_id) for name in names for user_id in user_tasks(name)]
    played: list[list[Played]] = []
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        tasks = [pool.apply_async(run_task, each) for each in work]
        for number, task in enumerate(tasks, start=1):
            played.append(task.get())
            print(f"\r{number} of {len(work)} tasks", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    each = [one for some in played for one in some]
    return sorted(each, key=lambda one: KINDS.index((one.defence, one.answers)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suites", default=",".join(SUITES), help=f"any of {', '.join(SUITES)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", type=Path, help="a file for every single result")
    options = parser.parse_args()
    options.suites = options.suites.split(",")
    if unknown := sorted(set(options.suites) - set(SUITES)):
        parser.error(f"unknown suite {', '.join(unknown)}; known are {', '.join(SUITES)}")
    if options.jobs < 1:
        parser.error("--jobs is at least 1")
    return options


def main() -> int:
    """Measure, and print the table."""
    options = _options()
    if not trust_environment.is_here():
        command = [str(trust_environment.python()), str(Path(__file__)), *sys.argv[1:]]
        return subprocess.run(command).returncode
    played = measure(options.suites, options.jobs)
    made = rows(played)
    print(table(made))
    if options.json:
        options.json.write_text(json.dumps(as_json(made, played), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
