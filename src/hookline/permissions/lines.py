"""What may be the commands of a command line that was not understood, in the words it seems to have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from hookline.permissions.wildcard import MANY, ONE

Word: TypeAlias = Any
"""A word of a command: its text, or ONE or MANY where that is not known before it runs."""

_QUOTES = re.compile(r"[\"'\\]")
_REDIRECT = re.compile(r"&>>?|\d*(?:<<<|<<-?|<>|>\||>>|[<>]&-?|[<>])(?!\()")
_PIECE = re.compile(
    rf"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|{_REDIRECT.pattern}|[<>]\(|[;&|\n()`]+|[^\S\n]+"""
    r"""|[^\s;&|()`'"\\<>]+|.""",
    re.DOTALL,
)
_BROKEN = re.compile(r"[;&|\n()`]+")
_BETWEEN = re.compile(r"[\s;&|()'\"`<>={}]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_LEADS_ON = frozenset(
    {"!", "coproc", "do", "elif", "else", "if", "then", "time", "until", "while", "{", "}"}
)
"""Words of the shell after which a command may begin."""
_OF_TIME = ("-p", "--")
_SUBSTITUTED = "$"


class Guess(NamedTuple):
    """Words that may be a command, and the places among them at which one may begin, whatever the word there is."""

    words: list[Word]
    starts: frozenset[int]


def guesses(text: str) -> Iterator[Guess]:
    """The commands that a line may be made of: too many rather than too few.

    It is taken apart three times, because a quote may hold an argument together, or a command of its own, or neither.
    """
    text = text.replace("\\\n", "")
    for tokens in (*_quoted(text), *(piece.split() for piece in _BROKEN.split(text))):
        guess = _guess(tokens)
        if guess.words:
            yield guess
    yield Guess(inner_words(text), frozenset())


def inner_words(text: str) -> list[Word]:
    """The words of a text within which a command may be written, without any of its marks."""
    return [word.replace("\\", "") for word in _BETWEEN.split(text) if word.strip(":")]


def _guess(tokens: list[str]) -> Guess:
    words: list[Word] = []
    starts = {0}
    is_target = False
    for token in tokens:
        was_target, is_target = is_target, _REDIRECT.fullmatch(token) is not None
        if is_target or was_target:
            continue
        if len(words) in starts and (_ASSIGNMENT.match(token) or token in _OF_TIME):
            continue
        if token in _LEADS_ON:
            if token not in ("{", "}") and len(words) not in starts:
                words.append(token)  # it may be a word like any other
            starts.add(len(words))
            continue
        words.append(_word(token))
    return Guess(words, frozenset(starts))


def _quoted(text: str) -> Iterator[list[str]]:
    """The commands of a text as tokens, with what is quoted held together, and redirects apart."""
    tokens = [""]
    for found in _PIECE.finditer(text):
        piece = found[0]
        if piece in ("<(", ">("):  # what is within is a command; the whole is a word of this one
            tokens[-1] += _SUBSTITUTED
            yield [token for token in tokens if token]
            tokens = [""]
        elif _REDIRECT.fullmatch(piece):
            tokens += [piece, ""]
        elif _BROKEN.fullmatch(piece):
            yield [token for token in tokens if token]
            tokens = [""]
        elif piece.isspace():
            tokens.append("")
        else:
            tokens[-1] += piece
    yield [token for token in tokens if token]


def _word(token: str) -> Word:
    """A word without its quotes: ONE where it may be another word when it runs, MANY where it may be any number."""
    if any(mark in token for mark in "$`{"):
        return MANY
    if "~" in token[:1] or any(mark in token for mark in "*?["):
        return token if token in ("[", "[[") else ONE
    return _QUOTES.sub("", token)
