from __future__ import annotations

import logging

import pytest

from hookline import AgentBuilder, Decision, RunStatus
from hookline.journal import InMemory, PromptSubmitted, Record, TextDelta
from hookline.testing import ScriptedDriver, say


def record(seq: int, text: str = "") -> Record:
    """A record."""
    return PromptSubmitted("r", seq, 0.0, text)


def test_what_is_appended_is_kept_in_order() -> None:
    """With and without listeners."""
    heard: list[Record] = []
    for journal in (InMemory(), InMemory((heard.append,))):
        for seq in range(3):
            journal.append(record(seq))
        assert [each.seq for each in journal.records] == [0, 1, 2]
    assert [each.seq for each in heard] == [0, 1, 2]


def test_what_is_told_is_heard_and_not_kept() -> None:
    """Deltas go to the listeners between the records."""
    heard: list[str] = []
    journal = InMemory((lambda each: heard.append(each.type),))
    journal.append(record(0))
    journal.tell(TextDelta("r", 1, 0.0, "he"))
    assert heard == ["prompt", "text_delta"]
    assert [each.type for each in journal.records] == ["prompt"]


def test_listeners_hear_in_the_order_they_came() -> None:
    """Each of them hears each record."""
    heard: list[str] = []
    journal = InMemory((lambda each: heard.append("first"), lambda each: heard.append("second")))
    journal.append(record(0))
    assert heard == ["first", "second"]


def test_a_listener_that_crashes_reaches_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    """The record is kept, the others hear it, and the log says which record it was."""
    heard: list[Record] = []

    def broken(each: Record) -> None:
        raise RuntimeError("deaf")

    journal = InMemory((broken, heard.append))
    with caplog.at_level(logging.ERROR, logger="hookline"):
        journal.append(record(0))
    assert len(journal.records) == len(heard) == 1
    assert "an event listener failed on a 'prompt' record" in caplog.text
    assert "deaf" in caplog.text


def test_a_listener_that_crashes_does_not_change_a_run(caplog: pytest.LogCaptureFixture) -> None:
    """What it raises never gets into the run."""

    def broken(each: Record) -> None:
        raise RuntimeError("deaf")

    agent = AgentBuilder().with_driver(ScriptedDriver([say("hi")])).on_event(broken).build()
    result = agent.run_sync("hello")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "hi")
    assert "deaf" in caplog.text


async def test_an_answer_is_found_under_its_key() -> None:
    """The answers handed to `resume`; None when there is none, and the run must pause."""
    journal = InMemory(answers={"r/0/call_1": Decision.allow()})
    assert await journal.wait("r/0/call_1") == Decision.allow()
    assert await journal.wait("r/0/call_2") is None
    assert await InMemory().wait("r/0/call_1") is None


async def test_a_child_has_a_record_of_its_own_and_its_parents_listeners_and_answers() -> None:
    """Who listens to the parent hears the child too, and answers reach any depth."""
    outer: list[int] = []
    inner: list[int] = []
    parent = InMemory((lambda each: outer.append(each.seq),), {"key": Decision.deny("no")})
    child = parent.for_child("r/0/call_1/1", (lambda each: inner.append(each.seq),))
    child.append(record(5))
    parent.append(record(6))
    assert (outer, inner) == ([5, 6], [5])
    assert [each.seq for each in child.records] == [5]
    assert [each.seq for each in parent.records] == [6]
    assert await child.for_child("r/0/call_1/1/0", ()).wait("key") == Decision.deny("no")


async def test_a_child_of_a_silent_parent_can_have_listeners() -> None:
    """And a child without listeners is silent."""
    heard: list[Record] = []
    child = InMemory().for_child("c", (heard.append,))
    child.append(record(0))
    assert len(heard) == 1
    silent = InMemory().for_child("c", ())
    silent.append(record(0))
    assert len(silent.records) == 1
