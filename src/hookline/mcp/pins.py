"""Pins: what a server said about its tools when they were first trusted. What it says differently later is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from hookline.errors import UsageError

if TYPE_CHECKING:
    import mcp_types as types

PinStore: TypeAlias = MutableMapping[str, str] | str | os.PathLike[str] | None
"""Where pins are kept: a dict of yours, a file, or (None) only as long as the servers are connected."""


def fingerprint(tool: types.Tool) -> str:
    """A hash of all that a model or the runtime goes by: title, description, schema and hints. The name is the key.

    A tool without a title has the hash it had before titles counted, so that older pins stay valid.
    """
    content = [
        tool.description or "",
        tool.input_schema,
        None if tool.annotations is None else tool.annotations.model_dump(mode="json"),
    ]
    if tool.title:
        content.append(tool.title)
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()


class Pins:
    """Fingerprints by `server/tool`."""

    def __init__(self, store: PinStore = None) -> None:
        is_mapping = isinstance(store, MutableMapping)
        self._path = None if store is None or is_mapping else Path(os.fspath(store))  # type: ignore[arg-type]
        self._known: MutableMapping[str, str]
        if self._path is not None:
            self._known = _read(self._path)
        else:
            self._known = store if isinstance(store, MutableMapping) else {}

    def trust_first(self, server: str, fingerprints: Mapping[str, str]) -> None:
        """Pin all tools of a server that is seen for the first time."""
        if not any(key.startswith(f"{server}/") for key in self._known):
            self.trust(server, fingerprints)

    def trust(self, server: str, fingerprints: Mapping[str, str]) -> None:
        """Pin these tools as they are."""
        self._known.update({_key(server, tool): pin for tool, pin in fingerprints.items()})
        if self._path is not None and fingerprints:
            _write(self._path, self._known)

    def objection(self, server: str, tool: str, now: str) -> str:
        """What is different about a tool now; empty if it is what was trusted, or is not there."""
        pinned = self._known.get(_key(server, tool))
        if not now or now == pinned:
            return ""
        what = "is new" if pinned is None else "is described differently"
        return f"the tool '{tool}' of MCP server '{server}' {what} since its tools were trusted"


def _key(server: str, tool: str) -> str:
    return f"{server}/{tool}"


def _read(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        pins: dict[str, str] = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise UsageError(
            f"'{path}' is not a file of pins: {error}.",
            remedy="Delete it to trust the servers as they are now, or name another file.",
        ) from None
    return pins


def _write(path: Path, pins: Mapping[str, str]) -> None:
    """All of it or nothing: half a file of pins would be a file of other pins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(dict(sorted(pins.items())), file, indent=2)
            file.write("\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
