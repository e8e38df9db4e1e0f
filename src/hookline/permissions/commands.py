"""Patterns over commands: `git status`, `git push *`, `npm run test:*`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from hookline.errors import UsageError
from hookline.permissions.wildcard import MANY, ONE, Glob, fits, fits_text, glob

# fmt: off
RUNS_OTHERS = frozenset({
    "ash", "bash", "builtin", "busybox", "chroot", "command", "dash", "doas", "env", "eval",
    "exec", "find", "fish", "flock", "ionice", "ksh", "nice", "nohup", "nsenter", "parallel",
    "pkexec", "proxychains", "runuser", "script", "setpriv", "setsid", "sh", "ssh", "stdbuf",
    "strace", "su", "sudo", "systemd-run", "taskset", "time", "timeout", "trap", "unbuffer",
    "unshare", "watch", "xargs", "xvfb-run", "zsh",
})
# fmt: on
"""Programs that run the command that is written after them, or in one of their arguments."""
_PIECE = re.compile(r"""\s+|\\.|'[^']*'|"[^"]*"|[^\s'"\\]+|.""", re.DOTALL)
_QUOTES = re.compile(r"[\"'\\]")
_SHELL_PIECE = re.compile(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|[;&|\n()`]+|[^\S\n]+|[^\s;&|()`'"\\]+|.""", re.DOTALL
)
_ENDS_COMMAND = re.compile(r"[;&|\n()`]+")
_REDIRECT = re.compile(r"\d*[<>]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_LEADS_ON = frozenset({"!", "{", "}", "do", "elif", "else", "if", "then", "time", "until", "while"})
_BETWEEN = re.compile(r"[\s;&|()'\"`]+")
_MOST_WORDS = 2000
"""A command within a command is looked for among so many words; where there are more, it may be anywhere."""

_Word: TypeAlias = Any
"""A word of a command: its text, or ONE or MANY where that is not known before it runs."""


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
        if self.is_anything or self.covers(part):
            return True
        commands = [part.argv] if part.argv is not None else _commands_in(part.text)
        return any(self._may_be(words) for words in commands)

    def _may_be(self, words: Sequence[_Word]) -> bool:
        if self._touching.may_be(words):
            return True
        inner = _inner_words(words)
        return len(inner) > _MOST_WORDS or any(
            self._touching.may_be(inner[start:]) for start in range(len(inner))
        )


class _Loose(NamedTuple):
    """A pattern as it is read to forbid: options may stand anywhere, and between the words."""

    words: tuple[Glob, ...]
    options: tuple[Glob, ...]
    has_rest: bool

    def may_be(self, argv: Sequence[_Word]) -> bool:
        """Whether these words are such a command, or may be once it is known what they are."""
        for option in self.options:
            if not any(not isinstance(word, str) or fits_text(option, word) for word in argv):
                return False
        # How many words of the pattern are found, and whether the word before was an option that may take this one.
        states = {(0, False)}
        for word in argv:
            found = {state for before in states for state in self._after(*before, word)}
            states = self._with_skips(found)
        return any(count == len(self.words) for count, _ in states)

    def _after(self, count: int, takes: bool, word: _Word) -> Iterator[tuple[int, bool]]:
        is_left = count < len(self.words)
        if not isinstance(word, str):
            yield from self._after_unknown(count, word)
        elif count == 0 and is_left:
            if any(fits_text(self.words[0], name) for name in _names(word)):
                yield 1, False
        else:
            if is_left and fits_text(self.words[count], word):
                yield count + 1, False
            if is_left and self.words[count] == (MANY,):
                yield count, False
            if word.startswith("-"):
                yield count, True
            elif takes or (not is_left and self.has_rest):
                yield count, False

    def _after_unknown(self, count: int, word: object) -> Iterator[tuple[int, bool]]:
        if word is MANY:  # it may become any words, or none
            yield from ((more, True) for more in range(count, len(self.words) + 1))
            return
        if count < len(self.words):
            yield count + 1, False
        if count:
            yield count, True

    def _with_skips(self, states: set[tuple[int, bool]]) -> set[tuple[int, bool]]:
        """Besides these: words `*` that stand for nothing."""
        more = set(states)
        for count, _ in states:
            while 0 < count < len(self.words) and self.words[count] == (MANY,):
                count += 1
                more.add((count, False))
        return more


def _names(program: str) -> tuple[str, ...]:
    """A program as it is written, and without the directory it is in."""
    return program, program.rpartition("/")[2]


def _commands_in(text: str) -> Iterator[list[_Word]]:
    """What may be the commands of a command line that was not understood: each as the words it seems to have.

    It is taken apart twice, because a quote may hold an argument together, or a command of its own.
    """
    text = text.replace("\\\n", "")
    for tokens in (*_quoted(text), *(piece.split() for piece in _ENDS_COMMAND.split(text))):
        words: list[_Word] = []
        is_target = False
        for token in tokens:
            is_first, was_target = not words, is_target
            is_target = _REDIRECT.fullmatch(token) is not None
            if is_target or was_target or _REDIRECT.match(token):
                continue
            if is_first and (token in _LEADS_ON or _ASSIGNMENT.match(token)):
                continue
            words.append(_word(token))
        if words:
            yield words


def _quoted(text: str) -> Iterator[list[str]]:
    """The commands of a text as tokens, with what is quoted held together."""
    tokens = [""]
    for found in _SHELL_PIECE.finditer(text):
        piece = found[0]
        if _ENDS_COMMAND.fullmatch(piece):
            yield [token for token in tokens if token]
            tokens = [""]
        elif piece.isspace():
            tokens.append("")
        else:
            tokens[-1] += piece
    yield [token for token in tokens if token]


def _word(token: str) -> _Word:
    """A word without its quotes: ONE where it may be another word when it runs, MANY where it may be any number."""
    if any(mark in token for mark in "$`{"):
        return MANY
    if "~" in token[:1] or any(mark in token for mark in "*?["):
        return token if token in ("[", "[[") else ONE
    return _QUOTES.sub("", token)


def _inner_words(argv: Sequence[_Word]) -> list[_Word]:
    """The words among which another command is written, where a command runs one."""
    if not argv or not isinstance(argv[0], str) or _names(argv[0])[1] not in RUNS_OTHERS:
        return []
    inner: list[_Word] = []
    for given in argv[1:]:
        inner += (
            [word for word in _BETWEEN.split(given) if word] if isinstance(given, str) else [given]
        )
    return inner


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
    if (
        words and "/" in words[0] and MANY not in words[0]
    ):  # whichever way the program is named, it is the same program
        last = len(words[0]) - words[0][::-1].index("/")
        words[0] = words[0][last:]
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
