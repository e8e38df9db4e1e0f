"""What a conformance check found, in words that an author can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec


class Deviation(msgspec.Struct, frozen=True):
    """Something that was not as it should be, or not as it was under `run`."""

    mode: str
    """The way of driving the agent in which it showed."""
    what: str
    expected: Any
    got: Any
    remedy: str = ""

    def __str__(self) -> str:
        lines = [
            f"{self.mode}: {self.what}",
            f"  expected  {self.expected}",
            f"  got       {self.got}",
        ]
        return "\n".join([*lines, f"  {self.remedy}"] if self.remedy else lines)


class Report(msgspec.Struct, frozen=True):
    """The result of a conformance check: `assert report.ok, report`."""

    hook: str
    point: str
    modes: tuple[str, ...]
    """The ways of driving the agent that were compared."""
    skipped: dict[str, str]
    """Those that were not, and why."""
    differences: tuple[Deviation, ...]
    verdicts: tuple[str, ...]
    """What the hook said under `run`, in order."""
    ending: str
    """How the conversation ended under `run`."""

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return not self.differences

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        found = len(self.differences)
        finding = "conforms" if self.ok else f"{found} difference{'s' * (found != 1)}"
        said = ", ".join(f"{count} {verdict}" for verdict, count in Counter(self.verdicts).items())
        lines = [
            f"hook '{self.hook}' at {self.point}: {finding}",
            f"  compared  {', '.join(self.modes)}",
            f"  verdicts  {said or 'none'}",
            f"  the run   {self.ending}",
            *(f"  skipped   {mode}: {why}" for mode, why in self.skipped.items()),
        ]
        return "\n".join([*lines, *self._differences()])

    def _differences(self) -> Iterator[str]:
        """The first difference of each mode in full: the others mostly follow from it."""
        by_mode: dict[str, list[Deviation]] = {}
        for difference in self.differences:
            by_mode.setdefault(difference.mode, []).append(difference)
        for first, *others in by_mode.values():
            yield from (f"  {line}" for line in str(first).splitlines())
            if others:
                yield f"    also: {', '.join(other.what for other in others)}"


# --- suites of cases ------------------------------------------------------------------------------


class Mismatch(AssertionError):
    """Something was not as it should be."""

    def __init__(self, difference: Deviation) -> None:
        self.difference = difference
        super().__init__(str(difference))


class Inapplicable(Exception):
    """A case that need not be passed, and why."""


class SuiteReport(msgspec.Struct, frozen=True):
    """The result of a conformance check: `assert report.ok, report`."""

    passed: tuple[str, ...]
    skipped: dict[str, str]
    """The cases that do not apply, and why."""
    failed: dict[str, str]
    """The cases that were not passed, and what was wrong."""

    @property
    def ok(self) -> bool:
        """Every case that applies was passed."""
        return bool(self.passed) and not self.failed

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [
            f"{'conforms' if self.ok else 'does not conform'}: {len(self.passed)} passed, "
            f"{len(self.failed)} failed, {len(self.skipped)} do not apply"
        ]
        for case, problem in self.failed.items():
            lines += [f"  failed   {case}", *(f"    {line}" for line in problem.splitlines())]
        for why in dict.fromkeys(self.skipped.values()):
            cases = [case for case, reason in self.skipped.items() if reason == why]
            lines += [f"  {why}:", *(f"    {case}" for case in cases)]
        return "\n".join(lines)


async def run_cases(cases: Mapping[str, Callable[[], Awaitable[str]]]) -> SuiteReport:
    """Check cases, by name. Each gives the reason why it does not apply, or nothing, or raises."""
    passed: list[str] = []
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name, check in cases.items():
        try:
            reason = await check()
        except Exception as error:
            failed[name] = str(error) or type(error).__name__
        else:
            if reason:
                skipped[name] = reason
            else:
                passed.append(name)
    return SuiteReport(tuple(passed), skipped, failed)
