"""A back-test as a value, as JSON, as text and as a page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from html_page import Page
from hypothesis import given
from hypothesis import strategies as st

from hookline import ToolCall
from hookline.pages.page import duration, visible
from hookline.playback import (
    BacktestReport,
    Change,
    HookReport,
    Latency,
    UnfollowedRun,
    UnjudgedHooks,
)
from hookline.playback.replays import Difference
from hookline.playback.report import WIDTH, HookCounts, latency
from hookline.state import Usage

NASTY = "<script>alert('x')</script> & \"quotes\""
HALF = "half a character: \ud800"


def change(**options: Any) -> Change:
    """A change."""
    given: dict[str, Any] = {
        "run": "run-1",
        "step": 1,
        "point": "before_tool_use",
        "call": ToolCall("call_1", "bash", {"command": "git push --force"}),
        "old": "proceed",
        "new": "block",
        "hook": "no-force",
        "why": "it rewrites what others have",
    }
    return Change(**{**given, **options})


def hook(**options: Any) -> HookReport:
    """A hook."""
    given: dict[str, Any] = {"hook": "no-force", "point": "before_tool_use", "tier": "policy"}
    took = Latency(0.000012, 0.00001, 0.0032, 1.5)
    counted = {"calls": 3, "verdicts": {"proceed": 2, "block": 1}, "latency": took}
    return HookReport(**{**given, "status": "added", **counted, **options})


def full() -> BacktestReport:
    """A report with everything in it."""
    return BacktestReport(
        runs=2,
        children=1,
        decisions=9,
        calls=3,
        changes=(
            change(),
            change(is_first=False, run="run-2", call=None, point="stop", step=None, hook=NASTY),
            change(call=ToolCall("c", NASTY, {"text": NASTY, "list": [1, None]}), why=NASTY),
        ),
        hooks=(
            hook(usage=Usage(output_tokens=7)),
            hook(status="removed", calls=0, verdicts={}, recorded_verdicts={"block": 1}),
            hook(status="kept", hook="kept", calls=0, shadow=True),
        ),
        unjudged=(UnjudgedHooks(run="r", step=0, point="output", call_id="", hooks=("redact",)),),
        unfollowed=(
            UnfollowedRun("run-3", "its beginning is missing"),
            UnfollowedRun("run-4", HALF),
        ),
        around=("timer",),
    )


@pytest.mark.parametrize(
    ("report", "ok", "code"),
    [
        (BacktestReport(), True, 0),
        (BacktestReport(changes=(change(),)), False, 1),
        (BacktestReport(unfollowed=(UnfollowedRun("r", "torn"),)), False, 2),
        (BacktestReport(changes=(change(),), unfollowed=(UnfollowedRun("r", "torn"),)), False, 2),
        (BacktestReport(unjudged=full().unjudged), True, 0),
    ],
)
def test_the_exit_code_is_for_builds(report: BacktestReport, ok: bool, code: int) -> None:
    """Nothing changes; something does; not everything could be judged."""
    assert (report.ok, report.exit_code) == (ok, code)


def test_a_report_is_json() -> None:
    """Versioned, with everything in it."""
    report = json.loads(full().to_json())
    assert (report["format"], report["version"], report["ok"]) == ("hookline.backtest", 1, False)
    assert report["changes"][0] == {
        "run": "run-1",
        "step": 1,
        "point": "before_tool_use",
        "call": {"id": "call_1", "name": "bash", "args": {"command": "git push --force"}},
        "old": "proceed",
        "new": "block",
        "hook": "no-force",
        "why": "it rewrites what others have",
    }
    assert report["counts"] == {"proceed -> block": 3}
    assert report["hooks"][0]["latency"]["max"] == 1.5
    assert report["unfollowed"][0] == {"run": "run-3", "why": "its beginning is missing"}


def test_a_change_is_one_line() -> None:
    """Where, about what, from what to what, and why."""
    assert str(change()) == (
        'run-1, step 2, bash(command="git push --force"): proceed -> block by '
        "'no-force': it rewrites what others have"
    )


def test_a_report_is_a_table_that_fits_a_screen() -> None:
    """Changes first, then the hooks, then what has to be read with them."""
    lines = str(full()).splitlines()
    assert lines[0] == (
        "2 runs with 1 child run, 3 calls, 9 decisions: 3 verdicts would change, in 2 runs"
    )
    assert max(map(len, lines)) <= WIDTH
    assert "  3 proceed -> block" in lines
    text = str(full())
    for words in ("12 us", "3.2 ms", "1.50 s", "removed", "not asked", "run run-3: its beginning"):
        assert words in text
    assert "kept" not in text  # it only says what it said
    many = BacktestReport(changes=(change(),) * 50)
    assert "... and 10 more: report.changes has them all" in str(many)
    assert str(BacktestReport(runs=1)) == "1 run, 0 calls, 0 decisions: no verdict would change"


@pytest.mark.parametrize("width", [60, 80, 99, 100, 200])
def test_a_report_fits_the_width_it_is_given(width: int) -> None:
    """Where there is little room, a change is a sentence, and a hook has no times."""
    text = full().to_text(width)
    assert max(map(len, text.splitlines())) <= width
    assert ("1.50 s" in text) == (width >= 100)
    assert ("proceed -> block by 'no-force'" in " ".join(text.split())) == (width < 100)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0 us"), (0.0009, "900 us"), (0.05, "50.0 ms"), (75.0, "75.00 s")]
)
def test_times_are_shown_in_a_unit_that_fits(seconds: float, text: str) -> None:
    """Microseconds, milliseconds or seconds."""
    assert duration(seconds) == text


def test_a_page_is_whole_and_holds_no_markup_of_the_record() -> None:
    """Every tag is closed, and what was recorded is text, whatever it is."""
    made = full().to_html()
    made.encode()
    page = Page(made)
    assert page.open == []
    assert "script" not in [tag for tag, _ in page.tags]
    assert page.text.count("<script>alert('x')</script>") >= 3
    assert "3 verdicts would change" in page.text
    for words in ("run-1", "git push --force", "no-force", "its beginning is missing", "1.50 s"):
        assert words in page.text


def test_a_page_needs_nothing_else_and_can_be_read_by_everyone() -> None:
    """No address is fetched; tables have captions and heads, and the language is declared."""
    page = Page(full().to_html())
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {"src", "href", "onclick", "style"} & names
    assert "url(" not in full().to_html()
    tags = [tag for tag, _ in page.tags]
    assert ("html", {"lang": "en"}) in page.tags
    assert tags.count("table") == tags.count("caption") == tags.count("thead") == 2
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    assert tags.count("h1") == tags.count("main") == tags.count("title") == 1


def test_a_page_about_nothing_says_so() -> None:
    """Green, and short."""
    page = Page(BacktestReport(runs=3).to_html())
    assert "nothing would change" in page.text
    assert "table" not in [tag for tag, _ in page.tags]


# --- findings -----------------------------------------------------------------------------------


times = st.lists(st.floats(0, 100), min_size=1)


@given(seconds=times)
def test_latencies_are_among_the_times_and_in_order(seconds: list[float]) -> None:
    """The percentiles are times that were measured; half, and 95 in a hundred, were no slower."""
    took = latency(seconds)
    assert took.p50 in seconds
    assert took.p95 in seconds
    assert min(seconds) <= took.p50 <= took.p95 <= took.max == max(seconds)
    assert took.mean == pytest.approx(sum(seconds) / len(seconds))
    for share, limit in ((0.5, took.p50), (0.95, took.p95)):
        assert sum(each <= limit for each in seconds) >= share * len(seconds)


def test_nothing_took_no_time() -> None:
    """A hook that was never asked has no latency."""
    assert latency([]) == Latency(0, 0, 0, 0)


def test_a_tally_adds_up() -> None:
    """Calls, verdicts and what was charged, by point and hook."""
    counts = HookCounts()
    counts.count(("stop", "a"), 1.0, "proceed", [Usage(output_tokens=1), Usage(input_tokens=2)])
    counts.count(("stop", "a"), 2.0, "block")
    counts.count(("output", "a"), 2.0, "block")
    counted = counts["stop", "a"]
    assert (counted.calls, dict(counted.verdicts)) == (2, {"proceed": 1, "block": 1})
    assert counted.usage.total_tokens == 3


# --- text ---------------------------------------------------------------------------------------


def test_what_would_steer_a_terminal_is_a_sign() -> None:
    """Text and layout stay as they are."""
    assert visible("a\tb\n\x1b[2J\x00\x7f\x9b é") == "a\tb\n␛[2J␀␡\ufffd é"
    assert visible("half \ud800") == "half ?"


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    """But for the ends of lines, and tabs."""
    shown = visible(text)
    assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in shown if sign not in "\n\t")


def test_a_difference_in_a_long_text_is_shown_with_the_lines_around_it() -> None:
    """Two hundred equal lines say nothing."""
    then = [f"line {number}" for number in range(200)]
    now = [*then[:100], "another", *then[101:]]
    shown = Difference("run", 0, "the result", "\n".join(then), "\n".join(now)).diff.splitlines()
    assert shown == [
        "...",
        *(f"  line {number}" for number in (97, 98, 99)),
        "- line 100",
        "+ another",
        *(f"  line {number}" for number in (101, 102, 103)),
    ]
