"""Text of a subclass of `str` becomes plain text where it enters a run, so that a run can always be saved."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from hookline import AgentBuilder, AgentState, Decision, HookOutcome, ToolResult
from hookline.journal import MemoryJournal, fold
from hookline.state import (
    AssistantMessage,
    Attachment,
    ContinuationDecision,
    ContinuationEvaluation,
    ErrorInfo,
    InferenceResponse,
    Reasoning,
    ResultStatus,
    ToolCall,
    UserMessage,
)
from hookline.testing import ScriptedDriver, call, say


class Markup(str):
    """What template engines and parsers give for text."""


class Why(str, enum.Enum):  # noqa: UP042 - older programs have these, and str() of one is its name
    """Reasons as a program may list them."""

    NO = "not allowed"


class Says:
    """A model that gives these answers."""

    def __init__(self, *responses: InferenceResponse) -> None:
        self.responses = list(responses)

    async def infer(self, request: Any, turn: Any) -> Any:
        return self.responses.pop(0)


def use() -> object:
    """Use."""
    return "used"


def gives_marked() -> object:
    """Give a result whose every word is of a class of its own."""
    error = ErrorInfo(Markup("E"), Markup("bad"), Markup("tool"))
    return ToolResult(None, error, ResultStatus.ERROR, reason=Markup("r"), decided_by=Markup("d"))


def using() -> AgentBuilder:
    """An agent that uses its tool once."""
    return AgentBuilder().with_driver(ScriptedDriver([call("use"), say("done")])).with_tools(use)


def kept(builder: AgentBuilder, prompt: str = "go", **options: str) -> Any:
    """The run's result; its journal and its saved state contain the same, in plain text."""
    journal = MemoryJournal()
    result = builder.with_journal(journal).build().run_sync(prompt, **options)
    again = AgentState.from_json(result.state.to_json())
    assert again == result.state
    assert fold(journal.read_sync(result.state.run_id)).state.messages == result.state.messages
    assert "Markup" not in repr(journal.read_sync(result.state.run_id))
    return result


HOOKS: dict[str, Callable[[AgentBuilder], AgentBuilder]] = {
    "block": lambda b: b.on_before_tool_use(lambda ctx: HookOutcome.block(Markup("no"))),
    "stop": lambda b: b.on_before_tool_use(lambda ctx: HookOutcome.stop(Markup("no"))),
    "ask": lambda b: b.on_before_tool_use(lambda ctx: HookOutcome.ask(Markup("may I?"))),
    "forbid": lambda b: b.on_before_tool_use(lambda ctx: ctx.forbid(Markup("no"))),
    "evaluation": lambda b: b.on_before_step(
        lambda ctx: ContinuationEvaluation(
            Markup("me"), ContinuationDecision.ALLOW_CONTINUATION, Markup("go")
        )
    ),
    "prompt": lambda b: b.on_prompt_submit(lambda ctx: ctx.with_prompt(Markup("other"))),
    "replaced prompt": lambda b: b.on_prompt_submit(lambda ctx: replace(ctx, prompt=Markup("x"))),
    "message": lambda b: b.on_before_step(
        lambda ctx: ctx.state.with_user_message(Markup("hi"), by=Markup("me"))
    ),
    "made message": lambda b: b.on_before_step(
        lambda ctx: ctx.state.with_messages(
            ctx.state.messages.append(AssistantMessage(Markup("hm"))).append(UserMessage("x"))
        )
    ),
    "response": lambda b: b.on_after_inference(
        lambda ctx: ctx.with_response(ctx.response.with_text(Markup("t")))
    ),
    "name": lambda b: b.on_before_tool_use(lambda ctx: HookOutcome.block("no"), name=Markup("n")),
    "id": lambda b: b.with_id(Markup("agent")),
    "system prompt": lambda b: b.with_system_prompt(Markup("be good")),
    "tool": lambda b: b.with_driver(ScriptedDriver([call("gives_marked"), say("done")])).with_tools(
        gives_marked
    ),
}


@pytest.mark.parametrize("name", HOOKS)
def test_what_hooks_and_tools_say_in_text_of_their_own_can_be_saved(name: str) -> None:
    """Wherever they say it, and the run goes as it goes with plain text."""
    assert kept(HOOKS[name](using())).error is None


def test_prompt_and_ids_may_be_text_of_their_own() -> None:
    """They are plain text in the state."""
    result = kept(using(), Markup("hello"), run_id=Markup("r"), session=Markup("s"))
    said = (result.state.messages[0].text, result.state.run_id, result.state.session_id)
    assert [(type(word), word) for word in said] == [(str, "hello"), (str, "r"), (str, "s")]


def test_what_a_driver_says_in_text_of_its_own_can_be_saved() -> None:
    """Each word of an answer: text, calls, thinking, model."""
    asked = InferenceResponse(
        Markup("text"),
        (ToolCall(Markup("1"), Markup("use")),),
        model=Markup("m"),
        reasoning=(Reasoning(Markup("hm"), Markup("seal")),),
    )
    lone = InferenceResponse("", (ToolCall("2", Markup("use")),))
    driver = Says(asked, lone, InferenceResponse(Markup("done")))
    result = kept(AgentBuilder().with_driver(driver).with_tools(use))
    first = result.state.messages[1]
    words = (first.text, first.calls[0].id, first.calls[0].name, first.reasoning[0].text)
    assert all(type(word) is str for word in words)
    assert type(result.state.messages[3].calls[0].name) is str
    assert type(result.text) is str


def test_a_member_of_a_string_enum_is_its_value() -> None:
    """The model reads the value, and not the name of the member."""
    result = kept(using().on_before_tool_use(lambda ctx: HookOutcome.block(Why.NO)), Why.NO)
    assert result.state.messages[0].text == "not allowed"
    assert result.steps[0].results[0].text == "Blocked: not allowed"


def test_a_decision_is_made_of_plain_text() -> None:
    """Its reason is kept with the call, its rule with the session."""
    decision = Decision.deny(Markup("no"), rule=Markup("bash"))
    assert (type(decision.reason), type(decision.rule)) == (str, str)


def test_an_attachment_is_made_of_plain_text() -> None:
    """It is saved and sent with its message."""
    attachment = Attachment.from_bytes(b"x", Markup("text/plain"), Markup("notes"))
    assert (type(attachment.media_type), type(attachment.name)) == (str, str)
