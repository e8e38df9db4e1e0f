"""Conversations that tests record on a cassette, and agents that play them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx2

from hookline import AgentBuilder, tool
from hookline.drivers import ToolCallingDriver
from hookline.errors import ModelError
from hookline.providers import Piece, Provider, make_provider
from hookline.state import InferenceRequest, UserMessage
from hookline.testing import Cassette, FakeClock, Wire, WireTurn
from wires.anthropic import AnthropicWire
from wires.google import GoogleWire
from wires.openai import OpenAIWire

WIRES: dict[str, Callable[[], Wire]] = {
    "anthropic": AnthropicWire,
    "google": GoogleWire,
    "openai": OpenAIWire,
}
ADDRESSES = {name: f"http://nowhere.test{'/v1' if name == 'openai' else ''}" for name in WIRES}
HELLO = [WireTurn("Hello to you.")]


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent_of(provider: Provider, model: str) -> AgentBuilder:
    """An agent that asks through this provider, and waits for nothing."""
    driver = ToolCallingDriver(model, provider=provider)
    return AgentBuilder().with_driver(driver).with_tools(add).with_clock(FakeClock())


async def asked(provider: Provider, model: str, *, streamed: bool) -> list[Piece | str]:
    """What a provider answers, and the class of the error that ends it."""
    request = InferenceRequest([UserMessage("Hello!")], model=model)
    heard: list[Piece | str] = []
    try:
        async for piece in provider.ask(request, streamed=streamed):
            heard.append(piece)
    except ModelError as error:
        heard.append(f"{type(error).__name__} {getattr(error, 'retry_after', None)}")
    return heard


async def record(path: Path, turns: Sequence[WireTurn] = HELLO, prompt: str = "Hello!") -> None:
    """Make a cassette of a conversation with OpenAI's far end."""
    wire = OpenAIWire()
    with Cassette(path, mode="record"):
        async with wire.provider(turns) as provider:
            await agent_of(provider, wire.model).build().run(prompt)


def text_of(path: Path) -> str:
    """The content of the file; nothing without a file."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def replayer(**settings: Any) -> AgentBuilder:
    """An agent like the one that was recorded, without a key."""
    return agent_of(make_provider("openai", **settings), OpenAIWire().model)


def client_of(cassette: Cassette, **settings: Any) -> AbstractAsyncContextManager[Any]:
    """A bare client that asks through a cassette."""
    return httpx2.AsyncClient(transport=cassette.transport(), **settings)
