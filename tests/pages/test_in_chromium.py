"""Pages and pictures in a browser: nothing of what was recorded runs, asks for anything, or breaks the page."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium
from shown_runs import HOSTILE, ShownRuns

from hookline import ToolCall
from hookline.pages import draw_run, run_page
from hookline.pages.page import visible
from hookline.playback import BacktestReport, Change


def write(path: Path, text: str) -> Path:
    """The file, with this text."""
    path.write_text(text, encoding="utf-8")
    return path


def is_untouched(browser: Chromium, path: Path, title: str) -> None:
    """The page has its own title, asked for itself alone, and Chromium has nothing to say about it."""
    assert browser.evaluate("document.title") == title
    assert browser.requests == [path.as_uri()]
    assert browser.logged == []
    counts = "['script', 'img', 'iframe', 'base', 'form'].map(n => document.getElementsByTagName(n).length)"
    assert browser.evaluate(counts) == [0, 0, 0, 0, 0]


def test_hostile_output_is_text(browser: Chromium, runs: ShownRuns, page_file: Path) -> None:
    """In a browser, too: in the page of a run, in its picture alone and in the page of a back-test."""
    page = write(page_file, run_page(runs.records("hostile")))
    browser.open(page)
    title = browser.evaluate("document.title")
    assert title.startswith("completed: </pre><script>document.title = 'stolen'")
    is_untouched(browser, page, title)
    pres = browser.evaluate("[...document.querySelectorAll('pre')].map(each => each.textContent)")
    assert pres.count(visible(HOSTILE)) >= 4
    assert browser.evaluate("getComputedStyle(document.querySelector('h1')).display") == "block"

    picture = write(page_file.with_suffix(".svg"), draw_run(runs.records("hostile")))
    browser.open(picture)
    assert browser.requests == [picture.as_uri()]
    assert browser.evaluate("document.getElementsByTagName('script').length") == 0
    assert "<b>bold</b>" in browser.evaluate("document.documentElement.textContent")

    call = ToolCall("c", HOSTILE, {"text": HOSTILE})
    change = Change(
        run=HOSTILE,
        step=1,
        point="stop",
        call=call,
        old="proceed",
        new="block",
        hook=HOSTILE,
        why=HOSTILE,
    )
    report = write(page_file, BacktestReport(runs=1, changes=(change,)).to_html())
    browser.open(report)
    is_untouched(browser, report, "Back-test: 1 verdict would change")
    assert visible(HOSTILE) in browser.evaluate("document.querySelector('td').textContent")


def test_the_policy_stops_what_would_be_markup(
    browser: Chromium, runs: ShownRuns, page_file: Path
) -> None:
    """If a text came onto the page unescaped, its scripts would not run and nothing would be asked for."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        injected = (
            f"<script>document.title = 'stolen'; fetch('{address}/a')</script>"
            f"<img src='{address}/b' onerror=\"document.title = 'stolen'\"><style>h1 {{ display: none }}</style>"
            f"<link rel=stylesheet href='{address}/c'><iframe src='{address}/d'></iframe>"
            f"<script src='{address}/e'></script><base href='{address}/'><object data='{address}/f'></object>"
            f"<h2 style='display: none' onclick='alert(1)'>x</h2><video src='{address}/g'></video>"
        )
        made = run_page(runs.records("blocked"))
        browser.open(write(page_file, made.replace("<main>", f"<main>{injected}", 1)))
        assert browser.evaluate("document.title") == "completed: Clean up."
        assert browser.evaluate("getComputedStyle(document.querySelector('h1')).display") == "block"
        assert browser.evaluate("document.baseURI") == page_file.as_uri()
        assert len([line for line in browser.logged if "Content Security Policy" in line]) >= 7
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("run_id", ["blocked", "parallel", "family", "paused", "hostile"])
def test_a_page_fits_a_telephone_and_a_screen_in_light_and_dark(
    browser: Chromium, runs: ShownRuns, page_file: Path, run_id: str
) -> None:
    """It is never wider than the window; calls of a step stand side by side where there is room."""
    page = write(page_file, run_page(runs.records(run_id), children=runs.records))
    looks: set[Any] = set()
    for width, dark in ((360, False), (360, True), (1280, False), (1280, True)):
        browser.open(page, dark=dark, width=width)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        back = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        ink = browser.evaluate("getComputedStyle(document.querySelector('.timeline text')).fill")
        looks.add((dark, back, ink))
        places = (
            "document.querySelectorAll('section > div > .step-card:first-of-type > .calls > .call')"
        )
        tops = browser.evaluate(f"[...{places}].map(each => each.getBoundingClientRect().top)")
        if len(tops) > 1:
            assert (tops[0] == tops[1]) == (width > 1000)
    assert len(looks) == 2


def test_no_word_of_a_table_is_broken(browser: Chromium, page_file: Path) -> None:
    """Short cells have one line, long ones are wrapped and not narrow, and the page is as wide as a telephone."""
    call = ToolCall("c", "bash", {"command": "x" * 300})
    change = Change(
        run="1117-1847-141f59",
        step=1,
        point="before_tool_use",
        call=call,
        old="block",
        new="proceed",
        hook="no_rm",
        why="word " * 40,
    )
    page = write(page_file, BacktestReport(runs=1, changes=(change,)).to_html())
    for width in (360, 1280):
        browser.open(page, width=width)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        widths = "[...document.querySelectorAll('td.long')].map(each => each.clientWidth)"
        assert min(browser.evaluate(widths)) > 150
        lines = browser.evaluate(
            "(() => { const range = document.createRange(); return [...document.querySelectorAll('td:not(.long)')]"
            ".map(td => { range.selectNodeContents(td); return range.getClientRects().length; }); })()"
        )
        assert set(lines) == {1}


def test_ten_thousand_records_open(browser: Chromium, runs: ShownRuns, page_file: Path) -> None:
    """All steps are there, the last one can be reached, and nothing is asked for."""
    records = runs.records(runs.many(840))
    assert len(records) > 10_000
    page = write(page_file, run_page(records))
    browser.open(page)
    is_untouched(browser, page, "completed: Go on and on.")
    assert browser.evaluate("document.querySelectorAll('.step-card').length") == 841
    assert browser.evaluate("document.querySelectorAll('.timeline .unrun').length") == 840
    assert browser.evaluate("document.querySelectorAll('td .badge').length") == 840
    browser.evaluate("document.querySelector('a[href=\"#step-840\"]').click()")
    place = "document.getElementById('step-840').getBoundingClientRect().top"
    assert 0 <= browser.evaluate(place) < 900
