"""`list` and `glob`: the entries of directories, as the model reads them."""

from __future__ import annotations

import difflib

from hookline.capabilities.files.patterns import path_patterns
from hookline.capabilities.files.tree import Walk, parts_of, printable_path
from hookline.containment import FileEntry, FileJail
from hookline.errors import FileJailError, ToolError

MOST = 500
"""How many entries are shown."""
DEEPEST = 10
_MOST_BYTES = 20_000


def list_directory(walk: Walk, path: str, depth: int) -> str:
    """The entries of a directory, and of those below it down to `depth`. Ignored directories are not opened."""
    start = walk.jail.locate(path)
    base = len(parts_of(start))
    lines, opened = list[str](), set[str]()
    if depth > 1:
        walk.enters = lambda _: False
        opened = {entry.path for entry in walk.entries(start)}
        walk.enters = lambda parts: len(parts) - base < depth
    for entry in walk.jail.list(start):
        lines.append(_line(walk, entry, 0))
        if entry.is_directory and entry.path in opened:
            for each in walk.entries(entry.path):
                lines.append(_line(walk, each, len(parts_of(each.path)) - base - 1))
        if len(lines) > MOST:
            break
    text = _cap(lines, "the directory is empty", "list a directory below it, or use glob")
    return text + _notes(walk)


def _line(walk: Walk, entry: FileEntry, indent: int) -> str:
    sign = {"directory": "/", "link": " (link)", "other": " (not a file)"}.get(entry.kind, "")
    size = f"  {entry.size:,} bytes" if entry.is_file else ""
    return f"{'  ' * indent}{printable_path(entry.name, walk.notes)}{sign}{size}"


def find_files(walk: Walk, pattern: str, path: str) -> str:
    """The files and links that fit a pattern, in the order of their paths."""
    start = walk.jail.locate(path)
    fits = walk.look_for(path_patterns(pattern, hidden=walk.everything), start)
    found: list[str] = []
    for entry in walk.entries(start):
        if entry.kind in ("file", "link") and fits(entry):
            found.append(printable_path(entry.path, walk.notes))
            if len(found) > MOST:
                break
    nothing = "no file fits"
    if not found and "/" not in pattern and "**" not in pattern:
        nothing += f"; to look in the directories below too, use **/{pattern}"
    return _cap(found, nothing, "use a narrower pattern or path") + _notes(walk)


def _notes(walk: Walk) -> str:
    return "".join(f"\n[{note}]" for note in walk.notes)


def _cap(lines: list[str], nothing: str, remedy: str) -> str:
    if not lines:
        return f"({nothing})"
    shown, room = list[str](), _MOST_BYTES
    for line in lines[:MOST]:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    more = f"\n[only the first {len(shown)} are shown: {remedy}]" if len(shown) < len(lines) else ""
    return "\n".join(shown) + more


def missing_file_error(jail: FileJail, path: str) -> ToolError:
    """The error for a file that is not there, with the name that was probably meant."""
    directory, _, name = path.rstrip("/").rpartition("/")
    try:
        there = {entry.name: entry.kind for entry in jail.list(directory or ".")}
    except FileJailError:
        return ToolError(
            f"there is no '{path}', and its directory does not exist either.",
            remedy="Look for it with `glob` or `list`.",
        )
    if there.get(name) == "link":
        return ToolError(
            f"'{path}' is a link to something that is not there.",
            remedy="Find the right path with `glob` or `list`.",
        )
    names = [each for each in there if printable_path(each) == each]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    where = f"{directory}/" if directory else ""
    meant = ", ".join(f"'{where}{each}'" for each in close)
    return ToolError(
        f"there is no '{path}'.",
        remedy=f"Did you mean {meant}?" if meant else "Look for it with `glob` or `list`.",
    )
