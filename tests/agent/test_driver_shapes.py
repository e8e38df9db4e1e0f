"""How a driver may be written: `infer` gives something to await, and what does not is refused with what to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookline import AgentBuilder, RunStatus
from hookline.drivers import FallbackDriver, InferenceRequest
from hookline.errors import BuildError
from hookline.state import InferenceResponse


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
