"""Points about parcels and hooks that judge them, for the tests of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hookline.hooks import (
    Context,
    Entry,
    HookAnswer,
    HookNames,
    Point,
    Result,
)
from hookline.lifecycle import HookStack


class Parcel(Context, frozen=True, kw_only=True):
    weight: int = 1
    note: str = ""
    sender: str = "ann"

    def weighing(self, weight: int) -> Parcel:
        return msgspec.structs.replace(self, weight=weight)

    def noted(self, text: str) -> Parcel:
        return msgspec.structs.replace(self, note=self.note + text)


ALL_WORDS = frozenset({"block", "stop", "ask", "allow"})


CHANGES = frozenset({"weight", "note"})


GATE = Point(
    "gate",
    Parcel,
    changes=CHANGES,
    answers=((str, Parcel.noted),),
    blocks="the parcel stays",
    failure_blocks=True,
    verdicts=ALL_WORDS,
)


DOOR = Point("door", Parcel, changes=CHANGES, blocks="the door stays shut")


WATCH = Point("watch", Parcel, changes=CHANGES, verdicts=frozenset())


Hook = Callable[[Any], Any]


def stacked(point: Point[Any], *hooks: Hook | tuple[Hook, dict[str, Any]]) -> HookStack:
    """A stack of hooks at one point; a pair brings options."""
    stack = HookStack()
    for hook in hooks:
        function, options = hook if isinstance(hook, tuple) else (hook, {})
        stack = stack.with_hook(function, point, **options)
    return stack


async def decide(
    *hooks: Hook | tuple[Hook, dict[str, Any]], point: Point[Any] = GATE
) -> Result[Parcel]:
    """What hooks decide about a parcel."""
    return await stacked(point, *hooks).process(Parcel(point=point))


def says(answer: Any) -> Hook:
    """A hook that always gives this answer."""
    return lambda ctx: answer


def policy(hook: Hook, **options: Any) -> tuple[Hook, dict[str, Any]]:
    """A hook as a policy."""
    return hook, {"tier": "policy", **options}


def observer(hook: Hook, **options: Any) -> tuple[Hook, dict[str, Any]]:
    """A hook as an observer."""
    return hook, {"tier": "observer", **options}


class Notes:
    """A hook log that keeps its entries."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []
        self.answers: list[HookAnswer] = []
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1
        return self.now

    def report_context(self, ctx: Any) -> None:
        self.last = ctx

    def report_passed(self, names: HookNames, readings: Sequence[float]) -> None:
        assert len(readings) == len(names.hooks) + 1
        self.entries += [(hook, "ran") for hook in names.hooks]

    def report_appended(self, entry: Entry, started: float, ctx: Any) -> float:
        self.entries.append((entry.name, "appended"))
        return self.monotonic()

    def report_answer(self, entry: Entry, started: float, answer: HookAnswer) -> float:
        word = "failed" if answer.error is not None else answer.kind.label
        self.entries.append((entry.name, word))
        self.answers.append(answer)
        return self.monotonic()
