from __future__ import annotations

from hookline.state import AssistantMessage, ToolCall, ToolMessage, UserMessage
from hookline.testing import transcript


def test_each_message_is_one_tuple() -> None:
    """Who spoke, what was said and which tools were called, and no ids."""
    calls = (ToolCall("1", "add", {"a": [1]}), ToolCall("2", "now"))
    messages = [
        UserMessage("2+3?"),
        AssistantMessage("let me see", calls),
        ToolMessage("1", "add", "5"),
        ToolMessage("2", "now", "Error: no", True),
        AssistantMessage("5"),
    ]
    assert transcript(messages) == [
        ("user", "2+3?"),
        ("assistant", "let me see", ("add", {"a": [1]}), ("now", {})),
        ("tool", "add", "5"),
        ("tool", "now", "Error: no"),
        ("assistant", "5"),
    ]


def test_the_tuples_can_be_changed_without_changing_the_state() -> None:
    """Arguments are copies."""
    call = ToolCall("1", "add", {"a": [1]})
    [(_, _, (_, args))] = transcript([AssistantMessage("", (call,))])
    args["a"].append(2)
    assert call.args == {"a": [1]}
