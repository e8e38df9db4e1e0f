"""What a case of the provider suite works with: a server, a driver, an agent, and a way to drive it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hookline.agent import Agent, AgentBuilder, RunResult
from hookline.drivers import Driver, ReActDriver, ToolCallingDriver
from hookline.flow import ErrorPolicy
from hookline.journal import CallDelta, ErrorRaised, ReasoningDelta, Record, TextDelta
from hookline.providers import Feature, Provider
from hookline.state import Attachment
from hookline.testing.clock import FakeClock
from hookline.testing.report import Deviation, Inapplicable, Mismatch
from hookline.testing.wire import Wire, WireCall, WireTurn

DRIVERS: dict[str, type[ToolCallingDriver] | type[ReActDriver]] = {
    "tool calling": ToolCallingDriver,
    "react": ReActDriver,
}
_PATIENCE = 0.005


def look_up(key: str, times: int = 1) -> str:
    """Look something up.

    Args:
        key: What to look for.
        times: How often.
    """
    return f"found {key}" * times


class RunView(msgspec.Struct, frozen=True):
    """A run as its caller saw it."""

    result: RunResult
    streamed: tuple[Record, ...] = ()

    @property
    def text(self) -> str:
        """The text as it streamed."""
        return "".join(one.text for one in self.streamed if isinstance(one, TextDelta))

    @property
    def text_pieces(self) -> int:
        """In how many pieces it came."""
        return sum(isinstance(one, TextDelta) for one in self.streamed)

    @property
    def reasoning(self) -> str:
        """The thinking as it streamed."""
        return "".join(one.text for one in self.streamed if isinstance(one, ReasoningDelta))

    def since_error(self) -> RunView:
        """What came after the last error: what came before it is void."""
        errors = [n for n, one in enumerate(self.streamed) if isinstance(one, ErrorRaised)]
        return RunView(self.result, self.streamed[errors[-1] :] if errors else self.streamed)

    def arguments(self, call_id: str) -> str:
        """The arguments of a call as they streamed."""
        deltas = (one for one in self.streamed if isinstance(one, CallDelta))
        return "".join(one.arguments for one in deltas if one.call_id == call_id)


class CaseSetup:
    """One case of the suite, for one driver and one way of driving."""

    def __init__(self, wire: Wire, driver: str, *, streamed: bool) -> None:
        self.wire = wire
        self.driver = driver
        self.streamed = streamed
        self.clock = FakeClock()
        self.features: frozenset[Feature] = frozenset()
        self._played: Sequence[dict[str, Any]] | None = None

    @property
    def is_native(self) -> bool:
        """Whether tools are called natively."""
        return self.driver == "tool calling"

    @property
    def mode(self) -> str:
        """What this is, for reports."""
        return f"{self.driver}, {'stream' if self.streamed else 'run'}"

    # --- the server ------------------------------------------------------------------------------

    def turn(self, text: str = "", *calls: WireCall, **more: Any) -> WireTurn:
        """An answer of the server, as the driver's model would write it."""
        if self.is_native:
            return WireTurn(text, calls, **more)
        spoken: dict[str, Any] = {"thought": "Hm."}
        if calls:
            spoken["calls"] = [{"tool": one.name, "args": one.raw or one.args} for one in calls]
        if text:
            spoken["answer"] = text
        return WireTurn(json.dumps(spoken), **more)

    @property
    def requests(self) -> Sequence[dict[str, Any]]:
        """The requests that arrived; after `play`, those of the run that was played."""
        return self.wire.requests if self._played is None else self._played

    def request_text(self, number: int) -> str:
        """A request that arrived, as text to look for things in."""
        requests = self.requests
        if number >= len(requests):
            self.expect("requests that arrived", number + 1, len(requests))
        return json.dumps(requests[number], ensure_ascii=False)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that happens at the server."""
        while not condition():  # noqa: ASYNC110 - the servers are other people's, and have no event for this
            await asyncio.sleep(_PATIENCE)

    # --- the agent --------------------------------------------------------------------------------

    @asynccontextmanager
    async def agent(
        self,
        *turns: WireTurn,
        configure: Callable[[AgentBuilder], object] | None = None,
        needs: Sequence[Feature] = (),
        tools: Sequence[Any] = (look_up,),
        **options: Any,
    ) -> AsyncIterator[Agent]:
        """An agent whose model plays these turns. A case that needs what the provider does not have ends here."""
        async with self.wire.provider(turns) as provider:
            self.features = provider.features
            if any(turn.calls for turn in turns):
                self._require(Feature.TOOLS)
            self._require(*needs)
            builder = AgentBuilder().with_driver(self._driver(provider, **options))
            if self.offers_tools:
                builder.with_tools(*tools)
            builder.with_clock(self.clock).with_id("provider-suite")
            builder.with_system_prompt("Be of use.").with_error_policy(ErrorPolicy(max_retries=0))
            if configure is not None:
                configure(builder)
            yield builder.build()

    def _driver(self, provider: Provider, **options: Any) -> Driver:
        return DRIVERS[self.driver](self.wire.model, provider=provider, **options)

    @property
    def offers_tools(self) -> bool:
        """Whether the model can be offered tools: natively, or in words."""
        return Feature.TOOLS in self.features or not self.is_native

    def _require(self, *features: Feature) -> None:
        for feature in features:
            if feature not in self.features:
                raise Inapplicable(f"the provider does not declare {feature.value}")

    async def play(
        self,
        *turns: WireTurn,
        prompt: str = "Go.",
        attachments: Sequence[Attachment] = (),
        **settings: Any,
    ) -> RunView:
        """Run an agent whose model plays these turns, once; see `agent`."""
        self._played = None
        async with self.agent(*turns, **settings) as agent:
            seen = await self.drive(agent, prompt, attachments)
            self._played = list(self.wire.requests)
        return seen

    async def drive(
        self, agent: Agent, prompt: str = "Go.", attachments: Sequence[Attachment] = ()
    ) -> RunView:
        """Run the agent in this case's way."""
        if not self.streamed:
            return RunView(await agent.run(prompt, attachments=list(attachments)))
        stream = agent.stream(prompt, attachments=list(attachments))
        records = [record async for record in stream]
        return RunView(stream.result, tuple(records))

    # --- what should be -----------------------------------------------------------------------------

    def expect(self, what: str, expected: Any, got: Any, remedy: str = "") -> None:
        """Refuse what is not as it should be."""
        if got != expected:
            raise Mismatch(Deviation(self.mode, what, expected, got, remedy))

    def expect_in(self, what: str, part: str, whole: str, remedy: str = "") -> None:
        """Refuse a text that lacks something."""
        if part not in whole:
            raise Mismatch(Deviation(self.mode, what, f"... {part} ...", whole, remedy))
