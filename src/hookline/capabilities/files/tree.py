"""Walks a jail for `list`, `glob` and `search`: in order, without hidden or ignored files, and within limits."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hookline.capabilities.files.patterns import GlobPattern
from hookline.capabilities.files.text import lines_of
from hookline.containment import FileEntry, FileJail
from hookline.errors import FileJailError

MOST_ENTRIES = 200_000
DEEPEST = 100
"""Directories below each other, at most: a tree may be built as a trap."""
_GITIGNORE = ".gitignore"
_MOST_RULES = 256 * 1024
"""Bytes of a `.gitignore` that are read."""
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What would look like the end of a line, or move a cursor."""
_NO_TEXT = "names with \\x.. in them are not UTF-8: the file tools cannot open such a file"


@dataclass
class Walk:
    """One walk through a part of a jail."""

    jail: FileJail
    everything: bool = False
    """With what is hidden and what `.gitignore` leaves out."""
    gitignore: bool = True
    deadline: float = float("inf")
    """On the monotonic clock."""
    notes: list[str] = field(default_factory=list)
    """What was not looked at, in words."""
    enters: Callable[[tuple[str, ...]], bool] = lambda _: True
    """Whether a directory can have anything of interest in it."""
    asks_for: Callable[[tuple[str, ...]], bool] = lambda _: False
    """Whether a hidden file or directory is asked for by its name."""
    _entries_seen: int = 0

    def look_for(self, patterns: Sequence[GlobPattern], start: str) -> Callable[[FileEntry], bool]:
        """Enter only directories below `start` that patterns lead into; returns whether an entry fits one of them."""
        base = len(parts_of(start))

        def fits(parts: tuple[str, ...]) -> bool:
            return any(each.matches(parts[base:]) for each in patterns)

        def leads_on(parts: tuple[str, ...]) -> bool:
            return any(each.leads_to(parts[base:]) for each in patterns)

        self.enters = leads_on
        self.asks_for = lambda parts: fits(parts) or leads_on(parts)
        return lambda entry: fits(parts_of(entry.path))

    def files(self, start: str) -> Iterator[FileEntry]:
        """The plain files below a directory, each directory's in the order of the names."""
        for entry in self.entries(start):
            if entry.is_file:
                yield entry

    def entries(self, start: str) -> Iterator[FileEntry]:
        """Everything below a directory, each directory before what is in it."""
        parts = parts_of(start)
        yield from self._below(start, self._rules_above(parts), first=True)

    def _below(
        self, directory: str, rules: IgnoreRules, *, first: bool = False
    ) -> Iterator[FileEntry]:
        try:
            found = self.jail.list(directory)
        except FileJailError:
            if first:
                raise
            return
        has_rules = any(entry.name == _GITIGNORE and entry.is_file for entry in found)
        if has_rules and not self.everything and self.gitignore:
            rules = rules.with_file(parts_of(directory), self._gitignore_in(directory))
        for entry in found:
            if self._is_over():
                return
            if self._is_left_out(entry, rules):
                continue
            yield entry
            parts = parts_of(entry.path)
            if entry.is_directory and len(parts) > DEEPEST:
                self._note(f"directories below level {DEEPEST} were not searched")
            elif entry.is_directory and self.enters(parts):
                yield from self._below(entry.path, rules)

    def _is_left_out(self, entry: FileEntry, rules: IgnoreRules) -> bool:
        if entry.name == ".git":
            return True
        if self.everything:
            return False
        parts = parts_of(entry.path)
        if entry.name.startswith(".") and not self.asks_for(parts):
            return True
        return rules.covers(parts, is_directory=entry.is_directory)

    def _rules_above(self, parts: tuple[str, ...]) -> IgnoreRules:
        """The rules of the directories that lead to the one where the walk begins."""
        rules = IgnoreRules()
        if self.everything or not self.gitignore:
            return rules
        for depth in range(len(parts)):
            rules = rules.with_file(
                parts[:depth], self._gitignore_in("/".join(parts[:depth]) or ".")
            )
        return rules

    def _gitignore_in(self, directory: str) -> str:
        try:
            content = self.jail.read_bytes(f"{directory}/{_GITIGNORE}", limit=_MOST_RULES)
        except FileJailError:
            return ""
        return content.decode("utf-8-sig", "replace")

    def _is_over(self) -> bool:
        self._entries_seen += 1
        if self._entries_seen > MOST_ENTRIES:
            self._note(f"only the first {MOST_ENTRIES:,} files and directories were searched")
            return True
        if time.monotonic() > self.deadline:
            self._note(
                "the time limit was reached before everything was searched; use a narrower path"
            )
            return True
        return False

    def _note(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)


def printable_path(path: str, notes: list[str] | None = None) -> str:
    """A path on one line, with escapes for bytes that are not text, and a note about these."""
    text = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    if text != path and notes is not None and _NO_TEXT not in notes:
        notes.append(_NO_TEXT)
    return _BREAKS.sub(lambda found: repr(found[0])[1:-1], text)


def parts_of(path: str) -> tuple[str, ...]:
    """The names in a path of the jail; none for its root."""
    return tuple(part for part in path.split("/") if part not in ("", "."))


# --- .gitignore --------------------------------------------------------------------------------


class IgnoreRule(NamedTuple):
    """One line of a `.gitignore`."""

    base: tuple[str, ...]
    """The directory that the file is in."""
    pattern: GlobPattern
    keeps: bool
    """It begins with `!`: what fits is not left out after all."""
    directories_only: bool


class IgnoreRules(NamedTuple):
    """The rules that hold in a directory."""

    rules: tuple[IgnoreRule, ...] = ()

    def with_file(self, base: tuple[str, ...], text: str) -> IgnoreRules:
        """These rules and those of a `.gitignore` in this directory."""
        return IgnoreRules(
            (*self.rules, *(rule for line in lines_of(text) for rule in _rule(base, line)))
        )

    def covers(self, path: tuple[str, ...], *, is_directory: bool) -> bool:
        """Whether a path is ignored. Paths in an ignored directory are not asked about."""
        for rule in reversed(self.rules):
            if rule.directories_only and not is_directory:
                continue
            if rule.pattern.matches(path[len(rule.base) :]):
                return not rule.keeps
        return False


def _rule(base: tuple[str, ...], line: str) -> list[IgnoreRule]:
    line = _strip_trailing_spaces(line)
    if not line or line.startswith("#"):
        return []
    keeps = line.startswith("!")
    text = line[1:] if keeps else line
    directories_only = text.endswith("/")
    text = text.rstrip("/")
    parts = [part for part in text.split("/") if part]
    if not parts:
        return []
    if "/" not in text:
        parts.insert(0, "**")
    if parts[-1] == "**":
        parts.append("*")
    return [IgnoreRule(base, GlobPattern(tuple(parts), hidden=True), keeps, directories_only)]


def _strip_trailing_spaces(line: str) -> str:
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    return line
