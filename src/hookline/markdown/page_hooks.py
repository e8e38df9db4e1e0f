"""Who runs the hooks that are commands in front matter: somebody else than whoever reads the rest of the page."""

from __future__ import annotations

import os
from typing import Protocol


class PageHooks(Protocol):
    """A capability that runs the hooks of pages: `CommandHooks`."""

    name: str

    def knows(self, page: str | os.PathLike[str]) -> bool:
        """Whether it has read the hooks of this page: they run, or what they guard is kept from starting."""
        ...


def has_commands(hooks: object) -> bool:
    """Whether what front matter says about hooks are commands, by event; a list names hooks of the program."""
    return isinstance(hooks, dict) and bool(hooks)
