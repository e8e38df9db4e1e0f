"""Programs that run another one: where the inner command begins."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hookline.containment.shell.words import Word

STDIN = Word("...", exact=False, hidden=True)
"""Words that xargs reads from its input."""
NAMES = Word("...", exact=False)
"""The same where they are known to be names of files."""


class Wrapper(msgspec.Struct, frozen=True):
    """How a wrapper's own words end: its options, those of them with a value, and how many words come first."""

    flags: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    operands: int = 0


def _wrapper(flags: str = "", takes: str = "", operands: int = 0) -> Wrapper:
    return Wrapper(frozenset(flags.split()), frozenset(takes.split()), operands)


HARMLESS_WRAPPERS: dict[str, Wrapper] = {
    "nice": _wrapper(takes="-n"),
    "timeout": _wrapper("--foreground --preserve-status -v", "-k -s", operands=1),
    "stdbuf": _wrapper("-oL -o0 -eL -e0 -iL -i0"),
    "builtin": _wrapper(),
    "command": _wrapper("-p"),
    "xargs": _wrapper(
        "-0 -r -t -x --null --no-run-if-empty --verbose", "-n -P -L -d -s -I --max-args"
    ),
}
"""Wrappers that change nothing about what the inner command does. Those that take it from elsewhere are not here."""


def inner_words(name: str, words: Sequence[Word]) -> tuple[Word, ...] | None:
    """The command that a harmless wrapper runs. None if there is none, or the wrapper is used in another way."""
    wrapper = HARMLESS_WRAPPERS.get(name)
    if wrapper is None:
        return None
    at, left, replaced = 0, wrapper.operands, None
    while at < len(words):
        word = words[at]
        if not word.exact:
            return None
        if word.text in wrapper.takes:
            value = words[at + 1] if at + 1 < len(words) else Word("")
            if not value.exact:  # it may become several words, and the second is what runs
                return None
            replaced = value.text if word.text == "-I" else replaced
            at += 2
        elif word.text in wrapper.flags or _has_value(wrapper, word.text):
            replaced = word.text[2:] if word.text.startswith("-I") else replaced
            at += 1
        elif word.text.startswith("-"):
            return None
        elif left:
            left -= 1
            at += 1
        else:
            return _filled(name, tuple(words[at:]), replaced)
    return None


def _has_value(wrapper: Wrapper, text: str) -> bool:
    return len(text) > 2 and text[:2] in wrapper.takes and not text.startswith("--")


def _filled(name: str, inner: tuple[Word, ...], replaced: str | None) -> tuple[Word, ...]:
    """With xargs, words come from the input: wherever the mark stands, and at the end, where `-n` and `-L` put them
    whatever was said of a mark."""
    if name != "xargs":
        return inner
    if replaced is None:
        return (*inner, STDIN)
    return (*(_marked(word, replaced) for word in inner), STDIN)


def _marked(word: Word, mark: str) -> Word:
    """A word in which the mark is replaced. With more around it, it names what nobody has seen."""
    if word.text == mark:
        return STDIN
    return Word(word.text, exact=False, hidden=True) if mark in word.text else word
