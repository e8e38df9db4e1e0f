from __future__ import annotations

from typing import Any

from hookline.journal import (
    HookRan,
    InMemory,
    Record,
    Redacting,
    StepFinished,
    TextDelta,
    ToolProgress,
)
from hookline.state import AssistantMessage, Step, ToolCall, ToolResult


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


def test_records_are_redacted_before_they_are_kept_or_told() -> None:
    """What is appended and what is only told goes through the same door; a clean record is the very same one."""
    heard: list[Record] = []
    inner = InMemory((heard.append,))
    door = Redacting(inner, without)
    clean = HookRan("r", 0, 1.0, "before_step", "a")
    door.append(clean)
    door.append(
        HookRan("r", 1, 1.0, "before_step", "a", reason="a secret", changes={"x": ["secret"]})
    )
    door.tell(TextDelta("r", 2, 1.0, "secret"))
    door.tell(ToolProgress("r", 2, 1.0, "c", "t", {"said": object(), "more": "secret"}))
    assert door.records[0] is clean
    assert inner.records[1] == HookRan(
        "r", 1, 1.0, "before_step", "a", reason="a -", changes={"x": ["-"]}
    )
    assert "secret" not in str(heard)
    assert len(heard) == 4


def test_a_redacted_record_is_whole() -> None:
    """Messages, calls and results inside a record keep their types."""
    door = Redacting(InMemory(), without)
    call = ToolCall("c", "t", {"a": "secret", "b": [1]})
    step = Step(0, calls=(call,), results=(ToolResult({"x": "secret"}, call_id="c", name="t"),))
    door.append(StepFinished("r", 0, 1.0, step, (AssistantMessage("secret", (call,)),)))
    (record,) = door.records
    assert isinstance(record, StepFinished)
    assert record.step.calls[0] == ToolCall("c", "t", {"a": "-", "b": [1]})
    assert record.step.results[0].result == {"x": "-"}
    assert record.messages == (AssistantMessage("-", (ToolCall("c", "t", {"a": "-", "b": [1]}),)),)


async def test_children_have_the_same_door() -> None:
    """What a child records is redacted as well, and what is held back is released redacted."""
    heard: list[Record] = []
    door = Redacting(InMemory(), without).for_child("child", (heard.append,))
    assert door.is_heard
    door.append(HookRan("child", 0, 1.0, reason="secret"))
    door.hold()
    door.append(HookRan("child", 1, 1.0, reason="secret"))
    assert len(heard) == 1
    door.release("the secret")
    assert len(heard) == 2
    assert "secret" not in str(heard)
    assert await door.wait("x") is None
    assert door.commit is None
    door.flush()
    door.close()
