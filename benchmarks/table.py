"""The numbers as a person reads them: Hookline against its goals, then everyone side by side."""

from __future__ import annotations

from collections.abc import Iterable

from book import Book
from candidates import BARE, Candidate
from goals import Finding

# heading, measurement, the part its failure is noted under
COLUMNS = (
    ("us/step", "step_us", "step"),
    ("x bare", "step_x_bare", "step"),
    ("us/hook", "hook_us", "step"),
    ("N=1000/N=10", "growth_1000", "growth"),
    ("fleet CPU s", "fleet_cpu_s", "fleet"),
    ("peak MB", "fleet_peak_mb", "fleet"),
    ("100 calls ms", "parallel_ms", "parallel"),
    ("KB/agent", "agent_kb", "build"),
    ("build us", "build_us", "build"),
    ("import s", "import_s", "import"),
    ("modules", "modules", "import"),
    ("dists", "distributions", "import"),
)


def number(value: float | None) -> str:
    """Three digits that matter."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"


def aligned(rows: list[list[str]]) -> str:
    """Columns as wide as they must be; the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        first, *rest = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(len(first)), *rest]).rstrip())
    return "\n".join(lines)


def goals_table(found: Iterable[Finding]) -> str:
    """Hookline against its goals."""
    rows = [["", "bare loop", "hookline", "half of the rounds", "goal", ""]]
    for finding in found:
        low, high = finding.spread
        spread = f"{number(low)} .. {number(high)}" if low != high else ""
        label = finding.goal.label + (f" ({finding.remark})" if finding.remark else "")
        numbers = [number(finding.bare), number(finding.value)]
        rows.append([label, *numbers, spread, goal_text(finding), finding.verdict])
    return aligned(rows)


def goal_text(finding: Finding) -> str:
    """The goal in words."""
    goal = finding.goal
    if goal.goal is None:
        return ""
    if goal.at_least:
        return f">= {number(goal.goal)}"
    return f"<= {number(goal.goal)}" + (f", never > {number(goal.limit)}" if goal.limit else "")


def peers_table(book: Book, candidates: list[Candidate]) -> str:
    """Everyone side by side; a column nobody was measured for is left out."""
    rows_of = [BARE, *candidates]
    columns = [c for c in COLUMNS if any(book.series(row.name, c[1]) for row in rows_of)]
    rows = [["", *(heading for heading, _, _ in columns)]]
    for candidate in rows_of:
        cells = [cell(book, candidate.name, measurement, part) for _, measurement, part in columns]
        rows.append([f"{candidate.name} {candidate.version}".strip(), *cells])
    return aligned(rows)


def cell(book: Book, name: str, measurement: str, part: str) -> str:
    """A number, or the word for its absence."""
    series = book.series(name, measurement)
    if series is None:
        return "fails" if book.failed(name, part) else "-"
    low, high = series.spread
    # A difference whose quartiles lie around zero is noise; say how large it could be instead.
    return number(series.median) if low > 0 else f"< {number(max(high, 0.0))}"


def notes(book: Book, candidates: list[Candidate], skipped: list[str]) -> list[str]:
    """What the tables cannot say."""
    lines = [f"{name}, {part}: {text}" for (name, part), text in book.failures.items()]
    for candidate in candidates:
        agents = book.median(candidate.name, "fleet_agents")
        if agents and agents < 1_000:
            lines.append(f"{candidate.name}, fleet: {agents:.0f} agents instead of 1,000")
    return lines + skipped
