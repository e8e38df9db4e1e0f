from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import TranscriptError, UsageError
from hookline.state import (
    AssistantMessage,
    Attachment,
    ErrorInfo,
    Message,
    ResultStatus,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    check_transcript,
    tool_message,
)


def said(text: str = "", *ids: str) -> AssistantMessage:
    """What the model says, with calls of these ids."""
    return AssistantMessage(text, tuple(ToolCall(each, "add") for each in ids))


def result(call_id: str) -> ToolMessage:
    """The result of a call."""
    return ToolMessage(call_id, "add", "3")


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Conversations in which each call has its one result, in any order within a turn."""
    messages: list[Message] = []
    for turn in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            messages.append(UserMessage(draw(st.text("ab", max_size=3))))
        ids = [f"{turn}/{n}" for n in range(draw(st.integers(0, 3)))]
        messages.append(said("", *ids))
        messages += [result(each) for each in draw(st.permutations(ids))]
    return messages


@given(conversations())
def test_a_conversation_with_one_result_per_call_is_accepted(messages: list[Message]) -> None:
    """In whatever order the results of one turn come."""
    check_transcript(messages)


@given(conversations(), st.data())
def test_taking_a_result_away_is_noticed(messages: list[Message], data: st.DataObject) -> None:
    """A call without its result is named."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    if not results:
        return
    gone = data.draw(st.sampled_from(results))
    with pytest.raises(TranscriptError, match=f"call '{gone.call_id}' .add. has no result"):
        check_transcript([message for message in messages if message is not gone])


@given(conversations(), st.data())
def test_a_result_too_many_is_noticed(messages: list[Message], data: st.DataObject) -> None:
    """Wherever a result is put in that has no call, or whose call has its result, it is refused."""
    position = data.draw(st.integers(0, len(messages)))
    stray = data.draw(st.sampled_from(["0/0", "1/0", "nowhere"]))
    with pytest.raises(TranscriptError):
        check_transcript([*messages[:position], result(stray), *messages[position:]])


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([said("", "1")], "call '1' (add) has no result."),
        ([said("", "1"), UserMessage("hm"), result("1")], "call '1' (add) has no result."),
        ([said("", "1"), said("next")], "call '1' (add) has no result."),
        ([result("1")], "the result of call '1' (add) does not follow its call"),
        ([said("", "1"), result("1"), result("1")], "or is its second result"),
        ([said("", "1", "1"), result("1")], "two calls of one message have the same id"),
        ([said("", "1"), result("1"), said("x"), result("1")], "does not follow its call"),
    ],
)
def test_what_is_wrong_with_a_conversation_is_said(messages: list[Any], words: str) -> None:
    """The error names the call."""
    with pytest.raises(TranscriptError) as caught:
        check_transcript(messages)
    assert words in str(caught.value)


def test_an_id_may_come_again_in_a_later_turn() -> None:
    """Some models number their calls again in each turn."""
    check_transcript([said("", "1"), result("1"), said("", "1"), result("1"), said("done")])


@given(conversations())
def test_messages_survive_json(messages: list[Message]) -> None:
    """The role distinguishes them."""
    read = msgspec.json.decode(msgspec.json.encode(messages), type=list[Message])
    assert read == messages
    assert [message.role for message in read] == [
        {"UserMessage": "user", "AssistantMessage": "assistant", "ToolMessage": "tool"}[
            type(message).__name__
        ]
        for message in messages
    ]


def test_a_tool_message_is_what_the_model_reads_of_a_result() -> None:
    """Its text, and whether it is an error."""
    fine = tool_message(ToolResult({"a": 1}, call_id="1", name="add"))
    assert fine == ToolMessage("1", "add", '{"a":1}')
    info = ErrorInfo("ValueError", "bad")
    failed = tool_message(ToolResult(None, info, ResultStatus.ERROR, "1", "add"))
    assert failed == ToolMessage("1", "add", "Error: bad", True)
    blocked = tool_message(
        ToolResult(status=ResultStatus.BLOCKED, call_id="1", name="add", reason="no")
    )
    assert (blocked.text, blocked.is_error) == ("Blocked: no", True)


def test_a_long_result_is_cut_and_the_note_says_how_much_and_where_the_rest_is() -> None:
    """Up to the limit nothing is cut."""
    whole = ToolResult("x" * 2000, call_id="call_7", name="read")
    assert tool_message(whole, 2000).text == "x" * 2000
    assert tool_message(whole).text == "x" * 2000
    cut = tool_message(whole, 1500).text
    assert cut.startswith("x" * 1500 + "\n[cut here: 1,500 of 2,000 characters are shown")
    assert "call_7" in cut
    assert "journal" in cut


def test_a_message_of_a_hook_names_the_hook() -> None:
    """What hooks say to the model is a user message that knows who said it."""
    assert UserMessage("go on", by="stop-hook").by == "stop-hook"
    assert UserMessage("go on").by == ""


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"media_type": "image/png"}, "neither content nor an address"),
        ({"media_type": "image/png", "data": "%%%!"}, "not base64"),
        ({"media_type": "image/png", "data": "abc"}, "not base64"),
        ({"media_type": "image/png", "data": "a=bc"}, "not base64"),
        ({"media_type": "", "data": "YWJj"}, "of what type"),
    ],
)
def test_an_attachment_that_no_model_can_be_given_is_refused(
    wrong: dict[str, str], words: str
) -> None:
    """What is wrong with it is said where it is made, and named."""
    with pytest.raises(UsageError, match=f"'holiday'.*{words}") as caught:
        Attachment(name="holiday", **wrong)
    assert "from_bytes" in caught.value.remedy
