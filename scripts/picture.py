"""Draw docs/timeline.svg: the journal of examples/first_agent.py as a timeline.

    .venv/bin/python scripts/picture.py

The run is real and its clock is a fake one, so the picture comes out the same every time.
"""

import runpy
import sys
from html import escape
from pathlib import Path
from typing import Any

from hookline.journal import Record, hooks_in
from hookline.testing import FakeClock

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "first_agent.py"
PICTURE = ROOT / "docs" / "timeline.svg"
PROMPT = "Clean up build/."
SECONDS = {"the model": 1.2, "list_files": 1.4, "delete": 2.4}  # on the fake clock

ROWS = (  # hook points, and between them the two things that take time
    "before_step",
    "the model",
    "before_tool_use",
    "the tools",
    "after_tool_use",
    "should_continue",
)
LEFT, TOP, ROW = 158, 74, 38  # where time begins, where the rows begin, how high one is
DOT, GAP, SECOND = 15, 9, 70  # how wide a hook, a pause and a second are
LETTER = 7  # how wide a letter is, about

STYLE = """\
    text { font: 14px ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
    .code { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
    .title { font-size: 16px; font-weight: 600; }
    .soft { fill: #59636e; }
    .card { fill: #ffffff; stroke: #d0d7de; }
    .step { fill: #f3f5f8; }
    .line { stroke: #d0d7de; }
    .model { fill: #d3e3fd; stroke: #4a7fd4; }
    .tool { fill: #c9efd9; stroke: #2f9461; }
    .hook { fill: #2f9461; }
    .unrun { fill: none; stroke: #cf222e; stroke-dasharray: 4 3; }
    .block { fill: #cf222e; }
    .cross { stroke: #ffffff; stroke-width: 2; stroke-linecap: round; }
    .no { fill: #b31d28; }
"""
DARK = """\
    text { fill: #e6edf3; }
    .soft { fill: #9198a1; }
    .card { fill: #0d1117; stroke: #3d444d; }
    .step { fill: #191f27; }
    .line { stroke: #3d444d; }
    .model { fill: #1b3358; stroke: #6ea3f5; }
    .tool { fill: #12402a; stroke: #4cc38a; }
    .hook { fill: #4cc38a; }
    .unrun { stroke: #ff6b6b; }
    .block { fill: #e5484d; }
    .no { fill: #ff8f8f; }
"""


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}", file=sys.stderr)


def picture() -> str:
    """The picture of the example's run."""
    return draw(journal())


def journal() -> list[Record]:
    """Run the example on a fake clock, on which models and tools take their time, and give its journal."""
    clock = FakeClock()

    async def think(ctx: Any, call_next: Any) -> Any:
        clock.advance(SECONDS["the model"])
        return await call_next(ctx)

    async def work(ctx: Any, call_next: Any) -> Any:
        clock.advance(SECONDS[ctx.tool_call.name])
        return await call_next(ctx)

    builder = runpy.run_path(str(EXAMPLE))["describe"]()
    agent = builder.with_clock(clock).around_inference(think).around_tool_use(work).build()
    return list(agent.run_sync(PROMPT).records)


def draw(records: list[Record]) -> str:
    """The journal as a drawing: one band per step, from left to right."""
    x = LEFT
    drawn: list[str] = []
    for number, step in enumerate(steps_of(records), start=1):
        band = Band(number, x)
        band.draw(step)
        drawn += band.drawn()
        x = round(band.x)
    return sheet(x + 20, [*drawn, *legend(x, records[-1])])


def steps_of(records: list[Any]) -> list[list[Any]]:
    """The records of each step, in order. The hooks before a step are part of it."""
    steps: list[list[Any]] = [[]]
    for record in records:
        if record.type in (
            "hook",
            "hooks",
            "step_started",
            "request",
            "response",
            "call",
            "tool_result",
        ):
            steps[-1].append(record)
        elif record.type == "step":
            steps[-1].append(record)
            steps.append([])
    return [step for step in steps if step]


class Band:
    """One step: a band with its hooks as dots and what takes time as bars."""

    def __init__(self, number: int, x: int) -> None:
        self.number = number
        self.left = x
        self.x = float(x)
        self.parts: list[str] = []

    def draw(self, step: list[Any]) -> None:
        """Go through the lifecycle once, from left to right."""
        asked, answered = (find(step, kind)[0] for kind in ("request", "response"))
        self.dots(step, "before_step")
        self.turn(answered, answered.at - asked.at)
        self.dots(step, "before_tool_use")
        self.calls(answered.calls, find(step, "call"), find(step, "tool_result"))
        self.dots(step, "after_tool_use")
        self.dots(step, "should_continue")
        self.x += GAP

    def dots(self, step: list[Any], point: str) -> None:
        """One dot for each hook that ran at a point; one that blocked says who it is, and why."""
        ran = [record for record in hooks_in(step) if record.point == point]
        self.x += GAP if ran else 0
        begin, y = self.x, middle(point)
        for record in ran:
            centre = self.x + DOT / 2
            self.parts += cross(centre, y) if record.verdict == "block" else [dot(centre, y)]
            self.x += DOT
            if record.verdict == "block":
                self.words(self.x + 6, y, record.reason)
                self.words(begin - 8 - LETTER * len(record.hook), y, record.hook)

    def words(self, x: float, y: float, words: str) -> None:
        """Words about a block, on a patch that hides the line of the row."""
        box = f'x="{x - 3:g}" y="{y - 10:g}" width="{LETTER * len(words) + 6:g}" height="20"'
        self.parts += [f'<rect class="step" {box}/>', text(x, y + 5, words, "no")]

    def turn(self, answer: Any, seconds: float) -> None:
        """What the model did with its turn."""
        count = len(answer.calls)
        words = f"{count} call{'s' * (count > 1)}" if count else "answer"
        self.x += GAP
        self.bar("model", middle("the model"), SECOND * seconds, words)
        self.x += SECOND * seconds

    def calls(self, made: Any, started: list[Any], settled: list[Any]) -> None:
        """The calls below each other: a bar for one that ran, an empty outline for one that did not."""
        begun = {record.call.id: record.at for record in started}
        took = [record.at - begun.get(record.result.call_id, record.at) for record in settled]
        longest = SECOND * max(took, default=0)
        self.x += GAP if longest else 0
        for line, (call, seconds) in enumerate(zip(made, took, strict=True)):
            y = middle("the tools") + ROW * line
            words = " ".join((call.name, *call.args.values()))
            ran = call.id in begun
            self.bar("tool" if ran else "unrun", y, SECOND * seconds if ran else longest, words)
        self.x += longest

    def bar(self, style: str, y: float, width: float, words: str) -> None:
        """A bar with words in it."""
        box = f'x="{self.x:g}" y="{y - 13:g}" width="{width:g}" height="26" rx="6"'
        self.parts.append(f'<rect class="{style}" {box}/>')
        self.parts.append(text(self.x + 9, y + 5, words, "" if style == "model" else "code"))

    def drawn(self) -> list[str]:
        """The band, and on it what happened."""
        width, height = self.x - self.left - 6, bottom() - TOP + 28
        band = f'<rect class="step" x="{self.left:g}" y="{TOP - 28}" width="{width:g}" height="{height}" rx="6"/>'
        lines = [
            f'<path class="line" d="M{self.left:g} {middle(row)}h{width:g}"/>'
            for row in ROWS
            if is_point(row)
        ]
        return [
            band,
            *lines,
            text(self.left + 9, TOP - 9, f"step {self.number}", "soft"),
            *self.parts,
        ]


def legend(width: float, last: Any) -> list[str]:
    """The names of the rows, the title, and what the dots mean."""
    y = bottom() + 32
    names = [text(20, middle(row) + 5, row, "code" if is_point(row) else "soft") for row in ROWS]
    return [
        text(20, 32, f"“{PROMPT}”", "title"),
        *names,
        dot(26, y - 5),
        text(38, y, "a hook let it pass", "soft"),
        *cross(192, y - 5),
        text(206, y, "a hook blocked it, and the model reads why", "soft"),
        text(width - 6, y, f"{last.status}: {last.reason}", "", ' text-anchor="end"'),
    ]


def sheet(width: float, parts: list[str]) -> str:
    """Everything on one card, which is light or dark as the reader likes it."""
    height = bottom() + 52
    said = "A run of three steps. A policy blocks one of two tool calls; the model reads why and answers."
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
    card = f'<rect class="card" x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="10"/>'
    style = f"<style>\n{STYLE}    @media (prefers-color-scheme: dark) {{\n{DARK}    }}\n  </style>"
    return "\n  ".join([head, f"<title>{said}</title>", style, card, *parts]) + "\n</svg>\n"


def middle(row: str) -> int:
    """The height of a row's middle. The tools have room for two calls below each other."""
    index = ROWS.index(row)
    return TOP + ROW * index + ROW // 2 + (ROW if index > ROWS.index("the tools") else 0)


def bottom() -> int:
    """Where the rows end."""
    return middle(ROWS[-1]) + ROW // 2


def is_point(row: str) -> bool:
    """Whether a row is a hook point."""
    return "_" in row


def find(step: list[Any], kind: str) -> list[Any]:
    """The records of one type."""
    return [record for record in step if record.type == kind]


def dot(x: float, y: float) -> str:
    """A hook that let things be."""
    return f'<circle class="hook" cx="{x:g}" cy="{y:g}" r="5"/>'


def cross(x: float, y: float) -> list[str]:
    """A hook that blocked."""
    return [
        f'<circle class="block" cx="{x:g}" cy="{y:g}" r="8"/>',
        f'<path class="cross" d="M{x - 3:g} {y - 3:g}l6 6m0 -6l-6 6"/>',
    ]


def text(x: float, y: float, words: str, style: str, more: str = "") -> str:
    """Words."""
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:g}" y="{y:g}"{more}>{escape(words)}</text>'


if __name__ == "__main__":
    main()
