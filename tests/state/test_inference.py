from __future__ import annotations

from hookline import ToolCall
from hookline.state import (
    AssistantMessage,
    InferenceRequest,
    InferenceResponse,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

MESSAGES = (
    UserMessage("2+3?"),
    AssistantMessage("let me see", (ToolCall("1", "add", {"a": 2}),)),
    ToolMessage("1", "add", "5"),
)


def test_a_request_shows_its_text() -> None:
    """System prompt, messages and calls, one line each."""
    request = InferenceRequest(MESSAGES, "Be brief.")
    assert str(request).splitlines() == [
        "system: Be brief.",
        "user: 2+3?",
        'assistant: let me see add({"a":2})',
        "tool add: 5",
    ]
    assert str(InferenceRequest()) == ""


def test_a_changed_request_leaves_the_first_as_it_is() -> None:
    """Each `with_` changes one thing."""
    spec = ToolSpec("add", "Add.", {"type": "object"})
    first = InferenceRequest(MESSAGES)
    changed = (
        first.with_messages(MESSAGES[:1])
        .with_system("Be kind.")
        .with_tools((spec,))
        .with_model("small")
        .with_options(temperature=0)
        .with_options(top_p=1)
        .with_tool_choice("add")
        .with_output_schema({"type": "object"})
    )
    assert first == InferenceRequest(MESSAGES)
    assert (changed.messages, changed.system) == (MESSAGES[:1], "Be kind.")
    assert (changed.tools, changed.model) == ((spec,), "small")
    assert changed.options == {"temperature": 0, "top_p": 1}
    assert (changed.tool_choice, changed.output_schema) == ("add", {"type": "object"})


def test_a_changed_response_leaves_the_first_as_it_is() -> None:
    """Text and calls can be replaced."""
    first = InferenceResponse("5", (ToolCall("1", "add"),))
    assert first.with_text("6") == InferenceResponse("6", (ToolCall("1", "add"),))
    assert first.with_calls() == InferenceResponse("5")
    assert first.text == "5"
