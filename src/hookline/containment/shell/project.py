"""Whether the files of a project make a program do more than it is asked.

Many programs obey what lies where they stand, and in the directories above: a version of themselves that they are to
start instead, plugins, options of a machine that runs them. What is not there can do nothing; what is there is read,
or asked about.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping

Test = Callable[[str], bool]
"""Takes the path of something that is there; answers whether a program that obeys it still only looks."""
Obeyed = Mapping[str, Test]
"""What a program obeys, here and in every directory above: names, paths below a directory, patterns with a star."""

MAX_BYTES = 1_000_000
"""Of a file that is read. A longer one is asked about."""


def project_objection(places: Iterable[str], obeyed: Obeyed, own: frozenset[str]) -> str | None:
    """Why a program that stands in one of some directories may do more than it is asked, or None.

    `own` are the names that are the user's own affair in the home itself.
    """
    try:
        home = os.path.realpath(os.path.expanduser("~"))
        for level in sorted({level for place in places for level in _levels(place)}):
            for path, is_plain in _found(level, obeyed, own if level == home else frozenset()):
                if not is_plain(path):
                    return f"{path} may make it do more"
    except (OSError, ValueError):
        return "it cannot be said what it would obey there"
    return None


def never(_path: str) -> bool:
    """That it is there is enough to ask."""
    return False


def lacks(pattern: str) -> Test:
    """A file is plain if nothing in it fits a pattern, and it is written in no other way than texts are."""
    wanted = re.compile(pattern.encode())

    def test(path: str) -> bool:
        text = _text_of(path)
        return text is not None and wanted.search(text) is None

    return test


def holds_only(pattern: str) -> Test:
    """A file is plain if each of its lines fits a pattern."""
    wanted = re.compile(pattern.encode())

    def test(path: str) -> bool:
        text = _text_of(path)
        return text is not None and all(map(wanted.fullmatch, text.splitlines()))

    return test


def says_nothing_of(*keys: str) -> Test:
    """A file is plain if it is an object in JSON without some keys."""

    def test(path: str) -> bool:
        text = _text_of(path)
        try:
            value = json.loads(text) if text is not None else None
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and not value.keys() & set(keys)

    return test


def _levels(place: str) -> Iterator[str]:
    """A directory and those above it: to some programs behind a link, to others along the path that led there."""
    for start in {os.path.realpath(place), os.path.abspath(place)}:
        level, below = start, ""
        while level != below:
            yield level
            level, below = os.path.dirname(level), level


def _found(level: str, obeyed: Obeyed, own: frozenset[str]) -> Iterator[tuple[str, Test]]:
    for name, test in obeyed.items():
        if name in own:
            continue
        names = fnmatch.filter(os.listdir(level), name) if "*" in name else [name]
        paths = (os.path.join(level, one) for one in names)
        yield from ((path, test) for path in paths if os.path.lexists(path))


def _text_of(path: str) -> bytes | None:
    """What is in a plain file; None if it is none, is too long, or is not written as plain letters are."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            return None
        with open(fd, "rb", closefd=False) as file:
            text = file.read(MAX_BYTES)
    finally:
        os.close(fd)
    strange = b"\0" in text or text.startswith((b"\xff", b"\xfe", b"\xef\xbb\xbf"))
    return None if strange else text
