"""A run as a drawing: time from left to right, a row for each point with hooks, a dot for each hook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ErrorRaised,
    HookRan,
    Record,
    RequestSent,
    ResponseReceived,
)
from hookline.lifecycle import HookPoint
from hookline.pages.outline import Outline, StepOutline, kind_of
from hookline.pages.page import Markup, PageWriter, count, join
from hookline.redaction import Redactor
from hookline.state import ToolCall

MODEL, TOOLS = "the model", "the tools"
"""The two rows of what takes time. All others are hook points."""
_POINTS = tuple(point.value for point in HookPoint if not point.around)
_BEFORE_MODEL, _BEFORE_TOOLS = "before_inference", "permission_request"
_LEFT, _TOP, _ROW = 158, 74, 38  # where time begins, where the rows begin, how high one is
_DOT, _GAP = 15, 9  # how wide a hook and a pause are
_SECOND, _LONGEST_BAR = 70, 280  # how wide a second is; in a slow run, how wide the longest time
_WIDTH = 1220  # how wide a line of steps gets before the next one begins
_LETTER, _CODE = 7.2, 7.9  # how wide a letter is, about
_MOST_LETTERS, _MOST_REASON = 30, 44  # of a bar, and of what a hook says
_LEAST_TIME = 0.001  # seconds that are worth saying
_MOST_DOTS, _MOST_CALLS = 12, 12  # of one point in a row, and of calls below each other

STYLE = """\
    .timeline text { font: 14px ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
    .timeline .code { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
    .timeline .title { font-size: 16px; font-weight: 600; }
    .timeline .soft { fill: #59636e; }
    .timeline .card { fill: #ffffff; stroke: #d0d7de; }
    .timeline .step { fill: #f3f5f8; }
    .timeline .line { stroke: #d0d7de; }
    .timeline .model { fill: #d3e3fd; stroke: #4a7fd4; }
    .timeline .tool { fill: #c9efd9; stroke: #2f9461; }
    .timeline .error { fill: #ffd7d5; stroke: #cf222e; }
    .timeline .unrun { fill: none; stroke: #cf222e; stroke-dasharray: 4 3; }
    .timeline .wait { fill: #fff4d6; stroke: #b58100; }
    .timeline .passed { fill: #2f9461; }
    .timeline .changed { fill: #4a7fd4; }
    .timeline .allowed { fill: #2f9461; stroke: #1f2328; }
    .timeline .asked { fill: #b58100; }
    .timeline .blocked, .timeline .failed { fill: #cf222e; }
    .timeline .shadow { fill: none; stroke: #cf222e; stroke-width: 2; }
    .timeline .sign { stroke: #ffffff; stroke-width: 2; stroke-linecap: round; fill: none; }
    .timeline .no { fill: #b31d28; }
    .timeline .maybe { fill: #8a5a00; }
    .timeline .strong { font-weight: 600; }
"""
DARK = """\
    .timeline text { fill: #e6edf3; }
    .timeline .soft { fill: #9198a1; }
    .timeline .card { fill: #0d1117; stroke: #3d444d; }
    .timeline .step { fill: #191f27; }
    .timeline .line { stroke: #3d444d; }
    .timeline .model { fill: #1b3358; stroke: #6ea3f5; }
    .timeline .tool { fill: #12402a; stroke: #4cc38a; }
    .timeline .error { fill: #4a1a1d; stroke: #ff6b6b; }
    .timeline .unrun { stroke: #ff6b6b; }
    .timeline .wait { fill: #33270a; stroke: #e3b341; }
    .timeline .passed { fill: #4cc38a; }
    .timeline .changed { fill: #6ea3f5; }
    .timeline .allowed { fill: #4cc38a; stroke: #e6edf3; }
    .timeline .asked { fill: #c99a1a; }
    .timeline .blocked, .timeline .failed { fill: #e5484d; }
    .timeline .shadow { stroke: #ff6b6b; }
    .timeline .no { fill: #ff8f8f; }
    .timeline .maybe { fill: #e3b341; }
"""
LOOK = f"{STYLE}    @media (prefers-color-scheme: dark) {{\n{DARK}    }}\n"
_NO_LOOK = Markup()
_BARS = (RequestSent, ResponseReceived, ErrorRaised, CallAdmitted, CallSettled, ApprovalAsked)
"""The records that are drawn, or are the beginning of what is drawn."""
_SIGNS = {
    "blocked": "M{left:g} {top:g}l6 6m0 -6l-6 6",
    "failed": "M{x:g} {top:g}v4m0 3v0.1",
    "asked": "M{left:g} {top:g}a3 3 0 1 1 3 3.4m0 3v0.1",
}
_MEANINGS = {
    "passed": "a hook let it pass",
    "changed": "changed it",
    "allowed": "allowed it",
    "asked": "asked a person",
    "blocked": "a hook blocked it, and the model reads why",
    "failed": "a hook failed",
    "shadow": "in shadow: without effect",
}


def draw_run(records: Iterable[Record], *, redactor: Redactor | None = None) -> str:
    """A run as an SVG file of its own: hooks as dots, blocked calls and why, models and tools as bars."""
    writer = PageWriter(redactor)
    look = Markup(f"<style>\n{LOOK}  </style>")
    return f"{draw(writer, Outline(records), look)}\n"


def draw(writer: PageWriter, run: Outline, look: Markup = _NO_LOOK) -> Markup:
    """The drawing, as an element of a page that has its look, or with its own."""
    return Timeline(writer, run).draw(look)


class Timeline:
    """The drawing of a run: bands of steps in lines, as many as are needed."""

    def __init__(self, writer: PageWriter, run: Outline) -> None:
        self.writer, self.run = writer, run
        hooks = [hook for _, _, hook in run.hooks() if hook.point in _POINTS]
        self.rows = list(_rows({hook.point for hook in hooks}))
        self.kinds = {kind_of(hook) for hook in hooks}
        most = max((len(step.calls) for step in run.steps.values()), default=0)
        self.lanes = max(1, min(most, _MOST_CALLS + 1))
        said = f"{run.end}: {run.result.reason}" if run.result and run.result.reason else run.end
        self.ending = _short(writer.text(said), _MOST_REASON)
        longest = max(_times(run), default=0.0)
        self.second = min(_SECOND, _LONGEST_BAR / longest) if longest else _SECOND
        self.height = (
            self.middle(self.rows[-1])
            + _ROW // 2
            + (self.lanes - 1) * _ROW * (self.rows[-1] == TOOLS)
        )

    def draw(self, look: Markup) -> Markup:
        """All lines on one card, which is light or dark as the reader likes it."""
        e = self.writer.element
        lines = list(self._lines())
        width = max([*(bands[-1].x + 20 for bands in lines if bands), self._least_width()])
        pitch = self.height - _TOP + 48
        body: list[Markup] = []
        for number, bands in enumerate(lines):
            content = [*(band.markup() for band in bands), *self._names()]
            place = f"translate(0 {number * pitch:g})" if number else None
            body.append(e("g", join(content, "\n  "), transform=place))
        height = self.height + (len(lines) - 1) * pitch + 52
        card = e("rect", class_="card", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=10)
        legend = self._legend(width, height - 20)
        return e(
            "svg",
            Markup("\n  "),
            join([e("title", self._summary()), look, card, *body, *legend], "\n  "),
            Markup("\n"),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width:g} {height:g}",
            width=width,
            role="img",
            class_="timeline",
        )

    def _lines(self) -> Iterator[list[Band]]:
        """The bands, in lines. A step that does not fit begins the next line."""
        line: list[Band] = []
        for step, title, hooks in self._parts():
            band = Band(self, title, line[-1].x if line else _LEFT)
            band.fill(step, hooks)
            if line and band.x > _WIDTH:
                yield line
                line, band = [], Band(self, title, _LEFT)
                band.fill(step, hooks)
            line.append(band)
        yield line

    def _parts(self) -> Iterator[tuple[StepOutline | None, str, Sequence[HookRan]]]:
        """The steps, with what was before the first and after the last one."""
        before: Sequence[HookRan] = self.run.before
        if not self.run.steps and before:
            yield None, "start", before
        for step in self.run.steps.values():
            took = f" · {_time(step.seconds)}" if step.seconds >= 0.01 else ""
            yield step, f"step {step.index + 1}{took}", before
            before = ()
        if any(hook.point in _POINTS for hook in self.run.after):
            yield None, "end", self.run.after

    def middle(self, row: str) -> int:
        """The height of a row's middle. The tools have room for calls below each other."""
        index = self.rows.index(row)
        extra = (self.lanes - 1) * _ROW if index > self.rows.index(TOOLS) else 0
        return _TOP + _ROW * index + _ROW // 2 + extra

    def words(self, x: float, y: float, text: str, style: str = "", **more: object) -> Markup:
        """Words."""
        return self.writer.element("text", text, class_=style or None, x=x, y=y, **more)

    def mark(self, kind: str, x: float, y: float) -> Markup:
        """A hook, and what it did."""
        e = self.writer.element
        large = kind in _SIGNS
        dot = e("circle", class_=kind, cx=x, cy=y, r=8 if large else 5)
        if not large:
            return dot
        sign = _SIGNS[kind].format(x=x, left=x - 3, top=y - 3)
        return join([dot, e("path", class_="sign", d=sign)])

    def _names(self) -> list[Markup]:
        """The names of the rows."""
        return [
            self.words(20, self.middle(row) + 5, row, "code" if row in _POINTS else "soft")
            for row in self.rows
        ]

    def _legend(self, width: float, y: float) -> Iterator[Markup]:
        """The title, what the dots mean, and how the run ended."""
        run = self.run
        title = _short(self.writer.text(run.prompt or run.run_id), int(width / 10) - 6)
        yield self.words(20, 32, f"“{title}”", "title")
        for x, kind in self._meanings():
            yield self.mark(kind, x, y - 5)
            yield self.words(x + 13, y, _MEANINGS[kind], "soft")
        yield self.words(width - 26, y, self.ending, text_anchor="end")

    def _meanings(self) -> Iterator[tuple[float, str]]:
        """What the dots mean, and where that stands."""
        x = 26.0
        for kind, meaning in _MEANINGS.items():
            if kind in self.kinds:
                yield x, kind
                x += 34 + _LETTER * len(meaning)

    def _least_width(self) -> float:
        """The width that the legend needs."""
        last = max(
            (x + 34 + _LETTER * len(_MEANINGS[kind]) for x, kind in self._meanings()), default=26.0
        )
        return last + _LETTER * len(self.ending) + 26

    def _summary(self) -> str:
        """The drawing in words, for those who do not see it."""
        blocked = sum(call.is_kept_back for _, call in self.run.calls())
        held = f", {count(blocked, 'call')} blocked" if blocked else ""
        return f"A run: {count(len(self.run.steps), 'step')}{held}, {self.run.end}."


class Band:
    """One step: a band with its hooks as dots and what takes time as bars."""

    def __init__(self, timeline: Timeline, title: str, x: float) -> None:
        self.timeline, self.title = timeline, title
        self.left = self.x = float(round(x))
        self.parts: list[Markup] = []
        self._free: dict[str, float] = {}
        """Where a row is free again after words about a hook."""
        self._asked_at: float | None = None
        self._drawn: set[str] = set()
        self._edge = 0.0
        """Where the last bar has some room behind it."""

    def fill(self, step: StepOutline | None, before: Sequence[HookRan]) -> None:
        """Go through what happened once, from left to right."""
        self._hooks(before)
        waiting: list[HookRan] = []
        for event in step.events if step is not None else ():
            if isinstance(event, HookRan):
                if waiting and waiting[-1].point != event.point:
                    self._hooks(waiting)
                    waiting = []
                waiting.append(event)
                continue
            if isinstance(event, _BARS) and step is not None and not self._is_drawn(event):
                self._hooks(waiting)
                waiting = []
                self._bars(event, step)
        self._hooks(waiting)
        title = self.left + 18 + _LETTER * len(self.title)
        self.x = max(self.x, title, self._edge, *self._free.values()) + _GAP

    def _is_drawn(self, event: Record) -> bool:
        """The calls of a step are drawn together, at the first of them."""
        if isinstance(event, CallAdmitted):
            return event.call.id in self._drawn
        return isinstance(event, CallSettled) and event.result.call_id in self._drawn

    def _bars(self, event: Record, step: StepOutline) -> None:
        if isinstance(event, RequestSent):
            self._asked_at = event.at
        elif isinstance(event, ResponseReceived):
            words = count(len(event.calls), "call") if event.calls else "answer"
            self._turn("model", "discarded" if event.discarded else words, event.at)
        elif isinstance(event, ErrorRaised):
            if not event.call_id and self._asked_at is not None:
                self._turn("error", event.error.error_class if event.error else "error", event.at)
        elif isinstance(event, CallAdmitted | CallSettled):
            self._calls(step)
        elif isinstance(event, ApprovalAsked):
            self._wait(event, step)

    def _turn(self, style: str, words: str, at: float) -> None:
        """What a model did with its turn."""
        seconds = at - self._asked_at if self._asked_at is not None else 0.0
        self._asked_at = None
        self.x += _GAP
        width = self._width(words, seconds, _LETTER)
        self._bar(style, self.x, self.timeline.middle(MODEL), width, words, seconds)
        self.x += width

    def _calls(self, step: StepOutline) -> None:
        """The calls below each other: a bar for one that ran, an empty outline for one that did not."""
        shown = [call for call in step.calls.values() if call.call.id not in self._drawn]
        self._drawn |= {call.call.id for call in shown}
        self.x += _GAP
        begins = [call.started_at for call in shown if call.started_at is not None]
        first, end = min(begins, default=0.0), self.x
        for lane, call in enumerate(shown[:_MOST_CALLS]):
            words = _short(call_text(self.timeline.writer, call.call), _MOST_LETTERS)
            style = "unrun" if not call.has_run else "error" if call.is_bad else "tool"
            begin = self.x
            if call.started_at is not None:
                begin += min(self.timeline.second * (call.started_at - first), _LONGEST_BAR)
            width = self._width(words, call.seconds, _CODE)
            y = self.timeline.middle(TOOLS) + _ROW * lane
            self._bar(style, begin, y, width, words, call.seconds)
            end = max(end, begin + width)
        left = len(shown) - _MOST_CALLS
        if left > 0:
            y = self.timeline.middle(TOOLS) + _ROW * _MOST_CALLS + 5
            self.parts.append(self.timeline.words(self.x, y, f"and {left} more", "soft"))
        self.x = end

    def _wait(self, asked: ApprovalAsked, step: StepOutline) -> None:
        """The time until a person answered."""
        approval = asked.approval
        answer = next(
            (
                each
                for each in step.events
                if isinstance(each, ApprovalAnswered)
                and approval is not None
                and each.approval_id == approval.id
            ),
            None,
        )
        words = "waits for an answer"
        if answer is not None and answer.decision is not None:
            words = f"{answer.decision.answer.value} after {_time(answer.at - asked.at)}"
        self.x += _GAP
        width = 18 + _LETTER * len(words)
        self._bar("wait", self.x, self.timeline.middle(TOOLS), width, words, 0)
        self.x += width

    def _width(self, words: str, seconds: float, letter: float) -> float:
        took = 10 + (_LETTER + 0.8) * len(_time(seconds)) if seconds >= _LEAST_TIME else 0
        return max(self.timeline.second * seconds, math.ceil(22 + letter * len(words) + took))

    def _bar(
        self, style: str, x: float, y: float, width: float, words: str, seconds: float
    ) -> None:
        e = self.timeline.writer.element
        self._edge = max(self._edge, x + width + _GAP)
        self.parts.append(e("rect", class_=style, x=x, y=y - 13.0, width=width, height=26, rx=6))
        looks = "code" if y >= self.timeline.middle(TOOLS) and style != "wait" else ""
        self.parts.append(self.timeline.words(x + 9, y + 5.0, words, looks))
        if seconds >= _LEAST_TIME:
            self.parts.append(
                self.timeline.words(
                    x + width - 9, y + 5.0, _time(seconds), "soft", text_anchor="end"
                )
            )

    # --- hooks ----------------------------------------------------------------------------------------

    def _hooks(self, ran: Sequence[HookRan]) -> None:
        """One dot for each hook that ran; one that objected says who it is, and why."""
        for point in dict.fromkeys(hook.point for hook in ran if hook.point in _POINTS):
            self._dots(point, [hook for hook in ran if hook.point == point])

    def _dots(self, point: str, ran: Sequence[HookRan]) -> None:
        y = self.timeline.middle(point)
        self.x += _GAP
        x = max(self.x, self._free.get(point, 0.0))
        plain = 0
        for hook in ran:
            kind = kind_of(hook)
            x = max(x, self._free.get(point, 0.0))
            if kind in ("passed", "changed", "allowed"):
                plain += 1
                if plain > _MOST_DOTS:
                    continue
            self.parts.append(self.timeline.mark(kind, x + _DOT / 2, y))
            x += _DOT
            if kind in ("asked", "blocked", "failed", "shadow"):
                self._explain(point, x + 6, y, hook, "maybe" if kind == "asked" else "no")
        if plain > _MOST_DOTS:
            words = f"+{plain - _MOST_DOTS}"
            x = max(x, self._free.get(point, 0.0)) + 3
            self.parts.append(self.timeline.words(x, y + 5.0, words, "soft"))
            x += _LETTER * len(words) + 4
        self._edge = max(self._edge, x)
        self.x = max(self.x, min(x, self.x + _DOT * len(ran)))

    def _explain(self, point: str, x: float, y: float, hook: HookRan, style: str) -> None:
        """Words about a verdict, on a patch that hides the line of the row."""
        t = self.timeline
        name = _short(t.writer.text(hook.hook), _MOST_LETTERS)
        why = _short(t.writer.text(hook.reason), _MOST_REASON)
        width = (_LETTER + 1) * len(name) + _LETTER * len(why) + 12
        e = t.writer.element
        patch = e("rect", class_="step", x=x - 3, y=y - 10.0, width=width, height=20)
        words = e(
            "text", e("tspan", name, class_="strong"), f" {why}", class_=style, x=x, y=y + 5.0
        )
        self.parts += [patch, words]
        self._free[point] = x + width + 8

    def markup(self) -> Markup:
        """The band, and on it what happened."""
        t, e = self.timeline, self.timeline.writer.element
        width, height = self.x - self.left - 6, t.height - _TOP + 28
        band = e("rect", class_="step", x=self.left, y=_TOP - 28, width=width, height=height, rx=6)
        lines = [
            e("path", class_="line", d=f"M{self.left:g} {t.middle(row)}h{width:g}")
            for row in t.rows
            if row in _POINTS
        ]
        title = t.words(self.left + 9, _TOP - 9, self.title, "soft")
        return join([band, *lines, title, *self.parts], "\n  ")


def call_text(writer: PageWriter, call: ToolCall) -> str:
    """A call in a few words: its name, and its arguments without those that are switched off."""
    values = writer.values(call.args).values()
    return " ".join((call.name, *(each for each in values if each not in ("", "null", "false"))))


def _rows(points: set[str]) -> Iterator[str]:
    """The points with hooks, in the order of the lifecycle, and between them what takes time."""
    for point in _POINTS:
        if point in points:
            yield point
        if point == _BEFORE_MODEL:
            yield MODEL
        if point == _BEFORE_TOOLS:
            yield TOOLS


def _times(run: Outline) -> Iterator[float]:
    """How long each model and each tool took."""
    for step in run.steps.values():
        asked: float | None = None
        for event in step.events:
            if isinstance(event, RequestSent):
                asked = event.at
            elif isinstance(event, ResponseReceived | ErrorRaised) and asked is not None:
                yield event.at - asked
                asked = None
        yield from (call.seconds for call in step.calls.values())


def _time(seconds: float) -> str:
    """A time in few letters."""
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _short(text: str, most: int) -> str:
    """One line of a text, of so many letters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
