from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from hookline import AgentBuilder, RunStatus
from hookline.errors import JournalError, UnknownRunError
from hookline.journal import (
    Durable,
    HookRan,
    PromptSubmitted,
    Record,
    StepFinished,
    TextDelta,
    ToolProgress,
    begin,
    reopen,
)
from hookline.state import AssistantMessage, Step, ToolCall, ToolResult
from hookline.testing import ScriptedDriver, say


def record(seq: int, text: str = "") -> Record:
    """A record."""
    return PromptSubmitted("r", seq, 0.0, text)


def test_what_is_appended_is_kept_in_order() -> None:
    """With and without listeners."""
    heard: list[Record] = []
    for journal in (Durable(), Durable((heard.append,))):
        for seq in range(3):
            journal.append(record(seq))
        assert [each.seq for each in journal.records] == [0, 1, 2]
    assert [each.seq for each in heard] == [0, 1, 2]


def test_events_reach_listeners_and_are_not_kept() -> None:
    """Deltas go to the listeners between the records."""
    heard: list[str] = []
    journal = Durable((lambda each: heard.append(each.type),))
    journal.append(record(0))
    journal.tell(TextDelta("r", 1, 0.0, "he"))
    assert heard == ["prompt", "text_delta"]
    assert [each.type for each in journal.records] == ["prompt"]


def test_listeners_are_called_in_the_order_in_which_they_were_added() -> None:
    """Each of them gets each record."""
    heard: list[str] = []
    journal = Durable((lambda each: heard.append("first"), lambda each: heard.append("second")))
    journal.append(record(0))
    assert heard == ["first", "second"]


def test_a_listener_that_crashes_reaches_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    """The record is kept, the other listeners get it, and the log names the record."""
    heard: list[Record] = []

    def broken(each: Record) -> None:
        raise RuntimeError("deaf")

    journal = Durable((broken, heard.append))
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


async def test_a_child_has_a_record_of_its_own_and_its_parents_listeners() -> None:
    """Listeners of the parent get the child's records too."""
    outer: list[int] = []
    inner: list[int] = []
    parent = Durable((lambda each: outer.append(each.seq),))
    child = await parent.for_child("r/0/call_1/1", (lambda each: inner.append(each.seq),))
    child.append(record(5))
    parent.append(record(6))
    assert (outer, inner) == ([5, 6], [5])
    assert [each.seq for each in child.records] == [5]
    assert [each.seq for each in parent.records] == [6]


class DamagedStore:
    """A store in which the record of one run cannot be read. It counts who holds a claim."""

    def __init__(self, damaged: str) -> None:
        self.damaged = damaged
        self.held: set[str] = set()

    async def claim(self, run_id: str) -> Any:
        self.held.add(run_id)
        return SimpleNamespace(steps_before_loss=None, give_back=lambda: self.held.discard(run_id))

    async def read(self, run_id: str) -> list[Record]:
        raise JournalError("torn") if run_id == self.damaged else UnknownRunError("none")


async def open_child(store: Any, run_id: str, listeners: tuple[Any, ...]) -> Durable:
    """The record of a child of a new run."""
    parent = await begin(store, "parent", ())
    return await parent.for_child(run_id, listeners)


@pytest.mark.parametrize("open_it", [begin, reopen, open_child])
async def test_a_run_that_cannot_be_read_is_given_back_at_once(open_it: Any) -> None:
    """Whoever repairs it need not wait until this process has collected its garbage."""
    store = DamagedStore("run")
    with pytest.raises(JournalError, match="torn") as kept:  # it keeps the frames of the failure
        await open_it(store, "run", ())
    assert "run" not in store.held
    del kept


async def test_a_child_of_a_silent_parent_can_have_listeners() -> None:
    """And a child without listeners is silent."""
    heard: list[Record] = []
    child = await Durable().for_child("c", (heard.append,))
    child.append(record(0))
    assert len(heard) == 1
    silent = await Durable().for_child("c", ())
    silent.append(record(0))
    assert len(silent.records) == 1


# --- redaction ----------------------------------------------------------------------------------------


def without(value: Any) -> Any:
    """A value without the word `secret`; the same object if it is not in there."""
    if isinstance(value, str):
        return value.replace("secret", "-") if "secret" in value else value
    if isinstance(value, dict):
        made = {key: without(each) for key, each in value.items()}
        return value if all(made[key] is value[key] for key in value) else made
    if isinstance(value, list | tuple):
        items = [without(each) for each in value]
        return value if all(map(lambda a, b: a is b, items, value)) else items
    return value


def test_records_are_redacted_before_they_are_kept_or_reported() -> None:
    """A clean record is the very same one."""
    heard: list[Record] = []
    log = Durable((heard.append,))
    log.redact_with(without)
    clean = HookRan("r", 0, 1.0, "before_step", "a")
    log.append(clean)
    log.append(
        HookRan("r", 1, 1.0, "before_step", "a", reason="a secret", changes={"x": ["secret"]})
    )
    log.tell(TextDelta("r", 2, 1.0, "secret"))
    log.tell(ToolProgress("r", 2, 1.0, "c", "t", {"said": object(), "more": "secret"}))
    assert log.records[0] is clean
    assert log.records[1] == HookRan(
        "r", 1, 1.0, "before_step", "a", reason="a -", changes={"x": ["-"]}
    )
    assert "secret" not in str(heard)
    assert len(heard) == 4


def test_a_redacted_record_is_whole() -> None:
    """Messages, calls and results inside a record keep their types."""
    log = Durable()
    log.redact_with(without)
    call = ToolCall("c", "t", {"a": "secret", "b": [1]})
    step = Step(0, calls=(call,), results=(ToolResult({"x": "secret"}, call_id="c", name="t"),))
    log.append(StepFinished("r", 0, 1.0, step, (AssistantMessage("secret", (call,)),)))
    (record,) = log.records
    assert isinstance(record, StepFinished)
    assert record.step.calls[0] == ToolCall("c", "t", {"a": "-", "b": [1]})
    assert record.step.results[0].result == {"x": "-"}
    assert record.messages == (AssistantMessage("-", (ToolCall("c", "t", {"a": "-", "b": [1]}),)),)


async def test_children_have_the_same_log() -> None:
    """What a child records is redacted as well, and what is held back is released redacted."""
    heard: list[Record] = []
    parent = Durable()
    parent.redact_with(without)
    log = await parent.for_child("child", (heard.append,))
    assert log.is_heard
    log.append(HookRan("child", 0, 1.0, reason="secret"))
    log.hold()
    log.append(HookRan("child", 1, 1.0, reason="secret"))
    assert len(heard) == 1
    log.release("the secret")
    assert len(heard) == 2
    assert "secret" not in str(heard)
    assert log.commit is None
    log.flush()
    await log.close()
