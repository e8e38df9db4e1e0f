"""The questions of `[[ ]]` that compute nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.words import Word

_UNARY = re.compile(r"-[abcdefghknprstuwxzGLNOS]")
_TEXTS = frozenset({"==", "=", "!=", "=~", "-nt", "-ot", "-ef"})
_NUMBERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_JOINTS = (Word("&&"), Word("||"))


def asks_if_empty(words: Sequence[Word]) -> bool:
    """Whether the word that comes next is only asked to be empty, or not: then it may be a secret."""
    tests = bool(words) and words[0].text in {"[", "[[", "test"}
    return tests and len(words) > 1 and words[-1] in (Word("-z"), Word("-n"))


def is_one_question(words: Sequence[Word]) -> bool:
    """Whether a test asks one thing. If it is asked more, bash may complain, and shows the values in its complaint."""
    ends = 1 if words[0] == Word("[") else 0
    begins = 2 if words[1:2] == [Word("!")] else 1
    return len(words) == begins + 2 + ends


def sets_options(words: Sequence[Word]) -> bool:
    """Whether a command is `set`: with `set -x`, bash shows every word of what follows."""
    names = {"set", "command", "builtin"}
    return Word("set") in words and words[0].text in names


def questions_of(words: Sequence[Word]) -> list[list[Word]]:
    """What is asked between the brackets, taken apart at `&&` and `||`. An empty one where something is missing."""
    questions: list[list[Word]] = [[]]
    for word in words:
        if word in _JOINTS:
            questions.append([])
        else:
            questions[-1].append(word)
    return questions


def is_plain_question(words: Sequence[Word]) -> bool:
    """Whether it asks about a file or a text, or compares numbers that are written as such.

    With others bash computes: `[[ x -eq 0 ]]` looks x up, and runs what its value says.
    """
    if words[:1] == [Word("!")]:
        words = words[1:]
    if len(words) == 2:
        return words[0].exact and _UNARY.fullmatch(words[0].text) is not None
    if len(words) != 3 or not words[1].exact or words[0] == Word("!"):
        return False
    if words[1].text in _NUMBERS:
        return all(one.exact and re.fullmatch("-?[0-9]+", one.text) for one in words[::2])
    return words[1].text in _TEXTS
