from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from hookline.errors import ConnectionLostError, ModelError, ModelTimeoutError, UsageError
from hookline.providers import CallPiece, EndPiece, Feature, Piece, TextPiece
from hookline.state import InferenceRequest, ToolMessage, Usage
from hookline.testing import (
    Failure,
    ScriptedProvider,
    ScriptedWire,
    WireTurn,
    check_provider,
    provider_cases,
)

Change = Callable[[Piece], Piece | None]


class Changed(ScriptedProvider):
    """A provider with a fault: its pieces are changed, or left out."""

    change: Change = staticmethod(lambda piece: piece)

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        async for piece in super().ask(request, streamed=streamed):
            changed = type(self).change(piece)
            if changed is not None:
                yield changed


def wire_of(kind: type[ScriptedProvider], **fields: Any) -> Callable[[], Any]:
    """Makes wires whose provider is of that kind."""

    class FaultyWire(ScriptedWire):
        @asynccontextmanager
        async def provider(self, turns: Sequence[WireTurn]) -> AsyncIterator[ScriptedProvider]:
            self._provider = kind(turns, **fields)
            yield self._provider

    return FaultyWire


def faulty(change: Change) -> Callable[[], Any]:
    """Makes wires whose provider has that fault."""
    return wire_of(type("Faulty", (Changed,), {"change": staticmethod(change)}))


def rewording(reworded: Callable[[ModelError], ModelError]) -> Callable[[], Any]:
    """Makes wires whose provider raises something else than it should."""

    class Rewording(ScriptedProvider):
        async def ask(
            self, request: InferenceRequest, *, streamed: bool
        ) -> AsyncGenerator[Piece, None]:
            try:
                async for piece in super().ask(request, streamed=streamed):
                    yield piece
            except ModelError as error:
                raise reworded(error) from None

    return wire_of(Rewording)


def misled(change: Callable[[InferenceRequest], InferenceRequest]) -> Callable[[], Any]:
    """Makes wires whose provider sends another request than it was given."""

    class Misled(ScriptedProvider):
        async def ask(
            self, request: InferenceRequest, *, streamed: bool
        ) -> AsyncGenerator[Piece, None]:
            pieces = super().ask(change(request), streamed=streamed)
            try:
                async for piece in pieces:
                    yield piece
            finally:
                await pieces.aclose()

    return wire_of(Misled)


def saying(**fields: Any) -> Callable[[], Any]:
    """Makes wires whose provider always says the same in a part of the request."""
    return misled(lambda request: msgspec.structs.replace(request, **fields))


def with_results(**fields: Any) -> Callable[[], Any]:
    """Makes wires whose provider always says the same of a call's result."""

    def change(request: InferenceRequest) -> InferenceRequest:
        return request.with_messages(
            [
                msgspec.structs.replace(one, **fields) if isinstance(one, ToolMessage) else one
                for one in request.messages
            ]
        )

    return misled(change)


def _swapped(request: InferenceRequest) -> InferenceRequest:
    """The results of parallel calls, the last one first, under the ids as they were."""
    texts = [one.text for one in request.messages if isinstance(one, ToolMessage)]
    return request.with_messages(
        [
            msgspec.structs.replace(one, text=texts.pop()) if isinstance(one, ToolMessage) else one
            for one in request.messages
        ]
    )


def _undescribed(request: InferenceRequest) -> InferenceRequest:
    """The tools by their names alone."""
    bare = [msgspec.structs.replace(one, description="", parameters={}) for one in request.tools]
    return request.with_tools(tuple(bare))


def _blind(request: InferenceRequest) -> InferenceRequest:
    """The messages without what is attached to them."""
    return request.with_messages(
        [
            msgspec.structs.replace(one, attachments=()) if hasattr(one, "attachments") else one
            for one in request.messages
        ]
    )


def _plain(error: ModelError) -> ModelError:
    """The general error for whatever happens, without a remedy."""
    return ModelError(error.message)


def _indiscreet(error: ModelError) -> ModelError:
    """The same error, with the key in it."""
    error.args = (f"{error} (Authorization: Bearer sk-live-abcdef0123456789)",)
    return error


def _impatient(error: ModelError) -> ModelError:
    """A lost connection in place of a timeout."""
    if isinstance(error, ModelTimeoutError):
        return ConnectionLostError(error.message, remedy=error.remedy)
    return error


def _cut_off(piece: Piece) -> Piece:
    return EndPiece(piece.usage, piece.model, "length") if isinstance(piece, EndPiece) else piece


def _no_usage(piece: Piece) -> Piece:
    return EndPiece(Usage(requests=1), piece.model) if isinstance(piece, EndPiece) else piece


def _unpriced(piece: Piece) -> Piece:
    if not isinstance(piece, EndPiece):
        return piece
    return EndPiece(msgspec.structs.replace(piece.usage, cost=None), piece.model)


FAULTS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "text is lost": (
        faulty(lambda piece: TextPiece("") if isinstance(piece, TextPiece) else piece),
        ["text"],
    ),
    "the end is lost": (faulty(lambda p: None if isinstance(p, EndPiece) else p), ["text", "ask"]),
    "arguments are lost": (
        faulty(lambda p: CallPiece(p.index, p.id, p.name) if isinstance(p, CallPiece) else p),
        ["one call"],
    ),
    "tokens are not counted": (faulty(_no_usage), ["usage"]),
    "an unknown price is zero": (faulty(_unpriced), ["usage"]),
    "errors have no class": (rewording(_plain), ["error: rate limit", "error: server error"]),
    "delays are forgotten": (rewording(_plain), ["retried"]),
    "a demand for a tool is dropped": (saying(tool_choice="auto"), ["tool choice"]),
    "options are dropped": (saying(options={}), ["options"]),
    "one model is asked for all": (saying(model="always-the-same"), ["other model"]),
    "tools are not described": (misled(_undescribed), ["text"]),
    "results are swapped": (misled(_swapped), ["parallel calls"]),
    "all results are the first call's": (with_results(call_id="call_0"), ["parallel calls"]),
    "a failed call is hidden": (with_results(is_error=False), ["failed call"]),
    "the key is shown": (rewording(_indiscreet), ["error: bad key", "error: server error"]),
    "a timeout is something else": (rewording(_impatient), ["error: timeout"]),
    "every answer is cut off": (faulty(_cut_off), ["text"]),
    "images do not arrive": (misled(_blind), ["attachments"]),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found(fault: str) -> None:
    """And the report names the case, with what was expected and what came."""
    make_wire, cases = FAULTS[fault]
    report = await check_provider(make_wire, only=cases)
    assert not report.ok
    assert {name.partition(" (")[0] for name in report.failed} == set(cases)
    text = str(report)
    assert text.startswith("does not conform")
    assert "expected" in text
    assert not report


async def test_a_good_provider_conforms() -> None:
    """All cases, with both drivers, run and streamed."""
    report = await check_provider(ScriptedWire)
    assert report.ok, report
    assert str(report).startswith("conforms: ")
    assert len(report.passed) + len(report.skipped) == len(provider_cases())


async def test_a_provider_without_features_conforms_as_far_as_it_goes() -> None:
    """What it does not declare is skipped, by name and with the reason; that it refuses is checked."""
    report = await check_provider(lambda: ScriptedWire(frozenset()))
    assert report.ok, report
    assert report.skipped["one call (tool calling, run)"] == (
        "the provider does not declare tool calls"
    )
    assert "one call (react, run)" in report.passed
    assert "undeclared (tool calling, stream)" in report.passed


async def test_failures_a_far_end_does_not_know_are_skipped() -> None:
    """Not every protocol has every failure."""

    class Calm(ScriptedWire):
        failures = frozenset({Failure.CUT})

    report = await check_provider(Calm, only=["error: cut", "error: refusal", "retried", "left"])
    assert report.ok
    assert {name.partition(" (")[0] for name in report.passed} == {"error: cut"}


async def test_a_provider_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite does not hang with it."""
    monkeypatch.setattr("hookline.testing.provider_suite._PATIENCE", 0.02)

    class Hangs(ScriptedWire):
        hung_up = False  # it never notices

    report = await check_provider(Hangs, only=["cancelled"])
    assert not report.ok
    assert "none within 0.02 s" in str(report)


async def test_a_case_that_does_not_exist_is_refused() -> None:
    """With those there are."""
    with pytest.raises(UsageError, match="there is no case 'txt'"):
        await check_provider(ScriptedWire, only=["txt"])


def test_a_case_says_what_it_is_about() -> None:
    """In a name for reports, and a sentence."""
    case = provider_cases()[0]
    assert str(case) == "text (tool calling, run)"
    assert case.meaning.startswith("The model answers")
    assert all(one.meaning for one in provider_cases())


def test_a_scripted_provider_says_when_its_script_is_over() -> None:
    """As a scripted driver does."""
    from hookline import AgentBuilder
    from hookline.drivers import ToolCallingDriver

    driver = ToolCallingDriver("m", provider=ScriptedProvider([], features=frozenset(Feature)))
    result = AgentBuilder().with_driver(driver).build().run_sync("go")
    assert "the script has 0 turns" in str(result.error)
