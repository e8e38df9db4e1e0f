"""Rules as people write them: `git status`, `git push *`, `npm run test:*`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import dropwhile

import msgspec

from hookline.errors import UsageError


class ShellRule(msgspec.Struct, frozen=True):
    """A pattern for one command, word by word.

    Without a `*` it is that command exactly. `*` alone stands for any words, also none; within a word for any
    characters of it. At the very end it stands for whatever follows, and `:*` there for a colon, a blank or nothing
    and whatever follows.
    """

    text: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> ShellRule:
        """Read a pattern, or say what is wrong with it."""
        try:
            words = tuple(shlex.split(text)) if isinstance(text, str) else ()
        except ValueError as error:
            raise UsageError(
                f"the shell rule {text!r} cannot be read: {error}.", remedy="Close the quote."
            ) from None
        if not words:
            raise UsageError(
                f"the shell rule {text!r} has no words.",
                remedy="Write a command, such as 'git status' or 'git push *'.",
            )
        return cls(text, words)

    def matches(self, argv: Sequence[str]) -> bool:
        """Whether a command is one of those that the pattern describes."""
        return _match(self.words, tuple(argv))


def _match(pattern: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    if not pattern:
        return not argv
    first, rest = pattern[0], pattern[1:]
    if first == "*":
        rest = tuple(dropwhile(lambda word: word == "*", rest))
        return not rest or any(_match(rest, argv[at:]) for at in range(len(argv) + 1))
    if not argv:
        return False
    if not rest and first.endswith(":*") and argv[0] == first[:-2]:
        return True
    if not re.fullmatch(re.escape(first).replace(r"\*", ".*"), argv[0], re.DOTALL):
        return False
    return _match(rest, argv[1:]) or (not rest and first.endswith("*"))
