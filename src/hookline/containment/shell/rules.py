"""Rules as people write them: `git status`, `git push *`, `npm run test:*`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from itertools import dropwhile

import msgspec

from hookline.containment.shell.words import Word
from hookline.errors import UsageError

_OF_TOOL = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.", re.DOTALL)
_NO_WORD = re.compile(r"[;|&<>\n\r`]|\$\(|^\s*[A-Za-z_]\w*\(")


class ShellRule(msgspec.Struct, frozen=True):
    """A pattern for one command, word by word.

    Without a `*` it is that command exactly. `*` alone stands for any words, also none; within a word for any
    characters of it. At the very end of a rule that asks or denies it stands for whatever follows, too. `:*` there is
    a colon, a blank or nothing and whatever follows.
    """

    text: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> ShellRule:
        """Read a pattern, also in the form `bash(git push *)`, or say what is wrong with it."""
        pattern = _without_tool(text) if isinstance(text, str) else ""
        _check_plain(text, pattern)
        try:
            words = tuple(shlex.split(pattern))
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
        """Whether a command is one of those that the pattern describes, read as widely as it can be: to ask or deny."""
        return _match(self.words, tuple(argv), _fits)

    def allows(self, argv: Sequence[str]) -> bool:
        """The same, read as narrowly as it can be: a star within a word stays in that word, and in its directory."""
        return _match(self.words, tuple(argv), _fits_narrowly)

    def may_match(self, words: Sequence[Word]) -> bool:
        """Whether a command may turn out to be one of those, once its open words are known."""
        for mine, word in zip(self.words, words, strict=False):
            if mine == "*" or not word.exact:
                return "*" in mine or mine.startswith(word.start)
            if not _match((mine,), (word.text,), _fits):
                return False
        return True


def _without_tool(text: str) -> str:
    """What stands in the brackets of `bash(..)`, or the text itself."""
    found = _OF_TOOL.fullmatch(text.strip())
    if found is None:
        return text
    if found[1].lower() not in {"bash", "exec"}:
        raise UsageError(
            f"the shell rule {text!r} is about the tool {found[1]!r}, not about a command.",
            remedy="Write a command, such as 'git push *', or 'bash(git push *)'.",
        )
    return found[2]


def _check_plain(text: object, pattern: str) -> None:
    """A pattern is held against the words of one command: with anything between commands it would fit none."""
    if found := _NO_WORD.search(_QUOTED.sub("", pattern)):
        raise UsageError(
            f"the shell rule {text!r} holds {found[0]!r}, which no word of a command does.",
            remedy="Write one rule for each command, without redirects; quote it if it is meant literally.",
        )


_Fits = Callable[[str, str], bool]


def _match(pattern: tuple[str, ...], argv: tuple[str, ...], fits: _Fits) -> bool:
    if not pattern:
        return not argv
    first, rest = pattern[0], pattern[1:]
    if first == "*":
        rest = tuple(dropwhile(lambda word: word == "*", rest))
        return not rest or any(_match(rest, argv[at:], fits) for at in range(len(argv) + 1))
    if not argv:
        return False
    if not rest and first.endswith(":*"):
        return argv[0] == first[:-2] or fits(first, argv[0])
    if not fits(first, argv[0]):
        return False
    open_end = not rest and first.endswith("*") and fits is _fits
    return open_end or _match(rest, argv[1:], fits)


def _fits(pattern: str, word: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), word, re.DOTALL) is not None


def _fits_narrowly(pattern: str, word: str) -> bool:
    """What a star stands for must not make an option of a word, nor lead out of the directory that is named."""
    if not _fits(pattern, word):
        return False
    if "*" not in pattern:
        return True
    is_option = word.startswith("-") and pattern.startswith("*")
    leaves = ".." in re.split("[/{},]", word) or (
        pattern.startswith("*") and word.startswith(("/", "~"))
    )
    return not (is_option or leaves)
