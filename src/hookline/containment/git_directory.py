"""What a git directory is: one definition, for the file jail and for the sandbox.

git itself wants `HEAD`, `objects` and `refs`, or a `HEAD` and a `commondir` that leads to the others. A command can
move one of them away and put it back later, so less counts here. When the jail and the sandbox had definitions of their
own, what only one of them knew could be written through the other.
"""

from __future__ import annotations

from collections.abc import Container

PARTS_OF_GIT = ("HEAD", "objects", "refs", "commondir")
"""The entries by which a git directory is known that is not called `.git`."""


def is_git_directory(names: Container[str]) -> bool:
    """Whether git may obey what is in a directory with these entries, now or when a command has put a part back.

    `HEAD` beside `refs` is not enough: git's logs have both. A sandbox keeps `objects` from being moved away.
    """
    has_store = "objects" in names and ("refs" in names or "HEAD" in names)
    return "commondir" in names or has_store
