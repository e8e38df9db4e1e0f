"""What a file is recognised by, as it is now: to tell whether it has changed since a model saw it."""

from __future__ import annotations

import os

from hookline.capabilities.files.reading import LARGEST
from hookline.capabilities.files.texts import fingerprint, fingerprint_of_large
from hookline.containment import FileJail
from hookline.errors import NoSuchFileError


def as_it_is(
    jail: FileJail, path: str, wanted: bytes = b""
) -> tuple[os.stat_result | None, str | None]:
    """What the system knows of a file, and what it is recognised by; nothing if there is none.

    A large one is not read for that, unless it may be what is wanted there.
    """
    try:
        with jail.open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_size > LARGEST and facts.st_size != len(wanted):
                return facts, fingerprint_of_large(facts)
            content = file.read(max(LARGEST, len(wanted)) + 1)
    except NoSuchFileError:
        return None, None
    if len(content) > LARGEST and content != wanted:
        return facts, fingerprint_of_large(facts)
    return facts, fingerprint(content)


def as_made(jail: FileJail, path: str, content: bytes) -> str:
    """What a file is recognised by that was just written."""
    if len(content) <= LARGEST:
        return fingerprint(content)
    return as_it_is(jail, path)[1] or ""
