"""Where Hookline has to be, and whether it is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from book import Book
from candidates import BARE, HOOKLINE, Candidate


@dataclass(frozen=True)
class Goal:
    """A measurement and the number it must not exceed; without one it is shown for its own sake."""

    label: str
    measurement: str
    goal: float | None = None
    limit: float | None = None  # above the goal is a gap to report, above the limit is a fault
    at_least: bool = False  # a goal from below


GOALS = (
    Goal("step, no hooks: us", "step_us"),
    Goal("  x the bare loop", "step_x_bare", 5, limit=8),
    Goal("first hook at a point: us", "first_hook_us"),
    Goal("  x a bare step", "first_hook_x_bare"),
    Goal("one more async hook: us", "hook_us"),
    Goal("  x a bare step", "hook_x_bare", 0.12),
    Goal("one more sync hook: us", "sync_hook_us"),
    Goal("  x a bare step", "sync_hook_x_bare", 0.12),
    Goal("OpenTelemetry, no exporter: x a step", "idle_tracing_x_step", 1.05),
    Goal("  with an exporter, three spans: us more", "tracing_us"),
    Goal("step at N = 1,000: us", "late_step_us"),
    Goal("  x the bare loop there", "late_step_x_bare", 5, limit=8),
    Goal("  x a step at N = 10", "growth_1000", 1.1),
    Goal("  x, a hook drops with_metadata", "growth_1000_metadata", 1.1),
    Goal("  x, a hook drops with_user_message", "growth_1000_message", 1.1),
    Goal("step at N = 10,000: x a step at N = 10", "growth_10000", 1.1),
    Goal("  x, a hook drops with_metadata", "growth_10000_metadata", 1.1),
    Goal("  x, a hook drops with_user_message", "growth_10000_message", 1.1),
    Goal("1,000 agents x 10 steps: CPU s", "fleet_cpu_s", 0.6),
    Goal("  peak MB", "fleet_peak_mb", 100),
    Goal("100 parallel calls of 10 ms: ms", "parallel_ms", 15),
    Goal("agent object: KB", "agent_kb", 4),
    Goal("  building one: us", "build_us", 60),
    Goal("import: CPU s over bare Python", "import_s", 0.12),
    Goal("  and the first tool made", "first_tool_s"),
    Goal("  modules", "modules", 200),
    Goal("  distributions", "distributions", 6),
)
AHEAD = Goal("fastest peer's step: x Hookline's", "ahead_of_fastest_peer", 10, at_least=True)


@dataclass(frozen=True)
class Finding:
    """A goal beside what was measured."""

    goal: Goal
    bare: float | None
    value: float
    spread: tuple[float, float]
    verdict: str
    remark: str = ""

    def to_json(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "label": self.goal.label.strip(),
            "measurement": self.goal.measurement,
            "bare": self.bare,
            "value": self.value,
            "spread": list(self.spread),
            "goal": self.goal.goal,
            "limit": self.goal.limit,
            "verdict": self.verdict,
            "remark": self.remark,
        }


def findings(book: Book, candidates: list[Candidate]) -> Iterator[Finding]:
    """Every goal that was measured."""
    for goal in GOALS:
        series = book.series(HOOKLINE, goal.measurement)
        if series:
            bare = book.median(BARE.name, goal.measurement)
            yield Finding(goal, bare, series.median, series.spread, verdict(goal, series.median))
    yield from ahead(book, candidates)


def verdict(goal: Goal, value: float) -> str:
    """In one word."""
    if goal.goal is None:
        return ""
    if goal.at_least:
        return "ok" if value >= goal.goal else "under"
    if value <= goal.goal:
        return "ok"
    return "OVER LIMIT" if goal.limit is not None and value > goal.limit else "over"


def ahead(book: Book, candidates: list[Candidate]) -> Iterator[Finding]:
    """How far behind the fastest peer is, both as ratios to the bare loop that ran beside them."""
    own = book.median(HOOKLINE, "step_x_bare")
    peers = [
        (book.median(peer.name, "step_x_bare"), peer.name) for peer in candidates if peer.is_peer
    ]
    measured = [(ratio, name) for ratio, name in peers if ratio is not None]
    if own and measured:
        ratio, name = min(measured)
        lead = ratio / own
        yield Finding(AHEAD, None, lead, (lead, lead), verdict(AHEAD, lead), name)
