"""Images and files that a tool returns: in the result, the conversation, the journal and the hooks."""

from __future__ import annotations

import base64
import os
from typing import Any

import pytest

from hookline import AgentBuilder, AgentState, RunStatus
from hookline.agent import RunResult
from hookline.capabilities import Redaction, Summarization
from hookline.capabilities.summarization import Sizes
from hookline.errors import NotJSONError, UsageError
from hookline.journal import CallSettled, MemoryJournal, decode, encode
from hookline.lifecycle import ToolHookContext
from hookline.playback import replay
from hookline.state import Attachment, ResultStatus, ToolMessage, ToolResult, freeze
from hookline.testing import ScriptedDriver, call, say

PICTURE = Attachment.from_bytes(b"\x89PNG" + bytes(2_000), "image/png", "a.png")
NOTES = Attachment.from_bytes(b"password=hunter2-is-secret", "text/plain", "notes.txt")


def returning(value: Any) -> AgentBuilder:
    """An agent whose tool returns this."""

    def draw() -> Any:
        """Draw."""
        return value

    return AgentBuilder().with_driver(ScriptedDriver([call("draw"), say("done")])).with_tools(draw)


def result_of(result: RunResult) -> ToolResult:
    """The result of the one call."""
    return result.steps[0].results[0]


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (PICTURE, ""),
        ([PICTURE], ""),
        (["Here:", PICTURE, "Nice."], "Here:\nNice."),
        (("Here:", PICTURE), "Here:"),
        ([{"size": 2}, PICTURE], [{"size": 2}]),
        (ToolResult("Here:", attachments=(PICTURE,)), "Here:"),
        (ToolResult("Here:", attachments=[PICTURE]), "Here:"),  # type: ignore[arg-type]
    ],
)
async def test_a_tool_returns_images_alone_or_beside_text(value: Any, left: Any) -> None:
    """They are attachments of the result and of the message, in the state and in the journal."""
    result = await returning(value).build().run("go")
    assert (result_of(result).result, result_of(result).attachments) == (left, (PICTURE,))
    message = result.state.messages[2]
    assert isinstance(message, ToolMessage)
    assert message.attachments == (PICTURE,)
    assert PICTURE.data not in message.text
    (record,) = (each for each in result.records if isinstance(each, CallSettled))
    assert decode(encode(record)) == record
    assert AgentState.from_json(result.state.to_json()) == result.state


async def test_a_list_without_images_is_json_as_before() -> None:
    """Lists are looked at only for attachments."""
    assert result_of(await returning(["a", 1]).build().run("go")).result == ["a", 1]


async def test_an_image_inside_of_a_value_is_an_error_and_never_base64() -> None:
    """The model reads what is wrong, and the author how to return it."""
    result = await returning({"image": PICTURE}).build().run("go")
    found = result_of(result)
    assert found.status is ResultStatus.ERROR
    assert "image/png is inside of a JSON value" in found.text
    assert PICTURE.data not in result.state.to_json()
    with pytest.raises(NotJSONError, match="ToolResult"):
        freeze([PICTURE])


async def test_files_that_are_too_large_are_an_error_of_the_tool() -> None:
    """They would be sent with every request, and kept in the journal."""
    large = Attachment.from_bytes(bytes(11 * 2**20), "image/png")
    found = result_of(await returning(large).build().run("go"))
    assert found.status is ResultStatus.ERROR
    assert "11.0 MB; at most 10 MB" in found.text


def test_what_is_no_attachment_is_refused() -> None:
    """When the result is made."""
    with pytest.raises(UsageError, match="among its attachments"):
        ToolResult("x", attachments=("a.png",))  # type: ignore[arg-type]


async def test_hooks_see_and_replace_them() -> None:
    """A hook that gives another result leaves nothing of the old one."""
    seen: list[tuple[Attachment, ...]] = []

    def hide(ctx: ToolHookContext) -> ToolHookContext:
        assert ctx.execution is not None
        seen.append(ctx.execution.attachments)
        return ctx.with_execution(ctx.execution.with_result("hidden"))

    result = await returning(PICTURE).on_after_tool_use(hide).build().run("go")
    assert seen == [(PICTURE,)]
    assert result_of(result).attachments == ()
    assert result_of(result).with_attachments(PICTURE).attachments == (PICTURE,)


async def test_replay_comes_to_the_same() -> None:
    """With the images on record; with others it does not."""
    journal = MemoryJournal()
    await returning(["Here:", PICTURE]).with_journal(journal).build().run("go", run_id="r")
    assert "identical" in str(await replay(journal, "r", returning(PICTURE).build()))

    def other(ctx: ToolHookContext) -> ToolHookContext:
        assert ctx.execution is not None
        return ctx.with_execution(ctx.execution.with_attachments())

    changed = returning(PICTURE).on_after_tool_use(other).build()
    assert "identical" not in str(await replay(journal, "r", changed))


async def test_secrets_in_text_files_are_redacted_and_images_stay_whole() -> None:
    """Also in the journal: base64 with a mark in it could not be read again."""
    secret = "hunter2-is-secret"
    image = Attachment.from_bytes(b"\x89PNG" + secret.encode() * 90, "image/png")
    journal = MemoryJournal()
    made = returning([image, NOTES, f"password={secret}"]).with_journal(journal)
    agent = made.with_capability(Redaction(values=[secret])).build()
    result = await agent.run("go", run_id="r")
    assert result.status is RunStatus.COMPLETED
    kept, notes = result_of(result).attachments
    assert kept == image
    assert secret not in notes.text()
    assert secret not in result_of(result).text
    records = [each for each in await journal.read("r") if isinstance(each, CallSettled)]
    assert records[0].result.attachments == (image, notes)


async def test_a_secret_in_the_form_of_a_file_is_redacted() -> None:
    """A value of a tool that only looks like an attachment is a value like any other."""
    secret = "hunter2-is-secret"
    lookalikes = [
        {"media_type": "image/png", "data": secret},
        {"media_type": "image/png", "data": f"{secret} " * 100},
        {"media_type": "text/plain", "data": base64.b64encode(secret.encode()).decode()},
    ]
    journal = MemoryJournal()
    agent = returning(lookalikes).with_journal(journal)
    await agent.with_capability(Redaction(values=[secret])).build().run("go", run_id="r")
    lines = b"\n".join(encode(record) for record in await journal.read("r"))
    assert secret.encode() not in lines
    assert base64.b64encode(secret.encode()) not in lines


async def test_redaction_does_not_take_minutes_over_an_image() -> None:
    """The content of a large image is not looked through: that took a minute for a few megabytes."""
    looked: list[int] = []
    image = Attachment.from_bytes(os.urandom(3_000_000), "image/png")
    redacting = returning(image).with_redaction(lambda value: _measured(value, looked))
    result = await redacting.build().run("go")
    assert result_of(result).attachments == (image,)
    assert max(looked) < 10_000


def _measured(value: Any, sizes: list[int]) -> Any:
    sizes.append(len(str(value)))
    return value


def test_a_summary_counts_them() -> None:
    """An image in a result takes as much of the context as one in a prompt."""
    assert Summarization is not None
    sizes = Sizes(len)
    plain = ToolMessage("1", "draw", "x")
    assert sizes.message(ToolMessage("1", "draw", "x", attachments=(PICTURE,))) > sizes.message(
        plain
    )
