"""Every driver, over every provider, run and streamed, passes one conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from hookline import AgentBuilder, RunStatus
from hookline.drivers import ReActDriver, ToolCallingDriver
from hookline.providers import Feature, make_provider, provider_names
from hookline.providers.openai import OpenAIProvider
from hookline.testing import (
    Failure,
    ProviderCase,
    ScriptedWire,
    Wire,
    WireTurn,
    provider_cases,
)

pytestmark = pytest.mark.usefixtures("few_certificates")

WIRES: dict[str, Callable[[], Wire]] = {
    "anthropic": lambda: _wire("anthropic", "AnthropicWire"),
    "google": lambda: _wire("google", "GoogleWire"),
    "local": lambda: _wire("local", "LocalWire"),
    "openai": lambda: _wire("openai", "OpenAIWire"),
    "scripted": ScriptedWire,
    "text only": lambda: ScriptedWire(frozenset()),
}
OTHER_NAMES = {"lmstudio", "ollama"}
"""OpenAI's provider under another name, with another address."""
PAID_ALL_THE_SAME = [
    ("anthropic", Failure.REFUSAL),
    ("openai", Failure.REFUSAL),
    ("openai", Failure.CONTENT_FILTER),
]
MUST_PASS = """
    text / one call / block / stop / ask / limit / invalid arguments / unknown tool / cancelled / usage
""".split("/")
"""What no provider that calls tools natively may declare away."""


def _wire(module: str, name: str) -> Wire:
    wire: Wire = getattr(import_module(f"wires.{module}"), name)()
    return wire


@pytest.mark.parametrize("case", provider_cases(), ids=str)
@pytest.mark.parametrize("provider", WIRES)
async def test_a_provider_conforms(provider: str, case: ProviderCase) -> None:
    """It passes the case, or declares that it cannot do what the case needs."""
    why_not = await case.check(WIRES[provider]())
    needs_everything = provider != "text only" and case.name in map(str.strip, MUST_PASS)
    assert not (why_not and needs_everything), why_not


def test_every_provider_is_in_the_matrix() -> None:
    """One that is added without its server does not go untested."""
    assert set(provider_names()) <= set(WIRES) | OTHER_NAMES
    for name in OTHER_NAMES:
        made = make_provider(name)
        assert isinstance(made, OpenAIProvider)
        assert made.name == name


def test_every_driver_is_in_the_matrix() -> None:
    """By the names the suite gives them."""
    assert {case.driver for case in provider_cases()} == {"tool calling", "react"}
    assert ToolCallingDriver is not ReActDriver


@pytest.mark.parametrize("provider", [each for each in provider_names() if each in WIRES])
async def test_a_provider_declares_what_it_can_do(provider: str) -> None:
    """In the words that drivers check."""
    async with WIRES[provider]().provider([]) as made:
        assert made.name == provider
        assert made.features <= frozenset(Feature)
        assert Feature.TOOLS in made.features


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("provider", "failure"), PAID_ALL_THE_SAME)
async def test_an_answer_that_is_an_error_is_paid_for(
    provider: str, failure: Failure, streamed: bool
) -> None:
    """The tokens that the server counted are in the run's usage, although the answer is invalid."""
    wire = WIRES[provider]()
    turn = WireTurn("Some words.", failure=failure, input_tokens=12, output_tokens=7)
    async with wire.provider([turn]) as asked:
        agent = AgentBuilder().with_driver(ToolCallingDriver(wire.model, provider=asked)).build()
        if streamed:
            stream = agent.stream("go")
            async for _ in stream:
                pass
            result = stream.result
        else:
            result = await agent.run("go")
    used = result.usage
    assert result.status is RunStatus.FAILED
    assert (used.input_tokens, used.output_tokens, used.requests) == (12, 7, 1)
    assert (used.cost is None) is (used.unpriced_requests == 1)
