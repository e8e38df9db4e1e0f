"""Secrets on command lines: `mysql -pSECRET`, `curl -u user:SECRET`.

The meaning of an option depends on the program, so there is a table of programs. A text is read once, from the name
of a program to the end of its command: hostile text costs no more than other text. It has its own notion of a word:
the text is prose, a log or JSON with a command somewhere in it, and what counts are the positions, which
`hookline.shell_text` does not keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from hookline.redaction.names import is_hidden, is_placeholder
from hookline.redaction.readings import Span
from hookline.redaction.tokens import BEFORE_WORD
from hookline.secret_tables import COMMAND_SECRETS, SecretArguments

_Place: TypeAlias = tuple[int, int, int]
"""A secret in a list of words: which word, and from where to where in it."""


# A quote opens a text only if that text ends a word; otherwise it closes the text that contains the command.
_QUOTED = (
    r"'(?![,:}\])])[^'\n]{0,500}'(?=[\s;|&)\"]|$)"
    r"|\"(?![,:}\])])(?:[^\"\\\n]|\\[^\n]){0,500}\"(?=[\s;|&)']|$)"
)
# Atomic groups, not possessive repeats of groups: Python before 3.11.5 gets those wrong.
_WORD = re.compile(rf"(?>(?:[^\s\"'\\;|&<>()`]|\\\S|{_QUOTED})+)")
_BLANK = re.compile(r"(?>(?:[ \t]|\\\r?\n)+)")
_ITEM = re.compile(r"(?P<quote>[\"'])[ \t]{0,4},\s{0,80}(?P=quote)(?P<word>[^\"'\n]{0,500})")
_PIPED = re.compile(
    r"\b(?:echo|printf)[ \t]{1,4}(?:-n[ \t]{1,4}|[\"']?%s(?:\\n)?[\"']?[ \t]{1,4})?"
    r"(?P<secret>'[^'\n]{2,200}'|\"[^\"\n]{2,200}\"|[^\s\"'|;&<>$(`-][^\s\"'|;&<>]{1,200})[ \t]{0,4}\|[ \t]{0,4}"
    r"(?=[^\n|;&]{0,200}(?:--password-stdin|--passphrase-fd[ =]0|\bsudo[ \t]{1,4}-S\b|--stdin|\bchpasswd\b))"
)
_FROM_INPUT = ("-stdin", "-fd", "sudo -s", "chpasswd")
_QUOTES = "\"'"
_FEWEST = 2
"""Letters of the shortest secret that is redacted."""


def command_spans(text: str, lowered: str) -> Iterator[Span]:
    """Where command lines in a text have secrets."""
    present = tuple(name for name in COMMAND_SECRETS if name in lowered)
    program, position = _any_of(present) if present else None, 0
    while program is not None and (found := program.search(text, position)):
        words = [found.span(), *_words_after(text, found.end())]
        position = words[-1][1]
        for index, start, end in argument_spans([text[start:end] for start, end in words]):
            yield words[index][0] + start, words[index][0] + end, "secret"
    for found in _PIPED.finditer(text) if any(hint in lowered for hint in _FROM_INPUT) else ():
        if not is_placeholder(found["secret"].strip(_QUOTES)):
            yield *found.span("secret"), "secret"


def argument_spans(words: Sequence[str]) -> Iterator[_Place]:
    """Where a list of words has secrets. A word that is a program begins another command."""
    names = [word.rpartition("/")[2].strip(_QUOTES) for word in words]
    starts = [
        at
        for at, name in enumerate(names)
        if name in COMMAND_SECRETS and (at == 0 or not words[at - 1].startswith("-"))
    ]
    for first, end in zip(starts, [*starts[1:], len(words)], strict=False):
        program = COMMAND_SECRETS[names[first]]
        sets = not program.setters.isdisjoint((names[first], *words[first + 1 : end]))
        yield from _of_program(program, words[first + 1 : end], first + 1, sets=sets)


@lru_cache(maxsize=64)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"{BEFORE_WORD}(?:{either})(?=[ \t\"'])")


def _words_after(text: str, position: int) -> Iterator[tuple[int, int]]:
    """The words of a command, or the items of a list, that follow."""
    while item := _ITEM.match(text, position):
        yield item.span("word")
        position = item.end()
    while (blank := _BLANK.match(text, position)) and (word := _WORD.match(text, blank.end())):
        yield word.span()
        position = word.end()


def _of_program(
    program: SecretArguments, words: Sequence[str], offset: int, *, sets: bool
) -> Iterator[_Place]:
    """The secrets among the arguments of one program."""
    if program.verb and program.verb not in words:
        return
    found: list[tuple[int, int]] = []
    if program.last:
        if any(word.startswith("-") and program.last in word for word in words):
            found = [(len(words) - 1, 0)]
    else:
        found = [
            place for at in range(len(words)) for place in _find_start(program, words, at, sets)
        ]
    for at, start in found:
        if span := _secret(words[at], start):
            yield offset + at, *span
        if program.is_first_only:
            return


def _find_start(
    program: SecretArguments, words: Sequence[str], at: int, sets: bool
) -> Iterator[tuple[int, int]]:
    """Where the secret of an option begins: in which word, and where in it."""
    word = words[at]
    quote = len(word) - len(word.lstrip(_QUOTES))
    option, follows = word[quote:].rstrip(_QUOTES), at + 1 < len(words)
    if option in program.separate:
        if follows and not words[at + 1].startswith("-"):
            yield at + 1, 0
    elif name := next((each for each in program.attached if option.startswith(each)), ""):
        yield at, quote + len(name)
    elif name := next((each for each in program.pairs if option.startswith(each)), ""):
        in_next = option == name
        if follows or not in_next:
            yield from _behind_user(
                words, at + in_next, 0 if in_next else quote + len(name), program
            )
    elif sets and follows and is_hidden(option, words[at + 1].strip(_QUOTES)):
        yield at + 1, 0


def _behind_user(
    words: Sequence[str], at: int, start: int, program: SecretArguments
) -> Iterator[tuple[int, int]]:
    place = words[at].find(program.between, start + 1)
    if place > 0 and not words[at].startswith("--user-"):
        yield at, place + 1


def _secret(word: str, start: int) -> tuple[int, int] | None:
    """The span of a secret; None for a placeholder (`$PASSWORD`, `<password>`) or nothing."""
    end = len(word)
    if start == 0 and word[:1] in _QUOTES:
        start = 1
    if word[:1] in _QUOTES and word.endswith(word[:1]):
        end -= 1
    value = word[start:end].strip(_QUOTES)
    is_one = len(value) >= _FEWEST and value[0] not in "$`[<" and not is_placeholder(value)
    return (start, end) if is_one else None
