"""What `.gitignore` files leave out, by git's rules: the last pattern that fits decides, deeper files come later."""

from __future__ import annotations

from typing import NamedTuple

from hookline.capabilities.files.patterns import PathPattern
from hookline.capabilities.files.texts import lines_of


class Rule(NamedTuple):
    """One line of a `.gitignore`."""

    base: tuple[str, ...]
    """The directory that the file is in."""
    pattern: PathPattern
    keeps: bool
    """It begins with `!`: what fits is not left out after all."""
    directories_only: bool


class Ignored(NamedTuple):
    """The rules that hold in a directory."""

    rules: tuple[Rule, ...] = ()

    def with_file(self, base: tuple[str, ...], text: str) -> Ignored:
        """These rules and those of a `.gitignore` in this directory."""
        return Ignored(
            (*self.rules, *(rule for line in lines_of(text) for rule in _rule(base, line)))
        )

    def covers(self, path: tuple[str, ...], *, is_directory: bool) -> bool:
        """Whether this is left out. What is in a directory that is left out is not asked about."""
        for rule in reversed(self.rules):
            if rule.directories_only and not is_directory:
                continue
            if rule.pattern.matches(path[len(rule.base) :]):
                return not rule.keeps
        return False


def _rule(base: tuple[str, ...], line: str) -> list[Rule]:
    line = _without_trailing_spaces(line)
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
    return [Rule(base, PathPattern(tuple(parts), hidden=True), keeps, directories_only)]


def _without_trailing_spaces(line: str) -> str:
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    return line
