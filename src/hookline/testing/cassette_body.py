"""The body of an answer: from the bytes that came to what a cassette keeps, and back."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from hookline.testing.cassette_file import Answer, Event
from hookline.testing.secrets import SCRUBBED, Scrubber, is_credential

_BLANK_LINE = re.compile(rb"(?>\r\n|\r|\n){2,}")
_SIMPLE = re.compile(r"(?:event: ?(?P<event>[\w.-]+)(?:\r\n|\r|\n))?data: ?(?P<data>[^\r\n]+)\s+")
_DEEPEST = 64
"""How deep JSON may be nested that is kept as such."""
_LAST_WORD = "data: [DONE]"
"""After this event, clients hang up: there is nothing left to hear."""

_Path: TypeAlias = tuple[str | int, ...]


def stored(kind: str, content: bytes, scrubber: Scrubber, *, is_cut: bool) -> Answer:
    """A body without secrets, as the part of an answer that it is. `kind` is its content type."""
    if "event-stream" in kind:
        events = [_event(part) for part in _parts(content)]
        return Answer(events=tuple(_scrubbed(events, scrubber, is_cut=is_cut)))
    value = parsed(content)
    if value is not msgspec.UNSET:
        return Answer(json=scrubber.value(value))
    try:
        return Answer(text=scrubber.pieces([content.decode()], is_cut=is_cut)[0])
    except UnicodeDecodeError:
        return Answer(base64=_binary(content, scrubber))


def played(answer: Answer) -> Iterator[bytes]:
    """A body as bytes, in the pieces in which it is to come."""
    if answer.json is not msgspec.UNSET:
        yield json.dumps(answer.json).encode()
    for event in answer.events:
        yield _sent(event)
    if answer.text or answer.base64:
        yield answer.text.encode() or b64decode(answer.base64)


def is_said(answer: Answer) -> bool:
    """Whether a stream came to its last word, after which it does not matter who hangs up."""
    last = answer.events[-1] if answer.events else ""
    return isinstance(last, str) and last.startswith(_LAST_WORD)


def parsed(content: bytes) -> Any:
    """The JSON value that a body is; UNSET if it is none, or one that could not be written again as it was."""
    try:
        value = json.loads(content, object_pairs_hook=_object, parse_constant=_refused)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return msgspec.UNSET
    return value if _is_shallow(value, _DEEPEST) else msgspec.UNSET


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands in an object twice")
    return made


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _is_shallow(value: Any, levels: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return True
    return levels > 0 and all(_is_shallow(each, levels - 1) for each in inside)


# --- streams -------------------------------------------------------------------------------------


def _parts(content: bytes) -> Iterator[bytes]:
    """The events of a stream, however its bytes came: where the network cut them says nothing."""
    start = 0
    for blank in _BLANK_LINE.finditer(content):
        yield content[start : blank.end()]
        start = blank.end()
    if start < len(content):
        yield content[start:]


def _event(part: bytes) -> Event | str:
    try:
        text = part.decode()
    except UnicodeDecodeError:
        return Event(base64=b64encode(part).decode())
    match = _SIMPLE.fullmatch(text) if _BLANK_LINE.search(part) else None
    data = parsed(match["data"].encode()) if match else msgspec.UNSET
    if match is None or data is msgspec.UNSET:
        return text
    return Event(match["event"] or "", data)


def _sent(event: Event | str) -> bytes:
    if isinstance(event, str):
        return event.encode()
    if event.base64:
        return b64decode(event.base64)
    name = f"event: {event.event}\n" if event.event else ""
    return f"{name}data: {json.dumps(event.data)}\n\n".encode()


def _scrubbed(
    events: Sequence[Event | str], scrubber: Scrubber, *, is_cut: bool
) -> Iterator[Event | str]:
    """The events without secrets, also without those that a model says in several pieces."""
    texts: dict[_Path, dict[int, str]] = {}
    for number, event in enumerate(events):
        for path, text in _texts(event.data if isinstance(event, Event) else event):
            texts.setdefault(path, {})[number] = text
    clean: dict[int, dict[_Path, str]] = {}
    for path, said in texts.items():
        pieces = scrubber.pieces(list(said.values()), is_cut=is_cut)
        for number, piece in zip(said, pieces, strict=True):
            clean.setdefault(number, {})[path] = piece
    for number, event in enumerate(events):
        if isinstance(event, str):
            yield clean[number][()]
        elif event.base64:
            yield Event(base64=_binary(b64decode(event.base64), scrubber))
        else:
            data = _replaced(event.data, clean.get(number, {}), scrubber)
            yield Event(scrubber.text(event.event), data)


def _texts(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, str]]:
    """Every text in a JSON value, and where it is."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for step, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(each, (*path, step))


def _replaced(value: Any, texts: dict[_Path, str], scrubber: Scrubber, path: _Path = ()) -> Any:
    """A JSON value with these texts in it; its names are scrubbed on the way."""
    if isinstance(value, str):
        return texts[path]
    if isinstance(value, list):
        steps = enumerate(value)
        return [_replaced(each, texts, scrubber, (*path, step)) for step, each in steps]
    if not isinstance(value, dict):
        return scrubber.value(value)
    return {
        scrubber.text(name): SCRUBBED
        if is_credential(name, each)
        else _replaced(each, texts, scrubber, (*path, name))
        for name, each in value.items()
    }


def _binary(content: bytes, scrubber: Scrubber) -> str:
    """Bytes without secrets, in base64. Each is taken for a letter, as keys are made of letters that are one byte."""
    text = scrubber.text(content.decode("latin-1"))
    return b64encode(text.encode("latin-1", errors="replace")).decode()
