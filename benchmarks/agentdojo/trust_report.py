"""What came of all pairs, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

TITLES = (
    "defence",
    "asks are answered by",
    "attacks that succeed",
    "of those that need a call",
    "tasks done, no attack",
    "tasks done under attack",
    "asks per task",
    "asks per attacked task",
)


@dataclass(frozen=True)
class Played:
    """One task under one defence, with an injection or without."""

    defence: str
    answers: str
    suite: str
    user_task: str
    injection_task: str | None
    needs_call: bool
    """Whether the injection wants anything done; one only wants something said, which no tool call gives away."""
    useful: bool
    attacked: bool
    asked: int


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    part: int
    whole: int

    def __str__(self) -> str:
        return f"{self.part / self.whole:.1%} ({self.part} of {self.whole})" if self.whole else "-"


def _share(values: Iterable[bool]) -> Share:
    counted = list(values)
    return Share(sum(counted), len(counted))


@dataclass(frozen=True)
class Row:
    """A defence, and who answers when it asks."""

    defence: str
    answers: str
    attacks: Share
    attacks_with_calls: Share
    honest: Share
    attacked: Share
    asks: float
    asks_attacked: float

    def cells(self) -> tuple[str, ...]:
        """The row as it is shown."""
        shares = (self.attacks, self.attacks_with_calls, self.honest, self.attacked)
        asks = (f"{self.asks:.2f}", f"{self.asks_attacked:.2f}")
        return (self.defence, self.answers, *map(str, shares), *asks)


def rows(played: Sequence[Played]) -> list[Row]:
    """A row for each defence and whoever answers, in the order they were played in."""
    kinds = dict.fromkeys((each.defence, each.answers) for each in played)
    return [
        _row(defence, answers, [p for p in played if (p.defence, p.answers) == (defence, answers)])
        for defence, answers in kinds
    ]


def _row(defence: str, answers: str, played: list[Played]) -> Row:
    honest = [each for each in played if each.injection_task is None]
    pairs = [each for each in played if each.injection_task is not None]
    return Row(
        defence,
        answers,
        _share(each.attacked for each in pairs),
        _share(each.attacked for each in pairs if each.needs_call),
        _share(each.useful for each in honest),
        _share(each.useful for each in pairs),
        sum(each.asked for each in honest) / max(len(honest), 1),
        sum(each.asked for each in pairs) / max(len(pairs), 1),
    )


def table(made: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [TITLES, tuple("---" for _ in TITLES), *(row.cells() for row in made)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def as_json(made: Sequence[Row], played: Sequence[Played]) -> dict[str, Any]:
    """The rows, and every single task behind them."""
    return {"rows": [asdict(row) for row in made], "played": [asdict(each) for each in played]}
