"""What agents obey and a command has made: it cannot be kept from being made, so it is set aside afterwards.

Something would have to lie in the place of such a file to keep a command from making one, and `AGENTS.md` is no hidden
name: `cat *.md` would trip over it. So the command may make it, and when the command ends it gets another name, under
which nobody obeys it. Nothing is lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from hookline.containment.protected import is_vouched

ASIDE = ".from-command"
"""What is added to the name."""
_NAMES = 1000


class Watch:
    """Names below a work directory at which nothing new may stay."""

    def __init__(self, root: Path, names: Iterable[str]) -> None:
        paths = [root / name for name in names]
        self._absent = [path for path in paths if not os.path.lexists(path)]
        self._links = {path: target for path in paths if (target := _target(path)) is not None}

    def set_aside(self) -> list[str]:
        """Rename what was made since, and say under which names it is now. A link that was replaced is made again."""
        moved = [aside for path in self._absent if (aside := _moved(path))]
        for path, target in self._links.items():
            if os.path.lexists(path) and _target(path) != target and (aside := _moved(path)):
                moved.append(aside)
                with contextlib.suppress(OSError):
                    os.symlink(target, path)
        return moved


def _moved(path: Path) -> str:
    """The new name of what is at a path; empty if there is nothing, or somebody has agreed to it."""
    if not os.path.lexists(path) or is_vouched(path):
        return ""
    for number in range(_NAMES):
        aside = path.with_name(f"{path.name}{ASIDE}{f'-{number}' if number else ''}")
        if not os.path.lexists(aside):
            with contextlib.suppress(OSError):
                path.rename(aside)
                return aside.name
            return ""
    return ""


def _target(path: Path) -> str | None:
    """Where a link points; None if there is no link."""
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return None
