"""What the shell policy says a string would run, against what real bash would run.

    python benchmarks/shell_fuzz.py                          # 60,000 strings; some minutes
    python benchmarks/shell_fuzz.py --strings 5000 --seed 7  # a shorter look at others

Exit status 1 if a single claim is wrong, if too little is claimed, or if a verdict takes longer than a millisecond.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hookline.containment import Reading, ShellPolicy, Word, read_command
from shell_bash import Cage
from shell_strings import Strings

CORPUS = Path(__file__).resolve().parents[1] / "tests/containment/shell/corpus"
BATCH = 500
DECISIONS = ("allow", "ask", "deny")


Wrong = tuple[str, Reading, list[tuple[str, ...]]]
"""A text, what was claimed of it, and what ran."""


class Tally(NamedTuple):
    """What came of the strings of one kind."""

    kind: str
    strings: int
    static: int
    open: int
    wrong: list[Wrong]


def corpus(name: str) -> list[str]:
    """The commands of a file, without its headings."""
    lines = (CORPUS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("## ")]


def agrees(reading: Reading, ran: Sequence[tuple[str, ...]]) -> bool:
    """Whether every command that ran was claimed, and every one that was claimed ran."""
    assigned = tuple(f"{name}=" for one in reading.commands for name, _ in one.assignments)
    seen = {argv for argv in ran if len(argv) != 1 or not argv[0].startswith(assigned)}
    commands = reading.commands
    claimed = set()
    for argv in seen:
        fitting = [at for at, one in enumerate(commands) if _fits(one.words, argv)]
        if not fitting:
            return False
        claimed.update(fitting)
    return len(claimed) == len(commands) or _may_fail(reading)


def _may_fail(reading: Reading) -> bool:
    """Whether a command fails here in any case: nothing can be written, and no path leads to a program.

    Then what depends on it does not run.
    """
    names = [command.words[0] for command in reading.commands]
    if any("/" in name.text or not name.exact for name in names):
        return True
    targets = [
        r.target.text for c in reading.commands for r in c.redirects if r.operator[-1] not in "&"
    ]
    return any(target != "/dev/null" for target in targets)


def _fits(words: Sequence[Word], argv: tuple[str, ...]) -> bool:
    """Whether an argv is what the words say. An open word stands for any number of words that begin as it does."""
    if not words:
        return not argv
    word, rest = words[0], words[1:]
    if word.exact:
        return bool(argv) and argv[0] == word.text and _fits(rest, argv[1:])
    for count in range(len(argv) + 1):
        if _fits(rest, argv[count:]):
            return True
        if count == len(argv) or not argv[count].startswith(word.prefix):
            return False
    return False


def look_again(cage: Cage, wrong: Wrong) -> Wrong | None:
    """Some branches are taken only if one command succeeds and another fails: see what chance brings."""
    text, reading, ran = wrong
    (more,) = cage.traces([text], ["any"] * 64)
    return None if agrees(reading, ran + more) else (text, reading, ran + more)


def compare(cage: Cage, kind: str, texts: Sequence[str]) -> Tally:
    """Read each text, and see what bash makes of those about which something is claimed."""
    readings = [(text, read_command(text)) for text in texts]
    claimed = [
        (text, reading) for text, reading in readings if reading.is_known and reading.commands
    ]
    wrong: list[Wrong] = []
    for at in range(0, len(claimed), BATCH):
        batch = claimed[at : at + BATCH]
        traces = cage.traces([text for text, _ in batch])
        wrong += [
            (t, r, ran) for (t, r), ran in zip(batch, traces, strict=True) if not agrees(r, ran)
        ]
    wrong = [found for one in wrong if (found := look_again(cage, one))]
    static = sum(reading.is_static for _, reading in claimed)
    return Tally(kind, len(texts), static, len(claimed) - static, wrong)


def fuzz(cage: Cage, count: int, seed: int) -> list[Tally]:
    """So many strings, of every kind."""
    strings = Strings(seed, corpus("harmless") + corpus("dangerous") + corpus("ordinary"))
    kinds = strings.kinds()
    share = -(-count // len(kinds))
    return [compare(cage, kind, [make() for _ in range(share)]) for kind, make in kinds.items()]


@contextlib.contextmanager
def judging() -> Iterator[Callable[[str], str]]:
    """What the policy says in a repository that is trusted, so that what git lists counts, too."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["git", "init", "-q", place], check=True)
        policy = ShellPolicy(trusted=[place])
        yield lambda text: policy.judge(text, root=place).decision


def verdict_cost() -> tuple[float, float]:
    """Milliseconds of processor time for one verdict: the median, and one that 99 of 100 stay below."""
    times = []
    with judging() as judge:
        for text in corpus("ordinary") + corpus("harmless") + corpus("dangerous"):
            judge(text)
            start = time.process_time_ns()
            for _ in range(3):
                judge(text)
            times.append((time.process_time_ns() - start) / 3e6)
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


def table(tallies: Sequence[Tally]) -> None:
    """Print what was found."""
    print(f"{'kind of string':<20}{'strings':>9}{'claimed':>9}{'%':>7}{'open':>7}{'wrong':>7}")
    for one in tallies:
        share = 100 * one.static / one.strings
        print(
            f"{one.kind:<20}{one.strings:>9,}{one.static:>9,}{share:>7.1f}{one.open:>7,}{len(one.wrong):>7}"
        )
    for one in tallies[:-1]:
        for text, reading, ran in one.wrong[:10]:
            print(
                f"\nWRONG {text!r}\n  claimed {[c.argv or c.words for c in reading.commands]}\n  bash    {ran}"
            )


def verdicts() -> None:
    """Print what the policy says about the labelled commands."""
    with judging() as judge:
        for name in ("everyday", "harmless", "dangerous", "denied"):
            counts: Counter[str] = Counter(map(judge, corpus(name)))
            total = sum(counts.values())
            shares = [f"{d} {counts[d]:>5} ({100 * counts[d] / total:.1f} %)" for d in DECISIONS]
            print(f"{name:<12}{total:>6}   " + "   ".join(shares))


def main() -> int:
    """Run it all and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--strings", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with Cage() as cage:
        ordinary = compare(cage, "ordinary commands", corpus("ordinary"))
        fuzzed = fuzz(cage, chosen.strings, chosen.seed)
    total = Tally(
        "all fuzzed",
        sum(one.strings for one in fuzzed),
        sum(one.static for one in fuzzed),
        sum(one.open for one in fuzzed),
        [wrong for one in fuzzed for wrong in one.wrong],
    )
    table([ordinary, *fuzzed, total])
    print()
    verdicts()
    median, most = verdict_cost()
    print(f"\none verdict: {median:.3f} ms (median), {most:.3f} ms (99 of 100)")
    claims = total.static >= 0.15 * total.strings and ordinary.static >= 0.95 * ordinary.strings
    return 0 if claims and not total.wrong and not ordinary.wrong and most <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
