from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest

from hookline.mcp.process import read_message


def line(**message: Any) -> bytes:
    """A message as servers write it."""
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("a\x00b\ud83d", "a\x00b\ufffd"),
        ("\ude00\ud83d!", "\ufffd\ufffd!"),
        ("\U0001f600", "\U0001f600"),
        ("\\ud83d \ud83d", "\\ud83d \ufffd"),
    ],
)
def test_half_a_letter_is_replaced(said: str, read: str) -> None:
    """What is a whole letter, or only looks like half of one, stays as it is."""
    message = read_message(line(id=3, result={"text": said}))
    assert message == types.JSONRPCResponse(jsonrpc="2.0", id=3, result={"text": read})


def test_bytes_that_are_no_text_are_replaced() -> None:
    """A server that writes in another encoding is read as far as it can be."""
    message = read_message(line(id=3, result={"text": "TEXT"}).replace(b"TEXT", b"caf\xe9"))
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result == {"text": "caf\ufffd"}


@pytest.mark.parametrize("depth", [900, 100_000])
@pytest.mark.parametrize("request_id", [3, "q"])
def test_an_answer_that_is_too_deep_is_an_error_of_its_request(
    depth: int, request_id: int | str
) -> None:
    """Wherever the id is, and whatever else is called so in the answer."""
    deep = '{"id":7,"a":' * depth + "1" + "}" * depth
    shown = json.dumps(request_id)
    for text in (f'"id":{shown},"result":{deep}', f'"result":{deep},"id":{shown}'):
        message = read_message(f'{{"jsonrpc":"2.0",{text}}}'.encode())
        assert isinstance(message, types.JSONRPCError)
        assert message.id == request_id
        assert message.error.message.startswith("its answer cannot be read (")


@pytest.mark.parametrize("text", [b'{"jsonrpc":"2.0","id":3,"result":{"a":', b'{"id":3,"error":5}'])
def test_an_answer_that_is_broken_is_an_error_of_its_request(text: bytes) -> None:
    """Nobody waits for what will not come."""
    message = read_message(text)
    assert isinstance(message, types.JSONRPCError)
    assert message.id == 3


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"Hello!",
        b"[]",
        b"}}",
        b'{"jsonrpc":"2.0"}',
        b'{"id":3,"method":1}',
        b'{"id":{},"error":',
        b"\x00\xff",
    ],
)
def test_what_is_no_message_is_none(text: bytes) -> None:
    """Servers print all kinds of things."""
    assert read_message(text) is None
