"""What a back-test found: the values a report is made of."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from hookline.state import NO_USAGE, ToolCall, Usage

HookKey: TypeAlias = tuple[str, str]
"""The point, and the hook's name."""


class Latency(msgspec.Struct, frozen=True):
    """How long a hook took, in seconds."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class HookCount:
    """One hook."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.verdicts: Counter[str] = Counter()
        self.usage = NO_USAGE

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.seconds)


class HookCounts(defaultdict[HookKey, HookCount]):
    """Many hooks."""

    def __init__(self) -> None:
        super().__init__(HookCount)

    def count(
        self, key: HookKey, seconds: float, verdict: str, charged: Iterable[Usage] = ()
    ) -> None:
        """A hook was asked."""
        counted = self[key]
        counted.seconds.append(seconds)
        counted.verdicts[verdict] += 1
        for usage in charged:
            counted.usage = counted.usage + usage


def latency(seconds: Sequence[float]) -> Latency:
    """Mean, median, 95th percentile and the worst, by the nearest-rank method."""
    if not seconds:
        return Latency()
    ordered = sorted(seconds)

    def rank(share: float) -> float:
        return ordered[math.ceil(share * len(ordered)) - 1]

    return Latency(sum(ordered) / len(ordered), rank(0.5), rank(0.95), ordered[-1])


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A verdict that would be another one."""

    run: str
    step: int | None
    """Counted from zero, like `step` in the records; None before the first step."""
    point: str
    call: ToolCall | None = None
    """The call it is about, as the hooks are shown it."""
    old: str
    """The verdict on record: `proceed`, `change`, `ask`, `block`, `stop`, `failed`, or an evaluation."""
    new: str
    """The verdict now. `unknown` when what the hooks were shown is not on record."""
    hook: str
    """Whose word makes the difference: the hook that says it now, or the one that no longer says what it said."""
    why: str = ""
    old_hook: str = ""
    old_why: str = ""
    is_first: bool = True
    """The first change in its run. From there on the run might have gone another way than the record."""

    @property
    def about(self) -> str:
        """What it is about, in a few words: the call, or the point."""
        if self.call is None:
            return self.point
        args = ", ".join(
            f"{name}={msgspec.json.encode(value).decode()}"
            for name, value in self.call.args.items()
        )
        return f"{self.call.name}({args})"

    def __str__(self) -> str:
        step = f"step {self.step + 1}" if self.step is not None else "the start"
        why = f": {self.why}" if self.why else ""
        return f"{self.run}, {step}, {self.about}: {self.old} -> {self.new} by '{self.hook}'{why}"


class HookReport(msgspec.Struct, frozen=True, kw_only=True):
    """One hook: what it says now, and what it said then."""

    hook: str
    point: str
    tier: str
    status: str
    """`kept`, `removed`, or `added`: not on record, which is also so for one that was there and never asked."""
    shadow: bool = False
    calls: int = 0
    """How often it was asked in the back-test."""
    verdicts: dict[str, int] = {}
    latency: Latency = Latency()
    usage: Usage = NO_USAGE
    """What it charged the run for, asking a model itself."""
    recorded_calls: int = 0
    recorded_verdicts: dict[str, int] = {}
    recorded_latency: Latency = Latency()


class Unjudged(msgspec.Struct, frozen=True, kw_only=True):
    """Hooks that could not be asked, because the journal does not keep what they would be shown."""

    run: str
    step: int | None
    point: str
    call_id: str
    hooks: tuple[str, ...]


class Unfollowed(msgspec.Struct, frozen=True):
    """A run that could not be judged to its end, and why."""

    run: str
    why: str


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found."""

    runs: int = 0
    """How many runs were looked at, children not counted."""
    children: int = 0
    decisions: int = 0
    """How often the hooks were asked for a verdict."""
    calls: int = 0
    """How many tool calls they judged."""
    changes: tuple[Change, ...] = ()
    hooks: tuple[HookReport, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    unfollowed: tuple[Unfollowed, ...] = ()
    not_asked: tuple[str, ...] = ()
    """Commands, addresses and models that were not asked, and may have changed since: they say what is on record."""
    around: tuple[str, ...] = ()
    """Hooks around an action, which are not asked: the action is not done."""

    @property
    def ok(self) -> bool:
        """No verdict would change, and every run could be followed."""
        return not (self.changes or self.unfollowed)

    @property
    def exit_code(self) -> int:
        """For `sys.exit`: 0 when nothing would change, 1 when something would, 2 when a run could not be followed."""
        if self.unfollowed:
            return 2
        return 1 if self.changes else 0

    @property
    def changed_runs(self) -> tuple[str, ...]:
        """The runs in which something would change."""
        return tuple(dict.fromkeys(change.run for change in self.changes))

    @property
    def counts(self) -> dict[str, int]:
        """How often which verdict would become which: `{"proceed -> block": 3}`."""
        return dict(Counter(f"{change.old} -> {change.new}" for change in self.changes))
