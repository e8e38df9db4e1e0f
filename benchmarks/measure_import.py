"""What `import` costs: CPU over bare Python, modules loaded, distributions installed."""

from __future__ import annotations

import os
import subprocess

from bench import Bench
from candidates import BARE, Candidate
from remote import Failed, environment

# Pydantic is imported when the first tool is made that takes more than text and numbers.
FIRST_TOOL = """
import hookline
@hookline.tool
def add(numbers: dict[str, int]) -> int:
    "Add numbers."
    return sum(numbers.values())
"""
COUNT_MODULES = "import sys; print(len(sys.modules))"

# The closure of what a distribution requires; runs in the candidate's interpreter.
COUNT_DISTRIBUTIONS = """
import importlib.metadata as metadata, sys
try:
    from packaging.requirements import Requirement
except ImportError:
    from pip._vendor.packaging.requirements import Requirement
seen, queue = set(), [(sys.argv[1], frozenset())]
while queue:
    name, extras = queue.pop()
    if (name, extras) in seen:
        continue
    seen.add((name, extras))
    for needed in map(Requirement, metadata.requires(name) or ()):
        marker = needed.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or [""]):
            queue.append((needed.name.lower().replace("_", "-"), frozenset(needed.extras)))
print(len({name for name, _ in seen}))
"""


def measure_import(bench: Bench) -> None:
    """Fresh processes, one that imports beside one that does nothing."""
    book = bench.book

    def sample(candidate: Candidate) -> None:
        # Counting comes first: it also writes the bytecode, so that no sample pays for it.
        if book.series(candidate.name, "modules") is None:
            modules = python(candidate, f"{candidate.imports}; {COUNT_MODULES}")
            distributions = python(candidate, COUNT_DISTRIBUTIONS, candidate.distribution)
            book.add(candidate.name, "modules", int(modules))
            book.add(candidate.name, "distributions", int(distributions))
        nothing, imported = (
            cpu_seconds(candidate, "pass"),
            cpu_seconds(candidate, candidate.imports),
        )
        book.add(candidate.name, "import_s", imported - nothing)
        if not candidate.is_peer:
            book.add(BARE.name, "import_s", nothing)
            book.add(candidate.name, "first_tool_s", cpu_seconds(candidate, FIRST_TOOL) - nothing)

    book.add(BARE.name, "modules", int(python(BARE, COUNT_MODULES)))
    bench.rounds("import", sample, bench.effort.long_rounds, bench.effort.peer_rounds)


def python(candidate: Candidate, code: str, *arguments: str | None) -> str:
    """What a one-off program prints."""
    command = [candidate.python, "-c", code, *(argument for argument in arguments if argument)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode:
        raise Failed(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip()


def cpu_seconds(candidate: Candidate, code: str) -> float:
    """CPU time of a whole fresh interpreter."""
    process = subprocess.Popen(
        [candidate.python, "-c", code], env=environment(), stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(f"`{code}` ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime
