"""A call as people read it: a command, a diff, or its arguments. Whatever is cut is reported."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hookline.cli.terminal import Paint, printable
from hookline.state import ToolCall

_MAX_LINES = 60
_MAX_CHARACTERS = 2_000
"""Of one line."""
_MAX_BYTES = 1_000_000
_OLD = ("old", "old_string")
_NEW = ("new", "new_string")
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def preview(call: ToolCall, folder: Path, paint: Paint) -> list[str]:
    """The lines that show a call."""
    args = call.args
    if isinstance(args.get("command"), str):
        return [*_lines(f"$ {args['command']}"), *_rest(args, "command")]
    if isinstance(args.get("argv"), list | tuple):
        words = shlex.join(map(str, args["argv"]))
        return [*_lines(f"$ {words}"), *_rest(args, "argv")]
    changes = _changes(args, folder)
    if changes is None:
        return _arguments(args)
    said = ("path", "content", "edits", *_OLD, *_NEW)
    return [*_diff(str(args["path"]), changes, paint), *_rest(args, *said)]


def _rest(args: Mapping[str, Any], *said: str) -> list[str]:
    """The other arguments, without empty ones."""
    return _arguments(
        {
            name: value
            for name, value in args.items()
            if name not in said and value is not None and value not in (False, "")
        }
    )


def _arguments(args: Mapping[str, Any]) -> list[str]:
    return [
        line
        for name, value in args.items()
        for line in _lines(
            f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        )
    ]


def _lines(text: str) -> list[str]:
    lines = printable(text, lines=True).expandtabs(4).split("\n")
    return _first([_start(line) for line in lines])


def _first(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LINES:
        return lines
    return [*lines[:_MAX_LINES], f"... and {len(lines) - _MAX_LINES:,} lines more"]


def _start(line: str) -> str:
    if len(line) <= _MAX_CHARACTERS:
        return line
    return f"{line[:_MAX_CHARACTERS]}... and {len(line) - _MAX_CHARACTERS:,} characters more"


# --- changes to a file ----------------------------------------------------------------------------------


def _changes(args: Mapping[str, Any], folder: Path) -> list[tuple[str, str]] | None:
    """The old and new texts of a change to a file; None if the call is something else."""
    path = args.get("path")
    if not isinstance(path, str):
        return None
    if isinstance(args.get("content"), str):
        return [(_present(folder / path), args["content"])]
    several = args.get("edits")
    each = several if isinstance(several, list | tuple) else []
    made = [change for change in map(_replacement, (args, *each)) if change is not None]
    return made or None


def _replacement(given: Any) -> tuple[str, str] | None:
    if not isinstance(given, Mapping):
        return None
    old = next((str(given[name]) for name in _OLD if name in given), None)
    new = next((str(given[name]) for name in _NEW if name in given), None)
    if not old and not new:
        return None
    parts = old or "", new or ""
    if any(part.endswith("\n") for part in parts):
        return parts
    # It is part of a line, not the end of a file.
    return (f"{parts[0]}\n" if parts[0] else "", f"{parts[1]}\n" if parts[1] else "")


def _diff(path: str, changes: list[tuple[str, str]], paint: Paint) -> list[str]:
    lines = [line for before, after in changes for line in _differences(path, before, after)]
    shown = [_start(printable(line).expandtabs(4)) for line in lines]
    return [
        paint(line, _COLOURS[line[0]]) if line[:1] in _COLOURS else line for line in _first(shown)
    ]


def _differences(path: str, before: str, after: str) -> Iterator[str]:
    made = difflib.unified_diff(_ended(before), _ended(after), path, path, lineterm="", n=2)
    is_same = True
    for number, line in enumerate(made):
        is_same = False
        yield line.removesuffix("\n")
        if number > 1 and not line.endswith("\n") and not line.startswith("@@"):
            yield "\\ no line break at the end"
    if is_same:
        yield f"{path}: no change"


def _ended(text: str) -> list[str]:
    """Lines with their line breaks. `splitlines` would break at other characters, too."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _present(path: Path) -> str:
    """The content of a file, if it can be shown."""
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
