"""A cassette as a file: JSON that people can read and compare, with a version."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hookline.errors import CassetteError

_VERSION = 1
_MARK = "hookline_cassette"
_WIDTH = 100


class Asked(msgspec.Struct, frozen=True):
    """A request: what is compared when it is looked for."""

    method: str
    path: str
    """With the query."""
    body: Any = None
    """A JSON value, or text where it is not JSON."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of a stream: its data as JSON, or what it was in bytes if it was not even text."""

    event: str = ""
    data: Any = msgspec.UNSET
    base64: str = ""


class Lost(msgspec.Struct, frozen=True):
    """How a connection was lost, by the name httpx has for it."""

    kind: str
    message: str = ""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a request. Its body is in one of four forms, the most readable one that says all of it."""

    status: int = 0
    """0 when not even that came."""
    headers: dict[str, str] = {}
    json: Any = msgspec.UNSET
    events: tuple[Event | str, ...] = ()
    """A stream, event by event; as text where an event is not of the usual form."""
    text: str = ""
    base64: str = ""
    lost: Lost | None = None
    """What ended it, when the far end did not."""
    left: bool = False
    """Whether we hung up before it was over."""


class Exchange(msgspec.Struct, frozen=True):
    """A request and what came of it."""

    request: Asked
    answer: Answer


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
            remedy="Upgrade Hookline, or delete the file and record it anew.",
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
        draft.write_text(f"{_written(content)}\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise CassetteError(
            f"the cassette '{path}' cannot be written: {error.strerror}.",
            remedy="Name another file, or make room for this one.",
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def _not_a_cassette(path: Path, problem: str) -> CassetteError:
    return CassetteError(
        f"'{path}' is not a cassette: {problem}.", remedy="Delete it and record it anew."
    )


def _written(value: Any, indent: str = "") -> str:
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
        yield from (_written(each, indent) for each in value)
        return
    for name, each in value.items():
        written = _events(each, indent) if name == "events" else _written(each, indent)
        yield f"{json.dumps(name, ensure_ascii=False)}: {written}"


def _events(events: Any, indent: str) -> str:
    if not isinstance(events, list | tuple) or not events:
        return _written(events, indent)
    lines = f",\n{indent}  ".join(json.dumps(event, ensure_ascii=False) for event in events)
    return f"[\n{indent}  {lines}\n{indent}]"
