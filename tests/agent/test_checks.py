"""What drivers, hooks and tools give is checked before it enters a conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, AgentState, Decision, RunStatus, ToolResult
from hookline.drivers import FallbackDriver, InferenceRequest
from hookline.errors import BuildError, NotJSONError, RegistrationError
from hookline.state import (
    Attachment,
    ErrorInfo,
    InferenceResponse,
    Log,
    Reasoning,
    ResultStatus,
    ToolCall,
    UserMessage,
)
from hookline.testing import ScriptedDriver, call, say


class Plain:
    """Forgot `async`."""

    def infer(self, request: Any, turn: Any) -> Any:
        return InferenceResponse("x")


class Handing:
    """A plain function that gives something to await."""

    def infer(self, request: Any, turn: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        future.set_result(InferenceResponse("x"))
        return future


class Yielding:
    """Streams by yielding, as other libraries have it."""

    async def infer(self, request: Any, turn: Any) -> Any:
        yield InferenceResponse("x")


class YieldingAtOnce:
    """The same, not async."""

    def infer(self, request: Any, turn: Any) -> Any:
        yield InferenceResponse("x")


@pytest.mark.parametrize("driver", [Yielding(), YieldingAtOnce()])
def test_a_generator_is_no_turn(driver: Any) -> None:
    """It is refused before anything runs."""
    with pytest.raises(BuildError, match=r"infer of .* is a generator function.*turn\.emit_text"):
        AgentBuilder().with_driver(driver)


def test_a_plain_function_may_give_something_to_await() -> None:
    """A wrapper that hands on another driver's coroutine, say."""
    assert AgentBuilder().with_driver(Handing()).build().run_sync("go").text == "x"


@pytest.mark.parametrize(
    "driver", [Plain(), FallbackDriver(Plain()), FallbackDriver(Plain(), Plain())]
)
@pytest.mark.parametrize("watched", [False, True])
def test_what_cannot_be_awaited_is_the_drivers_failure(driver: Any, watched: bool) -> None:
    """The error says how infer is written."""
    builder = AgentBuilder().with_driver(driver)
    if watched:  # the turn in which hooks have a say is another one
        builder.on_before_inference(lambda ctx: None)
    result = builder.build().run_sync("go")
    assert result.status is RunStatus.FAILED
    assert "the driver (Plain) gave InferenceResponse(" in str(result.error)
    assert "`async def infer(self, request, turn)`" in str(result.error)


def test_a_model_that_a_hook_asks_is_held_to_the_same() -> None:
    """Where the hook brings a driver of its own."""

    async def consult(ctx: Any) -> None:
        await ctx.run.ask_model(InferenceRequest(), name="me", driver=Plain())

    builder = AgentBuilder().with_driver(Handing()).on_before_step(consult, name="asks")
    assert "the driver (Plain) gave" in str(builder.build().run_sync("go").error)


# --- half of a surrogate pair cannot be saved as it is: it is refused where it enters, and the error says where


HALF = "\ud800"


class Says:
    """A model that gives just this."""

    def __init__(self, response: InferenceResponse) -> None:
        self.response = response

    async def infer(self, request: Any, turn: Any) -> Any:
        return self.response


@pytest.mark.parametrize(
    ("response", "part"),
    [
        (InferenceResponse(HALF), "response.text"),
        (InferenceResponse("x", model=HALF), "response.model"),
        (InferenceResponse("x", finish=HALF), "response.finish"),
        (InferenceResponse("", (ToolCall(HALF, "use"),)), "response.calls[0].id"),
        (InferenceResponse("", (ToolCall("1", HALF),)), "response.calls[0].name"),
        (
            InferenceResponse("", (ToolCall("1", "use"), ToolCall("2", "use", {}, HALF))),
            "response.calls[1].malformed",
        ),
        (InferenceResponse("x", reasoning=(Reasoning(HALF),)), "response.reasoning[0].text"),
        (
            InferenceResponse("x", reasoning=(Reasoning("x", HALF),)),
            "response.reasoning[0].signature",
        ),
    ],
)
def test_half_a_character_in_an_answer_is_the_drivers_failure(
    response: InferenceResponse, part: str
) -> None:
    """Each part of an answer is looked at, and the error names it; the state is saved without loss."""
    result = AgentBuilder().with_driver(Says(response)).build().run_sync("go")
    assert result.status is RunStatus.FAILED
    assert f"{part} that the driver (Says) gave is not valid Unicode" in str(result.error)
    assert AgentState.from_json(result.state.to_json()) == result.state


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (ToolResult("x", reason=HALF), "result.reason"),
        (ToolResult("x", decided_by=HALF), "result.decided_by"),
        (ToolResult(None, ErrorInfo("E", HALF), ResultStatus.ERROR), "result.error.message"),
    ],
)
def test_half_a_character_in_a_result_is_the_tools_failure(value: ToolResult, part: str) -> None:
    """The model reads which part it was."""

    def use() -> object:
        """Use."""
        return value

    driver = ScriptedDriver([call("use"), say("done")])
    result = AgentBuilder().with_driver(driver).with_tools(use).build().run_sync("go")
    text = result.steps[0].results[0].text
    assert f"{part} that tool 'use' gave is not valid Unicode" in text
    assert AgentState.from_json(result.state.to_json()) == result.state


@pytest.mark.parametrize("message", [UserMessage(HALF), UserMessage("x", HALF)], ids=["text", "by"])
def test_a_run_does_not_begin_with_half_a_character_in_a_message(message: UserMessage) -> None:
    """The error is raised where the message is created."""
    agent = AgentBuilder().with_driver(ScriptedDriver([say("x")])).build()
    with pytest.raises(NotJSONError, match="a message of the user says is not valid Unicode"):
        agent.run_sync(state=AgentState(messages=Log([message])))


def test_names_and_ids_with_half_a_character_are_refused() -> None:
    """They are on record with everything that happens."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("x")]))
    with pytest.raises(BuildError, match="the agent's id is not valid Unicode"):
        builder.with_id(HALF)
    with pytest.raises(BuildError, match="the system prompt is not valid Unicode"):
        builder.with_system_prompt(HALF)
    with pytest.raises(RegistrationError, match=r"at before_step: its name is not valid Unicode"):
        builder.on_before_step(lambda ctx: None, name=HALF)
    for option in ("run_id", "session"):
        with pytest.raises(NotJSONError, match=f"{option}= is not valid Unicode"):
            builder.build().run_sync("go", **{option: HALF})


def test_a_no_does_not_fail_of_half_a_character_in_its_reason() -> None:
    """It is replaced there; in a rule, which says for what an answer holds, it is refused."""
    assert Decision.deny(f"no{HALF}").reason == "no?"
    with pytest.raises(NotJSONError, match="the rule of a decision is not valid Unicode"):
        Decision.allow(rule=f"bash({HALF})")


def test_a_file_whose_name_is_no_text_can_be_attached(tmp_path: Path) -> None:
    """The name is for people; an address with half a character leads nowhere."""
    path = tmp_path / "caf\udce9.txt"
    try:
        path.write_bytes(b"x")
    except OSError:
        pytest.skip("this file system has no such names")
    assert Attachment.from_file(path).name == "caf?.txt"
    with pytest.raises(NotJSONError, match="the url of an attachment is not valid Unicode"):
        Attachment("text/plain", url=f"https://example.org/{HALF}")
