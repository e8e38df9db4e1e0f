"""awk: which programs only compute and print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hookline.containment.shell.options import Program, but
from hookline.containment.shell.words import Word

_REFUSED = frozenset(
    [
        "system",
        "getline",
        "close",
        "ENVIRON",
        "ARGV",
        "ARGC",
        "PROCINFO",
        "SYMTAB",
        "FUNCTAB",
        "eval",
        "extension",
    ]
)
_KEYWORDS = frozenset(
    [
        "print",
        "printf",
        "return",
        "in",
        "else",
        "do",
        "exit",
        "case",
        "delete",
        "while",
        "if",
        "for",
        "getline",
    ]
)
_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+) | (?P<string>"(?:[^"\\\n]|\\[^\n])*") | (?P<name>[A-Za-z_]\w*) | (?P<number>[0-9.]+)
        | (?P<other>\|\||&&|>=|<=|==|!=|\+\+|--|.|\n)""",
    re.VERBOSE,
)
_REGEX = re.compile(r"/(?:[^/\\\n\[\]]|\\[^\n]|\[\^?\]?[^\]\n/]*\])+/")
_BEFORE_REGEX = frozenset({"", "{", "(", "~", "!", "&&", "||", ";", ",", "\n", "}"})


def check_awk(words: Sequence[Word]) -> str | None:
    """Why a call of awk may write, run or read something else, or None."""
    pending = iter(words)
    for word in pending:
        if not word.exact:
            return "its program is not known"
        if word.text in {"-F", "-v"}:
            next(pending, None)
        elif not re.match(r"-[Fv].", word.text) and word.text != "--":
            if word.text.startswith("-"):
                return f"the option {word.text}"
            break
    else:
        return "it has no program"
    # What follows the program is read as files or as variables, never as options.
    return _program_problem(word.text)


def _program_problem(program: str) -> str | None:
    printing = False
    for token in _tokens(program):
        if token is None:
            return "its program cannot be read for certain"
        if token in _REFUSED or token in {"|", "@"}:
            return f"its program uses {token}"
        if token in {"print", "printf"}:
            printing = True
        elif token in {";", "}"}:  # not at the end of a line: a statement may go on in the next
            printing = False
        elif printing and token.startswith(">"):
            return "its program may write files"
    return None


def _tokens(program: str) -> Iterator[str | None]:
    """The tokens of an awk program, strings and patterns as `"`; None where it is not certain what follows."""
    at, before = 0, ""
    while at < len(program):
        if program[at] == "/" and before in _BEFORE_REGEX:
            found = _REGEX.match(program, at)
            token = '"' if found else None
        else:
            found = _TOKEN.match(program, at)
            token = _plain(found, before)
        if found is None or token is None:
            yield None
            return
        at = found.end()
        if token:
            yield token
            before = token


def _plain(found: re.Match[str] | None, before: str) -> str | None:
    """The token as text: empty for blanks, None for what is refused."""
    if found is None:
        return None
    if found["blank"]:
        return ""
    if found["string"]:
        return '"'
    text = found[0]
    if text in {'"', "#", "\\"} or (text == "/" and not _divides(before, found)):
        return None
    return text


def _divides(before: str, found: re.Match[str]) -> bool:
    """Whether a slash is a division for certain. After a bracket it may begin a pattern, if another slash ends it."""
    if before == ")":
        return "/" not in found.string[found.end() :]
    return before not in _KEYWORDS and (before[-1:].isalnum() or before in {"]", '"', "_"})


AWK = Program(but(check=check_awk, loose=True))
