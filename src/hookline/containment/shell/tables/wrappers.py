"""Programs that run another one: where the inner command begins."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.call import read_call
from hookline.containment.shell.options import Call, Options, only
from hookline.containment.shell.words import Word

STDIN = Word("...", exact=False, hidden=True)
"""Words that xargs reads from its input."""
NAMES = Word("...", exact=False)
"""The same where they are known to be names of files."""

SHELLS = frozenset({"bash", "sh"})
_OF_BASH = re.compile(r"[$`{}~\\]|\[\[|&>|\|&|<<|[<>]\(")
"""What another shell than bash may read otherwise, or bash itself when it is called `sh`."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")

HARMLESS_WRAPPERS: dict[str, tuple[Options, int]] = {
    "nice": (only("-#", texts="-n --adjustment"), 0),
    "timeout": (
        only("-v --foreground --preserve-status --verbose", texts="-k -s --kill-after --signal"),
        1,
    ),
    "stdbuf": (only(texts="-i -o -e --input --output --error"), 0),
    "builtin": (only(), 0),
    "command": (only("-p"), 0),
    "xargs": (
        only(
            "-0 -r -t -x --null --no-run-if-empty --verbose --exit",
            texts="-n -P -L -d -s -I -E --max-args --max-procs --max-chars --delimiter",
            takes="-a --arg-file",
            maybe="-i -l -e --replace --max-lines --eof",
        ),
        0,
    ),
}
"""Wrappers that change nothing about what the inner command does: their options, and how many words of their own come
before it. Those that take it from elsewhere are not here."""


def inner_words(name: str, words: Sequence[Word]) -> tuple[Word, ...] | None:
    """The command that a harmless wrapper runs. None if there is none, or the wrapper is used in another way."""
    if name not in HARMLESS_WRAPPERS:
        return None
    options, own = HARMLESS_WRAPPERS[name]
    call = read_call(options, words, to_operand=True)
    if isinstance(call, str) or not all(value.exact for _, value in call.options if value):
        return None
    if name == "xargs" and not call.rest:  # it prints the words
        return (Word("echo"), STDIN)
    if len(call.rest) <= own or not all(word.exact for word in call.rest[:own]):
        return None
    inner = call.rest[own:]
    return _filled(inner, call) if name == "xargs" else inner


def inner_script(name: str, words: Sequence[Word]) -> str | None:
    """The script that a shell is given to run, if nothing else is said. None where it may be read in another way."""
    texts = [word.text for word in words]
    if name not in SHELLS or len(words) < 2 or not all(word.exact for word in words):
        return None
    options, script = texts[:-1], texts[-1]
    if name == "sh":
        return script if options == ["-c"] and not _OF_BASH.search(script) else None
    return script if options in (["-c"], ["-lc"], ["-l", "-c"]) else None


def assigned_words(words: Sequence[Word]) -> tuple[list[tuple[str, Word]], Sequence[Word]]:
    """What `env` sets, and what it runs then."""
    given: list[tuple[str, Word]] = []
    while words and words[0].exact and (found := _ASSIGNMENT.fullmatch(words[0].text)):
        given.append((found[1], Word(found[2])))
        words = words[1:]
    return given, words


def cuts_lines(words: Sequence[Word]) -> bool:
    """Whether an xargs takes lines apart at something else than their ends."""
    call = read_call(HARMLESS_WRAPPERS["xargs"][0], words, to_operand=True)
    marks = [] if isinstance(call, str) else call.values("-d", "--delimiter")
    return any(mark not in {r"\n", r"\0", "\n"} for mark in marks)


def listed_in(words: Sequence[Word]) -> list[Word]:
    """The files from which an xargs takes words, in place of its input."""
    call = read_call(HARMLESS_WRAPPERS["xargs"][0], words, to_operand=True)
    options = () if isinstance(call, str) else call.options
    return [value for name, value in options if value and name in {"-a", "--arg-file"}]


def _filled(inner: tuple[Word, ...], call: Call) -> tuple[Word, ...]:
    """With xargs, words come from the input: wherever the mark stands, and at the end, where `-n` and `-L` put them
    whatever was said of a mark."""
    marks = call.values("-I", "-i", "--replace")
    if not marks and call.has("-i", "--replace"):
        marks = ["{}"]
    for mark in marks:
        inner = tuple(_marked(word, mark) for word in inner)
    return (*inner, STDIN)


def _marked(word: Word, mark: str) -> Word:
    """A word in which the mark is replaced. With more around it, it names what nobody has seen."""
    if word.text == mark:
        return STDIN
    return Word(word.text, exact=False, hidden=True) if mark in word.text else word
