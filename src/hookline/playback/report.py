"""The report of a back-test: what was found, as values, as text that fits a screen, as JSON and as a page."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from hookline.inspection.explain import has_room, wrap_words
from hookline.pages.page import Markup, PageWriter, count, duration, visible
from hookline.redaction import Redactor
from hookline.state import NO_USAGE, ToolCall, Usage
from hookline.state.frozen import valid_text

# --- what was found -------------------------------------------------------------------------------


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


class UnjudgedHooks(msgspec.Struct, frozen=True, kw_only=True):
    """Hooks that could not be asked, because the journal does not keep what they would be shown."""

    run: str
    step: int | None
    point: str
    call_id: str
    hooks: tuple[str, ...]


class UnfollowedRun(msgspec.Struct, frozen=True):
    """A run that could not be judged to its end, and why."""

    run: str
    why: str


FORMAT, VERSION = "hookline.backtest", 1
WIDTH = 110
_LEAST = 100
"""The columns that tables with all of their columns need."""


class BacktestReport(msgspec.Struct, frozen=True, kw_only=True):
    """What other hooks would have said to recorded runs. `print(report)`, `report.to_html()`, `report.exit_code`."""

    runs: int = 0
    """How many runs were looked at, children not counted."""
    children: int = 0
    decisions: int = 0
    """How often the hooks were asked for a verdict."""
    calls: int = 0
    """How many tool calls they judged."""
    changes: tuple[Change, ...] = ()
    hooks: tuple[HookReport, ...] = ()
    unjudged: tuple[UnjudgedHooks, ...] = ()
    unfollowed: tuple[UnfollowedRun, ...] = ()
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

    def to_json(self) -> str:
        """Everything, as versioned JSON."""
        head: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "ok": self.ok,
            "exit_code": self.exit_code,
            "counts": self.counts,
        }
        # Half a character in someone's words is replaced.
        plain = valid_text(msgspec.to_builtins(self))
        return msgspec.json.encode({**head, **plain}).decode()

    def to_html(self, *, redactor: Redactor | None = None) -> str:
        """One page that needs nothing else: for a build's artefacts, or a colleague. Secrets are taken out of it."""
        return page_of(self, redactor)

    def to_text(self, width: int = WIDTH) -> str:
        """The report as text of so many columns, at least 60."""
        return visible("\n".join(report_lines(self, max(width, 60))))

    def __str__(self) -> str:
        return self.to_text()


# --- as text --------------------------------------------------------------------------------------


_MOST = 40
"""How many changes are shown one by one."""
_WIDEST = 34
"""How wide a column of words may get."""
Row: TypeAlias = tuple[str, ...]
_CHANGE = ("run", "step", "about", "was", "would be", "hook", "why")
_HOOK = ("hook", "point", "status", "asked", "verdicts", "on record", "mean", "p95", "max")


def report_lines(report: BacktestReport, width: int = WIDTH) -> Iterator[str]:
    """The report, line by line. Where there is little room, a change is a sentence, and a hook has no times."""
    is_wide = width >= _LEAST
    first = headline(report)
    yield from wrap_words(first, width, below="  ") if width < WIDTH else [first]
    if report.changes:
        yield ""
        shown = report.changes[:_MOST]
        if is_wide:
            yield from _table(_CHANGE, [_change(change) for change in shown], width)
        else:
            for change in shown:
                yield from _wrap(str(change), width)
        left = len(report.changes) - _MOST
        if left > 0:
            yield f"  ... and {left} more: report.changes has them all"
        counts = ", ".join(f"{number} {what}" for what, number in report.counts.items())
        yield f"  {counts}"
    hooks = [hook for hook in report.hooks if hook.calls or hook.status != "kept"]
    if hooks:
        yield ""
        wanted = len(_HOOK) if is_wide else _HOOK.index("on record")
        yield from _table(_HOOK[:wanted], [_hook(hook)[:wanted] for hook in hooks], width)
    notes = list(remarks(report))
    if notes:
        yield ""
        for note in notes:
            yield from _wrap(note, width)


def headline(report: BacktestReport) -> str:
    """The report in one line."""
    looked_at = f"{count(report.runs, 'run')}"
    if report.children:
        looked_at += f" with {count(report.children, 'child run')}"
    looked_at += f", {count(report.calls, 'call')}, {count(report.decisions, 'decision')}"
    left_out = not_asked(report.not_asked)
    if not report.changes:
        return f"{looked_at}: no verdict would change{left_out}"
    changes, runs = count(len(report.changes), "verdict"), len(report.changed_runs)
    return f"{looked_at}: {changes} would change, in {count(runs, 'run')}{left_out}"


def not_asked(hooks: Sequence[str]) -> str:
    """The end of a first line that says which hooks were not started."""
    return f"; not asked: {', '.join(hooks)}" if hooks else ""


def remarks(report: BacktestReport) -> Iterator[str]:
    """What else a reader has to know."""
    later = sum(not change.is_first for change in report.changes)
    if later:
        yield (
            f"{count(later, 'change')} came after another change in the same run. After the first change the run might "
            "have continued in another way; each change is about the recorded call."
        )
    if report.unjudged:
        names = sorted({hook for each in report.unjudged for hook in each.hooks})
        yield (
            f"{count(len(report.unjudged), 'time')} the journal does not have the input of a hook: "
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


def _change(change: Change) -> Row:
    step = str(change.step + 1) if change.step is not None else "-"
    return change.run, step, change.about, change.old, change.new, change.hook, change.why


def _hook(hook: HookReport) -> Row:
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
    return ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) or "-"


def _times(took: Latency) -> tuple[str, str, str]:
    return duration(took.mean), duration(took.p95), duration(took.max)


def _wrap(text: str, width: int) -> list[str]:
    return wrap_words(text, width, "  ", "    ")


def _table(titles: Row, rows: Sequence[Row], room: int) -> Iterator[str]:
    """Columns as wide as they need to be. Where there is less room, cells are wrapped, but a row whose words do not fit
    is a sentence."""
    columns = list(zip(titles, *rows, strict=True))
    widths = [min(_WIDEST, max(map(len, column))) for column in columns]
    words = [[len(word) for cell in column for word in cell.split()] for column in columns]
    least = [max((each for each in given if each <= _WIDEST), default=0) for given in words]
    for _ in range(sum(widths) + 2 * len(widths) - room):
        spare = [width - need for width, need in zip(widths, least, strict=True)]
        given = spare if max(spare) > 0 else widths
        widths[given.index(max(given))] -= 1
    for row in (titles, tuple("-" * width for width in widths), *rows):
        if not has_room(row, widths):
            said = (f"{title}: {cell}" for title, cell in zip(titles, row, strict=True) if cell)
            yield from _wrap("; ".join(said), room)
            continue
        cells = [wrap_words(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            yield ("  " + "  ".join(padded)).rstrip()


# --- as one page of HTML, which needs nothing else ------------------------------------------------


def page_of(report: BacktestReport, redactor: Redactor | None = None) -> str:
    """The page: the tables of the text, with all changes and hooks. Nothing that was recorded is taken as markup."""
    title = "nothing would change"
    if report.changes:
        title = f"{count(len(report.changes), 'verdict')} would change"
    elif not report.ok:
        title = "some runs could not be followed"
    counts = ", ".join(f"{number} {what}" for what, number in report.counts.items())
    writer = PageWriter(redactor)
    e = writer.element
    notes = [e("li", note) for note in remarks(report)]
    return writer.page(
        f"Back-test: {title}",
        e("h1", f"Back-test: {title}", class_="ok" if report.ok else "bad"),
        e("p", f"{headline(report)}."),
        writer.table(f"What would change: {counts}", _CHANGE, map(_change, report.changes)),
        writer.table("What each hook says now, and what it takes", _HOOK, map(_hook, report.hooks)),
        e("ul", *notes) if notes else Markup(),
    )
