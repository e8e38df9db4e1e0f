"""`list` and `glob`: what is there, as the model reads it."""

from __future__ import annotations

import difflib

from hookline.capabilities.files.patterns import path_patterns
from hookline.capabilities.files.tree import Walk, parts_of
from hookline.containment import Entry, FileJail
from hookline.errors import FileJailError, ToolError

MOST = 500
"""How many entries are shown."""
DEEPEST = 10
_MOST_BYTES = 20_000


def listed(jail: FileJail, path: str, depth: int, gitignore: bool) -> str:
    """What is in a directory, and in those below it as far as asked. Below it, what is ignored is not opened up."""
    start = jail.locate(path)
    base = len(parts_of(start))
    first = jail.list(start)
    lines: list[str] = []
    here = Walk(jail, gitignore=gitignore, enters=lambda _: False)
    opened_up = {entry.path for entry in here.entries(start)} if depth > 1 else set()
    for entry in first:
        lines.append(_line(entry, 0))
        if entry.is_directory and entry.path in opened_up:
            below = Walk(jail, gitignore=gitignore, enters=lambda parts: len(parts) - base < depth)
            lines += [
                _line(each, len(parts_of(each.path)) - base - 1)
                for each in below.entries(entry.path)
            ]
        if len(lines) > MOST:
            break
    return _capped(lines, "the directory is empty", "list a directory below it, or use glob")


def _line(entry: Entry, indent: int) -> str:
    sign = {"directory": "/", "link": " (link)", "other": " (not a file)"}.get(entry.kind, "")
    size = f"  {entry.size:,} bytes" if entry.is_file else ""
    return f"{'  ' * indent}{entry.name}{sign}{size}"


def globbed(
    jail: FileJail,
    pattern: str,
    path: str,
    *,
    everything: bool,
    gitignore: bool,
    seconds_end: float,
) -> str:
    """The files that fit a pattern, in the order of their paths."""
    start = jail.locate(path)
    base = len(parts_of(start))
    patterns = path_patterns(pattern, hidden=everything)
    walk = Walk(jail, everything=everything, gitignore=gitignore, deadline=seconds_end)
    walk.enters = lambda parts: any(each.leads_to(parts[base:]) for each in patterns)
    walk.asks_for = lambda parts: (
        walk.enters(parts) or any(each.matches(parts[base:]) for each in patterns)
    )
    found: list[str] = []
    for entry in walk.entries(start):
        if entry.kind != "directory" and any(
            each.matches(parts_of(entry.path)[base:]) for each in patterns
        ):
            found.append(entry.path)
            if len(found) > MOST:
                break
    nothing = "no file fits"
    if not found and "/" not in pattern and "**" not in pattern:
        nothing += f"; to look in the directories below too, use **/{pattern}"
    text = _capped(found, nothing, "use a narrower pattern or path")
    return text + "".join(f"\n[{note}]" for note in walk.notes)


def _capped(lines: list[str], nothing: str, remedy: str) -> str:
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


def missing(jail: FileJail, path: str) -> ToolError:
    """The error for a file that is not there, with the name that was probably meant."""
    directory, _, name = path.rstrip("/").rpartition("/")
    try:
        names = [entry.name for entry in jail.list(directory or ".")]
    except FileJailError:
        return ToolError(
            f"there is no '{path}', nor the directory it would be in.",
            remedy="Look for it with `glob` or `list`.",
        )
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    where = f"{directory}/" if directory else ""
    meant = ", ".join(f"'{where}{each}'" for each in close)
    return ToolError(
        f"there is no '{path}'.",
        remedy=f"Did you mean {meant}?" if meant else "Look for it with `glob` or `list`.",
    )
