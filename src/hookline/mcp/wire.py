"""A line from a server as a message: mended where that can be done, and answered for where it cannot."""

from __future__ import annotations

import re

import mcp_types as types
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # two halves of one letter
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+')
_ANSWERS = (b'"result"', b'"error"')


def read_message(line: bytes) -> types.JSONRPCMessage | None:
    """The message in a line; None if it is none. An answer that cannot be read is an error for whoever waits for it."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    try:
        return jsonrpc_message_adapter.validate_json(_mended(line), by_name=False)
    except ValidationError as error:
        return _unreadable(line, error)


def _mended(line: bytes) -> bytes:
    """The line with a sign in the place of what is no text: half a letter, or bytes that are no UTF-8."""
    text = line.decode(errors="replace").encode()
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found["half"] else found[0], text)


def _unreadable(line: bytes, error: ValidationError) -> types.JSONRPCError | None:
    request = _answered_request(line)
    if request is None:
        return None
    why = error.errors(include_url=False, include_input=False)[0]["msg"]
    said = types.ErrorData(code=types.PARSE_ERROR, message=f"its answer cannot be read ({why})")
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=said)


def _answered_request(line: bytes) -> int | str | None:
    """The id of the request that a line answers, however deep and broken the rest of it is."""
    depth, key, request, is_answer = 0, b"", b"", False
    for found in _TOKEN.finditer(line):
        token = found[0]
        if token in (b"}", b"]"):
            depth -= 1
            continue
        if depth == 1:
            is_answer |= key in _ANSWERS
            request = token if key == b'"id"' else request
            key = b"" if key else token
        if token in (b"{", b"["):
            depth += 1
    if not is_answer or not request:
        return None
    return int(request) if request.isdigit() else request.strip(b'"').decode(errors="replace")
