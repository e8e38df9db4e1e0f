"""A back-test as text that fits a screen."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence

from hookline.playback.findings import Change, Findings, HookReport, Latency

_SIGNS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_SIGNS |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
"""Other people's words: what would steer a terminal is shown as a sign."""
WIDTH = 110
_MOST = 40
"""How many changes are shown one by one."""
_WIDEST = 34
"""How wide a column of words may get."""


def report_lines(report: Findings) -> Iterator[str]:
    """The report, line by line."""
    yield headline(report)
    if report.changes:
        yield ""
        rows = [_change(change) for change in report.changes[:_MOST]]
        yield from _table(("run", "step", "about", "was", "would be", "hook", "why"), rows)
        left = len(report.changes) - _MOST
        if left > 0:
            yield f"  ... and {left} more: report.changes has them all"
        counts = ", ".join(f"{count} {what}" for what, count in report.counts.items())
        yield f"  {counts}"
    hooks = [hook for hook in report.hooks if hook.calls or hook.status != "kept"]
    if hooks:
        yield ""
        titles = ("hook", "point", "status", "asked", "verdicts", "on record", "mean", "p95", "max")
        yield from _table(titles, [_hook(hook) for hook in hooks])
    notes = list(remarks(report))
    if notes:
        yield ""
        for note in notes:
            yield from textwrap.wrap(note, WIDTH, initial_indent="  ", subsequent_indent="    ")


def headline(report: Findings) -> str:
    """The report in one line."""
    looked_at = f"{_number(report.runs, 'run')}"
    if report.children:
        looked_at += f" with {_number(report.children, 'child run')}"
    looked_at += f", {_number(report.calls, 'call')}, {_number(report.decisions, 'decision')}"
    left_out = not_asked(report.not_asked)
    if not report.changes:
        return f"{looked_at}: no verdict would change{left_out}"
    changes, runs = _number(len(report.changes), "verdict"), len(report.changed_runs)
    return f"{looked_at}: {changes} would change, in {_number(runs, 'run')}{left_out}"


def not_asked(hooks: Sequence[str]) -> str:
    """The end of a first line that says which hooks were not started."""
    return f"; not asked: {', '.join(hooks)}" if hooks else ""


def remarks(report: Findings) -> Iterator[str]:
    """What else a reader has to know."""
    later = sum(not change.is_first for change in report.changes)
    if later:
        yield (
            f"{_number(later, 'change')} came after another one in the same run, which might have gone another way "
            "from there: each is about what is on record."
        )
    if report.unjudged:
        names = sorted({hook for each in report.unjudged for hook in each.hooks})
        yield (
            f"{_number(len(report.unjudged), 'time')} the journal does not keep what a hook was shown: "
            f"{', '.join(names)} answered from the record."
        )
    if report.not_asked:
        yield (
            f"not asked, because commands, addresses and models are not started: {', '.join(report.not_asked)}. They "
            "are new, or may have changed, and say what is on record. run_hooks=True and --run-hooks start them."
        )
    if report.around:
        yield f"not asked, because no action is done: {', '.join(report.around)}."
    for unfollowed in report.unfollowed:
        yield f"run {unfollowed.run}: {unfollowed.why}"


def _change(change: Change) -> tuple[str, ...]:
    step = str(change.step + 1) if change.step is not None else "-"
    return change.run, step, change.about, change.old, change.new, change.hook, change.why


def _hook(hook: HookReport) -> tuple[str, ...]:
    asked = hook.calls > 0
    return (
        hook.hook + (" (shadow)" if hook.shadow else ""),
        hook.point,
        hook.status,
        str(hook.calls) if asked or hook.status != "removed" else "-",
        verdicts(hook.verdicts),
        verdicts(hook.recorded_verdicts),
        *(_times(hook.latency) if asked else ("", "", "")),
    )


def verdicts(counts: dict[str, int]) -> str:
    """Verdicts and how often each was given."""
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "-"


def _times(took: Latency) -> tuple[str, str, str]:
    return duration(took.mean), duration(took.p95), duration(took.max)


def duration(seconds: float) -> str:
    """A time, in the unit it is best read in."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as they need to be, and words that are wrapped where they are not wide enough."""
    columns = list(zip(titles, *rows, strict=True))
    widths = [min(_WIDEST, max(map(len, column))) for column in columns]
    over = sum(widths) + 2 * len(widths) - WIDTH
    while over > 0 and max(widths) > 12:
        widest = widths.index(max(widths))
        cut = min(over, widths[widest] - 12, 4)
        widths[widest] -= cut
        over -= cut
    for row in (titles, tuple("-" * width for width in widths), *rows):
        cells = [textwrap.wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            yield ("  " + "  ".join(padded)).rstrip()


def visible(text: str) -> str:
    """Text in which control characters are signs, and half a character is a question mark."""
    return text.encode(errors="replace").decode().translate(_SIGNS)
