"""Patterns over commands: `git status`, `git push *`, `npm run test:*`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hookline.errors import UsageError
from hookline.permissions.wildcard import MANY, ONE, Glob, fits, fits_text, glob

# fmt: off
_RUNS_OTHERS = frozenset({
    "ash", "bash", "builtin", "busybox", "chroot", "command", "dash", "doas", "env", "eval",
    "exec", "find", "fish", "flock", "ionice", "ksh", "nice", "nohup", "nsenter", "parallel",
    "pkexec", "proxychains", "runuser", "script", "setpriv", "setsid", "sh", "ssh", "stdbuf",
    "strace", "su", "sudo", "systemd-run", "taskset", "time", "timeout", "trap", "unbuffer",
    "unshare", "watch", "xargs", "xvfb-run", "zsh",
})
# fmt: on
"""Programs that run the command that is written after them, or in one of their arguments."""
_PLAIN = re.compile(r"[A-Za-z0-9_@%+,./:=-]+")
_PIECE = re.compile(r"""\s+|\\.|'[^']*'|"[^"]*"|[^\s'"\\]+|.""", re.DOTALL)
_BETWEEN = re.compile(r"[\s;&|()'\"`]+")
_MOST_WORDS = 2000
"""A command within a command is looked for among so many words; where there are more, it may be anywhere."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Part(NamedTuple):
    """One command of a command line. `argv` is None where its words are not known before it runs."""

    argv: tuple[str, ...] | None
    text: str


class CommandPattern:
    """A pattern over the words of one command. A `*` of its own is any words, one within a word is any letters.

    At the end, `*` is whatever else there is, nothing included; so is `:*`, as other agents write it.
    """

    def __init__(self, text: str) -> None:
        self.is_anything = text in ("*", ":*", "")
        begun = text.removesuffix(":*")
        if begun == text:
            self._covering = [_shape(text)]
            self._touching = _loose(text)
        else:  # `test:*` is `test` and what follows it, or what begins with `test:`
            self._covering = [_shape(f"{begun} *"), _shape(f"{begun}:*")]
            self._touching = _loose(f"{begun}*")

    def covers(self, part: Part) -> bool:
        """Whether the command is known, and is what the pattern says, word by word."""
        argv = part.argv
        return argv is not None and any(fits(each, argv, fits_text) for each in self._covering)

    def touches(self, part: Part) -> bool:
        """Whether the command may be what the pattern says, in another spelling or when it runs."""
        if self.is_anything:
            return True
        words, is_whole = _known_words(part)
        if self._touching.may_be(words, is_whole):
            return True
        inner = _inner_words(words)
        return len(inner) > _MOST_WORDS or any(
            self._touching.may_be(inner[start:], is_whole) for start in range(len(inner))
        )


class _Loose(NamedTuple):
    """A pattern as it is read to forbid: options may stand anywhere, and between the words."""

    words: tuple[Glob, ...]
    options: tuple[Glob, ...]
    has_rest: bool

    def may_be(self, argv: Sequence[str], is_whole: bool) -> bool:
        """Whether these words are such a command or, when they are only its beginning, may become one."""
        if is_whole and not all(
            any(fits_text(option, word) for word in argv) for option in self.options
        ):
            return False
        if not self.words:
            return True
        if not argv:
            return not is_whole
        if not any(fits_text(self.words[0], name) for name in _names(argv[0])):
            return False
        return self._may_go_on(argv[1:], is_whole)

    def _may_go_on(self, rest: Sequence[str], is_whole: bool) -> bool:
        # How many words of the pattern are found, and whether the word before was an option that may take this one.
        states = self._with_skips({(1, False)})
        for word in rest:
            found = {state for before in states for state in self._after(*before, word)}
            states = self._with_skips(found)
        end = len(self.words)
        return bool(states) if not is_whole else any(count == end for count, _ in states)

    def _after(self, count: int, takes: bool, word: str) -> Iterator[tuple[int, bool]]:
        if count < len(self.words) and fits_text(self.words[count], word):
            yield count + 1, False
        if count < len(self.words) and self.words[count] == (MANY,):
            yield count, False
        if word.startswith("-"):
            yield count, True
        elif takes or (count == len(self.words) and self.has_rest):
            yield count, False

    def _with_skips(self, states: set[tuple[int, bool]]) -> set[tuple[int, bool]]:
        """Besides these: words `*` that stand for nothing."""
        more = set(states)
        for count, _ in states:
            while count < len(self.words) and self.words[count] == (MANY,):
                count += 1
                more.add((count, False))
        return more


def _names(program: str) -> tuple[str, ...]:
    """A program as it is written, and without the directory it is in."""
    return program, program.rpartition("/")[2]


def _known_words(part: Part) -> tuple[Sequence[str], bool]:
    """The words a command certainly begins with, and whether those are all."""
    if part.argv is not None:
        return part.argv, True
    words: list[str] = []
    for token in part.text.split():
        if not _PLAIN.fullmatch(token):
            break
        if words or not _ASSIGNMENT.match(token):
            words.append(token)
    return words, False


def _inner_words(argv: Sequence[str]) -> list[str]:
    """The words among which another command is written, where a command runs one."""
    if not argv or _names(argv[0])[1] not in _RUNS_OTHERS:
        return []
    return [word for given in argv[1:] for word in _BETWEEN.split(given) if word]


def _shape(text: str) -> tuple[object, ...]:
    words = _words(text)
    shape: list[object] = []
    for place, word in enumerate(words):
        is_last = place == len(words) - 1
        if word == (MANY,):
            shape += [MANY] if is_last else [ONE, MANY]
        else:
            shape.append(word)
            if is_last and word[-1:] == (MANY,):
                shape.append(MANY)
    return tuple(shape)


def _loose(text: str) -> _Loose:
    words = _words(text)
    has_rest = bool(words) and words[-1][-1:] == (MANY,)
    if words and words[-1] == (MANY,):
        words.pop()
    options = tuple(word for word in words if word[:1] == ("-",))
    return _Loose(tuple(word for word in words if word[:1] != ("-",)), options, has_rest)


def _words(text: str) -> list[Glob]:
    """The words of a pattern; quotes hold together what has blanks in it."""
    words: list[str | None] = [None]
    for found in _PIECE.finditer(text):
        piece = found[0]
        if piece.isspace():
            words.append(None)
            continue
        if piece in ("'", '"'):
            raise UsageError(
                f"the command '{text}' has a {piece} at position {found.start()} that is never closed.",
                remedy=f"Close it, or write \\{piece} for the mark itself.",
            )
        if piece[0] in "'\"":
            piece = piece[1:-1]
        elif piece[0] == "\\" and piece not in (r"\*", r"\\"):
            piece = piece[1:]
        words[-1] = (words[-1] or "") + piece
    return [glob(word) for word in words if word is not None]
