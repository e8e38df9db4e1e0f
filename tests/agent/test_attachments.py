from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, AgentState, HookOutcome, StopReason
from hookline.errors import UsageError
from hookline.journal import PromptSubmitted, decode, encode
from hookline.state import Attachment, UserMessage
from hookline.testing import ScriptedDriver, say

PICTURE = Attachment.from_bytes(b"\x89PNG", "image/png", "a.png")


def builder() -> tuple[AgentBuilder, ScriptedDriver]:
    """An agent that answers, and its driver."""
    driver = ScriptedDriver([say("a picture"), say("still a picture")])
    return AgentBuilder().with_driver(driver), driver


@pytest.mark.parametrize("way", ["run", "stream", "iterate"])
async def test_attachments_go_with_the_prompt(way: str) -> None:
    """Into the conversation, the request and the record, whichever way the agent is driven."""
    made, driver = builder()
    agent = made.build()
    if way == "run":
        result = await agent.run("What is this?", attachments=[PICTURE])
    else:
        stream = getattr(agent, way)("What is this?", attachments=(PICTURE,))
        async for _ in stream:
            pass
        result = stream.result
    message = UserMessage("What is this?", "", (PICTURE,))
    assert result.state.messages[0] == message
    assert driver.requests[0].messages[0] == message
    (prompt,) = (record for record in result.records if isinstance(record, PromptSubmitted))
    assert prompt.attachments == (PICTURE,)
    assert decode(encode(prompt)) == prompt
    assert AgentState.from_json(result.state.to_json()) == result.state


def test_attachments_without_async(tmp_path: Path) -> None:
    """A file is taken as it is now."""
    file = tmp_path / "a.png"
    file.write_bytes(b"\x89PNG")
    made, driver = builder()
    made.build().run_sync("What is this?", attachments=[Attachment.from_file(file)])
    assert driver.requests[0].messages[0] == UserMessage("What is this?", "", (PICTURE,))


async def test_a_hook_sees_what_comes_with_a_prompt() -> None:
    """And may refuse it; rewriting the prompt leaves it as it is."""
    made, driver = builder()
    made.on_prompt_submit(lambda ctx: ctx.prompt.upper())
    await made.build().run("what?", attachments=[PICTURE])
    assert driver.requests[0].messages[0] == UserMessage("WHAT?", "", (PICTURE,))
    made.on_prompt_submit(
        lambda ctx: HookOutcome.block("no pictures") if ctx.attachments else None, tier="policy"
    )
    result = await made.build().run("what?", attachments=[PICTURE])
    assert result.stop_reason is StopReason.PROMPT_REFUSED


@pytest.mark.parametrize("wrong", [PICTURE, "a.png", ["a.png"], [PICTURE, None]])
def test_what_is_no_attachment_is_refused(wrong: Any) -> None:
    """Before the run begins, with what to write instead."""
    with pytest.raises(UsageError, match=r"\[Attachment\.from_file\(path\)\]"):
        builder()[0].build().run_sync("What is this?", attachments=wrong)


def test_attachments_need_a_prompt() -> None:
    """Nobody knows what they are for otherwise."""
    state = AgentState().with_user_message("hi")
    with pytest.raises(UsageError, match="attachments without a prompt"):
        builder()[0].build().run_sync(state=state, attachments=[PICTURE])


def test_a_hook_changes_what_comes_with_a_prompt(tmp_path: Path) -> None:
    """What a hook makes of the attachments is what the model sees, what is kept, and what the journal adds up to."""
    from hookline import SQLiteJournal
    from hookline.journal import fold

    made, driver = builder()
    other = Attachment.from_bytes(b"%PDF", "application/pdf", "b.pdf")
    made.on_prompt_submit(lambda ctx: ctx.with_attachments([*ctx.attachments, other]))
    with SQLiteJournal(tmp_path / "runs.db") as journal:
        result = made.with_journal(journal).build().run_sync("See.", attachments=[PICTURE])
        assert driver.requests[0].messages[0] == UserMessage("See.", "", (PICTURE, other))
        assert fold(journal.read_sync(result.state.run_id)).state == result.state
    wrong = builder()[0].on_prompt_submit(lambda ctx: ctx.with_attachments(["a.png"]))
    assert "is not an attachment" in wrong.build().run_sync("See.").explain()
