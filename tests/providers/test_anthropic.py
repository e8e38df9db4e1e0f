"""Answers of Anthropic's models, over the wire."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from wires.answers import BOTH_WAYS, end_of, heard, text_of
from wires.anthropic import (
    EVENTS,
    JSON,
    KEY,
    AnthropicWire,
    block_events,
    ending,
    error_body,
    event,
    start,
    streaming,
    talking_to,
)
from wires.anthropic_rules import objection
from wires.server import Exchange, Server

from hookline.agent import AgentBuilder
from hookline.drivers import ToolCallingDriver
from hookline.errors import (
    AuthenticationError,
    ConnectionLostError,
    ContextOverflowError,
    MalformedResponseError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    UnsupportedError,
)
from hookline.providers import CallPiece, ReasoningPiece, TextPiece
from hookline.providers.anthropic import AnthropicProvider
from hookline.state import ToolSpec
from hookline.testing.wire import Failure, WireCall, WireTurn

MODEL = AnthropicWire.model
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
request = AnthropicWire.asking
pytestmark = pytest.mark.usefixtures("no_settings")


class Nearby(httpx2.AsyncHTTPTransport):
    """Carries to a server here what is meant for Anthropic."""

    needs_key = True

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = httpx2.URL(url)

    def transport(self) -> httpx2.AsyncBaseTransport:
        """Itself."""
        return self

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        here = self._url
        request.url = request.url.copy_with(scheme=here.scheme, host=here.host, port=here.port)
        return await super().handle_async_request(request)


@BOTH_WAYS
async def test_text_arrives_with_usage(streamed: bool) -> None:
    """An answer is its text and what it used. What that cost, a server other than Anthropic's does not say."""
    wire = AnthropicWire()
    turn = WireTurn("Grüße, 世界 🌍!", input_tokens=1000, output_tokens=100)
    async with wire.provider([turn]) as provider:
        pieces = await heard(provider, request(), streamed=streamed)
    end = end_of(pieces)
    assert text_of(pieces) == "Grüße, 世界 🌍!"
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.requests) == (1000, 100, 1)
    assert (end.usage.cost, end.usage.unpriced_requests) == (None, 1)  # not Anthropic's price
    assert (end.model, end.finish) == (MODEL, "")
    assert wire.requests[0].get("stream", False) is streamed
    assert len(pieces) > 2 if streamed else len(pieces) == 2


@BOTH_WAYS
async def test_calls_arrive_with_their_arguments(streamed: bool) -> None:
    """Several calls of one answer come apart again, whatever the chunks were."""
    calls = (
        WireCall("add", {"a": 1, "text": "ä\n"}),
        WireCall("stop"),
        WireCall("bad", raw='{"a": '),
    )
    async with AnthropicWire().provider([WireTurn("So.", calls)]) as provider:
        pieces = await heard(provider, request(tools=(ADD,)), streamed=streamed)
    made: dict[int, list[str]] = {}
    for piece in pieces:
        if isinstance(piece, CallPiece):
            call = made.setdefault(piece.index, [piece.id, piece.name, ""])
            call[2] += piece.arguments
    (one, two, three) = made.values()
    assert one[:2] == ["toolu_0", "add"]
    assert json.loads(one[2]) == {"a": 1, "text": "ä\n"}
    assert two == ["toolu_1", "stop", ""]
    assert three == ["toolu_2", "bad", '{"a": ']


@BOTH_WAYS
async def test_thinking_arrives_with_its_seal(streamed: bool) -> None:
    """Thinking is distinguished from text, and its signature is kept."""
    async with AnthropicWire().provider([WireTurn("Four.", reasoning="Two and two.")]) as provider:
        pieces = await heard(provider, request(), streamed=streamed)
    thoughts = [piece for piece in pieces if isinstance(piece, ReasoningPiece)]
    assert "".join(piece.text for piece in thoughts) == "Two and two."
    assert "".join(piece.signature for piece in thoughts) == "c2VhbGVk+/=="
    assert {piece.index for piece in thoughts} == {0}
    assert text_of(pieces) == "Four."


@BOTH_WAYS
async def test_thinking_goes_back_as_it_came(streamed: bool) -> None:
    """In a run, what the model thought before a call is sent back with the call, seal and all."""
    wire = AnthropicWire()
    turns = [
        WireTurn("Let me see.", (WireCall("add", {"a": 1, "b": 2}),), reasoning="One, two."),
        WireTurn("Three."),
    ]

    def add(a: int, b: int) -> int:
        return a + b

    async with wire.provider(turns) as provider:
        driver = ToolCallingDriver(wire.model, provider=provider)
        agent = AgentBuilder().with_driver(driver).with_tools(add).build()
        if streamed:
            stream = agent.stream("Add.")
            assert [record async for record in stream]
            result = stream.result
        else:
            result = await agent.run("Add.")
    assert result.text == "Three."
    assert wire.requests[1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "One, two.", "signature": "c2VhbGVk+/=="},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "toolu_0", "name": "add", "input": {"a": 1, "b": 2}},
    ]


async def test_cached_tokens_count_as_input() -> None:
    """All input is counted and priced, and of it what was read from the cache and what was written to it."""
    usage = {"input_tokens": 7, "cache_read_input_tokens": 1000}
    late = {"cache_creation_input_tokens": 500, "output_tokens": 20}
    far_end = streaming(start(**usage, output_tokens=1), *ending("end_turn", **late))
    async with Server(far_end) as server:
        provider = AnthropicProvider(api_key=KEY, cassette=Nearby(server.url))
        used = end_of(await heard(provider, request(), streamed=True)).usage
        await provider.aclose()
    assert (used.input_tokens, used.output_tokens) == (1507, 20)
    assert (used.cache_read_tokens, used.cache_write_tokens) == (1000, 500)
    assert used.cost == pytest.approx(7 * 3e-6 + 1000 * 0.3e-6 + 500 * 3.75e-6 + 20 * 15e-6)


async def test_an_unknown_price_is_unknown() -> None:
    """A model nobody has a price for is counted as unpriced, not as free."""
    message = {**start(input_tokens=5, output_tokens=5)["message"], "model": "in-house-1"}

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, message, JSON)

    async with talking_to(far_end) as (provider, _):
        used = end_of(await heard(provider, request(), streamed=False)).usage
    assert used.cost is None
    assert used.unpriced_requests == 1


@pytest.mark.parametrize(("reason", "finish"), [("max_tokens", "length"), ("stop_sequence", "")])
async def test_why_the_model_stopped(reason: str, finish: str) -> None:
    """Running out of tokens is reported; ending at a stop sequence is an ordinary end."""
    async with talking_to(streaming(start(), *ending(reason))) as (provider, _):
        assert end_of(await heard(provider, request(), streamed=True)).finish == finish


async def test_unknown_events_and_blocks_are_passed_over() -> None:
    """The protocol may grow: what is not known does no harm."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
    far_end = streaming(
        start(),
        {"type": "something_new", "index": 0},
        *block_events(0, {**search, "input": {"query": "x"}}),
        {"type": "content_block_start", "index": 1, "content_block": {"type": "hologram"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "hologram_delta"}},
        *block_events(2, {"type": "text", "text": "Found."}),
        *ending("end_turn"),
    )
    async with talking_to(far_end) as (provider, _):
        pieces = await heard(provider, request(), streamed=True)
    assert text_of(pieces) == "Found."
    assert not [piece for piece in pieces if isinstance(piece, CallPiece)]


@BOTH_WAYS
async def test_a_paused_answer_is_resumed(streamed: bool) -> None:
    """An answer that the server pauses is sent back as it came, and its usage is summed."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
    first = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "Looking."},
        {**search, "input": {"query": "x"}},
    ]
    answers = [(first, "pause_turn"), ([{"type": "text", "text": " Found."}], "end_turn")]

    async def far_end(exchange: Exchange) -> None:
        content, reason = answers.pop(0)
        if not streamed:
            message = {**start(input_tokens=10, output_tokens=5)["message"], "content": content}
            await exchange.reply(200, {**message, "stop_reason": reason}, JSON)
            return
        grown = [each for index, block in enumerate(content) for each in block_events(index, block)]
        whole = streaming(start(input_tokens=10), *grown, *ending(reason, output_tokens=5))
        await whole(exchange)

    async with talking_to(far_end) as (provider, server):
        pieces = await heard(provider, request(), streamed=streamed)
    assert text_of(pieces) == "Looking. Found."
    used = end_of(pieces).usage
    assert (used.requests, used.input_tokens, used.output_tokens) == (2, 20, 10)
    assert server.requests[1].json()["messages"][-1] == {"role": "assistant", "content": first}


async def test_an_answer_that_is_paused_forever_ends() -> None:
    """A server that only pauses is not asked without end, and what came is not lost."""
    blocks = block_events(0, {"type": "text", "text": "."})
    far_end = streaming(start(), *blocks, *ending("pause_turn"))
    async with talking_to(far_end) as (provider, server):
        pieces = await heard(provider, request(), streamed=True)
    assert end_of(pieces).finish == "pause"
    assert text_of(pieces) == "." * len(server.requests)


async def test_a_long_answer_is_streamed_in_any_case() -> None:
    """No connection is kept silent for the minutes that a very long answer takes."""
    wire = AnthropicWire()
    async with wire.provider([WireTurn("Hi.")]) as provider:
        pieces = await heard(provider, request(options={"max_tokens": 64_000}), streamed=False)
    assert wire.requests[0]["stream"] is True
    assert text_of(pieces) == "Hi."


# --- how Anthropic is reached and left: keys, headers and connections ---------------------------------


@contextmanager
def threaded_server() -> Iterator[str]:
    """A server outside of any event loop, which keeps its connections open; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            content = [{"type": "text", "text": "Hi."}]
            body = json.dumps({**start()["message"], "content": content}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key and the address are found in the environment, and the key is sent as the API wants it."""
    async with Server(streaming(start(), *ending("end_turn"))) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        provider = AnthropicProvider(headers={"anthropic-beta": "x-1"})
        await heard(provider, request(), streamed=True)
        await provider.aclose()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["anthropic-beta"] == "x-1"
    assert KEY not in repr(provider)


async def test_the_key_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the libraries log, however much they are asked to, the key is not in it."""
    caplog.set_level(logging.DEBUG)
    turns = [WireTurn("Hi."), WireTurn(failure=Failure.BAD_KEY)]
    async with AnthropicWire().provider(turns) as provider:
        await heard(provider, request(), streamed=True)
        with pytest.raises(AuthenticationError):
            await heard(provider, request(), streamed=False)
    assert "/v1/messages" in caplog.text
    assert KEY not in caplog.text


async def test_a_server_of_ones_own_needs_no_key() -> None:
    """Where no key is known, none is made up and sent."""
    far_end = streaming(start(), *ending("end_turn"))
    async with talking_to(far_end, api_key="") as (provider, server):
        await heard(provider, request(), streamed=True)
    assert "authorization" not in server.requests[0].headers


async def test_a_header_can_bring_the_key() -> None:
    """Who signs requests in another way can do so."""
    far_end = streaming(start(), *ending("end_turn"))
    headers = {"Authorization": "Basic abc"}
    async with talking_to(far_end, api_key="", headers=headers) as (provider, server):
        await heard(provider, request(), streamed=True)
    assert server.requests[0].headers["authorization"] == "Basic abc"


async def test_closing_the_generator_hangs_up_at_once() -> None:
    """Who stops reading closes the connection: the server stops writing, and paying for it."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, EVENTS)
        await exchange.send(event(start()))
        for each in block_events(0, {"type": "text", "text": "Once"}):
            await exchange.send(event(each))
        await exchange.until_hung_up()

    async with talking_to(far_end) as (provider, server):
        pieces = provider.ask(request(), streamed=True)
        assert isinstance(await anext(pieces), TextPiece)
        await pieces.aclose()
        await server.hang_up.wait()


async def test_connections_are_kept_for_the_next_question() -> None:
    """Questions one after the other share a connection, whichever way they are answered."""

    async def far_end(exchange: Exchange) -> None:
        if exchange.request.json().get("stream"):
            await streaming(start(), *ending("end_turn"))(exchange)
        else:
            await exchange.reply(200, start()["message"], JSON)

    async with talking_to(far_end) as (provider, server):
        for streamed in (True, False, True):
            await heard(provider, request(), streamed=streamed)
    assert server.connections == 1


def test_one_provider_serves_several_event_loops() -> None:
    """Each loop gets connections of its own, as one `run_sync` after the other needs it."""
    with threaded_server() as url:
        provider = AnthropicProvider(api_key=KEY, base_url=url)
        for _ in range(3):
            assert text_of(asyncio.run(heard(provider, request(), streamed=False))) == "Hi."


# --- what goes wrong at Anthropic, or on the way there ------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", OverloadedError),
        ("rate_limit_error", RateLimitError),
        ("timeout_error", ModelTimeoutError),
        ("api_error", OverloadedError),
    ],
)
async def test_an_error_in_the_middle_of_a_stream(kind: str, expected: type[ModelError]) -> None:
    """An error event after half of the answer is the error it would have been before it."""
    far_end = streaming(
        start(), *block_events(0, {"type": "text", "text": "Once"}), error_body(kind, "Sorry")
    )
    async with talking_to(far_end) as (provider, _):
        pieces = provider.ask(request(), streamed=True)
        heard = [await anext(pieces) for _ in range(4)]
        with pytest.raises(ModelError, match="Sorry") as caught:
            await anext(pieces)
    assert type(caught.value) is expected
    assert text_of(heard) == "Once"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, error_body("permission_error", "Not allowed."), AuthenticationError),
        (402, error_body("billing_error", "No money."), AuthenticationError),
        (
            400,
            error_body("invalid_request_error", "Your credit balance is too low."),
            AuthenticationError,
        ),
        (413, error_body("request_too_large", "Request exceeds 32 MB."), ContextOverflowError),
        (413, "<html>too large</html>", ContextOverflowError),
        (
            400,
            error_body(
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ),
            ContextOverflowError,
        ),
        (
            400,
            error_body("invalid_request_error", "messages.0: all is lost"),
            ModelError,
        ),
        (504, error_body("timeout_error", "Too slow."), ModelTimeoutError),
        (503, "<html>try later</html>", OverloadedError),
        (500, "", OverloadedError),
        (520, "", OverloadedError),
        (418, "{}", ModelError),
        (400, {"error": {"type": ["?"], "message": {"a": 1}}}, ModelError),
        (404, {"detail": "Not Found"}, ModelNotFoundError),
        (500, {"error": "boom"}, OverloadedError),
    ],
)
async def test_statuses(status: int, body: Any, expected: type[ModelError]) -> None:
    """What a status means is known also when a proxy answers, in words of its own."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(status, body)

    async with talking_to(far_end) as (provider, _):
        for streamed in (False, True):
            with pytest.raises(ModelError) as caught:
                await heard(provider, request(), streamed=streamed)
            assert type(caught.value) is expected
            assert caught.value.remedy


async def test_an_option_that_is_gone_is_reported() -> None:
    """The API no longer takes a temperature: the error names it."""
    async with AnthropicWire().provider([WireTurn("Hi.")]) as provider:
        with pytest.raises(UnsupportedError, match="temperature: Extra inputs"):
            await heard(provider, request(options={"temperature": 0}), streamed=False)


async def test_an_older_version_of_the_api_can_be_asked_for() -> None:
    """Who needs a temperature can ask for the version that has one, in the headers."""

    async def far_end(exchange: Exchange) -> None:
        assert not objection(exchange.request)
        await exchange.reply(200, start()["message"], JSON)

    headers = {"anthropic-version": "2023-06-01"}
    async with talking_to(far_end, headers=headers) as (provider, server):
        await heard(provider, request(options={"temperature": 0}), streamed=False)
    assert server.requests[0].json()["temperature"] == 0


async def test_a_stream_that_stops_in_good_order_before_its_end_is_cut() -> None:
    """An answer without its last event is not an answer, however politely the server left."""
    far_end = streaming(start(), *block_events(0, {"type": "text", "text": "Once"}))
    async with talking_to(far_end) as (provider, _):
        with pytest.raises(ConnectionLostError):
            await heard(provider, request(), streamed=True)


@BOTH_WAYS
async def test_what_is_no_answer_is_malformed(streamed: bool) -> None:
    """A page of something else, with the status of a success, is not taken for an answer."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(
            200, "<html>Welcome to the hotel</html>", {"content-type": "text/html"}
        )

    async with talking_to(far_end) as (provider, _):
        with pytest.raises(MalformedResponseError):
            await heard(provider, request(), streamed=streamed)


@BOTH_WAYS
async def test_what_cannot_be_unpacked_is_malformed(streamed: bool) -> None:
    """A body that is not packed as it says is malformed."""
    kind = "text/event-stream" if streamed else "application/json"

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, b"no gzip", {"content-type": kind, "content-encoding": "gzip"})

    async with talking_to(far_end) as (provider, _):
        with pytest.raises(MalformedResponseError):
            await heard(provider, request(), streamed=streamed)


async def test_options_that_are_not_json() -> None:
    """An option that cannot be sent is the caller's to fix."""
    async with AnthropicWire().provider([]) as provider:
        for streamed in (False, True):
            with pytest.raises(UnsupportedError, match="JSON"):
                await heard(
                    provider, request(options={"metadata": {1, object()}}), streamed=streamed
                )
