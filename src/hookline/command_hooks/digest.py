"""A digest of what a hook is made of, so that a replay can see whether it is still the hook on record."""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path

import msgspec

from hookline.command_hooks.definition import Handler
from hookline.command_hooks.scripts import with_project

_LARGEST = 1 << 20
"""Bytes of a script. What is larger is an interpreter."""


def digest_of(handler: Handler, project: Path) -> str:
    """A digest of a hook's definition and of every file that its command names."""
    files = {word: _hash(word, project) for word in _words(handler, project)}
    said = [
        repr(handler.identity),
        sorted(handler.env.items()),
        sorted(handler.headers.items()),
        handler.cwd,
        sorted(handler.pins.items()),
        sorted((word, content) for word, content in files.items() if content),
    ]
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:16]


def _words(handler: Handler, project: Path) -> list[str]:
    if handler.argv is not None:
        return [with_project(word, project) for word in handler.argv]
    command = with_project(handler.command, project)
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed: it cannot run
        return command.split()


def _hash(word: str, project: Path) -> str:
    """The hash of a file; empty if there is none, or nobody can read it."""
    path = project / os.path.expanduser(os.path.expandvars(word))
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""
