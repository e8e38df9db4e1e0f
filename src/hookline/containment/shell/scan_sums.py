"""Arithmetic that runs nothing: of numbers, and of variables that hold nothing else.

To bash, the value of a variable is an expression in its turn, and the index in `a[$(id)]` is a command. So a name is
read only if every value that the line gives to it is a number, and it is certain to be set.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from hookline.containment.shell.words import SUM, Command, Word

NUMBERS = frozenset({"RANDOM", "SECONDS", "UID", "EUID", "PPID"})
"""Variables that bash itself keeps, as numbers."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
TOKEN = re.compile(
    rf"[0-9]+|[ ]+|\*\*(?![+*/%-])|[+*/%-](?![+*/%-])|[()]|\$?({_NAME})|\$\{{({_NAME})\}}|\$[?#]"
)
"""No sign stands beside another: `++` would set what follows it."""
STEP = re.compile(rf"\(\( *({_NAME})(?:\+\+|--| *[+-]= *[0-9]+) *\)\)")
COUNTED_FOR = re.compile(
    rf"for[ \t]*\(\( *({_NAME}) *= *([0-9]{{1,9}}) *; *\1 *(?:<=? *([0-9]{{1,9}}) *; *(?:\1\+\+|\+\+\1)"
    rf"|>=? *([0-9]{{1,9}}) *; *(?:\1--|--\1)) *\)\)"
)
_UP = frozenset({("while", "-lt"), ("while", "-le"), ("until", "-gt"), ("until", "-ge")})
_DOWN = frozenset({("while", "-gt"), ("while", "-ge"), ("until", "-lt"), ("until", "-le")})
_PRINTS_NUMBER = re.compile(
    r"wc -[clmw]|nproc|id -u|date(?: -u)? \+%[YmdHMSsjy]|grep -c [\w./:]+(?: [\w./][\w./-]*)?"
    r"|git rev-list --count [\w./@][\w./@~^-]*|seq [0-9]+(?: [0-9]+){0,2}"
)


def prints_number(output: str) -> bool:
    """Whether a command prints a number, or nothing; `seq` prints several."""
    return _PRINTS_NUMBER.fullmatch(output) is not None


def is_number(value: Word) -> bool:
    """Whether a value is one number; where a command prints it, there may be none."""
    if value.exact:
        return re.fullmatch(r"-?[0-9]+", value.text) is not None
    if value.text == "$()":
        return prints_number(value.output)
    return value.text == SUM or re.fullmatch(r"\{[0-9]+\.\.[0-9]+\}", value.text) is not None


def other_than_number(names: Collection[str], commands: Iterable[Command]) -> str | None:
    """The first of some variables to which a line may give something else than a number."""
    for command in commands if names else ():
        words = command.words
        if not words:
            given = [(name, [value]) for name, value in command.assignments]
        elif words[0] == Word("for"):
            given = [(words[1].text, list(words[3:]))]
        else:  # `read x`, or whatever else takes the name of a variable
            given = [(re.split(r"[=\[]", word.text)[0], [Word("?")]) for word in words]
        for name, values in given:
            if name in names and not all(map(is_number, values)):
                return name
    return None


def counts_to_its_end(keyword: str, test: Command, body: Iterable[Command]) -> bool:
    """Whether a loop asks how far a variable has come that its body counts on: `while [ $i -lt 3 ]`."""
    words = [word.text for word in test.words]
    if words[:1] not in (["["], ["test"]) or len(words) != (5 if words[0] == "[" else 4):
        return False
    counter = re.fullmatch(rf"\$\{{({_NAME})\}}", words[1])
    if counter is None or not re.fullmatch(rf"[0-9]+|\$\{{{_NAME}\}}", words[3]):
        return False
    up, down = (keyword, words[2]) in _UP, (keyword, words[2]) in _DOWN
    name, sign = counter[1], "+" if up else "-"
    step = re.compile(
        rf"{name}=\$\(\( *\$?{name} *\{sign} *[1-9][0-9]* *\)\)"
        rf"|\(\( *{name}(?:\{sign}\{sign}| *\{sign}= *[1-9][0-9]*) *\)\)"
    )
    return (up or down) and any(step.fullmatch(command.text) for command in body)
