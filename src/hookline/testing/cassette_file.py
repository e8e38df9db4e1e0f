"""A cassette as a file: JSON that people can read and compare, with a version."""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from hookline.errors import CassetteError
from hookline.testing.secrets import Scrubber, open_address

_VERSION = 1
_MARK = "hookline_cassette"
_WIDTH = 100


class RecordedRequest(msgspec.Struct, frozen=True):
    """A request: what is compared when it is looked for."""

    method: str
    path: str
    """With the query."""
    body: Any = None
    """A JSON value, or text where it is not JSON."""


class RecordedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of a stream: its data as JSON, or what it was in bytes if it was not even text."""

    event: str = ""
    data: Any = msgspec.UNSET
    base64: str = ""


class LostConnection(msgspec.Struct, frozen=True):
    """How a connection was lost, by the name httpx has for it."""

    kind: str
    message: str = ""


class RecordedAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of a request. Its body is in one of four forms, the most readable one that says all of it."""

    status: int = 0
    """0 when not even that came."""
    headers: dict[str, str] = {}
    json: Any = msgspec.UNSET
    events: tuple[RecordedEvent | str, ...] = ()
    """A stream, event by event; as text where an event is not of the usual form."""
    text: str = ""
    base64: str = ""
    lost: LostConnection | None = None
    """What ended it, when the server did not."""
    left: bool = False
    """Whether we hung up before it was over."""


class Exchange(msgspec.Struct, frozen=True):
    """A request and its outcome."""

    request: RecordedRequest
    answer: RecordedAnswer


def read(path: Path) -> tuple[Exchange, ...]:
    """The exchanges of a cassette, in the order of the requests."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CassetteError(
            f"the cassette '{path}' cannot be read: {error.strerror}.",
            remedy='Record it first: mode="auto" does so when there is no file.',
        ) from None
    except (ValueError, RecursionError) as error:
        raise _not_a_cassette(path, f"it is not JSON ({error})") from None
    version = content.get(_MARK) if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise _not_a_cassette(path, f"it has no '{_MARK}' with a version")
    if version > _VERSION:
        raise CassetteError(
            f"the cassette '{path}' was written by a newer Hookline (format {version}, and this one "
            f"reads {_VERSION}).",
            remedy="Upgrade Hookline, or delete the file and record it again.",
        )
    try:
        return msgspec.convert(content.get("exchanges"), tuple[Exchange, ...])
    except msgspec.ValidationError as error:
        raise _not_a_cassette(path, str(error)) from None


def write(path: Path, exchanges: Sequence[Exchange]) -> None:
    """Write a cassette: all of it or nothing, so that a recording that fails leaves the old one as it was."""
    content = {_MARK: _VERSION, "exchanges": msgspec.to_builtins(list(exchanges))}
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(f"{_format_json(content)}\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise CassetteError(
            f"the cassette '{path}' cannot be written: {error.strerror}.",
            remedy="Name another file, or free some space.",
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def _not_a_cassette(path: Path, problem: str) -> CassetteError:
    return CassetteError(
        f"'{path}' is not a cassette: {problem}.", remedy="Delete it and record it again."
    )


def _format_json(value: Any, indent: str = "") -> str:
    """JSON with everything on one line that fits there, and each event of a stream on a line of its own."""
    line = json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, dict | list | tuple) or len(indent + line) <= _WIDTH:
        return line
    deeper = f"{indent}  "
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    items = f",\n{deeper}".join(_items(value, deeper))
    return f"{opening}\n{deeper}{items}\n{indent}{closing}"


def _items(value: dict[str, Any] | Sequence[Any], indent: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield from (_format_json(each, indent) for each in value)
        return
    for name, each in value.items():
        written = _events(each, indent) if name == "events" else _format_json(each, indent)
        yield f"{json.dumps(name, ensure_ascii=False)}: {written}"


def _events(events: Any, indent: str) -> str:
    if not isinstance(events, list | tuple) or not events:
        return _format_json(events, indent)
    lines = f",\n{indent}  ".join(json.dumps(event, ensure_ascii=False) for event in events)
    return f"[\n{indent}  {lines}\n{indent}]"


# --- the body of an answer: from the bytes that came to what a cassette keeps, and back -----------


_BLANK_LINE = re.compile(rb"(?>\r\n|\r|\n){2,}")
_SIMPLE = re.compile(r"(?:event: ?(?P<event>[\w.-]+)(?:\r\n|\r|\n))?data: ?(?P<data>[^\r\n]+)\s+")
_DEEPEST = 64
"""How deep JSON may be nested that is kept as such."""
_LAST_WORD = "data: [DONE]"
"""After this event, clients hang up: nothing comes after it."""

_BEGUN_IN, _GOES_ON_IN = "content_block", "delta"
"""A field may start under the one name and continue under the other."""
_UNNUMBERED = ""

_Path: TypeAlias = tuple[str | int, ...]


def store_body(kind: str, content: bytes, scrubber: Scrubber) -> RecordedAnswer:
    """A body without secrets, as the part of an answer that it is. `kind` is its content type."""
    if "event-stream" in kind:
        events = [_event(part) for part in _parts(content)]
        return RecordedAnswer(events=tuple(_scrub_events(events, scrubber)))
    value = parse_json(content)
    if value is not msgspec.UNSET:
        return RecordedAnswer(json=scrubber.value(value))
    try:
        return RecordedAnswer(text=scrubber.text(content.decode()))
    except UnicodeDecodeError:
        return RecordedAnswer(base64=_binary(content, scrubber))


def body_pieces(answer: RecordedAnswer) -> Iterator[bytes]:
    """A body as bytes, in the pieces in which it is to come."""
    if answer.json is not msgspec.UNSET:
        yield json.dumps(answer.json).encode()
    for event in answer.events:
        yield _event_bytes(event)
    if answer.text or answer.base64:
        yield answer.text.encode() or b64decode(answer.base64)


def is_complete_stream(answer: RecordedAnswer) -> bool:
    """Whether a stream has its last event, after which it does not matter who hangs up."""
    last = answer.events[-1] if answer.events else ""
    return isinstance(last, str) and last.startswith(_LAST_WORD)


def parse_json(content: bytes) -> Any:
    """The JSON value of a body; UNSET if it is not JSON, or could not be written again unchanged."""
    try:
        value = json.loads(content, object_pairs_hook=_object, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return msgspec.UNSET
    return value if _is_shallow(value, _DEEPEST) else msgspec.UNSET


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name occurs twice in an object")
    return made


def _refuse_constant(constant: str) -> float:
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


def _event(part: bytes) -> RecordedEvent | str:
    try:
        text = part.decode()
    except UnicodeDecodeError:
        return RecordedEvent(base64=b64encode(part).decode())
    match = _SIMPLE.fullmatch(text) if _BLANK_LINE.search(part) else None
    data = parse_json(match["data"].encode()) if match else msgspec.UNSET
    if match is None or data is msgspec.UNSET:
        return text
    return RecordedEvent(match["event"] or "", data)


def _event_bytes(event: RecordedEvent | str) -> bytes:
    if isinstance(event, str):
        return event.encode()
    if event.base64:
        return b64decode(event.base64)
    name = f"event: {event.event}\n" if event.event else ""
    return f"{name}data: {json.dumps(event.data)}\n\n".encode()


def _scrub_events(
    events: Sequence[RecordedEvent | str], scrubber: Scrubber
) -> Iterator[RecordedEvent | str]:
    """The events without secrets, also without those that a model says in several pieces."""
    fields = _Fields()
    for event in events:
        fields.read(event.data if isinstance(event, RecordedEvent) else event)
    pieces = fields.scrub(scrubber)
    for event in events:
        if isinstance(event, str):
            yield next(pieces)
        elif event.base64:
            yield RecordedEvent(base64=_binary(b64decode(event.base64), scrubber))
        else:
            data = scrubber.value(event.data, lambda _: next(pieces))
            yield RecordedEvent(scrubber.text(event.event), data)


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
        """Which part a piece in a list belongs to: it says so, or it continues the one before."""
        part = _index(value)
        if part == _UNNUMBERED and isinstance(value, dict) and isinstance(value.get("id"), str):
            part = value["id"]
        if part != _UNNUMBERED:
            self._part[path] = part
        return self._part.get(path, _UNNUMBERED)

    def scrub(self, scrubber: Scrubber) -> Iterator[str]:
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


def _binary(content: bytes, scrubber: Scrubber) -> str:
    """Bytes without secrets, in base64. Each is taken for a letter, as keys are made of letters that are one byte."""
    text = scrubber.text(content.decode("latin-1"))
    return b64encode(text.encode("latin-1", errors="replace")).decode()


# --- an exchange while it happens --------------------------------------------------------------


class ExchangeRecorder:
    """An exchange while it happens. Nothing is scrubbed yet: a later request may show what is secret in it."""

    def __init__(self, asked: RecordedRequest) -> None:
        self._asked = asked
        self._answer = RecordedAnswer()
        self._chunks: list[bytes] = []
        self._is_over = False

    def add_head(self, status: int, headers: dict[str, str]) -> None:
        """The head of the answer came."""
        self._answer = RecordedAnswer(status, headers)

    def add_chunk(self, chunk: bytes) -> None:
        """The next chunk of its body came."""
        self._chunks.append(chunk)

    def end(self, lost: LostConnection | None = None, *, left: bool = False) -> None:
        """It is over. Only the first reason counts."""
        if not self._is_over:
            self._is_over = True
            self._answer = msgspec.structs.replace(self._answer, lost=lost, left=left)

    def exchange(self, scrubber: Scrubber) -> Exchange:
        """The exchange as it is written: without secrets."""
        answer, lost = self._answer, self._answer.lost
        is_cut = answer.left or lost is not None or not self._is_over
        kind = answer.headers.get("content-type", "")
        body = store_body(kind, b"".join(self._chunks), scrubber)
        return Exchange(
            scrub_request(self._asked, scrubber),
            msgspec.structs.replace(
                body,
                status=answer.status,
                headers={
                    name: scrubber.text(open_address(value))
                    for name, value in answer.headers.items()
                },
                lost=lost and LostConnection(lost.kind, scrubber.text(lost.message)),
                left=lost is None and is_cut and not is_complete_stream(body),
            ),
        )


def scrub_request(asked: RecordedRequest, scrubber: Scrubber) -> RecordedRequest:
    """A request without secrets."""
    return RecordedRequest(asked.method, scrubber.text(asked.path), scrubber.value(asked.body))
