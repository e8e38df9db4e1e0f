"""Notices that a user needs to read once. What protects less than configured is no such notice."""

from __future__ import annotations

import contextlib
import hashlib
import os

from hookline.config.locations import data_folder


def is_new(text: str) -> bool:
    """Whether this user sees a notice for the first time. If that cannot be noted, it is shown again."""
    path = data_folder(os.environ) / "notices"
    mark = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if mark in path.read_text().split():
            return False
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("a") as file:
            file.write(f"{mark}\n")
    return True
