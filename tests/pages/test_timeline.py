"""The timeline of a run, as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from shown_runs import ShownRuns

from hookline.pages import draw_run
from hookline.testing import call, calls, say

SVG = "{http://www.w3.org/2000/svg}"
STYLES = {  # run -> how many of which mark or bar there are
    "blocked": {"blocked": 2, "unrun": 1, "tool": 1, "model": 2},
    "parallel": {"tool": 4, "error": 1, "model": 2},
    "failing-hook": {"failed": 2, "shadow": 2, "changed": 2, "unrun": 1, "tool": 1},
    "paused": {"asked": 2, "wait": 1, "tool": 0},
    "agreed": {"asked": 3, "wait": 1, "tool": 2},
    "refused-by-person": {"asked": 3, "wait": 1, "tool": 1, "unrun": 1},
    "failed": {"error": 3, "model": 1},
    "refused": {"blocked": 2, "model": 0},
}
"""A mark stands once more in the legend."""


def read(picture: str) -> tuple[list[str], list[str]]:
    """The texts of a picture, and the styles of its shapes."""
    root = ElementTree.fromstring(picture)
    words = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    shapes = [each for kind in ("rect", "circle") for each in root.iter(f"{SVG}{kind}")]
    return words, [each.get("class") or "" for each in shapes]


@pytest.mark.parametrize("run_id", STYLES)
def test_the_picture_shows_what_hooks_and_people_did(runs: ShownRuns, run_id: str) -> None:
    """A mark for each verdict, an outline for a call that did not run, a bar for the time a person took."""
    _, styles = read(draw_run(runs.records(run_id)))
    assert {style: styles.count(style) for style in STYLES[run_id]} == STYLES[run_id]


def test_the_picture_says_who_blocked_and_why(runs: ShownRuns) -> None:
    """The names of hooks and their reasons, what a person answered, and how the run ended."""
    blocked, _ = read(draw_run(runs.records("blocked")))
    assert {"no-notes notes.txt stays", "delete notes.txt", "“Clean up.”"} <= set(blocked)
    assert "completed: the last answer calls no tool" in blocked
    assert "allow after 60 min" in read(draw_run(runs.records("agreed")))[0]
    assert "waits for an answer" in read(draw_run(runs.records("paused")))[0]
    assert "start" in read(draw_run(runs.records("refused")))[0]


def test_many_steps_are_many_lines(runs: ShownRuns) -> None:
    """The picture grows downwards, and every line has the names of its rows."""
    many = runs.run(runs.builder(*[call("read", path="a")] * 12, say("Done.")), "Go.", "lines")
    picture = draw_run(runs.records(many))
    root = ElementTree.fromstring(picture)
    width, height = map(float, (root.get("viewBox") or "").split()[2:])
    assert width < 1300
    assert height > 1000
    words, _ = read(picture)
    assert words.count("the model") == words.count("should_continue") > 2
    assert [word for word in words if word.startswith("step ")][-1] == "step 13 · 1.3 s"


def test_many_calls_and_many_hooks_are_counted(runs: ShownRuns) -> None:
    """A step with forty calls, each with a hook, stays readable."""
    turn = calls(*(call("read", path=f"{number}.txt") for number in range(40)))
    builder: Any = runs.builder(turn, say("Done."))
    words, styles = read(draw_run(runs.records(runs.run(builder, "Read.", "forty"))))
    assert {"and 28 more", "+28"} <= set(words)
    assert styles.count("tool") == 12
