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

_BEGUN_IN, _GOES_ON_IN = "content_block", "delta"
"""A field may begin under the one name and go on under the other."""
_UNNUMBERED = ""

_Path: TypeAlias = tuple[str | int, ...]


def stored(kind: str, content: bytes, scrubber: Scrubber) -> Answer:
    """A body without secrets, as the part of an answer that it is. `kind` is its content type."""
    if "event-stream" in kind:
        events = [_event(part) for part in _parts(content)]
        return Answer(events=tuple(_scrubbed(events, scrubber)))
    value = parsed(content)
    if value is not msgspec.UNSET:
        return Answer(json=scrubber.value(value))
    try:
        return Answer(text=scrubber.text(content.decode()))
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


def _scrubbed(events: Sequence[Event | str], scrubber: Scrubber) -> Iterator[Event | str]:
    """The events without secrets, also without those that a model says in several pieces."""
    fields = _Fields()
    for event in events:
        fields.read(event.data if isinstance(event, Event) else event)
    pieces = fields.scrubbed(scrubber)
    for event in events:
        if isinstance(event, str):
            yield next(pieces)
        elif event.base64:
            yield Event(base64=_binary(b64decode(event.base64), scrubber))
        else:
            yield Event(scrubber.text(event.event), _replaced(event.data, pieces, scrubber))


class _Fields:
    """The texts of a stream by the field that they are pieces of: the same field of the same part of the answer."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._places: dict[_Path, list[int]] = {}
        self._part: dict[_Path, str | int] = {}

    def read(self, value: Any, path: _Path = ()) -> None:
        """Note every text in a JSON value, in order."""
        if isinstance(value, str):
            self._places.setdefault(path, []).append(len(self._texts))
            self._texts.append(value)
        elif isinstance(value, list):
            for each in value:
                self.read(each, (*path, self._part_of(each, path)))
        elif isinstance(value, dict):
            inside = path or (_index(value),)
            for name, each in value.items():
                self.read(each, (*inside, _GOES_ON_IN if name == _BEGUN_IN else name))

    def _part_of(self, value: Any, path: _Path) -> str | int:
        """Which part a piece in a list belongs to: it says so, or it goes on with the one before."""
        part = _index(value)
        if part == _UNNUMBERED and isinstance(value, dict) and isinstance(value.get("id"), str):
            part = value["id"]
        if part != _UNNUMBERED:
            self._part[path] = part
        return self._part.get(path, _UNNUMBERED)

    def scrubbed(self, scrubber: Scrubber) -> Iterator[str]:
        """The texts without secrets, in the order in which they were read."""
        clean = [""] * len(self._texts)
        for places in self._places.values():
            pieces = scrubber.pieces([self._texts[place] for place in places])
            for place, piece in zip(places, pieces, strict=True):
                clean[place] = piece
        return iter(clean)


def _index(value: Any) -> str | int:
    """The number that a piece has for the part it belongs to."""
    index = value.get("index") if isinstance(value, dict) else None
    return index if isinstance(index, int) else _UNNUMBERED


def _replaced(value: Any, pieces: Iterator[str], scrubber: Scrubber) -> Any:
    """A JSON value with these texts in it, one after the other; its names are scrubbed on the way."""
    if isinstance(value, str):
        return next(pieces)
    if isinstance(value, list):
        return [_replaced(each, pieces, scrubber) for each in value]
    if not isinstance(value, dict):
        return scrubber.value(value)
    made = {}
    for name, each in value.items():
        clean = _replaced(each, pieces, scrubber)
        made[scrubber.text(name)] = SCRUBBED if is_credential(name, each) else clean
    return made


def _binary(content: bytes, scrubber: Scrubber) -> str:
    """Bytes without secrets, in base64. Each is taken for a letter, as keys are made of letters that are one byte."""
    text = scrubber.text(content.decode("latin-1"))
    return b64encode(text.encode("latin-1", errors="replace")).decode()
