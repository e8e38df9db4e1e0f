"""What a conformance check found, in words a hook's author can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
