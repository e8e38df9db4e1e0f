"""What sessions are called."""

from __future__ import annotations

import os
import re

from hookline.errors import UsageError
from hookline.journal import PromptSubmitted
from hookline.state import checked_text

_ID = re.compile(r"[\w.@:+-]+")
_LONGEST = 80
"""Characters of a prompt that make a title."""


def new_id() -> str:
    """A name that no other session has."""
    return os.urandom(6).hex()


def checked_id(session_id: object) -> str:
    """The id of a session; refuses what cannot be one."""
    if not isinstance(session_id, str) or not _ID.fullmatch(session_id):
        raise UsageError(
            f"{session_id!r} cannot be the id of a session.",
            remedy="Use letters, digits and . _ - + : @ only.",
        )
    return session_id


def checked_title(title: object) -> str:
    """A title; refuses what cannot be one."""
    if not isinstance(title, str):
        raise UsageError(f"a title is text, not {title!r}.")
    return checked_text(title, "a title")


def title_from(prompt: PromptSubmitted | None) -> str:
    """A title made of how a prompt begins: one line, and not too long."""
    words = " ".join(prompt.text.split()) if prompt is not None else ""
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1].rstrip() + "…"
