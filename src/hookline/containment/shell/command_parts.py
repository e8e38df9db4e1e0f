"""The commands of a line as rules are compared with them. Tool rules and the shell policy share this."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hookline.containment.shell.command_pattern import CommandPart, PatternWord
from hookline.containment.shell.words import Command
from hookline.shell_text import UNKNOWN
from hookline.shell_text.command_search import find_commands
from hookline.shell_text.runners import can_read_commands, can_run_others
from hookline.wildcards import MANY, ONE

_PATTERN = frozenset("*?[{")


def parts_of(
    text: str, commands: Sequence[Command]
) -> tuple[tuple[CommandPart, ...], tuple[CommandPart, ...]]:
    """The commands of a line that was read, and those that it may also run."""
    parts = tuple(CommandPart(command.argv, _pattern_words(command)) for command in commands)
    # A shell runs what it reads: the output of another command, or a here-document.
    also = possible_parts(text) if any(map(_can_read_commands, commands)) else ()
    return parts, also


@lru_cache(maxsize=256)  # each rule asks again
def possible_parts(text: str) -> tuple[CommandPart, ...]:
    """Every command that a text may run, one without words if it runs none; none if there are too many to look at."""
    found = find_commands(text)
    if found is None:
        return ()
    return tuple(CommandPart(None, tuple(map(_open_word, words))) for words in found or ((),))


def _open_word(text: str) -> PatternWord:
    """A word, or MANY if it may be another one when it runs."""
    is_open = UNKNOWN in text or text.startswith("~") or not _PATTERN.isdisjoint(text)
    return MANY if is_open and text not in ("[", "[[") else text


def _pattern_words(command: Command) -> tuple[PatternWord, ...]:
    """The words of a command, with wildcards for those that are not known exactly."""
    return tuple(
        word.text if word.exact else MANY if word.start[:1] in ("", "-") else ONE
        for word in command.words
    )


def _can_read_commands(command: Command) -> bool:
    """Whether a command reads something that it may run."""
    words = _pattern_words(command)
    if not words:
        return False
    is_reader = not isinstance(words[0], str) or can_read_commands(words[0])
    if not is_reader and can_run_others(words):
        is_reader = any(
            can_read_commands(word) for word in words if isinstance(word, str) and word != "."
        )
    return is_reader and (command.piped or bool(command.redirects))
