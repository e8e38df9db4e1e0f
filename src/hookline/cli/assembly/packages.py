"""Capabilities of installed packages: entry points in the group `hookline.capabilities`.

A package is imported when a configuration that is in force names its capability, and never before: a package that came
as a dependency of another one changes no agent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from typing import Any, NamedTuple

from hookline.errors import ConfigError

GROUP = "hookline.capabilities"


class PackagedCapability(NamedTuple):
    """A capability that an installed package offers."""

    name: str
    package: str
    """With its version, as in `acme-hooks 1.2`."""
    entry: EntryPoint

    def load(self, where: str) -> Any:
        """Import its class, or the function that makes it."""
        try:
            found = self.entry.load()
        except Exception as error:  # whatever the module does
            raise ConfigError(
                f"{where}: '{self.name}' of {self.package} cannot be imported: {error!r}.",
                remedy="Install another version of it, or remove the capability from the configuration.",
            ) from error
        if not callable(found):
            raise ConfigError(
                f"{where}: '{self.name}' of {self.package} is neither a class nor a function.",
                remedy=f"Its entry point names {self.entry.value}.",
            )
        return found


class NamedCapability:
    """A capability of a package under the name that the configuration has for it, so that lists can show the package.

    Its own name could be anything, and one that speaks for the user would be listed as the user's.
    """

    speaks_for_user = False

    def __init__(self, capability: Any, name: str) -> None:
        self.name = name
        self._capability = capability

    def __getattr__(self, attribute: str) -> Any:
        """Whatever the capability has: hooks, tools and the rest."""
        return getattr(self._capability, attribute)


def packaged_capabilities() -> Iterator[PackagedCapability]:
    """What the installed packages offer; nothing is imported.

    The current directory does not count, though it may be on Python's path: what is in a repository is not installed.
    """
    places = [each for each in sys.path if each and not _is_here(each)]
    seen: set[str] = set()
    for each in distributions(path=places):
        if each.name not in seen:  # Python takes the first, too
            seen.add(each.name)
            for entry in each.entry_points.select(group=GROUP):
                yield PackagedCapability(entry.name, f"{each.name} {each.version}", entry)


def _is_here(place: str) -> bool:
    return os.path.realpath(place) == str(Path.cwd().resolve())


def find_packaged(name: str) -> PackagedCapability | None:
    """The capability with this name; an error if two packages have one."""
    found = [each for each in packaged_capabilities() if each.name == name]
    if len(found) > 1:
        owners = " and ".join(sorted(each.package for each in found))
        raise ConfigError(
            f"the capability '{name}' is offered by {owners}.", remedy="Uninstall all but one."
        )
    return found[0] if found else None
