"""Wrong use: tools and agents that are built wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from wrong_use import Thing, add, builder, fine, refused

from hookline import AgentBuilder, AgentState, ErrorPolicy, RunStatus, on, tool
from hookline.adapters import (
    ContinuationCriterionAdapter,
    StateProcessorAdapter,
    ToolMiddlewareAdapter,
)
from hookline.errors import HooklineError, RegistrationError
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import MemoryJournal
from hookline.sessions import Sessions
from hookline.state import InferenceResponse
from hookline.testing import ScriptedDriver, call, say

# --- tools ------------------------------------------------------------------------------------------


def test_a_tool_without_annotations() -> None:
    """The function, the parameter and what to write."""

    def look(at):  # type: ignore[no-untyped-def]
        """Look."""

    for attempt in (lambda: tool(look), lambda: AgentBuilder().with_tools(look).build(model=None)):
        message = refused(attempt)
        assert "look" in message
        assert "'at'" in message
        assert "annotat" in message


def test_something_that_is_no_tool() -> None:
    """A list of tools, a class, a name."""
    for wrong in ([add], Thing, "add", None):
        assert refused(lambda wrong=wrong: AgentBuilder().with_tools(wrong).build(model=None))


def test_two_tools_of_one_name() -> None:
    """Both are named, with where they were written."""

    @tool(name="add")
    def plus(a: int) -> int:
        return a

    message = refused(lambda: builder().with_tools(plus).build())
    assert "two tools are called 'add'" in message
    assert "plus" in message


# --- the builder ------------------------------------------------------------------------------------


class SyncDriver:
    """A driver whose infer is not async."""

    def infer(self, request: Any, turn: Any) -> InferenceResponse:
        return InferenceResponse("hi")


class TextDriver:
    """A driver that gives text instead of a response."""

    async def infer(self, request: Any, turn: Any) -> Any:
        return "hi"


@pytest.mark.parametrize(
    "wrong", [None, "gpt", ScriptedDriver, fine, Thing(), ScriptedDriver([]).infer]
)
def test_a_wrong_driver(wrong: Any) -> None:
    """Refused where it is given, with what a driver has."""
    message = refused(lambda: AgentBuilder().with_driver(wrong))
    assert "is not a driver. A driver has `async def infer(self, request, turn)`." in message


def test_a_model_by_name_needs_a_provider() -> None:
    """The message says which there are."""
    message = refused(lambda: AgentBuilder().with_model("gpt-5"))
    assert "there is no provider 'gpt-5'" in message
    assert (
        "Write provider:model, with one of: anthropic, google, lmstudio, local, ollama, openai, script."
        in message
    )


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])
def test_a_model_needs_its_key(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable it is looked for in."""
    for name in ("ANTHROPIC", "GEMINI", "GOOGLE", "OPENAI"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    with pytest.raises(HooklineError, match=r"_API_KEY") as caught:
        AgentBuilder().with_model(f"{provider}:x")
    assert "\n" not in str(caught.value)


def test_an_agent_without_a_driver() -> None:
    """It can be built and explained; to run it in any way is wrong use, and says what is missing."""
    agent = AgentBuilder().with_journal(journal := MemoryJournal()).build(model=None)
    assert "model" in agent.explain()
    ways: list[Callable[[], Any]] = [
        lambda: agent.run_sync("go"),
        lambda: agent.run("go"),
        lambda: agent.stream("go"),
        lambda: agent.iterate("go"),
        lambda: agent.resume_sync("some-run"),
        lambda: Sessions(journal).create_sync(id="kept").run_sync(agent, "go"),
    ]
    for way in ways:
        assert refused(way) == (
            "this agent was built without a model, so it cannot run. "
            'Give it one: AgentBuilder().with_model("provider:NAME").'
        )
    assert list(journal.runs_sync()) == []
    able = builder(say("hi")).with_journal(journal).build()
    assert Sessions(journal).get_sync("kept").run_sync(able, "go").text == "hi"


@pytest.mark.parametrize(
    ("driver", "words"),
    [(SyncDriver(), "await"), (TextDriver(), "'hi' instead of an InferenceResponse")],
)
def test_a_driver_that_answers_wrongly_fails_the_run(driver: Any, words: str) -> None:
    """A run never raises for what happens inside it."""
    result = AgentBuilder().with_driver(driver).build().run_sync("go")
    assert (result.status, result.text) == (RunStatus.FAILED, "")
    assert words in str(result.error)


def test_a_script_that_is_too_short_says_so() -> None:
    """How many turns it has, which one was asked for, and what to do."""
    result = builder(call("add", a=1, b=2)).build().run_sync("go")
    assert str(result.error) == (
        "the script has 1 turn, and the agent asked for turn 2. "
        "Add a turn to the script, or find out why the run continued."
    )


@pytest.mark.parametrize("wrong", ["hello", None, ValueError, ["say"]])
def test_an_invalid_turn(wrong: Any) -> None:
    """Text must be said with `say`."""
    message = refused(lambda: ScriptedDriver([say("x"), wrong]))
    assert message.startswith("turn 2 of the script is ")
    assert "Use say(...), call(...), calls(...)" in message


class Brings:
    """A capability with the given parts."""

    name = "brings"

    def __init__(self, given: Any = ()) -> None:
        self.given = given

    def hooks(self) -> Any:
        return self.given


def test_a_capability_twice() -> None:
    """By name, and with the remedy."""
    agent = AgentBuilder().with_capability(Brings())
    assert refused(lambda: agent.with_capability(Brings())) == (
        "capability 'brings' is installed already. Give the second one another name."
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Brings, "brings is a class. Pass an instance: Brings()."),
        (Thing(), "It needs hooks(), tools() or configure(builder)."),
        ("bash", "It needs hooks(), tools() or configure(builder)."),
        (Brings(None), "hooks() of capability 'brings' gave None. Return a list, or yield them."),
        (Brings([fine]), "has no hooks. Decorate it with @on.<point>(...)"),
    ],
)
def test_something_that_is_no_capability(wrong: Any, words: str) -> None:
    """A class, an object without parts, one that forgot to return, and one that gives bare functions."""
    assert words in refused(lambda: AgentBuilder().with_capability(wrong))


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (
            lambda made: made.with_limits(steps=-1),
            "limit steps=-1 is not a number of at least zero.",
        ),
        (lambda made: made.with_limits(tokens="many"), "limit tokens='many'"),
        (lambda made: made.with_limits(objections=None), "limit objections=None"),
        (lambda made: made.with_error_policy("retry"), "'retry' is not an ErrorPolicy."),
        (lambda made: made.with_approver("yes"), "'yes' is not an approver."),
        (lambda made: made.with_system_prompt(None), "the system prompt is text, not None."),
        (lambda made: made.with_id(7), "the agent's id is text, not 7."),
        (lambda made: made.on_event(None), "None is not a listener."),
        (
            lambda made: made.without_default("limits.stepz"),
            "'limits.stepz' is not a default guard.",
        ),
        (lambda made: made.with_hooks(fine), "has no hooks."),
        (lambda made: type(made).on_stop(fine), "this is a method of a builder."),
        (lambda made: ErrorPolicy(max_retries=-1), "max_retries=-1"),
        (lambda made: ErrorPolicy(max_retries=None), "max_retries=None"),
        (lambda made: ErrorPolicy(actions={"tools": "retry"}), "'tools' is not a valid ErrorClass"),
        (lambda made: ErrorPolicy(actions={"tool": "again"}), "'again' is not a valid ErrorAction"),
    ],
)
def test_a_wrong_setting(attempt: Callable[[AgentBuilder], object], words: str) -> None:
    """Refused where it is given, with the value."""
    assert words in refused(lambda: attempt(AgentBuilder()))


def test_an_error_policy_in_words_means_what_it_says() -> None:
    """Text for a class and an action is the same as the constants."""
    policy = ErrorPolicy(actions={"validation": "ignore"}, otherwise="stop")  # type: ignore[dict-item, arg-type]
    assert policy == ErrorPolicy(actions={ErrorClass.VALIDATION: ErrorAction.IGNORE})
    agent = builder(call("nope"), RuntimeError("gone")).with_error_policy(policy).build()
    result = agent.run_sync("go")
    assert (result.status, result.state.step_count) == (RunStatus.FAILED, 2)


def test_a_decorator_without_parentheses() -> None:
    """`@on.before_step` and `@on.before_step()` are the same."""
    seen: list[str] = []

    @on.before_step
    def bare(ctx: Any) -> None:
        seen.append("bare")

    @on.before_step()
    def called(ctx: Any) -> None:
        seen.append("called")

    builder(say("done")).with_hooks(bare, called).build().run_sync("go")
    assert seen == ["bare", "called"]


def test_a_decorator_with_an_option_that_does_not_exist() -> None:
    """Refused where it is written."""
    with pytest.raises(RegistrationError, match="prio"):
        on.before_step(prio=4)(fine)


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: StateProcessorAdapter(Thing()), "has no process(...) method."),
        (
            lambda: StateProcessorAdapter(lambda state: state, position="during"),
            "neither 'before' nor 'after'",
        ),
        (
            lambda: ContinuationCriterionAdapter(Thing()),
            "is not a criterion. It needs evaluate(state).",
        ),
        (lambda: ToolMiddlewareAdapter(Thing()), "has no process(...) method."),
        (lambda: ToolMiddlewareAdapter(Thing), "has no process(...) method."),
    ],
)
def test_something_that_an_adapter_cannot_adapt(attempt: Callable[[], object], words: str) -> None:
    """What it lacks is named."""
    assert words in refused(attempt)


def test_an_adapted_piece_that_answers_nonsense_is_named() -> None:
    """The error names the criterion, not the adapter."""

    class Maybe:
        def evaluate(self, state: AgentState) -> str:
            return "maybe"

    agent = builder().on_should_continue(ContinuationCriterionAdapter(Maybe()))
    assert "hook 'Maybe' at should_continue: it returned 'maybe'" in str(
        agent.build().run_sync("go").error
    )
