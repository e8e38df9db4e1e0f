"""Files outside of the root that an agent may read in one session, by exact path: what was too long to show."""

from __future__ import annotations

import contextlib
import os
import tempfile

from hookline._temporary import temporary_directory

_readable: dict[str, set[str]] = {}
"""Paths by session."""
_directories: dict[str, str] = {}


def keep_text(session: str, text: str) -> str:
    """Write a text to a new file that only this user, and the agent in this session, can read. Gives its path."""
    directory = _directories.get(session)
    if directory is None or not os.path.isdir(directory):  # somebody may have cleared /tmp
        directory = _directories[session] = str(temporary_directory())
    descriptor, path = tempfile.mkstemp(".txt", "output-", directory)  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    _readable.setdefault(session, set()).add(path)
    return path


def is_readable(session: str, path: object) -> bool:
    """Whether the agent may read this file in this session."""
    return isinstance(path, str) and path in _readable.get(session, ())


def remove_texts(session: str) -> None:
    """A session is over."""
    for path in _readable.pop(session, ()):
        with contextlib.suppress(OSError):
            os.unlink(path)
    directory = _directories.pop(session, None)
    if directory is not None:
        with contextlib.suppress(OSError):
            os.rmdir(directory)
