from __future__ import annotations

import asyncio
import base64
import gzip
import html
import json
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wires.server import Exchange, Server

from hookline.errors import UsageError
from hookline.testing import Cassette
from hookline.testing.secrets import SCRUBBED, Scrubber, open_query, secrets_of

KEYS = st.text(string.ascii_letters + string.digits + string.punctuation, min_size=12, max_size=60)
"""Whatever a provider takes for a key."""

JSON_TYPE = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


def scrubber(*secrets: str) -> Scrubber:
    """One that knows these secrets."""
    made = Scrubber()
    made.learn(secrets)
    return made


# --- a key, whichever way the server repeats it -------------------------------------------------


def escaped(key: str) -> str:
    """A key in JSON by someone who escapes everything."""
    return '{"message": "' + "".join(f"\\u{ord(letter):04X}" for letter in key) + '"}'


def packed(key: str, before: str) -> str:
    """A key somewhere in something that is in base64."""
    return base64.urlsafe_b64encode(f"{before}{key}:".encode()).decode()


async def say(exchange: Exchange, body: object, headers: dict[str, str] = JSON_TYPE) -> None:
    """Answer at once."""
    await exchange.reply(401, body, headers)


async def stream(exchange: Exchange, *events: str, is_cut: bool = False) -> None:
    """Answer in events, in chunks that are cut anywhere."""
    await exchange.begin(200, EVENTS)
    for event in events:
        await exchange.send(event, size=7)
    if is_cut:
        exchange.cut()
    else:
        await exchange.end()


def piecewise(key: str) -> Iterator[str]:
    """A key as a model says it: a few letters at a time."""
    for start in range(0, len(key), 4):
        yield f"data: {json.dumps({'delta': {'text': key[start : start + 4]}})}\n\n"


ECHOES: dict[str, Callable[[Exchange, str], Any]] = {
    "text": lambda exchange, key: say(exchange, f"bad key {key}!", {"content-type": "text/plain"}),
    "json": lambda exchange, key: say(exchange, {"error": {"message": f"bad key {key}!"}}),
    "name": lambda exchange, key: say(exchange, {f"<{key}>": 1, "nested": [[{key: key}]]}),
    "json in json": lambda exchange, key: say(exchange, {"said": json.dumps({"key": key})}),
    "escaped": lambda exchange, key: say(exchange, escaped(key)),
    "half a json": lambda exchange, key: say(exchange, escaped(key)[:-2]),
    "html": lambda exchange, key: say(exchange, f"<b>{html.escape(key)}</b>"),
    "address": lambda exchange, key: say(exchange, f"no http://a/?q={quote(key, safe='')}&b=1"),
    "base64": lambda exchange, key: say(exchange, {"a": packed(key, ""), "b": packed(key, "x:")}),
    "hex": lambda exchange, key: say(exchange, {"data": key.encode().hex()}),
    "bytes": lambda exchange, key: say(exchange, b"\xff\xfe" + key.encode() + b"\xff"),
    "gzip": lambda exchange, key: say(
        exchange, gzip.compress(key.encode()), {"content-encoding": "gzip"}
    ),
    "headers": lambda exchange, key: say(
        exchange,
        {},
        {"content-type": f"x/y; key={key}", "retry-after": key, "set-cookie": f"a={key}"},
    ),
    "event": lambda exchange, key: stream(exchange, f"data: {json.dumps([key])}\n\n"),
    "odd event": lambda exchange, key: stream(exchange, f": {key}\nid: {key}\n\n"),
    "pieces": lambda exchange, key: stream(exchange, *piecewise(f"My key is {key}, and yours?")),
    "cut": lambda exchange, key: stream(exchange, *piecewise(f"It is {key}"), is_cut=True),
    "cut in the key": lambda exchange, key: stream(exchange, *piecewise(key[:-2]), is_cut=True),
    "cut in an event": lambda exchange, key: stream(exchange, f"data: [{key}", is_cut=True),
}


@given(key=KEYS, data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_key_is_nowhere_in_a_cassette(
    key: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However the client sends it, and whichever way the server repeats it."""
    echo = data.draw(st.sampled_from(sorted(ECHOES)))
    sent = data.draw(st.sampled_from(["authorization", "x-api-key", "x-goog-api-key", "key="]))
    path = tmp_path_factory.mktemp("echo") / "cassette.json"
    asyncio.run(record(path, key, echo, sent))
    text = path.read_text(encoding="utf-8")
    everything = "\n".join((text, *texts_of(json.loads(text)), said_in(json.loads(text))))
    spellings = [key[:-2], json.dumps(key)[1:-1], quote(key, safe=""), html.escape(key)]
    spellings += [key.encode().hex(), base64.b64encode(key.encode()).decode().rstrip("=")[:-2]]
    assert [each for each in spellings if each.lower() in everything.lower()] == []


async def record(path: Path, key: str, echo: str, sent: str) -> None:
    """Record a request that carries a key, to a server that repeats it."""

    async def far_end(exchange: Exchange) -> None:
        await ECHOES[echo](exchange, key)

    value = f"Bearer {key}" if sent == "authorization" else key
    headers = {} if sent == "key=" else {sent: value, "cookie": f"session={key}"}
    query = f"?alt=sse&key={quote(key, safe='')}" if sent == "key=" else ""
    async with Server(far_end) as server:
        with Cassette(path) as cassette:
            async with httpx2.AsyncClient(transport=cassette.transport()) as client:
                body = {"messages": [f"My key is {key}."], "api_key": key}
                try:
                    await client.post(f"{server.url}/ask{query}", json=body, headers=headers)
                except httpx2.RequestError:
                    assert "cut" in echo


def said_in(cassette: Any) -> str:
    """What the pieces of a stream say together."""
    events = cassette["exchanges"][0]["answer"].get("events", [])
    deltas = [event["data"] for event in events if "data" in event and isinstance(event, dict)]
    return "".join(each["delta"]["text"] for each in deltas if isinstance(each, dict))


def texts_of(value: Any) -> Iterator[str]:
    """Every text in a JSON value, and what those that are base64 stand for."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from texts_of(each)
            if name == "base64":
                yield base64.b64decode(each).decode("latin-1")
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each)


@given(key=KEYS, before=st.binary(max_size=5), after=st.binary(max_size=5))
def test_base64_of_anything_around_a_key_is_found(key: str, before: bytes, after: bytes) -> None:
    """Whichever place in a group of three bytes the key begins at."""
    packed = base64.b64encode(before + key.encode() + after).decode()
    clean = scrubber(key).text(packed)
    assert SCRUBBED in clean
    assert len(clean) - len(SCRUBBED) <= len(base64.b64encode(before + after)) + 8


@given(pieces=st.lists(st.text("ab-k1", max_size=6)), key=st.text("ab-k1", min_size=6, max_size=9))
def test_pieces_are_scrubbed_as_one_text(pieces: list[str], key: str) -> None:
    """What is left of them is what is left of the text they are pieces of."""
    one = scrubber(key)
    assert "".join(one.pieces(pieces)) == one.text("".join(pieces))
    assert len(one.pieces(pieces)) == len(pieces)
    assert key not in one.text("".join(pieces))


@given(st.text(), KEYS)
def test_scrubbing_again_changes_nothing(text: str, key: str) -> None:
    """What was recorded and what is asked are scrubbed alike, once or twice."""
    once = scrubber(key).text(f"{text} {key} {text}")
    assert scrubber(key).text(once) == once


def test_the_beginning_of_a_key_at_the_end_of_a_text_goes() -> None:
    """An answer may end before the key does; a word that begins a key is still a word."""
    one = scrubber("assistant-7a8b9c", "opensesame12")
    assert one.text("It is opensesa") == f"It is {SCRUBBED}"
    assert one.text("It is opens") == "It is opens"
    assert one.text("an opensea opensesame1") == f"an opensea {SCRUBBED}"
    assert one.value({"role": "assistant", "text": "assistant-7a"}) == {
        "role": "assistant",
        "text": SCRUBBED,
    }


# --- what looks like a key -----------------------------------------------------------------------

RANDOM = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TOKENS = {
    "sk-proj-" + RANDOM: "",
    "sk-ant-api03-" + RANDOM: "",
    "gsk_" + RANDOM: "",
    "AIzaSy" + RANDOM: "",
    "ghp_" + RANDOM: "",
    "xoxb-1234567890-abcdef": "",
    "AKIAIOSFODNN7EXAMPLE": "",
    f"eyJhbGciOiJI.eyJzdWIiOiIx.{RANDOM}": "",
    f"Bearer {RANDOM}": "Bearer ",
    f"https://someone:{RANDOM}@host/": "https://",
    f"https://host/path?key={RANDOM}&a=1": "https://host/path?key=",
    f"-----BEGIN PRIVATE KEY-----\n{RANDOM}\n-----END PRIVATE KEY-----": "",
}


@pytest.mark.parametrize("token", TOKENS)
def test_the_usual_tokens_are_scrubbed(token: str) -> None:
    """Also secrets that are not declared."""
    clean = Scrubber().text(f"Take this: {token} and go.")
    assert clean.startswith(f"Take this: {TOKENS[token]}{SCRUBBED}")
    assert clean.endswith("and go.")
    assert RANDOM not in clean


@pytest.mark.parametrize(
    "text",
    """
    sk-learn is a library | pk_customer_id_of_the_order | the key= parameter | a basic understanding
    bearer of news | ssh://git@github.com/a/b | https://a.example/?key=name | call_1a2b3c4d5e6f7g8h9
    chatcmpl-9aBcDeFgHiJkLmNoPqRsTuVwXyZ012 | max_tokens | 3f2b8c1e-8d5a-4c1b-9f0e-2a1b3c4d5e6f
    """.replace("\n", "|").split("|"),
)
def test_what_is_no_token_stays(text: str) -> None:
    """An answer that is changed needlessly is another answer."""
    assert Scrubber().text(text) == text


def test_fields_for_keys_are_emptied() -> None:
    """Whatever is in them; what they only describe stays."""
    body = {
        "mcp_servers": [{"authorization_token": "short", "name": "x"}],
        "apiKey": "k",
        "schema": {"api_key": {"type": "string"}, "required": ["api_key"]},
        "max_tokens": 5,
    }
    assert Scrubber().value(body) == {
        "mcp_servers": [{"authorization_token": SCRUBBED, "name": "x"}],
        "apiKey": SCRUBBED,
        "schema": {"api_key": {"type": "string"}, "required": ["api_key"]},
        "max_tokens": 5,
    }


def test_a_key_of_digits_is_found_in_a_number() -> None:
    """It is as secret there."""
    assert scrubber("1234567890").value([1234567890, 12, True]) == [SCRUBBED, 12, True]


def test_what_is_short_is_no_secret() -> None:
    """It would be found everywhere."""
    assert scrubber("none", "").text("none of it") == "none of it"


def test_secrets_are_found_in_headers_and_addresses() -> None:
    """By the names of the fields, and by how their values look."""
    basic = base64.b64encode(b"someone:opensesame").decode()
    headers = {
        "Authorization": f"Basic {basic}",
        "Cookie": "theme=dark-mode; sid=0123456789",
        "X-Unnamed": RANDOM,
        "X-Team": "research",
        "Content-Type": "application/json",
        "Host": "a-host-with-a-1-in-it.example",
    }
    found = set(secrets_of("https://host/?api_key=abcdefgh&alt=sse", headers))
    assert found >= {basic, "opensesame", "0123456789", RANDOM, "abcdefgh"}
    assert found.isdisjoint({"research", "application/json", headers["Host"], "sse"})


def test_secret_parameters_of_an_address_are_dropped() -> None:
    """On replay there may be no key, and so no parameter."""
    assert open_query("alt=sse&key=abc&access_token=x&a=1&flag") == "alt=sse&a=1&flag"


def test_keys_of_the_environment_are_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that prints the environment puts them into the conversation."""
    monkeypatch.setenv("DATABASE_PASSWORD", RANDOM)
    monkeypatch.setenv("SOME_KEYBOARD", "us-international-104")
    path = tmp_path / "cassette.json"

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, {"said": f"{RANDOM} on us-international-104"})

    async def ask() -> None:
        async with Server(far_end) as server:
            with Cassette(path) as cassette:
                async with httpx2.AsyncClient(transport=cassette.transport()) as client:
                    await client.get(server.url)

    asyncio.run(ask())
    assert f'"said": "{SCRUBBED} on us-international-104"' in path.read_text()


# --- what the user wants gone --------------------------------------------------------------------


def test_rules_are_patterns_and_functions() -> None:
    """One of them or several; a pattern may name the part that is to go."""
    assert Scrubber(r"\d+").text("room 101") == f"room {SCRUBBED}"
    assert Scrubber(re.compile("ROOM", re.I)).text("room 101") == f"{SCRUBBED} 101"
    assert Scrubber(str.upper).text("room 101") == "ROOM 101"
    several = Scrubber([r"room (?P<secret>\d+)", lambda text: text.replace("room", "place")])
    assert several.value({"a": ["room 101"]}) == {"a": [f"place {SCRUBBED}"]}


def test_a_function_that_gives_no_text_is_named() -> None:
    """Instead of a file that cannot be read."""
    with pytest.raises(UsageError, match="made NoneType of a text"):
        Scrubber(lambda text: None).text("a")  # type: ignore[arg-type,return-value]
