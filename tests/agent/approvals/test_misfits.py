"""What tools, hooks and models hand in is looked at where it enters, so that what is on record can be read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from hookline import AgentBuilder, AgentState, HookOutcome, RunStatus, ToolContext, ToolResult, tool
from hookline.errors import TranscriptError, UsageError
from hookline.journal import MemoryJournal, PromptSubmitted, fold
from hookline.state import (
    AssistantMessage,
    Attachment,
    ContinuationDecision,
    ContinuationEvaluation,
    ErrorInfo,
    InferenceResponse,
    Log,
    Reasoning,
    ResultStatus,
    ToolCall,
    Usage,
    UserMessage,
)
from hookline.testing import ScriptedDriver, call, say


class Says:
    """A model that gives just this."""

    def __init__(self, response: Any) -> None:
        self.response = response

    async def infer(self, request: Any, turn: Any) -> Any:
        return self.response


def gives(value: Any) -> Any:
    """A tool that gives this."""

    @tool(name="use")
    async def use() -> object:
        """Use."""
        return value

    return use


def asked() -> AgentBuilder:
    """An agent that uses its tool once."""
    return AgentBuilder().with_driver(ScriptedDriver([call("use"), say("done")]))


def recorded(builder: AgentBuilder) -> Any:
    """The run's result; its journal and its saved state can be read, and tell the same."""
    journal = MemoryJournal()
    result = builder.with_journal(journal).build().run_sync("go", run_id="r")
    assert fold(journal.read("r")).state.messages == result.state.messages
    assert AgentState.from_json(result.state.to_json()).steps == result.state.steps
    return result


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (ToolResult("x", None, "weird"), "tool 'use' gave result.status='weird'. It is one of: ok"),  # type: ignore[arg-type]
        (ToolResult("x", reason=9), "tool 'use' gave result.reason=9"),  # type: ignore[arg-type]
        (ToolResult("x", decided_by=None), "gave result.decided_by=None"),  # type: ignore[arg-type]
        (ToolResult(None, "no", ResultStatus.ERROR), "gave result.error='no'"),  # type: ignore[arg-type]
        (ToolResult(None, ErrorInfo(5, "x")), "gave result.error.type=5"),  # type: ignore[arg-type]
    ],
)
def test_a_result_that_cannot_be_kept_is_the_tools_failure(value: Any, problem: str) -> None:
    """The model reads what was wrong with it."""
    made = recorded(asked().with_tools(gives(value))).steps[0].results[0]
    assert made.status is ResultStatus.ERROR
    assert problem in made.text()


def test_the_status_of_a_result_may_be_given_by_its_name() -> None:
    """It is that status from then on, for whoever compares."""
    value = ToolResult(None, None, "denied", reason="never")  # type: ignore[arg-type]
    result = recorded(asked().with_tools(gives(value)))
    assert result.steps[0].results[0].status is ResultStatus.DENIED
    assert result.state.messages[2].text == "Denied: never"


def changed(**fields: Any) -> Callable[[Any], Any]:
    """A hook that changes what came of a tool."""
    return lambda ctx: replace(ctx, execution=replace(ctx.execution or ToolResult("x"), **fields))


@pytest.mark.parametrize("point", ["before_tool_use", "after_tool_use"])
@pytest.mark.parametrize("fields", [{"status": "fine"}, {"reason": 9}, {"duration": float("nan")}])
def test_a_result_that_cannot_be_kept_is_the_hooks_failure(
    point: str, fields: dict[str, Any]
) -> None:
    """It fails closed, and says which hook gave what."""
    builder = asked().with_tools(gives("x"))
    getattr(builder, f"on_{point}")(changed(**fields), name="odd")
    made = recorded(builder).steps[0].results[0]
    assert made.is_blocked
    assert f"hook 'odd' gave result.{next(iter(fields))}=" in made.text()


def test_a_result_made_around_a_tool_is_looked_at_too() -> None:
    """What comes from inside is not: that was."""

    async def odd(ctx: Any, call_next: Any) -> Any:
        return replace(await call_next(ctx), status="fine")

    made = recorded(asked().with_tools(gives("x")).around_tool_use(odd, name="odd"))
    assert "hook 'odd' gave result.status='fine'" in made.steps[0].results[0].text()


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (InferenceResponse("x", reasoning=("hm",)), "reasoning[0]='hm', which is not a Reasoning"),  # type: ignore[arg-type]
        (InferenceResponse("x", reasoning=(Reasoning(5),)), "reasoning[0].text=5"),  # type: ignore[arg-type]
        (InferenceResponse("x", finish=5), "response.finish=5"),  # type: ignore[arg-type]
        (
            InferenceResponse("x", usage=Usage(cache_read_tokens="many")),  # type: ignore[arg-type]
            "usage.cache_read_tokens='many'",
        ),
        (InferenceResponse("x", (ToolCall("1", "use", {}, 5),)), "calls[0].malformed=5"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_cannot_be_kept_is_the_drivers_failure(response: Any, problem: str) -> None:
    """Whatever part of it is wrong."""
    result = recorded(AgentBuilder().with_driver(Says(response)))
    assert result.status is RunStatus.FAILED
    assert problem in str(result.error)


MISFITS = [
    UserMessage(5),  # type: ignore[arg-type]
    UserMessage("x", 5),  # type: ignore[arg-type]
    UserMessage("x", "", ("picture",)),  # type: ignore[arg-type]
    "just text",
    AssistantMessage("x", []),  # type: ignore[arg-type]
    AssistantMessage("x", (), (Reasoning(5),)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("message", MISFITS)
def test_a_message_that_cannot_be_kept_is_the_hooks_failure(message: Any) -> None:
    """In the conversation, and in a request."""

    def add(ctx: Any) -> Any:
        return ctx.with_state(ctx.state.with_messages(ctx.state.messages.append(message)))

    def show(ctx: Any) -> Any:
        return ctx.with_request(ctx.request.with_messages((*ctx.request.messages, message)))

    for hook in (add, show):
        builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
        result = recorded(builder.on_before_inference(hook, name="odd"))
        assert "hook 'odd' at before_inference" in str(result.error)


@pytest.mark.parametrize("message", MISFITS)
def test_a_run_does_not_begin_with_messages_that_cannot_be_kept(message: Any) -> None:
    """Whoever made the state is told."""
    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).build()
    with pytest.raises(TranscriptError, match="message"):
        agent.run_sync("go", state=AgentState(messages=Log([message])))


@pytest.mark.parametrize(
    "fields", [{"system": 5}, {"model": None}, {"tool_choice": 1}, {"tools": ("use",)}]
)
def test_a_request_that_cannot_be_made_again_is_the_hooks_failure(fields: dict[str, Any]) -> None:
    """A run that is taken up does again what its hooks did."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_tools(gives("x"))
    odd = builder.on_before_inference(
        lambda ctx: ctx.with_request(replace(ctx.request, **fields)), name="odd"
    )
    assert "hook 'odd' at before_inference: it made a request" in str(recorded(odd).error)


def test_a_stop_reason_is_text() -> None:
    """A hook that gives another has failed."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
    builder.on_before_step(lambda ctx: HookOutcome.stop("no", stop_reason=5), name="odd")  # type: ignore[arg-type]
    assert "its stop reason is 5" in str(recorded(builder).error)


@pytest.mark.parametrize("usage", [Usage("many"), Usage(1.5), Usage(cost=float("nan"))])  # type: ignore[arg-type]
def test_a_usage_that_cannot_be_counted_is_refused(usage: Usage) -> None:
    """Of a tool, sync or async, and of a hook."""

    @tool
    def use(context: ToolContext) -> str:
        """Use."""
        context.charge(usage)
        return "used"

    made = recorded(asked().with_tools(use)).steps[0].results[0]
    assert "a usage to be charged has" in made.text()
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
    hook = builder.on_before_step(lambda ctx: ctx.run.charge(usage), name="odd")
    assert "cannot be charged" in str(recorded(hook).error)


def test_an_attachment_is_made_of_text() -> None:
    """It is on record with its prompt."""
    with pytest.raises(UsageError, match="has a name that is not text"):
        Attachment("image/png", "AAAA", "", 5)  # type: ignore[arg-type]


def test_a_journal_refuses_what_it_could_not_read() -> None:
    """Whatever was overlooked until then: what is written before stays readable, and nothing is written after."""
    journal = MemoryJournal()
    claim = journal.claim("r")
    claim.write([PromptSubmitted("r", 0, 0.0, "fine")]).result()
    odd = PromptSubmitted("r", 1, 0.0, 5)  # type: ignore[arg-type]
    error = claim.write([odd]).exception()
    assert "a 'prompt' record would not be readable" in str(error)
    assert claim.write([PromptSubmitted("r", 1, 0.0, "too late")]).exception() is not None
    claim.give_back()
    assert [record.seq for record in journal.read("r")] == [0]


@pytest.mark.parametrize(
    "said",
    [
        ContinuationEvaluation("x", "allow_stop"),  # type: ignore[arg-type]
        ContinuationEvaluation("x", ContinuationDecision.ALLOW_STOP, 5),  # type: ignore[arg-type]
        ContinuationEvaluation(5, ContinuationDecision.ALLOW_STOP),  # type: ignore[arg-type]
        ContinuationEvaluation("x", ContinuationDecision.ALLOW_STOP, "", "so"),  # type: ignore[arg-type]
    ],
)
def test_a_word_on_going_on_that_says_nothing_is_the_hooks_failure(said: Any) -> None:
    """Whether the hook returns it or leaves it in its context."""
    for hook in (
        lambda ctx: said,
        lambda ctx: replace(ctx, evaluations=(*ctx.evaluations, said)),
    ):
        builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
        result = recorded(builder.on_should_continue(hook, name="odd"))
        assert "hook 'odd' at should_continue: something is wrong with its evaluation" in str(
            result.error
        )


def test_a_prompt_that_is_no_text_is_the_hooks_failure() -> None:
    """It fails closed, and the model is not asked."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
    result = recorded(builder.on_prompt_submit(lambda ctx: replace(ctx, prompt=5), name="odd"))
    assert result.status is RunStatus.STOPPED
    assert "hook 'odd' failed" in result.explain()


@pytest.mark.parametrize("name", ["", 5])
def test_what_a_hook_makes_of_a_childs_result_is_looked_at(name: Any) -> None:
    """And so is the name of a child."""

    @tool
    async def use(context: ToolContext) -> str:
        """Use."""
        child = AgentBuilder().with_driver(ScriptedDriver([say("done")])).build()
        return str((await context.spawn(child, "go", name=name)).text)

    odd = asked().with_tools(use)
    odd.on_subagent_stop(lambda ctx: ctx.with_result(replace(ctx.result, status="odd")), name="odd")
    result = recorded(odd)
    problem = "status is 'odd', which is not a RunStatus" if not name else "the child's name is 5"
    assert problem in result.state.messages[2].text
