from __future__ import annotations

import io
import sys

import pytest

from hookline.providers.local.weights import ProgressBar


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_a_terminal_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, drawn over itself, and wiped at the end."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = ProgressBar("fetching")
    bar(0, 90_000_000)
    bar(90_000_000, 90_000_000)
    bar.end()
    drawn = screen.getvalue()
    assert "fetching" in drawn
    assert "90 of 90 MB" in drawn
    assert "\n" not in drawn
    assert drawn.endswith("\r\x1b[2K")


def test_it_is_not_drawn_more_often_than_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand steps are not a thousand lines."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = ProgressBar("fetching")
    for done in range(1000):
        bar(done, 100_000)
    assert screen.getvalue().count("fetching") < 100


def test_without_a_terminal_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs and pipes are not for bars."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    bar = ProgressBar("fetching")
    bar(1, 1)
    bar.end()
    assert stream.getvalue() == ""
