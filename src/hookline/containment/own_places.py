"""Where Hookline, and git for the user, keep what decides for the user, and everything that leads there.

The sandbox holds these places read-only, or refuses to run where a command could change what leads there. The file
jail refuses to change them, and the shell policy denies it. They ask each time: variables and links change.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from hookline.containment.links import ways_and_target
from hookline.containment.mount_table import all_paths
from hookline.own_directories import own_directories, whole_path

_GIT_FILES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
"""Variables that name a file of git's settings."""


class OwnPlaces(NamedTuple):
    """Whole paths, by every mount under which they or parts of them can be seen."""

    ways: list[str]
    """Links on the way, and directories that a path enters and leaves again: who replaces one decides what is read."""
    real: list[str]
    """The places themselves, whether or not there is something, without links."""


def own_places() -> OwnPlaces:
    """Configuration and trust, data and state of Hookline, and the user's settings of git."""
    found = _follow_all()
    ways = [way for *before, _ in found for way in before]
    return OwnPlaces(all_paths(*ways), all_paths(*(target for *_, target in found)))


def own_targets() -> list[str]:
    """The places themselves, by one path each: for the shell policy, which judges words, and asks often."""
    return [target for *_, target in _follow_all()]


def _follow_all() -> list[list[str]]:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    named = [*own_directories(os.environ), f"{base}/git", os.path.expanduser("~/.gitconfig")]
    named += filter(None, (os.environ.get(name) for name in _GIT_FILES))
    return [ways_and_target(whole_path(each)) for each in named]


def journal_paths(journal: object) -> list[str]:
    """The files of an agent's journal, as they were named and where they are, and the one that a variable names."""
    found = [getattr(journal, name, None) for name in ("given", "path")]
    found.append(os.path.expanduser(os.environ.get("HOOKLINE_JOURNAL", "")) or None)
    return [whole_path(each) for each in found if isinstance(each, str)]
