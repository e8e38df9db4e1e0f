"""The texts and numbers in arguments, results and attachments, however deep."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hookline.state import Attachment, ToolResult

_OPENING = ("{", "[")
_LISTED = re.compile(r"[,;|]")
_FEW_WORDS = 3
"""Words of one item, where a text may be a list of them."""


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The texts and numbers in arguments, each with its place: `recipients[0]`, `to.address`."""
    if isinstance(value, str):
        yield name, value
        yield from _inner(value, name)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if name:  # what an argument is called is the tool's word; what is in it is the model's
                yield f"a key of {name}", str(key)
            yield from leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{name}[{place}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def _inner(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """The values in a text that is a list, or JSON."""
    if text.lstrip()[:1] in _OPENING:
        try:
            inner = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            inner = None
        if isinstance(inner, dict | list):
            yield from leaves(inner, name)
            return
    parts = _LISTED.split(text)
    if len(parts) > 1 and all(len(part.split()) <= _FEW_WORDS for part in parts):
        for place, part in enumerate(parts):
            yield f"{name}[{place}]", part


def told(result: ToolResult) -> str:
    """All that a result says, keys included: they can be written by others as well."""
    if result.error is not None:
        return str(result.error)
    return "\n".join(_texts(result.result))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif value is not None and not isinstance(value, bool):
        yield value if isinstance(value, str) else str(value)


def attached(attachment: Attachment) -> str:
    """What an attachment says: its name, its address, and its content where that is text."""
    text = attachment.text() if attachment.is_text and attachment.data else ""
    return "\n".join((attachment.name, attachment.url, text))
