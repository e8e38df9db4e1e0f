"""What the providers over HTTP have in common, each against its own server on loopback."""

from __future__ import annotations

import asyncio
import logging
import socket
import traceback
from typing import Any, NamedTuple

import pytest
from wires import anthropic, google, openai
from wires.answers import BOTH_WAYS, heard
from wires.scripted import HTTPWire, served
from wires.server import Exchange, Server

from hookline import AgentBuilder
from hookline.errors import (
    AuthenticationError,
    BuildError,
    ConnectionLostError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
)
from hookline.providers import Feature, Provider, make_provider
from hookline.providers.anthropic import AnthropicProvider
from hookline.providers.google import GoogleProvider
from hookline.providers.http import HTTPProvider, check_address
from hookline.providers.openai import OpenAIProvider
from hookline.testing.wire import ERRORS, Failure, WireTurn


class Kind(NamedTuple):
    """A provider, its server, and what is needed to bring them together."""

    make: type[HTTPProvider[Any]]
    wire: type[HTTPWire[Any]]
    key: str
    variable: str
    """Where its key is looked for."""
    path: str = ""
    """Where at a server its protocol is spoken."""


KINDS = {
    "anthropic": Kind(
        AnthropicProvider, anthropic.AnthropicWire, anthropic.KEY, "ANTHROPIC_API_KEY"
    ),
    "google": Kind(GoogleProvider, google.GoogleWire, google.KEY, "GEMINI_API_KEY"),
    "openai": Kind(OpenAIProvider, openai.OpenAIWire, openai.KEY, "OPENAI_API_KEY", "/v1"),
}
FAILURES = [
    pytest.param(kind, failure, id=f"{name}-{failure}")
    for name, kind in KINDS.items()
    for failure in ERRORS
    if failure in kind.wire.failures
]
EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
pytestmark = pytest.mark.usefixtures("no_settings")


# --- failures -------------------------------------------------------------------------------------


@BOTH_WAYS
@pytest.mark.parametrize(("kind", "failure"), FAILURES)
async def test_each_failure_is_its_own_error(
    kind: Kind, failure: Failure, streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure has one class, a remedy, and no key in its text, causes or logs."""
    caplog.set_level(logging.DEBUG)
    turn = WireTurn("It was a dark night.", failure=failure, retry_after=2.5)
    async with kind.wire().provider([turn]) as provider:
        with pytest.raises(ModelError) as caught:
            await heard(provider, kind.wire.asking(), streamed)
    error = caught.value
    assert type(error) is ERRORS[failure]
    assert error.remedy
    assert error.__cause__ is None
    assert error.__context__ is None
    assert kind.key not in "".join(traceback.format_exception(error))
    assert kind.key not in caplog.text
    if isinstance(error, RateLimitError | OverloadedError):
        assert error.retry_after == 2.5


@EACH
async def test_nothing_is_asked_twice(kind: Kind) -> None:
    """Retries are the error policy's business: a failure reaches it at once."""
    wire = kind.wire()
    async with wire.provider([WireTurn(failure=Failure.OVERLOADED)]) as provider:
        with pytest.raises(OverloadedError):
            await heard(provider, wire.asking(), streamed=False)
    assert len(wire.requests) == 1


@EACH
@BOTH_WAYS
async def test_silence_is_a_timeout(kind: Kind, streamed: bool) -> None:
    """A server that takes the request and says nothing has its time, and no more."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.until_hung_up()

    settings = {"api_key": kind.key, "path": kind.path, "timeout": 0.3}
    async with served(kind.make, far_end, **settings) as (provider, server):
        with pytest.raises(ModelTimeoutError, match=r"for 0\.3 seconds"):
            await heard(provider, kind.wire.asking(), streamed)
        await server.hang_up.wait()


@EACH
@BOTH_WAYS
async def test_a_host_that_is_not_there_is_named(kind: Kind, streamed: bool) -> None:
    """Nobody listens: the error says where, and to start the server or correct the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can be there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        provider = kind.make(api_key=kind.key, base_url=f"{url}{kind.path}")
        with pytest.raises(ConnectionLostError, match=f"{url} takes no connections") as caught:
            await heard(provider, kind.wire.asking(), streamed)
        await provider.aclose()
    assert "Start the server" in caught.value.remedy
    assert "base_url" in caught.value.remedy


@EACH
@BOTH_WAYS
async def test_a_redirection_is_not_followed(kind: Kind, streamed: bool) -> None:
    """The conversation, the key and the headers go to the host that was named, and to no other."""

    async def elsewhere(exchange: Exchange) -> None:
        await exchange.reply(200, {})

    async with Server(elsewhere) as other:

        async def far_end(exchange: Exchange) -> None:
            await exchange.reply(307, "", {"location": f"{other.url}{exchange.request.path}"})

        settings = {"api_key": kind.key, "path": kind.path, "headers": {"X-Token": kind.key}}
        async with served(kind.make, far_end, **settings) as (provider, _):
            with pytest.raises(ModelError, match="correct base_url"):
                await heard(provider, kind.wire.asking(), streamed)
        assert other.requests == []


@EACH
@BOTH_WAYS
async def test_cancelling_hangs_up_at_once(kind: Kind, streamed: bool) -> None:
    """A run that is cancelled while the model thinks does not leave it thinking."""
    asked = asyncio.Event()

    async def far_end(exchange: Exchange) -> None:
        asked.set()
        await exchange.until_hung_up()

    settings = {"api_key": kind.key, "path": kind.path}
    async with served(kind.make, far_end, **settings) as (provider, server):
        task = asyncio.ensure_future(heard(provider, kind.wire.asking(), streamed))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.hang_up.wait()


# --- settings -------------------------------------------------------------------------------------


@EACH
def test_no_key_says_where_to_put_one(kind: Kind) -> None:
    """Without a key the provider is not made, unless a header takes its place."""
    with pytest.raises(AuthenticationError, match=f"Set {kind.variable} in the environment"):
        kind.make()
    kind.make(headers={"authorization": "Bearer x"})


@EACH
@pytest.mark.parametrize("url", ["localhost:11434/v1", "http://[1::", "nonsense"])
def test_a_wrong_address_is_refused(kind: Kind, url: str) -> None:
    """An address without http:// is a frequent mistake, and is reported when the provider is created."""
    with pytest.raises(BuildError, match=r"is not an address\..*http://localhost:8000/v1"):
        kind.make(api_key=kind.key, base_url=url)


@EACH
def test_the_provider_shows_no_key(kind: Kind) -> None:
    """What is printed of a provider says where it leads."""
    provider = kind.make(api_key="hunter2hunter2", base_url="https://a.org/v1")
    assert repr(provider) == f"{kind.make.__name__}(base_url='https://a.org')"


@pytest.mark.parametrize("name", KINDS)
def test_the_catalogue_makes_it_by_its_name(name: str) -> None:
    """With its settings; and its protocol has everything that a request can ask for, but for files in results."""
    provider = make_provider(name, api_key="k", base_url="http://localhost:1/v1")
    assert isinstance(provider, KINDS[name].make)
    assert isinstance(provider, Provider)
    assert provider.name == name
    without = {Feature.RESULT_FILES} if name == "openai" else set()
    assert provider.features == frozenset(Feature) - without


# --- settings ----------------------------------------------------------------------------------


OVER_HTTP = pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])
SECRET = "hunter2hunter2"


@OVER_HTTP
@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": 5},
        {"api_key": b"abc"},
        {"base_url": 5},
        {"base_url": "localhost:11434/v1"},
        {"base_url": "http://"},
        {"base_url": "ftp://host/"},
        {"base_url": "http://[::1"},
        {"base_url": f"http://host/v1?key={SECRET}"},
        {"base_url": f"http://host/v1#{SECRET}"},
        {"base_url": f"http://user:{SECRET}@host/v1"},
        {"base_url": f"http://{SECRET}@host/v1"},
        {"timeout": "60"},
        {"timeout": None},
        {"timeout": -1},
        {"timeout": 0},
        {"timeout": True},
        {"timeout": float("inf")},
        {"headers": "x"},
        {"headers": {"x": 5}},
        {"headers": {"bad name": SECRET}},
        {"headers": {"x": f"{SECRET}\nfoo"}},
        {"headers": {"x": f"{SECRET}ü"}},
    ],
    ids=str,
)
def test_a_wrong_setting_is_reported_when_the_model_is_chosen(
    provider: str, wrong: dict[str, Any]
) -> None:
    """One line names the setting and the provider, says what to write, and shows no secret."""
    with pytest.raises(BuildError, match=f"{next(iter(wrong))}.*'{provider}'") as caught:
        AgentBuilder().with_model(f"{provider}:m", **{"api_key": "sk-1234567890", **wrong})
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


@OVER_HTTP
def test_settings_that_are_right_are_taken(provider: str) -> None:
    """A whole number of seconds, a header with spaces, an address with a path."""
    make_provider(
        provider, api_key="k", base_url="http://[::1]:80/v1/", timeout=5, headers={"X-A": "b c"}
    )


@pytest.mark.parametrize("options", [None, ["a"], "x"])
@pytest.mark.parametrize("model", ["openai:m", "script:none.json", ["openai:m", "openai:n"]])
def test_options_are_names_with_values(options: Any, model: Any) -> None:
    """Whatever the model is."""
    with pytest.raises(BuildError, match="options"):
        AgentBuilder().with_model(model, options=options)


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "ftp://host", "http://", "http://[bad", "http://host:port/", "x"]
)
def test_an_invalid_address_is_refused(url: str) -> None:
    """A base_url without a scheme or a host is found out before anything is sent."""
    with pytest.raises(BuildError, match="is not an address"):
        check_address("openai", url)
